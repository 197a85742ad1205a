"""Rows of a stream that learners accept: labelled, with values that can be squared; others are counted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
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
    """Usable part of a block."""

    rows: Any
    """``Block.rows``, or ``Block.X`` if some rows were skipped."""
    y: Array
    """Labels as in the file."""
    sample_weight: Array | None
    tags: list[str] | None
    passed_over: int
    """Number of unusable rows."""
    columns: dict[str, list[Any]] | None = None
    """Cells of the columns passed through."""

    @property
    def X(self) -> Any:
        """Rows as a matrix that can be indexed by rows."""
        return self.rows.matrix() if isinstance(self.rows, Sparse) else self.rows


def usable(block: Block, skip: bool) -> Usable:
    """Return the rows that can be squared, labelled or not, to predict or to sketch; skip others or raise an error."""
    unfit = _too_long(block.rows)
    if unfit.any() and not skip:
        raise InputError(
            f"{_place(block, unfit)} is longer than {LARGEST:g}, which float64 cannot square. Rescale the features; "
            "on_error='skip' passes over it.",
            on_error="skip",
        )
    return _without(block, unfit)


def labelled_rows(block: Block, skip: bool) -> Usable:
    """Return the rows that can be learned: labelled, and nothing too large; skip others or raise an error."""
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
    """Return the labels of the block's labelled rows in the form of learners; an error names an unknown label.

    With many classes, a new class is added.
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
    """Raise the error of a stream without any usable row."""
    name = ", ".join(sources)
    if skipped:
        raise InputError(f"{name}: not one row could be {done}; {skipped:,} were skipped.")
    raise InputError(f"{name}: there is not a single row.")


def _without(block: Block, unfit: NDArray[np.bool_]) -> Usable:
    count = int(np.count_nonzero(unfit))
    if count == 0:
        return Usable(block.rows, block.y, block.sample_weight, block.tags, 0, block.columns)
    kept = ~unfit
    weights = None if block.sample_weight is None else block.sample_weight[kept]
    tags = None if block.tags is None else [tag for tag, fits in zip(block.tags, kept, strict=True) if fits]
    columns = block.columns
    if columns is not None:
        columns = {name: list(compress(cells, kept)) for name, cells in columns.items()}
    return Usable(block.X[kept], block.y[kept], weights, tags, count, columns)


def refuse_initial(block: Block) -> None:
    """Refuse initial predictions of VW lines: no learner supports adding them to every margin."""
    if block.initial is not None:
        raise InputError(
            f"{_place(block, block.initial != 0.0)} has an initial prediction (the third number before '|'), which "
            "learners cannot start from; take the third number out of such lines."
        )


def _place(block: Block, rows: NDArray[np.bool_]) -> str:
    """Return the first of these rows, for a message."""
    row = block.position.rows - len(block) + int(rows.argmax()) + 1
    return f"{block.position.path}: row {row:,} of the stream"


def _too_long(rows: Any) -> NDArray[np.bool_]:
    """Return a mask of rows whose squared length exceeds float64."""
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
