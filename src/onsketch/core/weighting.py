"""Exponential weights: how much each of several predictors counts, given the sums of their losses.

    share_k ∝ prior_k·exp(−rate·L_k)                       (Littlestone and Warmuth 1994; Vovk 1990)
    share_k ∝ prior_k·L_k^{−rate·n/p}                      the same on the log likelihood of n residuals under Gaussian
                                                           (p = 2) or Laplace (p = 1) noise of unknown size

The second form does not depend on the unit of the labels.
"""

from __future__ import annotations

import math
from typing import Any

TINY = 1e-290
"""Losses below this count as equal in the second form."""


def exponential_weights(losses: Any, priors: Any, degree: int, count: float, rate: float, shares: Any) -> None:
    """Fill ``shares`` from sums of losses over rows of total weight ``count``; ``degree`` is p, or 0 for the first.

    A plain function: compiled loops mark it with their own options. ``shares`` may be the array of the priors.
    """
    best, total = losses[0], 0.0
    for k in range(len(priors)):
        best = min(best, losses[k])
    for k in range(len(priors)):
        worse = losses[k] - best
        if degree > 0:
            worse = count / degree * math.log(max(losses[k], TINY) / max(best, TINY))
        shares[k] = priors[k] * math.exp(-min(rate * worse, 700.0))
        total += shares[k]
    for k in range(len(priors)):
        shares[k] /= total
