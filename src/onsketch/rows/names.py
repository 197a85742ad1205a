"""Names of the columns of X, collected while reading, and numbers for names in their order of appearance."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.interrupts import uninterrupted

LONGEST = 1000
"""Characters of a name that are kept."""

MOST = 1_000_000
"""Largest number of names; later features have none."""


_WIDEST = 1 << 24
"""Columns up to which a flag is kept for each."""


class Names:
    """Names of columns, and the set of columns seen so far.

    >>> names = Names()
    >>> names.new(np.array([5, 3, 5]), 8).tolist()
    [1, 0]
    >>> names.new(np.array([3, 7]), 8).tolist()
    [1]
    """

    def __init__(self, known: dict[int, str] | None = None, most: int = MOST, words: bool = True) -> None:
        self.known: dict[int, str] = {} if known is None else known
        self.words = words
        """True if categories, words and products are named, too, and not only columns of a table."""
        self._most = most
        self._met = np.zeros(0, dtype=bool)
        self._seen: set[int] = set()

    def new(self, columns: NDArray[Any], width: int) -> NDArray[np.int64]:
        """The places of those columns, all below ``width``, that come for the first time; each column once."""
        if width > _WIDEST:
            found, first = np.unique(columns, return_index=True)
            fresh = np.array([column not in self._seen for column in found.tolist()], dtype=bool)
            self._seen.update(found[fresh].tolist())
            return np.asarray(first[fresh], dtype=np.int64)
        if self._met.size < width:
            self._met = np.concatenate([self._met, np.zeros(width - self._met.size, dtype=bool)])
        places = np.flatnonzero(~self._met[columns])
        if not places.size:
            return places
        found, first = np.unique(columns[places], return_index=True)
        self._met[found] = True
        return places[first]

    def add(self, column: int, name: str) -> None:
        """Name a column, unless it has a name."""
        if len(self.known) < self._most:
            self.known.setdefault(column, name if len(name) <= LONGEST else f"{name[:LONGEST]}…")

    def of(self, column: int) -> str:
        """The name of a column; its number where it has none."""
        return self.known.get(column, str(column))


class Numbers:
    """Names of any kind to numbers, in their order of appearance.

    >>> numbers = Numbers()
    >>> numbers.enter(["b", "a", "b"])
    >>> numbers.of
    {'b': 0, 'a': 1}
    """

    def __init__(self) -> None:
        self.of: dict[Any, int] = {}
        self.forgotten = 0
        """How often names have been forgotten: a number may stand for another name since."""
        self.entering = RLock()
        """Held while names are entered and rows are learned under them, so that no thread forgets another's names."""

    def __getstate__(self) -> dict[str, Any]:
        return {"of": self.of}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, forgotten=0, entering=RLock())

    def enter(self, names: Iterable[Hashable]) -> None:
        """Number the new names."""
        numbers = self.of
        for name in names:
            numbers.setdefault(name, len(numbers))

    def forget(self, count: int) -> None:
        """Keep the first ``count`` names only. The dictionary stays the same object."""
        for name in list(islice(reversed(self.of), max(len(self.of) - count, 0))):
            self.forgotten += 1
            del self.of[name]

    @contextmanager
    def learning(self, rounds: Callable[[], int]) -> Iterator[None]:
        """Forget the names seen inside if an error occurs before the first row is learned. Signals wait.

        Args:
            rounds: returns the number of rows learned so far.
        """
        with uninterrupted, self.entering:
            count, before = len(self.of), rounds()
            try:
                yield
            except BaseException:
                if rounds() == before:
                    self.forget(count)
                raise
