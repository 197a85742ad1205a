"""Reading a packed learner without changing it: predictions, leverage and weights, pending transforms included."""

from __future__ import annotations

import numpy as np

from onsketch.jit.decorators import allocating_kernel, inner
from onsketch.learners.clip import clipped
from onsketch.learners.sketched.driver import FIRST_DIAGONAL
from onsketch.learners.sketched.epochs import bring_up_to_date
from onsketch.learners.sketched.packed import CLOCK, COLUMN
from onsketch.learners.sketched.parts import metric, prepare
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER


@inner
def current_row(table, slot, rows, out):
    """Copy a packed row into the one-row table ``rows``, brought up to date; ``out`` is scratch."""
    for c in range(rows.shape[1]):
        rows[0, c] = table.rows[slot, c]
    epoch = table.clock[CLOCK.epoch]
    if rows[0, COLUMN.epoch] < epoch:
        bring_up_to_date(rows, 0, epoch, table.running, table.past, out)


@inner
def weight_of(setup, table, sketch, row, average):
    """The weight of a feature from its packed row: the running iterate's, or the mean over all of them."""
    if average:
        total = row[COLUMN.sum] + sketch.numbers[NUMBER.base_sum] * row[COLUMN.head]
        for i in range(sketch.counts[COUNT.rows]):
            total += sketch.lines[LINE.a_sum, i] * row[COLUMN.sketch + i]
        total /= max(table.clock[CLOCK.rounds], 1)
    else:
        total = sketch.numbers[NUMBER.base] * row[COLUMN.head]
        for i in range(sketch.counts[COUNT.rows]):
            total += sketch.lines[LINE.a, i] * row[COLUMN.sketch + i]
    if setup.diagonal:
        total /= np.sqrt(FIRST_DIAGONAL + row[COLUMN.diagonal])
    return total


@allocating_kernel
def fill_weights(setup, table, sketch, average, weights):
    """The weights of the first slots, one each."""
    rows = np.empty((1, table.rows.shape[1]))
    row = rows[0]
    out = np.empty(table.running.shape[2])
    for slot in range(weights.size):
        current_row(table, slot, rows, out)
        weights[slot] = weight_of(setup, table, sketch, row, average)


@allocating_kernel
def predict_rows(setup, table, sketch, indptr, slots, values, average, predictions):
    """Clipped margins."""
    rows = np.empty((1, table.rows.shape[1]))
    row = rows[0]
    out = np.empty(table.running.shape[2])
    for i in range(indptr.size - 1):
        margin = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            current_row(table, slots[j], rows, out)
            margin += values[j] * weight_of(setup, table, sketch, row, average)
        predictions[i] = clipped(margin, setup.clip)


@allocating_kernel
def leverage_rows(setup, table, sketch, indptr, slots, values, extra, leverages):
    """x·Px for each row; ``extra`` holds, per row, x·x over features never seen."""
    width = table.rows.shape[1]
    rows = np.empty((1, width))
    row = rows[0]
    out = np.empty(table.running.shape[2])
    p = np.empty(width)
    q = np.empty(width)
    for i in range(indptr.size - 1):
        square = extra[i]
        for c in range(width):
            p[c] = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            current_row(table, slots[j], rows, out)
            v = values[j]
            if setup.diagonal:
                v /= np.sqrt(FIRST_DIAGONAL + row[COLUMN.diagonal])
            square += v * v
            for c in range(width):
                p[c] += v * row[c]
        prepare(setup, sketch, p)
        flat = metric(setup, sketch, p, square, q)
        if sketch.numbers[NUMBER.ridge] == 0.0 and flat > 0.0:
            leverages[i] = np.inf  # x has a part of which nothing is known
            continue
        total = flat * square
        for c in range(sketch.counts[COUNT.rows]):
            total += q[c] * p[COLUMN.sketch + c]
        leverages[i] = max(total, 0.0) / sketch.numbers[NUMBER.fade]


@allocating_kernel
def fill_rows(table, out):
    """The packed rows of the first slots, brought up to date."""
    rows = np.empty((1, table.rows.shape[1]))
    scratch = np.empty(table.running.shape[2])
    for slot in range(out.shape[0]):
        current_row(table, slot, rows, scratch)
        for c in range(out.shape[1]):
            out[slot, c] = rows[0, c]
