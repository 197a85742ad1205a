"""Diagonal steps in which absent features move too: with composite terms, and for averages of iterates.

Updates of a feature in rounds without it are deferred. They are applied in closed form (``first_order.sleep``)
when the feature next occurs. A round costs O(non-zeros), and the results equal those of the dense algorithm, in
which every round moves every weight.

Stamps count rounds from the beginning of a window. When a window is full, or its numbers have grown so large
that differences would lose digits, all features are brought up to date and a new window begins.
"""

from __future__ import annotations

import math

import numpy as np

from onsketch.core.geometry import GRADIENT
from onsketch.jit.decorators import allocating_kernel, exact_inlined, inner, kernel
from onsketch.learners.first_order.sleep import (
    AVERAGING,
    MIRROR,
    dual_total,
    dual_total_in_window,
    shrunk,
    shrunk_in_window,
)
from onsketch.learners.first_order.steps import CELL, TIMER, dual_weight, flat_part, longest, metric_at, play, proximal

WINDOW = 1 << 14
"""Rounds in a window of online gradient descent."""
LONGEST_SLEEP = 1 << 23
"""Rounds in a window of the others: float32 counts up to here without a gap."""
LARGEST_GROWTH = 4096.0
"""G at which a window ends early."""


@exact_inlined
def wake(setup, terms, window, start, now, head, energy, stamp):
    """The head of a feature that slept from its stamp until ``now``, and what to add to its sum of iterates.

    Both are rounds counted from ``start``, the beginning of the window.
    """
    stamp = int(stamp)
    if stamp == now or head == 0.0:
        return head, 0.0
    size = abs(head)
    flat = setup.geometry == GRADIENT
    if setup.dual:
        if not setup.average:
            return head, 0.0
        bound = terms.high if head < 0.0 else -terms.low
        if flat:
            total = dual_total_in_window(terms, setup.step, window, start, size, bound, stamp, now)
        else:
            metric = metric_at(setup, terms, terms.flat, energy)
            total = dual_total(terms, setup.step, metric, size, bound, start + stamp, start + now)
        return head, math.copysign(total, -head)
    if terms.l1 == 0.0 and terms.l2 == 0.0:
        return head, head * (now - stamp) if setup.average else 0.0
    if flat:
        left, total = shrunk_in_window(terms.l1, terms.l2, window, stamp, now, size, setup.average)
    else:
        eta = setup.step / metric_at(setup, terms, terms.flat, energy)
        left, total = shrunk(terms.l1, terms.l2, eta, size, float(now - stamp), setup.average)
    return math.copysign(left, head), math.copysign(total, head)


@exact_inlined
def _extend(setup, terms, window, k, t):
    """Write the entry of round t, the k-th of its window; returns whether the window must end here."""
    if k == LONGEST_SLEEP:
        return True
    if window.shape[0] == 1:
        return False
    if setup.dual:
        each = 1.0 / (math.sqrt(t) + setup.step * terms.l2 * t)
        window[k, AVERAGING.share] = window[k - 1, AVERAGING.share] + each
        window[k, AVERAGING.time] = window[k - 1, AVERAGING.time] + t * each
        return k + 1 == window.shape[0]
    eta = setup.step / math.sqrt(t)
    window[k, MIRROR.growth] = window[k - 1, MIRROR.growth] * (1.0 + terms.l2 * eta)
    window[k, MIRROR.pull] = window[k - 1, MIRROR.pull] + eta / window[k, MIRROR.growth]
    window[k, MIRROR.pulls] = window[k - 1, MIRROR.pulls] + window[k, MIRROR.pull]
    return k + 1 == window.shape[0] or window[k, MIRROR.growth] > LARGEST_GROWTH


@kernel
def settle(setup, terms, clock, window, table):
    """Bring all features up to date and begin a new window."""
    start = clock[TIMER.start]
    now = clock[TIMER.rounds] - start
    for slot in range(table.shape[0]):
        row = table[slot]
        w = np.float64(row[CELL.head])
        row[CELL.head], more = wake(setup, terms, window, start, now, w, row[CELL.energy], row[CELL.stamp])
        row[CELL.total] += more
        row[CELL.stamp] = 0
    clock[TIMER.start] = clock[TIMER.rounds]


@inner
def finish(setup, terms, t, x, head, energy, total):
    """The proximal part of the step, and the new iterate added to the sum."""
    flat = flat_part(setup, terms, t)
    for j in range(x.size):
        metric = metric_at(setup, terms, flat, energy[j])
        if setup.dual:
            w = dual_weight(setup, terms, head[j], metric, t)
        else:
            w = proximal(terms, head[j], metric, setup.step)
            head[j] = w
        total[j] += w if setup.average else 0.0


@allocating_kernel
def learn_lazily(setup, terms, clock, window, table, indptr, slots, values, labels, weights, predictions):
    """As ``learn_steps``, for rounds in which absent features move.

    Shapes: window (rounds of a window, 3) or (1, 3), table (slots, 4), the others as in ``learn_steps``. Stamps in the
    table are rounds counted from the beginning of the window.
    """
    head = np.empty(longest(indptr))
    energy = np.empty(head.size)
    total = np.empty(head.size)
    for i in range(indptr.size - 1):
        x = values[indptr[i] : indptr[i + 1]]
        at = slots[indptr[i] : indptr[i + 1]]
        t = clock[TIMER.rounds] + 1
        start = clock[TIMER.start]
        now = t - 1 - start
        # 1 Gather the cells of x's features, bring them up to date, and 2 predict.
        flat = flat_part(setup, terms, max(t - 1, 1))
        margin = 0.0
        for j in range(x.size):
            slot = np.uint32(at[j])
            w = np.float64(table[slot, CELL.head])
            energy[j] = table[slot, CELL.energy]
            total[j] = table[slot, CELL.total]
            if w != 0.0 and table[slot, CELL.stamp] != now:
                w, more = wake(setup, terms, window, start, now, w, energy[j], table[slot, CELL.stamp])
                total[j] += more
            head[j] = w
            if setup.dual:
                w = dual_weight(setup, terms, w, metric_at(setup, terms, flat, energy[j]), t - 1)
            margin += w * x[j]
        # 3 Slope, 4 absorb: the step and its proximal part, on the gathered copies.
        predictions[i], fit = play(setup, terms, t, x, head, energy, margin, labels[i], weights[i])
        # 5 Check: the table has not been written.
        if not fit:
            return i
        finish(setup, terms, t, x, head, energy, total)
        # 6 Write the cells back.
        for j in range(x.size):
            slot = np.uint32(at[j])
            table[slot, CELL.head] = head[j]
            table[slot, CELL.energy] = energy[j]
            table[slot, CELL.total] = total[j]
            table[slot, CELL.stamp] = now + 1
        # 7 Count the round; at the end of a window bring all features up to date.
        clock[TIMER.rounds] = t
        if _extend(setup, terms, window, now + 1, t):
            settle(setup, terms, clock, window, table)
    return indptr.size - 1


@kernel
def read_lazily(setup, terms, clock, window, table, indptr, slots, out):
    """Write the weights of the slots of rows that end at ``indptr``, or their mean over the rounds."""
    rounds = max(clock[TIMER.rounds], 1)
    flat = flat_part(setup, terms, rounds)
    start = clock[TIMER.start]
    now = clock[TIMER.rounds] - start
    for i in range(indptr[indptr.size - 1]):
        row = table[slots[i]]
        head, more = wake(
            setup, terms, window, start, now, np.float64(row[CELL.head]), row[CELL.energy], row[CELL.stamp]
        )
        if setup.average:
            out[i] = (row[CELL.total] + more) / rounds
        elif setup.dual:
            out[i] = dual_weight(setup, terms, head, metric_at(setup, terms, flat, row[CELL.energy]), rounds)
        else:
            out[i] = head
