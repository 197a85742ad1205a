"""The small triangular F of Oja's sketch, ``V = F Z``: its update by a row, its factorisation from ZZᵀ, its restart."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import fma, load, product, quotient, root, spread, store
from onsketch.learners.sketched.epochs import fold_coefficients, turn_line
from onsketch.learners.sketched.state import COUNT, LINE

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
    """the update of F, with the next three: see ``_pivots``"""
    alphas: int
    pivots: int
    pulls: int
    weighed: int
    """Vx after the metric"""
    coefficients: int
    """the coefficients of that on Z"""


OJA_WORK = OjaWork(*range(7))


@inlined
def _turn_block(factor, m, work, at, lanes):
    """``lanes`` columns of ``turn``."""
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
def set_pivots(width, work, c, growth):
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
def turn(factor, m, work):
    """``F ← L^{-1} F`` as prepared, and in the same pass ``COEFFICIENTS = v F`` of the new F for the v in WEIGHED."""
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
def factorise(setup, sketch):
    """F from K by Cholesky, with zero rows for the rows of Z that depend on earlier ones."""
    gram = sketch.squares[OJA_SQUARE.gram]
    factor = sketch.squares[OJA_SQUARE.factor]
    m = sketch.counts[COUNT.rows]
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
        if left > setup.resolution * gram[i, i] and left > 0.0:
            factor[i, i] = 1.0
            for k in range(i + 1):
                factor[i, k] /= math.sqrt(left)
            rank += 1
        else:
            for k in range(i + 1):
                factor[i, k] = 0.0
    sketch.counts[COUNT.rank] = rank


@inner
def _change_of_basis(sketch, m, change):
    """Fill N: F, and for rows that depend on others a mere rescaling."""
    for i in range(m):
        for j in range(m):
            change[i, j] = 0.0
        if sketch.squares[OJA_SQUARE.factor, i, i] > 0.0:
            for j in range(i + 1):
                change[i, j] = sketch.squares[OJA_SQUARE.factor, i, j]
        else:
            length = sketch.squares[OJA_SQUARE.gram, i, i]
            change[i, i] = 1.0 / math.sqrt(length) if length > 0.0 else 1.0


@inner
def _turn_gram(gram, m, change, moved):
    """``K ← N K Nᵀ``; ``moved`` is scratch."""
    for i in range(m):
        for j in range(m):
            moved[i, j] = 0.0
            for k in range(m):
                moved[i, j] += change[i, k] * gram[k, j]
    for i in range(m):
        for j in range(m):
            gram[i, j] = 0.0
            for k in range(m):
                gram[i, j] += moved[i, k] * change[j, k]


@inner
def rebase(setup, sketch):
    """Fill the transform Z ← N Z, with N = F (a mere rescaling for dependent rows), and start again from F = I."""
    m = sketch.counts[COUNT.rows]
    change = sketch.room[0]
    moved = sketch.room[1]
    full = sketch.counts[COUNT.rank] == m
    _change_of_basis(sketch, m, change)
    for i in range(m):
        for j in range(m):
            moved[i, j] = 0.0
            sketch.transform[i, j] = change[j, i]
    for i in range(m):
        for j in range(i + 1):
            for k in range(m):
                moved[k, i] += change[i, j] * sketch.squares[OJA_SQUARE.start, k, j]
    for i in range(m):
        for j in range(m):
            sketch.squares[OJA_SQUARE.start, i, j] = moved[i, j]
    turn_line(sketch.transform, m, m, sketch.lines[LINE.dual], 0, sketch.work[OJA_WORK.along])
    fold_coefficients(setup, sketch, m, m)
    if full:
        for i in range(m):
            for j in range(m):
                sketch.squares[OJA_SQUARE.factor, i, j] = 1.0 if i == j else 0.0
        return
    _turn_gram(sketch.squares[OJA_SQUARE.gram], m, change, moved)
    factorise(setup, sketch)


@inlined
def is_stretched(factor, m):
    """Return True if F is becoming ill-conditioned, judged by its diagonal."""
    worst = 1.0
    scale = 1.0
    for i in range(m):
        if factor[i, i] > 0.0:
            worst = min(worst, factor[i, i])
        scale = max(scale, factor[i, i])
    return worst < _REBASE * scale
