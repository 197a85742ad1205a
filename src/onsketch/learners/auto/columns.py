"""The columns of the sketch: packed rows of features, brought up to date when the feature next occurs.

A shrink rotates S and folds Sᵀa into the weights of all features that have a column. Both are logged, see
``sketched/epochs.py``. A packed row has the first m − 1 entries of its column, which the log rotates. Rows of S since
the last shrink are in the buffer, which holds the features met since then. What a shrink adds to the Newton experts'
weights collects in *heads*: those of one output are in the columns ``HEADS``, those of K classes after the entries.
Heads of rows that are up to date are 0, for they are added to the weights at once.
"""

from __future__ import annotations

import numpy as np

from onsketch.core import bordered
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inlined, inner, kernel
from onsketch.jit.vectors import add, times
from onsketch.learners.auto.state import (
    EXACT_RIDGES,
    FADED,
    FIRST,
    GROWTHS,
    NEWTON,
    PLACES,
    RIDGES,
    RUN,
    SKETCH_RIDGES,
)
from onsketch.learners.sketched.epochs import bring_up_to_date, close_epoch, is_due, write_turned
from onsketch.learners.sketched.packed import CLOCK, COLUMN, SCRATCH, further_heads
from onsketch.learners.sketched.passes import gather
from onsketch.learners.sketched.reading import current_row

_rebuild, _shrink, _restart, _measure = map(
    inner, (bordered.rebuild, bordered.shrink, bordered.restart, bordered.measure)
)

HEADS = (COLUMN.head, COLUMN.sum)
IN_BUFFER = COLUMN.diagonal
"""Column with the place in the buffer, counted from 1; 0 for none."""


@inlined
def kept_rows(state):
    """Return m − 1, the rows of S that a shrink keeps."""
    return state.gram.shape[0] // 2 - 1


@inlined
def class_heads(state):
    """Return the number of heads after the entries of a column for each Newton expert; 0 for one output."""
    return further_heads(kept_rows(state), state.table.running.shape[2]) // NEWTON


@inlined
def head_column(kept, heads, e, k):
    """Return the column of a head."""
    return HEADS[e] if heads == 0 else COLUMN.sketch + kept + e * heads + k


@inner
def take_heads(state, place):
    """Add the heads of a packed row to the weights."""
    rows, kept, heads, j = state.table.rows, kept_rows(state), class_heads(state), state.slot_of[place]
    for e in range(NEWTON):
        for k in range(min(max(heads, 1), state.weights.shape[2])):
            column = head_column(kept, heads, e, k)
            state.weights[j, FIRST + e, k] += rows[place, column]
            rows[place, column] = 0.0


@inner
def bring(state, place):
    """Bring a packed row up to date."""
    table = state.table
    epoch = table.clock[CLOCK.epoch]
    if table.rows[place, COLUMN.epoch] < epoch:
        bring_up_to_date(table.rows, place, epoch, table.running, table.past, table.work[SCRATCH.moved])
        take_heads(state, place)


@inner
def bring_row(state, scratch, count):
    """Bring the columns of the row's features up to date, and the constant's."""
    bring(state, 0)
    for b in range(count):
        place = state.places[scratch.slots[b]]
        if place >= 0:
            bring(state, place)


@inner
def add_column(state, j):
    """Give a feature a column of zeros, if there is room for more."""
    place = state.table.clock[CLOCK.seen]
    if place >= PLACES:
        return
    state.places[j] = place
    state.slot_of[place] = j
    state.table.rows[place, COLUMN.epoch] = state.table.clock[CLOCK.epoch]
    state.table.clock[CLOCK.seen] = place + 1


@inlined
def has_room(state, count):
    """Return True if a row of so many features fits the arrays of columns."""
    clock, buffer = state.table.clock, state.buffer.shape[0]
    columns = min(state.slot_of.size, state.table.rows.shape[0])
    return columns >= min(clock[CLOCK.seen] + count, PLACES) and buffer >= min(clock[CLOCK.touched] + count, PLACES)


@inlined
def entry(state, place, i):
    """Return an entry of S from a packed row that is up to date."""
    kept = kept_rows(state)
    if i < kept:
        return np.float64(state.table.rows[place, COLUMN.sketch + i])
    at = np.int64(state.table.rows[place, IN_BUFFER])
    return np.float64(state.buffer[at - 1, i - kept]) if at > 0 else 0.0


@inner
def set_entry(state, place, i, value):
    """Write an entry of S to a packed row that is up to date."""
    table, kept = state.table, kept_rows(state)
    rows, clock = table.rows, table.clock
    if i < kept:
        rows[place, COLUMN.sketch + i] = value
        return
    if rows[place, IN_BUFFER] == 0.0:
        if value == 0.0:
            return
        rows[place, COLUMN.epoch] = clock[CLOCK.epoch] + 0.5  # in the buffer; a whole number means: it is not
        table.touched[clock[CLOCK.touched]] = place
        clock[CLOCK.touched] += 1
        rows[place, IN_BUFFER] = clock[CLOCK.touched]
    state.buffer[np.int64(rows[place, IN_BUFFER]) - 1, i - kept] = value


@inner
def sketch_products(state, scratch, count):
    """Fill Sx, and in ``scratch.packed`` the heads' products with x: columns need not be up to date."""
    table, products, packed = state.table, scratch.products, scratch.packed
    rows, kept, n = int(state.running[RUN.rows]), kept_rows(state), 0
    first, epoch = COLUMN.sketch, table.clock[CLOCK.epoch]
    every = first + kept + NEWTON * class_heads(state)
    for b in range(count + 1):
        place, x = state.places[scratch.slots[b]], scratch.own[b]
        if place >= 0 and x != 0.0 and table.rows[place, COLUMN.epoch] >= epoch:
            scratch.placed[n], scratch.entries[n] = place, x
            n += 1
    gather(table.rows, scratch.placed, scratch.entries, 0, n, first + min(rows, kept), packed)
    for c in range(first + min(rows, kept), every):
        packed[c] = 0.0
    for b in range(count + 1):
        place, x = state.places[scratch.slots[b]], scratch.own[b]
        if place >= 0 and x != 0.0 and table.rows[place, COLUMN.epoch] < epoch:
            current_row(table, place, scratch.current, scratch.turned_row)
            for c in range(every):
                packed[c] += x * scratch.current[0, c]
    for i in range(min(rows, kept)):
        products[i] = packed[first + i]
    if rows > kept:
        buffered = 0
        for b in range(n):
            at = np.int64(table.rows[scratch.placed[b], IN_BUFFER])
            if at > 0:
                scratch.placed[buffered], scratch.entries[buffered] = at - 1, scratch.entries[b]
                buffered += 1
        gather(state.buffer, scratch.placed, scratch.entries, 0, buffered, rows - kept, scratch.buffered)
        for i in range(kept, rows):
            products[i] = scratch.buffered[i - kept]


@inlined
def ridge_of(run, exact, e):
    """Return the ridge of Newton expert e."""
    if exact:
        return EXACT_RIDGES[e] * run[RUN.used]
    return SKETCH_RIDGES[e] * run[RUN.used] + GROWTHS[e] * run[RUN.lost]


@inlined
def sketch_ridges(state):
    """Return the ridges of the Newton experts over a sketch."""
    return ridge_of(state.running, False, 0), ridge_of(state.running, False, 1)


@inner
def rebuild(state, scratch):
    """Compute the inverses from the Gram matrix."""
    n = int(state.running[RUN.rows])
    _rebuild(state.gram, state.inverses, sketch_ridges(state), n, scratch.values, scratch.vectors, scratch.work)


@inlined
def _add_square(inverses, e, n, by, u):
    """``inverses[e] += by·u uᵀ`` over the first n rows."""
    stride = inverses.shape[2]
    whole = min((n + 3) // 4 * 4, stride // 4 * 4)
    for c in range(n, whole):
        u[c] = 0.0
    for i in range(n):
        add(inverses, (e * stride + i) * stride, by * u[i], u, 0, whole)
        for c in range(whole, n):
            inverses[e, i, c] += by * u[i] * u[c]


@inner
def append(state, scratch, rho, square):
    """Take the row ρ·x into the Gram matrix and the inverses; ``square`` is |x|² over the features with columns.

    As ``bordered.border``, for q = inverse·Sx in ``scratch.inner``.
    """
    n, gram, inverses, products = int(state.running[RUN.rows]), state.gram, state.inverses, scratch.products
    state.running[RUN.rows] = n + 1
    for i in range(n):
        gram[n, i] = gram[i, n] = rho * products[i]
    gram[n, n] = rho * rho * square
    for e in range(NEWTON):
        u = scratch.inner[e]
        whole = pivot = ridge_of(state.running, False, e) + gram[n, n]  # the Schur complement of the new row
        for i in range(n):
            u[i] *= rho
            pivot -= u[i] * gram[n, i]
        if pivot <= CUTOFF * whole:
            rebuild(state, scratch)
            return
        _add_square(inverses, e, n, 1.0 / pivot, u)
        for i in range(n):
            inverses[e, i, n] = inverses[e, n, i] = -u[i] / pivot
        inverses[e, n, n] = 1.0 / pivot


@inner
def shrink(state, scratch):
    """Robust frequent directions: 2m rows become m − 1, and each loses the m-th energy."""
    run, a, transform = state.running, state.coefficients, scratch.transform
    n, kept, heads, fade = state.gram.shape[0], kept_rows(state), class_heads(state), run[RUN.fade]
    for i in range(transform.shape[0]):
        for c in range(transform.shape[1]):
            transform[i, c] = 0.0
    for e in range(NEWTON):
        for k in range(min(max(heads, 1), a.shape[2])):
            column = kept + e if heads == 0 else transform.shape[1] - NEWTON * heads + e * heads + k
            for i in range(n):
                transform[i, column] = a[e, i, k]
                a[e, i, k] = 0.0
    rho = _shrink(state.gram, n, n // 2, fade, scratch.values, scratch.vectors, scratch.work, transform, 0, 0)
    run[RUN.lost] = fade * (run[RUN.lost] + rho)
    run[RUN.fade] = 1.0
    run[RUN.rows] = kept
    _restart(state.gram, state.inverses, sketch_ridges(state), n, kept)
    _close_buffer(state, transform)


@inner
def _close_buffer(state, transform):
    """End an epoch: turn the features in the buffer, which is empty then, and log the transform for all others."""
    table, buffer = state.table, state.buffer
    clock, rows, k, width = table.clock, table.rows, table.running.shape[1], transform.shape[1]
    out = table.work[SCRATCH.moved]
    for i in range(clock[CLOCK.touched]):
        place = np.int64(table.touched[i])
        times(rows, place * rows.shape[1] + COLUMN.sketch, k, transform, 0, width, out)
        for j in range(transform.shape[0] - k):
            value = np.float64(buffer[i, j])
            if value != 0.0:
                add(out, 0, value, transform, (k + j) * width, width)
                buffer[i, j] = 0.0
        write_turned(rows, place, k, width, out)
        take_heads(state, place)
        rows[place, IN_BUFFER] = 0.0
        rows[place, COLUMN.epoch] = clock[CLOCK.epoch] + 1
    clock[CLOCK.touched] = 0
    close_epoch(table, transform, k, k)
    if clock[CLOCK.epoch] == 0:  # the log was full
        for i in range(clock[CLOCK.seen]):
            take_heads(state, i)


@inner
def write_fade(state, scratch):
    """Write what forgetting has left into the sketch."""
    run, table, a = state.running, state.table, state.coefficients
    fade = run[RUN.fade]
    by = np.sqrt(fade)
    for place in range(table.clock[CLOCK.seen]):
        bring(state, place)
        for i in range(kept_rows(state)):
            table.rows[place, COLUMN.sketch + i] *= by
    for i in range(table.clock[CLOCK.touched]):
        for j in range(state.buffer.shape[1]):
            state.buffer[i, j] *= by
    for i in range(state.gram.shape[0]):
        for j in range(state.gram.shape[0]):
            state.gram[i, j] *= fade
        for e in range(NEWTON):
            for k in range(a.shape[2]):
                a[e, i, k] /= by
    run[RUN.lost] *= fade
    run[RUN.fade] = 1.0
    rebuild(state, scratch)


@inner
def measure(state, scratch, count):
    """Compute the Gram matrix from the rows of the sketch now and then, where they are in float32."""
    if is_due(state.table, count):
        for place in range(state.table.clock[CLOCK.seen]):
            take_heads(state, place)
        n = min(int(state.running[RUN.rows]), kept_rows(state))
        _measure(state.table.rows, state.table.clock[CLOCK.seen], COLUMN.sketch, n, state.gram)
        rebuild(state, scratch)


@inner
def follow_row(state, scratch, count, status):
    """Do what is due after a row has been learned: a shrink, a fade written out, or inverses with new ridges."""
    if state.running[RUN.rows] == state.gram.shape[0]:
        shrink(state, scratch)
    elif status == FADED:
        write_fade(state, scratch)
    elif status == RIDGES:
        rebuild(state, scratch)
    if state.table.rows.itemsize == 4:
        measure(state, scratch, count)


@kernel
def fill_columns(state, current, moved, out):
    """Fill the heads and the entries of all columns, (places, NEWTON·K + rows); the state does not change.

    Scratch: current (1, width of a packed row), moved (width,).
    """
    heads, kept, n = class_heads(state), kept_rows(state), int(state.running[RUN.rows])
    classes = max(heads, 1)
    for place in range(out.shape[0]):
        current_row(state.table, place, current, moved)
        for e in range(NEWTON):
            for k in range(classes):
                out[place, e * classes + k] = current[0, head_column(kept, heads, e, k)]
        at = np.int64(current[0, IN_BUFFER])
        for i in range(n):
            value = 0.0
            if i < kept:
                value = current[0, COLUMN.sketch + i]
            elif at > 0:
                value = np.float64(state.buffer[at - 1, i - kept])
            out[place, NEWTON * classes + i] = value
