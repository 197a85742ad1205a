"""A kernel learner's regret on given rows, against the best function in hindsight."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onsketch.core.errors import InputError, OptionError
from onsketch.core.kernels import OWN
from onsketch.core.losses import loss_values, losses_and_slopes
from onsketch.learners.kernel.diagnostics import Array, effective_dimension, kernel_ridge, online_effective_dimension
from onsketch.learners.kernel.learner import KernelLearner

MOST_ROWS = 3000
"""Rows that an offline solution in O(n³) is good for."""


class Study(NamedTuple):
    """Results of one pass over the rows."""

    regret: Array
    """Σ ℓ(ŷ) − ℓ(f(x)) after each round, f being the best function for all rows."""
    learner: KernelLearner
    """After the pass."""
    effective_dimension: float
    """tr K(K + αI)⁻¹ of all rows, exactly."""
    online_effective_dimension: float
    """Σ τ_t, exactly."""


def study(learner: Any, X: Any, y: Any) -> Study:
    """Let a new learner of the same method and options learn these rows, and compare with the offline solution.

    A learner with scales is compared in the scales in use.

    The opponent has the least ``Σ ℓ(f(x)) + α|f|²``, α being the learner's ridge (1 where it has none): kernel ridge
    regression for the squared loss; for logistic and squared hinge the same with their loss. It is clipped as the
    learner is. O(n³).

    >>> import onsketch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(200, 1))
    >>> found = study(onsketch.learner("pros-n-kons", gamma=1.0), X, np.sin(3 * X[:, 0]))
    >>> bool(found.regret[-1] < 0.2 * 200)
    True
    """
    if not hasattr(learner, "in_scales"):
        raise OptionError(f"{learner!r} has no kernel; regret against kernel ridge regression is for kernel learners.")
    learner, X, y = learner.in_scales(X, y)
    X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64)
    if not 0 < X.shape[0] <= MOST_ROWS:
        raise InputError(f"X: {X.shape[0]:,} rows; an offline solution is for 1 to {MOST_ROWS:,} of them.")
    fresh = type(learner)(learner.method, learner.options)
    predictions, labels = fresh.learn(X, y), np.asarray(y, dtype=np.float64)
    if hasattr(X, "toarray"):  # zeros do not matter, except perhaps to a user's function
        X = (X if fresh.kernel.form == OWN else X[:, np.unique(X.indices)]).toarray()
    K = fresh.kernel.between(X, X)
    ridge = learner.options.ridge or 1.0
    fitted = best_function(K, labels, ridge, learner.loss)
    if isinstance(learner.options.clip, float):
        fitted = np.clip(fitted, -learner.options.clip, learner.options.clip)
    regret = np.cumsum(loss_values(learner.loss, predictions, labels) - loss_values(learner.loss, fitted, labels))
    return Study(regret, fresh, effective_dimension(K, ridge), online_effective_dimension(K, ridge))


def best_function(K: Array, y: Array, ridge: float, loss: str = "squared") -> Array:
    """The values on its rows of the function with the least ``Σ ℓ(f(x)) + α|f|²``.

    In closed form for the squared loss; else by L-BFGS over the coordinates of the rows, ``K = UUᵀ``, ``f = Uw``.

    >>> best_function(np.eye(2), np.array([1.0, -1.0]), 1.0)
    array([ 0.5, -0.5])
    """
    if loss == "squared":
        return kernel_ridge(K, y, ridge)
    if loss not in ("logistic", "squared_hinge"):
        raise OptionError(f"loss={loss!r}: the best function is solved for with smooth losses only.", loss=loss)
    from scipy.optimize import minimize

    values, vectors = np.linalg.eigh(K)
    U = vectors * np.sqrt(np.maximum(values, 0.0))

    def objective(w: Array) -> tuple[float, Array]:
        each, slope = losses_and_slopes(loss, U @ w, y)
        return float(each.sum() + ridge * (w @ w)), U.T @ slope + 2.0 * ridge * w

    found = minimize(objective, np.zeros(len(K)), jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    fitted: Array = U @ found.x
    return fitted
