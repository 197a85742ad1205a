"""Rows in scales of their own: the state of ``scales.py`` for the features met, and how rows pass through it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.files.arrays import Arrays, require, take
from onsketch.learners.features import INTERCEPT, FeatureMap
from onsketch.learners.rows import Rows, Slotted
from onsketch.learners.scaled.scales import COUNT, LABEL, ROW, USED, scale_known, scale_rows, take_back

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

    def enter(self, rows: Rows, labels: Floats) -> Passed:
        """Scale rows in their order, each by what was known before it, and take it in."""
        known = self._map.count
        indptr, slots, values = slotted = self._map.translate(rows, learn=True)
        self._grow()
        count, entries = rows.count, values.size
        x, y, lengths = np.empty(entries), np.empty(count), np.empty(count)
        units = np.empty(count if self._of_labels else 0)
        undo = np.empty((entries, 3)), np.empty((count, 2, 3))
        scale_rows(self._features, self._others, indptr, slots, values, labels, x, y, lengths, units, undo[0], undo[1])
        return Passed(self._as_rows(indptr, slots, x, rows.n_features), y, lengths, units, known, slotted, undo)

    def leave(self, passed: Passed, done: int) -> None:
        """Be as if only the first ``done`` of these rows had come."""
        if done < passed.rows.count:
            indptr, slots, _ = passed.slotted
            take_back(self._features, self._others, indptr, slots, done, *passed.undo)
            self._map.forget(max(passed.known, int(slots[: indptr[done]].max(initial=-1)) + 1))

    def scaled(self, rows: Rows) -> Rows:
        """The rows in the scales of now; features not seen so far are left out."""
        indptr, slots, values = self._map.translate(rows, learn=False)
        x = np.empty(values.size)
        scale_known(self._features, self._norm, slots, values, x)
        return self._as_rows(indptr, slots, x, rows.n_features)

    def of(self, features: NDArray[np.int64]) -> Floats:
        """What the values of these features are divided by; 1 for the constant one and for those not met."""
        scales = np.ones(len(features))
        met = np.flatnonzero((features != INTERCEPT) & np.isin(features, self._map.features))
        scales[met] = self._features[self._map.add(features[met]), USED] * np.sqrt(self._norm)
        return scales

    def _as_rows(self, indptr: NDArray[np.int64], slots: NDArray[np.int32], x: Floats, width: int) -> Rows:
        return Rows(indptr, self._map.features[slots], x, width, dense=False, zeros=False)

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
        require(sound and bool((others[others[:, COUNT] > 0.0, USED] > 0.0).all()), "its scales are impossible")
        self._features, self._others = scales, others
