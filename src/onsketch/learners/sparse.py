"""Learners that keep a packed row for each feature seen: a map from features to slots, and tables with these slots."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import Arrays, take
from onsketch.core.losses import in_unit
from onsketch.learners.base import Learner
from onsketch.learners.features import FeatureMap
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Linear, Rows, Slotted
from onsketch.learners.setup import Setup
from onsketch.learners.sketched.packed import COLUMN


class SparseLearner(Learner):
    """A linear learner whose state is by slot. Subclasses declare it, with ``slots`` as the axis of the tables."""

    _setup: Setup

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        self._map = FeatureMap()

    @property
    @abstractmethod
    def _rows(self) -> NDArray[Any]:
        """The table with a packed row for each slot."""

    @abstractmethod
    def _make_room(self) -> None:
        """Make a packed row for each feature of the map."""

    def _shift(self, change: NDArray[np.float64]) -> None:
        self._rows[: self._map.count, COLUMN.head] += change  # as in all packed rows

    def _translated(self, rows: Rows) -> Slotted:
        """Return rows to be read in slots, without the features never seen."""
        return self._map.translate(rows, learn=False, intercept=self.options.fit_intercept)

    def shared(self, rows: Rows, *, learn: bool) -> Rows:
        """The rows with their slots."""
        return self._map.shared(rows, learn=learn, intercept=self.options.fit_intercept)

    def _divide_labels(self, unit: float) -> None:
        self._setup = self._setup._replace(loss=in_unit.py_func(self._loss.form, unit))

    def _linear(self) -> Linear:
        return Linear(*self._coefficients(), -self._setup.clip, self._setup.clip)

    def state_bytes(self) -> dict[str, int]:
        """Memory: ``packed`` for the features seen, ``total`` for everything held."""
        packed = self._map.count * (self._rows.strides[0] + 8 + 4)
        return {"packed": packed, "total": state.nbytes(self) + self._map.nbytes}

    def _arrays(self) -> Arrays:
        return {"features": self._map.features} | state.pack(self, slots=self._map.count)

    def _restore(self, arrays: Arrays) -> None:
        features = take(arrays, "features", np.int64, (None,))
        self._map.refill(features, self._width, self.options.fit_intercept)
        super()._restore(arrays)
