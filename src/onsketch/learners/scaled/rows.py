"""Rows in scales of their own: the state of ``scales.py`` for the features met, and how rows pass through it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays, require, require_within, take
from onsketch.core.tolerances import LARGEST
from onsketch.jit.calling import Prepared
from onsketch.jit.chain import Step
from onsketch.learners.features import INTERCEPT, FeatureMap
from onsketch.learners.rows import Rows, Slotted
from onsketch.learners.scaled.scales import (
    COUNT,
    HELD,
    LABEL,
    LEAST_LABEL,
    LENGTHS,
    ROW,
    USED,
    scale_known,
    scale_rows,
    take_back,
)
from onsketch.learners.single import OneRow, RowPlan

Floats = NDArray[np.float64]


class Passed(NamedTuple):
    """Rows that went through, and what takes it back."""

    rows: Rows
    y: Floats
    lengths: Floats
    """Factors by which long rows were shortened; 1 for most."""
    units: Floats
    """Divisors of the labels, where labels have a scale."""
    known: int
    slotted: Slotted
    undo: tuple[Floats, Floats]


class RowScales:
    """The scales of features, rows and labels; three numbers for each feature met."""

    def __init__(self, of_labels: bool) -> None:
        self._of_labels = of_labels
        self._map = FeatureMap()
        self._features = np.zeros((0, 3))
        self._others = np.zeros((3, 3))

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes for the features seen, and of everything held."""
        seen = self._map.count * (self._features.strides[0] + 8 + 4)
        return seen, self._features.nbytes + self._map.nbytes

    @property
    def unit(self) -> float:
        """Return the divisor of labels."""
        return float(self._others[LABEL, USED]) if self._others[LABEL, COUNT] else 1.0

    @property
    def norm(self) -> float:
        """The mean squared length of scaled rows, by which they are shortened."""
        return float(self._others[ROW, USED]) if self._others[ROW, COUNT] else 1.0

    @property
    def _state(self) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Return the scales as compiled loops take them."""
        return self._features, self._others, self._map.parts[2]

    def enter(self, rows: Rows, labels: Floats) -> Passed:
        """Scale rows in their order, each by what was known before it, and take it in."""
        known = self._map.count
        try:
            indptr, _, values = slotted = self._map.translate(rows, learn=True)
            self._grow()
        except BaseException:  # no memory, or interrupted: what has no place in the table has not been seen
            self._map.forget(known)
            raise
        count, entries = rows.count, values.size
        x, y, lengths = np.empty(entries), np.empty(count), np.empty(count)
        indices = np.empty(entries, dtype=np.int64)
        units = np.empty(count if self._of_labels else 0)
        undo = np.empty((entries, 3)), np.empty((count, 2, 3))
        scale_rows(*self._state, *slotted, labels, x, indices, y, lengths, units, *undo)
        scaled = Rows(indptr, indices, x, rows.n_features, dense=False, zeros=False)
        return Passed(scaled, y, lengths, units, known, slotted, undo)

    def leave(self, passed: Passed, done: int) -> None:
        """Be as if only the first ``done`` of these rows had come."""
        if done < passed.rows.count:
            indptr, slots, _ = passed.slotted
            take_back(self._features, self._others, indptr, slots, done, *passed.undo)
            self._map.forget(max(passed.known, int(slots[: indptr[done]].max(initial=-1)) + 1))

    def scaled(self, rows: Rows) -> Rows:
        """The rows in the scales of now; features not seen so far are left out."""
        indptr, slots, values = self._map.translate(rows, learn=False)
        x, indices = np.empty(values.size), np.empty(values.size, dtype=np.int64)
        scale_known(*self._state, indptr, slots, values, x, indices)
        return Rows(indptr, indices, x, rows.n_features, dense=False, zeros=False)

    def of(self, features: NDArray[np.int64]) -> Floats:
        """Return the divisors of these features; 1 for the constant one and for those not met."""
        scales = np.ones(len(features))
        met = np.flatnonzero((features != INTERCEPT) & np.isin(features, self._map.features))
        scales[met] = self._features[self._map.add(features[met]), USED] * np.sqrt(self.norm)
        return scales

    def hold(self, measured: RowScales) -> None:
        """Take the scales of ``measured`` as they are now, and keep them; new features get their geometric mean."""
        self._map, count = measured._map.copy(), measured._map.count
        self._features, self._others = measured._features[:count].copy(), measured._others.copy()
        self._others[:, COUNT] = np.maximum(self._others[:, COUNT], 1.0)
        unknown = self._others[:, USED] == 0.0
        self._others[unknown] = 1.0
        common = np.exp(np.log(self._features[:, USED]).mean()) if count else 1.0
        self._others[HELD] = common, common, 1.0

    def take_in(self, other: RowScales) -> bool:
        """Add the features of scales that are held, too; returns whether they are the same."""
        if not self._others[HELD, COUNT] or not np.array_equal(self._others, other._others):
            return False
        known, theirs = self._map.count, other._features[: other._map.count]
        slots = self._map.add(other._map.features)
        self._grow()
        new = slots >= known
        self._features[slots[new]] = theirs[new]
        return bool((self._features[slots, USED] == theirs[:, USED]).all())

    def _grow(self) -> None:
        have = len(self._features)
        if self._map.room > have:
            fresh = np.empty((self._map.room, 3))
            fresh[:have], fresh[have:] = self._features, self._others[HELD]  # zeros, unless scales are held
            self._features = fresh

    def learning_row(self, row: OneRow) -> tuple[OneRow, RowPlan, Floats]:
        """As ``enter``, for a prepared row: the scaled row, how to scale it, and the unit of its label.

        A row that is to be shortened is refused.
        """
        features = self._features
        slotted, steps, same = row.translated(self._map, intercept=False, room=len(features))
        x, indices, label, length = (
            np.zeros(slotted[2].size),
            np.zeros(slotted[2].size, np.int64),
            np.zeros(1),
            np.zeros(1),
        )
        units, undo = np.zeros(int(self._of_labels)), (np.zeros((x.size, 3)), np.zeros((1, 2, 3)))
        scale = Prepared(scale_rows, *self._state, *slotted, row.label, x, indices, label, length, units, *undo)
        back = Prepared(take_back, *self._state[:2], *slotted[:2], 0, *undo)
        scaled = row._replace(indptr=slotted[0], features=indices, values=x, label=label)
        plan = RowPlan([*steps, Step(scale, _ONE, length, back)], lambda: self._features is features and same())
        return scaled, plan, units

    def predicting_row(self, row: OneRow) -> tuple[OneRow, RowPlan]:
        """As ``scaled``, for a prepared row."""
        features = self._features
        slotted, steps, same = row.translated(self._map, intercept=False)
        x, indices = np.zeros(slotted[2].size), np.zeros(slotted[2].size, np.int64)
        steps.append(Step(Prepared(scale_known, *self._state, *slotted, x, indices)))
        scaled = row._replace(indptr=slotted[0], features=indices, values=x)
        return scaled, RowPlan(steps, lambda: self._features is features and same())

    def arrays(self) -> Arrays:
        """The state, for a model file."""
        count = self._map.count
        return {"features": self._map.features, "scales": self._features[:count], "others": self._others}

    def restore(self, arrays: Arrays) -> None:
        """Take the state from a model file."""
        self._map.refill(take(arrays, "features", np.int64, (None,)))
        scales = take(arrays, "scales", np.float64, (self._map.count, 3))
        others = take(arrays, "others", np.float64, (3, 3))
        sound = bool((scales > 0.0).all() and (others >= 0.0).all())
        sound = sound and bool(np.isfinite(scales).all() and np.isfinite(others).all())
        require(sound, "its scales are impossible")
        for other, (least, most) in {ROW: LENGTHS, LABEL: (LEAST_LABEL / 2.0, 2.0 * LARGEST)}.items():
            if others[other, COUNT]:
                require_within(others[other, :COUNT], least, most, "scaling.others")
        self._features, self._others = scales, others


_ONE = int(np.ones(1).view(np.int64)[0])
"""The bits of 1.0."""
