"""Reading the tuning-free learner without changing it: predictions and weights, pending transforms included."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import allocating_kernel, inner, inner_function
from onsketch.learners.auto.directions import apply_inverse, ridge_of
from onsketch.learners.auto.mixing import EXPERTS, LANES
from onsketch.learners.auto.passes import light_row, seen_by
from onsketch.learners.auto.round import within_bounds
from onsketch.learners.auto.state import (
    FIGURE,
    FIRST_ROW,
    HEADS,
    IN_BUFFER,
    LIGHT,
    OWN_ADAGRAD,
    SKETCHED,
    TALLY,
    WIDTH,
)
from onsketch.learners.sketched.packed import CLOCK
from onsketch.learners.sketched.reading import current_row


class Scratch(NamedTuple):
    """What reading a feature needs."""

    light: NDArray[np.float64]
    heavy: NDArray[np.float64]
    moved: NDArray[np.float64]
    sketch: NDArray[np.float64]
    """Heads and entries of S."""
    weights: NDArray[np.float64]


@inner_function(error_model="numpy")
def new_scratch(table, small):
    """Made by the kernels themselves, so that several may read at a time."""
    width = max(FIRST_ROW + small.gram.shape[0], table.rows.shape[1])
    heavy, moved = np.empty((1, table.rows.shape[1])), np.empty(table.work.shape[1])
    return Scratch(np.empty((1, WIDTH)), heavy, moved, np.zeros(width), np.empty(LANES))


@inner
def sketch_of(light, table, small, place, scratch):
    """Fill in the heads and the entries of S of a warm feature, brought up to date; there are none without a sketch."""
    n, kept = small.counts[TALLY.rows], table.running.shape[1] - 1
    for c in range(FIRST_ROW + n):
        scratch.sketch[c] = 0.0
    if place <= 0 or place >= table.clock[CLOCK.seen]:
        return
    current_row(table, place, scratch.heavy, scratch.moved)
    for c in range(FIRST_ROW + min(n, kept)):
        scratch.sketch[c] = scratch.heavy[0, c]
    buffered = np.int64(scratch.heavy[0, IN_BUFFER])
    if buffered > 0:
        for i in range(kept, n):
            scratch.sketch[FIRST_ROW + i] = light.buffer[buffered - 1, i - kept]


@allocating_kernel
def fill_sketch(light, table, small, out):
    """Heads and entries of S of all warm features, by place."""
    scratch = new_scratch(table, small)
    for place in range(out.shape[0]):
        sketch_of(light, table, small, place, scratch)
        for c in range(FIRST_ROW + small.counts[TALLY.rows]):
            out[place, c] = scratch.sketch[c]


@inner
def expert_weights(light, table, small, slot, scratch):
    """The weights that the experts give to a feature, in its own unit; the constant's include no centre of labels."""
    out = scratch.weights
    place = light_row(light, slot, scratch.light, 0)
    sketch_of(light, table, small, place, scratch)
    for k in range(EXPERTS):
        out[k] = scratch.light[0, k]
    for k in range(SKETCHED):
        out[k] += scratch.sketch[HEADS[k]]
        for i in range(small.counts[TALLY.rows]):
            out[k] += small.a[k, i] * scratch.sketch[FIRST_ROW + i]
    own = scratch.light[0, LIGHT.scale]
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
def weight_of(light, table, small, slot, scratch):
    """The mixture's weight of a feature."""
    expert_weights(light, table, small, slot, scratch)
    total = 0.0
    for k in range(EXPERTS):
        total += small.mix[k] * scratch.weights[k]
    return total


@allocating_kernel
def fill_weights(light, table, small, weights):
    """The mixture's weights of the first slots; the constant's has all that does not depend on the row."""
    scratch = new_scratch(table, small)
    for slot in range(weights.size):
        weights[slot] = weight_of(light, table, small, slot, scratch)
        if slot == small.counts[TALLY.constant]:
            weights[slot] += small.numbers[FIGURE.centre] + small.numbers[FIGURE.unit] * small.mix[LANES - 1]


@allocating_kernel
def predict_rows(settings, light, table, small, indptr, slots, values, predictions):
    """The mixture's margins."""
    scratch = new_scratch(table, small)
    for i in range(indptr.size - 1):
        total = small.numbers[FIGURE.centre] + small.numbers[FIGURE.unit] * small.mix[LANES - 1]
        for j in range(indptr[i], indptr[i + 1]):
            total += values[j] * weight_of(light, table, small, slots[j], scratch)
        predictions[i] = within_bounds(settings, small, total)


@allocating_kernel
def leverage_rows(settings, light, table, small, indptr, slots, values, leverages):
    """x·A⁻¹x of each row: the mean over the two Newton experts, by their shares. A feature never met is as if it were
    not there.
    """
    scratch = new_scratch(table, small)
    p, q = np.zeros(scratch.sketch.size), np.zeros((3, settings.capacity))
    common, norm = math.exp(-small.numbers[FIGURE.common]), small.numbers[FIGURE.norm]
    trusted = small.shares[1, 0] + small.shares[1, 1]
    for i in range(indptr.size - 1):
        length = 0.0
        for c in range(p.size):
            p[c] = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            slot = slots[j]
            place = light_row(light, slot, scratch.light, 0)
            own = scratch.light[0, LIGHT.scale]
            if slot == small.counts[TALLY.constant]:
                x = math.sqrt(norm)
            else:
                x, _ = seen_by(small.counts[TALLY.regime], values[j] / own if own > 0.0 else 0.0, values[j] * common)
            length += x * x
            sketch_of(light, table, small, place, scratch)
            for c in range(FIRST_ROW, FIRST_ROW + small.counts[TALLY.rows]):
                p[c] += x * scratch.sketch[c]
        leverages[i] = 0.0
        for k in range(2):
            inside = apply_inverse(small, k, p, q)
            ridge = ridge_of(settings, small, k) * small.numbers[FIGURE.fade]
            share = small.shares[1, k] / trusted if trusted > 0.0 else 0.5
            leverages[i] += share * max(length - inside, CUTOFF * length) / ridge
