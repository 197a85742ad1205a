"""Diagonal steps in which absent features move too: with composite terms, and for averages of iterates.

Updates of a feature in rounds without it are deferred, and applied in closed form when the feature next occurs. A round
costs O(non-zeros), and the results equal those of the dense algorithm, in which every round moves every weight.

Mirror descent with l1 and l2 maps the size m of such a weight in every round to ``m ← max(m − l1·η, 0)/(1 + l2·η)``
with η = step/H, which is constant while the feature does not occur. This map fixes the point −l1/l2. So after k rounds,
with ``κ = l2·η`` and as long as m stays above 0,

    m_k = (m + l1/l2)·(1+κ)^{−k} − l1/l2
    Σ_{i≤k} m_i = k·m − η·(l1 + l2·m)·Σ_{i≤k} Σ_{j≤i} (1+κ)^{−j}

In two cases the weights of absent features move differently in every round: in online gradient descent with l1 or l2,
where η = step/√t, and in averages of dual averaging. There every round updates all features seen.

Stamps count rounds from the last time when all features were brought up to date.
"""

from __future__ import annotations

import math

import numpy as np

from onsketch.core.geometry import GRADIENT
from onsketch.jit.decorators import allocating_kernel, exact_inlined, inner, kernel
from onsketch.learners.first_order.steps import CELL, TIMER, dual_weight, flat_part, longest, metric_at, play, proximal

LONGEST_DELAY = 1 << 23
"""Rounds after which all features are brought up to date: float32 counts up to here without a gap."""


@exact_inlined
def longest_delay(setup, terms):
    """Return the number of rounds for which updates of a feature may be deferred."""
    changing = setup.dual or (setup.geometry == GRADIENT and (terms.l1 > 0.0 or terms.l2 > 0.0))
    return 1 if changing else LONGEST_DELAY


@exact_inlined
def _twice_summed(kappa, n):
    """``Σ_{k≤n} Σ_{i≤k} (1+κ)^{−i}``."""
    if kappa * (n + 2.0) > 0.1:
        return (n + math.expm1(-n * math.log1p(kappa)) / kappa) / kappa
    term = 0.5 * n * (n + 1.0)
    total = 0.0
    k = 3.0
    while abs(term) > 1e-17 * total:
        total += term
        term *= -kappa * (n + k - 1.0) / k
        k += 1.0
    return total


@exact_inlined
def shrunk(l1, l2, eta, m, n, summed):
    """A weight of size m after n rounds of a constant η, and (``summed``) the sum of its sizes on the way."""
    if l2 == 0.0:
        left = m - l1 * eta * n
    else:
        x = n * math.log1p(l2 * eta)
        fall = math.expm1(-x)
        left = m * (1.0 + fall if x < 0.5 else math.exp(-x)) + l1 * fall / l2
    alive = n
    if left <= 0.0 and l1 > 0.0:
        left = 0.0
        life = m / (l1 * eta) if l2 == 0.0 else math.log1p(m * l2 / l1) / math.log1p(l2 * eta)
        alive = min(n, np.floor(life))
    if not summed:
        return left, 0.0
    pulls = 0.5 * alive * (alive + 1.0) if l2 == 0.0 else _twice_summed(l2 * eta, alive)
    return left, alive * m - (l1 + l2 * m) * eta * pulls


@exact_inlined
def wake(setup, terms, start, now, head, energy, stamp):
    """Return the head of a feature that slept from its stamp until ``now``, and what to add to its sum of iterates.

    Both are rounds counted from ``start``.
    """
    stamp = int(stamp)
    if stamp == now or head == 0.0:
        return head, 0.0
    if not setup.dual and terms.l1 == 0.0 and terms.l2 == 0.0:
        return head, head * (now - stamp) if setup.average else 0.0
    metric = metric_at(setup, terms, flat_part(setup, terms, start + now), energy)
    if setup.dual:  # it slept for one round
        return head, dual_weight(setup, terms, head, metric, start + now)
    left, total = shrunk(terms.l1, terms.l2, setup.step / metric, abs(head), float(now - stamp), setup.average)
    return math.copysign(left, head), math.copysign(total, head)


@kernel
def settle(setup, terms, clock, table):
    """Bring all features up to date."""
    start = clock[TIMER.start]
    now = clock[TIMER.rounds] - start
    for slot in range(table.shape[0]):
        row = table[slot]
        w = np.float64(row[CELL.head])
        row[CELL.head], more = wake(setup, terms, start, now, w, row[CELL.energy], row[CELL.stamp])
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
def learn_lazily(setup, terms, clock, table, indptr, slots, values, labels, weights, predictions):
    """As ``learn_steps``, for rounds in which absent features move.

    Shapes: table (slots, 4), the others as in ``learn_steps``. Cost: O(non-zeros), or O(features seen) in every
    ``longest_delay`` rounds.
    """
    head = np.empty(longest(indptr))
    energy = np.empty(head.size)
    total = np.empty(head.size)
    delay = longest_delay(setup, terms)
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
                w, more = wake(setup, terms, start, now, w, energy[j], table[slot, CELL.stamp])
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
        # 7 Count the round. If features must not wait longer, bring all of them up to date.
        clock[TIMER.rounds] = t
        if now + 1 == delay:
            settle(setup, terms, clock, table)
    return indptr.size - 1


@kernel
def read_lazily(setup, terms, clock, table, indptr, slots, out):
    """Write the weights of the slots of rows that end at ``indptr``, or their mean over the rounds."""
    rounds = max(clock[TIMER.rounds], 1)
    flat = flat_part(setup, terms, rounds)
    start = clock[TIMER.start]
    now = clock[TIMER.rounds] - start
    for i in range(indptr[indptr.size - 1]):
        row = table[slots[i]]
        head, more = wake(setup, terms, start, now, np.float64(row[CELL.head]), row[CELL.energy], row[CELL.stamp])
        if setup.average:
            out[i] = (row[CELL.total] + more) / rounds
        elif setup.dual:
            out[i] = dual_weight(setup, terms, head, metric_at(setup, terms, flat, row[CELL.energy]), rounds)
        else:
            out[i] = head
