"""The small state of a sketch, as compiled loops see it: a handful of arrays, whatever the sketch.

Passing few arrays to compiled functions keeps them quick to call and, above all, quick to compile.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.jit.secular import LINES
from onsketch.jit.vectors import padded
from onsketch.learners.sketched.packed import COLUMN


class Counts(NamedTuple):
    """Entries of a sketch's counts."""

    rows: int
    """rows of S"""
    closed: int
    """rows before the last change of basis"""
    column: int
    """the packed column the last row went to (0: none, −1: all sketch columns changed)"""
    rank: int
    """independent rows (Oja); elsewhere rows since the spectrum was last worked out from the matrix itself"""


COUNT = Counts(*range(4))


class Numbers(NamedTuple):
    """Entries of a sketch's numbers."""

    base: int
    """the weights are ``base·head + Sᵀa``"""
    base_sum: int
    """the sum of base over the rounds"""
    ridge: int
    """it grows under RFD, and with the rows when none was given"""
    escaped: int
    """the mass Σρ shrunk away"""
    fade: int
    """what forgetting has left of the metric, ridge and all, since the last shrink"""
    lengths: int
    """Σ|x|²"""


NUMBER = Numbers(*range(6))


class Lines(NamedTuple):
    """Vectors with one number for each row of S."""

    a: int
    """a"""
    a_sum: int
    """its sum over the rounds"""
    dual: int
    """Sḡ for dual averaging"""
    values: int
    """a spectrum"""
    keep: int
    """√(true energy / energy shown) of each row"""


LINE = Lines(*range(5))


class Squares(NamedTuple):
    """Squares of most sketches."""

    gram: int
    """SSᵀ"""
    inverse: int
    """(ridge·I + SSᵀ)^{-1}"""
    vectors: int
    """eigenvectors, as rows"""


SQUARE = Squares(*range(3))


class State(NamedTuple):
    """A sketch's state. Each sketch subclasses it, and the driver chooses its functions by that type."""

    counts: NDArray[np.int64]
    numbers: NDArray[np.float64]
    lines: NDArray[np.float64]
    squares: NDArray[np.float64]
    transform: NDArray[np.float64]
    """The pending change of basis, as an entry of the packed table's log."""
    work: NDArray[np.float64]
    room: NDArray[np.float64]
    """Scratch of a round, rows as wide as a packed row and squares: not part of the state."""

    @property
    def scratch(self) -> tuple[str, ...]:
        """Fields that hold nothing between rounds."""
        return ("work", "room")

    @classmethod
    def empty(cls, capacity: int, kept: int, ridge: float) -> Self:
        """A sketch of at most ``capacity`` rows, ``kept`` of which survive a change of basis.

        The arrays are padded with zeros to whole vectors.
        """
        capacity = padded(capacity)
        state = cls(
            counts=np.zeros(4, dtype=np.int64),
            numbers=np.array([1.0, 0.0, ridge, 0.0, 1.0, 0.0]),
            lines=np.zeros((5, capacity)),
            squares=np.zeros((3, capacity, capacity)),
            transform=np.zeros((capacity, padded(kept + 2))),
            work=np.zeros((LINES + 5, COLUMN.sketch + capacity)),
            room=np.zeros((2, capacity, capacity)),
        )
        state.lines[LINE.keep] = 1.0
        state.squares[SQUARE.vectors] = np.eye(capacity)
        return state

    # What a sketch knows of itself, for reading and merging; sketches that differ say so in their own class.

    def energies(self) -> NDArray[np.float64]:
        """The eigenvalues of what it stands for, in any order."""
        n = int(self.counts[COUNT.rows])
        return np.asarray(np.linalg.eigvalsh(self.squares[SQUARE.gram, :n, :n]), dtype=np.float64)

    def energy_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows B with BᵀB what the sketch stands for, from the rows S that the table holds."""
        return rows

    def true_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same without what the sketch adds to the directions it shows."""
        return self.energy_rows(rows)

    def lost(self, base: Self, rows: NDArray[np.float64], features: int, capacity: int) -> float:
        """An estimate of the energy in a direction that the sketch no longer shows, since the base.

        A shrink by ρ lets at most ``capacity·ρ`` go, and no more than ρ in any direction; what has gone is taken to
        lie spread over all features.
        """
        escaped = float(self.numbers[NUMBER.escaped] - base.numbers[NUMBER.escaped])
        return max(escaped, 0.0) * min(1.0, capacity / features)

    def copy(self) -> Self:
        """A state of its own with the same numbers."""
        arrays: Any = [array.copy() for array in self]
        return type(self)(*arrays)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(array.nbytes for array in self)
