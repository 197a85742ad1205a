"""How hard a stream is for a kernel, and how well a learner did on it: effective dimensions and regret."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError
from onsketch.core.kernels import Kernel
from onsketch.sketches.base import real_number

Array = NDArray[np.float64]


def _matrix(K: Any) -> Array:
    matrix = np.asarray(K, dtype=np.float64)
    if matrix.ndim != 2 or len(matrix) != matrix.shape[1] or not np.isfinite(matrix).all():
        raise InputError(f"K: expected a square matrix of finite kernel values, got shape {matrix.shape}.")
    return matrix


def effective_dimension(K: Any, ridge: float) -> float:
    """``d_eff(α) = tr K(K + αI)⁻¹``: the number of directions of the rows with more energy than the ridge. O(n³).

    >>> effective_dimension(np.diag([100.0, 100.0, 0.01, 0.0]), ridge=1.0)  # two, and a hundredth
    1.99...
    """
    real_number("ridge", ridge, above=0.0, at_most=1e300, closed=False)
    values = np.maximum(np.linalg.eigvalsh(_matrix(K)), 0.0)
    return float((values / (values + ridge)).sum())


def online_effective_dimension(K: Any, ridge: float) -> float:
    """``d_onl(α) = Σ_t τ_t``, each row's ridge leverage score among the rows up to it. O(n³).

    With ``K + αI = LLᵀ``, ``τ_t = 1 − α/L_tt²``. Between d_eff and ``log det(K/α + I)``.

    >>> online_effective_dimension(np.ones((3, 3)), ridge=1.0)  # 1/2 + 1/3 + 1/4
    1.083...
    """
    real_number("ridge", ridge, above=0.0, at_most=1e300, closed=False)
    matrix = _matrix(K)
    pivots = np.diag(np.linalg.cholesky(matrix + ridge * np.eye(len(matrix)))) ** 2
    return float((1.0 - ridge / np.maximum(pivots, ridge)).sum())


def kernel_ridge(K: Any, y: Any, ridge: float) -> Array:
    """Kernel ridge regression offline: ``f = K(K + αI)⁻¹y`` on its rows, least ``Σ(f(x) − y)² + α|f|²``. O(n³)."""
    from scipy.linalg import cho_factor, cho_solve

    matrix = _matrix(K)
    real_number("ridge", ridge, above=0.0, at_most=1e300, closed=False)
    factor = cho_factor(matrix + ridge * np.eye(len(matrix)), lower=True)
    fitted: Array = matrix @ cho_solve(factor, np.asarray(y, dtype=np.float64))
    return fitted


def regret(predictions: Any, X: Any, y: Any, kernel: Kernel, ridge: float = 1.0, clip: float | None = None) -> Array:
    """``Σ_{s≤t} (ŷ_s − y_s)² − (f(x_s) − y_s)²`` after each round, f being kernel ridge regression on all rows.

    Args:
        predictions: the result of ``learn`` for these rows.
        X: the rows, an array or a SciPy sparse matrix.
        y: the labels.
        kernel: the learner's (``learner.kernel``).
        ridge: α of the regression; the smaller, the stronger the opponent.
        clip: bound of the opponent's predictions.

    Only for the squared loss. O(n³), so for some thousands of rows.

    >>> import onsketch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(300, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=300)
    >>> learner = onsketch.learner("kons", summary="curvature", gamma=1.0, clip=None)
    >>> against = regret(learner.learn(X, y), X, y, learner.kernel)
    >>> bool(against[-1] < 0.06 * 300) and bool(against[-1] - against[150] < 0.3 * against[150])  # it flattens
    True
    """
    rows = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=np.float64)
    labels, given = np.asarray(y, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    if labels.shape != (len(rows),) or given.shape != (len(rows),):
        raise InputError(f"regret: {len(rows)} rows, {labels.shape} labels and {given.shape} predictions do not match.")
    fitted = kernel_ridge(kernel.for_width(rows.shape[1]).between(rows, rows), labels, ridge)
    if clip is not None:
        fitted = np.clip(fitted, -clip, clip)
    return np.cumsum((given - labels) ** 2 - (fitted - labels) ** 2)
