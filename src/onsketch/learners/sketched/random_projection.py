"""Gaussian random projection under any geometry: RP-SON, Ada-GP, Ada-DP; and, with no rows at all, no sketch.

``S ← S + r ĝᵀ`` with r Gaussian of variance 1/m, drawn anew each round, so that E SᵀS = Σ ĝĝᵀ. The small Gram
matrix follows by an update of rank two, ``K ← K + q rᵀ + r qᵀ`` with ``q = S_old ĝ + (|ĝ|²/2) r``; for Newton so
does ``(ridge·I + K)^{-1}``, O(m²) a round (luo2016 §3), while AdaGrad's root takes the spectrum of K, O(m³).
The weights stay as they are when S moves: ``w = h + Sᵀa`` needs ``h ← h − (r·a) ĝ``.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from onsketch.core.draws import ROUND, fill_gaussian
from onsketch.core.geometry import NEWTON, inverse_metric
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.eigen import eigh
from onsketch.jit.vectors import dot, fma, load, spread, store
from onsketch.learners.sketched.packed import HEAD, SKETCH, SUM
from onsketch.learners.sketched.parts import ABSORBED, REFUSED, serve
from onsketch.learners.sketched.passes import write_rows
from onsketch.learners.sketched.spectral import spectral_weight
from onsketch.learners.sketched.state import (
    A_SUM,
    BASE,
    COLUMN,
    DUAL,
    GRAM,
    INVERSE,
    RANK,
    RIDGE,
    ROWS,
    VALUES,
    VECTORS,
    A,
    State,
)

_REFRESH = 512
"""Rounds after which the inverse is computed afresh, so that rounding does not pile up."""

DRAWN, SHIFTED, DRAWN_IMAGE, SHIFTED_IMAGE, COEFFICIENTS = range(5)
"""Rows of scratch: r and q of a round; Hr and Hq for the inverse H; what P x has along the rows of S."""


class Projection(State):
    """State of a random projection of m rows."""

    @classmethod
    def start(cls, size: int, ridge: float) -> Self:
        """A projection of nothing yet."""
        state = cls.empty(size, size, ridge)
        state.counts[[ROWS, COLUMN, RANK]] = size, -1, size
        if ridge > 0.0:
            state.squares[INVERSE, :size, :size] = np.eye(size) / ridge
        return state


def _enter(setup, table, sketch, slot):
    return 0.0


@inner
def _metric(setup, sketch, p, start, q):
    """``P x = c·x + Sᵀq`` from Sx, which starts at ``start`` of p; returns c."""
    n = sketch.counts[ROWS]
    ridge = sketch.numbers[RIDGE]
    width = sketch.squares.shape[2]
    if setup.geometry == NEWTON:
        for i in range(n):
            q[i] = -dot(sketch.squares[INVERSE], i * width, p, start, width) / ridge
        return 1.0 / ridge
    for i in range(n):
        q[i] = 0.0
    for e in range(n):
        along = dot(sketch.squares[VECTORS], e * width, p, start, width)
        along *= spectral_weight(setup.geometry, sketch.lines[VALUES, e], ridge, 0.0)
        for j in range(n):
            q[j] += along * sketch.squares[VECTORS, e, j]
    return inverse_metric(setup.geometry, 0.0, ridge, 0.0)


def _row_metric(setup, sketch, p, square, q):
    return _metric(setup, sketch, p, SKETCH, q)


@inner
def _decompose(setup, sketch):
    """The spectrum of K; for Newton, the inverse from it."""
    n = sketch.counts[ROWS]
    eigh(sketch.squares[GRAM], n, sketch.lines[VALUES], sketch.squares[VECTORS], sketch.room[0])
    for e in range(n):
        if sketch.lines[VALUES, e] <= CUTOFF * sketch.lines[VALUES, 0]:
            sketch.lines[VALUES, e] = 0.0
    if setup.geometry == NEWTON:
        for i in range(n):
            for j in range(n):
                sketch.squares[INVERSE, i, j] = 0.0
        for e in range(n):
            weight = 1.0 / (sketch.numbers[RIDGE] + sketch.lines[VALUES, e])
            for i in range(n):
                for j in range(n):
                    sketch.squares[INVERSE, i, j] += (
                        weight * sketch.squares[VECTORS, e, i] * sketch.squares[VECTORS, e, j]
                    )


def _lift(setup, sketch):
    _decompose(setup, sketch)


@inlined
def _add_outer(matrix, n, a, left, b, right):
    """``M += a leftᵀ + b rightᵀ``."""
    width = matrix.shape[1]
    for i in range(n):
        for c in range(0, width, 4):
            row = fma(spread(a[i], 4), load(left, c, 4), load(matrix, i * width + c, 4))
            store(matrix, i * width + c, fma(spread(b[i], 4), load(right, c, 4), row))


@inner
def _follow(sketch):
    """Let H = (ridge·I + K)^{-1} follow K + qrᵀ + rqᵀ, by Woodbury.

    H' = H − (H'r)(Hq)ᵀ − (H'q)(Hr)ᵀ,
    H'q = (e·Hq − (q·Hq) Hr)/D,  H'r = (e·Hr − (r·Hr) Hq)/D,  e = 1 + q·Hr,  D = e² − (q·Hq)(r·Hr).

    Leaves H'q and H'r in the scratch; returns False when the result would not be trusted, with H as it was.
    """
    n = sketch.counts[ROWS]
    work = sketch.work
    h = sketch.squares[INVERSE]
    width = h.shape[1]
    long, cross, short = 0.0, 1.0, 0.0
    for i in range(n):
        work[SHIFTED_IMAGE, i] = dot(h, i * width, work, SHIFTED * work.shape[1], width)
        work[DRAWN_IMAGE, i] = dot(h, i * width, work, DRAWN * work.shape[1], width)
        long += work[SHIFTED_IMAGE, i] * work[SHIFTED, i]
        cross += work[DRAWN_IMAGE, i] * work[SHIFTED, i]
        short += work[DRAWN_IMAGE, i] * work[DRAWN, i]
    growth = cross * cross - long * short
    if not growth > 1e-6 * max(cross * cross, long * short):
        return False
    for i in range(n):
        q = work[SHIFTED_IMAGE, i]
        r = work[DRAWN_IMAGE, i]
        work[SHIFTED, i] = (cross * q - long * r) / growth
        work[DRAWN, i] = (cross * r - short * q) / growth
        work[SHIFTED_IMAGE, i] = -q
        work[DRAWN_IMAGE, i] = -r
    _add_outer(h, n, work[DRAWN], work[SHIFTED_IMAGE], work[SHIFTED], work[DRAWN_IMAGE])
    return True


def _absorb(setup, sketch, p, square, rho, g, t, change, limit):
    n = sketch.counts[ROWS]
    work = sketch.work
    fill_gaussian(setup.seed, ROUND, t, work[DRAWN, :n])
    along = 0.0
    energy = rho * rho * square
    sums = 0.0
    reach = energy
    for i in range(n):
        r = work[DRAWN, i] / math.sqrt(n)
        work[DRAWN, i] = r
        work[SHIFTED, i] = rho * p[SKETCH + i] + 0.5 * energy * r
        reach = max(reach, abs(work[SHIFTED, i]))
        along += r * sketch.lines[A, i]
        sums += sketch.lines[A_SUM, i] * r
        change[SKETCH + i] = rho * r
        p[SKETCH + i] += rho * r * square  # S x with the new S
    if not max(reach, abs(along * rho)) <= limit * limit:
        return REFUSED
    change[SUM] -= rho * sums
    if setup.dual:
        # S_new (ḡ + g x) from S_old ḡ: the rows moved along x first
        for i in range(n):
            sketch.lines[DUAL, i] += rho * work[DRAWN, i] * p[HEAD] + g * p[SKETCH + i]
    followed = False
    if rho != 0.0:
        _add_outer(sketch.squares[GRAM], n, work[SHIFTED], work[DRAWN], work[DRAWN], work[SHIFTED])
        followed = setup.geometry == NEWTON and t % _REFRESH != 0 and _follow(sketch)
        if not followed:
            _decompose(setup, sketch)
    q = work[COEFFICIENTS]
    if setup.dual:
        change[HEAD] = g
        sketch.numbers[BASE] = -setup.step * _metric(setup, sketch, sketch.lines[DUAL], 0, q)
        for i in range(n):
            sketch.lines[A, i] = -setup.step * q[i]
        return ABSORBED
    if followed and abs(rho) > 1e-100:  # Sx = (q + ½|ĝ|²·r)/ρ, and H times both is known
        flat = 1.0 / sketch.numbers[RIDGE]
        for i in range(n):
            q[i] = -flat * (work[SHIFTED, i] + 0.5 * energy * work[DRAWN, i]) / rho
    else:
        flat = _metric(setup, sketch, p, SKETCH, q)
    change[HEAD] -= along * rho + setup.step * g * flat
    for i in range(n):
        sketch.lines[A, i] -= setup.step * g * q[i]
    return ABSORBED


serve(Projection, enter=_enter, metric=_row_metric, absorb=_absorb, write=write_rows, lift=_lift)
