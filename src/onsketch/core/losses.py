"""The losses: value, slope and curvature in the margin z, for one label y.

==============  ====================  ===============================  ==========================
name            value ℓ(z, y)         slope ℓ'(z)                      curvature ℓ''(z)
==============  ====================  ===============================  ==========================
squared         (z − y)²              2(z − y)                         2
absolute        |z − y|               sign(z − y)                      refused
logistic        log(1 + e^{−yz})      −y / (1 + e^{yz})                p(1 − p), at least FLOOR
hinge           max(0, 1 − yz)        −y where yz < 1                  refused
squared_hinge   max(0, 1 − yz)²       −2y max(0, 1 − yz)               2 where yz < 1, else FLOOR
==============  ====================  ===============================  ==========================

The slope at a kink is 0. Inside compiled loops a loss is a small integer, so that one compiled kernel
serves them all; a number that is no loss gives NaN, and the round is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onsketch.jit.decorators import inner, kernel

SQUARED, ABSOLUTE, LOGISTIC, HINGE, SQUARED_HINGE = range(5)

FLOOR = 0.05
"""Least curvature of a logistic or squared-hinge row, so that confident rows still count for something."""


@dataclass(frozen=True)
class Loss:
    """What a learner needs to know of a loss beyond its formulas."""

    name: str
    code: int
    labels: str
    """``"sign"`` (−1 or +1) or ``"real"``."""
    smooth: bool
    """Whether it has a curvature to sketch (``summary="curvature"``)."""

    sigma: Callable[[float], float]
    """The σ of luo2016's Assumption 2, of a bound on |z|."""

    def exp_concavity(self, clip: float | None) -> float:
        """The σ of luo2016's Assumption 2 on ``|z| ≤ clip`` (1 where predictions are not clipped).

        It asks for ``ℓ(z') ≥ ℓ(z) + ℓ'(z)(z' − z) + σ/2·(ℓ'(z)(z' − z))²`` for all margins, and labels of real losses,
        within ±clip. Squared: 1/(8C²). Logistic: e^{−C}. Squared hinge: the worst pair is z = −C, z' = C, which gives
        (3C − 1)/(8C²(1 + C)) for C ≥ 1 and 1/(2(1 + C)²) below. Losses with straight pieces have none, σ = 0.
        """
        return self.sigma(1.0 if clip is None else clip)


def _none(bound: float) -> float:
    return 0.0


def _squared(bound: float) -> float:
    return 1.0 / (8.0 * bound * bound)


def _logistic(bound: float) -> float:
    return math.exp(-bound)


def _squared_hinge(bound: float) -> float:
    if bound < 1.0:  # both margins on the same side of the kink
        return 1.0 / (2.0 * (1.0 + bound) ** 2)
    return (3.0 * bound - 1.0) / (8.0 * bound * bound * (1.0 + bound))


LOSSES = {
    loss.name: loss
    for loss in (
        Loss("squared", SQUARED, "real", smooth=True, sigma=_squared),
        Loss("absolute", ABSOLUTE, "real", smooth=False, sigma=_none),
        Loss("logistic", LOGISTIC, "sign", smooth=True, sigma=_logistic),
        Loss("hinge", HINGE, "sign", smooth=False, sigma=_none),
        Loss("squared_hinge", SQUARED_HINGE, "sign", smooth=True, sigma=_squared_hinge),
    )
}


@inner
def value(code, z, y):
    """ℓ(z, y)."""
    if code == SQUARED:
        return (z - y) * (z - y)
    if code == ABSOLUTE:
        return abs(z - y)
    margin = y * z
    if code == LOGISTIC:
        if margin > 0.0:
            return math.log1p(math.exp(-margin))
        return math.log1p(math.exp(margin)) - margin
    short = max(0.0, 1.0 - margin)
    if code == HINGE:
        return short
    return short * short if code == SQUARED_HINGE else math.nan


@inner
def slope(code, z, y):
    """ℓ'(z)."""
    if code == SQUARED:
        return 2.0 * (z - y)
    if code == ABSOLUTE:
        return 1.0 if z > y else (-1.0 if z < y else 0.0)
    margin = y * z
    if code == LOGISTIC:
        if margin > 0.0:
            odds = math.exp(-margin)
            return -y * odds / (1.0 + odds)
        return -y / (1.0 + math.exp(margin))
    if code == HINGE:
        return -y if margin < 1.0 else 0.0
    if code == SQUARED_HINGE:
        return -2.0 * y * (1.0 - margin) if margin < 1.0 else 0.0
    return math.nan


@inner
def curvature(code, z, y):
    """ℓ''(z), floored where it may vanish."""
    if code == LOGISTIC:
        odds = math.exp(-abs(z))
        return max(FLOOR, odds / ((1.0 + odds) * (1.0 + odds)))
    if code == SQUARED_HINGE and y * z >= 1.0:
        return FLOOR
    if code == SQUARED:
        return 2.0
    return 2.0 if code == SQUARED_HINGE else math.nan


@kernel
def _fill_values(code, margins, labels, out):
    for i in range(out.size):
        out[i] = value(code, margins[i], labels[i])


def loss_values(name: str, margins: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
    """The loss of each margin.

    >>> loss_values("squared", [0.5, -1.0], [1.0, 1.0])
    array([0.25, 4.  ])
    """
    z = np.ascontiguousarray(margins, dtype=np.float64)
    out = np.empty_like(z)
    _fill_values(LOSSES[name].code, z, np.ascontiguousarray(labels, dtype=np.float64), out)
    return out
