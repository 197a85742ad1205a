"""Heavy rows: what the sketch knows of features that have come a few times.

A feature met once or twice teaches a sketch of twenty directions nothing, and on heavy-tailed streams most features are
such. They are given sketch columns when they are warm (``state.py``; the first thousand features at once); until then
they are known to the ridge alone: their part of a row is not in S, and their weights step as along any direction
that S does not know.
"""

from __future__ import annotations

import numpy as np

from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import add, times
from onsketch.learners.auto.passes import OWN, SHIFT, due
from onsketch.learners.auto.state import FIRST_ROW, HEADS, IN_BUFFER, LIGHT, SKETCHED, TALLY
from onsketch.learners.sketched.epochs import bring_up_to_date, close_epoch, write_turned
from onsketch.learners.sketched.packed import CLOCK, COLUMN, SCRATCH
from onsketch.learners.sketched.passes import gather


@inner
def list_heavy(settings, table, slots, values, low, n, constant, x, size, unit, met, found, places, along, out):
    """The heavy rows of the example, brought up to date, and its values there. ``found`` are the places of its
    features, ``met`` the rows that say how often they came. Returns how many have a heavy row, and the squared length
    over all that have or get one.
    """
    epoch = table.clock[CLOCK.epoch]
    have = 0
    square = 0.0
    if settings.size < 2:
        return have, square
    for j in range(n):
        value = x[OWN, j]
        if found[j] > 0:
            places[have] = found[j]
            along[have] = value
            have += 1
            square += value * value
        elif due(settings, slots[low + j], constant, met[j, LIGHT.met] + 1.0, abs(values[low + j]), unit):
            square += value * value
    if constant >= 0:
        square += size * size
        if found[n] > 0:
            places[have] = found[n]
            along[have] = size
            have += 1
    for k in range(have):
        if table.rows[places[k], COLUMN.epoch] < epoch:
            bring_up_to_date(table.rows, places[k], epoch, table.running, table.past, out)
    return have, square


@inner
def sketch_products(light, small, table, places, along, n, kept, listed, beside, out, p):
    """``p = Sx`` (and heads), from heavy rows and the buffer; ``listed``, ``beside`` and ``out`` are scratch."""
    rows = small.counts[TALLY.rows]
    gather(table.rows, places, along, 0, n, FIRST_ROW + min(rows, kept), p)
    if rows <= kept:
        return
    buffered = 0
    for k in range(n):
        place = np.int64(table.rows[places[k], IN_BUFFER])
        if place > 0:
            listed[buffered] = place - 1
            beside[buffered] = along[k]
            buffered += 1
    gather(light.buffer, listed, beside, 0, buffered, rows - kept, out)
    for c in range(rows - kept):
        p[FIRST_ROW + kept + c] = out[c]


@inner
def write_heavy(settings, light, small, table, found, n, constant, x, size, rho, kept):
    """Write the new sketch row; features that have become warm have heavy rows from now on."""
    if settings.size < 2:
        return
    clock = table.clock
    epoch = clock[CLOCK.epoch]
    row = small.counts[TALLY.rows]
    while clock[CLOCK.seen] <= small.counts[TALLY.warm]:
        table.rows[clock[CLOCK.seen], COLUMN.epoch] = epoch
        clock[CLOCK.seen] += 1
    if rho == 0.0:
        return
    for j in range(n + 1 if constant >= 0 else n):
        place = found[j]
        if place <= 0:
            continue
        entry = rho * (x[OWN, j] if j < n else size)
        if row < kept:
            table.rows[place, FIRST_ROW + row] = entry
            continue
        if table.rows[place, COLUMN.epoch] == epoch:
            table.rows[place, COLUMN.epoch] = epoch + 0.5  # in the buffer; a whole number means: it is not
            table.touched[clock[CLOCK.touched]] = place
            clock[CLOCK.touched] += 1
            table.rows[place, IN_BUFFER] = clock[CLOCK.touched]
        light.buffer[np.int64(table.rows[place, IN_BUFFER]) - 1, row - kept] = entry


@inner
def close_buffer(light, small, table, kept):
    """End an epoch: turn the features in the buffer, which is empty then, and log the transform for all others."""
    clock, rows, transform = table.clock, table.rows, small.transform
    out = table.work[SCRATCH.moved]
    width = transform.shape[1]
    for i in range(clock[CLOCK.touched]):
        place = np.int64(table.touched[i])
        times(rows, place * rows.shape[1] + COLUMN.sketch, kept + 1, transform, 0, width, out)
        for j in range(light.buffer.shape[1]):
            entry = light.buffer[i, j]
            if entry != 0.0:
                add(out, 0, entry, transform, (kept + 1 + j) * width, width)
                light.buffer[i, j] = 0.0
        write_turned(rows, place, kept + 1, out)
        rows[place, IN_BUFFER] = 0.0
        rows[place, COLUMN.epoch] = clock[CLOCK.epoch] + 1
    clock[CLOCK.touched] = 0
    close_epoch(table, transform, kept + 1, kept + 1)


@inlined
def add_heads(small, p, margins):
    """Add to the margins of the experts with a sketch what their heavy rows say."""
    for k in range(SKETCHED):
        margins[k] += p[HEADS[k]]
        for i in range(small.counts[TALLY.rows]):
            margins[k] += small.a[k, i] * p[FIRST_ROW + i]


@inner
def shift_heads(light, small, table, found, n, x, kept, places, along, listed, beside, out, p, shifts):
    """``shifts = Sx`` (and heads) in the scales before this row, from p in those with it."""
    moved = 0
    for j in range(n):
        if x[SHIFT, j] != 0.0 and found[j] > 0:
            places[moved] = found[j]
            along[moved] = x[SHIFT, j]
            moved += 1
    sketch_products(light, small, table, places, along, moved, kept, listed, beside, out, shifts)
    for c in range(FIRST_ROW + small.counts[TALLY.rows]):
        shifts[c] += p[c]
