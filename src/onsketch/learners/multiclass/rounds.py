"""The rounds of a shared sketch between two shrinks: everything small, nothing of the rows' width.

Between shrinks the K weight vectors are ``W = heads + C·S`` with S the rows of the sketch, to which every row of the
stream is itself appended. So a block of rows needs the width d only three times, as matrix products: X·headsᵀ, X·Sᵀ and
X·Xᵀ. What happens row by row after that has the size of the sketch and the number of classes in it, and is done here.
"""

from __future__ import annotations

import numpy as np

from onsketch.jit.decorators import allocating_kernel, inlined
from onsketch.learners.multiclass.slopes import fill_slopes, shared_scale
from onsketch.learners.sketched.driver import copy_state, fits, harmless, outgrown, raise_ridge
from onsketch.learners.sketched.packed import COLUMN
from onsketch.learners.sketched.parts import VERDICT, absorb, prepare
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER


@inlined
def _largest(numbers):
    """The largest magnitude; infinite where a number is none."""
    most = 0.0
    for k in range(numbers.size):
        if not abs(numbers[k]) <= np.inf:
            return np.inf
        most = max(most, abs(numbers[k]))
    return most


@inlined
def _fill_margins(heads, coefficients, p, n, z):
    """Fill z with the margins W·x of a row whose products with heads and sketch are given; returns the largest."""
    for k in range(z.size):
        z[k] = heads[k]
    for r in range(n):
        along = p[COLUMN.sketch + r]
        for k in range(z.size):
            z[k] += coefficients[r, k] * along
    return _largest(z)


@inlined
def _fill_products(gram, among, scales, first, i, p):
    """Fill p with the products of row i and the sketch's rows: those before the block, and its own so far."""
    for r in range(first):
        p[COLUMN.sketch + r] = gram[i, r]
    for r in range(i):
        p[COLUMN.sketch + first + r] = scales[r] * among[i, r]


@inlined
def _step_all(setup, sketch, full, n, slopes, top, coefficients):
    """Every weight vector takes the step that was worked out for the slope ``top``, in proportion to its own."""
    for r in range(n):
        # a full sketch has moved its a into the transform's last column but one
        step = sketch.transform[r, setup.size - 1] if full else sketch.lines[LINE.a, r]
        step /= top
        for k in range(slopes.size):
            coefficients[r, k] += slopes[k] * step


@allocating_kernel
def play(setup, loss, sketch, spare, clock, products, targets, weights, coefficients, scales, margins):
    """Learn the rows of one block, at most as many as the sketch can hold, and return how many were learned.

    Cost: O(mK + m²) for a row, plus O(m³) when the sketch is full. Scratch: p (width of a packed row,) holds the
    products with the rows of S, change (the same) what absorb computes, slopes (K,) those of all outputs.

    Args:
        setup: the fixed numbers.
        loss: a form of onsketch.core.losses, or SOFTMAX.
        sketch: the small state of frequent directions.
        spare: a second one, for undoing a round.
        clock: rounds played.
        products: X·headsᵀ, (rows, K); X·Sᵀ, (rows, capacity), for the rows of S before this block; and X·Xᵀ.
        targets: label of each row for each weight vector, (rows, K): signs or numbers.
        weights: sample weights, (rows,).
        coefficients: Cᵀ, (capacity, K); changed.
        scales: filled with ρ of each row, (rows,), the row of S being ρ·x.
        margins: filled with W·x before the row was learned, (rows, K).
    """
    heads, gram, among = products
    classes = heads.shape[1]
    first = sketch.counts[COUNT.rows]
    p = np.empty(COLUMN.sketch + setup.capacity)
    change = np.zeros(COLUMN.sketch + setup.capacity)
    slopes = np.empty(classes)
    for i in range(heads.shape[0]):
        # 1 Gather Sx for the rows of S before the block and within it, and 2 predict.
        n = sketch.counts[COUNT.rows]
        _fill_products(gram, among, scales, first, i, p)
        square = among[i, i]
        z = margins[i]
        reached = _fill_margins(heads[i], coefficients, p, n, z)
        if not reached <= setup.largest:
            return i
        # 3 Slopes of all outputs; the largest decides how the row is scaled.
        bend = fill_slopes(loss, z, targets[i], weights[i], slopes)
        t = clock[0] + 1
        rho = shared_scale(setup, slopes, bend, weights[i], t)
        top = _largest(slopes)
        p[COLUMN.head] = 0.0
        change[COLUMN.head] = 0.0
        change[COLUMN.sum] = 0.0
        largest = max(1.0, np.sqrt(square))
        lengths = sketch.numbers[NUMBER.lengths] + square
        if outgrown(setup, sketch, lengths, t):
            raise_ridge(setup, sketch, spare, False, lengths, t)
        elif not harmless(setup, sketch, largest, reached, p, top, rho):
            copy_state(sketch, spare)
        # 4 Absorb ρ·x into the sketch that all outputs share.
        prepare(setup, sketch, p)
        for r in range(n):
            sketch.lines[LINE.a, r] = 0.0
        limit = setup.largest / largest
        verdict = VERDICT.refused
        if max(top, rho, reached) <= limit:
            verdict = absorb(setup, sketch, p, square, rho, top, 0.0, t, change, limit)
        # 5 Check, and restore the snapshot if the round is refused.
        if verdict == VERDICT.refused or not fits(sketch, change, limit, verdict):
            copy_state(spare, sketch)
            return i
        # 6 Write the scales and step all outputs, and 7 count the round.
        sketch.numbers[NUMBER.lengths] = lengths
        scales[i] = rho
        clock[0] = t
        if top > 0.0:
            _step_all(setup, sketch, verdict == VERDICT.full, n + 1, slopes, top, coefficients)
    return heads.shape[0]
