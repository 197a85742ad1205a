"""Cholesky factor that grows by one row at a time."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import LONGEST_COUNT, require
from onsketch.core.tolerances import CUTOFF, LARGEST
from onsketch.jit.decorators import kernel

Array = NDArray[np.float64]


@kernel
def _solve(rows, v):  # type: ignore[no-untyped-def]
    """Compute ``v ← L⁻¹v`` in place."""
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
    """Compute ``v ← L⁻ᵀv`` in place."""
    start = v.size * (v.size + 1) // 2
    for i in range(v.size - 1, -1, -1):
        start -= i + 1
        row = rows[start : start + i + 1]
        found = v[i] / row[i]
        v[i] = found
        for j in range(i):
            v[j] -= found * row[j]


class GrowingFactor:
    """Cholesky factor L of a matrix ``E = LLᵀ`` that gains a row and a column at a time.

    The array stores the rows of L one after the other, without the zeros above the diagonal, so that a new row is
    appended and nothing moves. It has n(n+1)/2 numbers, which solving reads once.

    >>> factor = GrowingFactor()
    >>> factor.append(np.empty(0), 2.0)
    >>> factor.append(np.array([1.0]), 3.0)
    >>> factor.dense()
    array([[2., 0.],
           [1., 3.]])
    >>> factor.solve(np.array([2.0, 4.0]))
    array([1., 1.])
    """

    rows: Annotated[Array, state.Array("packed", within=(-LARGEST, LARGEST))]
    """Rows of L, and spare capacity."""
    size: Annotated[int, state.Array("", "i8", within=(0, LONGEST_COUNT))]
    largest: Annotated[float, state.Array("", within=(0.0, float(np.finfo(np.float64).max)))]
    """Largest diagonal entry of E."""
    free = ("packed",)

    def __init__(self) -> None:
        self.rows = np.zeros(0)
        self.size = 0
        self.largest = 0.0

    def solve(self, v: Array) -> Array:
        """Return L⁻¹v."""
        solution = self._right_side(v)
        _solve(self.rows, solution)
        return solution

    def solve_transposed(self, v: Array) -> Array:
        """Return L⁻ᵀv, so that ``solve_transposed(solve(v))`` is E⁻¹v."""
        solution = self._right_side(v)
        _solve_transposed(self.rows, solution)
        return solution

    def _right_side(self, v: Array) -> Array:
        """Return a copy that a kernel may overwrite, of checked length."""
        if np.shape(v) != (self.size,):
            raise ValueError(f"v has shape {np.shape(v)}, for a factor of {self.size} rows.")
        return np.array(v, dtype=np.float64)

    def pivot(self, remainder: float, diagonal: float) -> float:
        """Return √(d − |L⁻¹e|²) for a new diagonal entry d, given ``d − |L⁻¹e|²``, but never less than the cutoff.

        Rounding leaves errors of 1e-16 of the largest diagonal entry in the remainder. Divided by a pivot as small as
        they are, they would grow from row to row without end; CUTOFF keeps well away from that.
        """
        return math.sqrt(max(remainder, CUTOFF * max(self.largest, diagonal)))

    def append(self, row: Array, pivot: float) -> None:
        """Append the row ``(row, pivot)`` to L; for a new column e of E, ``row`` is ``L⁻¹e``."""
        self.largest = max(self.largest, float(row @ row) + pivot * pivot)
        start = self.size * (self.size + 1) // 2
        stop = start + self.size
        if stop >= len(self.rows):
            state.grow(self, packed=stop + 1)
        self.rows[start:stop] = row
        self.rows[stop] = pivot
        self.size += 1

    def used(self) -> dict[str, int]:
        """Return the number of entries in use."""
        return {"packed": self.size * (self.size + 1) // 2}

    def check(self, prefix: str, packed: int) -> None:
        """Raise ModelFileError for another number of entries, or a diagonal that is not positive."""
        require(self.used()["packed"] == packed, "a factor is not as large as its rows are many", f"{prefix}.rows")
        steps = np.arange(1, self.size + 1)
        require((self.rows[steps * (steps + 1) // 2 - 1] > 0.0).all(), "the diagonal of a factor is not positive")

    def dense(self) -> Array:
        """Return L as a square array."""
        square = np.zeros((self.size, self.size))
        square[np.tril_indices(self.size)] = self.rows[: self.used()["packed"]]
        return square

    def inverse_trace(self) -> float:
        """Return the trace of E⁻¹, |L⁻¹|²; O(n³)."""
        if not self.size:
            return 0.0
        from scipy.linalg.lapack import dtrtri

        inverse, _ = dtrtri(self.dense(), lower=1)
        return math.fsum((inverse * inverse).sum(axis=0))
