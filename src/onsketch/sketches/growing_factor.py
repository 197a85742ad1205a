"""A Cholesky factor that grows by one row at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import require, require_within
from onsketch.core.tolerances import CUTOFF, LARGEST
from onsketch.jit.decorators import kernel

Array = NDArray[np.float64]


def with_room(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array itself if its first axis has room for ``size``, else a copy with twice the room, the rest zeros."""
    if len(array) >= size:
        return array
    larger = np.zeros((max(size, 2 * len(array), 32), *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def _solve(rows, v):  # type: ignore[no-untyped-def]
    """``v ← L⁻¹v``."""
    start = 0
    for i in range(v.size):
        row = rows[start : start + i + 1]
        known = 0.0
        for j in range(i):
            known += row[j] * v[j]
        v[i] = (v[i] - known) / row[i]
        start += i + 1


@kernel
def _solve_transposed(rows, v):  # type: ignore[no-untyped-def]
    """``v ← L⁻ᵀv``."""
    start = v.size * (v.size + 1) // 2
    for i in range(v.size - 1, -1, -1):
        start -= i + 1
        row = rows[start : start + i + 1]
        found = v[i] / row[i]
        v[i] = found
        for j in range(i):
            v[j] -= found * row[j]


class GrowingFactor:
    """L, lower triangular with positive diagonal, of a matrix ``E = LLᵀ`` that gains a row and a column at a time.

    Rows of L lie one after the other in one array, without the zeros above the diagonal, so that a new row is
    appended and nothing moves; the array doubles when it is full. n(n+1)/2 numbers, which solving reads once.

    >>> factor = GrowingFactor()
    >>> factor.append(np.empty(0), 2.0)
    >>> factor.append(np.array([1.0]), 3.0)
    >>> factor.dense()
    array([[2., 0.],
           [1., 3.]])
    >>> factor.solve(np.array([2.0, 4.0]))
    array([1., 1.])
    """

    def __init__(self) -> None:
        self.rows = np.zeros(0)
        self.size = 0
        self.largest = 0.0
        """The largest diagonal entry of E."""

    def solve(self, v: Array) -> Array:
        """L⁻¹v."""
        solution = self._right_side(v)
        _solve(self.rows, solution)
        return solution

    def solve_transposed(self, v: Array) -> Array:
        """L⁻ᵀv, so that ``solve_transposed(solve(v))`` is E⁻¹v."""
        solution = self._right_side(v)
        _solve_transposed(self.rows, solution)
        return solution

    def _right_side(self, v: Array) -> Array:
        """A copy that a loop may write on, which takes its word for the length."""
        if np.shape(v) != (self.size,):
            raise ValueError(f"v has shape {np.shape(v)}, for a factor of {self.size} rows.")
        return np.array(v, dtype=np.float64)

    def pivot(self, remainder: float, diagonal: float) -> float:
        """√(d − |L⁻¹e|²) for a new diagonal entry d, given ``d − |L⁻¹e|²``, but never below the cutoff.

        Rounding leaves errors of 1e-16 of the largest diagonal entry in the remainder. Divided by a pivot as small as
        they are, they would grow from row to row without end; CUTOFF keeps well away from that.
        """
        return math.sqrt(max(remainder, CUTOFF * max(self.largest, diagonal)))

    def append(self, row: Array, pivot: float) -> None:
        """Border L with ``(row, pivot)``, for a new column e of E ``L⁻¹e`` and what ``pivot`` says."""
        self.largest = max(self.largest, float(row @ row) + pivot * pivot)
        start = self.size * (self.size + 1) // 2
        stop = start + self.size
        self.rows = with_room(self.rows, stop + 1)
        self.rows[start:stop] = row
        self.rows[stop] = pivot
        self.size += 1

    def used(self) -> Array:
        """The rows of L, without the room for more."""
        return self.rows[: self.size * (self.size + 1) // 2]

    def refill(self, rows: Array, size: int, largest: float) -> None:
        """Take L from a model file."""
        fits = size >= 0 and len(rows) == size * (size + 1) // 2 and largest >= 0.0
        require(fits, "a factor is not as large as its rows are many", "factor")
        require_within(rows, -LARGEST, LARGEST, "factor")
        steps = np.arange(1, size + 1)
        require(bool((rows[steps * (steps + 1) // 2 - 1] > 0.0).all()), "the diagonal of a factor is not positive")
        self.rows, self.size, self.largest = rows, size, largest

    def dense(self) -> Array:
        """L as a square array."""
        square = np.zeros((self.size, self.size))
        square[np.tril_indices(self.size)] = self.used()
        return square

    def inverse_trace(self) -> float:
        """The trace of E⁻¹, |L⁻¹|²; O(n³)."""
        if not self.size:
            return 0.0
        from scipy.linalg.lapack import dtrtri

        inverse, _ = dtrtri(self.dense(), lower=1)
        return math.fsum((inverse * inverse).sum(axis=0))
