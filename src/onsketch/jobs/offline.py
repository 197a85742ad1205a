"""The best fixed weights in hindsight: what regret is measured against."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError
from onsketch.core.losses import LOSSES

Array = NDArray[np.float64]

MOST_VALUES = 200_000_000
"""Largest number of values held in memory to solve for the best weights."""


def stacked(blocks: Iterable[tuple[Any, Array, Array | None]]) -> tuple[Any, Array, Array]:
    """All rows of a stream as one CSR matrix, with labels and weights; refused where they would not fit."""
    from scipy.sparse import csr_array, vstack

    parts, labels, weights, held = [], [], [], 0
    for X, y, share in blocks:
        rows = csr_array(X)
        held += rows.nnz
        if held > MOST_VALUES:
            raise OptionError(f"the stream has more than {MOST_VALUES:,} values, too many to solve for in memory.")
        parts.append(rows)
        labels.append(y)
        weights.append(np.ones(len(y)) if share is None else share)
    if not parts:
        raise InputError("there is not a single row.")
    width = max(part.shape[1] for part in parts)
    for part in parts:
        part.resize((part.shape[0], width))
    return csr_array(vstack(parts)), np.concatenate(labels), np.concatenate(weights)


def best_fixed_loss(loss: str, X: Any, y: Array, weights: Array, intercept: bool = True) -> float:
    """``min_w Σ c_t ℓ(w·x_t, y_t)``, by L-BFGS (squared, logistic, squared hinge and Poisson loss).

    Columns are scaled to unit length first, which changes nothing but the number of steps. What separable data
    leave at infinity is approached, not reached: the figure is an upper bound of the infimum.

    >>> best_fixed_loss("squared", np.array([[1.0], [1.0]]), np.array([1.0, 3.0]), np.ones(2), intercept=False)
    2.0
    """
    from scipy.optimize import minimize
    from scipy.sparse import csr_array, hstack

    if loss not in LOSSES or not LOSSES[loss].smooth:
        raise OptionError(f"loss={loss!r}: the best fixed weights are solved for smooth losses only.")
    rows = csr_array(X)
    if intercept:
        rows = csr_array(hstack([rows, np.ones((rows.shape[0], 1))]))
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=0)).ravel())
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)

    def value(w: Array) -> tuple[float, Array]:
        z = rows @ (scale * w)
        each, slope = loss_and_slope(loss, z, y)
        return float(weights @ each), scale * (rows.T @ (weights * slope))

    found = minimize(
        value, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 1000, "maxcor": 20}
    )
    return round(float(found.fun), 12)


def loss_and_slope(loss: str, z: Array, y: Array) -> tuple[Array, Array]:
    """A smooth loss and its slope at each margin."""
    from scipy.special import expit

    if loss == "squared":
        return (z - y) ** 2, 2.0 * (z - y)
    if loss == "logistic":
        return np.logaddexp(0.0, -y * z), -y * expit(-y * z)
    if loss == "poisson":
        rate = np.exp(np.minimum(z, 100.0))
        return rate - y * z, rate - y
    short = np.maximum(0.0, 1.0 - y * z)
    return short**2, -2.0 * y * short
