"""The packed table: everything a learner keeps per feature, in one row of memory, brought up to date lazily.

A learner's weights are ``w = base·h + Sᵀa``: a head h (one number per feature), a few sketch rows S and small
vectors. Per feature the table holds one row

    [ head | epoch | diagonal | sum | s_1 … s_k | buffer rows … ]

so that a non-zero of an example costs one or two cache lines for *everything* the round needs to know of it.

From time to time a sketch rotates all its rows, ``S ← N S`` (a shrink of frequent directions, a change of basis in
Oja's sketch), and folds ``Sᵀa`` into the head. That would touch every feature seen. Instead the transform

    head += s·a,   sum += s·b,   s ← N s

is logged once per *epoch* and applied to a feature when it is next met. Transforms compose, ``(a₁,b₁,N₁)`` then
``(a₂,b₂,N₂)`` being ``(a₁+N₁ᵀa₂, b₁+N₁ᵀb₂, N₂N₁)``. Written in base 16, epochs have digits, and the log keeps the
products that a sleeper needs: from the start of each unit of 16^l epochs in the current block of 16^{l+1} to now
(``running``), and from each past unit to the end of its block (``past``). A feature that slept within the block pays
one product, one that slept for n epochs O(log n). No inverse is ever taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.arrays import Arrays, require, take
from onsketch.numerics import inlined, inner
from onsketch.vectors import LANES, fma, load, plus, spread, store, times, where_less

HEAD, EPOCH_OF, DIAGONAL, SUM, SKETCH = range(5)
"""Columns of a packed row; the sketch rows start at SKETCH."""

GATHERED, ALONG, CHANGE, MOVED = range(4)
"""Rows of a table's scratch: Σ x_i·row_i; coefficients on the sketch's rows; what a round adds to a row; a row on its
way through the log."""

ROUNDS, SEEN, EPOCH, TOUCHED, CURRENT = range(5)
"""Entries of a table's clock: rounds played, slots in use, epochs logged, slots with rows in the buffer; whether no
feature sleeps (dense rows: then no epoch need be looked up)."""


TINY = 1e-140
"""Sketch entries below this become zero: shrinks let old directions fade, and arithmetic on denormals is slow."""


class Table(NamedTuple):
    """The packed rows and the log of transforms not yet applied to all of them."""

    rows: NDArray[np.floating]
    """(slots, width), in float64 or float32."""
    features: NDArray[np.int64]
    """The feature of each slot."""
    clock: NDArray[np.int64]
    touched: NDArray[np.int32]
    """Slots that have buffer rows in this epoch, in order."""
    running: NDArray[np.float64]
    """(LEVELS·RADIX, k, k+2 padded): products from the start of a complete unit of the current block to now."""
    past: NDArray[np.float64]
    """Products from the start of a past unit to the end of its block, level after level.

    A product is stored as it is applied: row j says where s_j goes, to the k new rows, to the head, to the sum."""
    places: NDArray[np.int64]
    """Where each level starts in ``past``."""
    work: NDArray[np.float64]
    """Scratch of a round, rows as wide as a packed row."""


BITS, LEVELS = 4, 5
"""Epochs are counted in base 2^BITS; LEVELS digits are enough for a million of them."""

RADIX = 1 << BITS


@inner
def epoch_limit(seen, k):
    """Epochs to log before all features are brought up to date: keeps the log small beside the table."""
    return min(64 + seen // (8 * (k + 1)), (1 << BITS * LEVELS) - 1)


@inlined
def _gather_block(rows, slots, x, low, high, out, at, lanes):
    """``lanes`` columns of ``gather``: two sums, so that one need not wait for the other."""
    width = rows.shape[1]
    even = spread(0.0, lanes)
    odd = spread(0.0, lanes)
    i = low
    while i + 1 < high:
        even = fma(spread(x[i], lanes), load(rows, slots[i] * width + at, lanes), even)
        odd = fma(spread(x[i + 1], lanes), load(rows, slots[i + 1] * width + at, lanes), odd)
        i += 2
    if i < high:
        even = fma(spread(x[i], lanes), load(rows, slots[i] * width + at, lanes), even)
    store(out, at, plus(even, odd))


@inlined
def gather(rows, slots, x, low, high, columns, out):
    """``out = Σ x_i · row_i`` over the non-zeros low..high: head·x, Sx and all, in one pass; returns x·x.

    Only the first ``columns`` of the packed rows are in use; the others may or may not be gathered.
    """
    square = 0.0
    for i in range(low, high):
        square += x[i] * x[i]
    at = 0
    while columns - at > 8 and rows.shape[1] - at >= 16:
        _gather_block(rows, slots, x, low, high, out, at, 16)
        at += 16
    if at < columns:
        _gather_block(rows, slots, x, low, high, out, at, 8)
    return square


@inlined
def _scatter_block(rows, slots, x, low, high, change, at, lanes):
    width = rows.shape[1]
    step = load(change, at, lanes)
    for i in range(low, high):
        place = slots[i] * width + at
        store(rows, place, fma(spread(x[i], lanes), step, load(rows, place, lanes)))


@inlined
def scatter(rows, slots, x, low, high, change):
    """``row_i += x_i · change`` over the non-zeros low..high."""
    at = 0
    while rows.shape[1] - at >= 16:
        _scatter_block(rows, slots, x, low, high, change, at, 16)
        at += 16
    if at < rows.shape[1]:
        _scatter_block(rows, slots, x, low, high, change, at, 8)


@inlined
def _without_tiny(entries):
    """Four numbers, those that are next to nothing replaced by 0."""
    large = where_less(spread(TINY, 4), entries, entries, spread(0.0, 4))
    return where_less(entries, spread(-TINY, 4), entries, large)


@inlined
def _write(rows, slot, k, out):
    """Write a transformed row: its k sketch entries, and what it gives to the head and the sum."""
    start = slot * rows.shape[1] + SKETCH
    rows[slot, HEAD] += out[k]
    rows[slot, SUM] += out[k + 1]
    c = 0
    while c + 4 <= k:
        store(rows, start + c, _without_tiny(load(out, c, 4)))
        c += 4
    while c < k:
        rows[slot, SKETCH + c] = out[c] if abs(out[c]) > TINY else 0.0
        c += 1


@inlined
def _apply(rows, slot, k, products, index, out):
    """Apply a logged transform to a packed row (without buffer rows)."""
    width = products.shape[2]
    times(rows, slot * rows.shape[1] + SKETCH, k, products, index * k * width, width, out)
    _write(rows, slot, k, out)


@inner
def bring_up_to_date(rows, slot, epoch, running, past, places, out):
    """Apply to one packed row the transforms logged since its epoch; ``out`` is scratch of the log's width."""
    k = running.shape[1]
    at = int(rows[slot, EPOCH_OF])
    level = 0
    shift = 0
    while at < epoch:
        digit = (at >> shift) & (RADIX - 1)
        if at >> (shift + BITS) == epoch >> (shift + BITS):
            while at >> shift == epoch >> shift:  # this unit is not complete: its parts are, one level down
                level -= 1
                shift -= BITS
                digit = 0
            _apply(rows, slot, k, running, RADIX * level + digit, out)
            at = epoch
        elif digit != 0:
            _apply(rows, slot, k, past, places[level] + (at >> shift), out)
            at += (RADIX - digit) << shift
        level += 1
        shift += BITS
    rows[slot, EPOCH_OF] = epoch


@inner
def _compose(products, index, transform, out):
    """Follow a logged product by one more transform."""
    k = products.shape[1]
    width = products.shape[2]
    for j in range(k):
        times(products, (index * k + j) * width, k, transform, 0, width, out)
        out[k] += products[index, j, k]
        out[k + 1] += products[index, j, k + 1]
        for c in range(0, width, 4):
            store(products, (index * k + j) * width + c, _without_tiny(load(out, c, 4)))


@inner
def _copy(product, products, index):
    """Store a product in the log (slice assignments are slow to compile)."""
    for j in range(products.shape[1]):
        for c in range(products.shape[2]):
            products[index, j, c] = product[j, c]


@inner
def _log(table, transform, out):
    """Enter the transform of the epoch that ends into the log."""
    epoch = table.clock[EPOCH]
    for level in range(LEVELS):
        for unit in range((epoch >> BITS * level) & (RADIX - 1)):
            _compose(table.running, RADIX * level + unit, transform, out)
    _copy(transform, table.running, epoch & (RADIX - 1))
    epoch += 1
    table.clock[EPOCH] = epoch
    level = 0
    # a block that is complete becomes past, and a unit one level up
    while epoch & ((RADIX << BITS * level) - 1) == 0:
        first = table.places[level] + (epoch >> BITS * level) - RADIX
        for unit in range(RADIX):
            _copy(table.running[RADIX * level + unit], table.past, first + unit)
        unit = (epoch - 1) >> BITS * (level + 1) & (RADIX - 1)
        _copy(table.running[RADIX * level], table.running, RADIX * (level + 1) + unit)
        level += 1


@inner
def close_epoch(table, transform, n, k):
    """End an epoch: apply ``transform`` to the slots with buffer rows, log it for all the others.

    ``transform`` is (n, k+2 padded), as a log entry, over the k old rows and the n − k buffer rows.
    """
    clock = table.clock
    rows = table.rows
    width = transform.shape[1]
    out = table.work[MOVED]
    for i in range(clock[TOUCHED]):
        slot = table.touched[i]
        filled = 0
        for j in range(k, n):
            filled += rows[slot, SKETCH + j] != 0.0
        start = slot * rows.shape[1] + SKETCH
        if 4 * filled > n - k:
            times(rows, start, n, transform, 0, width, out)
        else:  # a rare feature has one or two rows in the buffer
            times(rows, start, k, transform, 0, width, out)
            for j in range(k, n):
                s = rows[slot, SKETCH + j]
                if s != 0.0:
                    for c in range(width):
                        out[c] += s * transform[j, c]
        for j in range(k, n):
            rows[slot, SKETCH + j] = 0.0
        _write(rows, slot, k, out)
        rows[slot, EPOCH_OF] = clock[EPOCH] + 1
    clock[CURRENT] = clock[TOUCHED] == clock[SEEN]
    clock[TOUCHED] = 0
    _log(table, transform, out)
    if clock[EPOCH] >= epoch_limit(clock[SEEN], k):
        settle(table)


@inner
def settle(table):
    """Bring every feature up to date and empty the log (only between epochs)."""
    for slot in range(table.clock[SEEN]):
        bring_up_to_date(
            table.rows, slot, table.clock[EPOCH], table.running, table.past, table.places, table.work[MOVED]
        )
        table.rows[slot, EPOCH_OF] = 0
    table.clock[EPOCH] = 0
    table.clock[CURRENT] = 1


def aligned_zeros(slots: int, width: int, dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    """A zero table whose rows start on cache lines."""
    per_line = 128 // dtype.itemsize  # pairs of lines travel together
    raw = np.zeros(slots * width + per_line, dtype=dtype)
    skip = (-raw.ctypes.data // dtype.itemsize) % per_line
    return raw[skip : skip + slots * width].reshape(slots, width)


def padded(width: int, lanes: int = LANES) -> int:
    """A width rounded up to whole vectors."""
    return -(-width // lanes) * lanes


def new_table(columns: int, k: int, dtype: np.dtype[np.floating]) -> Table:
    """An empty table for ``columns`` sketch columns, ``k`` of them subject to transforms."""
    width = padded(SKETCH + columns, 8)
    table = Table(
        rows=aligned_zeros(0, width, dtype),
        features=np.empty(0, dtype=np.int64),
        clock=np.array([0, 0, 0, 0, 1], dtype=np.int64),
        touched=np.empty(0, dtype=np.int32),
        running=np.zeros((RADIX * LEVELS, k, padded(k + 2))),
        past=np.zeros((0, k, padded(k + 2))),
        places=np.zeros(LEVELS, dtype=np.int64),
        work=np.zeros((4, width)),
    )
    return _with_log_room(table, 0)


def grown(table: Table, features: NDArray[np.int64], logs: bool) -> Table:
    """The table with a row for each of these features (the first ones being those it has)."""
    have = table.rows.shape[0]
    if features.size > have:
        size = max(features.size, have + have // 5, 16)
        rows = aligned_zeros(size, table.rows.shape[1], table.rows.dtype)
        rows[:have] = table.rows
        touched = np.zeros(size, dtype=np.int32)
        touched[:have] = table.touched
        table = table._replace(rows=rows, touched=touched)
        if logs:
            table = _with_log_room(table, size)
    return table._replace(features=features)


def _with_log_room(table: Table, slots: int) -> Table:
    """Room for as many epochs as this many slots may see between two settlements."""
    limit = epoch_limit.py_func(slots, table.running.shape[1])
    sizes = [RADIX * ((limit >> BITS * (level + 1)) + 1) for level in range(LEVELS)]
    places = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    past = np.zeros((sum(sizes), *table.past.shape[1:]))
    ends = np.append(table.places[1:], table.past.shape[0])
    for start, stop, target in zip(table.places, ends, places, strict=True):
        past[target : target + stop - start] = table.past[start:stop]
    return table._replace(past=past, places=places)


def saved(table: Table) -> Arrays:
    """The table as a model file keeps it: the rows in use and the log, as they are, nothing brought up to date."""
    clock, levels = table.clock, range(LEVELS)
    past = [table.past[table.places[level] :][: _past_units(int(clock[EPOCH]), level)] for level in levels]
    return {
        "rows": table.rows[: clock[SEEN]],
        "clock": clock,
        "touched": table.touched[: clock[TOUCHED]],
        "running": table.running,
        "past": np.concatenate(past),
    }


def filled(table: Table, arrays: Arrays, features: NDArray[np.int64], logs: bool) -> Table:
    """An empty table filled with what ``saved`` kept."""
    seen = features.size
    clock = take(arrays, "clock", np.int64, (5,))
    rows = take(arrays, "rows", table.rows.dtype, (seen, table.rows.shape[1]))
    require(bool((clock >= 0).all()) and clock[SEEN] == seen and clock[TOUCHED] <= seen, "its clock is impossible")
    epoch, epochs = int(clock[EPOCH]), rows[:, EPOCH_OF]
    require(epoch < max(epoch_limit.py_func(seen, table.running.shape[1]), 1), "too many epochs")
    require(bool(((epochs >= 0) & (epochs < epoch + 1)).all()), "a feature is of a future epoch")
    require(not clock[CURRENT] or bool((epochs >= epoch).all()), "a feature sleeps")
    touched = take(arrays, "touched", np.int32, (int(clock[TOUCHED]),))
    require(bool(((touched >= 0) & (touched < max(seen, 1))).all()), "a feature in the buffer is not there")
    table = grown(table, features, logs)
    table.rows[:seen] = rows
    table.touched[: touched.size] = touched
    table.clock[:] = clock
    table.running[:] = take(arrays, "running", np.float64, table.running.shape)
    units = [_past_units(epoch, level) for level in range(LEVELS)]
    past = take(arrays, "past", np.float64, (sum(units), *table.past.shape[1:]))
    for place, stop, count in zip(table.places, np.cumsum(units), units, strict=True):
        table.past[place : place + count] = past[stop - count : stop]
    return table


def _past_units(epoch: int, level: int) -> int:
    """How many past units of a level the log holds."""
    return RADIX * (epoch >> BITS * (level + 1))
