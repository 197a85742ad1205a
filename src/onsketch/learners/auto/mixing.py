"""The mixture: how much each expert counts, from the losses of its own predictions so far.

With L_k the (weighted) sum of expert k's losses and n the sum of sample weights, the experts count as

    sign labels   share_k ∝ exp(−rate·L_k)
    real labels   share_k ∝ L_k^{−rate·n·power}, with power ½ for the squared and 1 for the absolute loss

The former is exponential weighting (Vovk 1990; Littlestone and Warmuth 1994); at rate 1 it is Bayes' rule for the
logistic loss. The latter is the same on the log likelihood under Gaussian or Laplace noise of unknown size, so that
the unit of y does not matter. Margins, not probabilities, are averaged: the mixture stays linear.
"""

from __future__ import annotations

import math

from onsketch.core.losses import ABSOLUTE, SQUARED
from onsketch.jit.decorators import inner

EXPERTS = 4

TINY = 1e-290


@inner
def combine(margins, shares, low, high):
    """The mixture's prediction: the experts' margins, each kept within the bounds, averaged."""
    total = 0.0
    for k in range(EXPERTS):
        total += shares[k] * min(max(margins[k], low), high)
    return min(max(total, low), high)


@inner
def set_shares(loss, rate, sums, count, shares):
    """Fill ``shares`` from the sums of losses over rows of total weight ``count``."""
    best = sums[0]
    for k in range(1, EXPERTS):
        best = min(best, sums[k])
    total = 0.0
    for k in range(EXPERTS):
        if loss in (SQUARED, ABSOLUTE):
            power = 0.5 if loss == SQUARED else 1.0
            worse = power * count * math.log(max(sums[k], TINY) / max(best, TINY))
        else:
            worse = sums[k] - best
        shares[k] = math.exp(-rate * worse)
        total += shares[k]
    for k in range(EXPERTS):
        shares[k] /= total
