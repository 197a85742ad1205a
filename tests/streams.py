"""Small streams that the tests share."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOSSES = ("squared", "absolute", "logistic", "hinge", "squared_hinge")
SMOOTH = ("squared", "logistic", "squared_hinge")


def sparse_stream(loss: str = "squared", n: int = 80, d: int = 9, seed: int = 0) -> tuple[Array, Array]:
    """Rows half of zeros, in which features sleep and awake; one row is all zeros, one comes three times."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[rng.random((n, d)) < 0.5] = 0.0
    X[: n // 2, d - 1] = 0.0  # a feature that appears late
    X[10] = 0.0
    X[20:23] = X[20]
    y = X @ rng.normal(size=d) / math.sqrt(d) + 0.2 * rng.normal(size=n)
    return X, y if loss in ("squared", "absolute") else np.where(y > 0, 1.0, -1.0)
