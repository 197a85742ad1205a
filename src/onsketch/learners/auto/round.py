"""A round of the tuning-free learner: scale the row, predict with every expert, mix, and let every expert step.

Per non-zero a round reads and writes one packed row; the rest is small algebra of the sketch's size. Nothing is written
before it is known to be finite, so a refused row leaves no trace.
"""

from __future__ import annotations

import math

import numpy as np

from onsketch.core import losses
from onsketch.jit.decorators import inlined, inner, kernel
from onsketch.learners.auto.directions import append, rebuild, shrink
from onsketch.learners.auto.experts import TINY, adagrad_steps, label_unit, newton_steps
from onsketch.learners.auto.mixing import EXPERTS, combine, set_shares
from onsketch.learners.auto.scaling import constant_scale, followed, next_mean, next_scale
from onsketch.learners.auto.state import (
    CONSTANT,
    COUNT,
    FADE,
    FIRST,
    HEADS,
    HIGH,
    LABEL,
    LENGTH,
    LOW,
    MEAN,
    NORM,
    ROWS,
    SCALE,
    THIN,
    WEIGHT,
)
from onsketch.learners.features import INTERCEPT
from onsketch.learners.sketched.epochs import bring_up_to_date, close_epoch
from onsketch.learners.sketched.packed import CLOCK, COLUMN
from onsketch.learners.sketched.passes import gather

LEAST_FADE, LEAST_THIN = 0.5, 1e-12
"""Forgetting is written down when so little is left."""


@inlined
def margins_of(small, p, extra, margins):
    """Every expert's margin from the gathered row."""
    for k in range(2):
        margins[k] = p[HEADS[k]]
        for i in range(small.counts[ROWS]):
            margins[k] += small.a[k, i] * p[COLUMN.sketch + i]
        margins[2 + k] = p[extra + FIRST + 2 * k]


@inner
def bounds(settings, small):
    """What predictions are kept within."""
    if settings.ranged:
        if small.numbers[LOW] > small.numbers[HIGH]:
            return 0.0, 0.0
        return small.numbers[LOW], small.numbers[HIGH]
    return -settings.clip, settings.clip


@inner
def wake(table, slots, low, high, out):
    """Bring the features of a row up to date, entering new ones; returns the number of features seen before."""
    known = table.clock[CLOCK.seen]
    epoch = table.clock[CLOCK.epoch]
    for j in range(low, high):
        slot = slots[j]
        if slot >= table.clock[CLOCK.seen]:
            table.rows[slot, COLUMN.epoch] = epoch
            table.clock[CLOCK.seen] = slot + 1
        elif table.rows[slot, COLUMN.epoch] < epoch:
            bring_up_to_date(table.rows, slot, epoch, table.running, table.past, table.places, out)
    return known


@inner
def scale_row(settings, table, small, slots, values, low, high, x, scales):
    """Fill x and the scales it is measured in; returns its squared length without the constant, and the unit's square.

    Until features have been seen, the first row is the typical one.
    """
    extra = COLUMN.sketch + settings.capacity
    square = 0.0
    for j in range(low, high):
        if slots[j] != small.counts[CONSTANT]:
            scales[j] = next_scale(table.rows[slots[j]], extra, values[j])
            x[j] = values[j] / scales[j]
            square += x[j] * x[j]
    norm = small.numbers[NORM] if small.numbers[NORM] > 0.0 else (square if square > 0.0 else 1.0)
    for j in range(low, high):
        if slots[j] == small.counts[CONSTANT]:
            scales[j] = constant_scale(norm)
            x[j] = values[j] / scales[j]
    return square, norm


@inner
def within(settings, prediction, rho, length, scales, margins, moves, gradients, steps):
    """Whether all that a round is about to write is finite and far from the limits of its type."""
    reach = max(rho, abs(prediction))
    steep = 0.0
    for k in range(2):
        reach = max(reach, abs(moves[k]), abs(steps[k]))
        steep = max(steep, abs(gradients[k]))
    for k in range(EXPERTS):
        if not abs(margins[k]) <= settings.largest:
            return False
    for j in range(scales.size):
        if not scales[j] <= settings.largest:
            return False
    long = math.sqrt(1.0 + length)
    return reach * long <= settings.largest and steep * long <= settings.steepest


@inner
def write_row(settings, table, small, slots, values, x, scales, low, high, moves, rho, gradients, steps):
    """Write a round into the packed rows: scales, heads, AdaGrad's weights and energies, and the new sketch row."""
    rows = table.rows
    clock = table.clock
    epoch = clock[CLOCK.epoch]
    extra = COLUMN.sketch + settings.capacity
    column = COLUMN.sketch + small.counts[ROWS]
    thin = small.numbers[THIN]
    for j in range(low, high):
        row = rows[slots[j]]
        v = x[j]
        row[SCALE] = scales[j]
        row[extra + MEAN] = next_mean(row, extra, values[j])
        row[extra + COUNT] += 1.0
        for k in range(2):
            row[HEADS[k]] += moves[k] * v
            at = extra + FIRST + 2 * k
            if gradients[k] != 0.0:
                energy = row[at + 1] + (gradients[k] * v) * (gradients[k] * v) / thin
                row[at + 1] = energy
                row[at] -= steps[k] * v / math.sqrt(energy * thin + TINY)
        if rho != 0.0:
            row[column] = rho * v
            if row[COLUMN.epoch] == epoch:
                row[COLUMN.epoch] = epoch + 0.5  # listed; a whole number means: nothing in the buffer
                table.touched[clock[CLOCK.touched]] = slots[j]
                clock[CLOCK.touched] += 1


@inner
def count_row(settings, small, margins, y, weight, square, rounds):
    """Take a learned row into the running figures: losses, shares, labels, lengths, forgetting."""
    numbers = small.numbers
    low, high = bounds(settings, small)
    for k in range(EXPERTS):
        loss = losses.value(settings.loss, min(max(margins[k], low), high), y)
        small.sums[k] = settings.forget * small.sums[k] + weight * min(loss, 1e300)
    numbers[WEIGHT] = settings.forget * numbers[WEIGHT] + weight
    set_shares(settings.loss, settings.rate, small.sums, numbers[WEIGHT], small.shares)
    numbers[LABEL] += (abs(y) - numbers[LABEL]) / rounds
    numbers[LOW] = min(numbers[LOW], y)
    numbers[HIGH] = max(numbers[HIGH], y)
    numbers[LENGTH] += (square - numbers[LENGTH]) / rounds
    if numbers[LENGTH] > 0.0 and followed(numbers[NORM], numbers[LENGTH]) != numbers[NORM]:
        numbers[NORM] = numbers[LENGTH]
        rebuild(settings, small)
    numbers[FADE] *= settings.forget
    numbers[THIN] *= settings.forget


@inner
def write_thin(settings, table, small):
    """Write forgetting into AdaGrad's energies."""
    for slot in range(table.clock[CLOCK.seen]):
        for k in range(2):
            table.rows[slot, COLUMN.sketch + settings.capacity + FIRST + 2 * k + 1] *= small.numbers[THIN]
    small.numbers[THIN] = 1.0


@kernel
def learn_rows(settings, table, small, indptr, slots, values, labels, weights, predictions):
    """Play the rounds of a block. Returns the number of rows learned: fewer than given when one is refused."""
    rows = table.rows
    kept = table.running.shape[1]
    extra = COLUMN.sketch + settings.capacity
    p = np.empty(rows.shape[1])
    out = np.empty(table.running.shape[2])
    q = np.zeros((2, settings.capacity))
    margins = np.zeros(EXPERTS)
    moves, gradients, steps = np.zeros(2), np.zeros(2), np.zeros(2)
    x, old, scales = np.empty(values.size), np.empty(values.size), np.empty(values.size)
    numbers = small.numbers
    for i in range(indptr.size - 1):
        low, high, y, weight = indptr[i], indptr[i + 1], labels[i], weights[i]
        known = wake(table, slots, low, high, out)
        if high > low and table.features[slots[high - 1]] == INTERCEPT:
            small.counts[CONSTANT] = slots[high - 1]
        square, norm = scale_row(settings, table, small, slots, values, low, high, x, scales)
        leaps = False
        for j in range(low, high):
            scale = rows[slots[j], SCALE]
            leaps = leaps or scale != scales[j]
            old[j] = values[j] / scale if scale > 0.0 else 0.0
        bottom, top = bounds(settings, small)
        length = gather(rows, slots, old, low, high, rows.shape[1], p)
        margins_of(small, p, extra, margins)
        prediction = combine(margins, small.shares, bottom, top)
        if leaps:
            length = gather(rows, slots, x, low, high, rows.shape[1], p)
            margins_of(small, p, extra, margins)
        if numbers[NORM] == 0.0:
            numbers[NORM] = norm
        rounds = table.clock[CLOCK.rounds] + 1
        unit = label_unit(settings, small, y, rounds)
        rho = newton_steps(settings, small, p, length, margins, y, weight, unit, moves, q)
        adagrad_steps(settings, table, small, slots, x, low, high, norm, margins, y, weight, unit, gradients, steps)
        if not within(settings, prediction, rho, length, scales[low:high], margins, moves, gradients, steps):
            for slot in range(known, table.clock[CLOCK.seen]):
                rows[slot, COLUMN.epoch] = 0.0
            table.clock[CLOCK.seen] = known
            if rounds == 1:
                numbers[NORM] = 0.0
                small.counts[CONSTANT] = -1
            return i
        predictions[i] = prediction
        write_row(settings, table, small, slots, values, x, scales, low, high, moves, rho, gradients, steps)
        for k in range(2):
            for r in range(small.counts[ROWS]):
                small.a[k, r] -= moves[k] * q[k, r]
        if rho != 0.0:
            append(settings, small, p, COLUMN.sketch, length, rho, q)
        table.clock[CLOCK.rounds] = rounds
        count_row(settings, small, margins, y, weight, square, rounds)
        if small.counts[ROWS] == settings.capacity or numbers[FADE] < LEAST_FADE:
            n = small.counts[ROWS]
            shrink(settings, small)
            close_epoch(table, small.transform, max(n, kept), kept)
        if numbers[THIN] < LEAST_THIN:
            write_thin(settings, table, small)
    return indptr.size - 1
