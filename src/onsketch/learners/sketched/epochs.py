"""Deferred rotations: transforms of all sketch rows, applied to a feature when it next occurs.

From time to time a sketch rotates all its rows, ``S ← N S`` (a shrink of frequent directions, a change of basis in
Oja's sketch), and folds ``Sᵀa`` into the head. That would touch every feature seen. Instead the transform

    head += s·a,   sum += s·b,   s ← N s

is logged once per *epoch* and applied to a feature when it next occurs. Transforms compose, ``(a₁,b₁,N₁)`` then
``(a₂,b₂,N₂)`` being ``(a₁+N₁ᵀa₂, b₁+N₁ᵀb₂, N₂N₁)``. Written in base 16, epochs have digits, and the log keeps the
products that an absent feature needs: from the start of each unit of 16^l epochs in the current block of 16^{l+1} to
now (``running``), and from each past unit to the end of its block (``past``). A feature absent within the block needs
one product, one absent for n epochs O(log n). No inverse is needed.
"""

from __future__ import annotations

import numpy as np

from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import add, load, spread, store, times, where_less
from onsketch.learners.sketched.packed import (
    BITS,
    CLOCK,
    COLUMN,
    LEVELS,
    RADIX,
    SCRATCH,
    epoch_limit,
    further_heads,
    place_of,
)
from onsketch.learners.sketched.state import LINE, NUMBER

TINY = 1e-140
"""Sketch entries below this become zero: shrinks make old directions tiny, and arithmetic on denormals is slow."""

PATIENCE = 4
"""Non-zeros per feature, read without the end of an epoch, before all features are brought up to date."""

DUE = 512
"""Non-zeros per feature, met between two computations of the small matrices from rows in float32."""


@inlined
def _without_tiny(entries):
    """Replace tiny numbers among four by 0."""
    large = where_less(spread(TINY, 4), entries, entries, spread(0.0, 4))
    return where_less(entries, spread(-TINY, 4), entries, large)


@inlined
def write_turned(rows, slot, k, entry, out):
    """Write a transformed row: its k sketch entries, and its contributions to the heads, of a log entry's width."""
    start = slot * rows.shape[1] + COLUMN.sketch
    rows[slot, COLUMN.head] += out[k]
    rows[slot, COLUMN.sum] += out[k + 1]
    c = 0
    while c + 4 <= k:
        store(rows, start + c, _without_tiny(load(out, c, 4)))
        c += 4
    while c < k:
        rows[slot, COLUMN.sketch + c] = out[c] if abs(out[c]) > TINY else 0.0
        c += 1
    more = further_heads(k, entry)
    if more > 0:
        add(rows, start + k, 1.0, out, entry - more, more)


@inlined
def _apply(rows, slot, k, products, index, out):
    """Apply a logged transform to a packed row (without buffer rows)."""
    width = products.shape[2]
    times(rows, slot * rows.shape[1] + COLUMN.sketch, k, products, index * k * width, width, out)
    write_turned(rows, slot, k, width, out)


@inner
def bring_up_to_date(rows, slot, epoch, running, past, out):
    """Apply to one packed row the transforms logged since its epoch; ``out`` is scratch of the log's width."""
    k = running.shape[1]
    at = int(rows[slot, COLUMN.epoch])
    level = 0
    shift = 0
    while at < epoch:
        digit = (at >> shift) & (RADIX - 1)
        if at >> (shift + BITS) == epoch >> (shift + BITS):
            while at >> shift == epoch >> shift:  # the unit is incomplete; use its parts, one level down
                level -= 1
                shift -= BITS
                digit = 0
            _apply(rows, slot, k, running, RADIX * level + digit, out)
            at = epoch
        elif digit != 0:
            _apply(rows, slot, k, past, place_of(level, at >> shift), out)
            at += (RADIX - digit) << shift
        level += 1
        shift += BITS
    rows[slot, COLUMN.epoch] = epoch


@inner
def _compose(products, index, transform, out):
    """Multiply a logged product by one more transform."""
    k = products.shape[1]
    width = products.shape[2]
    for j in range(k):
        times(products, (index * k + j) * width, k, transform, 0, width, out)
        out[k] += products[index, j, k]
        out[k + 1] += products[index, j, k + 1]
        more = further_heads(k, width)
        add(out, width - more, 1.0, products, (index * k + j) * width + width - more, more)
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
    epoch = table.clock[CLOCK.epoch]
    for level in range(LEVELS):
        for unit in range((epoch >> BITS * level) & (RADIX - 1)):
            _compose(table.running, RADIX * level + unit, transform, out)
    _copy(transform, table.running, epoch & (RADIX - 1))
    epoch += 1
    table.clock[CLOCK.epoch] = epoch
    level = 0
    # a complete block moves to ``past``, and becomes a unit one level up
    while epoch & ((RADIX << BITS * level) - 1) == 0:
        first = place_of(level, (epoch >> BITS * level) - RADIX)
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
    out = table.work[SCRATCH.moved]
    for i in range(clock[CLOCK.touched]):
        slot = np.int64(table.touched[i])
        filled = 0
        for j in range(k, n):
            filled += rows[slot, COLUMN.sketch + j] != 0.0
        start = slot * rows.shape[1] + COLUMN.sketch
        if 4 * filled > n - k:
            times(rows, start, n, transform, 0, width, out)
        else:  # a rare feature has one or two rows in the buffer
            times(rows, start, k, transform, 0, width, out)
            for j in range(k, n):
                s = rows[slot, COLUMN.sketch + j]
                if s != 0.0:
                    for c in range(width):
                        out[c] += s * transform[j, c]
        for j in range(k, n):
            rows[slot, COLUMN.sketch + j] = 0.0
        write_turned(rows, slot, k, width, out)
        rows[slot, COLUMN.epoch] = clock[CLOCK.epoch] + 1
    clock[CLOCK.current] = clock[CLOCK.touched] == clock[CLOCK.seen]
    clock[CLOCK.touched] = 0
    clock[CLOCK.met] = 0
    _log(table, transform, out)
    size = clock[CLOCK.seen] * rows.shape[1] * rows.itemsize
    if clock[CLOCK.epoch] >= epoch_limit(size, k, further_heads(k, width)):
        settle(table)


@inlined
def catch_up_if_due(table, count):
    """Count non-zeros while some features are behind; if no epoch has ended for long, bring all up to date.

    Rows then need not check epochs. The cost, once an epoch, is about that of reading the counted non-zeros.
    """
    clock = table.clock
    clock[CLOCK.met] += count
    if clock[CLOCK.met] > PATIENCE * clock[CLOCK.seen] and clock[CLOCK.touched] == 0:
        settle(table)


@inner
def settle(table):
    """Bring every feature up to date and empty the log (only between epochs)."""
    for slot in range(table.clock[CLOCK.seen]):
        bring_up_to_date(
            table.rows,
            slot,
            table.clock[CLOCK.epoch],
            table.running,
            table.past,
            table.work[SCRATCH.moved],
        )
        table.rows[slot, COLUMN.epoch] = 0
    table.clock[CLOCK.epoch] = 0
    table.clock[CLOCK.current] = 1


@inlined
def is_due(table, count):
    """Count non-zeros met; returns True when the small matrices are to be computed from the rows again.

    All features are up to date then. Such a computation costs about a hundredth of the rounds since the last one.
    """
    clock = table.clock
    clock[CLOCK.unmeasured] += count
    if clock[CLOCK.touched] > 0 or clock[CLOCK.unmeasured] <= DUE * clock[CLOCK.seen]:
        return False
    clock[CLOCK.unmeasured] = 0
    settle(table)
    return True


@inlined
def fold_coefficients(setup, sketch, n, kept):
    """Complete the transform of n rows to ``kept``: what their coefficients give to the head and the sum of iterates.

    They begin again from zero; those of dual averaging are of the new rows already.
    """
    a = sketch.lines[LINE.a]
    a_sum = sketch.lines[LINE.a_sum]
    for i in range(n):
        if setup.dual:
            sketch.transform[i, kept] = 0.0
            sketch.transform[i, kept + 1] = a_sum[i]
        else:
            sketch.transform[i, kept] = a[i]
            sketch.transform[i, kept + 1] = a_sum[i] - sketch.numbers[NUMBER.base_sum] * a[i]
        if i >= kept or not setup.dual:
            a[i] = 0.0
        a_sum[i] = 0.0


@inlined
def turn_line(transform, n, kept, line, start, turned):
    """Replace products with the n old rows, in ``line`` from ``start`` on, by those with the ``kept`` new rows.

    ``turned`` is scratch for ``kept`` numbers.
    """
    for e in range(kept):
        turned[e] = 0.0
    for i in range(n):
        for e in range(kept):
            turned[e] += transform[i, e] * line[start + i]
    for e in range(kept):
        line[start + e] = turned[e]
