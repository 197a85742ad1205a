"""Rows of a stream as learners take them: with a label each, and values that can be squared; the others counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError
from onsketch.core.tolerances import LARGEST
from onsketch.rows.sparse import Sparse

if TYPE_CHECKING:
    from onsketch.data import Block
    from onsketch.data.task import Task

Array = NDArray[np.float64]


class Usable(NamedTuple):
    """What of a block can be used."""

    rows: Any
    """As ``Block.rows``, or ``Block.X`` where some were passed over."""
    y: Array
    """Labels as they stand in the file."""
    sample_weight: Array | None
    tags: list[str] | None
    passed_over: int
    """Rows that cannot be used."""

    @property
    def X(self) -> Any:
        """The rows as a matrix, of which rows can be taken."""
        return self.rows.matrix() if isinstance(self.rows, Sparse) else self.rows


def usable(block: Block, skip: bool) -> Usable:
    """The rows that can be squared, labelled or not: to predict or to sketch. Others are passed over, or an error."""
    unfit = _too_long(block.rows)
    if unfit.any() and not skip:
        raise InputError(
            f"{_place(block, unfit)} is longer than {LARGEST:g}, which float64 cannot square. Rescale the features; "
            "on_error='skip' passes over it.",
            on_error="skip",
        )
    return _without(block, unfit)


def labelled_rows(block: Block, skip: bool) -> Usable:
    """The rows that can be learned: with a label each, and nothing too large. Others are passed over, or an error."""
    refuse_initial(block)
    unfit = np.isnan(block.y)
    if skip:
        unfit |= (np.abs(block.y) > LARGEST) | _too_long(block.rows)
        if block.sample_weight is not None:
            unfit |= block.sample_weight > LARGEST
    elif unfit.any():
        raise InputError(f"{_place(block, unfit)} has no label; on_error='skip' passes over it.", on_error="skip")
    return _without(block, unfit)


def labels(block: Block, rows: Usable, task: Task, words: Sequence[str] | None = None) -> Array:
    """The labels of the block's labelled rows as learners take them; one that is unknown is named.

    Of many classes, one that is new is taken in.
    """
    known = task.encode(rows.y, words, grow=task.many)
    strange = task.strange(known)
    if strange.any():
        from onsketch.data.task import name_of

        label = rows.y[strange][0]
        negative, positive = task.two_names
        raise InputError(
            f"{_place(block, block.y == label)} has label {name_of(label, words)}, after a beginning of {negative} and "
            f"{positive} only. Say which class is to be found (--positive LABEL), that there are many (--task "
            f"multiclass){'' if words else ', or --task regression'}."
        )
    return np.where(known == task.positive, 1.0, -1.0) if task.signs else known


def refuse_nothing(sources: list[str], skipped: int, done: str = "learned") -> NoReturn:
    """The error of a stream of which no row could be used."""
    name = ", ".join(sources)
    if skipped:
        raise InputError(f"{name}: not one row could be {done}; {skipped:,} were skipped.")
    raise InputError(f"{name}: there is not a single row.")


def _without(block: Block, unfit: NDArray[np.bool_]) -> Usable:
    count = int(np.count_nonzero(unfit))
    if count == 0:
        return Usable(block.rows, block.y, block.sample_weight, block.tags, 0)
    kept = ~unfit
    weights = None if block.sample_weight is None else block.sample_weight[kept]
    tags = None if block.tags is None else [tag for tag, fits in zip(block.tags, kept, strict=True) if fits]
    return Usable(block.X[kept], block.y[kept], weights, tags, count)


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
