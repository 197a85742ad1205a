"""A round of the tuning-free learner: scale the row, predict with every expert, mix, and let every expert step.

Per non-zero a round reads and writes a light row, and a heavy one where there is one; the rest is small algebra of the
sketch's size. Nothing is written before it is known to be finite, so a refused row leaves no trace.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onsketch.core.losses import POISSON, slope_unit
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inlined, inner, kernel
from onsketch.learners.auto.counting import (
    count_label,
    count_mixture,
    count_row,
    count_weight,
    forget_row,
    own_or_common,
    see_label,
    seen_label,
)
from onsketch.learners.auto.diagonal import FIRST_ENERGY, diagonal_lengths, expert_steps, slopes_of
from onsketch.learners.auto.directions import append, measure, shrink, sketched_lengths, worth_sketching
from onsketch.learners.auto.heavy import add_heads, close_buffer, list_heavy, shift_heads, sketch_products, write_heavy
from onsketch.learners.auto.mixing import EXPERTS, LANES
from onsketch.learners.auto.passes import (
    COMMON_SQUARE,
    OWN_SQUARE,
    SCALES,
    SHIFTED,
    fetch,
    keep,
    measure_row,
    read_row,
    write_row,
)
from onsketch.learners.auto.scaling import length_factor, next_regime
from onsketch.learners.auto.state import FIGURE, FIRST_ROW, LAPLACE, SKETCHED, TALLY, WIDTH, Light, Settings
from onsketch.learners.sketched.epochs import is_due
from onsketch.learners.sketched.packed import CLOCK, SCRATCH, Table

LEAST_FADE = 0.5
"""Forgetting is written into the sketch when so little is left."""


@inner
def first_look(small, values, low, high):
    """Before the first row nothing is known of scales: it is the typical one."""
    logs = 0.0
    squares = 0.0
    for i in range(low, high):
        log = math.log(abs(values[i]))
        logs += log
        squares += log * log
    n = max(high - low, 1)
    small.numbers[FIGURE.common] = logs / n
    small.counts[TALLY.regime] = next_regime(small.counts[TALLY.regime], squares / n - (logs / n) * (logs / n))


@inlined
def add_constant(rows, n, size, margins):
    """Add what the constant feature says, whose row is the n-th."""
    for k in range(EXPERTS):
        margins[k] += rows[n, k] * (size if k < SKETCHED else 1.0)


@inner
def within_bounds(settings, small, prediction):
    """The prediction as it is given: within the clip, or the labels seen, if that was asked for."""
    if settings.ranged:
        if small.numbers[FIGURE.low] > small.numbers[FIGURE.high]:
            return 0.0
        if settings.loss.code == POISSON:  # margins are logarithms; a rate has no least one but 0
            return min(prediction, math.log(max(small.numbers[FIGURE.high], 1.0)))
        return min(max(prediction, small.numbers[FIGURE.low]), small.numbers[FIGURE.high])
    return min(max(prediction, -settings.clip), settings.clip)


@inlined
def without_features(small):
    """What the mixture adds to the experts' margins: the centre of labels, and the stacked constant."""
    return small.numbers[FIGURE.centre] + small.numbers[FIGURE.unit] * small.mix[LANES - 1]


@inner
def mixed(small, margins):
    """The prediction: the experts' margins under the mixture's coefficients."""
    total = without_features(small)
    for k in range(EXPERTS):
        total += small.mix[k] * margins[k]
    return total


@inner
def finite(settings, small, rho, length, margins, moves, steps, gains, scales, n):
    """Whether all that a round is about to write is finite and far from the limits of its type."""
    reach = rho
    steep = 0.0
    for k in range(4):
        reach = max(reach, abs(moves[k]) if k < SKETCHED else 0.0, abs(steps[k]))
        steep = max(steep, gains[k])
    for k in range(EXPERTS):
        if not abs(margins[k]) <= settings.largest:
            return False
    for j in range(n):
        if not scales[j] <= settings.largest:
            return False
    long = math.sqrt(1.0 + length)
    return reach * long <= settings.largest and math.sqrt(steep) * long <= settings.steepest


def new_working_room(settings: Settings, light: Light, table: Table, longest: int) -> tuple[Any, ...]:
    """Arrays in which rounds are played, of rows with so many entries; nothing in them outlives a round."""
    n, widest = longest + 1, max(FIRST_ROW + settings.capacity, table.rows.shape[1])
    by_length = (
        np.zeros((6, n)),
        *(np.zeros(4 * n) for _ in range(2)),
        np.zeros((n, WIDTH)),
        *(np.zeros(n, np.int64) for _ in range(4)),
        *(np.zeros(n) for _ in range(2)),
    )
    of_experts = (
        *(np.zeros(widest) for _ in range(2)),
        np.zeros(light.buffer.shape[1]),
        np.zeros((3, settings.capacity)),
        *(np.zeros(LANES) for _ in range(2)),
        *(np.zeros(4) for _ in range(4)),
    )
    of_row = (*(np.zeros(LANES) for _ in range(5)), np.zeros(5), np.zeros(3), np.zeros((7, 2 * LANES)))
    return by_length, of_experts, of_row


# Above the limit of complexity: the order of a round's parts is what there is to see, and it is one list.
@kernel
def learn_rows(settings, light, table, small, room, indptr, slots, values, labels, weights, predictions):  # noqa: C901
    """Play the rounds of a block. Returns the number of rows learned: fewer than given when one is refused, or when the
    tables or ``room`` have no room for one (counts[TALLY.full] is then 1).
    """
    by_length, of_experts, of_row = room
    x, by, energies, rows, found, places, moved, listed, along, beside = by_length
    p, shifts, buffered, q, margins, before, moves, steps, gains, squares = of_experts
    lengths, stepping, explicit, slopes, bends, figures, label, work = of_row
    out = table.work[SCRATCH.moved]
    counts, numbers = small.counts, small.numbers
    kept = max(settings.size - 1, 0)
    counts[TALLY.full] = 0
    for i in range(indptr.size - 1):
        low, high, y, weight = indptr[i], indptr[i + 1], labels[i], weights[i]
        constant = int(slots[high - 1]) if settings.intercept else -1
        known_unit = numbers[FIGURE.unit]
        if high - low >= found.size or not fetch(
            settings, light, small, table, slots, values, low, high, constant, known_unit, rows, found
        ):
            counts[TALLY.full] = 1
            return i
        newest = counts[TALLY.seen]
        for j in range(low, high):
            newest = max(newest, slots[j] + 1)
        if settings.intercept:
            high -= 1
        n = high - low
        rounds = table.clock[CLOCK.rounds] + 1
        if rounds == 1:
            first_look(small, values, low, high)
        regime = counts[TALLY.regime]
        read_row(rows, values, low, high, regime, math.exp(-numbers[FIGURE.common]), x, margins, before, figures)
        margins[EXPERTS] = before[EXPERTS] = 0.0
        sketched, wide = own_or_common(regime, figures[OWN_SQUARE], figures[COMMON_SQUARE])
        if numbers[FIGURE.norm] == 0.0:
            numbers[FIGURE.norm] = sketched if sketched > 0.0 else 1.0
            numbers[FIGURE.wide_norm] = wide if wide > 0.0 else 1.0
        size = math.sqrt(numbers[FIGURE.norm])
        have, square = list_heavy(
            settings, table, slots, values, low, n, constant, x, size, known_unit, rows, found, places, along, out
        )
        columns = FIRST_ROW + counts[TALLY.rows]
        sketch_products(light, small, table, places, along, have, kept, listed, beside, buffered, p)
        if constant >= 0:
            add_constant(rows, n, size, margins)
            add_constant(rows, n, size, before)
        add_heads(small, p, margins)
        if figures[SHIFTED] > 0.0 and settings.size >= 2:
            shift_heads(light, small, table, found, n, x, kept, moved, by, listed, beside, buffered, p, shifts)
            add_heads(small, shifts, before)
        else:
            add_heads(small, p, before)
        prediction = within_bounds(settings, small, mixed(small, before)) if rounds > 1 else 0.0
        # the row times f is what is learned: margins, Sx and lengths are those of it, x and along are without f
        norm = numbers[FIGURE.norm]
        f = length_factor(settings.signs, sketched, norm)
        for k in range(EXPERTS):
            margins[k] *= f
        for c in range(columns):
            p[c] *= f
        length = f * f * (sketched + (norm if constant >= 0 else 0.0))
        see_label(settings, small, y, rounds, label)
        unit = label[2]
        target, weight = seen_label(settings, y, weight, label[0])
        # the absolute and the quantile loss have slopes of size 1 whatever the labels' unit: steps are taken in it
        pace = weight * unit if settings.loss.degree == 1 else weight
        leverage = sketched_lengths(settings, small, p, length, pace, lengths, stepping, q)
        slopes_of(settings, margins, target, weight, explicit, gains)
        thin = numbers[FIGURE.thin]
        steep = slope_unit(settings.loss, unit)
        first = FIRST_ENERGY * f * f * (steep * steep) / thin
        for k in range(4):
            gains[k] *= f * f / thin
        measure_row(rows, n, constant, x, gains, first,
                    1.0 / (settings.precision * numbers[FIGURE.wide_norm]), thin, by, energies, squares)  # fmt: skip
        for k in range(4):
            squares[k] *= f * f
        diagonal_lengths(settings, small, weight, unit, squares, lengths, stepping)
        expert_steps(settings, margins, target, lengths, explicit, slopes, bends)
        rho, credit = worth_sketching(settings, small, weight, bends, leverage)
        bend = weight * bends[LAPLACE]
        shrinking = f * f * bend / (1.0 + bend * squares[LAPLACE - SKETCHED])
        for k in range(EXPERTS):
            stepping[k] *= f * slopes[k]
        for k in range(4):
            moves[k] = -stepping[k] if k < SKETCHED else 0.0
            steps[k] = stepping[SKETCHED + k]
        far = max(length, wide)
        if not (finite(settings, small, rho, far, margins, moves, steps, gains, x[SCALES], n)
                and abs(prediction) <= settings.largest):  # fmt: skip
            counts[TALLY.full] = 0
            if rounds == 1:
                numbers[FIGURE.norm] = numbers[FIGURE.wide_norm] = numbers[FIGURE.common] = 0.0
                counts[TALLY.regime] = 0
            return i
        predictions[i] = prediction
        counts[TALLY.seen] = newest
        counts[TALLY.constant] = constant
        write_row(rows, n, constant, size, x, moves, by, energies, steps, shrinking, thin)
        keep(settings, light, small, slots, values, low, indptr[i + 1], constant, known_unit, rows, found)
        numbers[FIGURE.credit] = credit
        if settings.size < 2:
            numbers[FIGURE.escaped] += rho * rho * length
            rho = 0.0
        write_heavy(settings, light, small, table, found, n, constant, x, size, f * rho, kept)
        for k in range(SKETCHED):
            for r in range(counts[TALLY.rows]):
                small.a[k, r] -= moves[k] / f * q[k, r]
        if rho != 0.0:
            append(settings, small, p, f * f * square, rho, q)
        table.clock[CLOCK.rounds] = rounds
        counted = weight * count_weight(settings, small, weights[i])
        count_mixture(
            settings, small, margins, target, counted, unit, label, rounds, f if settings.intercept else 0.0, work
        )
        count_label(settings, light, small, y, label, constant, size)
        count_row(settings, small, figures, n, rounds)
        if settings.forget < 1.0:
            forget_row(settings, light, small)
        if settings.size >= 2 and (counts[TALLY.rows] == settings.capacity or numbers[FIGURE.fade] < LEAST_FADE):
            shrink(settings, small)
            close_buffer(light, small, table, kept)
        elif numbers[FIGURE.fade] < LEAST_FADE:
            numbers[FIGURE.escaped] *= numbers[FIGURE.fade]
            numbers[FIGURE.fade] = 1.0
        if settings.resolution > CUTOFF and settings.size >= 2 and is_due(table, have):
            measure(settings, small, light, table)
    return indptr.size - 1
