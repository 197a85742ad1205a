"""Progressive validation: every row is predicted before it is learned, so the mean loss so far is honest.

Avrim Blum, Adam Kalai, John Langford: "Beating the hold-out: bounds for k-fold and progressive
cross-validation", COLT 1999.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import OptionError
from onsketch.core.losses import LOSSES, losses_and_slopes
from onsketch.jobs.models import loss_of
from onsketch.jobs.tally import Progress, Record

if TYPE_CHECKING:
    from onsketch.learners.base import Learner

__all__ = ["Progress", "Record", "best_fixed_loss", "determining", "new_progress", "progressive"]

Array = NDArray[np.float64]

LOOKED_AT = 2000
"""Rows in which columns are compared with the label."""
_ENOUGH = 100
_ROUNDING = 1e-6


def progressive(
    learner: Learner,
    blocks: Iterable[Any],
    on_record: Callable[[Record], object] | None = None,
    signs: bool | None = None,
) -> Progress:
    """Learn a stream of blocks, predicting each row first; returns the final tally.

    Args:
        learner: any learner.
        blocks: ``(X, y)`` or ``(X, y, sample_weight)``, as :func:`onsketch.data.stream` yields them.
        on_record: called with a :class:`Record` at rows 1, 2, 4, 8, …, for a tracker or a log.
        signs: whether labels are −1 and +1, so that mistakes are counted; by the loss when left out.

    >>> import numpy as np, onsketch
    >>> from onsketch.jobs.evaluation import progressive
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(512, 4))
    >>> y = np.sign(X @ [1.0, 2.0, 0.0, -1.0])
    >>> seen = []
    >>> total = progressive(onsketch.learner("adagrad", loss="logistic"), [(X, y)], lambda r: seen.append(r.rows))
    >>> seen
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    >>> total.error < 0.15
    True
    """
    progress = new_progress(learner, signs)
    for X, y, *weights in blocks:
        predictions = learner.learn(X, y, *weights)
        for record in progress.add(progress.judged(y, predictions, *weights), X):
            if on_record is not None:
                on_record(record)
    return progress


def new_progress(learner: Learner, signs: bool | None = None) -> Progress:
    """Return an empty tally; unless given, mistakes are counted if the learner's loss is for labels −1 and +1."""
    loss = loss_of(learner)
    return Progress(loss, loss in ("logistic", "hinge", "squared_hinge") if signs is None else signs)


def determining(rows: Any, target: Array) -> NDArray[np.int64]:
    """Return the features that are a linear function of the target in the first rows, but for rounding.

    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> determining(X, 2.0 - 3.0 * X[:, 1]).tolist()
    [1]
    """
    y = np.asarray(target[:LOOKED_AT], dtype=np.float64)
    y, n = y - y.mean() if y.size else y, y.size
    if n < _ENOUGH or not y.any():
        return np.empty(0, dtype=np.int64)
    if hasattr(rows, "indptr"):
        stop = int(rows.indptr[n])
        owner, features, x = (
            np.repeat(np.arange(n), np.diff(rows.indptr[: n + 1])),
            rows.indices[:stop],
            rows.data[:stop],
        )
    else:
        owner, features = np.nonzero(rows[:n])
        x = rows[owner, features]
    found, place = np.unique(features, return_inverse=True)

    def summed(terms: Any) -> Array:
        return np.asarray(np.bincount(place, terms, found.size), dtype=np.float64)

    stored = summed(np.ones(x.size))
    mean = summed(x) / stored  # of the values that are not 0; sums over all rows follow
    away = x - mean[place]
    shift, square = -(n - stored) * mean, summed(away * away) + (n - stored) * mean * mean
    spread, common = square - shift * shift / n, summed(away * y[owner]) + mean * summed(y[owner])
    fits = common * common >= (1.0 - _ROUNDING) * spread * (y @ y)
    return np.asarray(found[fits & (spread > 1e-12 * square)], dtype=np.int64)


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
