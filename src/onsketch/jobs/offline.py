"""The best fixed weights in hindsight: what regret is measured against."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import OptionError
from onsketch.core.losses import LOSSES, losses_and_slopes

Array = NDArray[np.float64]


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
        raise OptionError(f"loss={loss!r}: the best fixed weights are solved for smooth losses only.", loss=loss)
    rows = csr_array(X)
    if intercept:
        rows = csr_array(hstack([rows, np.ones((rows.shape[0], 1))]))
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=0)).ravel())
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)

    def value(w: Array) -> tuple[float, Array]:
        z = rows @ (scale * w)
        each, slope = losses_and_slopes(loss, np.minimum(z, 100.0) if loss == "poisson" else z, y)
        return float(weights @ each), scale * (rows.T @ (weights * slope))

    found = minimize(
        value, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 1000, "maxcor": 20}
    )
    return round(float(found.fun), 12)
