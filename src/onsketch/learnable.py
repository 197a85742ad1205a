"""Rows of a stream as learners take them: with a label each, and values that can be squared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.errors import InputError
from onsketch.limits import LARGEST

if TYPE_CHECKING:
    from onsketch.data import Block
    from onsketch.task import Task

Array = NDArray[np.float64]


class Learnable(NamedTuple):
    """What of a block can be learned."""

    rows: Any
    """As ``Block.rows``, or ``Block.X`` where some were passed over."""
    y: Array
    sample_weight: Array | None
    tags: list[str] | None
    passed_over: int
    """Rows without a label, or beyond what can be squared."""


def learnable(block: Block, task: Task, skip: bool) -> Learnable:
    """The block's rows with labels as the task has them; what cannot be learned is passed over, or an error."""
    refuse_initial(block)
    unfit = np.isnan(block.y)
    if skip:
        unfit |= (np.abs(block.y) > LARGEST) | _too_long(block.rows)
        if block.sample_weight is not None:
            unfit |= block.sample_weight > LARGEST
    elif unfit.any():
        raise InputError(f"{_place(block, unfit)} has no label; on_error='skip' (--on-error skip) passes over it.")
    count = int(np.count_nonzero(unfit))
    if count == 0:
        return Learnable(block.rows, task.labels(block.y), block.sample_weight, block.tags, 0)
    kept = ~unfit
    weights = None if block.sample_weight is None else block.sample_weight[kept]
    tags = None if block.tags is None else [tag for tag, fits in zip(block.tags, kept, strict=True) if fits]
    return Learnable(block.X[kept], task.labels(block.y[kept]), weights, tags, count)


def sketchable(block: Block, skip: bool) -> tuple[Any, int]:
    """The rows that can be squared, and how many cannot and were passed over."""
    unfit = _too_long(block.rows) if skip else np.zeros(len(block), dtype=bool)
    return block.X[~unfit] if unfit.any() else block.X, int(np.count_nonzero(unfit))


def refuse_initial(block: Block) -> None:
    """Initial predictions of VW lines would have to be added to every margin, which no learner does."""
    if block.initial is not None:
        raise InputError(
            f"{_place(block, block.initial != 0.0)} has an initial prediction (the third number before '|'), which "
            "learners cannot start from; take the third number out of such lines."
        )


def _place(block: Block, rows: NDArray[np.bool_]) -> str:
    """The first of these rows, as a message names it."""
    row = block.position.rows - len(block) + int(rows.argmax()) + 1
    return f"{block.position.path}: row {row:,} of the stream"


def _too_long(rows: Any) -> NDArray[np.bool_]:
    """Rows whose length is beyond what float64 can square."""
    values = rows.data if hasattr(rows, "indptr") else rows
    count = rows.shape[0]
    if np.abs(values).max(initial=0.0) * max(values.size, 1) ** 0.5 <= LARGEST:
        return np.zeros(count, dtype=bool)
    if not hasattr(rows, "indptr"):
        lengths = np.sqrt(((values / LARGEST) ** 2).sum(axis=1))
    else:
        owner = np.repeat(np.arange(count), np.diff(rows.indptr))
        lengths = np.sqrt(np.bincount(owner, (values / LARGEST) ** 2, count))
    return np.asarray(lengths > 1.0)
