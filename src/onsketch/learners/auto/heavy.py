"""Heavy rows: what the sketch knows of features that have come a few times.

A feature met once or twice teaches a sketch of twenty directions nothing, and on heavy-tailed streams most features are
such. They are given sketch columns when they have come a few times (the first thousand features at once); until then
they are known to the ridge alone: their part of a row is not in S, and their weights step as along any direction
that S does not know.
"""

from __future__ import annotations

import numpy as np

from onsketch.jit.decorators import inlined, inner
from onsketch.learners.auto.passes import OWN, SHIFT
from onsketch.learners.auto.state import FIRST_ROW, HEADS, LIGHT, SKETCHED, TALLY
from onsketch.learners.sketched.epochs import bring_up_to_date
from onsketch.learners.sketched.packed import CLOCK, COLUMN
from onsketch.learners.sketched.passes import gather


@inner
def list_heavy(settings, light, small, table, slots, low, high, constant, x, size, places, along, out):
    """The heavy rows of the example, brought up to date, and its values there; features about to be given one are
    listed after those that have one. Returns how many have one, and the squared length over all listed.
    """
    epoch = table.clock[CLOCK.epoch]
    have = 0
    square = 0.0
    if settings.size < 2:
        return have, square
    for i in range(low, high):
        place = np.int64(light.heavy[slots[i]])
        if place > 0:
            places[have] = place
            along[have] = x[OWN, i - low]
            have += 1
            square += x[OWN, i - low] * x[OWN, i - low]
    if constant >= 0:
        square += size * size
        place = np.int64(light.heavy[constant])
        if place > 0:
            places[have] = place
            along[have] = size
            have += 1
    for k in range(have):
        if table.rows[places[k], COLUMN.epoch] < epoch:
            bring_up_to_date(table.rows, places[k], epoch, table.running, table.past, table.places, out)
    listed = have
    for i in range(low, high):
        slot = slots[i]
        if light.heavy[slot] == 0 and (slot < settings.free or light.rows[slot, LIGHT.met] + 1.0 >= settings.patience):
            places[listed] = -np.int64(slot) - 1
            along[listed] = x[OWN, i - low]
            listed += 1
            square += x[OWN, i - low] * x[OWN, i - low]
    if constant >= 0 and light.heavy[constant] == 0:
        places[listed] = -np.int64(constant) - 1
        along[listed] = size
        listed += 1
    small.counts[TALLY.full] = listed  # for write_heavy
    return have, square


@inner
def write_heavy(settings, light, small, table, places, along, rho):
    """Give heavy rows to the features that are due, and write the new sketch row."""
    clock = table.clock
    epoch = clock[CLOCK.epoch]
    column = FIRST_ROW + small.counts[TALLY.rows]
    for k in range(small.counts[TALLY.full]):
        place = places[k]
        if place < 0:
            clock[CLOCK.seen] += 1
            light.heavy[-place - 1] = clock[CLOCK.seen] - 1
            place = clock[CLOCK.seen] - 1
            table.rows[place, COLUMN.epoch] = epoch
        if rho != 0.0:
            table.rows[place, column] = rho * along[k]
            if table.rows[place, COLUMN.epoch] == epoch:
                table.rows[place, COLUMN.epoch] = epoch + 0.5  # listed; a whole number means: nothing in the buffer
                table.touched[clock[CLOCK.touched]] = place
                clock[CLOCK.touched] += 1
    small.counts[TALLY.full] = 0


@inlined
def add_heads(small, p, margins):
    """Add to the margins of the experts with a sketch what their heavy rows say."""
    for k in range(SKETCHED):
        margins[k] += p[HEADS[k]]
        for i in range(small.counts[TALLY.rows]):
            margins[k] += small.a[k, i] * p[FIRST_ROW + i]


@inner
def shift_heads(light, table, slots, low, high, x, places, along, columns, p, shifts):
    """``shifts = Sx`` (and heads) in the scales before this row, from p in those with it."""
    n = 0
    for j in range(high - low):
        place = np.int64(light.heavy[slots[low + j]])
        if x[SHIFT, j] != 0.0 and place > 0:
            places[n] = place
            along[n] = x[SHIFT, j]
            n += 1
    gather(table.rows, places, along, 0, n, columns, shifts)
    for c in range(columns):
        shifts[c] += p[c]
