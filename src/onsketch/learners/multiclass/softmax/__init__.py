"""Many classes without tuning: multinomial logistic regression by experts, and their calibrated pool.

1. **scaling** (``scaling.py``): features in scales of their own, centred where they are mostly there;
2. **experts** (``metrics.py``, ``directions.py``, ``adagrad.py``; ``dense_rounds.py`` and ``wide_rounds.py``): chosen
   by what the rows are like (``ways.py``); steps are implicit in all classes at once (``core/softmax.py``);
3. **pool** (``auto/pool.py``): from margins to calibrated probabilities.
"""

from onsketch.learners.multiclass.softmax.learner import SoftmaxAuto

__all__ = ["SoftmaxAuto"]
