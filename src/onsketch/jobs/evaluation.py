"""Progressive validation: every row is predicted before it is learned, so the mean loss so far is honest.

Avrim Blum, Adam Kalai, John Langford: "Beating the hold-out: bounds for k-fold and progressive
cross-validation", COLT 1999.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.jobs.tally import Progress, Record

if TYPE_CHECKING:
    from onsketch.learners.base import Learner

__all__ = ["Progress", "Record", "collisions", "determining", "features_seen", "grown", "new_progress", "progressive"]

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
    by_loss = learner.loss in ("logistic", "hinge", "squared_hinge")
    return Progress(learner.loss, by_loss if signs is None else signs)


def features_seen(learner: Learner) -> int | None:
    """Return the number of features that a learner has seen; None for a kernel learner, which keeps points."""
    from onsketch.core.errors import OptionError
    from onsketch.jobs.models import one_of

    seen = getattr(learner, "features_seen", None)
    try:
        return int(one_of(learner).coefficients()[0].size if seen is None else seen)
    except OptionError:
        return None


def grown(learner: Learner) -> tuple[str, str]:
    """Describe the size of a model in words: features seen, or the points that a kernel learner keeps."""
    seen = features_seen(learner)
    if seen is None:
        return "points", f"{learner.diagnostics()['rows_kept']:,} kept"  # type: ignore[attr-defined]
    return "features", f"{seen:,} seen"


def collisions(seen: int, bits: int) -> float:
    """Estimate the share of names that were hashed to a column of another name, from the columns in use.

    If n names fall on M = 2^bits columns, M(1 − exp(−n/M)) columns are expected in use.

    >>> round(collisions(83_122, 18), 2)  # of 100,000 names
    0.17
    """
    used = min(seen / (1 << bits), 1.0 - 1e-9)
    return 1.0 + used / math.log1p(-used) if used > 0.0 else 0.0


def determining(rows: Any, target: NDArray[np.float64]) -> NDArray[np.int64]:
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

    def summed(terms: Any) -> NDArray[np.float64]:
        return np.asarray(np.bincount(place, terms, found.size), dtype=np.float64)

    stored = summed(np.ones(x.size))
    mean = summed(x) / stored  # of the values that are not 0; sums over all rows follow
    away = x - mean[place]
    shift, square = -(n - stored) * mean, summed(away * away) + (n - stored) * mean * mean
    spread, common = square - shift * shift / n, summed(away * y[owner]) + mean * summed(y[owner])
    fits = common * common >= (1.0 - _ROUNDING) * spread * (y @ y)
    return np.asarray(found[fits & (spread > 1e-12 * square)], dtype=np.int64)
