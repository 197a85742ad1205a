"""Fast frequent directions that count rank: Ada-FFD (wan2021, Algorithms 3 and 4), under any geometry.

Unlike fast frequent directions it shrinks when the *rank* reaches 2m, not after 2m rows (a row that depends
on the others is absorbed without growing), and it does so after the step. With 2m > d it is full-matrix AdaGrad.

The sketch represents ``Vᵀ M V`` with V orthonormal and M small. The packed table holds rows S with
``S Sᵀ = L Lᵀ`` and ``V = L^{-1} S``: a row outside the span is stored unchanged and L grows by one row; a row inside
only changes M. At a shrink, ``M = Uᵀ diag(λ) U``, the rows become ``diag(√λ) U L^{-1} S``: an isometry where every
row was independent, so rounding errors in V do not grow from one shrink to the next. M's spectrum follows M by secular
updates, and is recomputed after 2m of them. O(m³) a round, in matrix products.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import require_within
from onsketch.core.eigen import eigh
from onsketch.core.secular import LINES, absorb_row
from onsketch.core.shrinking import FD, shrink, shrunk
from onsketch.core.spectral_step import inverse_metric
from onsketch.core.tolerances import CUTOFF, LARGEST
from onsketch.jit.decorators import inner
from onsketch.jit.vectors import add, dot, put
from onsketch.learners.clip import limited_step
from onsketch.learners.merging import added, spectrum
from onsketch.learners.sketched.epochs import fold_coefficients, turn_line
from onsketch.learners.sketched.packed import COLUMN
from onsketch.learners.sketched.parts import VERDICT, register_parts
from onsketch.learners.sketched.passes import write_buffer
from onsketch.learners.sketched.small_gram import step_along
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, State

if TYPE_CHECKING:
    from onsketch.learners.setup import Setup


_shrink_spectrum = inner(shrink)


class RankedSquares(NamedTuple):
    """Squares of a rank-counting sketch; LINE.values and ``vectors`` are the spectrum of M."""

    lower: int
    """L with SSᵀ = LLᵀ"""
    small: int
    """M"""
    vectors: int
    """its eigenvectors, as rows"""


FFD_SQUARE = RankedSquares(*range(3))


class RankedWork(NamedTuple):
    """Rows of scratch after those of the secular update."""

    along: int
    """Vx = L^{-1}Sx"""
    coordinates: int
    """the coordinates of the row absorbed"""
    coefficients: int
    """what P x has along S"""
    line: int
    moved: int


FFD_WORK = RankedWork(*range(LINES, LINES + 5))


class RankedDirections(State):
    """State of a rank-counting sketch."""

    bounded: ClassVar[bool] = False

    @classmethod
    def shape(cls, size: int, doubling: bool) -> tuple[int, int]:
        """It shrinks at the 2m-th independent row."""
        return size - 1, 2 * size

    def energies(self) -> NDArray[np.float64]:
        """Those of M."""
        values = self.lines[LINE.values, : self.counts[COUNT.rows]]
        return np.where(values > CUTOFF * self.lines[LINE.values, 0], values, 0.0)

    def energy_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """diag(√λ) U L^{-1} S."""
        n = rows.shape[0]
        if not n:
            return rows
        root = np.sqrt(self.lines[LINE.values, :n])[:, None] * self.squares[FFD_SQUARE.vectors, :n, :n]
        return np.asarray(root @ np.linalg.solve(self.squares[FFD_SQUARE.lower, :n, :n], rows))

    def most_rows(self, setup: Setup) -> int:
        """Dual averaging shrinks before the next row, not after this one."""
        return setup.capacity - (not setup.dual)

    def check_sketch(self, fresh: Self, setup: Setup) -> None:
        """As all, and L can be divided by."""
        super().check_sketch(fresh, setup)
        diagonal = np.diagonal(self.squares[FFD_SQUARE.lower])[: self.counts[COUNT.rows]]
        require_within(diagonal, float(np.finfo(float).tiny), LARGEST, "sketch.squares")

    def set_merged(
        self, parts: Any, stored: list[NDArray[np.float64]], energies: list[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Both sketches' energy, shrunk where it has too many directions."""
        size, capacity = parts[0]._setup.size, parts[0]._setup.capacity
        values, directions = spectrum(added(energies))
        energy = values
        if values.size >= capacity:
            energy, _, rho = shrunk(values, size)
            self.numbers[NUMBER.escaped] += rho
        n = energy.size
        values, directions = values[:n], directions[:n]
        self.squares[[FFD_SQUARE.lower, FFD_SQUARE.small]] = 0.0
        self.squares[FFD_SQUARE.lower, :n, :n] = np.diag(np.sqrt(values))
        self.squares[FFD_SQUARE.small, :n, :n] = np.diag(energy)
        self.squares[FFD_SQUARE.vectors] = np.eye(self.squares.shape[1])
        self.lines[LINE.values, :n] = energy
        self.counts[[COUNT.rows, COUNT.rank]] = n, 0
        merged: NDArray[np.float64] = np.sqrt(values)[:, None] * directions
        return merged


NOTHING = CUTOFF * CUTOFF
"""A row with less than this share of the largest eigenvalue is not a direction: 1e12 such rows
would be needed to reach the cutoff, while its scale, 1e-12 of the others', would spoil the arithmetic of all."""


@inner
def _solve_lower(lower, n, source, offset, out):
    """Out = L^{-1}·source[offset:], followed by zeros up to a whole vector and one more."""
    for i in range((n + 4) // 4 * 4):
        out[i] = 0.0
    for i in range(n):
        along = dot(lower, i * lower.shape[1], out, 0, (i + 3) // 4 * 4)
        out[i] = (source[offset + i] - along) * (1.0 / lower[i, i])  # the division need not wait


@inner
def _solve_upper(lower, n, out):
    """Out ← L^{-T} out, along the rows of L, which have zeros above the diagonal."""
    for i in range(n - 1, -1, -1):
        value = out[i] * (1.0 / lower[i, i])
        add(out, 0, -value, lower, i * lower.shape[1], (i + 4) // 4 * 4)
        out[i] = value


@inner
def _apply(setup, sketch, n, v, flat, out):
    """Out = (p(M) − flat·I) v, λ below the cutoff being 0; v has zeros up to a whole vector."""
    vectors = sketch.squares[FFD_SQUARE.vectors]
    stride = vectors.shape[1]
    whole = (n + 3) // 4 * 4
    least = CUTOFF * sketch.lines[LINE.values, 0]
    for i in range(whole):
        out[i] = 0.0
    for e in range(n):
        value = sketch.lines[LINE.values, e] if sketch.lines[LINE.values, e] > least else 0.0
        weight = inverse_metric(setup, value, sketch.numbers[NUMBER.ridge], sketch.numbers[NUMBER.escaped]) - flat
        add(out, 0, weight * dot(vectors, e * stride, v, 0, whole), vectors, e * stride, whole)


@inner
def _prepare(setup, sketch, p):
    _solve_lower(
        sketch.squares[FFD_SQUARE.lower], sketch.counts[COUNT.rows], p, COLUMN.sketch, sketch.work[FFD_WORK.along]
    )


@inner
def _metric(setup, sketch, p, square, q):
    n = sketch.counts[COUNT.rows]
    flat = inverse_metric(setup, 0.0, sketch.numbers[NUMBER.ridge], sketch.numbers[NUMBER.escaped])
    _apply(setup, sketch, n, sketch.work[FFD_WORK.along], flat, q)
    _solve_upper(sketch.squares[FFD_SQUARE.lower], n, q)
    return flat


@inner
def _shrink(setup, sketch):
    """Subtract the m-th eigenvalue and keep m − 1 directions: fills the transform, resets L and M."""
    n = sketch.counts[COUNT.rows]
    kept = setup.size - 1
    values = sketch.lines[LINE.values]
    scales = sketch.work[FFD_WORK.line]
    for e in range(kept):
        scales[e] = math.sqrt(max(values[e], CUTOFF * values[0]))
        row = sketch.squares[FFD_SQUARE.vectors, e]
        _solve_upper(sketch.squares[FFD_SQUARE.lower], n, row)
        for i in range(n):
            sketch.transform[i, e] = scales[e] * row[i]
    turn_line(sketch.transform, n, kept, sketch.lines[LINE.dual], 0, sketch.work[FFD_WORK.moved])
    for i in range(n):
        for j in range(n):
            sketch.squares[FFD_SQUARE.lower, i, j] = 0.0
            sketch.squares[FFD_SQUARE.small, i, j] = 0.0
            sketch.squares[FFD_SQUARE.vectors, i, j] = 1.0 if i == j else 0.0
    fold_coefficients(setup, sketch, n, kept)
    rho = _shrink_spectrum(FD, setup.size, 1.0, 0.0, values, values, values)
    for e in range(kept):
        sketch.squares[FFD_SQUARE.lower, e, e] = scales[e]
        sketch.squares[FFD_SQUARE.small, e, e] = values[e]
    sketch.numbers[NUMBER.escaped] += rho
    sketch.counts[COUNT.rows] = kept
    sketch.counts[COUNT.closed] = n
    sketch.counts[COUNT.rank] = 0


@inner
def _take_in(setup, sketch, n, v):
    """M ← M + vvᵀ and its spectrum."""
    small = sketch.squares[FFD_SQUARE.small]
    values = sketch.lines[LINE.values]
    vectors = sketch.squares[FFD_SQUARE.vectors]
    whole = (n + 3) // 4 * 4
    for i in range(n):
        add(small, i * small.shape[1], v[i], v, 0, whole)
    sketch.counts[COUNT.rank] += 1
    young = sketch.counts[COUNT.rank] < setup.capacity
    if not (young and absorb_row(values, vectors, n, v, sketch.work, sketch.room[0], sketch.room[1])):
        eigh(small, n, values, vectors, sketch.room[0])
        sketch.counts[COUNT.rank] = 0
    for e in range(n):
        values[e] = max(values[e], 0.0)


@inner
def _noise(lower, n, v, coefficients, rounding):
    """Rounding error of |Vx|² for the row x with coordinates v.

    LLᵀ is SSᵀ but for rounding, |E_ij| ≲ n·eps·|s_i||s_j|; with x = Sᵀc that makes cᵀEc, for c = L^{-T}v.
    """
    for i in range(n):
        coefficients[i] = v[i]
    _solve_upper(lower, n, coefficients)
    spread = 0.0
    for i in range(n):
        length = 0.0
        for j in range(i + 1):
            length += lower[i, j] * lower[i, j]
        spread += abs(coefficients[i]) * math.sqrt(length)
    return rounding * (n + 1) * spread * spread


@inner
def _grow(setup, sketch, p, square, rho, change, v):
    """Take the row ρ·x into L and M; fills v with its coordinates, ρx = Vᵀv."""
    n = sketch.counts[COUNT.rows]
    energy = rho * rho * square
    put(v, 0, rho, sketch.work[FFD_WORK.along], 0, (n + 4) // 4 * 4)
    left = energy
    for i in range(n):
        left -= v[i] * v[i]
    independent = left > CUTOFF * energy
    if independent and left < 0.01 * energy:  # else there is no doubt
        independent = left > _noise(sketch.squares[FFD_SQUARE.lower], n, v, sketch.work[FFD_WORK.line], setup.rounding)
    if independent:
        v[n] = math.sqrt(left)
        for i in range(n):
            sketch.squares[FFD_SQUARE.lower, n, i] = v[i]
        sketch.squares[FFD_SQUARE.lower, n, n] = v[n]
        for i in range(n):
            sketch.squares[FFD_SQUARE.vectors, i, n] = 0.0
            sketch.squares[FFD_SQUARE.vectors, n, i] = 0.0
        sketch.squares[FFD_SQUARE.vectors, n, n] = 1.0
        sketch.lines[LINE.values, n] = 0.0
        sketch.counts[COUNT.column] = COLUMN.sketch + n
        change[COLUMN.sketch + n] = rho
        sketch.lines[LINE.a, n] = 0.0
        sketch.lines[LINE.a_sum, n] = 0.0
        sketch.lines[LINE.dual, n] = rho * p[COLUMN.head]
        p[COLUMN.sketch + n] = rho * square
        n += 1
        sketch.counts[COUNT.rows] = n
    _take_in(setup, sketch, n, v)


@inner
def _absorb_dual(setup, sketch, p, square, rho, g, energy, change):
    """The round of dual averaging: ``w = −step·P ḡ`` from Sḡ."""
    v = sketch.work[FFD_WORK.coordinates]
    q = sketch.work[FFD_WORK.coefficients]
    verdict = VERDICT.absorbed
    if sketch.counts[COUNT.rows] == setup.capacity:
        # w was formed before this shrink, and has just predicted; only now may the rows go
        _shrink(setup, sketch)
        kept = sketch.counts[COUNT.rows]
        turn_line(sketch.transform, setup.capacity, kept, p, COLUMN.sketch, sketch.work[FFD_WORK.moved])
        _prepare(setup, sketch, p)
        verdict = VERDICT.full_before
    if energy > 0.0:
        _grow(setup, sketch, p, square, rho, change, v)
    n = sketch.counts[COUNT.rows]
    for i in range(n):
        sketch.lines[LINE.dual, i] += g * p[COLUMN.sketch + i]
    change[COLUMN.head] = g
    flat = inverse_metric(setup, 0.0, sketch.numbers[NUMBER.ridge], sketch.numbers[NUMBER.escaped])
    _solve_lower(sketch.squares[FFD_SQUARE.lower], n, sketch.lines[LINE.dual], 0, v)
    _apply(setup, sketch, n, v, flat, q)
    _solve_upper(sketch.squares[FFD_SQUARE.lower], n, q)
    sketch.numbers[NUMBER.base] = -setup.step * flat
    for i in range(n):
        sketch.lines[LINE.a, i] = -setup.step * q[i]
    return verdict


def _absorb(setup, sketch, p, square, rho, g, margin, t, change, limit):
    """See ``parts.absorb``. Shapes: p and change (width of a packed row,), with Sx from COLUMN.sketch on in p."""
    energy = rho * rho * square
    if not energy <= limit * limit:
        return VERDICT.refused
    if sketch.counts[COUNT.rows] > 0 and energy <= NOTHING * sketch.lines[LINE.values, 0]:
        energy = 0.0
    sketch.counts[COUNT.column] = 0
    v = sketch.work[FFD_WORK.coordinates]
    q = sketch.work[FFD_WORK.coefficients]
    if setup.dual:
        return _absorb_dual(setup, sketch, p, square, rho, g, energy, change)
    if energy == 0.0:  # not a row to count, but still a gradient to follow
        flat = _metric(setup, sketch, p, square, q)
        step_along(setup, sketch, p, square, g, margin, flat, q, change)
        return VERDICT.absorbed
    # Take ρ·x into L and M. It is Vᵀv then, all of it in the span, so that the head need not move.
    _grow(setup, sketch, p, square, rho, change, v)
    n = sketch.counts[COUNT.rows]
    # Step along P x, before the shrink.
    _apply(setup, sketch, n, v, 0.0, q)
    _solve_upper(sketch.squares[FFD_SQUARE.lower], n, q)
    lever = 0.0
    if setup.reach < math.inf:
        for i in range(n):
            lever += p[COLUMN.sketch + i] * q[i] / rho
    step = limited_step(setup, margin, g, lever)
    for i in range(n):
        sketch.lines[LINE.a, i] -= step / rho * q[i]
    if n == setup.capacity:
        _shrink(setup, sketch)
        return VERDICT.full
    return VERDICT.absorbed


register_parts(RankedDirections, prepare=_prepare.py_func, metric=_metric.py_func, absorb=_absorb, write=write_buffer)
