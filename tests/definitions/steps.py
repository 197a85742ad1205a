"""Losses, slopes and implicit steps written out, for definitions."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from streams import EPSILON

DEGREE = {"squared": 2, "huber": 2, "absolute": 1, "quantile": 1, "epsilon_insensitive": 1}
"""Powers of the labels' unit by which losses grow; an ε grows, too."""


def with_epsilon(loss: str) -> tuple[str, float]:
    """The name of a loss, and its ε: that of ``in_unit``, or as the tests give it."""
    name, _, level = loss.partition(" ")
    return name, float(level or EPSILON)


def in_unit(loss: str, unit: float) -> str:
    """The loss of margins and labels over this unit."""
    return f"{loss} {float(EPSILON / unit)!r}" if loss in ("huber", "epsilon_insensitive") else loss


def slope_unit(loss: str, unit: float) -> float:
    """The size of slopes at residuals of this size."""
    return {"squared": unit, "huber": min(unit, EPSILON)}.get(loss, 1.0)


def value(loss: str, z: float, y: float) -> float:
    loss, epsilon = with_epsilon(loss)
    away = abs(z - y)
    return {
        "huber": away**2 if away <= epsilon else epsilon * (2.0 * away - epsilon),
        "epsilon_insensitive": max(0.0, away - epsilon),
        "squared": (z - y) ** 2,
        "absolute": abs(z - y),
        "logistic": float(np.logaddexp(0.0, -y * z)),
        "hinge": max(0.0, 1.0 - y * z),
        "squared_hinge": max(0.0, 1.0 - y * z) ** 2,
        "quantile": max(0.8 * (y - z), 0.2 * (z - y)),
        "poisson": math.exp(min(z, 700.0)) - y * z,
    }[loss]


def slope(loss: str, z: float, y: float) -> float:
    loss, epsilon = with_epsilon(loss)
    return {
        "huber": 2.0 * min(max(z - y, -epsilon), epsilon),
        "epsilon_insensitive": float(np.sign(z - y)) * (abs(z - y) > epsilon),
        "squared": 2.0 * (z - y),
        "absolute": float(np.sign(z - y)),
        "logistic": -y / (1.0 + math.exp(min(y * z, 700.0))),
        "hinge": -y * (y * z < 1.0),
        "squared_hinge": -2.0 * y * max(0.0, 1.0 - y * z),
        "quantile": -0.8 if z < y else 0.2 if z > y else 0.0,
        "poisson": math.exp(min(z, 700.0)) - y,
    }[loss]


def implicit(loss: str, z: float, y: float, length: float) -> tuple[float, float]:
    """(slope, curvature) at z' = argmin ℓ(v) + (v − z)²/(2·length)."""
    given, (loss, epsilon) = loss, with_epsilon(loss)
    if length == 0.0 or slope(given, z, y) == 0.0:
        end, s = z, slope(given, z, y)
    elif loss in ("absolute", "hinge", "quantile", "epsilon_insensitive"):
        gap = 1.0 - y * z if loss == "hinge" else abs(z - y) - epsilon * (loss == "epsilon_insensitive")
        s = slope(given, z, y)
        s *= min(1.0, gap / (length * abs(s)))
        end = z - length * s
    else:
        ends = sorted([z, z - length * slope(given, z, y)])
        pad = 1e-6 * (1.0 + abs(z))
        end = brentq(
            lambda v: v - z + length * slope(given, v, y), ends[0] - pad, ends[1] + pad, xtol=1e-15, rtol=1e-15
        )
        s = (z - end) / length if loss != "logistic" else slope(loss, end, y)
    if loss == "logistic":
        return s, -y * s * (1.0 + y * s)
    if loss == "poisson":
        return s, math.exp(end)
    if loss == "huber":
        return s, 2.0 * min(1.0, epsilon / max(abs(end - y), 1e-300))
    return s, {"squared": 2.0, "squared_hinge": 2.0 * (y * end < 1.0)}.get(loss, s * s)
