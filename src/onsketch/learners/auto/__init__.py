"""The learner that needs no tuning: ``onsketch.learner("auto")``.

Seven experts learn side by side from the same rows, and the prediction is a linear mixture of theirs:

1. **scaling** (``scaling.py``): features are divided by their own or by a common mean magnitude, so that units matter
   little, and the mean squared length of the rows sets the unit of all ridges and steps;
2. **experts**: three over one shared robust frequent-directions sketch of curvature rows (``directions.py``), four with
   two numbers per feature (``diagonal.py``); steps are implicit, so that they do not overshoot;
3. **mixture** (``mixing.py``): calibrated, weighed by exponential weights on the losses, and stacked;
4. **round** (``round.py``): the passes over packed rows (``passes.py``, ``heavy.py``) and the figures kept
   (``counting.py``).

All experts are linear, hence so is the mixture: it has ``weights`` like any other learner.
"""
