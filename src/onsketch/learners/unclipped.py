"""Defaults for learners without a clip, such as those of the estimators.

The Newton methods of luo2016 clip margins to |z| ≤ C, and derive σ from C. Without a bound the first rows move their
own margins by 2/σ, for any sample weight, and a learner may never recover. So, if neither ``clip`` nor ``curvature``
nor ``curvature_schedule`` is given:

- the schedule is "1/t", as it is by default at ridge 0 (the first rows get more curvature than σ);
- it is "1/sqrt(t)" for losses without exp-concavity, σ = 0;
- Oja's directions are spoiled by such large rows, so margins are clipped to ±10 while learning, with σ as for ±1. This
  bounds probabilities only by 1 − 5e-5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onsketch.core.losses import LOSSES
from onsketch.learners.methods import Method

_WIDE = 10.0


def with_gentle_start(method: Method, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options completed by the defaults above.

    >>> from onsketch.learners.methods import METHODS
    >>> with_gentle_start(METHODS["rfd-son"], {"loss": "logistic", "clip": None})
    {'loss': 'logistic', 'clip': None, 'curvature_schedule': '1/t'}
    >>> with_gentle_start(METHODS["adagrad"], {"loss": "logistic", "clip": None})
    {'loss': 'logistic', 'clip': None}
    """
    given = [options.get(name) for name in ("clip", "curvature", "curvature_schedule")]
    gradient = options.get("summary") in (None, "gradient")
    loss = LOSSES.get(options.get("loss", "squared"))
    if "curvature_schedule" not in method.concerns or not gradient or given != [None, None, None] or loss is None:
        return dict(options)
    sigma = loss.exp_concavity(None)
    if method.kind.slow and sigma > 0.0 and loss.labels == "sign":
        return {**options, "clip": _WIDE, "curvature": sigma}
    return {**options, "curvature_schedule": "1/t" if sigma > 0.0 else "1/sqrt(t)"}
