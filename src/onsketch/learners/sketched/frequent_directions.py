"""Frequent directions under any geometry: FD-, RFD-, PFD-, CFD-SON, Ada-FD, S-AdaGrad and their fast forms.

The sketch S has at most ``capacity`` rows (m: plain, 2m: fast). A full sketch is shrunk: with ``S Sᵀ = Uᵀ diag(λ) U``,
a *rule* (core/shrinking.py) computes m − 1 new energies e from the spectrum λ, and ``S ← diag(√(e/λ)) U S``. Only the
small Gram matrix K = SSᵀ is ever decomposed.

The absorbed row is the last row of S, so the step along it is a combination of rows of S: ``P Sᵀe = Sᵀ p(K) e`` with e
the last unit vector (small_gram.py).

References: Luo et al. 2016, algorithm 2 (FD); Luo et al. 2019, algorithms 2 to 6 (RFD and the fast forms); Wan and
Zhang 2021, algorithms 1 and 2 (Ada-FD). ``docs/papers/items.md`` has the test of each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core import bordered
from onsketch.core.arrays import require_within
from onsketch.core.secular import LINES
from onsketch.core.shrinking import COMPENSATIVE, ridge_growth, shrink, shrunk
from onsketch.jit.decorators import inlined, inner
from onsketch.learners.clip import limited_step
from onsketch.learners.merging import added, spectrum
from onsketch.learners.sketched.epochs import fold_coefficients, turn_line
from onsketch.learners.sketched.packed import COLUMN
from onsketch.learners.sketched.parts import VERDICT, register_parts
from onsketch.learners.sketched.passes import write_buffer
from onsketch.learners.sketched.small_gram import (
    TINY,
    decompose,
    follow_ridge,
    form_dual,
    is_spectral,
    last_column,
    last_column_of_spectrum,
    measure,
    metric,
    step_weight,
)
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, SQUARE, State

if TYPE_CHECKING:
    from onsketch.learners.setup import Setup

_shrink, _ridge_growth, _restart = inner(shrink), inlined(ridge_growth), inner(bordered.restart)


class Directions(State):
    """State of a frequent-directions sketch; the spectrum of K is kept up to date where the geometry needs it."""

    @classmethod
    def shape(cls, size: int, doubling: bool) -> tuple[int, int]:
        """Return the rows that a shrink leaves, m − 1, and the capacity, m or 2m."""
        return size - 1, 2 * size if doubling else size

    def true_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows without the energy that compensative frequent directions adds."""
        return np.asarray(self.lines[LINE.keep, : len(rows), None] * rows)

    def most_rows(self, setup: Setup) -> int:
        """Return capacity − 1: a full sketch is shrunk in the same round."""
        return setup.capacity - 1

    def check_sketch(self, fresh: Self, setup: Setup) -> None:
        """Check as for every sketch, and that the diagonal of K is not negative."""
        super().check_sketch(fresh, setup)
        most = float(np.finfo(np.float64).max)
        require_within(np.diagonal(self.squares[SQUARE.gram]), 0.0, most, "sketch.squares")

    def set_merged(
        self, parts: Any, stored: list[NDArray[np.float64]], energies: list[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Become the sketch of both learners' rows, shrunk if there are too many."""
        setup = parts[0]._setup
        rows = added(energies)
        self.lines[LINE.keep] = 1.0
        compensate = setup.rule == COMPENSATIVE and self.numbers[NUMBER.escaped] > 0.0
        if rows.shape[0] >= setup.capacity or compensate:
            values, directions = spectrum(rows)
            escaped = float(self.numbers[NUMBER.escaped])
            energy, true, rho = shrunk(values, setup.size, setup.rule, setup.fraction, escaped)
            self.numbers[NUMBER.escaped] += rho
            self.numbers[NUMBER.ridge] += ridge_growth(setup.rule, rho)
            n = energy.size
            rows = np.zeros((setup.size - 1, rows.shape[1]))
            rows[:n] = np.sqrt(energy)[:, None] * directions[:n]
            shown = np.flatnonzero(energy > 0.0)
            self.lines[LINE.keep, shown] = np.sqrt(true[shown] / energy[shown])
        self.set_gram(rows @ rows.T, TINY)
        return rows


class ShrinkWork(NamedTuple):
    """Rows of scratch."""

    step: int
    """the last column of p(K)"""
    energy: int
    """energies after a shrink, with what compensative frequent directions adds"""
    true: int
    """the same without what it adds"""


FD_WORK = ShrinkWork(*range(LINES, LINES + 3))


@inlined
def _true_gram(sketch, n, gram):
    """Fill ``gram`` with K without the energy that compensative frequent directions adds."""
    keep = sketch.lines[LINE.keep]
    for i in range(n):
        for j in range(n):
            gram[i, j] = sketch.squares[SQUARE.gram, i, j] * keep[i] * keep[j]


@inlined
def _start_again(sketch, n, energy):
    """Set K, its spectrum and its inverse to those of n orthogonal rows with these energies."""
    gram = sketch.squares[SQUARE.gram]
    for i in range(n):
        for j in range(n):
            gram[i, j] = energy[i] if i == j else 0.0
            sketch.squares[SQUARE.vectors, i, j] = 1.0 if i == j else 0.0
        sketch.lines[LINE.values, i] = energy[i]
    ridge = sketch.numbers[NUMBER.ridge]
    inverses = sketch.squares[SQUARE.inverse : SQUARE.inverse + 1]
    _restart(gram, inverses, (ridge,), n, n if ridge > 0.0 else 0)


@inner
def _close(setup, sketch, n, energy, step):
    """Shrink a full sketch of n rows: fill the transform, compute the step in the *shrunk* metric, and reset K."""
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
        weight = step_weight(setup, sketch, values[e], energy[e]) * vectors[e, n - 1]
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
    """Append the row ρ·x to the Gram matrix; returns False if a product exceeds ``most``."""
    for i in range(last):
        gram[last, i] = rho * p[COLUMN.sketch + i]
        if not abs(gram[last, i]) <= most:
            return False
        gram[i, last] = gram[last, i]
    gram[last, last] = rho * rho * square
    return gram[last, last] <= most


def _absorb(setup, sketch, p, square, rho, g, margin, t, change, limit):
    """Absorb the row ρ·x: see ``parts.absorb``.

    Shapes: p and change (width of a packed row,); p has Sx from COLUMN.sketch on.
    """
    n = sketch.counts[COUNT.rows] + 1
    last = n - 1
    # Append ρ·x as the last row of S. The step is the last column of p(K), after the shrink if S is full.
    if not _border(sketch.squares[SQUARE.gram], last, p, rho, square, limit * limit):
        return VERDICT.refused
    sketch.lines[LINE.a, last] = 0.0
    sketch.lines[LINE.a_sum, last] = 0.0
    step = sketch.work[FD_WORK.step]
    full = n == setup.capacity
    if full:
        _close(setup, sketch, n, sketch.work[FD_WORK.energy], step)
    elif is_spectral(setup, sketch, last) or not last_column(sketch, n, step):
        last_column_of_spectrum(setup, sketch, n, step)
    sketch.counts[COUNT.column] = COLUMN.sketch + last if rho != 0.0 else 0
    change[COLUMN.sketch + last] = rho
    sketch.counts[COUNT.rows] = n
    # Step along P x = Sᵀ step/ρ, or form the weights of dual averaging.
    if setup.dual:
        _dual_step(setup, sketch, p, square, rho, g, full, change)
    elif rho != 0.0:
        lever = 0.0
        if setup.reach < math.inf:
            lever = square * step[last]
            for i in range(last):
                lever += p[COLUMN.sketch + i] * step[i] / rho
        factor = -limited_step(setup, margin, g, lever) / rho
        for i in range(n):
            sketch.lines[LINE.a, i] += factor * step[i]
    # After a shrink, complete the transform of the packed rows.
    if full:
        fold_coefficients(setup, sketch, n, setup.size - 1)
        sketch.counts[COUNT.rows] = setup.size - 1
        sketch.counts[COUNT.closed] = n
        return VERDICT.full
    return VERDICT.absorbed


@inner
def _dual_step(setup, sketch, p, square, rho, g, full, change):
    """Add the gradient g·x to the sum ḡ, update Sḡ, and form the weights ``w = −step·P ḡ``."""
    n = sketch.counts[COUNT.rows]
    dual = sketch.lines[LINE.dual]
    for i in range(n - 1):
        dual[i] += g * p[COLUMN.sketch + i]
    dual[n - 1] = rho * (p[COLUMN.head] + g * square)
    change[COLUMN.head] = g
    if full:
        sketch.counts[COUNT.rows] = setup.size - 1
        turn_line(sketch.transform, n, setup.size - 1, dual, 0, sketch.work[FD_WORK.step])
    form_dual(setup, sketch, sketch.work[FD_WORK.step])


register_parts(
    Directions, metric=metric, absorb=_absorb, write=write_buffer, follow_ridge=follow_ridge, measure=measure
)
