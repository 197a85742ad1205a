"""Oja's algorithm under any geometry: Oja-SON (luo2016, Algorithms 4 and 5), and Oja-AdaGrad, which has no name.

The directions are ``V = F Z``: Z has one sparsely updated row per direction, F is small and lower triangular,
and V is orthonormal over the features seen. A row ĝ with ``v = Vĝ`` does

    λ ← λ + v²,   Z ← Z + γ (Zĝ) ĝᵀ,   F ← L^{-1} F  with  L Lᵀ = I + c vvᵀ,  c = 2γ + γ²|ĝ|²,  γ = 1/t.

The Cholesky factor of the identity plus a rank-one matrix is known in closed form, so all this is O(m²) besides
the non-zeros. Z only ever grows along the leading directions, and F has to undo that: before F becomes
ill-conditioned the basis is changed, ``Z ← F Z, F ← I``, by a logged transform of the packed table. Errors in
orthonormality only shrink under the update (L^{-1} is a contraction), so they stay at the level of one change of basis.

A feature starts with a Gaussian column when it is first seen (the draws are a function of seed and feature).
As long as fewer features than directions have been seen, the rows that depend on earlier ones are kept out
(zero rows of F) and F comes from a Cholesky factorisation of K = ZZᵀ.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.draws import FEATURE, fill_gaussian
from onsketch.core.spectral_step import inverse_metric, inverse_metrics
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import add, dot, fma, load, minus, product, put, quotient, root, spread, store, times, within
from onsketch.learners.setup import limited_step
from onsketch.learners.sketched.merged_sketches import difference
from onsketch.learners.sketched.packed import COLUMN
from onsketch.learners.sketched.parts import VERDICT, register_parts
from onsketch.learners.sketched.passes import write_rows
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, State

STRETCH = 1e4
"""A single row may stretch Z at most this much: γ = min(1/t, STRETCH/|ĝ|²)."""

LONG = 100.0
"""Γ_t = 1/t is meant for rows of unit length or so: much longer ones would turn V to the last row for ever. Where the
learner finds its own ridge it finds this unit too: γ = min(1/t, LONG/Σ|x|²)."""

_REBASE = 0.03
"""The basis is changed when a diagonal entry of F falls below this."""


class OjaSquares(NamedTuple):
    """Squares of Oja's sketch; its energies λ are in LINE.values."""

    gram: int
    """ZZᵀ, kept while some rows are dependent"""
    factor: int
    """F"""
    start: int
    """transposed, the product of all changes of basis, which the raw column of a new feature has to go through"""


OJA_SQUARE = OjaSquares(*range(3))


class OjaWork(NamedTuple):
    """Rows of scratch; all but alphas and pivots are padded with zeros."""

    along: int
    """Vx"""
    scaled: int
    """what turns F, with the next three: see ``_pivots``"""
    alphas: int
    pivots: int
    pulls: int
    weighed: int
    """what is left of Vx under the metric"""
    coefficients: int
    """the coefficients of that on Z"""


OJA_WORK = OjaWork(*range(7))


class Subspace(State):
    """State of Oja's sketch of m directions."""

    @classmethod
    def start(cls, capacity: int, kept: int, ridge: float) -> Self:
        """A subspace before the first feature."""
        size, state = capacity, cls.empty(capacity, kept, ridge)
        state.counts[[COUNT.rows, COUNT.closed, COUNT.column]] = size, size, -1
        state.squares[OJA_SQUARE.start, :size, :size] = np.eye(size)
        return state

    def energies(self) -> NDArray[np.float64]:
        """λ, its own estimates."""
        return self.lines[LINE.values, : self.counts[COUNT.rows]]

    def energy_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """diag(√λ) F Z."""
        n = rows.shape[0]
        weighed: NDArray[np.float64] = np.sqrt(self.lines[LINE.values, :n])[:, None] * (
            self.squares[OJA_SQUARE.factor, :n, :n] @ rows
        )
        return weighed

    def lost(self, base: Self, rows: NDArray[np.float64], features: int, capacity: int) -> float:
        """It does not know: at most the energy of the least direction kept."""
        n = self.counts[COUNT.rows]
        return float(self.lines[LINE.values, :n].min()) if self.counts[COUNT.rank] == n else 0.0

    def set_merged(
        self, parts: Any, stored: list[NDArray[np.float64]], energies: list[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """The leading directions of both together; one without energy starts anew."""
        m = int(self.counts[COUNT.rows])
        values, turn = difference(energies)
        alive = np.arange(m) < values.size
        energy, T = np.zeros(m), np.zeros((m, turn.shape[1]))
        energy[: min(m, values.size)], T[: min(m, values.size)] = values[:m], turn[:m]
        sketches = [part._sketch for part in parts]
        turned = [s.squares[OJA_SQUARE.factor, :m, :m] @ s.squares[OJA_SQUARE.start, :m, :m].T for s in sketches]
        starts = [np.sqrt(s.lines[LINE.values, :m])[:, None] * start for s, start in zip(sketches, turned, strict=True)]
        self.squares[OJA_SQUARE.start, :m, :m] = np.where(alive[:, None], T @ np.vstack(starts), np.eye(m)).T
        self.lines[LINE.values, :m] = energy
        self.squares[OJA_SQUARE.factor, :m, :m] = self.squares[OJA_SQUARE.gram, :m, :m] = np.diag(alive.astype(float))
        self.counts[COUNT.rank] = int(alive.sum())
        return np.asarray(T @ np.vstack(energies))


@inlined
def _turn_block(factor, m, work, at, lanes):
    """``lanes`` columns of ``_turn``."""
    width = factor.shape[1]
    earlier = spread(0.0, lanes)
    sums = spread(0.0, lanes)
    for i in range(m):
        row = load(factor, i * width + at, lanes)
        turned = product(spread(work[OJA_WORK.pivots, i], lanes), row)
        turned = fma(spread(work[OJA_WORK.pulls, i], lanes), earlier, turned)
        earlier = fma(spread(work[OJA_WORK.scaled, i], lanes), row, earlier)
        sums = fma(spread(work[OJA_WORK.weighed, i], lanes), turned, sums)
        store(factor, i * width + at, turned)
    store(work[OJA_WORK.coefficients], at, sums)


@inlined
def _pivots(width, work, c, growth):
    """Prepare ``F ← L^{-1} F`` with LLᵀ = I + c·uuᵀ for u in SCALED, a multiple of Vx, and fill WEIGHED with
    ``growth·L^{-1} Vx``.

    With α_i = 1 + c Σ_{j<i} u_j² and q_i = 1/√(α_i α_{i+1}), row i of L^{-1}F is
    ``α_i q_i F_i − c u_i q_i Σ_{j<i} u_j F_j``, and L^{-1}u is ``q_i u_i``.
    """
    alpha = 1.0
    for i in range(width):
        work[OJA_WORK.alphas, i] = alpha
        alpha += c * work[OJA_WORK.scaled, i] * work[OJA_WORK.scaled, i]
    stride = work.shape[1]
    for k in range(0, width, 4):
        u = load(work, OJA_WORK.scaled * stride + k, 4)
        before = load(work, OJA_WORK.alphas * stride + k, 4)
        after = fma(product(spread(c, 4), u), u, before)
        q = quotient(spread(1.0, 4), root(product(before, after)))
        store(work, OJA_WORK.pivots * stride + k, product(before, q))
        store(work, OJA_WORK.pulls * stride + k, product(product(spread(-c, 4), u), q))
        store(
            work,
            OJA_WORK.weighed * stride + k,
            product(product(spread(growth, 4), q), load(work, OJA_WORK.along * stride + k, 4)),
        )


@inlined
def _turn(factor, m, work):
    """``F ← L^{-1} F`` as prepared, and on the way ``COEFFICIENTS = v F`` of the new F for the v in WEIGHED."""
    at = np.int64(0)
    width = factor.shape[1]
    while width - at >= 16:
        _turn_block(factor, m, work, at, 16)
        at += 16
    if width - at >= 8:
        _turn_block(factor, m, work, at, 8)
        at += 8
    if at < width:
        _turn_block(factor, m, work, at, 4)


@inner
def _factorise(setup, sketch):
    """F from K by Cholesky, with zero rows for the rows of Z that depend on earlier ones."""
    gram = sketch.squares[OJA_SQUARE.gram]
    factor = sketch.squares[OJA_SQUARE.factor]
    m = sketch.counts[COUNT.rows]
    cutoff = max(CUTOFF, 20.0 * setup.rounding)  # what is written of Z, not its Gram matrix, is rounded to float32
    rank = 0
    for i in range(m):
        for j in range(m):
            factor[i, j] = 0.0
        left = gram[i, i]
        for j in range(i):
            along = 0.0
            for k in range(j + 1):
                along += factor[j, k] * gram[i, k]
            left -= along * along
            for k in range(j + 1):
                factor[i, k] -= along * factor[j, k]
        if left > cutoff * gram[i, i] and left > 0.0:
            factor[i, i] = 1.0
            for k in range(i + 1):
                factor[i, k] /= math.sqrt(left)
            rank += 1
        else:
            for k in range(i + 1):
                factor[i, k] = 0.0
    sketch.counts[COUNT.rank] = rank


@inlined
def _along(sketch, p, start):
    """ALONG = F·(Zx), from Zx in p."""
    factor = sketch.squares[OJA_SQUARE.factor]
    width = factor.shape[1]
    for i in range(sketch.counts[COUNT.rows]):
        sketch.work[OJA_WORK.along, i] = dot(factor, i * width, p, start, width)


@inlined
def _weigh(setup, sketch, source):
    """WEIGHED: the coefficients on V of P x less its flat part, from those of x in a row of scratch; returns the flat
    part.
    """
    ridge = sketch.numbers[NUMBER.ridge]
    flat = inverse_metric(setup, 0.0, ridge, 0.0)
    work = sketch.work
    stride = work.shape[1]
    width = sketch.lines.shape[1]
    for k in range(0, width, 4):
        weights = inverse_metrics(setup, load(sketch.lines, LINE.values * width + k, 4), ridge, 0.0)
        weights = minus(weights, spread(flat, 4))
        store(work, OJA_WORK.weighed * stride + k, product(weights, load(work, source * stride + k, 4)))
    return flat


@inlined
def _precondition(setup, sketch):
    """``P x = c·x + Zᵀq`` from Vx in ALONG: fills q (COEFFICIENTS), returns c."""
    flat = _weigh(setup, sketch, OJA_WORK.along)
    factor = sketch.squares[OJA_SQUARE.factor]
    work = sketch.work
    times(
        work,
        OJA_WORK.weighed * work.shape[1],
        sketch.counts[COUNT.rows],
        factor,
        0,
        factor.shape[1],
        work[OJA_WORK.coefficients],
    )
    return flat


@inlined
def _add_square(gram, m, scale, line, start):
    """``K += scale·zzᵀ`` for the m numbers of the line from ``start`` on."""
    for i in range(m):
        for j in range(m):
            gram[i, j] += scale * line[start + i] * line[start + j]


def _enter(setup, table, sketch, slot):
    m = sketch.counts[COUNT.rows]
    lines = sketch.lines
    width = lines.shape[1]
    raw = sketch.room[0, 0]
    column = sketch.room[0, 1]
    fill_gaussian(setup.seed, FEATURE, table.features[slot], raw[:m])
    times(raw, 0, m, sketch.squares, OJA_SQUARE.start * width * width, width, column)
    rows = table.rows
    put(rows, slot * rows.shape[1] + COLUMN.sketch, 1.0, column, 0, width)
    # the weight of an unseen feature is zero, and so is the sum of its past weights
    fresh = dot(lines, LINE.a * width, column, 0, width)
    sums = dot(lines, LINE.a_sum * width, column, 0, width)
    if not setup.dual:
        rows[slot, COLUMN.head] -= fresh
        sums -= sketch.numbers[NUMBER.base_sum] * fresh
        fresh = 0.0
    rows[slot, COLUMN.sum] -= sums
    if sketch.counts[COUNT.rank] < m:
        _add_square(sketch.squares[OJA_SQUARE.gram], m, 1.0, column, 0)
        sketch.counts[COUNT.rank] = -1
        return fresh
    # F for a Z with one more column
    _along(sketch, column, 0)
    put(
        sketch.work,
        OJA_WORK.scaled * sketch.work.shape[1],
        1.0,
        sketch.work,
        OJA_WORK.along * sketch.work.shape[1],
        width,
    )
    _pivots(width, sketch.work, 1.0, 1.0)
    _turn(sketch.squares[OJA_SQUARE.factor], m, sketch.work)
    return fresh


def _prepare(setup, sketch, p):
    if sketch.counts[COUNT.rank] < 0:
        _factorise(setup, sketch)
    _along(sketch, p, COLUMN.sketch)


def _metric(setup, sketch, p, square, q):
    flat = _precondition(setup, sketch)
    for i in range(sketch.counts[COUNT.rows]):
        q[i] = sketch.work[OJA_WORK.coefficients, i]
    return flat


@inner
def _rebase(setup, sketch):  # noqa: C901 (loops over one small matrix after the other, with hardly a decision)
    """Fill the transform Z ← N Z, with N = F (a mere rescaling for dependent rows), and start again from F = I."""
    m = sketch.counts[COUNT.rows]
    change = sketch.room[0]
    moved = sketch.room[1]
    moved_dual = sketch.work[OJA_WORK.along]
    full = sketch.counts[COUNT.rank] == m
    for i in range(m):
        moved_dual[i] = 0.0
        for j in range(m):
            change[i, j] = 0.0
            moved[i, j] = 0.0
        if sketch.squares[OJA_SQUARE.factor, i, i] > 0.0:
            for j in range(i + 1):
                change[i, j] = sketch.squares[OJA_SQUARE.factor, i, j]
        else:
            change[i, i] = (
                1.0 / math.sqrt(sketch.squares[OJA_SQUARE.gram, i, i])
                if sketch.squares[OJA_SQUARE.gram, i, i] > 0.0
                else 1.0
            )
    for i in range(m):
        for j in range(i + 1):
            moved_dual[i] += change[i, j] * sketch.lines[LINE.dual, j]
            for k in range(m):
                moved[k, i] += change[i, j] * sketch.squares[OJA_SQUARE.start, k, j]
    for i in range(m):
        sketch.lines[LINE.dual, i] = moved_dual[i]
        for j in range(m):
            sketch.squares[OJA_SQUARE.start, i, j] = moved[i, j]
            sketch.transform[i, j] = change[j, i]
        a = sketch.lines[LINE.a, i]
        if setup.dual:
            sketch.transform[i, m] = 0.0
            sketch.transform[i, m + 1] = sketch.lines[LINE.a_sum, i]
        else:
            sketch.transform[i, m] = a
            sketch.transform[i, m + 1] = sketch.lines[LINE.a_sum, i] - sketch.numbers[NUMBER.base_sum] * a
            sketch.lines[LINE.a, i] = 0.0
        sketch.lines[LINE.a_sum, i] = 0.0
    if full:
        for i in range(m):
            for j in range(m):
                sketch.squares[OJA_SQUARE.factor, i, j] = 1.0 if i == j else 0.0
        return
    for i in range(m):
        for j in range(m):
            moved[i, j] = 0.0
            for k in range(m):
                moved[i, j] += change[i, k] * sketch.squares[OJA_SQUARE.gram, k, j]
    for i in range(m):
        for j in range(m):
            sketch.squares[OJA_SQUARE.gram, i, j] = 0.0
            for k in range(m):
                sketch.squares[OJA_SQUARE.gram, i, j] += moved[i, k] * change[j, k]
    _factorise(setup, sketch)


@inlined
def _gain(setup, sketch, square, energy, t):
    """γ of a round whose row ĝ has this energy; x has the squared length given."""
    gamma = 1.0 / t
    lengths = sketch.numbers[NUMBER.lengths] + square
    if setup.share > 0.0 and lengths > LONG * t:
        gamma = LONG / lengths
    if setup.gain > 0.0:
        gamma *= setup.gain * t
    return STRETCH / energy if energy * gamma > STRETCH else gamma


@inlined
def _stretched(factor, m):
    """Whether F is about to become ill-conditioned, by its diagonal."""
    worst = 1.0
    scale = 1.0
    for i in range(m):
        if factor[i, i] > 0.0:
            worst = min(worst, factor[i, i])
        scale = max(scale, factor[i, i])
    return worst < _REBASE * scale


def _absorb(setup, sketch, p, square, rho, g, margin, t, change, limit):
    m = sketch.counts[COUNT.rows]
    work = sketch.work
    stride = work.shape[1]
    lines = sketch.lines
    width = lines.shape[1]
    factor = sketch.squares[OJA_SQUARE.factor]
    energy = rho * rho * square
    if not energy <= limit * limit:
        return VERDICT.refused
    gamma = _gain(setup, sketch, square, energy, t)
    stretch = gamma * rho * rho  # δ·ĝᵀ = stretch·(Zx)·xᵀ
    growth = 1.0 + gamma * energy  # Z_new x = growth·Zx
    moved = stretch * dot(lines, LINE.a * width, p, COLUMN.sketch, width)
    put(change, COLUMN.sketch, stretch, p, COLUMN.sketch, width)
    if not (abs(moved) <= limit and within(change, COLUMN.sketch, width, limit)):
        return VERDICT.refused
    change[COLUMN.sum] -= stretch * dot(lines, LINE.a_sum * width, p, COLUMN.sketch, width)
    for k in range(0, width, 4):
        u = product(spread(rho, 4), load(work, OJA_WORK.along * stride + k, 4))
        store(work, OJA_WORK.scaled * stride + k, u)
        store(lines, LINE.values * width + k, fma(u, u, load(lines, LINE.values * width + k, 4)))
    lifted = 2.0 * gamma + gamma * gamma * energy
    if sketch.counts[COUNT.rank] == m:
        _pivots(width, work, lifted, growth)
        flat = _weigh(setup, sketch, OJA_WORK.weighed)
        _turn(factor, m, work)
    else:
        _add_square(sketch.squares[OJA_SQUARE.gram], m, lifted * rho * rho, p, COLUMN.sketch)
        _factorise(setup, sketch)
        _along(sketch, p, COLUMN.sketch)
        flat = _precondition(setup, sketch)
        put(work, OJA_WORK.coefficients * stride, growth, work, OJA_WORK.coefficients * stride, width)
    if not setup.dual:
        lever = flat * square
        if setup.reach < math.inf:  # Zx has grown
            lever += growth * dot(work, OJA_WORK.coefficients * stride, p, COLUMN.sketch, width)
        step = limited_step(setup, margin, g, lever)
        change[COLUMN.head] -= moved + step * flat
        add(lines, LINE.a * width, -step, work, OJA_WORK.coefficients * stride, width)
    else:
        change[COLUMN.head] = g
        add(lines, LINE.dual * width, stretch * p[COLUMN.head] + g * growth, p, COLUMN.sketch, width)
    verdict = VERDICT.absorbed
    if _stretched(factor, m):
        _rebase(setup, sketch)
        verdict = VERDICT.full
    if setup.dual:
        _along(sketch, lines[LINE.dual], 0)
        sketch.numbers[NUMBER.base] = -setup.step * _precondition(setup, sketch)
        put(lines, LINE.a * width, -setup.step, work, OJA_WORK.coefficients * stride, width)
    return verdict


register_parts(Subspace, enter=_enter, metric=_metric, prepare=_prepare, absorb=_absorb, write=write_rows)
