"""Fast calls for single rows with the same features: rows in fixed arrays, without new objects for a row.

A learner provides a chain of calls that learns or predicts such a row (``learning_row``, ``predicting_row``), whose
arguments are packed once. In unusual cases (a new feature, a table that must grow, a refused row) the chain stops and
its steps are undone. The caller then uses the ordinary methods, which do the work or report the error.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import LONGEST_COUNT
from onsketch.core.tolerances import LARGEST
from onsketch.jit.calling import PLAIN, Prepared
from onsketch.jit.chain import Chain, Step
from onsketch.learners.features import COUNT, FeatureMap, translate_rows
from onsketch.learners.rows import Rows, Slotted, too_long

if TYPE_CHECKING:
    from onsketch.learners.base import Learner

Floats = NDArray[np.float64]


class OneRow(NamedTuple):
    """A row whose arrays stay while the numbers in them change."""

    rows: Rows
    label: Floats
    weight: Floats
    out: Floats


class RowPlan(NamedTuple):
    """Prepared calls that learn or predict such a row."""

    steps: list[Step]
    """Compiled calls to make, in order; the last one fills ``out`` if the row is predicted."""
    same: Callable[[], bool]
    """Return True if the learner still has the arrays that the steps were made for."""
    undo: Callable[[int], None] = lambda done: None
    """Undo the given number of completed steps."""
    finish: Callable[[float], float] | None = None
    """Convert the number in ``out`` to the clipped margin."""


class Translation:
    """Translation of such a row to slots, repeated when its values change."""

    def __init__(self, features: FeatureMap, rows: Rows, *, learn: bool, intercept: bool) -> None:
        size = rows.indices.size + intercept
        self.slotted: Slotted = np.zeros(2, dtype=np.int64), np.zeros(size, dtype=np.int32), np.zeros(size)
        self._map, self._parts, self._known = features, features.parts, features.count
        block = rows.indptr, rows.indices, rows.values, False, rows.zeros
        call = Prepared(translate_rows, self._parts, block, intercept, learn, True, *self.slotted)
        self._steps = [
            Step(call, 1),
            Step(None, self._known, self._parts[3]),
        ]  # one row, no new feature

    def then(self, steps: list[Step], same: Callable[[], bool]) -> RowPlan:
        """Return a plan with more steps, valid as long as the learner has the same arrays."""
        features, known, (_, table, _, tally) = self._map, self._known, self._parts
        return RowPlan(
            [*self._steps, *steps],
            lambda: features._table is table and tally.item(COUNT) == known and same(),
            lambda done: features.forget(known),
        )


class SingleRows:
    """A learner's rows with these features, one by one; for one thread at a time."""

    __slots__ = ("_learn", "_lock", "_out", "_pack", "_predict", "_row", "_values")

    def __init__(self, learner: Learner, indices: NDArray[np.int64], width: int) -> None:
        values = np.zeros(indices.size)
        rows = Rows(np.array([0, indices.size]), indices, values, width, dense=False)
        self._row = OneRow(rows, np.zeros(1), np.ones(1), np.zeros(1))
        self._lock, self._values = learner.lock, memoryview(values.data).cast("B")
        self._out = self._row.out.item
        self._pack = struct.Struct(f"{indices.size}d").pack_into
        check = Step(Prepared(too_long, rows.indptr, values, LARGEST), -1)  # no row that is not finite
        ways = learner.learning_row(self._row), learner.predicting_row(self._row)
        self._learn: Any
        self._predict: Any
        self._learn, self._predict = (way and (way, Chain([check, *way.steps]), len(way.steps)) for way in ways)

    @classmethod
    def of(cls, learner: Learner, indices: NDArray[np.int64], width: int) -> Self | None:
        """Return None for learners without such plans."""
        if PLAIN:
            return None
        made = cls(learner, indices, width)
        return made if made._learn and made._predict and learner.rounds < LONGEST_COUNT // 2 else None

    def learn(self, values: Sequence[float], label: float) -> bool:
        """Learn a row of weight 1, with a label that the loss can take; whether it was."""
        try:
            self._pack(self._values, 0, *values)
        except (struct.error, OverflowError):
            return False
        self._row.label[0] = label
        lock = self._lock
        with lock.writer:
            with lock.mutex:
                if lock.idle():
                    return self._learned()
            with lock.writing:
                return self._learned()

    def _learned(self) -> bool:
        way, chain, count = self._learn
        if not way.same():
            return False
        done = chain() - 1
        if done < count:
            way.undo(done)
        return bool(done == count)

    def predict(self, values: Sequence[float]) -> float | None:
        """The clipped margin of a row, if it was predicted."""
        try:
            self._pack(self._values, 0, *values)
        except (struct.error, OverflowError):
            return None
        lock = self._lock
        with lock.mutex:
            if lock.idle():
                return self._predicted()
        with lock.reading:
            return self._predicted()

    def _predicted(self) -> float | None:
        way, chain, count = self._predict
        if not way.same() or chain() <= count:
            return None
        margin = self._out(0)
        if way.finish is not None:
            margin = way.finish(margin)
        return margin if math.isfinite(margin) else None
