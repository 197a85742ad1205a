"""Reading the tuning-free learner without changing it: predictions and weights, pending transforms included."""

from __future__ import annotations

import math

import numpy as np

from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inner, kernel
from onsketch.learners.auto.directions import apply_inverse, ridge_of
from onsketch.learners.auto.mixing import EXPERTS, LANES
from onsketch.learners.auto.passes import seen_by
from onsketch.learners.auto.round import within_bounds
from onsketch.learners.auto.state import FIGURE, FIRST_ROW, HEADS, LIGHT, OWN_ADAGRAD, SKETCHED, TALLY
from onsketch.learners.sketched.reading import current_row


@inner
def expert_weights(light, table, small, slot, rows, scratch, out):
    """The weights that the experts give to a feature, in its own unit; the constant's include no centre of labels."""
    for k in range(EXPERTS):
        out[k] = light.rows[slot, k]
    place = np.int64(light.heavy[slot])
    if place > 0:
        current_row(table, place, rows, scratch)
        for k in range(SKETCHED):
            out[k] += rows[0, HEADS[k]]
            for i in range(small.counts[TALLY.rows]):
                out[k] += small.a[k, i] * rows[0, FIRST_ROW + i]
    own = light.rows[slot, LIGHT.scale]
    if slot == small.counts[TALLY.constant]:
        size = math.sqrt(small.numbers[FIGURE.norm])
        for k in range(SKETCHED):
            out[k] *= size
    elif own > 0.0:
        first, second = seen_by(small.counts[TALLY.regime], 1.0 / own, math.exp(-small.numbers[FIGURE.common]))
        for k in range(EXPERTS):
            out[k] *= first if k <= OWN_ADAGRAD else second
    else:
        for k in range(EXPERTS):
            out[k] = 0.0


@inner
def weight_of(light, table, small, slot, rows, scratch, out):
    """The mixture's weight of a feature."""
    expert_weights(light, table, small, slot, rows, scratch, out)
    total = 0.0
    for k in range(EXPERTS):
        total += small.mix[k] * out[k]
    return total


@kernel
def fill_weights(light, table, small, weights):
    """The mixture's weights of the first slots; the constant's has all that does not depend on the row."""
    rows, scratch, out = np.empty((1, table.rows.shape[1])), np.empty(table.work.shape[1]), np.empty(LANES)
    for slot in range(weights.size):
        weights[slot] = weight_of(light, table, small, slot, rows, scratch, out)
        if slot == small.counts[TALLY.constant]:
            weights[slot] += small.numbers[FIGURE.centre] + small.numbers[FIGURE.unit] * small.mix[LANES - 1]


@kernel
def predict_rows(settings, light, table, small, indptr, slots, values, predictions):
    """The mixture's margins."""
    rows, scratch, out = np.empty((1, table.rows.shape[1])), np.empty(table.work.shape[1]), np.empty(LANES)
    for i in range(indptr.size - 1):
        total = small.numbers[FIGURE.centre] + small.numbers[FIGURE.unit] * small.mix[LANES - 1]
        for j in range(indptr[i], indptr[i + 1]):
            total += values[j] * weight_of(light, table, small, slots[j], rows, scratch, out)
        predictions[i] = within_bounds(settings, small, total)


@kernel
def leverage_rows(settings, light, table, small, indptr, slots, values, leverages):
    """x·A⁻¹x of each row: the mean over the two Newton experts, by their shares. A feature never met is as if it were
    not there.
    """
    rows, scratch = np.empty((1, table.rows.shape[1])), np.empty(table.work.shape[1])
    p, q = np.zeros(table.rows.shape[1]), np.zeros((3, settings.capacity))
    common, norm = math.exp(-small.numbers[FIGURE.common]), small.numbers[FIGURE.norm]
    trusted = small.shares[1, 0] + small.shares[1, 1]
    for i in range(indptr.size - 1):
        length = 0.0
        for c in range(p.size):
            p[c] = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            slot = slots[j]
            own = light.rows[slot, LIGHT.scale]
            if slot == small.counts[TALLY.constant]:
                x = math.sqrt(norm)
            else:
                x, _ = seen_by(small.counts[TALLY.regime], values[j] / own if own > 0.0 else 0.0, values[j] * common)
            length += x * x
            place = np.int64(light.heavy[slot])
            if place > 0:
                current_row(table, place, rows, scratch)
                for c in range(FIRST_ROW, FIRST_ROW + small.counts[TALLY.rows]):
                    p[c] += x * rows[0, c]
        leverages[i] = 0.0
        for k in range(2):
            inside = apply_inverse(small, k, p, q)
            ridge = ridge_of(settings, small, k) * small.numbers[FIGURE.fade]
            share = small.shares[1, k] / trusted if trusted > 0.0 else 0.5
            leverages[i] += share * max(length - inside, CUTOFF * length) / ridge
