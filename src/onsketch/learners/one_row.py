"""Rows that come one by one with the same features: in arrays that stay, with nothing made anew for a row.

A learner says how it learns and predicts such a row (``row_learner`` and ``row_predictor``): by calls of compiled code
whose arguments are packed once. What is out of the ordinary (a feature that is new, a table that must grow, a row that
is refused) they answer with False or None, and nothing has changed then: whoever asked goes the long way, which does
it or says what is wrong.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.tolerances import LARGEST
from onsketch.files.arrays import LONGEST_COUNT
from onsketch.jit.calling import Prepared
from onsketch.learners.rows import Rows, too_long

if TYPE_CHECKING:
    from onsketch.learners.base import Learner

Floats = NDArray[np.float64]


class OneRow(NamedTuple):
    """A row whose arrays stay while the numbers in them change."""

    rows: Rows
    label: Floats
    weight: Floats
    out: Floats


RowLearner = Callable[[], bool]
"""Learns the row; whether it did."""

RowPredictor = Callable[[], float | None]
"""The clipped margin of the row; None where it takes the long way."""


class SingleRows:
    """A learner's rows with these features, one by one; for one thread at a time."""

    __slots__ = ("_learn", "_learner", "_pack", "_predict", "_row", "_survey", "_values")

    def __init__(self, learner: Learner, indices: NDArray[np.int64], width: int) -> None:
        values = np.zeros(indices.size)
        rows = Rows(np.array([0, indices.size]), indices, values, width, dense=False)
        self._row = OneRow(rows, np.zeros(1), np.ones(1), np.zeros(1))
        self._learner, self._values = learner, memoryview(values).cast("B")
        self._pack = struct.Struct(f"{indices.size}d").pack_into
        self._survey = Prepared(too_long, rows.indptr, values, LARGEST)
        self._learn = learner.row_learner(self._row) if learner.rounds < LONGEST_COUNT // 2 else None
        self._predict = learner.row_predictor(self._row)

    @classmethod
    def of(cls, learner: Learner, indices: NDArray[np.int64], width: int) -> Self | None:
        """None for learners that take such rows as any others."""
        made = cls(learner, indices, width)
        return None if made._learn is None or made._predict is None else made

    def _fill(self, values: Sequence[float]) -> bool:
        """Whether these are values that a row may have."""
        try:
            self._pack(self._values, 0, *values)
        except (struct.error, OverflowError):
            return False
        return self._survey()[0] < 0  # type: ignore[no-any-return]

    def learn(self, values: Sequence[float], label: float) -> bool:
        """Learn a row of weight 1, with a label that the loss can take; whether it was."""
        turns = self._learner.turns
        self._row.label[0] = label
        if not self._fill(values):
            return False
        with turns.writer, turns.writing:
            return self._learn()  # type: ignore[misc]

    def predict(self, values: Sequence[float]) -> float | None:
        """The clipped margin of a row, if it was predicted."""
        if not self._fill(values):
            return None
        with self._learner.turns.reading:
            margin = self._predict()  # type: ignore[misc]
        return margin if margin is not None and math.isfinite(margin) else None
