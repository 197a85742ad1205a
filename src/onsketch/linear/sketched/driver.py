"""The one algorithm: predict, see the slope, absorb a row, step. Every sketched learner runs this loop.

The weights are ``w = base·head + Sᵀa`` with the sketch rows S in the packed table, so a round reads, for each
non-zero of x, one packed row (``gather``), does a little algebra of the sketch's size, and writes it back
(``scatter``); its cost has the non-zeros and the sketch size in it, never d.

What differs between sketches is in three functions, chosen by the type of the sketch's state:

=========  =================================================================================================
enter      a feature is met for the first time
metric     ``P x = c·x + Sᵀq`` for the current preconditioner P, from Sx and x·x; returns c
absorb     take in the row ``ρ·x``, change a, and say what to add to the packed rows of x's features
=========  =================================================================================================
"""

from __future__ import annotations

import numpy as np

from onsketch import losses
from onsketch.linear.setup import CURVATURE, row_scale
from onsketch.linear.sketched.packed import (
    DIAGONAL,
    EPOCH,
    EPOCH_OF,
    HEAD,
    ROUNDS,
    SEEN,
    SKETCH,
    SUM,
    TOUCHED,
    bring_up_to_date,
    close_epoch,
    gather,
)
from onsketch.linear.sketched.parts import FULL, FULL_BEFORE, REFUSED, absorb, enter, metric
from onsketch.linear.sketched.state import A_SUM, BASE, BASE_SUM, CLOSED, COLUMN, ROWS, A
from onsketch.numerics import CUTOFF, LARGEST, inner, kernel

FIRST_DIAGONAL = 0.1
"""D before any gradient, in luo2016's diagonal adaptation (its footnote 6)."""


@inner
def margin_of(sketch, p):
    """w·x from the gathered row."""
    total = sketch.numbers[BASE] * p[HEAD]
    for i in range(sketch.counts[ROWS]):
        total += sketch.lines[A, i] * p[SKETCH + i]
    return total


@inner
def project(sketch, setup, p, square, margin, q):
    """Move a so that |w·x| ≤ C, obliquely in the current metric; returns what to add to the head along x."""
    scale = metric(setup, sketch, p, square, q)
    length = scale * square
    least = CUTOFF * length
    for i in range(sketch.counts[ROWS]):
        length += q[i] * p[SKETCH + i]
    length = max(length, least)
    if length <= 0.0:
        return 0.0
    gamma = (margin - setup.clip if margin > 0.0 else margin + setup.clip) / length
    for i in range(sketch.counts[ROWS]):
        sketch.lines[A, i] -= gamma * q[i]
    return -gamma * scale


@inner
def scatter_all(table, slots, x, low, high, change):
    """Add ``x_i·change`` to the packed rows, head and sketch columns alike."""
    for i in range(low, high):
        row = table.rows[slots[i]]
        v = x[i]
        for c in range(change.size):
            row[c] += v * change[c]


@inner
def scatter_buffer(table, slots, x, low, high, change, column):
    """Add ``x_i·change`` to the head, and write the new buffer row (none when ``column`` is 0)."""
    clock = table.clock
    epoch = clock[EPOCH]
    moves = change[HEAD] != 0.0
    for i in range(low, high):
        row = table.rows[slots[i]]
        v = x[i]
        if moves:
            row[HEAD] += v * change[HEAD]
            row[SUM] += v * change[SUM]
        if column:
            row[column] = v * change[column]
            if row[EPOCH_OF] == epoch:
                row[EPOCH_OF] = epoch + 0.5  # listed; a whole number means: nothing in the buffer
                table.touched[clock[TOUCHED]] = slots[i]
                clock[TOUCHED] += 1


@inner
def count_iterate(sketch):
    """Add the iterate reached to the running sum of iterates."""
    for i in range(sketch.counts[ROWS]):
        sketch.lines[A_SUM, i] += sketch.lines[A, i]
    sketch.numbers[BASE_SUM] += sketch.numbers[BASE]


@kernel
def learn_rows(setup, table, sketch, indptr, slots, values, labels, weights, predictions):
    """Play the rounds of a block. Returns the number of rows learned: fewer than given when one is refused."""
    k = table.running.shape[1]
    rows = table.rows
    width = rows.shape[1]
    p = np.empty(width)
    q = np.empty(width)
    change = np.zeros(width)
    before = np.empty(width)
    out = np.empty(table.running.shape[2])
    x = values
    if setup.diagonal:
        x = values.copy()
    for i in range(indptr.size - 1):
        low = indptr[i]
        high = indptr[i + 1]
        largest = 1.0
        fresh = 0.0
        epoch = table.clock[EPOCH]
        for j in range(low, high):
            slot = slots[j]
            if setup.diagonal:
                x[j] = values[j] / np.sqrt(FIRST_DIAGONAL + rows[slot, DIAGONAL])
            largest = max(largest, abs(x[j]))
            if slot >= table.clock[SEEN]:
                rows[slot, EPOCH_OF] = epoch
                table.clock[SEEN] = slot + 1
                fresh += x[j] * enter(setup, table, sketch, slot)
            elif rows[slot, EPOCH_OF] < epoch:
                bring_up_to_date(rows, slot, epoch, table.running, table.past, table.places, out)
        square = gather(rows, slots, x, low, high, p)
        margin = margin_of(sketch, p) - fresh
        if not abs(margin) <= LARGEST:
            return i
        limit = LARGEST / largest
        change[HEAD] = 0.0
        change[SUM] = 0.0
        for j in range(sketch.lines.shape[1]):
            before[j] = sketch.lines[A, j]
        if abs(margin) > setup.clip:
            if not setup.dual:
                change[HEAD] = project(sketch, setup, p, square, margin, q)
                p[HEAD] += change[HEAD] * square
            margin = setup.clip if margin > 0.0 else -setup.clip
        slope = losses.slope(setup.loss, margin, labels[i])
        bend = losses.curvature(setup.loss, margin, labels[i]) if setup.summary == CURVATURE else 0.0
        t = table.clock[ROUNDS] + 1
        rho = row_scale(setup, slope, bend, weights[i], t)
        g = weights[i] * slope
        verdict = REFUSED
        if max(abs(g), abs(rho), abs(change[HEAD])) <= limit:
            verdict = absorb(setup, sketch, p, square, rho, g, t, change, limit)
        if verdict == REFUSED:
            for j in range(sketch.lines.shape[1]):
                sketch.lines[A, j] = before[j]
            return i
        predictions[i] = margin
        change[SUM] -= sketch.numbers[BASE_SUM] * change[HEAD]
        if verdict == FULL_BEFORE:
            close_epoch(table, sketch.transform, sketch.counts[CLOSED], k)
            for j in range(low, high):
                bring_up_to_date(rows, slots[j], table.clock[EPOCH], table.running, table.past, table.places, out)
        if sketch.counts[COLUMN] < 0:
            scatter_all(table, slots, x, low, high, change)
        else:
            scatter_buffer(table, slots, x, low, high, change, sketch.counts[COLUMN])
        if setup.diagonal:
            for j in range(low, high):
                rows[slots[j], DIAGONAL] += (g * values[j]) ** 2
        if verdict == FULL:
            close_epoch(table, sketch.transform, sketch.counts[CLOSED], k)
        if setup.average:
            count_iterate(sketch)
        table.clock[ROUNDS] = t
    return indptr.size - 1
