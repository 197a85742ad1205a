"""The passes of a round over the light rows of its example: read, measure, write."""

from __future__ import annotations

import math

from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import element, fma, load, plus, product, spread, store
from onsketch.learners.auto.diagonal import lanes_of, next_energies, write_diagonal
from onsketch.learners.auto.scaling import ALIKE, APART, followed
from onsketch.learners.auto.state import LIGHT, WIDTH

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


@inner
def read_row(rows, slots, values, low, high, regime, common, x, margins, before, figures):
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
        slot = slots[i]
        start = slot * WIDTH
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
def measure_row(rows, slots, low, high, constant, x, gains, first, prior, thin, by, energies, lengths):
    """Fill the lengths Σ x²·by of the diagonal experts, and the factors and energies to be written."""
    squared = load(gains, 0, 4)
    total = spread(0.0, 4)
    for i in range(low, high):
        j = i - low
        value = lanes_of(x[OWN, j], x[WIDE, j])
        energy, factor = next_energies(rows, slots[i], value, squared, first, prior, thin)
        store(energies, 4 * j, energy)
        store(by, 4 * j, factor)
        total = fma(product(value, value), factor, total)
    if constant >= 0:
        energy, factor = next_energies(rows, constant, spread(1.0, 4), squared, first, prior, thin)
        store(energies, 4 * (high - low), energy)
        store(by, 4 * (high - low), factor)
        total = plus(total, factor)
    store(lengths, 0, total)


@inner
def write_row(rows, slots, low, high, constant, size, x, moves, by, energies, steps, shrinking, thin):
    """Write a round into the light rows: scales, and all experts' steps; the constant is of this ``size`` to the first
    three experts.
    """
    change = load(moves, 0, 4)
    along = load(steps, 0, 4)
    for i in range(low, high):
        j = i - low
        slot = slots[i]
        start = slot * WIDTH
        store(rows, start, fma(spread(x[OWN, j], 4), change, load(rows, start, 4)))
        value = lanes_of(x[OWN, j], x[WIDE, j])
        write_diagonal(rows, slot, value, load(by, 4 * j, 4), load(energies, 4 * j, 4), along, shrinking, thin)
        rows[slot, LIGHT.log] = x[LOGS_OF, j]
        rows[slot, LIGHT.scale] = x[SCALES, j]
        rows[slot, LIGHT.mean] = x[MEANS, j]
        rows[slot, LIGHT.met] += 1.0
    if constant >= 0:
        j = high - low
        start = constant * WIDTH
        store(rows, start, fma(spread(size, 4), change, load(rows, start, 4)))
        one = spread(1.0, 4)
        write_diagonal(rows, constant, one, load(by, 4 * j, 4), load(energies, 4 * j, 4), along, shrinking, thin)
        rows[constant, LIGHT.scale] = 1.0
        rows[constant, LIGHT.met] += 1.0
