"""Progressive validation: every row is predicted before it is learned, so the mean loss so far is honest.

Avrim Blum, Adam Kalai, John Langford: "Beating the hold-out: bounds for k-fold and progressive
cross-validation", COLT 1999.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from onsketch.jobs.tally import Progress, Record

if TYPE_CHECKING:
    from onsketch.learners.base import Learner

__all__ = ["Progress", "Record", "grown", "new_progress", "progressive"]


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
    """An empty tally for a learner; mistakes are counted where its loss is for labels −1 and +1, unless told."""
    by_loss = learner.loss in ("logistic", "hinge", "squared_hinge")
    return Progress(learner.loss, by_loss if signs is None else signs)


def grown(learner: Learner) -> tuple[str, str]:
    """What a model has grown to, in words: features seen, or the points that a kernel learner keeps."""
    from onsketch.core.errors import OptionError
    from onsketch.jobs.models import one_of

    seen = getattr(learner, "features_seen", None)
    if seen is not None:
        return "features", f"{seen:,} seen"
    try:
        return "features", f"{one_of(learner).coefficients()[0].size:,} seen"
    except OptionError:
        return "points", f"{learner.diagnostics()['rows_kept']:,} kept"  # type: ignore[attr-defined]
