"""The small state of a sketch, as compiled loops use it: a few arrays, the same for all sketches.

Passing few arrays to compiled functions keeps them quick to call and, above all, quick to compile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import require
from onsketch.core.errors import OptionError
from onsketch.core.secular import LINES
from onsketch.core.state import Array, new
from onsketch.core.tolerances import LARGEST
from onsketch.jit.vectors import padded
from onsketch.learners.sketched.packed import COLUMN
from onsketch.sketches.spectral import spectrum

if TYPE_CHECKING:
    from onsketch.learners.setup import Setup
    from onsketch.learners.sketched.learner import SketchedLearner


class Counts(NamedTuple):
    """Entries of a sketch's counts."""

    rows: int
    """rows of S"""
    closed: int
    """rows of S before the last change of basis"""
    column: int
    """the packed column of the last row absorbed (0: none, −1: all sketch columns changed)"""
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
    """the present ridge; it grows with RFD, and with the rows if none was given"""
    escaped: int
    """the escaped energy Σρ that shrinks have subtracted"""
    fade: int
    """what forgetting has left of the metric, ridge and all, since the last shrink"""
    lengths: int
    """Σ|x|²"""


NUMBER = Numbers(*range(6))


class Lines(NamedTuple):
    """Vectors with one number for each row of S."""

    a: int
    """a, the coefficients on the rows of S"""
    a_sum: int
    """the sum of a over the rounds"""
    dual: int
    """Sḡ for dual averaging"""
    values: int
    """the spectrum last computed"""
    keep: int
    """√(true energy / energy with what the sketch adds) of each row"""


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


_MOST, _SQUARED = float(np.finfo(np.float64).max), LARGEST * LARGEST
_BOUNDS = {
    NUMBER.ridge: (0.0, _SQUARED),
    NUMBER.escaped: (0.0, _MOST),
    NUMBER.lengths: (0.0, _MOST),
    NUMBER.fade: (float(np.finfo(np.float64).tiny), 1.0),
}


class _Arrays(NamedTuple):
    """The arrays of a sketch's state. Those with an axis m are padded with zeros to whole vectors."""

    counts: Annotated[NDArray[np.int64], Array("4", "i8")]
    numbers: Annotated[NDArray[np.float64], Array("6", start=(1.0, 0.0, 0.0, 0.0, 1.0, 0.0), within=_BOUNDS)]
    lines: Annotated[NDArray[np.float64], Array("5 m", within={...: (-_SQUARED, _MOST), LINE.values: (0.0, _MOST)})]
    squares: Annotated[NDArray[np.float64], Array("3 m m")]
    transform: Annotated[NDArray[np.float64], Array("m entry", scratch=True)]
    """A change of basis, to be entered in the packed table's log."""
    work: Annotated[NDArray[np.float64], Array("work width", scratch=True)]
    """Rows as wide as a packed row."""
    room: Annotated[NDArray[np.float64], Array("2 m m", scratch=True)]


class State(_Arrays):
    """A sketch's state. Each sketch subclasses it, and the driver chooses its functions by that type."""

    logs: ClassVar[bool] = True
    """True if it rotates its basis; absent features then catch up from the table's log."""
    bounded: ClassVar[bool] = True
    """True if small steps keep its coefficients a small."""

    @classmethod
    def shape(cls, size: int, doubling: bool) -> tuple[int, int]:
        """Return the number of rows after a change of basis, and the capacity."""
        return size, size

    @classmethod
    def start(cls, capacity: int, kept: int, ridge: float) -> Self:
        """Return the sketch of no rows."""
        return cls.empty(capacity, kept, ridge)

    @classmethod
    def empty(cls, capacity: int, kept: int, ridge: float) -> Self:
        """Return an empty sketch of at most ``capacity`` rows, ``kept`` of which remain after a change of basis."""
        m = padded(capacity)
        state: Self = new(cls, m=m, entry=padded(kept + 2), work=LINES + 5, width=COLUMN.sketch + m)
        state.numbers[NUMBER.ridge] = ridge
        state.lines[LINE.keep] = 1.0
        state.squares[SQUARE.vectors] = np.eye(m)
        return state

    # Defaults for reading and merging; sketches override them in their own class.

    def energies(self) -> NDArray[np.float64]:
        """Return the eigenvalues of the represented matrix, in any order."""
        n = int(self.counts[COUNT.rows])
        return np.asarray(np.linalg.eigvalsh(self.squares[SQUARE.gram, :n, :n]), dtype=np.float64)

    def energy_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows B with BᵀB the represented matrix, from the rows S in the table."""
        return rows

    def true_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the same without the energy that the sketch adds to its directions."""
        return self.energy_rows(rows)

    def lost(self, base: Self, rows: NDArray[np.float64], features: int, capacity: int) -> float:
        """Estimate the energy lost per direction since the base.

        A shrink by ρ removes at most ``capacity·ρ``, and no more than ρ in any direction. The lost energy is assumed to
        be spread over all features.
        """
        escaped = float(self.numbers[NUMBER.escaped] - base.numbers[NUMBER.escaped])
        return max(escaped, 0.0) * min(1.0, capacity / features)

    def set_merged(
        self, parts: tuple[SketchedLearner, ...], stored: list[NDArray[np.float64]], energies: list[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Become the small state of the merged sketch, and return its rows.

        Args:
            parts: the learner of this sketch, whose ridge and escaped energy are merged already; the other; their base.
            stored: the rows S of each.
            energies: the rows B of each (``true_rows``).
        """
        raise OptionError(f"merge: {parts[0].method.name} has no rule for adding its sketches.")

    def set_gram(self, gram: NDArray[np.float64], least: float = 0.0) -> None:
        """Set K, its spectrum, and (ridge·I + K)⁻¹ unless its condition number is above 1/``least``; O(n³)."""
        n = len(gram)
        self.counts[COUNT.rows] = n
        self.squares[[SQUARE.gram, SQUARE.inverse]] = 0.0
        self.squares[SQUARE.gram, :n, :n] = gram
        values, vectors = spectrum(gram)
        self.lines[LINE.values, :n] = values
        self.squares[SQUARE.vectors, :n, :n] = vectors.T
        shares = self.numbers[NUMBER.ridge] + values
        if n and shares.min() > least * shares.max():
            self.squares[SQUARE.inverse, :n, :n] = (vectors / shares) @ vectors.T

    def check_sketch(self, fresh: Self, setup: Setup) -> None:
        """Raise ModelFileError for a state that no stream leads to: compiled loops check no bounds."""
        rows, closed, column, rank = (int(count) for count in self.counts)
        where, capacity = "sketch.counts", setup.capacity
        if fresh.counts[COUNT.column] < 0:  # all its rows are there from the start
            require(rows == fresh.counts[COUNT.rows] and closed == fresh.counts[COUNT.closed], "other rows", where)
            require(column == -1 and -1 <= rank <= rows, "its rank is impossible", where)
        else:
            require(0 <= rows <= self.most_rows(setup), f"{rows} rows in a sketch of {capacity}", where)
            require(0 <= closed <= capacity, "a change of basis of more rows than there were", where)
            require(column == 0 or COLUMN.sketch <= column < COLUMN.sketch + capacity, "a row went to no column", where)
            require(0 <= rank <= capacity, "its spectrum is older than its rows", where)
        require(self.numbers[NUMBER.ridge] >= fresh.numbers[NUMBER.ridge], "its ridge has shrunk", "sketch.numbers")
        beyond = self.lines[LINE.a, rows : (rows + 3) // 4 * 4]  # rows are read in whole vectors
        require(not beyond.any(), "a has entries beyond its rows", "sketch.lines")

    def most_rows(self, setup: Setup) -> int:
        """Return the largest number of rows between two rounds."""
        return setup.capacity
