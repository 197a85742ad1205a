"""Names of the columns of X, collected while reading: each column keeps the first name it is met under."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 1_000_000
"""Names kept; features met after these have none."""


class Names:
    """What columns are called, and which of them have been looked at already.

    >>> names = Names()
    >>> names.new(np.array([5, 3, 5]), 8).tolist()
    [1, 0]
    >>> names.new(np.array([3, 7]), 8).tolist()
    [1]
    """

    def __init__(self, known: dict[int, str] | None = None, most: int = MOST) -> None:
        self.known: dict[int, str] = {} if known is None else known
        self._most = most
        self._met = np.zeros(0, dtype=bool)

    def new(self, columns: NDArray[Any], width: int) -> NDArray[np.int64]:
        """The places of those columns, all below ``width``, that come for the first time; each column once."""
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
            self.known.setdefault(column, name)

    def of(self, column: int) -> str:
        """The name of a column; its number where it has none."""
        return self.known.get(column, str(column))
