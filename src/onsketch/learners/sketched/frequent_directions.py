"""Frequent directions under any geometry: FD-, RFD-, PFD-, CFD-SON, Ada-FD, S-AdaGrad and their fast forms.

The sketch is a list of at most ``capacity`` rows S (m: plain, 2m: fast). A full list is shrunk: with
``S Sᵀ = Uᵀ diag(λ) U`` a *rule* turns the spectrum into m − 1 new energies, and ``S ← diag(√(e/λ)) U S``.
Only the small Gram matrix K = SSᵀ is ever decomposed.

The row absorbed is itself the last row of S, so its step needs no d-sized work beyond writing the row:
``P Sᵀe = Sᵀ p(K) e``. For Newton, ``p(K) = (ridge·I + K)^{-1}`` grows by one bordered row, O(m²); for the roots
of AdaGrad it takes the small spectrum, O(m³), and so it does for Newton where the ridge is tiny beside the energies:
the inverse would lose its digits there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.geometry import NEWTON
from onsketch.core.shrinking import COMPENSATIVE, ridge_growth, shrink
from onsketch.core.spectral_step import inverse_metric, spectral_weight
from onsketch.core.tolerances import CUTOFF
from onsketch.files.arrays import require_within
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.eigen import eigh
from onsketch.jit.secular import LINES
from onsketch.jit.vectors import dot, fma, load, spread, store
from onsketch.learners.setup import limited_step
from onsketch.learners.sketched.merged_sketches import added, spectrum
from onsketch.learners.sketched.packed import COLUMN
from onsketch.learners.sketched.parts import VERDICT, register_parts
from onsketch.learners.sketched.passes import write_buffer
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, SQUARE, State

if TYPE_CHECKING:
    from onsketch.learners.setup import Setup

_shrink, _ridge_growth = inner(shrink), inlined(ridge_growth)


TINY = 1e-5
"""Where a new row depends on the others but for a share of the energies below this, the inverse is given up for the
spectrum until the sketch shrinks: it would be wrong by a rounding error over the square of that share."""

ROUNDING = 1e-15
"""A few rounding errors of float64."""


class Directions(State):
    """State of a frequent-directions sketch; VALUES and VECTORS are kept up where the geometry needs the spectrum."""

    @classmethod
    def shape(cls, size: int, doubling: bool) -> tuple[int, int]:
        """A shrink leaves m − 1 rows of m, or of 2m."""
        return size - 1, 2 * size if doubling else size

    def true_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Without what compensative frequent directions adds."""
        return np.asarray(self.lines[LINE.keep, : len(rows), None] * rows)

    def most_rows(self, setup: Setup) -> int:
        """A full one has shrunk."""
        return setup.capacity - 1

    def check(self, fresh: Self, setup: Setup) -> None:
        """As all, and lengths are lengths."""
        super().check(fresh, setup)
        most = float(np.finfo(np.float64).max)
        require_within(np.diagonal(self.squares[SQUARE.gram]), 0.0, most, "sketch.squares")

    def set_merged(
        self, parts: Any, stored: list[NDArray[np.float64]], energies: list[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """The rows of both, shrunk where there are too many."""
        setup = parts[0]._setup
        rows = added(energies)
        self.lines[LINE.keep] = 1.0
        compensate = setup.rule == COMPENSATIVE and self.numbers[NUMBER.escaped] > 0.0
        if rows.shape[0] >= setup.capacity or compensate:
            values, directions = spectrum(rows)
            padded = np.zeros(max(setup.capacity, values.size))
            padded[: values.size] = values
            energy, true = np.zeros(setup.size - 1), np.zeros(setup.size - 1)
            escaped = float(self.numbers[NUMBER.escaped])
            rho = shrink(setup.rule, setup.size, setup.fraction, escaped, padded, energy, true)
            self.numbers[NUMBER.escaped] += rho
            self.numbers[NUMBER.ridge] += ridge_growth(setup.rule, rho)
            n = min(setup.size - 1, values.size)
            rows = np.zeros((setup.size - 1, rows.shape[1]))
            rows[:n] = np.sqrt(energy[:n])[:, None] * directions[:n]
            shown = energy > 0.0
            self.lines[LINE.keep, : setup.size - 1][shown] = np.sqrt(true[shown] / energy[shown])
        n = rows.shape[0]
        self.counts[COUNT.rows] = n
        self.squares[[SQUARE.gram, SQUARE.inverse]] = 0.0
        self.squares[SQUARE.gram, :n, :n] = rows @ rows.T
        values, vectors = np.linalg.eigh(self.squares[SQUARE.gram, :n, :n])
        top = max(values.max(initial=0.0), 0.0)
        self.lines[LINE.values, :n] = np.where(values > CUTOFF * top, values, 0.0)[::-1]
        self.squares[SQUARE.vectors, :n, :n] = vectors[:, ::-1].T
        if self.numbers[NUMBER.ridge] > 0.0:
            self.squares[SQUARE.inverse, :n, :n] = (
                vectors / (self.numbers[NUMBER.ridge] + np.maximum(values, 0.0))
            ) @ vectors.T
        return rows


class ShrinkWork(NamedTuple):
    """Rows of scratch."""

    step: int
    """the last column of p(K)"""
    energy: int
    """energies that a shrink shows"""
    true: int
    """energies that the directions truly have"""


FD_WORK = ShrinkWork(*range(LINES, LINES + 3))


@inner
def decompose(gram, n, values, vectors, work):
    """The spectrum of a Gram matrix, with what the cutoff calls zero set to zero; ``work`` is scratch, two rows."""
    eigh(gram, n, values, vectors, work)
    for i in range(n):
        if values[i] <= CUTOFF * values[0]:
            values[i] = 0.0


def _enter(setup, table, sketch, slot):
    return 0.0


@inlined
def _spectral(setup, sketch, n):
    """Whether steps are worked out from the spectrum: in all geometries but Newton's, and there without an inverse."""
    given_up = n > 0 and sketch.squares[SQUARE.inverse, 0, 0] == 0.0
    return setup.geometry != NEWTON or sketch.numbers[NUMBER.ridge] == 0.0 or given_up


@inner
def _along(sketch, e, n, p):
    """The row gathered in p times the e-th eigenvector of K."""
    at = (SQUARE.vectors * sketch.squares.shape[1] + e) * sketch.squares.shape[2]
    return dot(sketch.squares, at, p, COLUMN.sketch, (n + 3) // 4 * 4)


@inner
def _reaches_out(sketch, n, p, square):
    """Whether the row gathered in p has a part outside the span of S, as far as rounding lets us tell."""
    values = sketch.lines[LINE.values]
    error = ROUNDING * math.sqrt(values[0] * square)  # of a row along an eigenvector
    outside = square
    rounding = CUTOFF * square
    for e in range(n):
        if values[e] > 0.0:
            along = abs(_along(sketch, e, n, p))
            part = along * along / values[e]
            outside -= part
            rounding += error * (2.0 * along + error) / values[e]
            rounding += ROUNDING * values[0] / values[e] * part  # of the eigenvalue itself
    return outside > rounding


@inner
def _step_weight(setup, sketch, value, energy):
    """p(energy) for an eigenvector of this eigenvalue; below the cutoff a ridge is none, and lets what is zero rest."""
    ridge = sketch.numbers[NUMBER.ridge]
    if value == 0.0 and setup.geometry == NEWTON and ridge <= CUTOFF * sketch.lines[LINE.values, 0]:
        return 0.0
    return inverse_metric(setup, energy, ridge, sketch.numbers[NUMBER.escaped])


@inlined
def _invert(sketch, n, source, start, out):
    """``out = (ridge·I + K)^{-1} source`` of n numbers, those of the source from ``start`` on."""
    for i in range(n):
        out[i] = 0.0
        for j in range(n):
            out[i] += sketch.squares[SQUARE.inverse, i, j] * source[start + j]


def _metric(setup, sketch, p, square, q):
    n = sketch.counts[COUNT.rows]
    ridge = sketch.numbers[NUMBER.ridge]
    escaped = sketch.numbers[NUMBER.escaped]
    if not _spectral(setup, sketch, n):
        _invert(sketch, n, p, COLUMN.sketch, q)
        for i in range(n):
            q[i] /= -ridge
        return 1.0 / ridge
    for i in range(n):
        q[i] = 0.0
    # without a ridge, moving along the part of x outside the span costs nothing; where there is no such part, a tiny
    # ridge must not make one of rounding errors
    outside = setup.geometry != NEWTON or _reaches_out(sketch, n, p, square)
    for e in range(n):
        value = sketch.lines[LINE.values, e]
        if value <= 0.0:
            continue
        if not outside:
            weight = inverse_metric(setup, value, ridge, escaped) / value
        elif ridge > 0.0:
            weight = spectral_weight(setup, value, ridge, escaped)
        else:
            weight = -1.0 / value
        weight *= _along(sketch, e, n, p)
        for j in range(n):
            q[j] += weight * sketch.squares[SQUARE.vectors, e, j]
    if not outside:
        return 0.0
    return inverse_metric(setup, 0.0, ridge, escaped) if ridge > 0.0 else 1.0


def _follow_ridge(setup, sketch):
    """(ridge·I + K)^{-1} from K's spectrum, O(m³); none where it would lose its digits."""
    n = sketch.counts[COUNT.rows]
    h = sketch.squares[SQUARE.inverse]
    ridge = sketch.numbers[NUMBER.ridge]
    decompose(sketch.squares[SQUARE.gram], n, sketch.lines[LINE.values], sketch.squares[SQUARE.vectors], sketch.room[0])
    for i in range(n):
        for j in range(n):
            h[i, j] = 0.0
    if n == 0 or not ridge + sketch.lines[LINE.values, n - 1] > TINY * sketch.lines[LINE.values, 0]:
        return
    for e in range(n):
        weight = 1.0 / (ridge + sketch.lines[LINE.values, e])
        for i in range(n):
            for j in range(n):
                h[i, j] += weight * sketch.squares[SQUARE.vectors, e, i] * sketch.squares[SQUARE.vectors, e, j]


@inner
def _last_column(sketch, n, step):
    """Fill ``step`` with the last column of (ridge·I + K)^{-1} for n rows, growing the inverse by that row.

    Returns whether it could: where not, there is no inverse any more.
    """
    h = sketch.squares[SQUARE.inverse]
    gram = sketch.squares[SQUARE.gram]
    last = n - 1
    whole = (last + 3) // 4 * 4  # h and the Gram matrix are zero beyond their rows
    width = h.shape[1]
    pivot = sketch.numbers[NUMBER.ridge] + gram[last, last]
    for i in range(last, whole):
        step[i] = 0.0
    for i in range(last):
        step[i] = dot(h, i * width, gram, last * width, whole)
        pivot -= step[i] * gram[last, i]
    if not pivot > TINY * (gram[0, 0] + gram[last, last]):
        h[0, 0] = 0.0
        return False
    for i in range(last):
        weight = spread(step[i] / pivot, 4)
        for c in range(0, whole, 4):
            place = i * width + c
            store(h, place, fma(weight, load(step, c, 4), load(h, place, 4)))
    for i in range(last):
        step[i] = -step[i] / pivot
        h[i, last] = step[i]
        h[last, i] = step[i]
    step[last] = 1.0 / pivot
    h[last, last] = step[last]
    return True


@inner
def _last_column_of_spectrum(setup, sketch, n, step):
    """The same for any p(K), from K's spectrum."""
    values = sketch.lines[LINE.values]
    vectors = sketch.squares[SQUARE.vectors]
    decompose(sketch.squares[SQUARE.gram], n, values, vectors, sketch.room[0])
    for i in range(n):
        step[i] = 0.0
    for e in range(n):
        weight = _step_weight(setup, sketch, values[e], values[e]) * vectors[e, n - 1]
        for i in range(n):
            step[i] += weight * vectors[e, i]


@inlined
def _true_gram(sketch, n, gram):
    """The Gram matrix of the rows without what compensative frequent directions adds."""
    keep = sketch.lines[LINE.keep]
    for i in range(n):
        for j in range(n):
            gram[i, j] = sketch.squares[SQUARE.gram, i, j] * keep[i] * keep[j]


@inlined
def _start_again(sketch, n, energy):
    """K, its spectrum and its inverse for rows that are orthogonal, of these energies."""
    for i in range(n):
        for j in range(n):
            sketch.squares[SQUARE.gram, i, j] = 0.0
            sketch.squares[SQUARE.vectors, i, j] = 1.0 if i == j else 0.0
            sketch.squares[SQUARE.inverse, i, j] = 0.0
        sketch.lines[LINE.values, i] = energy[i]
        sketch.squares[SQUARE.gram, i, i] = energy[i]
        if sketch.numbers[NUMBER.ridge] > 0.0:
            sketch.squares[SQUARE.inverse, i, i] = 1.0 / (sketch.numbers[NUMBER.ridge] + energy[i])


@inner
def _close(setup, sketch, n, energy, step):
    """Shrink a full sketch of n rows: fills the transform, the step through the *shrunk* metric, and resets K."""
    kept = setup.size - 1
    values = sketch.lines[LINE.values]
    vectors = sketch.squares[SQUARE.vectors]
    keep = sketch.lines[LINE.keep]
    true = sketch.work[FD_WORK.true]
    _true_gram(sketch, n, sketch.room[1])
    decompose(sketch.room[1], n, values, vectors, sketch.room[0])
    for j in range(n):
        energy[j] = 0.0
        step[j] = 0.0
    rho = _shrink(setup.rule, setup.size, setup.fraction, sketch.numbers[NUMBER.escaped], values, energy, true)
    sketch.numbers[NUMBER.escaped] += rho
    sketch.numbers[NUMBER.ridge] += _ridge_growth(setup.rule, rho)
    for e in range(n):
        weight = _step_weight(setup, sketch, values[e], energy[e]) * vectors[e, n - 1]
        for i in range(n):
            step[i] += weight * vectors[e, i] * keep[i]
    for e in range(kept):
        scale = math.sqrt(energy[e] / values[e]) if values[e] > 0.0 else 0.0
        for i in range(n):
            sketch.transform[i, e] = scale * vectors[e, i] * keep[i]
    for e in range(kept):
        keep[e] = math.sqrt(true[e] / energy[e]) if energy[e] > 0.0 else 1.0
    for e in range(kept, n):
        keep[e] = 1.0
    _start_again(sketch, n, energy)


@inlined
def _border(gram, last, p, rho, square, most):
    """Give the Gram matrix the row ρ·x of products; returns whether all are within ``most``."""
    for i in range(last):
        gram[last, i] = rho * p[COLUMN.sketch + i]
        if not abs(gram[last, i]) <= most:
            return False
        gram[i, last] = gram[last, i]
    gram[last, last] = rho * rho * square
    return gram[last, last] <= most


def _absorb(setup, sketch, p, square, rho, g, margin, t, change, limit):
    n = sketch.counts[COUNT.rows] + 1
    last = n - 1
    if not _border(sketch.squares[SQUARE.gram], last, p, rho, square, limit * limit):
        return VERDICT.refused
    sketch.lines[LINE.a, last] = 0.0
    sketch.lines[LINE.a_sum, last] = 0.0
    step = sketch.work[FD_WORK.step]
    full = n == setup.capacity
    if full:
        _close(setup, sketch, n, sketch.work[FD_WORK.energy], step)
    elif _spectral(setup, sketch, last) or not _last_column(sketch, n, step):
        _last_column_of_spectrum(setup, sketch, n, step)
    sketch.counts[COUNT.column] = COLUMN.sketch + last if rho != 0.0 else 0
    change[COLUMN.sketch + last] = rho
    sketch.counts[COUNT.rows] = n
    if setup.dual:
        _dual_step(setup, sketch, p, square, rho, g, full, change)
    elif rho != 0.0:
        lever = 0.0
        if setup.reach < math.inf:
            lever = square * step[last]  # P x = Sᵀ step/ρ, and the last row of S is ρ·x
            for i in range(last):
                lever += p[COLUMN.sketch + i] * step[i] / rho
        factor = -limited_step(setup, margin, g, lever) / rho
        for i in range(n):
            sketch.lines[LINE.a, i] += factor * step[i]
    if full:
        _fold(setup, sketch, n)
        return VERDICT.full
    return VERDICT.absorbed


@inlined
def _transform(sketch, n, kept, line, moved):
    """Products with the n old rows become products with those that a shrink has kept; ``moved`` is scratch."""
    for e in range(kept):
        moved[e] = 0.0
    for i in range(n):
        for e in range(kept):
            moved[e] += sketch.transform[i, e] * line[i]
    for e in range(kept):
        line[e] = moved[e]


@inner
def _dual_step(setup, sketch, p, square, rho, g, full, change):
    """``w = −step·P ḡ`` from Sḡ: sets base and a."""
    n = sketch.counts[COUNT.rows]
    dual = sketch.lines[LINE.dual]
    for i in range(n - 1):
        dual[i] += g * p[COLUMN.sketch + i]
    dual[n - 1] = rho * (p[COLUMN.head] + g * square)
    change[COLUMN.head] = g
    if full:
        n = setup.size - 1
        _transform(sketch, setup.capacity, n, dual, sketch.work[FD_WORK.step])
    ridge = sketch.numbers[NUMBER.ridge]
    escaped = sketch.numbers[NUMBER.escaped]
    sketch.numbers[NUMBER.base] = -setup.step * inverse_metric(setup, 0.0, ridge, escaped)
    a = sketch.lines[LINE.a]
    if not _spectral(setup, sketch, n):
        _invert(sketch, n, dual, 0, a)
        for i in range(n):
            a[i] *= setup.step / ridge
        return
    for i in range(n):
        a[i] = 0.0
    for e in range(n):
        along = 0.0
        for j in range(n):
            along += sketch.squares[SQUARE.vectors, e, j] * dual[j]
        along *= -setup.step * spectral_weight(setup, sketch.lines[LINE.values, e], ridge, escaped)
        for j in range(n):
            a[j] += along * sketch.squares[SQUARE.vectors, e, j]


@inner
def _fold(setup, sketch, n):
    """Complete the transform: what the old rows' coefficients give to the head and to the sum of iterates."""
    kept = setup.size - 1
    a = sketch.lines[LINE.a]
    a_sum = sketch.lines[LINE.a_sum]
    for i in range(n):
        if setup.dual:
            sketch.transform[i, kept] = 0.0
            sketch.transform[i, kept + 1] = a_sum[i]
        else:
            sketch.transform[i, kept] = a[i]
            sketch.transform[i, kept + 1] = a_sum[i] - sketch.numbers[NUMBER.base_sum] * a[i]
        if i >= kept or not setup.dual:
            a[i] = 0.0
        a_sum[i] = 0.0
    sketch.counts[COUNT.rows] = kept
    sketch.counts[COUNT.closed] = n


register_parts(Directions, enter=_enter, metric=_metric, absorb=_absorb, write=write_buffer, follow_ridge=_follow_ridge)
