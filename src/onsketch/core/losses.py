"""The losses: value, slope and curvature in the margin z, for one label y.

===================  ==================================  ===============================  ==========================
name                 value ℓ(z, y)                       slope ℓ'(z)                      curvature ℓ''(z)
===================  ==================================  ===============================  ==========================
squared              (z − y)²                            2(z − y)                         2
absolute             |z − y|                             sign(z − y)                      refused
logistic             log(1 + e^{−yz})                    −y / (1 + e^{yz})                p(1 − p), at least FLOOR
hinge                max(0, 1 − yz)                      −y where yz < 1                  refused
squared_hinge        max(0, 1 − yz)²                     −2y max(0, 1 − yz)               2 where yz < 1, else FLOOR
quantile             q(y − z)⁺ + (1 − q)(z − y)⁺         1 − q where z > y, −q where z<y  refused
poisson              e^z − yz, y ≥ 0                     e^z − y                          e^z, at least FLOOR
huber                r² to |r| = ε, then 2ε|r| − ε²      2r, within ±2ε                   2·min(1, ε/|r|), r = z − y
epsilon_insensitive  max(0, |z − y| − ε)                 sign(z − y) where |z − y| > ε    refused
===================  ==================================  ===============================  ==========================

The slope at a kink is 0. The quantile (pinball) loss of level q is least at the q-quantile of the labels (Koenker and
Bassett 1978): half the absolute loss at q = ½. The Poisson loss is the negative log likelihood of counts of rate e^z,
without the terms that do not depend on z. The margin is the logarithm of the predicted rate
(``in_units_of_labels``).

The Huber loss (Huber 1964) is squared for small residuals and linear for large ones. Its curvature here is that of the
parabola that touches it at r from above, the weight of iteratively reweighted least squares: it never vanishes. The
ε-insensitive loss (Vapnik 1995) ignores residuals up to ε. Both ε are in the unit of the labels.

Inside compiled loops a loss is a ``Form``, a small integer and a level, so that one compiled kernel serves all losses.
An unknown code gives NaN, and the round is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onsketch.core.tolerances import LARGEST
from onsketch.jit.decorators import inner, kernel

SQUARED, ABSOLUTE, LOGISTIC, HINGE, SQUARED_HINGE, QUANTILE, POISSON, HUBER, INSENSITIVE = range(9)

FLOOR = 0.05
"""Least curvature of a logistic, squared-hinge or Poisson row, so that confident rows still count for something."""

STEEPEST_RATE = 700.0
"""Margins of the Poisson loss count as this at most: e to their power would be infinite."""


class Form(NamedTuple):
    """A loss as compiled loops read it."""

    code: int
    level: float = 0.0
    """q of the quantile loss, ε of the Huber and the ε-insensitive loss."""
    degree: int = 0
    """p with ``ℓ(cz, cy) = c^p·ℓ(z, y)`` for all c > 0, an ε being multiplied, too; 0 if there is no such p."""


@dataclass(frozen=True)
class Loss:
    """Properties of a loss that learners need beyond its formulas."""

    name: str
    code: int
    labels: str
    """``"sign"`` (−1 or +1), ``"real"``, or ``"count"`` (numbers from 0 on)."""
    smooth: bool
    """True if it has a curvature to sketch (``summary="curvature"``)."""

    sigma: Callable[[float], float]
    """The σ of luo2016's Assumption 2, of a bound on |z|."""
    option: str = ""
    """The learner's option that gives its level, where it has one."""
    level: float = 0.0
    degree: int = 0
    """See :class:`Form`."""

    @property
    def form(self) -> Form:
        """The loss as compiled loops read it."""
        return Form(self.code, self.level, self.degree)

    @property
    def measured(self) -> bool:
        """True for a loss whose level, ε, is in the unit of the labels."""
        return self.code in (HUBER, INSENSITIVE)

    @property
    def key(self) -> str:
        """The name, and the level where there is one: what :func:`named` understands."""
        return f"{self.name} {self.level!r}" if self.option else self.name

    def takes(self, label: float) -> bool:
        """Return True if this is a label of the loss."""
        if self.labels == "sign":
            return label in (1.0, -1.0)
        return (0.0 if self.labels == "count" else -LARGEST) <= label <= LARGEST

    def exp_concavity(self, clip: float | None) -> float:
        """The σ of luo2016's Assumption 2 on ``|z| ≤ clip`` (1 where predictions are not clipped).

        The assumption is ``ℓ(z') ≥ ℓ(z) + ℓ'(z)(z' − z) + σ/2·(ℓ'(z)(z' − z))²`` for all margins, and labels of real
        losses, within ±clip. Squared: 1/(8C²). Logistic: e^{−C}. Squared hinge: the worst pair is z = −C, z' = C, which
        gives (3C − 1)/(8C²(1 + C)) for C ≥ 1 and 1/(2(1 + C)²) below. Poisson, labels within e^C: the smaller of
        e^{−C}(2C − 1 + e^{−2C})/(2C²) (z = C, z' = −C, y = 0) and e^{−C}/(2 sinh C)² (z = −C, y = e^C). Losses with
        straight pieces have none, σ = 0.
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


def _poisson(bound: float) -> float:
    falling = (2.0 * bound - 1.0 + math.exp(-2.0 * bound)) / (2.0 * bound * bound) if bound > 1e-4 else 1.0
    return math.exp(-bound) * min(falling, 1.0 / (2.0 * math.sinh(bound)) ** 2)


LOSSES = {
    loss.name: loss
    for loss in (
        Loss("squared", SQUARED, "real", smooth=True, sigma=_squared, degree=2),
        Loss("absolute", ABSOLUTE, "real", smooth=False, sigma=_none, degree=1),
        Loss("logistic", LOGISTIC, "sign", smooth=True, sigma=_logistic),
        Loss("hinge", HINGE, "sign", smooth=False, sigma=_none),
        Loss("squared_hinge", SQUARED_HINGE, "sign", smooth=True, sigma=_squared_hinge),
        Loss("quantile", QUANTILE, "real", smooth=False, sigma=_none, option="quantile", level=0.5, degree=1),
        Loss("poisson", POISSON, "count", smooth=True, sigma=_poisson),
        Loss("huber", HUBER, "real", smooth=True, sigma=_none, option="epsilon", level=0.1, degree=2),
        Loss(
            "epsilon_insensitive", INSENSITIVE, "real", smooth=False, sigma=_none, option="epsilon", level=0.1, degree=1
        ),
    )
}


def named(key: str) -> Loss:
    """The loss of this name, with the level after it.

    >>> named("quantile 0.9").level
    0.9
    """
    name, _, level = key.partition(" ")
    return replace(LOSSES[name], level=float(level)) if level else LOSSES[name]


def loss_of(options: Any) -> Loss:
    """Return the loss that a learner's options select."""
    loss = LOSSES[options.loss]
    return replace(loss, level=getattr(options, loss.option)) if loss.option else loss


def in_units_of_labels(key: str, margins: Any) -> Any:
    """Convert margins to predicted labels: e^z for the Poisson loss, unchanged for all others.

    >>> in_units_of_labels("poisson", np.array([0.0, np.log(3.0)])).round(9).tolist()
    [1.0, 3.0]
    """
    return np.exp(np.minimum(margins, STEEPEST_RATE)) if key == "poisson" else margins


@inner
def straight(loss):
    """Return True if the loss is piecewise linear, and so has no curvature."""
    return loss.code in (ABSOLUTE, HINGE, QUANTILE, INSENSITIVE)


@inner
def in_unit(loss, unit):
    """Return the loss of margins and labels that are divided by ``unit``: an ε is divided by it, too."""
    return Form(loss.code, loss.level / unit if loss.code in (HUBER, INSENSITIVE) else loss.level, loss.degree)


@inner
def slope_unit(loss, unit):
    """Return the size of slopes where residuals have the size ``unit``; 1 for slopes that have no unit."""
    if loss.code == SQUARED:
        return unit
    return min(unit, loss.level) if loss.code == HUBER else 1.0


@inner
def value(loss, z, y):
    """ℓ(z, y)."""
    code = loss.code
    if code == SQUARED:
        return (z - y) * (z - y)
    if code == ABSOLUTE:
        return abs(z - y)
    if code == QUANTILE:
        return max(loss.level * (y - z), (loss.level - 1.0) * (y - z))
    if code == POISSON:
        return math.exp(min(z, STEEPEST_RATE)) - y * z
    if code == HUBER:
        away, near = abs(z - y), min(abs(z - y), loss.level)
        return near * (2.0 * away - near)
    if code == INSENSITIVE:
        return max(0.0, abs(z - y) - loss.level)
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
def slope(loss, z, y):
    """ℓ'(z)."""
    code = loss.code
    if code == SQUARED:
        return 2.0 * (z - y)
    if code == ABSOLUTE:
        return 1.0 if z > y else (-1.0 if z < y else 0.0)
    if code == QUANTILE:
        return 1.0 - loss.level if z > y else (-loss.level if z < y else 0.0)
    if code == POISSON:
        return math.exp(min(z, STEEPEST_RATE)) - y
    if code == HUBER:
        return 2.0 * min(max(z - y, -loss.level), loss.level)
    if code == INSENSITIVE:
        return 1.0 if z - y > loss.level else (-1.0 if y - z > loss.level else 0.0)
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
def curvature(loss, z, y):
    """ℓ''(z), floored where it may vanish."""
    code = loss.code
    if code == LOGISTIC:
        odds = math.exp(-abs(z))
        return max(FLOOR, odds / ((1.0 + odds) * (1.0 + odds)))
    if code == POISSON:
        return max(FLOOR, math.exp(min(z, STEEPEST_RATE)))
    if code == SQUARED_HINGE and y * z >= 1.0:
        return FLOOR
    if code == HUBER and abs(z - y) > loss.level:
        return 2.0 * loss.level / abs(z - y)
    return 2.0 if code in (SQUARED, SQUARED_HINGE, HUBER) else math.nan


@kernel
def _fill_values(loss, margins, labels, out, slopes):
    for i in range(out.size):
        out[i] = value(loss, margins[i], labels[i])
    for i in range(slopes.size):
        slopes[i] = slope(loss, margins[i], labels[i])


def loss_values(key: str, margins: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
    """The loss of each margin; ``key`` is a name, with the level after it where the loss has one.

    >>> loss_values("squared", [0.5, -1.0], [1.0, 1.0])
    array([0.25, 4.  ])
    >>> loss_values("quantile 0.9", [0.0, 0.0], [1.0, -1.0])
    array([0.9, 0.1])
    """
    return losses_and_slopes(key, margins, labels, np.empty(0))[0]


def losses_and_slopes(
    key: str, margins: ArrayLike, labels: ArrayLike, slopes: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the loss of each margin, and its slope in ``slopes`` (up to the length of that array)."""
    z = np.ascontiguousarray(margins, dtype=np.float64)
    out, slopes = np.empty_like(z), np.empty_like(z) if slopes is None else slopes
    _fill_values(named(key).form, z, np.ascontiguousarray(labels, dtype=np.float64), out, slopes)
    return out, slopes
