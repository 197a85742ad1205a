"""The losses, their slopes and curvatures, and how exp-concave each is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from definitions.options import Options

CURVATURE_FLOOR = 0.05
"""The least ``ℓ''`` of a curvature row, for the losses whose second derivative may vanish."""


class Loss(NamedTuple):
    """``ℓ(z, y)``, its derivative in z (0 at a kink), and the second derivative of curvature rows."""

    value: Callable[[float, float], float]
    slope: Callable[[float, float], float]
    curvature: Callable[[float, float], float] | None


def _sigmoid(z: float) -> float:
    return float(np.exp(-np.logaddexp(0.0, -z)))


LOSSES = {
    "squared": Loss(
        value=lambda z, y: (z - y) ** 2,
        slope=lambda z, y: 2.0 * (z - y),
        curvature=lambda z, y: 2.0,
    ),
    "absolute": Loss(
        value=lambda z, y: abs(z - y),
        slope=lambda z, y: float(np.sign(z - y)),
        curvature=None,
    ),
    "logistic": Loss(
        value=lambda z, y: float(np.logaddexp(0.0, -y * z)),
        slope=lambda z, y: -y * _sigmoid(-y * z),
        curvature=lambda z, y: max(_sigmoid(z) * _sigmoid(-z), CURVATURE_FLOOR),
    ),
    "hinge": Loss(
        value=lambda z, y: max(0.0, 1.0 - y * z),
        slope=lambda z, y: -y if y * z < 1.0 else 0.0,
        curvature=None,
    ),
    "squared_hinge": Loss(
        value=lambda z, y: max(0.0, 1.0 - y * z) ** 2,
        slope=lambda z, y: -2.0 * y * max(0.0, 1.0 - y * z),
        curvature=lambda z, y: 2.0 if y * z < 1.0 else CURVATURE_FLOOR,
    ),
    "poisson": Loss(
        value=lambda z, y: math.exp(z) - y * z,
        slope=lambda z, y: math.exp(z) - y,
        curvature=lambda z, y: max(math.exp(z), CURVATURE_FLOOR),
    ),
}


def pinball(level: float) -> Loss:
    """The quantile loss of this level."""
    return Loss(
        value=lambda z, y: level * (y - z) if y >= z else (1.0 - level) * (z - y),
        slope=lambda z, y: -level if z < y else 1.0 - level if z > y else 0.0,
        curvature=None,
    )


def huber(epsilon: float) -> Loss:
    """The Huber loss with this ε; its curvature is the weight of iteratively reweighted least squares."""
    return Loss(
        value=lambda z, y: (z - y) ** 2 if abs(z - y) <= epsilon else 2.0 * epsilon * abs(z - y) - epsilon**2,
        slope=lambda z, y: float(np.clip(2.0 * (z - y), -2.0 * epsilon, 2.0 * epsilon)),
        curvature=lambda z, y: 2.0 * min(1.0, epsilon / abs(z - y)) if z != y else 2.0,
    )


def insensitive(epsilon: float) -> Loss:
    """The ε-insensitive loss."""
    return Loss(
        value=lambda z, y: max(0.0, abs(z - y) - epsilon),
        slope=lambda z, y: float(np.sign(z - y)) if abs(z - y) > epsilon else 0.0,
        curvature=None,
    )


def loss_of(o: Options) -> Loss:
    """The loss that the options ask for."""
    levelled = {"quantile": pinball, "huber": huber, "epsilon_insensitive": insensitive}
    if o.loss in levelled:
        return levelled[o.loss](o.quantile if o.loss == "quantile" else o.epsilon)
    return LOSSES[o.loss]


def exp_concavity(loss: str, bound: float) -> float:
    """σ on ``|z| ≤ C``: squared 1/(8C²), logistic e^{−C}, squared hinge (3C − 1)/(8C²(1 + C)) for C ≥ 1, losses with
    straight pieces 0; C = 1 where there is no bound (Luo et al. 2016, Assumption 2).
    """
    C = bound if math.isfinite(bound) else 1.0
    hinge = (3 * C - 1) / (8 * C**2 * (1 + C)) if C >= 1 else 1 / (2 * (1 + C) ** 2)
    poisson = math.exp(-C) * min((2 * C - 1 + math.exp(-2 * C)) / (2 * C**2), 1 / (2 * math.sinh(C)) ** 2)
    table = {"squared": 1 / (8 * C**2), "logistic": math.exp(-C), "squared_hinge": hinge, "poisson": poisson}
    return table.get(loss, 0.0)
