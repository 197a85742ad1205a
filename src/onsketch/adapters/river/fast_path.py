"""Fast path for single rows that have the same features each time: see ``learners/one_row.py``."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from onsketch.learners.base import Learner
from onsketch.learners.one_row import SingleRows

PLAIN = frozenset({float, int, bool, np.float64})
"""Types of values that need no further check."""

_REPEATED, _MOST, _WORTH = 8, 256, 64
"""Number of consecutive rows with the same features that starts the fast path, its maximum, and the cost of the setup.

The setup costs as much as the general path of about ``_WORTH`` rows. If the fast path served fewer rows, the required
number doubles, up to ``_MOST``.
"""


class _Known(NamedTuple):
    """Learner and layout of rows with these features."""

    learner: Learner
    size: int
    pick: itemgetter[Any]
    """Returns the values of a row in the order of the features' numbers."""
    rows: SingleRows

    def values(self, x: Any) -> Any:
        """Return the values of a row; None if it has other features or is no plain dictionary of plain numbers."""
        if type(x) is not dict or len(x) != self.size:
            return None
        try:
            values = self.pick(x)
        except KeyError:
            return None
        if type(values[0]) is float:  # for numbers the sum is a number, and Python computes it fast
            try:
                if type(sum(values)) is float:
                    return values
            except (TypeError, OverflowError):  # no number, or an integer beyond float64: the general path reports it
                return None
        return values if PLAIN.issuperset(map(type, values)) else None


class FastPath:
    """Features of recent rows, and the prepared learner for such rows."""

    __slots__ = ("_free", "_last", "_missed", "_needed", "_times")

    def __init__(self) -> None:
        self._free: list[_Known] = []  # the thread that uses it removes it: several threads may run
        self._last: tuple[Any, ...] = ()
        self._times, self._needed = 0, _REPEATED
        self._missed = -_WORTH - 1  # no penalty before the first setup
        """Rounds of the learner at the last setup, and rounds of the general path since then."""

    def __reduce__(self) -> tuple[type[FastPath], tuple[()]]:
        return FastPath, ()

    def learn(self, learner: Any, x: Any, label: float) -> bool:
        """Learn a row of weight 1; return False, with nothing changed, if it needs the general path."""
        try:
            known = self._free.pop()
        except IndexError:
            return False
        values = known.values(x)
        if known.learner is learner and (values is None or known.rows.learn(values, label)):
            self._free.append(known)
            return values is not None
        return False

    def predict(self, learner: Any, x: Any) -> float | None:
        """Return the margin of a row; None if it needs the general path."""
        try:
            known = self._free.pop()
        except IndexError:
            return None
        values, margin = known.values(x), None
        if known.learner is learner and (values is None or (margin := known.rows.predict(values)) is not None):
            self._free.append(known)
        return margin

    def notice(self, learner: Learner, x: Mapping[Any, Any], numbers: dict[Any, int]) -> None:
        """Record a row of the general path; if it resembles those before, prepare the fast path."""
        if type(x) is not dict or len(x) < 2 or not x.keys() <= numbers.keys():
            return
        names = tuple(x)
        if names != self._last:
            self._last, self._times = names, 0
        self._times += 1
        self._missed += 1
        if self._times < self._needed:
            return
        served, self._missed, self._times = learner.rounds - self._missed, learner.rounds, 0
        self._needed = _REPEATED if served > _WORTH else max(min(2 * self._needed, _MOST), _REPEATED)
        names = tuple(sorted(x, key=numbers.__getitem__))
        rows = SingleRows.of(learner, np.array([numbers[name] for name in names]), len(numbers))
        if rows is not None:
            self._free = [_Known(learner, len(names), itemgetter(*names), rows)]
