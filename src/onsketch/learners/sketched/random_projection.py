"""Gaussian random projection under any geometry: RP-SON, Ada-GP, Ada-DP; with no rows, no sketch.

``S ← S + r ĝᵀ`` with r Gaussian of variance 1/m, drawn in each round, so that E SᵀS = Σ ĝĝᵀ. The small Gram
matrix follows by an update of rank two, ``K ← K + q rᵀ + r qᵀ`` with ``q = S_old ĝ + (|ĝ|²/2) r``; for Newton so
does ``(ridge·I + K)^{-1}``, O(m²) a round (luo2016 §3), while AdaGrad's root needs the spectrum of K, O(m³).
The weights stay as they are when S moves: ``w = h + Sᵀa`` needs ``h ← h − (r·a) ĝ``.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core import bordered
from onsketch.core.draws import ROUND, fill_gaussian
from onsketch.core.geometry import NEWTON
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import dot, fma, load, spread, store
from onsketch.learners.merging import less_base
from onsketch.learners.sketched.packed import COLUMN
from onsketch.learners.sketched.parts import VERDICT, register_parts
from onsketch.learners.sketched.passes import write_rows
from onsketch.learners.sketched.small_gram import (
    decompose,
    form_dual,
    hold_ridge,
    measure_rows,
    metric,
    precondition,
    step_along,
)
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, SQUARE, State

_rebuild = inner(bordered.rebuild)

_REFRESH = 512
"""Rounds after which the inverse is computed afresh, so that rounding does not pile up."""


class ProjectionWork(NamedTuple):
    """Rows of scratch, H being the small inverse."""

    drawn: int
    """r of a round"""
    shifted: int
    """q of a round"""
    drawn_image: int
    """Hr"""
    shifted_image: int
    """Hq"""
    coefficients: int
    """what P x has along the rows of S"""


RP_WORK = ProjectionWork(*range(5))


class Projection(State):
    """State of a random projection of m rows."""

    logs: ClassVar[bool] = False
    bounded: ClassVar[bool] = False

    @classmethod
    def start(cls, capacity: int, kept: int, ridge: float) -> Self:
        """Return an empty projection."""
        size, state = capacity, cls.empty(capacity, kept, ridge)
        state.counts[[COUNT.rows, COUNT.column, COUNT.rank]] = size, -1, size
        if ridge > 0.0:
            state.squares[SQUARE.inverse, :size, :size] = np.eye(size) / ridge
        return state

    def lost(self, base: Self, rows: NDArray[np.float64], features: int, capacity: int) -> float:
        """Return the mean energy of a feature, since the loss is unknown."""
        return float((rows**2).sum()) / features

    def set_merged(
        self, parts: Any, stored: list[NDArray[np.float64]], energies: list[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Projections add."""
        rows: NDArray[np.float64] = less_base(stored)
        self.set_gram(rows @ rows.T)
        return rows


def _follow_ridge(setup, sketch):
    """Compute the spectrum of K, and for Newton the inverse."""
    n, squares = sketch.counts[COUNT.rows], sketch.squares
    gram, vectors, values = squares[SQUARE.gram], squares[SQUARE.vectors], sketch.lines[LINE.values]
    if setup.geometry == NEWTON:
        inverses = squares[SQUARE.inverse : SQUARE.inverse + 1]
        _rebuild(gram, inverses, (sketch.numbers[NUMBER.ridge],), n, values, vectors, sketch.room[0], True)
    else:
        decompose(gram, n, values, vectors, sketch.room[0])


_decompose = inner(_follow_ridge)


def _measure(setup, table, sketch):
    measure_rows(setup, table, sketch, sketch.counts[COUNT.rows], sketch.squares[SQUARE.gram])
    _decompose(setup, sketch)
    ridge = sketch.numbers[NUMBER.ridge]
    hold_ridge(setup, sketch, sketch.lines[LINE.values, 0])
    if sketch.numbers[NUMBER.ridge] > ridge:
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
    n = sketch.counts[COUNT.rows]
    work = sketch.work
    h = sketch.squares[SQUARE.inverse]
    width = h.shape[1]
    long, cross, short = 0.0, 1.0, 0.0
    for i in range(n):
        work[RP_WORK.shifted_image, i] = dot(h, i * width, work, RP_WORK.shifted * work.shape[1], width)
        work[RP_WORK.drawn_image, i] = dot(h, i * width, work, RP_WORK.drawn * work.shape[1], width)
        long += work[RP_WORK.shifted_image, i] * work[RP_WORK.shifted, i]
        cross += work[RP_WORK.drawn_image, i] * work[RP_WORK.shifted, i]
        short += work[RP_WORK.drawn_image, i] * work[RP_WORK.drawn, i]
    growth = cross * cross - long * short
    if not growth > 1e-6 * max(cross * cross, long * short):
        return False
    for i in range(n):
        q = work[RP_WORK.shifted_image, i]
        r = work[RP_WORK.drawn_image, i]
        work[RP_WORK.shifted, i] = (cross * q - long * r) / growth
        work[RP_WORK.drawn, i] = (cross * r - short * q) / growth
        work[RP_WORK.shifted_image, i] = -q
        work[RP_WORK.drawn_image, i] = -r
    _add_outer(h, n, work[RP_WORK.drawn], work[RP_WORK.shifted_image], work[RP_WORK.shifted], work[RP_WORK.drawn_image])
    return True


@inlined
def _mirror_step(setup, sketch, p, square, rho, g, margin, energy, along, followed, change):
    """``w ← w − step·P g``; ``followed`` is True if H times the row is in the scratch."""
    n = sketch.counts[COUNT.rows]
    work = sketch.work
    q = work[RP_WORK.coefficients]
    if followed and abs(rho) > 1e-100:  # Sx = (q + ½|ĝ|²·r)/ρ, and H times both is known
        flat = 1.0 / sketch.numbers[NUMBER.ridge]
        for i in range(n):
            q[i] = -flat * (work[RP_WORK.shifted, i] + 0.5 * energy * work[RP_WORK.drawn, i]) / rho
    else:
        flat = precondition(setup, sketch, p, COLUMN.sketch, q)
    change[COLUMN.head] -= along * rho
    step_along(setup, sketch, p, square, g, margin, flat, q, change)


@inlined
def _follow_row(setup, sketch, t):
    """``K ← K + qrᵀ + rqᵀ`` with its inverse or its spectrum; returns True if H times both is in the scratch."""
    q = sketch.work[RP_WORK.shifted]
    r = sketch.work[RP_WORK.drawn]
    _add_outer(sketch.squares[SQUARE.gram], sketch.counts[COUNT.rows], q, r, r, q)
    followed = setup.geometry == NEWTON and t % _REFRESH != 0 and _follow(sketch)
    if not followed:
        _decompose(setup, sketch)
    return followed


def _absorb(setup, sketch, p, square, rho, g, margin, t, change, limit):
    """See ``parts.absorb``. Shapes: p and change (width of a packed row,), with Sx from COLUMN.sketch on in p."""
    n = sketch.counts[COUNT.rows]
    work = sketch.work
    # S ← S + r ĝᵀ and q = Sĝ + ½|ĝ|²·r. That moves Sᵀa by ρ(r·a)·x, which is subtracted from the head.
    fill_gaussian(setup.seed, ROUND, t, work[RP_WORK.drawn, :n])
    along = 0.0
    energy = rho * rho * square
    sums = 0.0
    reach = energy
    for i in range(n):
        r = work[RP_WORK.drawn, i] / math.sqrt(n)
        work[RP_WORK.drawn, i] = r
        work[RP_WORK.shifted, i] = rho * p[COLUMN.sketch + i] + 0.5 * energy * r
        reach = max(reach, abs(work[RP_WORK.shifted, i]))
        along += r * sketch.lines[LINE.a, i]
        sums += sketch.lines[LINE.a_sum, i] * r
        change[COLUMN.sketch + i] = rho * r
        p[COLUMN.sketch + i] += rho * r * square  # Sx of the new S
    if not max(reach, abs(along * rho)) <= limit * limit:
        return VERDICT.refused
    change[COLUMN.sum] -= rho * sums
    if setup.dual:  # S(ḡ + g·x) of the new S, from Sḡ of the old one; p[head] is x·ḡ
        for i in range(n):
            sketch.lines[LINE.dual, i] += rho * work[RP_WORK.drawn, i] * p[COLUMN.head] + g * p[COLUMN.sketch + i]
    # Step in the metric that has taken in the row.
    followed = rho != 0.0 and _follow_row(setup, sketch, t)
    if setup.dual:
        change[COLUMN.head] = g
        form_dual(setup, sketch, work[RP_WORK.coefficients])
        return VERDICT.absorbed
    _mirror_step(setup, sketch, p, square, rho, g, margin, energy, along, followed, change)
    return VERDICT.absorbed


register_parts(
    Projection, metric=metric, absorb=_absorb, write=write_rows, follow_ridge=_follow_ridge, measure=_measure
)
