"""Several numbers to a row, each target in a scale of its own; see ``scales.py``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays, take
from onsketch.learners.rows import Rows
from onsketch.learners.scaled.rows import Passed, RowScales

Floats = NDArray[np.float64]


class TargetScales:
    """Divide each of K targets by a scale of its own: K scales of labels, without features."""

    def __init__(self, count: int) -> None:
        self._each: list[RowScales] = []
        self._passed: list[Passed] = []
        self.resize(count)

    def resize(self, count: int) -> None:
        """As many targets; new ones have no scale yet."""
        self._each = [*self._each[:count], *(RowScales(of_labels=True) for _ in range(count - len(self._each)))]

    @property
    def units(self) -> Floats:
        """Return the divisors of the targets, (K,)."""
        return np.array([scales.unit for scales in self._each])

    def enter(self, targets: Floats) -> tuple[Floats, Floats]:
        """Targets (rows, K) scaled in their order, each by what was known before it, and what they were divided by."""
        self._passed = []
        nothing = Rows(np.zeros(len(targets) + 1, np.int64), np.zeros(0, np.int64), np.zeros(0), 0, dense=False)
        for scales, target in zip(self._each, targets.T, strict=True):
            self._passed.append(scales.enter(nothing, np.ascontiguousarray(target)))
        scaled, units = (np.column_stack([getattr(p, name) for p in self._passed]) for name in ("y", "units"))
        return scaled, units

    def leave(self, done: int) -> None:
        """Be as if only the first ``done`` of the rows that entered had come."""
        for scales, passed in zip(self._each, self._passed, strict=False):
            scales.leave(passed, done)
        self._passed = []

    def arrays(self) -> Arrays:
        """The state, for a model file."""
        return {"others": np.array([scales.arrays()["others"] for scales in self._each])}

    def restore(self, arrays: Arrays) -> None:
        """Take the state from a model file."""
        without = {"features": np.zeros(0, np.int64), "scales": np.zeros((0, 3))}
        for scales, others in zip(self._each, take(arrays, "others", np.float64, (len(self._each), 3, 3)), strict=True):
            scales.restore({**without, "others": others})
