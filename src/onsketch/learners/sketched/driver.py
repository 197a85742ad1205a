"""The loop of all sketched learners: predict, take the slope, absorb a row, step.

The weights are ``w = base·head + Sᵀa``: the head has one number for each feature, S is the sketch, and a has one
coefficient for each row of S. The head and the rows of S are stored feature by feature, as packed rows (packed.py).

A round reads one packed row for each non-zero of x (``gather``), does algebra of the sketch's size, and writes the rows
back (``write``). Its cost depends on the non-zeros and the sketch size, not on the number of features. The index of a
feature in the table is its slot. An epoch ends when the sketch rotates its rows; features that are absent then catch up
when they next occur (epochs.py).

Each sketch has its own form of seven functions, chosen by the type of its state (parts.py):

============  ==================================================================================================
enter         add a feature that occurs for the first time
prepare       compute what metric and absorb need of Sx
metric        ``P x = c·x + Sᵀq`` for the current preconditioner P, from Sx and x·x; returns c
absorb        absorb the row ``ρ·x``, change a, and compute the change of the packed rows of x's features
write         add that change to the packed rows
follow_ridge  adapt to a raised ridge
measure       compute the small matrices from the packed rows, which are in float32
============  ==================================================================================================
"""

from __future__ import annotations

import numpy as np

from onsketch.core.state import copier
from onsketch.core.tolerances import CUTOFF, LARGEST
from onsketch.jit.decorators import inlined, inner, kernel
from onsketch.jit.vectors import dot, within
from onsketch.learners.clip import clipped, shortest_move
from onsketch.learners.sketched.epochs import bring_up_to_date, catch_up_if_due, close_epoch, is_due
from onsketch.learners.sketched.forgetting import write_fade
from onsketch.learners.sketched.implicit import implicit_gradient, leverage_of
from onsketch.learners.sketched.packed import CLOCK, COLUMN, SCRATCH
from onsketch.learners.sketched.parts import VERDICT, absorb, enter, follow_ridge, measure, prepare, write
from onsketch.learners.sketched.passes import gather, newest
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, State
from onsketch.learners.stages import slope_and_scale

FIRST_DIAGONAL = 0.1
"""D before any gradient, in luo2016's diagonal adaptation (its footnote 6)."""

CACHED = 1 << 16
"""Entries of a table that fits in the cache. In larger ones, the packed rows of an example are fetched while the one
before it is written."""


@inlined
def whole_rows(sketch):
    """The rows of S, rounded up to whole vectors: the small arrays, and a gathered row, have zeros there."""
    return (sketch.counts[COUNT.rows] + 3) // 4 * 4


@inlined
def margin_of(sketch, p):
    """w·x from the gathered row."""
    return sketch.numbers[NUMBER.base] * p[COLUMN.head] + dot(
        sketch.lines, LINE.a * sketch.lines.shape[1], p, COLUMN.sketch, whole_rows(sketch)
    )


@inner
def project(sketch, setup, p, square, margin, bound, q):
    """Move a so that |w·x| ≤ bound (clip.py); returns what to add to the head along x."""
    flat, leverage = leverage_of(setup, sketch, p, square, q)
    if leverage <= 0.0:
        return 0.0
    gamma = shortest_move(margin, bound, leverage)
    for i in range(sketch.counts[COUNT.rows]):
        sketch.lines[LINE.a, i] -= gamma * q[i]
    return -gamma * flat


@inlined
def count_iterate(sketch):
    """Add the iterate reached to the running sum of iterates."""
    for i in range(sketch.counts[COUNT.rows]):
        sketch.lines[LINE.a_sum, i] += sketch.lines[LINE.a, i]
    sketch.numbers[NUMBER.base_sum] += sketch.numbers[NUMBER.base]


_copy = copier(State, "m")


@inner
def copy_state(source, target):
    """Copy the parts of a sketch's small arrays that a round may change: those of its rows, and of one new row."""
    _copy(source, target, source.counts[COUNT.rows] + 1)


@inlined
def outgrown(setup, sketch, lengths, t):
    """Return True if t rows with this sum of squared lengths need a larger ridge."""
    return setup.share * lengths > t * sketch.numbers[NUMBER.ridge]


@inner
def raise_ridge(setup, sketch, spare, guarded, lengths, t):
    """Raise the ridge to twice what the rows need, so that this is rare; the old one is kept for undoing."""
    if not guarded:
        copy_state(sketch, spare)
    sketch.numbers[NUMBER.ridge] = 2.0 * setup.share * lengths / t
    follow_ridge(setup, sketch)


@inlined
def harmless(setup, sketch, largest, margin, p, g, rho):
    """Return True if a round stays far from the limits of floating point, so that it need not be undone.

    The ridge bounds a step, unless the sketch is about to shrink or Oja's directions are still being gathered. What a
    round writes is at most a product of five numbers that are compared here.
    """
    n = sketch.counts[COUNT.rows]
    safe = setup.safe * min(sketch.numbers[NUMBER.ridge], 1.0)
    if sketch.counts[COUNT.column] < 0:
        if sketch.counts[COUNT.rank] < n or not within(p, COLUMN.sketch, whole_rows(sketch), safe):
            return False
    elif n + 1 >= setup.capacity:
        return False
    if not within(sketch.lines, LINE.a * sketch.lines.shape[1], whole_rows(sketch), safe):
        return False
    reach = largest * max(setup.step, 1.0)
    bounded = abs(margin) * reach < safe and max(abs(g), abs(rho)) * reach < safe  # NaN is not
    return bounded and abs(g) <= setup.safe * abs(rho)


@inner
def fits(sketch, change, limit, verdict):
    """Return True if every number that a round is about to write is within bounds."""
    top = max(abs(change[COLUMN.head]), abs(sketch.numbers[NUMBER.base]))
    if sketch.counts[COUNT.column] > 0:
        top = max(top, abs(change[sketch.counts[COUNT.column]]))
    if not within(sketch.lines, LINE.a * sketch.lines.shape[1], whole_rows(sketch), limit):
        return False
    if sketch.counts[COUNT.column] < 0 and not within(change, COLUMN.sketch, whole_rows(sketch), limit):
        return False
    if verdict == VERDICT.full:
        for i in range(sketch.counts[COUNT.closed]):
            for c in range(sketch.transform.shape[1]):
                if not abs(sketch.transform[i, c]) <= LARGEST * LARGEST:
                    return False
    return top <= limit


@inlined
def clear(line):
    """Zeros."""
    for c in range(line.size):
        line[c] = 0.0


@inlined
def adapt(rows, here, values, row):
    """Diagonal adaptation: fills ``row`` with D^{-1/2}x, and returns the largest entry of x."""
    tallest = 0.0
    for j in range(here.size):
        row[j] = values[j] / np.sqrt(FIRST_DIAGONAL + rows[here[j], COLUMN.diagonal])
        tallest = max(tallest, abs(values[j]))
    return tallest


@inlined
def adapt_first(rows, here, values, g, row):
    """Scale the row by the diagonal D that includes this row's gradient."""
    for j in range(here.size):
        squares = rows[here[j], COLUMN.diagonal] + (g * values[j]) ** 2
        row[j] = values[j] / np.sqrt(FIRST_DIAGONAL + squares)


@inlined
def add_squares(setup, rows, here, values, g):
    """Add a gradient to the diagonal D, if there is one."""
    if not setup.diagonal:
        return
    for j in range(here.size):
        rows[here[j], COLUMN.diagonal] += (g * values[j]) ** 2


@inlined
def meet(setup, table, sketch, here, row, top):
    """Add new features up to the slot ``top``; return the contribution of their rows of S to w·x."""
    epoch = table.clock[CLOCK.epoch]
    seen = table.clock[CLOCK.seen]
    fresh = 0.0
    j = 0
    while seen <= top:
        slot = np.int64(here[j])
        if slot >= seen:  # slots are given in order of appearance
            table.rows[slot, COLUMN.epoch] = epoch
            seen = slot + 1
            table.clock[CLOCK.seen] = seen
            fresh += row[j] * enter(setup, table, sketch, slot)
        j += 1
    return fresh


@inlined
def wake(table, here, out):
    """Bring the features of a row up to date."""
    epoch = table.clock[CLOCK.epoch]
    for j in range(here.size):
        slot = np.int64(here[j])
        if table.rows[slot, COLUMN.epoch] < epoch:
            bring_up_to_date(table.rows, slot, epoch, table.running, table.past, out)


@inlined
def close_full(setup, table, sketch):
    """Finish a shrink: apply forgetting to the sketch, and log the rotation for features that occur later."""
    if sketch.numbers[NUMBER.fade] < 1.0:
        write_fade(setup, sketch)
    close_epoch(table, sketch.transform, sketch.counts[COUNT.closed], table.running.shape[1])


@inlined
def unsee(table, known):
    """Forget the features that only a refused row has had."""
    for slot in range(known, table.clock[CLOCK.seen]):
        clear(table.rows[slot])
    table.clock[CLOCK.seen] = known


@kernel
def learn_rows(setup, table, sketch, spare, indptr, slots, values, x, labels, weights, predictions):
    """Learn a block of rows, one round each, and return how many were learned.

    Fewer rows than given are learned if an update would not be finite. The state is then as it was before that row.

    Shapes: indptr (n+1,), slots and values (nnz,), labels, weights and predictions (n,); ``x`` (nnz,) receives the
    values after diagonal adaptation, and is ``values`` itself without it. If there are fewer slots than values, all
    rows have the same slots: those of dense rows without zeros. ``spare`` is a second set of the sketch's small arrays,
    the snapshot of a round that may not be finite. Cost: O(m) for each non-zero and O(m²) for a row, plus O(m³) when
    the sketch is full.
    """
    rows = table.rows
    p = table.work[SCRATCH.gathered]
    q = table.work[SCRATCH.along]
    change = table.work[SCRATCH.change]
    out = table.work[SCRATCH.moved]
    clear(change)
    repeated = slots.size < values.size
    ahead = rows.size > CACHED and not repeated
    for i in range(indptr.size - 1):
        low = indptr[i]
        high = indptr[i + 1]
        count = high - low
        here = slots if repeated else slots[low:high]
        row = x[low:high]
        guarded = False
        known = table.clock[CLOCK.seen]
        tallest = 0.0
        # 1 Gather: p = [head·x, Sx] in one pass over the packed rows of x's features, which are first entered and
        # brought up to date.
        if setup.diagonal:
            tallest = adapt(rows, here, values[low:high], row)
        behind = not table.clock[CLOCK.current]
        top = newest(here) if i == 0 or not repeated else known - 1
        if top >= known and sketch.counts[COUNT.column] < 0:  # entering changes these sketches
            copy_state(sketch, spare)
            guarded = True
        fresh = meet(setup, table, sketch, here, row, top)
        if behind:
            wake(table, here, out)
        square = gather(rows, here, row, 0, count, COLUMN.sketch + sketch.counts[COUNT.rows], p)
        largest = max(1.0, np.sqrt(square))
        # 2 Predict: the margin before the update, clipped.
        reached = margin_of(sketch, p) - fresh
        margin = clipped(reached, setup.clip)
        # 3 Slope and curvature of the loss there: the gradient is g·x, and the row to absorb is ρ·x.
        t = table.clock[CLOCK.rounds] + 1
        slope, rho = slope_and_scale(setup, margin, labels[i], weights[i], t)
        fade = sketch.numbers[NUMBER.fade]
        rho /= np.sqrt(fade)
        g = weights[i] * slope / fade
        if setup.diagonal_first:
            adapt_first(rows, here, values[low:high], fade * g, row)
            square = gather(rows, here, row, 0, count, COLUMN.sketch + sketch.counts[COUNT.rows], p)
        lengths = sketch.numbers[NUMBER.lengths] + square
        if outgrown(setup, sketch, lengths, t):
            raise_ridge(setup, sketch, spare, guarded, lengths, t)
            guarded = True
        limit = setup.largest / largest
        fit = abs(reached) <= limit and abs(g) * tallest <= setup.steepest
        if not guarded and (setup.implicit or not (fit and harmless(setup, sketch, largest, reached, p, g, rho))):
            copy_state(sketch, spare)
            guarded = True
        # 4 Absorb: project, step and absorb ρ·x. Only the small arrays change; ``change`` is for the packed rows.
        prepare(setup, sketch, p)
        change[COLUMN.head] = 0.0
        change[COLUMN.sum] = 0.0
        bound = min(setup.clip, setup.reach) if rho == 0.0 else setup.clip  # without a row there is no step to stop
        if abs(reached) > bound and not (setup.dual or setup.diagonal_first):
            change[COLUMN.head] = project(sketch, setup, p, square, reached, bound, q)
            p[COLUMN.head] += change[COLUMN.head] * square
        if setup.implicit:
            g, rho = implicit_gradient(setup, sketch, p, square, margin, labels[i], weights[i], t, q)
        verdict = VERDICT.refused
        if fit and max(abs(g), abs(rho), abs(change[COLUMN.head])) <= limit:
            verdict = absorb(setup, sketch, p, square, rho, g, clipped(reached, bound), t, change, limit)
        # 5 Check: no packed row has been written yet, so restoring the snapshot undoes the round.
        if verdict == VERDICT.refused or not fits(sketch, change, limit, verdict):
            copy_state(spare, sketch)
            unsee(table, known)
            return i
        # 6 Write: the packed rows of x's features. If the sketch has shrunk, others follow when they next occur.
        predictions[i] = margin
        sketch.numbers[NUMBER.lengths] = lengths
        change[COLUMN.sum] -= sketch.numbers[NUMBER.base_sum] * change[COLUMN.head]
        if verdict == VERDICT.full_before:
            close_epoch(table, sketch.transform, sketch.counts[COUNT.closed], table.running.shape[1])
            wake(table, here, out)
        following = slots[high : indptr[i + 2]] if ahead and i + 2 < indptr.size else slots[:0]
        write(table, sketch, here, row, change, following)
        add_squares(setup, rows, here, values[low:high], fade * g)
        if verdict == VERDICT.full:
            close_full(setup, table, sketch)
        elif behind:
            catch_up_if_due(table, count)
        if setup.resolution > CUTOFF and is_due(table, count):
            measure(setup, table, sketch)
        # 7 Count: the round, and the iterate for averaging.
        sketch.numbers[NUMBER.fade] *= setup.forget
        if setup.average:
            count_iterate(sketch)
        table.clock[CLOCK.rounds] = t
    return indptr.size - 1
