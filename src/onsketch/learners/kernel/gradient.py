"""Functional gradient descent, with every row kept or with a budget: what kernel Newton methods are measured against.

``f ← (f − η_t ġ_t k(x_t, ·))/(1 + η_t·l2)`` with ``η_t = step_size/√t``, after the projection that takes what exceeds
the clip off f(x_t) along k(x_t, ·). With the linear kernel this is ``ogd``. ``budget-kernel-ogd`` keeps at most
``max_points`` rows: when there is one too many, the row of least ``|a_s|·√k(x_s, x_s)`` is dropped, the least change of
f by dropping one row.

Cost: one kernel value for each row kept, O(t) a round and O(t) rows of memory, or as much as the budget.

Jyrki Kivinen, Alexander Smola, Robert Williamson: "Online learning with kernels", IEEE Trans. Signal Processing 52,
2004 (NORMA). Zhuang Wang, Koby Crammer, Slobodan Vucetic: "Breaking the curse of kernelization", JMLR 13, 2012
(removal).
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from onsketch.core import losses, state
from onsketch.core.arrays import LONGEST_COUNT, require
from onsketch.core.tolerances import LARGEST
from onsketch.learners.clip import clipped, shortest_move
from onsketch.learners.kernel.learner import KernelLearner, Round
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.sketches.growing_factor import Array


class KernelGradient(KernelLearner):
    """``kernel-ogd`` and ``budget-kernel-ogd``."""

    _a: Annotated[Array, state.Array("kept", within=(-LARGEST, LARGEST))]
    """The coefficients of the rows kept."""
    _removed: Annotated[int, state.Array("", "i8", within=(0, LONGEST_COUNT))]
    free = ("kept",)

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        self._a = np.zeros(0)
        self._removed = 0

    def _play(self, now: Round) -> float | None:
        setup, kept = self._setup, self._kept.count
        # 2 Predict.
        margin = float(self._a[:kept] @ now.values)
        prediction: float = clipped(margin, setup.clip)
        # 3 Slope, and 4 absorb: the coefficient of the row, with what the projection takes off.
        eta = setup.step / math.sqrt(self._rounds + 1)
        a = -eta * now.weight * losses.slope(setup.loss, prediction, now.label)
        if prediction != margin and now.own > 0.0:
            a -= shortest_move(margin, setup.clip, now.own)
        # 5 Check: nothing has been written.
        if not max(abs(margin), abs(a) * max(now.own, 1.0)) <= LARGEST:
            return None
        # 6 Write the coefficients, and keep the row.
        shrink = 1.0 / (1.0 + eta * self.options.l2)
        if shrink != 1.0:
            self._a[:kept] *= shrink
        if a != 0.0:
            if kept >= len(self._a):
                state.grow(self, kept=kept + 1)
            self._a[kept] = a * shrink
            self._kept.append(now.query, now.i, now.own)
            if self.options.max_points is not None and self._kept.count > self.options.max_points:
                self._drop()
        return prediction

    def _drop(self) -> None:
        count = self._kept.count
        place = int(np.argmin(np.abs(self._a[:count]) * np.sqrt(self._kept.owns[:count])))
        self._a[place : count - 1] = self._a[place + 1 : count]
        self._kept.remove(place)
        self._removed += 1

    def _expansion(self) -> Array:
        return self._a[: self._kept.count].copy()

    def diagnostics(self) -> dict[str, float]:
        """And how many rows have been dropped."""
        return {**super().diagnostics(), "rows_dropped": self._removed}

    def check(self, prefix: str, **sizes: int) -> None:
        """Raise ModelFileError for more rows dropped than learned."""
        super().check(prefix, **sizes)
        require(self._removed <= self._rounds, "it dropped more rows than it learned", "removed")
