"""Base of all sketches, and a buffer that gives blocks and single rows the same result."""

from __future__ import annotations

import copy
import operator
import os
from abc import ABC, abstractmethod
from typing import Annotated, Any, Self

import numpy as np

from onsketch.core import state
from onsketch.core.arrays import LONGEST_COUNT, require, require_lengths
from onsketch.core.errors import InputError, OptionError
from onsketch.core.rwlock import Locked, reading, together
from onsketch.core.tolerances import LARGEST, LONGEST_ROW
from onsketch.sketches.rows import Array, checked, dense_chunks
from onsketch.sketches.spectral import eigenvalues

SQUARED = (-LARGEST * LARGEST, LARGEST * LARGEST)
"""Bounds for sums of squares of rows."""


class Sketch(Locked, ABC):
    """Summary of the rows of a matrix ``A`` that arrive one after the other.

    Rows come as one row ``(d,)``, a block ``(n, d)`` or a scipy sparse matrix. The division of a stream into
    blocks does not change a single bit of the result. Invalid input leaves the sketch unchanged. Threads may
    share a sketch: see ``onsketch.core.rwlock``.

    A subclass declares its state (``onsketch.core.state``) by class attributes such as
    ``_rows: Annotated[Array, state.Array("size n_features", within=SQUARED)]``. Files, checks and growth along the axis
    ``n_features`` follow from that.
    """

    n_rows: Annotated[int, state.Array("", "i8", within=(0, LONGEST_COUNT))]
    """Number of rows absorbed, including zero rows and those of merged sketches."""
    reads = (
        "matrix", "ridge", "spectrum", "covariance", "energy", "rows", "indices", "weights", "leverage", "diagnostics",
    )  # fmt: skip

    def __init__(self, n_features: int) -> None:
        self.n_features = whole_number("n_features", n_features, at_least=1)
        self.n_rows = 0

    def update(self, rows: Any) -> Self:
        """Absorb one row or a block of rows; returns the sketch itself."""
        block = checked(rows, self.n_features)
        lock = self.lock
        with lock.writer, lock.writing:
            if self.n_rows + block.shape[0] > LONGEST_COUNT:
                raise InputError(f"rows: after {self.n_rows:,} no more can be counted; the last is 2^53.")
            self._absorb(block)
            self.n_rows += block.shape[0]
        return self

    @property
    @abstractmethod
    def matrix(self) -> Array:
        """Matrix ``B`` with ``BᵀB (+ ridge·I) ≈ AᵀA``, a new array at each access."""

    @property
    def ridge(self) -> float:
        """Multiple of the identity added to ``BᵀB``; zero except for the robust sketches."""
        return 0.0

    @property
    @reading
    def spectrum(self) -> Array:
        """Largest ``min(len(B), d)`` eigenvalues of ``BᵀB``, descending; the others are zero."""
        rows = self.matrix
        gram = rows @ rows.T if len(rows) <= self.n_features else rows.T @ rows
        return eigenvalues(gram)

    @reading
    def covariance(self) -> Array:
        """Return the estimate ``BᵀB + ridge·I`` of ``AᵀA``: d×d numbers, so for small d only."""
        rows = self.matrix
        return rows.T @ rows + self.ridge * np.eye(self.n_features)

    def merge(self, other: Self) -> Self:
        """Add the rows that ``other`` summarises, in place; ``other`` is unchanged."""
        if type(self) is not type(other):
            raise InputError(f"cannot merge {type(other).__name__} into {type(self).__name__}")
        if self is other:
            raise InputError("cannot merge a sketch with itself")
        mine, theirs = self._settings(), other._settings()
        for name, value in mine.items():
            if theirs[name] != value:
                raise InputError(f"cannot merge: {name} is {value} here and {theirs[name]} there")
        with together(self, other):
            merged = copy.deepcopy(self)  # before any change, in case memory runs out
            merged._merge(other)
            merged.n_rows += other.n_rows
            vars(self).update(vars(merged))
        return self

    @reading
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sketch to a model file, atomically; :func:`onsketch.load` restores it bit for bit."""
        from onsketch.sketches.saving import save_sketch

        save_sketch(self, path)

    free: tuple[str, ...] = ()
    """Axes whose size is not an argument; a model file gives them."""

    def check(self, prefix: str, **sizes: int) -> None:
        """Raise ModelFileError for an inconsistent state; bounds of single arrays are declared."""

    @classmethod
    def room(cls, n_features: int, size: int = 0, block: int = 1) -> int:
        """Return the numbers that a new sketch with these arguments stores, up to a small factor."""
        return n_features * (2 * size + block + 34) + size * size

    widens = True
    """True if features may be added."""
    independent = False
    """True if merged sketches must have different seeds."""

    def meet(self, present: Array) -> bool:
        """Draw random numbers for features present for the first time; return True if that changed the state."""
        return False

    def widen(self, n_features: int) -> None:
        """Add features, which were 0 in every row so far."""
        if not self.widens:
            raise InputError(f"{type(self).__name__}: the number of features is fixed.")
        state.resize(self, n_features=n_features)
        self.n_features = n_features

    @abstractmethod
    def _absorb(self, block: Any) -> None:
        """Absorb a checked block, dense or CSR."""

    @abstractmethod
    def _merge(self, other: Self) -> None:
        """Merge a sketch of the same class and settings."""

    def _settings(self) -> dict[str, object]:
        """Return the arguments in which merged sketches must agree."""
        return {"n_features": self.n_features}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self._settings().items())
        return f"{type(self).__name__}({settings}): {self.n_rows} rows"


class BufferedSketch(Sketch):
    """Sketch that processes its rows whenever a buffer is full.

    Blocks thus become matrix products. The buffer fills up at the same rows of the stream, whatever its
    division into blocks: the same products on the same numbers, hence the same bits.
    """

    _buffer: Annotated[Array, state.Array("capacity n_features", within=SQUARED)]
    _filled: Annotated[int, state.Array("", "i8")]

    def __init__(self, n_features: int, capacity: int) -> None:
        super().__init__(n_features)
        self._buffer = np.zeros((capacity, self.n_features))
        self._filled = 0

    def _absorb(self, block: Any) -> None:
        capacity = len(self._buffer)
        if capacity == 0:  # a sketch of size zero keeps nothing
            return
        for chunk in dense_chunks(block):
            start = 0
            while start < len(chunk):
                piece = chunk[start : start + capacity - self._filled]
                self._buffer[self._filled : self._filled + len(piece)] = piece
                self._filled += len(piece)
                start += len(piece)
                if self._filled == capacity:
                    self._empty_buffer()

    def check(self, prefix: str, **sizes: int) -> None:
        """Raise ModelFileError unless a row fits into the buffer."""
        require(0 <= self._filled < max(len(self._buffer), 1), "more rows wait than there is room for", "filled")
        require_lengths(self._buffer, LONGEST_ROW, "buffer")

    @abstractmethod
    def _empty_buffer(self) -> None:
        """Process the full buffer and set ``_filled`` to the number of its rows that stay."""


def whole_number(name: str, value: int, at_least: int, below: int | None = None) -> int:
    """Return the argument as an int, or raise an error that names it."""
    try:
        number = operator.index(value)
    except TypeError:
        raise OptionError(f"{name} must be a whole number, not {value!r}") from None
    if isinstance(value, (bool, np.bool_)) or number < at_least or (below is not None and number >= below):
        limits = f"at least {at_least}" + (f" and below {below}" if below is not None else "")
        raise OptionError(f"{name} must be a whole number, {limits}, not {value!r}")
    return number


def real_number(name: str, value: float, above: float, at_most: float, closed: bool) -> float:
    """Return the argument as a float in ``(above, at_most]``, or ``[above, at_most]`` if closed, or raise an error."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise OptionError(f"{name} must be a number, not {value!r}") from None
    if not (above < number <= at_most or (closed and number == above)):
        interval = f"{'[' if closed else '('}{above:g}, {at_most:g}]"
        raise OptionError(f"{name} must lie in {interval}, not {value!r}")
    return number
