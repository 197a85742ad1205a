"""The mixture: how much each expert counts, from the losses of its own predictions so far.

With L_k the (weighted) sum of expert k's losses and n the sum of sample weights, the experts count as

    sign labels   share_k ∝ exp(−RATE·L_k)          exponential weights (Vovk 1990; Littlestone and Warmuth 1994)
    real labels   share_k ∝ (L_k/n)^{−RATE·n·power}  the same on the log likelihood of a Gaussian (power ½) or Laplace
                                                     (power 1) noise of unknown size, so that the unit of y does not matter

At RATE 1 the former is Bayes' rule for the logistic loss, and costs at most ln 4 in total log loss against the best expert.
"""

from __future__ import annotations

import math

from onsketch.losses import ABSOLUTE, SQUARED
from onsketch.numerics import inner

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
        if loss == SQUARED or loss == ABSOLUTE:
            power = 0.5 if loss == SQUARED else 1.0
            worse = power * count * math.log(max(sums[k], TINY) / max(best, TINY))
        else:
            worse = sums[k] - best
        shares[k] = math.exp(-rate * worse)
        total += shares[k]
    for k in range(EXPERTS):
        shares[k] /= total
