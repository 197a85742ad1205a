"""Going back: learners as they were some rows ago, and the rows since.

Learners of different classes meet a row one after the other, and the last of them may refuse it when the first have
learned it. A learner cannot forget a row, but it can be had as it was before: a copy that was made some rows ago learns
again what has come since, which gives the same bits. The copy is made anew when so many numbers have come that copying
costs less than they did, so that it is a small part of the learning; it takes once more the memory of the learners.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.linear.base import Learner
from onsketch.linear.rows import Rows

Floats = NDArray[np.float64]
Block = tuple[Rows, NDArray[np.int64], Floats]
"""Checked rows, the code of the class of each, and their weights."""

_LEAST = 1 << 15
"""Numbers that are cheap to learn once more, whatever a copy costs."""

_CALL = 64
"""A call costs as much as learning so many numbers, for rows that come one by one."""


class Undo:
    """Learners as they were, and what they have learned since."""

    def __init__(self, teach: Callable[[list[Learner], Block], Any]) -> None:
        self._teach = teach
        self._copies: list[Learner] = []
        self._since: list[Block] = []
        self._room = 0.0

    def begin(self, learners: list[Learner]) -> None:
        """Be ready to go back to how the learners are now."""
        if self._room <= 0.0 or len(learners) != len(self._copies):
            self._copies = copy.deepcopy(learners)
            self._since = []
            self._room = max(_LEAST, sum(learner.state_bytes()["total"] for learner in learners) / 8)

    def keep(self, block: Block) -> None:
        """All have learned this block; what there is no room for will be in a new copy."""
        rows, labels, weights = block
        self._room -= int(rows.indptr[-1] - rows.indptr[0]) + _CALL
        if self._room > 0.0:
            self._since.append((rows.copy(), labels.copy(), weights.copy()))

    def back(self) -> list[Learner]:
        """The learners as they were when ``begin`` was last called."""
        learners = copy.deepcopy(self._copies)
        for block in self._since:
            self._teach(learners, block)
        return learners
