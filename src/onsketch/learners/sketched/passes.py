"""The two passes of a round over the packed rows of its example: read them all, write them all.

Which columns a round writes depends on the sketch: ``write_rows`` and ``write_buffer`` are the two forms.
"""

from __future__ import annotations

import numpy as np

from onsketch.jit.decorators import inlined
from onsketch.jit.vectors import ask_for, fma, load, plus, spread, store
from onsketch.learners.sketched.packed import CLOCK, COLUMN
from onsketch.learners.sketched.state import COUNT


@inlined
def newest(slots):
    """The highest of these slots."""
    top = -1
    for i in range(slots.size):
        top = max(top, slots[i])
    return top


@inlined
def _gather_block(rows, slots, x, low, high, out, at, lanes):
    """``lanes`` columns of ``gather``: two sums, so that one need not wait for the other."""
    width = rows.shape[1]
    even = spread(0.0, lanes)
    odd = spread(0.0, lanes)
    i = low
    while i + 1 < high:
        even = fma(spread(x[i], lanes), load(rows, slots[i] * width + at, lanes), even)
        odd = fma(spread(x[i + 1], lanes), load(rows, slots[i + 1] * width + at, lanes), odd)
        i += 2
    if i < high:
        even = fma(spread(x[i], lanes), load(rows, slots[i] * width + at, lanes), even)
    store(out, at, plus(even, odd))


@inlined
def gather(rows, slots, x, low, high, columns, out):
    """``out = Σ x_i · row_i`` over the non-zeros low..high: head·x, Sx and all, in one pass; returns x·x.

    Only the first ``columns`` of the packed rows are in use; the others may or may not be gathered.
    """
    square = 0.0
    for i in range(low, high):
        square += x[i] * x[i]
    at = np.int64(0)
    while columns - at > 8 and rows.shape[1] - at >= 16:
        _gather_block(rows, slots, x, low, high, out, at, 16)
        at += 16
    if at < columns:
        _gather_block(rows, slots, x, low, high, out, at, 8)
    return square


@inlined
def _write_block(rows, slots, x, change, following, at, lanes):
    width = rows.shape[1]
    step = load(change, at, lanes)
    for i in range(x.size):
        place = slots[i] * width + at
        store(rows, place, fma(spread(x[i], lanes), step, load(rows, place, lanes)))
        if i < following.size:
            ask_for(rows, following[i] * width + at, lanes)


def write_rows(table, sketch, slots, x, change, following):
    """``row_i += x_i · change`` over the non-zeros, and prefetch as many rows of the ``following`` slots: all at
    once would exceed the number of outstanding memory requests.
    """
    rows = table.rows
    at = np.int64(0)
    while rows.shape[1] - at >= 16:
        _write_block(rows, slots, x, change, following, at, 16)
        at += 16
    if at < rows.shape[1]:
        _write_block(rows, slots, x, change, following, at, 8)


def write_buffer(table, sketch, slots, x, change, following):
    """Add ``x_i·change`` to the head, and write the new buffer row, if there is one; else as ``write_rows``."""
    column = sketch.counts[COUNT.column]
    rows = table.rows
    clock = table.clock
    epoch = clock[CLOCK.epoch]
    head = change[COLUMN.head]
    total = change[COLUMN.sum]
    if head == 0.0 and column and clock[CLOCK.touched] == clock[CLOCK.seen]:  # dense rows: all are listed
        by = change[column]
        for i in range(x.size):
            rows[slots[i], column] = x[i] * by
        return
    for i in range(x.size):
        slot = slots[i]
        if i < following.size:
            for c in range(0, rows.shape[1], 16):
                ask_for(rows, following[i] * rows.shape[1] + c, 16)
        if head != 0.0:
            rows[slot, COLUMN.head] += x[i] * head
            rows[slot, COLUMN.sum] += x[i] * total
        if column:
            rows[slot, column] = x[i] * change[column]
            if rows[slot, COLUMN.epoch] == epoch:
                rows[slot, COLUMN.epoch] = epoch + 0.5  # listed; a whole number means: nothing in the buffer
                table.touched[clock[CLOCK.touched]] = slot
                clock[CLOCK.touched] += 1
