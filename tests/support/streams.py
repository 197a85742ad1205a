"""Small streams that the tests share."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOSSES = (
    "squared", "absolute", "logistic", "hinge", "squared_hinge", "quantile", "poisson", "huber", "epsilon_insensitive"
)  # fmt: skip
SMOOTH = ("squared", "logistic", "squared_hinge", "huber")
REAL = ("squared", "absolute", "quantile", "huber", "epsilon_insensitive")
EPSILON = 0.3


def labels_for(loss: str, y: Array) -> Array:
    """Labels that the loss takes, from real ones of size 1."""
    if loss == "poisson":
        return np.floor(np.exp(np.minimum(y, 2.0)))
    return y if loss in REAL else np.where(y > 0, 1.0, -1.0)


def level(loss: str) -> dict[str, float]:
    """The option of a loss with a level, one that is not its default."""
    if loss in ("huber", "epsilon_insensitive"):
        return {"epsilon": EPSILON}
    return {"quantile": 0.8} if loss == "quantile" else {}


def sparse_stream(loss: str = "squared", n: int = 80, d: int = 9, seed: int = 0) -> tuple[Array, Array]:
    """Rows half of zeros, in which features vanish and return; one row is all zeros, one comes three times."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[rng.random((n, d)) < 0.5] = 0.0
    X[: n // 2, d - 1] = 0.0  # a feature that appears late
    X[10] = 0.0
    X[20:23] = X[20]
    y = X @ rng.normal(size=d) / math.sqrt(d) + 0.2 * rng.normal(size=n)
    return X, labels_for(loss, y)


def words(n: int = 300, d: int = 8) -> tuple[Array, NDArray[np.str_]]:
    """Rows four tenths of zeros, and words for labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    return X, np.where(X @ rng.normal(size=d) > 0.0, "yes", "no")


def mixed_units(
    loss: str, n: int = 150, d: int = 9, seed: int = 0, density: float = 0.6, spread: float = 3.0
) -> tuple[Array, Array]:
    """Mixed scales, zeros, heavy tails; labels that a line explains but for some noise."""
    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.uniform(-spread, spread, d)
    X = rng.standard_t(4, size=(n, d)) * (rng.random((n, d)) < density)
    y = X @ rng.normal(size=d) + 0.5 + 0.3 * rng.normal(size=n)
    return X * scales, y * 7.0 + 30.0 if loss in REAL else labels_for(loss, y)


def blobs(n: int = 300, d: int = 6, classes: int = 4, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
    """Clouds of classes around centres of their own, features in units that are far apart."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(classes, size=n)
    X = rng.normal(size=(classes, d))[codes] + rng.normal(size=(n, d))
    return X * 10.0 ** rng.uniform(-3, 3, d) + rng.normal(size=d), codes
