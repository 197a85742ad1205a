"""Gaussian random projection under any geometry: RP-SON, Ada-GP, Ada-DP; and, with no rows at all, no sketch.

``S ← S + r ĝᵀ`` with r Gaussian of variance 1/m, drawn anew each round, so that E SᵀS = Σ ĝĝᵀ. The small Gram
matrix follows by two rank-one updates, ``K ← K + q rᵀ + r qᵀ`` with ``q = S_old ĝ + (|ĝ|²/2) r``; for Newton so
does ``(ridge·I + K)^{-1}``, O(m²) a round (luo2016 §3), while AdaGrad's root takes the spectrum of K, O(m³).
The weights stay as they are when S moves: ``w = h + Sᵀa`` needs ``h ← h − (r·a) ĝ``.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from onsketch.draws import ROUND, fill_gaussian
from onsketch.geometry import NEWTON, inverse_metric
from onsketch.linear.sketched.packed import HEAD, SKETCH, SUM
from onsketch.linear.sketched.parts import ABSORBED, REFUSED, serve
from onsketch.linear.sketched.spectral import spectral_weight
from onsketch.linear.sketched.state import (
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
from onsketch.numerics import CUTOFF, eigh, inner

_REFRESH = 512
"""Rounds after which the inverse is computed afresh, so that rounding does not pile up."""


class Projection(State):
    """State of a random projection of m rows."""

    @classmethod
    def start(cls, size: int, ridge: float) -> Self:
        """A projection of nothing yet."""
        state = cls.empty(size, size, ridge)
        state.counts[[ROWS, COLUMN, RANK]] = size, -1, size
        if ridge > 0.0:
            state.squares[INVERSE] = np.eye(size) / ridge
        return state


def _enter(setup, table, sketch, slot):
    return 0.0


@inner
def _metric(setup, sketch, p, square, q):
    n = sketch.counts[ROWS]
    ridge = sketch.numbers[RIDGE]
    for i in range(n):
        q[i] = 0.0
    if setup.geometry == NEWTON:
        for i in range(n):
            for j in range(n):
                q[i] -= sketch.squares[INVERSE, i, j] * p[SKETCH + j]
            q[i] /= ridge
        return 1.0 / ridge
    for e in range(n):
        along = 0.0
        for j in range(n):
            along += sketch.squares[VECTORS, e, j] * p[SKETCH + j]
        along *= spectral_weight(setup.geometry, sketch.lines[VALUES, e], ridge, 0.0)
        for j in range(n):
            q[j] += along * sketch.squares[VECTORS, e, j]
    return inverse_metric(setup.geometry, 0.0, ridge, 0.0)


@inner
def _add_rank_one(inverse, vector, sign, image):
    """(M ± vvᵀ)^{-1} from M^{-1}; returns False when the result would not be trusted."""
    n = vector.size
    pivot = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += inverse[i, j] * vector[j]
        image[i] = total
        pivot += total * vector[i]
    pivot = 1.0 + sign * pivot
    if not pivot > 1e-6:
        return False
    for i in range(n):
        weight = sign * image[i] / pivot
        for j in range(n):
            inverse[i, j] -= weight * image[j]
    return True


@inner
def _decompose(setup, sketch):
    """The spectrum of K; for Newton, the inverse from it."""
    n = sketch.counts[ROWS]
    eigh(sketch.squares[GRAM], n, sketch.lines[VALUES], sketch.squares[VECTORS], np.empty(n))
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


@inner
def _rotate(setup, sketch, r, shifted, t):
    """Let K, and the inverse or the spectrum, follow ``K + q rᵀ + r qᵀ`` (q in ``shifted``)."""
    n = sketch.counts[ROWS]
    long = 0.0
    short = 0.0
    for i in range(n):
        long += shifted[i] * shifted[i]
        short += r[i] * r[i]
        for j in range(n):
            sketch.squares[GRAM, i, j] += shifted[i] * r[j] + r[i] * shifted[j]
    if long == 0.0:
        return
    trusted = setup.geometry == NEWTON and t % _REFRESH != 0
    if trusted:
        # qrᵀ + rqᵀ = uuᵀ − vvᵀ with u, v = (q/s ± s·r)/√2; s makes both parts of one length
        scale = math.sqrt(math.sqrt(long / short))
        plus = np.empty(n)
        minus = np.empty(n)
        image = np.empty(n)
        for i in range(n):
            plus[i] = (shifted[i] / scale + scale * r[i]) * math.sqrt(0.5)
            minus[i] = (shifted[i] / scale - scale * r[i]) * math.sqrt(0.5)
        trusted = _add_rank_one(sketch.squares[INVERSE], plus, 1.0, image)
        trusted = trusted and _add_rank_one(sketch.squares[INVERSE], minus, -1.0, image)
    if not trusted:
        _decompose(setup, sketch)


def _absorb(setup, sketch, p, square, rho, g, t, change, limit):
    n = sketch.counts[ROWS]
    r = np.empty(n)
    fill_gaussian(setup.seed, ROUND, t, r)
    shifted = np.empty(n)
    along = 0.0
    energy = rho * rho * square
    for i in range(n):
        r[i] /= math.sqrt(n)
        shifted[i] = rho * p[SKETCH + i] + 0.5 * energy * r[i]
        along += r[i] * sketch.lines[A, i]
        if not abs(shifted[i]) <= limit * limit:
            return REFUSED
    if not max(energy, abs(along * rho)) <= limit * limit:
        return REFUSED
    _rotate(setup, sketch, r, shifted, t)
    a = sketch.lines[A]
    q = np.empty(n)
    for i in range(n):
        change[SKETCH + i] = rho * r[i]
        change[SUM] -= sketch.lines[A_SUM, i] * rho * r[i]
        p[SKETCH + i] += rho * r[i] * square  # S x with the new S
    if setup.dual:
        # S_new (ḡ + g x) from S_old ḡ: the rows moved along x first
        for i in range(n):
            sketch.lines[DUAL, i] += rho * r[i] * p[HEAD] + g * p[SKETCH + i]
        change[HEAD] = g
        dual = np.empty(SKETCH + n)
        for i in range(n):
            dual[SKETCH + i] = sketch.lines[DUAL, i]
        sketch.numbers[BASE] = -setup.step * _metric(setup, sketch, dual, square, q)
        for i in range(n):
            a[i] = -setup.step * q[i]
        return ABSORBED
    flat = _metric(setup, sketch, p, square, q)
    change[HEAD] -= along * rho + setup.step * g * flat
    for i in range(n):
        a[i] -= setup.step * g * q[i]
    return ABSORBED


serve(Projection, enter=_enter, metric=_metric.py_func, absorb=_absorb)
