"""Functions of the small Gram matrix K = SSᵀ of a sketch's rows: ``P Sᵀ = Sᵀ p(K)``, from its inverse or its spectrum.

For Newton, ``p(K) = (ridge·I + K)^{-1}`` grows by one bordered row, O(m²); for the roots of AdaGrad it needs the small
spectrum, O(m³). So does Newton if the ridge is tiny compared with the energies, as the inverse would lose its digits.
"""

from __future__ import annotations

import math

import numpy as np

from onsketch.core import bordered
from onsketch.core.eigen import eigh
from onsketch.core.geometry import NEWTON
from onsketch.core.spectral_step import inverse_metric, spectral_weight
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import dot, fma, load, spread, store
from onsketch.learners.clip import limited_step
from onsketch.learners.sketched.packed import CLOCK, COLUMN
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, SQUARE

_rebuild, _measure = inner(bordered.rebuild), inner(bordered.measure)

TINY = 1e-5
"""If the independent part of a new row has a smaller share of the energies than this, the spectrum replaces the inverse
until the sketch shrinks: the inverse would be wrong by a rounding error over the square of that share."""

ROUNDING = 1e-15
"""A few rounding errors of float64."""


@inner
def decompose(gram, n, values, vectors, work):
    """The spectrum of a Gram matrix, with what the cutoff calls zero set to zero; ``work`` is scratch, two rows."""
    eigh(gram, n, values, vectors, work)
    for i in range(n):
        if values[i] <= CUTOFF * values[0]:
            values[i] = 0.0


@inlined
def is_spectral(setup, sketch, n):
    """Return True if steps need the spectrum: always except in Newton's geometry with an inverse."""
    given_up = n > 0 and sketch.squares[SQUARE.inverse, 0, 0] == 0.0
    return setup.geometry != NEWTON or sketch.numbers[NUMBER.ridge] == 0.0 or given_up


@inner
def _along(sketch, e, n, source, start):
    """Return the product of the e-th eigenvector of K and n numbers of ``source``, from ``start`` on."""
    at = (SQUARE.vectors * sketch.squares.shape[1] + e) * sketch.squares.shape[2]
    return dot(sketch.squares, at, source, start, (n + 3) // 4 * 4)


@inlined
def _add_along(sketch, e, n, weight, source, start, q):
    """``q += weight·uuᵀ·source`` for the e-th eigenvector u of K."""
    weight *= _along(sketch, e, n, source, start)
    for j in range(n):
        q[j] += weight * sketch.squares[SQUARE.vectors, e, j]


@inner
def _reaches_out(sketch, n, p, square):
    """Return True if the row gathered in p has a part outside the span of S, beyond rounding."""
    values = sketch.lines[LINE.values]
    error = ROUNDING * math.sqrt(values[0] * square)  # of a row along an eigenvector
    outside = square
    rounding = CUTOFF * square
    for e in range(n):
        if values[e] > 0.0:
            along = abs(_along(sketch, e, n, p, COLUMN.sketch))
            part = along * along / values[e]
            outside -= part
            rounding += error * (2.0 * along + error) / values[e]
            rounding += ROUNDING * values[0] / values[e] * part  # of the eigenvalue itself
    return outside > rounding


@inner
def step_weight(setup, sketch, value, energy):
    """p(energy) for an eigenvector of this eigenvalue; a ridge below the cutoff counts as 0, and p(0) is then 0."""
    ridge = sketch.numbers[NUMBER.ridge]
    if value == 0.0 and setup.geometry == NEWTON and ridge <= CUTOFF * sketch.lines[LINE.values, 0]:
        return 0.0
    return inverse_metric(setup, energy, ridge, sketch.numbers[NUMBER.escaped])


@inner
def precondition(setup, sketch, source, start, q):
    """``P x = c·x + Sᵀq`` from Sx, in ``source`` from ``start`` on: fills q, returns c."""
    n = sketch.counts[COUNT.rows]
    ridge, escaped = sketch.numbers[NUMBER.ridge], sketch.numbers[NUMBER.escaped]
    width = sketch.squares.shape[2]
    if not is_spectral(setup, sketch, n):
        for i in range(n):
            q[i] = -dot(sketch.squares, (SQUARE.inverse * width + i) * width, source, start, (n + 3) // 4 * 4) / ridge
        return 1.0 / ridge
    for i in range(n):
        q[i] = 0.0
    for e in range(n):
        _add_along(sketch, e, n, spectral_weight(setup, sketch.lines[LINE.values, e], ridge, escaped), source, start, q)
    return inverse_metric(setup, 0.0, ridge, escaped)


@inlined
def step_along(setup, sketch, p, square, g, margin, flat, q, change):
    """Step along ``P x = flat·x + Sᵀq`` by the gradient g·x: changes a, and the head in ``change``."""
    leverage = flat * square
    if setup.reach < math.inf:
        for i in range(sketch.counts[COUNT.rows]):
            leverage += q[i] * p[COLUMN.sketch + i]
    step = limited_step(setup, margin, g, leverage)
    change[COLUMN.head] -= step * flat
    for i in range(sketch.counts[COUNT.rows]):
        sketch.lines[LINE.a, i] -= step * q[i]


@inlined
def form_dual(setup, sketch, q):
    """``w = −step·P ḡ`` of dual averaging, from Sḡ: sets base and a; q is scratch."""
    sketch.numbers[NUMBER.base] = -setup.step * precondition(setup, sketch, sketch.lines[LINE.dual], 0, q)
    for i in range(sketch.counts[COUNT.rows]):
        sketch.lines[LINE.a, i] = -setup.step * q[i]


def metric(setup, sketch, p, square, q):
    """``P x = c·x + Sᵀq`` for the row gathered in p: fills q, returns c."""
    n = sketch.counts[COUNT.rows]
    ridge = sketch.numbers[NUMBER.ridge]
    if setup.geometry != NEWTON or not is_spectral(setup, sketch, n):
        return precondition(setup, sketch, p, COLUMN.sketch, q)
    # Without a ridge, moving along the part of x outside the span costs nothing. Where there is no such part, a tiny
    # ridge must not make one of rounding errors.
    outside = _reaches_out(sketch, n, p, square)
    if outside and ridge > 0.0:
        return precondition(setup, sketch, p, COLUMN.sketch, q)
    for i in range(n):
        q[i] = 0.0
    for e in range(n):
        value = sketch.lines[LINE.values, e]
        if value > 0.0:
            weight = -1.0 if outside else inverse_metric(setup, value, ridge, sketch.numbers[NUMBER.escaped])
            _add_along(sketch, e, n, weight / value, p, COLUMN.sketch, q)
    return 1.0 if outside else 0.0


def follow_ridge(setup, sketch):
    """(ridge·I + K)^{-1} from K's spectrum, O(m³); none where it would lose its digits."""
    n = sketch.counts[COUNT.rows]
    ridge, values = sketch.numbers[NUMBER.ridge], sketch.lines[LINE.values]
    vectors, inverses = sketch.squares[SQUARE.vectors], sketch.squares[SQUARE.inverse : SQUARE.inverse + 1]
    _rebuild(sketch.squares[SQUARE.gram], inverses, (ridge,), n, values, vectors, sketch.room[0])
    if n > 0 and not ridge + values[n - 1] > TINY * values[0]:
        inverses[0, 0, 0] = 0.0  # there is none


_follow_ridge = inner(follow_ridge)


@inner
def measure_rows(setup, table, sketch, n, gram):
    """Compute SSᵀ from the packed rows, and Sḡ (dual averaging), or fold Sᵀa into the heads.

    Heads move along x by 1/ridge where the weights move by 1/(ridge + λ), and a makes up for it. What both have in
    common would grow until float32 has no digits left for their sum.
    """
    lines, rows, base_sum = sketch.lines, table.rows, sketch.numbers[NUMBER.base_sum]
    _measure(rows, table.clock[CLOCK.seen], COLUMN.sketch, n, gram)
    for i in range(n):
        lines[LINE.dual, i] = 0.0
    for slot in range(table.clock[CLOCK.seen]):
        head, total = 0.0, 0.0
        for i in range(n):
            s = np.float64(rows[slot, COLUMN.sketch + i])
            head += lines[LINE.a, i] * s
            total += lines[LINE.a_sum, i] * s
            lines[LINE.dual, i] += np.float64(rows[slot, COLUMN.head]) * s
        if not setup.dual:
            rows[slot, COLUMN.head] += head
            total -= base_sum * head
        rows[slot, COLUMN.sum] += total
    for i in range(n):
        lines[LINE.a_sum, i] = 0.0
        if not setup.dual:
            lines[LINE.a, i] = 0.0


@inlined
def hold_ridge(setup, sketch, top):
    """Keep the ridge above what the rows cannot tell from 0 next to the largest energy; no ridge stays none."""
    if setup.geometry == NEWTON and sketch.numbers[NUMBER.ridge] > 0.0:
        sketch.numbers[NUMBER.ridge] = max(sketch.numbers[NUMBER.ridge], setup.resolution * top)


def measure(setup, table, sketch):
    """K from the rows, which a shrink has just made orthogonal, and all that follows from it."""
    gram = sketch.squares[SQUARE.gram]
    measure_rows(setup, table, sketch, sketch.counts[COUNT.rows], gram)
    top = 0.0
    for i in range(sketch.counts[COUNT.rows]):
        top = max(top, gram[i, i])
    hold_ridge(setup, sketch, top)
    _follow_ridge(setup, sketch)


@inner
def last_column(sketch, n, step):
    """Border (ridge·I + K)⁻¹ by its n-th row, and fill ``step`` with its last column.

    This is ``core.bordered.border`` in whole vectors, which saves 4 % of a round. Returns False if the independent
    part of the row has a share of the energies below TINY: there is no inverse then, until the sketch shrinks.
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
def last_column_of_spectrum(setup, sketch, n, step):
    """The same for any p(K), from K's spectrum."""
    values = sketch.lines[LINE.values]
    vectors = sketch.squares[SQUARE.vectors]
    decompose(sketch.squares[SQUARE.gram], n, values, vectors, sketch.room[0])
    for i in range(n):
        step[i] = 0.0
    for e in range(n):
        weight = step_weight(setup, sketch, values[e], values[e]) * vectors[e, n - 1]
        for i in range(n):
            step[i] += weight * vectors[e, i]
