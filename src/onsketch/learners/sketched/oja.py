"""Oja's algorithm under any geometry: Oja-SON (luo2016, Algorithms 4 and 5), and Oja-AdaGrad.

The directions are ``V = F Z``: Z has one sparsely updated row per direction, F is small and lower triangular,
and V is orthonormal over the features seen. A row ĝ with ``v = Vĝ`` does

    λ ← λ + v²,   Z ← Z + γ (Zĝ) ĝᵀ,   F ← L^{-1} F  with  L Lᵀ = I + c vvᵀ,  c = 2γ + γ²|ĝ|²,  γ = 1/t.

The Cholesky factor of the identity plus a rank-one matrix is known in closed form, so all this is O(m²) besides
the non-zeros. Z grows along the leading directions, and F has to undo that. Before F becomes
ill-conditioned the basis is changed, ``Z ← F Z, F ← I``, by a logged transform of the packed table. Errors in
orthonormality only shrink under the update (L^{-1} is a contraction), so they stay at the level of one change of basis.

A feature starts with a Gaussian column when it is first seen (the draws are a function of seed and feature).
As long as fewer features than directions have been seen, the rows that depend on earlier ones are kept out
(zero rows of F) and F comes from a Cholesky factorisation of K = ZZᵀ.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.draws import FEATURE, fill_gaussian
from onsketch.core.spectral_step import inverse_metric, inverse_metrics
from onsketch.jit.decorators import inlined
from onsketch.jit.vectors import add, dot, fma, load, minus, product, put, spread, store, times, within
from onsketch.learners.clip import limited_step
from onsketch.learners.merging import difference
from onsketch.learners.sketched.oja_basis import OJA_SQUARE, OJA_WORK, factorise, is_stretched, rebase, set_pivots, turn
from onsketch.learners.sketched.packed import COLUMN
from onsketch.learners.sketched.parts import VERDICT, register_parts
from onsketch.learners.sketched.passes import write_rows
from onsketch.learners.sketched.small_gram import hold_ridge, measure_rows
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, State

STRETCH = 1e4
"""A single row may stretch Z at most this much: γ = min(1/t, STRETCH/|ĝ|²)."""

LONG = 100.0
"""Γ_t = 1/t is meant for rows of unit length or so: much longer ones would always move V to the last row. If the
learner finds its own ridge, it finds this unit too: γ = min(1/t, LONG/Σ|x|²)."""


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
        """Return the energy of the smallest direction kept: an upper bound, since the loss is unknown."""
        n = self.counts[COUNT.rows]
        return float(self.lines[LINE.values, :n].min()) if self.counts[COUNT.rank] == n else 0.0

    def set_merged(
        self, parts: Any, stored: list[NDArray[np.float64]], energies: list[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return the leading directions of both; a direction without energy restarts."""
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
    set_pivots(width, sketch.work, 1.0, 1.0)
    turn(sketch.squares[OJA_SQUARE.factor], m, sketch.work)
    return fresh


def _prepare(setup, sketch, p):
    if sketch.counts[COUNT.rank] < 0:
        factorise(setup, sketch)
    _along(sketch, p, COLUMN.sketch)


def _metric(setup, sketch, p, square, q):
    flat = _precondition(setup, sketch)
    for i in range(sketch.counts[COUNT.rows]):
        q[i] = sketch.work[OJA_WORK.coefficients, i]
    return flat


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
def _follow_row(setup, sketch, p, rho, lifted, growth):
    """Let λ and F follow the row ρ·x, which has lifted ZZᵀ and lengthened Zx by ``growth``.

    Fills COEFFICIENTS with q of ``P x = flat·x + Zᵀq`` for the new Z and P, and returns flat.
    """
    m = sketch.counts[COUNT.rows]
    work = sketch.work
    stride = work.shape[1]
    width = sketch.lines.shape[1]
    # λ ← λ + v² for v = Vĝ, which is left in SCALED.
    for k in range(0, width, 4):
        u = product(spread(rho, 4), load(work, OJA_WORK.along * stride + k, 4))
        store(work, OJA_WORK.scaled * stride + k, u)
        at = LINE.values * width + k
        store(sketch.lines, at, fma(u, u, load(sketch.lines, at, 4)))
    # F ← L⁻¹F and q in one pass, or by a new factorisation while rows of Z are dependent.
    if sketch.counts[COUNT.rank] == m:
        set_pivots(width, work, lifted, growth)
        flat = _weigh(setup, sketch, OJA_WORK.weighed)
        turn(sketch.squares[OJA_SQUARE.factor], m, work)
    else:
        _add_square(sketch.squares[OJA_SQUARE.gram], m, lifted * rho * rho, p, COLUMN.sketch)
        factorise(setup, sketch)
        _along(sketch, p, COLUMN.sketch)
        flat = _precondition(setup, sketch)
        put(work, OJA_WORK.coefficients * stride, growth, work, OJA_WORK.coefficients * stride, width)
    return flat


def _absorb(setup, sketch, p, square, rho, g, margin, t, change, limit):
    """See ``parts.absorb``. Shapes: p and change (width of a packed row,), with Zx from COLUMN.sketch on in p."""
    work = sketch.work
    stride = work.shape[1]
    lines = sketch.lines
    width = lines.shape[1]
    energy = rho * rho * square
    if not energy <= limit * limit:
        return VERDICT.refused
    # Z ← Z + γ(Zĝ)ĝᵀ = Z + stretch·(Zx)xᵀ, so that Zx grows by the factor ``growth``. That moves Zᵀa by ``moved``·x,
    # which is subtracted from the head.
    gamma = _gain(setup, sketch, square, energy, t)
    stretch = gamma * rho * rho
    growth = 1.0 + gamma * energy
    moved = stretch * dot(lines, LINE.a * width, p, COLUMN.sketch, width)
    put(change, COLUMN.sketch, stretch, p, COLUMN.sketch, width)
    if not (abs(moved) <= limit and within(change, COLUMN.sketch, width, limit)):
        return VERDICT.refused
    change[COLUMN.sum] -= stretch * dot(lines, LINE.a_sum * width, p, COLUMN.sketch, width)
    flat = _follow_row(setup, sketch, p, rho, 2.0 * gamma + gamma * gamma * energy, growth)
    # Step along P x, or add the gradient to Zḡ for dual averaging.
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
    # Change the basis before F becomes ill-conditioned. Dual averaging then forms the weights in the new metric.
    verdict = VERDICT.absorbed
    if is_stretched(sketch.squares[OJA_SQUARE.factor], sketch.counts[COUNT.rows]):
        rebase(setup, sketch)
        verdict = VERDICT.full
    if setup.dual:
        _along(sketch, lines[LINE.dual], 0)
        sketch.numbers[NUMBER.base] = -setup.step * _precondition(setup, sketch)
        put(lines, LINE.a * width, -setup.step, work, OJA_WORK.coefficients * stride, width)
    return verdict


def _measure(setup, table, sketch):
    m = sketch.counts[COUNT.rows]
    measure_rows(setup, table, sketch, m, sketch.squares[OJA_SQUARE.gram])
    factorise(setup, sketch)
    top = 0.0
    for i in range(m):
        top = max(top, sketch.lines[LINE.values, i])
    hold_ridge(setup, sketch, top)


register_parts(
    Subspace,
    enter=_enter,
    metric=_metric,
    prepare=_prepare,
    absorb=_absorb,
    write=write_rows,
    measure=_measure,
)
