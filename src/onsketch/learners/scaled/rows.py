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
from onsketch.learners.one_row import OneRow, RowPlan, Translation
from onsketch.learners.rows import Rows, Slotted
from onsketch.learners.scaled.scales import (
    COUNT,
    LABEL,
    LEAST_LABEL,
    LENGTHS,
    ROW,
    USED,
    scale_known,
    scale_rows,
    take_back,
)

Floats = NDArray[np.float64]


class Passed(NamedTuple):
    """Rows that went through, and what takes it back."""

    rows: Rows
    y: Floats
    lengths: Floats
    """What each row was shortened to; 1 for most."""
    units: Floats
    """What each label was divided by, where labels have a scale."""
    known: int
    slotted: Slotted
    undo: tuple[Floats, Floats]


class RowScales:
    """The scales of features, rows and labels; three numbers for each feature met."""

    def __init__(self, of_labels: bool) -> None:
        self._of_labels = of_labels
        self._map = FeatureMap()
        self._features = np.zeros((0, 3))
        self._others = np.zeros((2, 3))

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes for the features seen, and of everything held."""
        seen = self._map.count * (self._features.strides[0] + 8 + 4)
        return seen, self._features.nbytes + self._map.nbytes

    @property
    def unit(self) -> float:
        """What labels are divided by now."""
        return float(self._others[LABEL, USED]) if self._others[LABEL, COUNT] else 1.0

    @property
    def _norm(self) -> float:
        return float(self._others[ROW, USED]) if self._others[ROW, COUNT] else 1.0

    @property
    def _state(self) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """What compiled loops know of the scales."""
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
        """What the values of these features are divided by; 1 for the constant one and for those not met."""
        scales = np.ones(len(features))
        met = np.flatnonzero((features != INTERCEPT) & np.isin(features, self._map.features))
        scales[met] = self._features[self._map.add(features[met]), USED] * np.sqrt(self._norm)
        return scales

    def _grow(self) -> None:
        have = len(self._features)
        if self._map.count > have:
            fresh = np.zeros((max(self._map.count, have + have // 8, 16), 3))
            fresh[:have] = self._features
            self._features = fresh

    def arrays(self) -> Arrays:
        """The state, for a model file."""
        count = self._map.count
        return {"features": self._map.features, "scales": self._features[:count], "others": self._others}

    def restore(self, arrays: Arrays) -> None:
        """Take the state from a model file."""
        self._map.refill(take(arrays, "features", np.int64, (None,)))
        scales = take(arrays, "scales", np.float64, (self._map.count, 3))
        others = take(arrays, "others", np.float64, (2, 3))
        sound = bool((scales > 0.0).all() and (others >= 0.0).all())
        sound = sound and bool(np.isfinite(scales).all() and np.isfinite(others).all())
        require(sound, "its scales are impossible")
        for other, (least, most) in {ROW: LENGTHS, LABEL: (LEAST_LABEL / 2.0, 2.0 * LARGEST)}.items():
            if others[other, COUNT]:
                require_within(others[other, :COUNT], least, most, "scaling.others")
        self._features, self._others = scales, others


class ScaledRow:
    """One row in arrays that stay, through the scales; see ``one_row.py``."""

    def __init__(self, scales: RowScales, row: OneRow, *, learn: bool) -> None:
        self._scales, self._features, size = scales, scales._features, row.rows.indices.size
        self._translated = Translation(scales._map, row.rows, learn=learn, intercept=False)
        slotted, state = self._translated.slotted, scales._state
        x, indices, label = np.zeros(size), np.zeros(size, dtype=np.int64), np.zeros(1)
        self.row = row._replace(rows=row.rows._replace(indptr=slotted[0], indices=indices, values=x), label=label)
        if not learn:
            self._steps = [Step(Prepared(scale_known, *state, *slotted, x, indices))]
            return
        lengths, units, undo = np.zeros(1), np.zeros(int(scales._of_labels)), (np.zeros((size, 3)), np.zeros((1, 2, 3)))
        said = row.label, x, indices, label, lengths, units
        self._steps = [Step(Prepared(scale_rows, *state, *slotted, *said, *undo), _ONE, lengths)]  # not shortened
        self._take_back = Prepared(take_back, *state[:2], *slotted[:2], 0, *undo)

    def then(self, inner: RowPlan) -> RowPlan:
        """A way that goes on like this with the scaled row."""
        scales, features = self._scales, self._features
        way = self._translated.then([*self._steps, *inner.steps], lambda: scales._features is features and inner.same())

        def undo(done: int) -> None:
            if done > _SCALING:  # it was scaled
                inner.undo(0)
            if done >= _SCALING:
                self._take_back()
            way.undo(0)

        return way._replace(undo=undo, finish=inner.finish)


_ONE = int(np.ones(1).view(np.int64)[0])
"""The bits of 1.0."""

_SCALING = 2
"""Which of the steps scales the row."""
