"""Single rows: learned and predicted by prepared calls, without a new array for a row.

    pack → arrange → translate → (scale) → learn or predict

A row is packed into memory that stays. Then one call runs the compiled stages in order (``jit/chain.py``): they arrange
the row in CSR form, translate its features to slots, scale it, and learn or predict it. A learner describes the stages
by ``learning_row`` and ``predicting_row``. If a stage fails, the ones before it are undone in compiled code, and the
general path takes the row: it makes tables grow, refuses rows that are not valid, and comes to the same bits.

Preparing the calls costs about as much as a few rows of the general path; they are prepared anew when tables have
grown.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import LONGEST_COUNT
from onsketch.core.tolerances import LARGEST
from onsketch.jit.calling import PLAIN, Prepared
from onsketch.jit.chain import Chain, Step
from onsketch.learners.features import FeatureMap, take_out, translate_row, translate_rows
from onsketch.learners.rows import HEADER, Slotted, arrange

if TYPE_CHECKING:
    from onsketch.learners.base import Learner

Floats = NDArray[np.float64]
Stages = list[Step]

_LEAST, MOST = 64, 4096
"""Capacity of a prepared row, in entries; longer rows take the general path."""

_COST, _CREDIT = 16, 512
"""To prepare calls costs as much as so many rows. Each row earns 1, and 2 on the general path, up to ``_CREDIT``."""


class OneRow(NamedTuple):
    """A row in arrays that stay while the numbers in them change; the first ``indptr[1]`` entries are in use."""

    indptr: NDArray[np.int64]
    features: NDArray[np.int64]
    values: Floats
    label: Floats
    weight: Floats
    out: Floats
    translator: Callable[[int | None], tuple[Slotted, Stages, Callable[[], bool]]] | None = None
    """Replaces ``translated``, if there is a stage before the learner."""

    def translated(
        self, features: FeatureMap, intercept: bool, room: int | None = None
    ) -> tuple[Slotted, Stages, Callable[[], bool]]:
        """The row in slots, the stage that translates it, and a test that the map still has the same arrays.

        With ``room``, the learner's number of slots, new features get slots; without, they are left out.
        """
        if self.translator is not None:
            return self.translator(room)
        size, parts = self.features.size + intercept, features.parts
        slotted = np.zeros(2, dtype=np.int64), np.zeros(size, dtype=np.int32), np.zeros(size)
        rows = self.indptr, self.features, self.values, False, True
        if room is None:
            stage = Step(Prepared(translate_rows, parts, rows, intercept, False, True, *slotted), 1)
        else:
            translate = Prepared(translate_row, parts, rows, intercept, room, *slotted)
            stage = Step(translate, 1, undo=Prepared(take_out, parts))
        return slotted, [stage], lambda: features.holds(parts)


class RowPlan(NamedTuple):
    """The stages by which a learner learns or predicts a prepared row."""

    steps: Stages
    """The last one writes the margin."""
    same: Callable[[], bool]
    """Returns True while the learner has the arrays that the stages are for."""
    finish: Callable[[float], float] | None = None
    """Converts what the stages write to the clipped margin."""
    settle: Callable[[], Any] = lambda: None
    """Does what the stages have asked for, if anything; called after them, also if a signal's handler raises then."""


@cache
def _packers(count: int) -> tuple[Callable[..., None], Callable[..., None]]:
    """Functions that write so many features, and so many values."""
    return struct.Struct(f"={count}q").pack_into, struct.Struct(f"={count}d").pack_into


class PreparedRow:
    """A learner's stages for rows of at most ``most`` entries, used by one thread at a time."""

    __slots__ = (
        "_chains", "_entries", "_header", "_indptr", "_label", "_learner", "_lock", "_numbers", "_out", "_weight",
        "_width", "key", "most", "plans",
    )  # fmt: skip

    def __init__(self, learner: Learner, most: int) -> None:
        header, given, numbers = np.zeros(len(HEADER), np.int64), np.zeros(most, np.int64), np.zeros(most)
        scalars = np.zeros(1), np.ones(1), np.zeros(1)
        row = OneRow(np.zeros(2, np.int64), np.zeros(most, np.int64), np.zeros(most), *scalars)
        places = np.full(1 << (2 * most - 1).bit_length(), -1)
        first = Step(Prepared(arrange, header, given, numbers, places, LARGEST, *row[:3]), 1)
        self._learner, self._lock, self._width, self.most = learner, learner.lock, learner._width, most
        of = learner.__class__  # the methods of ``learner`` itself would be bound to it, and keep it in memory
        self.plans = of.learning_row(learner, row), of.predicting_row(learner, row)
        self._chains = [plan and Chain([first, *plan.steps]) for plan in self.plans]
        self._label: Any
        self._weight: Any
        self._out: Any
        self._header, self._indptr = memoryview(header.data), memoryview(row.indptr.data)
        self._label, self._weight, self._out = (memoryview(part.data) for part in scalars)
        self._entries, self._numbers = (memoryview(part.data).cast("B") for part in (given, numbers))
        self.key: Any = None
        """Identifies the features that are in memory, where they may be used again."""

    @property
    def ready(self) -> bool:
        """True while the learner has the arrays that the stages are for."""
        return all(plan is not None and plan.same() for plan in self.plans)

    @property
    def complete(self) -> bool:
        """True if the learner may have met all features of the last row: none was −1."""
        return self._indptr[1] == self._header[HEADER.entries]

    def put(self, features: Iterable[int], count: int, *, sort: bool) -> None:
        """Write the features of the next rows; with ``sort``, entries are sorted by feature, and none comes twice."""
        self.key = None
        _packers(count)[0](self._entries, 0, *features)
        self._header[HEADER.entries], self._header[HEADER.sort] = count, sort

    @property
    def width(self) -> int:
        """Width of the learner."""
        return self._learner._width

    def learn(self, values: Collection[float], label: float, weight: float, width: int) -> float | None:
        """Learn a row with these values; return its margin, or None if the general path must learn it.

        ``width`` is at least that of the row; the learner has this width afterwards, if it was narrower.
        """
        _packers(len(values))[1](self._numbers, 0, *values)
        self._label[0], self._weight[0] = label, weight
        lock = self._lock
        with lock.writer:
            with lock.mutex:
                if lock.idle():
                    return self._learned(width)
            with lock.writing:
                return self._learned(width)

    def _learned(self, width: int) -> float | None:
        plan, chain = self.plans[0], self._chains[0]
        assert plan is not None
        assert chain is not None
        if not plan.same():
            return None
        try:
            if width <= self._width:
                done = chain()
            else:
                learner = self._learner
                before, learner._width = learner._width, max(width, learner._width)
                done = chain()
                if done:
                    self._width = width
                else:
                    learner._width = before
            plan.settle()
        except BaseException:  # of a signal's handler, also in the middle of it
            plan.settle()
            raise
        if not done:
            return None
        margin: float = self._out[0]
        return margin if plan.finish is None else plan.finish(margin)

    def predict(self, values: Collection[float]) -> float | None:
        """Return the clipped margin of a row with these values, or None if the general path must predict it."""
        _packers(len(values))[1](self._numbers, 0, *values)
        lock = self._lock
        with lock.mutex:
            if lock.idle():
                return self._predicted()
        with lock.reading:
            return self._predicted()

    def _predicted(self) -> float | None:
        plan, chain = self.plans[1], self._chains[1]
        assert plan is not None
        assert chain is not None
        if not (plan.same() and chain()):
            return None
        margin: float = self._out[0]
        if plan.finish is not None:
            margin = plan.finish(margin)
        return margin if math.isfinite(margin) else None


class SingleRows:
    """The prepared rows of a learner, one for each thread that uses them at the same time.

    Use ``take`` and ``give_back``, or ``learn`` and ``predict``.
    """

    __slots__ = ("_credit", "_free", "_learner", "_rounds")

    def __init__(self, learner: Learner) -> None:
        """``learner`` is a weak proxy."""
        self._learner = learner
        self._free: list[PreparedRow] = []
        self._credit = self._rounds = 0
        """Rows counted towards the next preparation, and the learner's rounds when they were last counted."""

    def take(self, entries: int) -> PreparedRow | None:
        """Return a prepared row for so many entries, for the thread that asks; None: take the general path."""
        try:
            row = self._free.pop()
        except IndexError:
            return self._prepared(entries)
        if entries <= row.most:
            return row
        self._free.append(row)
        return self._prepared(entries)

    def give_back(self, row: PreparedRow, margin: float | None) -> float | None:
        """Take back a prepared row, and return the margin that it gave; after a failure it is looked at."""
        if margin is not None or row.ready:
            self._free.append(row)
        else:
            self._free.clear()  # their arrays may be old, too
        return margin

    def _prepared(self, entries: int) -> PreparedRow | None:
        learner, rounds = self._learner, self._learner.rounds
        self._credit = min(self._credit + rounds - self._rounds + 1, _CREDIT)
        self._rounds = rounds
        if self._credit < _COST or entries > MOST or PLAIN or rounds > LONGEST_COUNT // 2:
            return None
        self._credit -= _COST
        with learner.lock.reading:
            row = PreparedRow(learner, max(_LEAST, 2 * entries))
        self._free.clear()
        if None in row.plans:
            self._credit = -(1 << 63)  # never again
            return None
        return row

    def learn(
        self,
        features: Collection[int],
        values: Collection[float],
        label: float,
        weight: float,
        width: int,
        *,
        sort: bool,
    ) -> float | None:
        """Learn a row; return its margin, or None if nothing was learned and the general path must take it."""
        row, margin = self.take(len(values)), None
        if row is None:
            return None
        try:
            row.put(features, len(values), sort=sort)
            margin = row.learn(values, label, weight, width)
        except NOT_NUMBERS:
            pass
        return self.give_back(row, margin)

    def predict(self, features: Collection[int], values: Collection[float], *, sort: bool) -> float | None:
        """Return the clipped margin of a row, or None if the general path must predict it."""
        row, margin = self.take(len(values)), None
        if row is None:
            return None
        try:
            row.put(features, len(values), sort=sort)
            margin = row.predict(values)
        except NOT_NUMBERS:
            pass
        return self.give_back(row, margin)


NOT_NUMBERS = struct.error, OverflowError, TypeError
"""Errors of packing what is no number, or beyond float64."""
