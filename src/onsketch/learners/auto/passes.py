"""The passes of a round over the light rows of its example: fetch, read, measure, write, keep.

They are fetched into a table of the round's own, in float64, the constant's last, and kept when all is done.
"""

from __future__ import annotations

import math

import numpy as np

from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import element, fma, load, plus, product, spread, store, where_less
from onsketch.learners.auto.diagonal import lanes_of, next_energies, write_diagonal
from onsketch.learners.auto.scaling import ALIKE, APART, followed
from onsketch.learners.auto.state import COLD_LIMIT, COLD_WIDTH, IN_BUFFER, LIGHT, OWN_ADAGRAD, TALLY, WIDTH
from onsketch.learners.sketched.packed import CLOCK

LEAST_COLD = 1.0 / COLD_LIMIT
"""What is more than 0 is not less in float32."""

FAR_UNIT = 1e15
"""Features and labels in units farther from 1 are not kept in float32."""

OWN, WIDE, MEANS, SCALES, LOGS_OF, SHIFT = range(6)
"""Rows of a round's scratch: the values as the sketch and as the wide experts see them; means, scales and their
logarithms with this row; by how much a value would be larger in the scale before this row."""

OWN_SQUARE, COMMON_SQUARE, LOG_SUM, LOG_SQUARES, SHIFTED = range(5)
"""What a row adds to the running figures, and whether a scale has moved."""


@inlined
def seen_by(regime, own, common):
    """A value as the experts with a sketch, and as the wide ones see it."""
    sketched = common if regime == ALIKE else own
    return sketched, (own if regime == APART else common)


@inlined
def copy_row(source, place, target, at):
    """Copy a light row."""
    for c in range(0, WIDTH, 4):
        store(target, at * WIDTH + c, load(source, place * WIDTH + c, 4))


@inner
def light_row(light, slot, target, at):
    """Copy the light row of a feature, warm or cold; returns its place."""
    place = np.int64(light.places[slot])
    if place > 0:
        copy_row(light.rows, place, target, at)
    elif place < 0:
        for c in (0, 4, 8, COLD_WIDTH - 4):
            store(target, at * WIDTH + c, load(light.cold, -place * COLD_WIDTH + c, 4))
        target[at, LIGHT.log] = math.log(target[at, LIGHT.scale])
    else:
        for c in range(0, WIDTH, 4):
            store(target, at * WIDTH + c, spread(0.0, 4))
    return place


@inlined
def due(settings, slot, constant, met, size, unit):
    """Whether a feature met so often is warm from now on; ``size`` is that of its value, ``unit`` that of labels."""
    usual = size < FAR_UNIT and size * FAR_UNIT > 1.0 and unit < FAR_UNIT and (unit * FAR_UNIT > 1.0 or unit == 0.0)
    return slot < settings.free or slot == constant or met >= settings.patience or not usual


@inner
def fetch(settings, light, small, table, slots, values, low, high, constant, unit, rows, places):
    """Fetch the light rows of an example, its constant included; returns whether there is room to keep them."""
    counts = small.counts
    buffering = settings.size >= 2 and counts[TALLY.rows] >= settings.size - 1
    warmer = 0
    colder = 0
    fresh = 0
    for i in range(low, high):
        j = i - low
        place = light_row(light, slots[i], rows, j)
        places[j] = place
        if place > 0:
            if buffering and table.rows[place, IN_BUFFER] == 0.0:
                fresh += 1
        elif due(settings, slots[i], constant, rows[j, LIGHT.met] + 1.0, abs(values[i]), unit):
            warmer += 1
        elif place == 0:
            colder += 1
    fresh = table.clock[CLOCK.touched] + fresh + warmer if buffering else 0
    counts[TALLY.more_warm] = counts[TALLY.warm] + warmer + 1
    counts[TALLY.more_cold] = counts[TALLY.cold] + colder + 1
    counts[TALLY.more_buffer] = fresh
    return (
        counts[TALLY.more_warm] <= light.rows.shape[0]
        and (settings.size < 2 or counts[TALLY.more_warm] <= table.rows.shape[0])
        and counts[TALLY.more_cold] <= light.cold.shape[0]
        and fresh <= light.buffer.shape[0]
    )


@inner
def warm_place(light, small, slot):
    """A place among the warm features; a cold one that it had is free."""
    counts = small.counts
    old = -np.int64(light.places[slot])
    if old > 0:
        for c in range(COLD_WIDTH):
            light.cold[old, c] = 0.0
        light.cold[old, 0] = counts[TALLY.freed] >> 16
        light.cold[old, 1] = counts[TALLY.freed] & 65535
        counts[TALLY.freed] = old
    counts[TALLY.warm] += 1
    light.places[slot] = counts[TALLY.warm]
    return counts[TALLY.warm]


@inner
def cold_place(light, small, slot):
    """A place among the cold features."""
    counts = small.counts
    place = counts[TALLY.freed]
    if place > 0:
        counts[TALLY.freed] = (np.int64(light.cold[place, 0]) << 16) + np.int64(light.cold[place, 1])
    else:
        counts[TALLY.cold] += 1
        place = counts[TALLY.cold]
    light.places[slot] = -place
    return -place


@inlined
def keep_cold(cold, place, rows, j):
    """Write a light row in float32, within its limits; what is more than 0 stays so."""
    most, least, none = spread(COLD_LIMIT, 4), spread(LEAST_COLD, 4), spread(0.0, 4)
    for c in (0, 4, 8, COLD_WIDTH - 4):
        numbers = load(rows, j * WIDTH + c, 4)
        numbers = where_less(most, numbers, most, numbers)
        numbers = where_less(numbers, spread(-COLD_LIMIT, 4), spread(-COLD_LIMIT, 4), numbers)
        if c >= LIGHT.energy:
            numbers = where_less(none, numbers, where_less(numbers, least, least, numbers), none)
        store(cold, place * COLD_WIDTH + c, numbers)


@inner
def keep(settings, light, small, slots, values, low, high, constant, unit, rows, places):
    """Write the rows of the round back, each where it belongs from now on."""
    for i in range(low, high):
        j = i - low
        place = places[j]
        if place <= 0:
            if due(settings, slots[i], constant, rows[j, LIGHT.met], abs(values[i]), unit):
                place = warm_place(light, small, slots[i])
            elif place == 0:
                place = cold_place(light, small, slots[i])
            places[j] = place
        if place > 0:
            copy_row(rows, j, light.rows, place)
        else:
            keep_cold(light.cold, -place, rows, j)


@inner
def read_row(rows, values, low, high, regime, common, x, margins, before, figures):
    """Scale the values and gather the margins' light parts.

    ``margins`` are in the scales with this row, ``before`` in those without it: what was known when the row came.
    """
    own_square = 0.0
    common_square = 0.0
    logs = 0.0
    squared_logs = 0.0
    shifted = 0.0
    first = spread(0.0, 4)
    second = spread(0.0, 4)
    first_shift = spread(0.0, 4)
    second_shift = spread(0.0, 4)
    for i in range(low, high):
        j = i - low
        start = j * WIDTH
        v = values[i]
        count = element(rows, start + LIGHT.met)
        mean = element(rows, start + LIGHT.mean)
        mean += (abs(v) - mean) / (count + 1.0)
        before_scale = element(rows, start + LIGHT.scale)
        scale = followed(before_scale, mean)
        log = element(rows, start + LIGHT.log)
        own = v / scale
        wide = v * common
        own_square += own * own
        common_square += wide * wide
        x[SHIFT, j] = 0.0
        if scale != before_scale:
            log = math.log(scale)
            if count > 0.0 and regime != ALIKE:
                shifted = 1.0
                x[SHIFT, j] = v / before_scale - own
        logs += log
        squared_logs += log * log
        sketched, wide = seen_by(regime, own, wide)
        x[OWN, j] = sketched
        x[WIDE, j] = wide
        x[MEANS, j] = mean
        x[SCALES, j] = scale
        x[LOGS_OF, j] = log
        weights = load(rows, start, 4)
        others = load(rows, start + 4, 4)
        first = fma(spread(sketched, 4), weights, first)
        second = fma(spread(wide, 4), others, second)
        if x[SHIFT, j] != 0.0:
            by = spread(x[SHIFT, j], 4)
            first_shift = fma(by, weights, first_shift)
            if regime == APART:
                second_shift = fma(by, others, second_shift)
    store(margins, 0, first)
    store(margins, 4, second)
    store(before, 0, plus(first, first_shift))
    store(before, 4, plus(second, second_shift))
    figures[OWN_SQUARE] = own_square
    figures[COMMON_SQUARE] = common_square
    figures[LOG_SUM] = logs
    figures[LOG_SQUARES] = squared_logs
    figures[SHIFTED] = shifted


@inner
def measure_row(rows, n, constant, x, gains, first, prior, thin, by, energies, lengths):
    """Fill the lengths Σ x²·by of the diagonal experts, and the factors and energies to be written."""
    squared = load(gains, 0, 4)
    total = spread(0.0, 4)
    for j in range(n):
        value = lanes_of(x[OWN, j], x[WIDE, j])
        energy, factor = next_energies(rows, j, value, squared, first, prior, thin)
        store(energies, 4 * j, energy)
        store(by, 4 * j, factor)
        total = fma(product(value, value), factor, total)
    if constant >= 0:
        energy, factor = next_energies(rows, n, spread(1.0, 4), squared, first, prior, thin)
        store(energies, 4 * n, energy)
        store(by, 4 * n, factor)
        total = plus(total, factor)
    store(lengths, 0, total)


@inner
def write_row(rows, n, constant, size, x, moves, by, energies, steps, shrinking, thin):
    """Write a round into its light rows: scales, and all experts' steps; the constant is of this ``size`` to the first
    three experts.

    The diagonal experts' weights are read before the others' are written, with which they share a lane: a vector that
    is read while one that it overlaps is being written waits for it.
    """
    change = load(moves, 0, 4)
    along = load(steps, 0, 4)
    for j in range(n):
        start = j * WIDTH
        weights = load(rows, start + OWN_ADAGRAD, 4)
        store(rows, start, fma(spread(x[OWN, j], 4), change, load(rows, start, 4)))
        value = lanes_of(x[OWN, j], x[WIDE, j])
        write_diagonal(rows, j, weights, value, load(by, 4 * j, 4), load(energies, 4 * j, 4), along, shrinking, thin)
        rows[j, LIGHT.log] = x[LOGS_OF, j]
        rows[j, LIGHT.scale] = x[SCALES, j]
        rows[j, LIGHT.mean] = x[MEANS, j]
        rows[j, LIGHT.met] += 1.0
    if constant >= 0:
        start = n * WIDTH
        weights = load(rows, start + OWN_ADAGRAD, 4)
        store(rows, start, fma(spread(size, 4), change, load(rows, start, 4)))
        one = spread(1.0, 4)
        write_diagonal(rows, n, weights, one, load(by, 4 * n, 4), load(energies, 4 * n, 4), along, shrinking, thin)
        rows[n, LIGHT.scale] = 1.0
        rows[n, LIGHT.met] += 1.0
