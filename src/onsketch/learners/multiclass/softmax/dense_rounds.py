"""The rounds on rows that are dense, or of few features: two Newton experts and two of AdaGrad, three of them averaged.

Averages weigh row t as t³ and are kept as sums: with U += Ω_{t−1}·ΔW and Ω = Σt³ the average is W − U/Ω, so that only
the features of a row are touched.
"""

from __future__ import annotations

import math

from onsketch.jit.decorators import exact, exact_inlined, exact_kernel
from onsketch.learners.auto.pool import all_within, clear_nan, combine, teach
from onsketch.learners.multiclass.softmax.adagrad import dense_step
from onsketch.learners.multiclass.softmax.directions import follow_norm, sketch_step
from onsketch.learners.multiclass.softmax.metrics import metric_step
from onsketch.learners.multiclass.softmax.scaling import UNIT_CONSTANT, centred_row, keep_figures, update_figures
from onsketch.learners.multiclass.softmax.state import AVERAGE, NEWTON, OUTPUTS, RUNNING, SCALED, STOP, TALLY, UNIT
from onsketch.learners.multiclass.softmax.ways import outgrown

PACE = 2.0
"""Step of AdaGrad."""
OLDEST = 1e7
"""From this row on, averages weigh all rows alike: sums stay within what float32 can hold."""


@exact_inlined
def _gather(table, scratch, places, x, count, n):
    """Fill the margins that a row has with the weights as they stand, and its products with the sketch's n rows."""
    z, room = scratch.z, table.alphas.size
    for o in range(OUTPUTS):
        for k in range(room):
            z[o, k] = 0.0
    for i in range(n):
        scratch.products[i] = 0.0
    for j in range(count):
        v = x[j]
        if v != 0.0:
            w = table.weights[places[j]]
            for o in range(OUTPUTS):
                for k in range(room):
                    z[o, k] += w[o * room + k] * v
            s = table.sketch[places[j]]
            for i in range(n):
                scratch.products[i] += s[i] * v


@exact_inlined
def _add_coefficients(table, scratch, classes, n):
    """What the sketch's rows have of Newton's experts and of their averages."""
    for b in range(2 * NEWTON):
        o = b if b < NEWTON else AVERAGE + b - NEWTON
        for i in range(n):
            for k in range(classes):
                scratch.z[o, k] += table.coefficients[i, b, k] * scratch.products[i]


@exact
def _margins(common, table, scratch, places, x, count, constant, square):
    """Fill the margins of all outputs for a scaled row; in place 0 of row and table is the constant feature."""
    z, room, classes = scratch.z, table.alphas.size, common.tally[TALLY.classes]
    n = common.tally[TALLY.sketched]
    _gather(table, scratch, places, x, count, n)
    factor = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
    for o in range(OUTPUTS):
        for k in range(classes):
            if o == UNIT:
                z[o, k] *= factor
            if constant > 0.0:
                z[o, k] += table.weights[0, o * room + k] * (UNIT_CONSTANT if o == UNIT else constant)
    for i in range(n):
        scratch.products[i] += table.sketch[0, i] * constant
    _add_coefficients(table, scratch, classes, n)
    omega = common.running[RUNNING.omega]
    for o in range(AVERAGE, OUTPUTS):
        for k in range(classes):
            z[o, k] = z[o - AVERAGE, k] - (z[o, k] / omega if omega > 0.0 else 0.0)
    return factor


@exact
def _step(common, table, pool, scratch, places, x, count, constant, square, factor, y, h):
    """Let the experts learn the row."""
    classes, omega, norm = common.tally[TALLY.classes], common.running[RUNNING.omega], common.running[RUNNING.norm]
    features = common.tally[TALLY.seen] + 1
    if constant > 0.0:  # the constant feature is one more entry for Newton's experts
        places[count], x[count] = 0, constant
    entries = count + 1 if constant > 0.0 else count
    length = square + constant * constant
    if table.gram.shape[0] == 0:
        for e in range(NEWTON):
            metric_step(table, scratch, e, places, x, entries, features, length, norm, y, classes, h, omega)
    else:
        follow_norm(common, table, scratch)
        sketch_step(common, table, pool, scratch, places, x, entries, features, length, y, classes, h, omega)
    step = PACE / math.sqrt(norm)
    sums = AVERAGE + SCALED
    dense_step(table, scratch, SCALED, 0, step, 1.0, constant, places, x, count, y, classes, h, omega, sums)
    small = UNIT_CONSTANT if constant > 0.0 else 0.0
    dense_step(table, scratch, UNIT, 1, PACE, factor, small, places, x, count, y, classes, h, omega, -1)
    common.running[RUNNING.omega] += min(h, 1e6) * min(common.tally[TALLY.rounds] + 1.0, OLDEST) ** 3


@exact_kernel
def learn_dense(common, table, pool, scratch, row, intercept, largest, indptr, slots, values, labels, weights, out):
    """Learn rows; returns how many, fewer than given when one is refused or the tables have been outgrown.

    ``row`` is room for one: (figures, mark, places, x).
    """
    fresh, mark, places, x = row
    classes = common.tally[TALLY.classes]
    for i in range(indptr.size - 1):
        low, high, y, h = indptr[i], indptr[i + 1], labels[i], weights[i]
        rows = common.tally[TALLY.rounds] + 1.0
        if outgrown(common, table.gram.shape[0], slots, low, high):
            common.tally[TALLY.why] = STOP.outgrown
            return i
        common.tally[TALLY.why] = STOP.refused  # unless it turns out to be fine
        if not update_figures(common, slots, values, low, high, True, fresh):
            return i
        count, square = centred_row(common, slots, values, low, high, rows, fresh, mark, places, x)
        norm = common.running[RUNNING.norm] + (square - common.running[RUNNING.norm]) / rows
        constant = math.sqrt(norm if norm > 0.0 else 1.0) if intercept else 0.0
        factor = _margins(common, table, scratch, places, x, count, constant, square)
        if not (square <= largest and all_within(scratch.z, OUTPUTS, classes, largest)):
            return i
        combine(pool, scratch, classes, out[i])
        if h > 0.0:
            teach(pool, scratch, y, classes, h, common.tally[TALLY.rounds])
        keep_figures(common, slots, low, high, fresh)
        common.running[RUNNING.norm] = norm
        common.tally[TALLY.nonzeros] += high - low
        if norm > 0.0 and classes > 1 and h > 0.0:  # nothing is known of the scales before
            _step(common, table, pool, scratch, places, x, count, constant, square, factor, y, h)
        common.tally[TALLY.rounds] += 1
        common.tally[TALLY.why] = 0
    return indptr.size - 1


@exact_kernel
def predict_dense(common, table, pool, scratch, row, intercept, indptr, slots, values, out):
    """Fill the log-probabilities of these rows."""
    fresh, mark, places, x = row
    classes = common.tally[TALLY.classes]
    rows = max(common.tally[TALLY.rounds] * 1.0, 1.0)
    norm = common.running[RUNNING.norm]
    constant = math.sqrt(norm if norm > 0.0 else 1.0) if intercept else 0.0
    for i in range(indptr.size - 1):
        low, high = indptr[i], indptr[i + 1]
        update_figures(common, slots, values, low, high, False, fresh)
        count, square = centred_row(common, slots, values, low, high, rows, fresh, mark, places, x)
        _margins(common, table, scratch, places, x, count, constant, min(square, 1e300))
        clear_nan(scratch.z, OUTPUTS, classes)
        combine(pool, scratch, classes, out[i])
