"""The rounds on wide rows, such as text: four first-order experts and no metric.

====  =================================  ==========================================
0     AdaGrad, step 3                    rows of unit length
1     AdaGrad, step 2                    rows times rarity (idf), of unit length
2     implicit step of constant size     rows of unit length
3     AdaGrad, step 3                    scaled rows
====  =================================  ==========================================

Expert 2 takes steps of one size in all directions, so that the values themselves say how much a word counts. Cost: a
few numbers for each pair of a feature of the row and a class that it has met, and O(K) for the probabilities.
"""

from __future__ import annotations

import math

from onsketch.core.softmax import LONGEST, implicit_slopes
from onsketch.jit.decorators import exact, exact_kernel
from onsketch.learners.auto.pool import all_within, clear_nan, combine, teach
from onsketch.learners.multiclass.softmax.adagrad import SILENT, TINY, energy_after, slopes_of, weigh
from onsketch.learners.multiclass.softmax.pairs import EXPERTS, add_margins, add_to, missing, needed
from onsketch.learners.multiclass.softmax.scaling import (
    UNIT_CONSTANT,
    common_scale,
    keep_figures,
    rarity,
    update_figures,
)
from onsketch.learners.multiclass.softmax.state import FIGURE, RUNNING, STOP, TALLY

STEPS = (3.0, 2.0, 100.0, 3.0)
PROX = 2
"""The expert of constant steps."""
COLUMNS = (0, 1, -1, 2)
"""Where the energies of each expert are."""
REACH = 20.0
"""Classes whose margin is lower than the label's by more than this do not move the constant-step expert."""


@exact
def _row(common, slots, values, low, high, unseen, fresh, scale, learning, places, x):
    """Fill places and the four experts' rows (without the constant); returns Σx² of the scaled row."""
    square = unseen / scale / scale
    rare = rarity(common, 0.0, learning)
    weighted = square * rare * rare
    for j in range(low, high):
        i = j - low
        v = values[j] / scale
        u = v * rarity(common, fresh[i, FIGURE.values], learning)
        places[i] = slots[j] + 1
        x[i, 3] = v
        x[i, 1] = u
        square += v * v
        weighted += u * u
    unit = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
    other = 1.0 / math.sqrt(weighted) if weighted > 0.0 else 0.0
    for i in range(high - low):
        x[i, 0] = x[i, 3] * unit
        x[i, 1] *= other
        x[i, 2] = x[i, 0]
    return square


@exact
def _constant(intercept, norm, count, places, x):
    """Enter the constant feature as the last of a row; returns the number of entries."""
    if not intercept:
        return count
    places[count] = 0
    for e in range(EXPERTS - 1):
        x[count, e] = UNIT_CONSTANT
    x[count, EXPERTS - 1] = math.sqrt(norm if norm > 0.0 else 1.0)
    return count + 1


@exact
def _margins(table, places, x, count, classes, z, by_class):
    """Fill the margins of the experts, (EXPERTS, K)."""
    for k in range(classes):
        for e in range(EXPERTS):
            by_class[k, e] = 0.0
    for j in range(count):
        add_margins(table, places[j], x[j], by_class)
    for k in range(classes):
        for e in range(EXPERTS):
            z[e, k] = by_class[k, e]


@exact
def _constant_step(z, y, classes, h, x, count, tau, slopes):
    """The slopes of the implicit step of constant size, weight included."""
    length = 0.0
    for j in range(count):
        length += x[j, PROX] * x[j, PROX]
    length *= STEPS[PROX]
    lowest = z[y] - REACH - math.log(max(h, 1.0))
    for k in range(classes):
        tau[k] = length if z[k] > lowest else 0.0
    h = min(h, LONGEST / max(length, TINY))
    implicit_slopes(z, y, tau, h, classes, slopes)
    for k in range(classes):
        slopes[k] = h * slopes[k] if abs(slopes[k]) > SILENT else 0.0


@exact
def _adagrad_slopes(table, z, e, y, classes, h, step, places, x, count, tau, slopes):
    """The slopes of an AdaGrad expert, weight included; returns h·Σg², which its energies take in."""
    more = h * slopes_of(z, y, classes, slopes)
    length = 0.0
    if h > 1.0:
        for j in range(count):
            v = x[j, e]
            energy = energy_after(table.energies[places[j], COLUMNS[e]], v, more)
            length += step * v * v / math.sqrt(energy + TINY)
    weigh(z, y, classes, h, length, tau, slopes)
    return more


@exact
def _moves(table, scratch, places, x, count, norm, y, classes, h, moves, gains, active, listed):
    """Fill what each class is told by each expert, (K, EXPERTS); returns how many are told anything."""
    for e in range(EXPERTS):
        z, slopes = scratch.z[e], scratch.slopes
        if e == PROX:
            _constant_step(z, y, classes, h, x, count, scratch.tau, slopes)
        else:
            step = STEPS[e] / (math.sqrt(norm) if e == EXPERTS - 1 else 1.0)
            gains[e] = _adagrad_slopes(table, z, e, y, classes, h, step, places, x, count, scratch.tau, slopes)
            gains[EXPERTS + e] = step
        for k in range(classes):
            moves[k, e] = slopes[k]
    told = 0
    for k in range(classes):
        if moves[k, 0] != 0.0 or moves[k, 1] != 0.0 or moves[k, 2] != 0.0 or moves[k, 3] != 0.0:
            active[k] = 1
            listed[told] = k
            told += 1
    return told


@exact
def _write(table, places, x, count, moves, gains, active, listed, told, lacking, paces):
    """Write a step into the lists, and clear the marks."""
    for j in range(count):
        place = places[j]
        for e in range(EXPERTS):
            v = x[j, e]
            if e == PROX:
                paces[e] = STEPS[e] * v
            elif v != 0.0:
                energy = energy_after(table.energies[place, COLUMNS[e]], v, gains[e])
                table.energies[place, COLUMNS[e]] = energy
                paces[e] = gains[EXPERTS + e] * v / math.sqrt(energy + TINY)
            else:
                paces[e] = 0.0
        add_to(table, place, paces, moves, active, listed, told, lacking[j])
    for c in range(told):
        active[listed[c]] = 0


@exact_kernel
def learn_wide(
    common, table, pool, scratch, row, lists, intercept, largest, indptr, slots, values, labels, weights, out
):
    """Learn rows; returns how many, fewer than given when one is refused or the arena is full.

    ``row`` is room for one: (figures, places, x, lacking); ``lists`` for K classes: (by_class, moves, gains, active,
    listed, paces).
    """
    fresh, places, x, lacking = row
    by_class, moves, gains, active, listed, paces = lists
    classes = common.tally[TALLY.classes]
    for i in range(indptr.size - 1):
        low, high, y, h = indptr[i], indptr[i + 1], labels[i], weights[i]
        rows = common.tally[TALLY.rounds] + 1.0
        common.tally[TALLY.why] = STOP.refused  # unless it turns out to be fine
        if not update_figures(common, slots, values, low, high, True, fresh):
            return i
        scale = common_scale(common, fresh, high - low, True, paces)
        mean_log, logs = paces[0], paces[1]
        square = _row(common, slots, values, low, high, 0.0, fresh, scale, True, places, x)
        norm = common.running[RUNNING.norm] + (square - common.running[RUNNING.norm]) / rows
        count = _constant(intercept, norm, high - low, places, x)
        _margins(table, places, x, count, classes, scratch.z, by_class)
        if not (square <= largest and all_within(scratch.z, EXPERTS, classes, largest)):
            return i
        told, room = 0, 0
        if norm > 0.0 and classes > 1 and h > 0.0:
            told = _moves(table, scratch, places, x, count, norm, y, classes, h, moves, gains, active, listed)
            for j in range(count):
                lacking[j] = missing(table, places[j], active, told)
                room += needed(table, places[j], lacking[j])
        if table.tail[0] + room > table.classes.size:
            for c in range(told):
                active[listed[c]] = 0
            common.tally[TALLY.why] = STOP.full
            return i
        combine(pool, scratch, classes, out[i])
        if h > 0.0:
            teach(pool, scratch, y, classes, h, common.tally[TALLY.rounds])
        keep_figures(common, slots, low, high, fresh)
        common.running[RUNNING.norm] = norm
        common.running[RUNNING.log_scale] = mean_log
        common.running[RUNNING.log_count] = logs
        common.tally[TALLY.nonzeros] += high - low
        if told > 0:
            _write(table, places, x, count, moves, gains, active, listed, told, lacking, paces)
        common.tally[TALLY.rounds] += 1
        common.tally[TALLY.why] = 0
    return indptr.size - 1


@exact_kernel
def predict_wide(common, table, pool, scratch, row, lists, intercept, indptr, slots, values, unseen, out):
    """Fill the log-probabilities of these rows; ``unseen`` is Σv² of each row's features not met before."""
    fresh, places, x, _ = row
    by_class, _, _, _, _, paces = lists
    classes = common.tally[TALLY.classes]
    for i in range(indptr.size - 1):
        low, high = indptr[i], indptr[i + 1]
        update_figures(common, slots, values, low, high, False, fresh)
        scale = common_scale(common, fresh, high - low, False, paces)
        _row(common, slots, values, low, high, unseen[i], fresh, scale, False, places, x)
        count = _constant(intercept, common.running[RUNNING.norm], high - low, places, x)
        _margins(table, places, x, count, classes, scratch.z, by_class)
        clear_nan(scratch.z, EXPERTS, classes)
        combine(pool, scratch, classes, out[i])
