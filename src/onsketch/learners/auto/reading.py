"""Reading the tuning-free learner without changing it: predictions and weights, pending transforms included."""

from __future__ import annotations

import numpy as np

from onsketch.jit.decorators import inner, kernel
from onsketch.learners.auto.mixing import EXPERTS, combine
from onsketch.learners.auto.round import bounds
from onsketch.learners.auto.state import FIRST, HEADS, ROWS, SCALE
from onsketch.learners.sketched.packed import COLUMN
from onsketch.learners.sketched.reading import current_row


@inner
def expert_weights(settings, small, row, out):
    """The weights that the experts give to a feature, in its own unit."""
    extra = COLUMN.sketch + settings.capacity
    for k in range(2):
        total = row[HEADS[k]]
        for i in range(small.counts[ROWS]):
            total += small.a[k, i] * row[COLUMN.sketch + i]
        out[k] = total
        out[2 + k] = row[extra + FIRST + 2 * k]
    for k in range(EXPERTS):
        out[k] = out[k] / row[SCALE] if row[SCALE] > 0.0 else 0.0


@kernel
def fill_weights(settings, table, small, weights):
    """The mixture's weights of the first slots."""
    rows = np.empty((1, table.rows.shape[1]))
    row = rows[0]
    scratch = np.empty(table.running.shape[2])
    out = np.empty(EXPERTS)
    for slot in range(weights.size):
        current_row(table, slot, rows, scratch)
        expert_weights(settings, small, row, out)
        weights[slot] = 0.0
        for k in range(EXPERTS):
            weights[slot] += small.shares[k] * out[k]


@kernel
def predict_rows(settings, table, small, indptr, slots, values, predictions):
    """The mixture's margins."""
    rows = np.empty((1, table.rows.shape[1]))
    row = rows[0]
    scratch = np.empty(table.running.shape[2])
    out = np.empty(EXPERTS)
    margins = np.empty(EXPERTS)
    low, high = bounds(settings, small)
    for i in range(indptr.size - 1):
        for k in range(EXPERTS):
            margins[k] = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            current_row(table, slots[j], rows, scratch)
            expert_weights(settings, small, row, out)
            for k in range(EXPERTS):
                margins[k] += values[j] * out[k]
        predictions[i] = combine(margins, small.shares, low, high)
