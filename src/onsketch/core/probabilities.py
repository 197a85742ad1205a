"""From margins to probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def logistic(z: Array) -> Array:
    """``1/(1 + e^{−z})``, without overflow."""
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0.0, 1.0, small) / (1.0 + small))


def of_two(margin: float) -> tuple[float, float]:
    """Return the probabilities of the two classes, bit for bit those of ``probabilities``: by NumPy's exponential.

    >>> of_two(0.0), of_two(-1000.0)
    ((0.5, 0.5), (1.0, 0.0))
    """
    small = float(np.exp(-abs(margin)))
    likely, unlikely = 1.0 / (1.0 + small), small / (1.0 + small)
    return (unlikely, likely) if margin > 0.0 else (likely, unlikely)


def probabilities(margins: Array, loss: str) -> Array:
    """(rows, K) probabilities from margins: (rows,) of the second of two classes, or (rows, K).

    One class against the rest gives K logistic functions, which are normalised.

    >>> probabilities(np.array([0.0, np.log(3.0)]), "logistic")
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """
    if margins.ndim == 1:
        return np.stack([logistic(-margins), logistic(margins)], axis=1)
    if loss == "softmax":
        each = np.exp(margins - margins.max(axis=1, keepdims=True))
    else:
        shift = np.minimum(margins.max(axis=1, keepdims=True) + 30.0, 0.0)  # so that some class is above 1e-13
        each = logistic(margins - shift)
    return np.asarray(each / each.sum(axis=1, keepdims=True))
