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
from typing import Self

import numpy as np

from onsketch.core.draws import FEATURE, fill_gaussian
from onsketch.core.geometry import inverse_metric, inverse_metrics
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import add, dot, fma, load, minus, product, put, quotient, root, spread, store, times, within
from onsketch.learners.sketched.packed import HEAD, SKETCH, SUM
from onsketch.learners.sketched.parts import ABSORBED, FULL, REFUSED, serve
from onsketch.learners.sketched.passes import write_rows
from onsketch.learners.sketched.state import (
    A_SUM,
    BASE,
    BASE_SUM,
    CLOSED,
    COLUMN,
    DUAL,
    GRAM,
    LENGTHS,
    RANK,
    RIDGE,
    ROWS,
    VALUES,
    A,
    State,
)

STRETCH = 1e4
"""A single row may stretch Z at most this much: γ = min(1/t, STRETCH/|ĝ|²)."""

LONG = 100.0
"""Γ_t = 1/t is meant for rows of unit length or so: much longer ones would turn V to the last row for ever. Where the
learner finds its own ridge it finds this unit too: γ = min(1/t, LONG/Σ|x|²)."""

_REBASE = 0.03
"""The basis is changed when a diagonal entry of F falls below this."""

FACTOR, START = 1, 2
"""Squares, besides GRAM (ZZᵀ, kept while some rows are dependent): F; and, transposed, the product of all changes of
basis, which the raw column of a new feature has to go through."""

ENERGY = VALUES
"""The line of λ."""


ALONG, SCALED, ALPHAS, PIVOTS, PULLS, WEIGHED, COEFFICIENTS = range(7)
"""Rows of scratch: Vx; then what turns F, see ``_pivots``; what is left of Vx under the metric, and its coefficients on
Z. All but ALPHAS and PIVOTS are padded with zeros."""


class Subspace(State):
    """State of Oja's sketch of m directions."""

    @classmethod
    def start(cls, size: int, ridge: float) -> Self:
        """A subspace before the first feature."""
        state = cls.empty(size, size, ridge)
        state.counts[[ROWS, CLOSED, COLUMN]] = size, size, -1
        state.squares[START, :size, :size] = np.eye(size)
        return state


@inlined
def _turn_block(factor, m, work, at, lanes):
    """``lanes`` columns of ``_turn``."""
    width = factor.shape[1]
    earlier = spread(0.0, lanes)
    sums = spread(0.0, lanes)
    for i in range(m):
        row = load(factor, i * width + at, lanes)
        turned = product(spread(work[PIVOTS, i], lanes), row)
        turned = fma(spread(work[PULLS, i], lanes), earlier, turned)
        earlier = fma(spread(work[SCALED, i], lanes), row, earlier)
        sums = fma(spread(work[WEIGHED, i], lanes), turned, sums)
        store(factor, i * width + at, turned)
    store(work[COEFFICIENTS], at, sums)


@inlined
def _pivots(width, work, c, growth):
    """Prepare ``F ← L^{-1} F`` with LLᵀ = I + c·uuᵀ for u in SCALED, a multiple of Vx, and fill WEIGHED with
    ``growth·L^{-1} Vx``.

    With α_i = 1 + c Σ_{j<i} u_j² and q_i = 1/√(α_i α_{i+1}), row i of L^{-1}F is
    ``α_i q_i F_i − c u_i q_i Σ_{j<i} u_j F_j``, and L^{-1}u is ``q_i u_i``.
    """
    alpha = 1.0
    for i in range(width):
        work[ALPHAS, i] = alpha
        alpha += c * work[SCALED, i] * work[SCALED, i]
    stride = work.shape[1]
    for k in range(0, width, 4):
        u = load(work, SCALED * stride + k, 4)
        before = load(work, ALPHAS * stride + k, 4)
        after = fma(product(spread(c, 4), u), u, before)
        q = quotient(spread(1.0, 4), root(product(before, after)))
        store(work, PIVOTS * stride + k, product(before, q))
        store(work, PULLS * stride + k, product(product(spread(-c, 4), u), q))
        store(work, WEIGHED * stride + k, product(product(spread(growth, 4), q), load(work, ALONG * stride + k, 4)))


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
    gram = sketch.squares[GRAM]
    factor = sketch.squares[FACTOR]
    m = sketch.counts[ROWS]
    cutoff = max(CUTOFF, 20.0 * setup.grain)  # what is written of Z, not its Gram matrix, is rounded to float32
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
    sketch.counts[RANK] = rank


@inlined
def _along(sketch, p, start):
    """ALONG = F·(Zx), from Zx in p."""
    factor = sketch.squares[FACTOR]
    width = factor.shape[1]
    for i in range(sketch.counts[ROWS]):
        sketch.work[ALONG, i] = dot(factor, i * width, p, start, width)


@inlined
def _weigh(setup, sketch, source):
    """WEIGHED: the coefficients on V of P x less its flat part, from those of x in a row of scratch; returns the flat
    part.
    """
    ridge = sketch.numbers[RIDGE]
    flat = inverse_metric(setup.geometry, 0.0, ridge, 0.0)
    work = sketch.work
    stride = work.shape[1]
    width = sketch.lines.shape[1]
    for k in range(0, width, 4):
        weights = inverse_metrics(setup.geometry, load(sketch.lines, ENERGY * width + k, 4), ridge, 0.0)
        weights = minus(weights, spread(flat, 4))
        store(work, WEIGHED * stride + k, product(weights, load(work, source * stride + k, 4)))
    return flat


@inlined
def _precondition(setup, sketch):
    """``P x = c·x + Zᵀq`` from Vx in ALONG: fills q (COEFFICIENTS), returns c."""
    flat = _weigh(setup, sketch, ALONG)
    factor = sketch.squares[FACTOR]
    work = sketch.work
    times(work, WEIGHED * work.shape[1], sketch.counts[ROWS], factor, 0, factor.shape[1], work[COEFFICIENTS])
    return flat


def _enter(setup, table, sketch, slot):
    m = sketch.counts[ROWS]
    lines = sketch.lines
    width = lines.shape[1]
    raw = sketch.room[0, 0]
    column = sketch.room[0, 1]
    fill_gaussian(setup.seed, FEATURE, table.features[slot], raw[:m])
    times(raw, 0, m, sketch.squares, START * width * width, width, column)
    rows = table.rows
    put(rows, slot * rows.shape[1] + SKETCH, 1.0, column, 0, width)
    # the weight of an unseen feature is zero, and so is the sum of its past weights
    fresh = dot(lines, A * width, column, 0, width)
    sums = dot(lines, A_SUM * width, column, 0, width)
    if not setup.dual:
        rows[slot, HEAD] -= fresh
        sums -= sketch.numbers[BASE_SUM] * fresh
        fresh = 0.0
    rows[slot, SUM] -= sums
    if sketch.counts[RANK] < m:
        for i in range(m):
            for j in range(m):
                sketch.squares[GRAM, i, j] += column[i] * column[j]
        sketch.counts[RANK] = -1
        return fresh
    # F for a Z with one more column
    _along(sketch, column, 0)
    put(sketch.work, SCALED * sketch.work.shape[1], 1.0, sketch.work, ALONG * sketch.work.shape[1], width)
    _pivots(width, sketch.work, 1.0, 1.0)
    _turn(sketch.squares[FACTOR], m, sketch.work)
    return fresh


def _look(setup, sketch, p):
    if sketch.counts[RANK] < 0:
        _factorise(setup, sketch)
    _along(sketch, p, SKETCH)


def _metric(setup, sketch, p, square, q):
    flat = _precondition(setup, sketch)
    for i in range(sketch.counts[ROWS]):
        q[i] = sketch.work[COEFFICIENTS, i]
    return flat


@inner
def _rebase(setup, sketch):
    """Fill the transform Z ← N Z, with N = F (a mere rescaling for dependent rows), and start again from F = I."""
    m = sketch.counts[ROWS]
    change = sketch.room[0]
    moved = sketch.room[1]
    moved_dual = sketch.work[ALONG]
    full = sketch.counts[RANK] == m
    for i in range(m):
        moved_dual[i] = 0.0
        for j in range(m):
            change[i, j] = 0.0
            moved[i, j] = 0.0
        if sketch.squares[FACTOR, i, i] > 0.0:
            for j in range(i + 1):
                change[i, j] = sketch.squares[FACTOR, i, j]
        else:
            change[i, i] = 1.0 / math.sqrt(sketch.squares[GRAM, i, i]) if sketch.squares[GRAM, i, i] > 0.0 else 1.0
    for i in range(m):
        for j in range(i + 1):
            moved_dual[i] += change[i, j] * sketch.lines[DUAL, j]
            for k in range(m):
                moved[k, i] += change[i, j] * sketch.squares[START, k, j]
    for i in range(m):
        sketch.lines[DUAL, i] = moved_dual[i]
        for j in range(m):
            sketch.squares[START, i, j] = moved[i, j]
            sketch.transform[i, j] = change[j, i]
        a = sketch.lines[A, i]
        if setup.dual:
            sketch.transform[i, m] = 0.0
            sketch.transform[i, m + 1] = sketch.lines[A_SUM, i]
        else:
            sketch.transform[i, m] = a
            sketch.transform[i, m + 1] = sketch.lines[A_SUM, i] - sketch.numbers[BASE_SUM] * a
            sketch.lines[A, i] = 0.0
        sketch.lines[A_SUM, i] = 0.0
    if full:
        for i in range(m):
            for j in range(m):
                sketch.squares[FACTOR, i, j] = 1.0 if i == j else 0.0
        return
    for i in range(m):
        for j in range(m):
            moved[i, j] = 0.0
            for k in range(m):
                moved[i, j] += change[i, k] * sketch.squares[GRAM, k, j]
    for i in range(m):
        for j in range(m):
            sketch.squares[GRAM, i, j] = 0.0
            for k in range(m):
                sketch.squares[GRAM, i, j] += moved[i, k] * change[j, k]
    _factorise(setup, sketch)


def _absorb(setup, sketch, p, square, rho, g, t, change, limit):
    m = sketch.counts[ROWS]
    work = sketch.work
    stride = work.shape[1]
    lines = sketch.lines
    width = lines.shape[1]
    factor = sketch.squares[FACTOR]
    energy = rho * rho * square
    if not energy <= limit * limit:
        return REFUSED
    gamma = 1.0 / t
    lengths = sketch.numbers[LENGTHS] + square
    if setup.share > 0.0 and lengths > LONG * t:
        gamma = LONG / lengths
    if energy * gamma > STRETCH:
        gamma = STRETCH / energy
    stretch = gamma * rho * rho  # δ·ĝᵀ = stretch·(Zx)·xᵀ
    growth = 1.0 + gamma * energy  # Z_new x = growth·Zx
    moved = stretch * dot(lines, A * width, p, SKETCH, width)
    put(change, SKETCH, stretch, p, SKETCH, width)
    if not (abs(moved) <= limit and within(change, SKETCH, width, limit)):
        return REFUSED
    change[SUM] -= stretch * dot(lines, A_SUM * width, p, SKETCH, width)
    for k in range(0, width, 4):
        u = product(spread(rho, 4), load(work, ALONG * stride + k, 4))
        store(work, SCALED * stride + k, u)
        store(lines, ENERGY * width + k, fma(u, u, load(lines, ENERGY * width + k, 4)))
    lifted = 2.0 * gamma + gamma * gamma * energy
    if sketch.counts[RANK] == m:
        _pivots(width, work, lifted, growth)
        flat = _weigh(setup, sketch, WEIGHED)
        _turn(factor, m, work)
    else:
        for i in range(m):
            for j in range(m):
                sketch.squares[GRAM, i, j] += lifted * rho * rho * p[SKETCH + i] * p[SKETCH + j]
        _factorise(setup, sketch)
        _along(sketch, p, SKETCH)
        flat = _precondition(setup, sketch)
        put(work, COEFFICIENTS * stride, growth, work, COEFFICIENTS * stride, width)
    if not setup.dual:
        change[HEAD] -= moved + setup.step * g * flat
        add(lines, A * width, -setup.step * g, work, COEFFICIENTS * stride, width)
    else:
        change[HEAD] = g
        add(lines, DUAL * width, stretch * p[HEAD] + g * growth, p, SKETCH, width)
    worst = 1.0
    scale = 1.0
    for i in range(m):
        if factor[i, i] > 0.0:
            worst = min(worst, factor[i, i])
        scale = max(scale, factor[i, i])
    verdict = ABSORBED
    if worst < _REBASE * scale:
        _rebase(setup, sketch)
        verdict = FULL
    if setup.dual:
        _along(sketch, lines[DUAL], 0)
        sketch.numbers[BASE] = -setup.step * _precondition(setup, sketch)
        put(lines, A * width, -setup.step, work, COEFFICIENTS * stride, width)
    return verdict


serve(Subspace, enter=_enter, metric=_metric, look=_look, absorb=_absorb, write=write_rows)
