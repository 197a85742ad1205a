"""Reading the tuning-free learner without changing it: predictions and weights, pending transforms included."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inner, kernel
from onsketch.learners.auto.directions import apply_inverse, newton_share, ridge_of
from onsketch.learners.auto.mixing import EXPERTS
from onsketch.learners.auto.passes import light_row, seen_by
from onsketch.learners.auto.round import within_bounds, without_features
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
    Mixture,
)
from onsketch.learners.sketched.packed import CLOCK, COLUMN, Table
from onsketch.learners.sketched.reading import current_row


class Scratch(NamedTuple):
    """What reading a feature needs."""

    light: NDArray[np.float64]
    heavy: NDArray[np.float64]
    moved: NDArray[np.float64]
    sketch: NDArray[np.float64]
    """Heads and entries of S."""
    along: NDArray[np.float64]
    """What entries of S are worth in the mixture: the experts' coefficients on them, by their shares."""
    common: float
    """The inverse of the common scale."""


def new_room(table: Table, small: Mixture) -> NDArray[np.float64]:
    """Where kernels have their scratch: made for each call, for several may read at a time."""
    return np.empty((9, max(FIRST_ROW + small.gram.shape[0], table.rows.shape[1], table.work.shape[1], WIDTH)))


@inner
def scratch_in(room, table, small):
    """Scratch in its first five rows."""
    along = room[4]
    for i in range(small.counts[TALLY.rows]):
        along[i] = 0.0
    for k in range(SKETCHED):
        for i in range(small.counts[TALLY.rows]):
            along[i] += small.mix[k] * small.a[k, i]
    common = math.exp(-small.numbers[FIGURE.common])
    return Scratch(room[:1], room[1:2, : table.rows.shape[1]], room[2], room[3], along, common)


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


@kernel
def fill_sketch(light, table, small, out, room):
    """Heads and entries of S of all warm features, by place."""
    scratch = scratch_in(room, table, small)
    for place in range(out.shape[0]):
        sketch_of(light, table, small, place, scratch)
        for c in range(FIRST_ROW + small.counts[TALLY.rows]):
            out[place, c] = scratch.sketch[c]


@inner
def heavy_weight(light, table, small, heavy, at, scratch):
    """What heads and sketch give to a feature whose heavy row, up to date, is this one."""
    n, kept, total = small.counts[TALLY.rows], table.running.shape[1] - 1, 0.0
    for k in range(SKETCHED):
        total += small.mix[k] * heavy[at, HEADS[k]]
    for i in range(min(n, kept)):
        total += scratch.along[i] * heavy[at, FIRST_ROW + i]
    buffered = np.int64(heavy[at, IN_BUFFER])
    if buffered > 0:
        for i in range(kept, n):
            total += scratch.along[i] * light.buffer[buffered - 1, i - kept]
    return total


@inner
def weight_of(light, table, small, slot, scratch):
    """The mixture's weight of a feature, in its own unit; the constant's includes no centre of labels."""
    place = light_row(light, slot, scratch.light, 0)
    by_sketch = 0.0
    if 0 < place < table.clock[CLOCK.seen]:
        if table.rows[place, COLUMN.epoch] < table.clock[CLOCK.epoch]:
            current_row(table, place, scratch.heavy, scratch.moved)
            by_sketch = heavy_weight(light, table, small, scratch.heavy, 0, scratch)
        else:
            by_sketch = heavy_weight(light, table, small, table.rows, place, scratch)
    for k in range(SKETCHED):
        by_sketch += small.mix[k] * scratch.light[0, k]
    in_own = small.mix[OWN_ADAGRAD] * scratch.light[0, OWN_ADAGRAD]
    wide = 0.0
    for k in range(OWN_ADAGRAD + 1, EXPERTS):
        wide += small.mix[k] * scratch.light[0, k]
    if slot == small.counts[TALLY.constant]:
        return by_sketch * math.sqrt(small.numbers[FIGURE.norm]) + in_own + wide
    own = scratch.light[0, LIGHT.scale]
    first, second = seen_by(small.counts[TALLY.regime], 1.0 / own if own > 0.0 else 0.0, scratch.common)
    return first * (by_sketch + in_own) + second * wide if own > 0.0 else 0.0


@kernel
def fill_weights(light, table, small, weights, room):
    """The mixture's weights of the first slots; the constant's has all that does not depend on the row."""
    scratch = scratch_in(room, table, small)
    for slot in range(weights.size):
        weights[slot] = weight_of(light, table, small, slot, scratch)
        if slot == small.counts[TALLY.constant]:
            weights[slot] += without_features(small)


@kernel
def predict_rows(settings, light, table, small, room, indptr, slots, values, predictions):
    """The mixture's margins."""
    scratch = scratch_in(room, table, small)
    for i in range(indptr.size - 1):
        total = without_features(small)
        for j in range(indptr[i], indptr[i + 1]):
            total += values[j] * weight_of(light, table, small, slots[j], scratch)
        predictions[i] = within_bounds(settings, small, total)


@kernel
def leverage_rows(settings, light, table, small, room, indptr, slots, values, leverages):
    """x·A⁻¹x of each row: the mean over the two Newton experts, by their shares. A feature never met is as if it were
    not there.
    """
    scratch, p, q = scratch_in(room, table, small), room[5], room[6:]
    norm = small.numbers[FIGURE.norm]
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
                x, _ = seen_by(
                    small.counts[TALLY.regime], values[j] / own if own > 0.0 else 0.0, values[j] * scratch.common
                )
            length += x * x
            sketch_of(light, table, small, place, scratch)
            for c in range(FIRST_ROW, FIRST_ROW + small.counts[TALLY.rows]):
                p[c] += x * scratch.sketch[c]
        leverages[i] = 0.0
        for k in range(2):
            inside = apply_inverse(small, k, p, q)
            ridge = ridge_of(settings, small, k) * small.numbers[FIGURE.fade]
            leverages[i] += newton_share(small, k) * max(length - inside, CUTOFF * length) / ridge
