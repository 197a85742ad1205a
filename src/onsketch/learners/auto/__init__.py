"""The learner that needs no tuning: ``onsketch.learner("auto")``.

Four experts learn side by side from the same rows, two by a sketched online Newton step and two by AdaGrad, and the
prediction is their average, weighted by how well each has predicted so far:

1. **scaling** (``scaling.py``): every feature is divided by its mean magnitude, so that its unit does not matter, and
   the mean squared length of the rows sets the unit of all ridges and steps;
2. **experts** (``experts.py``, ``directions.py``): two ridges over one shared robust frequent-directions sketch of
   curvature rows, two step sizes of AdaGrad; every step is implicit (``implicit.py``), so that none overshoots;
3. **mixture** (``mixing.py``): exponential weights on the losses.

All experts are linear, hence so is the mixture: it has ``weights`` like any other learner.
"""
