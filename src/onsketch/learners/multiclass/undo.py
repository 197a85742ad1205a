"""Undo of rows for several learners: an earlier copy of the learners, and the rows since then.

The learners of different classes learn a row one after the other, and the last one may refuse it when the first have
learned it. To undo the row, an earlier copy of the learners learns the rows since then again, which gives the same
bits. A new copy is made when these rows would take more memory than the learners; its cost is then small compared with
that of learning them.

Memory: the copy is as large as the learners, and the rows take at most as much or ``_LEAST`` bytes; with the learners
at most three times their size. Undoing uses the copy itself, without more memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.learners.base import Learner
from onsketch.learners.rows import Rows

Floats = NDArray[np.float64]
Block = tuple[Rows, NDArray[np.int64], Floats]
"""Checked rows, the code of the class of each, and their weights."""

_LEAST = 1 << 18
"""Bytes of rows that are always cheap to keep and to learn again."""

_CALL = 1024
"""Bytes of the Python objects of a block, in addition to its numbers."""


class Undo:
    """Learners as they were, and what they have learned since."""

    def __init__(self, teach: Callable[[list[Learner], Block], Any]) -> None:
        self._teach = teach
        self._copies: list[Learner] = []
        self._since: list[Block] = []
        self._room = 0
        self._known: list[tuple[Learner, int]] = []
        """The learners that the copy and the rows since give, and the rounds they had played then."""

    def __reduce__(self) -> Any:
        """Pickles and copies are empty, which is always valid: they contain neither rows nor earlier learners."""
        return Undo, (self._teach,)

    def begin(self, learners: list[Learner]) -> None:
        """Be ready to go back to how the learners are now, whoever has taught, added or replaced one meanwhile."""
        if _played(learners) != self._known:
            self._copies, self._since = [], []  # their memory first
            self._copies = copy.deepcopy(learners)
            self._room = max(_LEAST, sum(learner.state_bytes()["total"] for learner in learners))
            self._known = _played(learners)

    def keep(self, learners: list[Learner], block: Block) -> None:
        """Note that all have learned this block; if it does not fit, the next ``begin`` makes a new copy."""
        rows, labels, weights = block
        self._room -= rows.nbytes + labels.nbytes + weights.nbytes + _CALL
        if self._room >= 0:
            self._since.append((rows.copy(), labels.copy(), weights.copy()))
            self._known = _played(learners)
        else:
            self._known, self._copies, self._since = [], [], []

    def back(self) -> list[Learner]:
        """The learners as they were when ``begin`` was last called; the next one makes a new copy."""
        learners, since = self._copies, self._since
        self._known, self._copies, self._since = [], [], []
        for block in since:
            self._teach(learners, block)
        return learners


def _played(learners: list[Learner]) -> list[tuple[Learner, int]]:
    return [(learner, learner.rounds) for learner in learners]
