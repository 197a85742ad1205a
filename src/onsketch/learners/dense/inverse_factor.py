"""The inverse of a growing matrix in a factored form, which stays positive definite under rounding.

The inverse of ``A = ridge·I + Σ rrᵀ`` is kept as ``A⁻¹ = FᵀF/ridge`` with F lower triangular (F = I at the start), and
never as a full matrix, which rounding could make indefinite. Absorbing r is Carlson's update of a square root, one row
f_j of F after the other. With ``φ_j = f_j·r`` and ``a_j = ridge + φ_1² + … + φ_j²``,

    b_j = b_{j−1} + φ_j f_j,    f_j ← √(a_{j−1}/a_j)·(f_j − φ_j b_{j−1}/a_{j−1})

after which ``b = FᵀFr`` of the old F, ``a = ridge + rᵀFᵀFr``, and Sherman-Morrison's step is
``A_t⁻¹r = b/a``, free of cancellation. Row j is read and written once, while it is in the cache: half of d²
numbers a round. The rows of F never grow, so that nothing overflows; errors grow with √cond(A), not with
cond(A); and there is no drift (1e-11 after a million rounds).

With ridge 0 the inverse is the pseudo-inverse ``A⁺ = FᵀF``, F having rank(A) full rows,
with an orthonormal basis Q of the range. A row that leaves the range by ``n = r − QᵀQr`` gives (Meyer
1973, factored)

    f_j ← f_j − φ_j n/|n|²,    one more row n/|n|²,    A_t⁺r = n/|n|²

and any other row is absorbed as above. Whether it leaves is decided by ``|n|² > CUTOFF·|r|²``. O(d²) a round
too, with a larger constant.

N. A. Carlson: "Fast triangular formulation of the square root filter", AIAA Journal 11, 1973.
C. D. Meyer: "Generalized inversion of modified matrices", SIAM J. Applied Mathematics 24, 1973.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import require
from onsketch.core.state import Array as State
from onsketch.core.state import new, resize
from onsketch.core.tolerances import CUTOFF, LARGEST
from onsketch.jit.decorators import inner
from onsketch.learners.dense.iterate import Array
from onsketch.sketches.spectral import positive_spectrum


class Factor(NamedTuple):
    """``A⁻¹ = FᵀF/unit``."""

    rows: Annotated[Array, State("features features", within=(-LARGEST * LARGEST, LARGEST * LARGEST))]
    """F; lower triangular with a ridge, the first ``rank`` rows in use without."""
    basis: Annotated[Array, State("singular singular")]
    """Q, for ridge 0; else it has no rows."""
    rank: Annotated[NDArray[np.int64], State("1", "i8")]
    """[rows of F in use]."""
    ridge: float
    unit: float
    """The ridge, or 1 without one."""

    def check(self, prefix: str) -> None:
        """Raise ModelFileError for a rank that F cannot have."""
        require(0 <= self.rank[0] <= len(self.rows), "its rank is impossible", f"{prefix}.rank")


def new_factor(ridge: float) -> Factor:
    """Return the factor for no features."""
    made: Factor = new(Factor, features=0, singular=0, ridge=ridge, unit=ridge if ridge > 0.0 else 1.0)
    return made


def wider_factor(factor: Factor, width: int) -> Factor:
    """Return the factor with more features, of which nothing is known but the ridge."""
    have = factor.rows.shape[1]
    wider: Factor = resize(factor, features=width, **({} if factor.ridge > 0.0 else {"singular": width}))
    if factor.ridge == 0.0:
        return wider
    wider.rows[range(have, width), range(have, width)] = 1.0
    return wider._replace(rank=np.array([width]))


def matrix_of(factor: Factor) -> Array:
    """A, from its inverse's factor: O(d³)."""
    if factor.ridge > 0.0:
        back = _inverse_of_triangle(factor.rows)
        return np.asarray(factor.ridge * (back @ back.T))
    back = np.asarray(np.linalg.pinv(factor.rows[: factor.rank[0]]))
    return np.asarray(back @ back.T)


def factor_of(matrix: Array, ridge: float) -> Factor:
    """The factor of the inverse of A, O(d³); with a ridge A must be at least ridge·I."""
    width = len(matrix)
    factor = wider_factor(new_factor(ridge), width)
    if ridge > 0.0:
        factor.rows[:] = _inverse_of_triangle(np.asarray(np.linalg.cholesky(matrix / ridge)))
        return factor
    values, vectors = positive_spectrum(matrix)
    factor.rank[0] = rank = values.size
    factor.basis[:rank] = vectors.T
    factor.rows[:rank] = factor.basis[:rank] / np.sqrt(values)[:, np.newaxis]
    return factor


def _inverse_of_triangle(lower: Array) -> Array:
    from scipy.linalg import solve_triangular

    inverse: Array = solve_triangular(lower, np.eye(len(lower)), lower=True, check_finite=False)
    return inverse


@inner
def dot(a, b, n):
    """The inner product of the first n entries."""
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@inner
def _length(factor, j):
    """Entries of row j of F that may differ from zero."""
    return j + 1 if factor.ridge > 0.0 else factor.rows.shape[1]


@inner
def times(factor, v, out):
    """``out = FᵀF v``; returns ``|F v|²``."""
    square = 0.0
    for i in range(out.size):
        out[i] = 0.0
    for j in range(factor.rank[0]):
        row = factor.rows[j]
        n = _length(factor, j)
        phi = dot(row, v, n)
        square += phi * phi
        for i in range(n):
            out[i] += phi * row[i]
    return square


@inner
def residual(factor, x, n):
    """The part n of x outside the range of A; returns ``|n|²``, or 0 if it is below the cutoff."""
    rank = factor.rank[0]
    d = x.size
    if factor.ridge > 0.0 or rank == d:
        return 0.0
    for i in range(d):
        n[i] = x[i]
    for _ in range(2):  # twice is enough
        for j in range(rank):
            q = factor.basis[j]
            share = dot(q, n, d)
            for i in range(d):
                n[i] -= share * q[i]
    left = dot(n, n, d)
    return left if left > CUTOFF * dot(x, x, d) else 0.0


@inner
def safe_scale(factor, r):
    """A scale in which the squares of φ = F r do not overflow; with a ridge F's rows are at most 1 long."""
    largest = 1.0
    if factor.ridge == 0.0:
        for j in range(factor.rank[0]):
            largest = max(largest, abs(dot(factor.rows[j], r, r.size)))
    return largest


@inner
def absorb(factor, r, scale, b):
    """Carlson's update by the row r, in a scale s.

    Fills ``b = FᵀFr/s`` and returns ``a' = a/s²``, so that ``A_t⁻¹r = b/(a's)``.
    """
    for i in range(b.size):
        b[i] = 0.0
    a = factor.unit / scale / scale
    root = math.sqrt(a)
    for j in range(factor.rank[0]):
        row = factor.rows[j]
        n = _length(factor, j)
        phi = dot(row, r, n) / scale
        if phi == 0.0:
            continue
        a += phi * phi
        last = root
        root = math.sqrt(a)
        shrink = 1.0
        gain = 0.0
        if root > 0.0:
            shrink = last / root
            gain = phi / root / last if last > 0.0 else 0.0
        for i in range(n):
            f = row[i]
            row[i] = shrink * f - gain * b[i]
            b[i] += phi * f
    return a


@inner
def extend(factor, x, rho, n, outside, b):
    """Absorb the row ρ·x, which leaves the range along n; fills b with A_t⁺(ρx)."""
    rank = factor.rank[0]
    d = x.size
    length = math.sqrt(outside)
    for i in range(d):
        n[i] /= length
    for j in range(rank):
        row = factor.rows[j]
        share = dot(row, x, d) / length
        for i in range(d):
            row[i] -= share * n[i]
    for i in range(d):
        factor.basis[rank, i] = n[i]
        b[i] = n[i] / length / rho
        factor.rows[rank, i] = b[i]
    factor.rank[0] = rank + 1


@inner
def fits_within(v, limit):
    """Return True if every entry is finite and within ±limit."""
    fits = True
    for i in range(v.size):
        fits &= abs(v[i]) <= limit
    return fits


@inner
def rows_fit(factor):
    """Return True if products of F with any row of the stream stay finite."""
    fits = True
    for j in range(factor.rank[0]):
        fits &= fits_within(factor.rows[j], LARGEST)
    return fits


@inner
def copy_rows(factor, saved):
    """Save the first rows of F, one by one: NumPy's own assignment takes seconds to compile."""
    for j in range(saved.shape[0]):
        for i in range(saved.shape[1]):
            saved[j, i] = factor.rows[j, i]


@inner
def restore(factor, saved, rank):
    """Undo what was done to F since its first rows were saved."""
    for j in range(saved.shape[0]):
        for i in range(saved.shape[1]):
            factor.rows[j, i] = saved[j, i]
    for j in range(rank, factor.rank[0]):
        for i in range(saved.shape[1]):
            factor.rows[j, i] = 0.0
            factor.basis[j, i] = 0.0
    factor.rank[0] = rank
