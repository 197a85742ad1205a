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

from onsketch.draws import FEATURE, fill_gaussian
from onsketch.geometry import inverse_metric
from onsketch.linear.sketched.packed import HEAD, SKETCH, SUM
from onsketch.linear.sketched.parts import ABSORBED, FULL, REFUSED, serve
from onsketch.linear.sketched.state import (
    A_SUM,
    BASE,
    BASE_SUM,
    CLOSED,
    COLUMN,
    DUAL,
    GRAM,
    RANK,
    RIDGE,
    ROWS,
    VALUES,
    A,
    State,
)
from onsketch.numerics import CUTOFF, inlined, inner

STRETCH = 1e4
"""A single row may stretch Z at most this much: γ = min(1/t, STRETCH/|ĝ|²)."""

_REBASE = 0.03
"""The basis is changed when a diagonal entry of F falls below this."""

FACTOR, START = 1, 2
"""Squares, besides GRAM (ZZᵀ, kept while some rows are dependent): F; and the product of all changes of basis, which
the raw column of a new feature has to go through."""

ENERGY = VALUES
"""The line of λ."""


class Subspace(State):
    """State of Oja's sketch of m directions."""

    @classmethod
    def start(cls, size: int, ridge: float) -> Self:
        """A subspace before the first feature."""
        state = cls.empty(size, size, ridge)
        state.counts[[ROWS, CLOSED, COLUMN]] = size, size, -1
        state.squares[START] = np.eye(size)
        return state


@inlined
def _update_factor(factor, v, c):
    """F ← L^{-1} F with LLᵀ = I + c·vvᵀ: column j of L below the diagonal is v_i·c·v_j/√(α_j α_{j+1})."""
    m = v.size
    carried = np.zeros(m)
    alpha = 1.0
    for i in range(m):
        larger = alpha + c * v[i] * v[i]
        root = 1.0 / math.sqrt(alpha * larger)
        pivot = alpha * root
        weight = c * v[i] * root
        for j in range(i + 1):
            factor[i, j] = (factor[i, j] - v[i] * carried[j]) * pivot
            carried[j] += weight * factor[i, j]
        alpha = larger


@inner
def _factorise(sketch):
    """F from K by Cholesky, with zero rows for the rows of Z that depend on earlier ones."""
    gram = sketch.squares[GRAM]
    factor = sketch.squares[FACTOR]
    m = sketch.counts[ROWS]
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
        if left > CUTOFF * gram[i, i] and left > 0.0:
            factor[i, i] = 1.0
            for k in range(i + 1):
                factor[i, k] /= math.sqrt(left)
            rank += 1
        else:
            for k in range(i + 1):
                factor[i, k] = 0.0
    sketch.counts[RANK] = rank


@inlined
def _admit(sketch, column):
    """F for a Z with one more column."""
    m = column.size
    v = np.zeros(m)
    for i in range(m):
        for j in range(i + 1):
            v[i] += sketch.squares[FACTOR, i, j] * column[j]
    _update_factor(sketch.squares[FACTOR], v, 1.0)


def _enter(setup, table, sketch, slot):
    m = sketch.counts[ROWS]
    raw = np.empty(m)
    column = np.zeros(m)
    fill_gaussian(setup.seed, FEATURE, table.features[slot], raw)
    row = table.rows[slot]
    fresh = 0.0
    for i in range(m):
        for j in range(m):
            column[i] += sketch.squares[START, i, j] * raw[j]
        row[SKETCH + i] = column[i]
    if not setup.dual:
        # the weight of an unseen feature is zero, and so is the sum of its past weights
        for i in range(m):
            row[HEAD] -= sketch.lines[A, i] * column[i]
            row[SUM] -= sketch.lines[A_SUM, i] * column[i]
        row[SUM] -= sketch.numbers[BASE_SUM] * row[HEAD]
    else:
        for i in range(m):
            fresh += sketch.lines[A, i] * column[i]
            row[SUM] -= sketch.lines[A_SUM, i] * column[i]
    if sketch.counts[RANK] < m:
        for i in range(m):
            for j in range(m):
                sketch.squares[GRAM, i, j] += column[i] * column[j]
        sketch.counts[RANK] = -1
    else:
        _admit(sketch, column)
    return fresh


@inlined
def _along(sketch, p, v):
    """V = F·(Zx)."""
    for i in range(v.size):
        total = 0.0
        for j in range(i + 1):
            total += sketch.squares[FACTOR, i, j] * p[SKETCH + j]
        v[i] = total


@inlined
def _precondition(setup, sketch, v, q):
    """``P x = c·x + Zᵀq`` from v = Vx; returns c."""
    m = v.size
    ridge = sketch.numbers[RIDGE]
    flat = inverse_metric(setup.geometry, 0.0, ridge, 0.0)
    for i in range(m):
        q[i] = 0.0
    for i in range(m):
        weight = (inverse_metric(setup.geometry, sketch.lines[ENERGY, i], ridge, 0.0) - flat) * v[i]
        for j in range(i + 1):
            q[j] += weight * sketch.squares[FACTOR, i, j]
    return flat


def _metric(setup, sketch, p, square, q):
    if sketch.counts[RANK] < 0:
        _factorise(sketch)
    v = np.empty(sketch.counts[ROWS])
    _along(sketch, p, v)
    return _precondition(setup, sketch, v, q)


@inner
def _rebase(setup, sketch):
    """Fill the transform Z ← N Z, with N = F (a mere rescaling for dependent rows), and start again from F = I."""
    m = sketch.counts[ROWS]
    change = np.zeros((m, m))
    full = sketch.counts[RANK] == m
    for i in range(m):
        if sketch.squares[FACTOR, i, i] > 0.0:
            for j in range(i + 1):
                change[i, j] = sketch.squares[FACTOR, i, j]
        else:
            change[i, i] = 1.0 / math.sqrt(sketch.squares[GRAM, i, i]) if sketch.squares[GRAM, i, i] > 0.0 else 1.0
    moved = np.zeros((m, m))
    moved_dual = np.zeros(m)
    for i in range(m):
        for j in range(i + 1):
            moved_dual[i] += change[i, j] * sketch.lines[DUAL, j]
            for k in range(m):
                moved[i, k] += change[i, j] * sketch.squares[START, j, k]
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
    _factorise(sketch)


def _absorb(setup, sketch, p, square, rho, g, t, change, limit):
    m = sketch.counts[ROWS]
    if sketch.counts[RANK] < 0:
        _factorise(sketch)
    energy = rho * rho * square
    if not energy <= limit * limit:
        return REFUSED
    gamma = 1.0 / t
    if energy * gamma > STRETCH:
        gamma = STRETCH / energy
    stretch = gamma * rho * rho  # δ·ĝᵀ = stretch·(Zx)·xᵀ
    growth = 1.0 + gamma * energy  # Z_new x = growth·Zx
    moved = 0.0
    v = np.empty(m)
    q = np.empty(m)
    _along(sketch, p, v)
    for i in range(m):
        moved += stretch * p[SKETCH + i] * sketch.lines[A, i]
        change[SKETCH + i] = stretch * p[SKETCH + i]
        change[SUM] -= sketch.lines[A_SUM, i] * change[SKETCH + i]
        if not abs(change[SKETCH + i]) <= limit:
            return REFUSED
    if not abs(moved) <= limit:
        return REFUSED
    for i in range(m):
        sketch.lines[ENERGY, i] += (rho * v[i]) ** 2
    lifted = 2.0 * gamma + gamma * gamma * energy
    if sketch.counts[RANK] == m:
        for i in range(m):
            q[i] = rho * v[i]
        _update_factor(sketch.squares[FACTOR], q, lifted)
    else:
        for i in range(m):
            for j in range(m):
                sketch.squares[GRAM, i, j] += lifted * rho * rho * p[SKETCH + i] * p[SKETCH + j]
        _factorise(sketch)
    dual = np.empty(SKETCH + m)
    for i in range(m):
        if setup.dual:
            sketch.lines[DUAL, i] += stretch * p[SKETCH + i] * p[HEAD] + g * growth * p[SKETCH + i]
        dual[SKETCH + i] = growth * p[SKETCH + i]
    worst = 1.0
    scale = 1.0
    for i in range(m):
        if sketch.squares[FACTOR, i, i] > 0.0:
            worst = min(worst, sketch.squares[FACTOR, i, i])
        scale = max(scale, sketch.squares[FACTOR, i, i])
    if not setup.dual:
        _along(sketch, dual, v)
        flat = _precondition(setup, sketch, v, q)
        change[HEAD] -= moved + setup.step * g * flat
        for i in range(m):
            sketch.lines[A, i] -= setup.step * g * q[i]
    verdict = ABSORBED
    if worst < _REBASE * scale:
        _rebase(setup, sketch)
        verdict = FULL
    if setup.dual:
        change[HEAD] = g
        for i in range(m):
            dual[SKETCH + i] = sketch.lines[DUAL, i]
        _along(sketch, dual, v)
        sketch.numbers[BASE] = -setup.step * _precondition(setup, sketch, v, q)
        for i in range(m):
            sketch.lines[A, i] = -setup.step * q[i]
    return verdict


serve(Subspace, enter=_enter, metric=_metric, absorb=_absorb)
