"""Learners whose rule is not a step in a metric: Adam, FTRL-proximal and AROW. A clip clamps their predictions.

A round reads the packed rows of its non-zeros, computes, and writes them back if the result is finite.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onsketch.core import losses
from onsketch.core.tolerances import LARGEST
from onsketch.jit.decorators import allocating_kernel, inlined, inner, kernel
from onsketch.learners.clip import clipped
from onsketch.learners.first_order.steps import CELL, TIMER, longest


class AdamCells(NamedTuple):
    """Columns of Adam's packed rows."""

    head: int
    """the weight"""
    first: int
    """m"""
    second: int
    """v"""
    sum: int
    """the sum of iterates"""


ADAM = AdamCells(*range(4))

_NOTHING = 1e-280
"""A moment that has decayed to this counts as zero: below it, arithmetic becomes very slow."""


@inner
def clamped_slope(setup, margin, label):
    """The clamped prediction and the loss's slope there."""
    margin = clipped(margin, setup.clip)
    return margin, losses.slope(setup.loss, margin, label)


@inlined
def _move_all(terms, table, seen, step, scale):
    """Step all features seen as if the row had none of them: moments decay, and weights move by them."""
    for slot in range(seen):
        m = terms.beta1 * table[slot, ADAM.first]
        v = terms.beta2 * table[slot, ADAM.second]
        m = m if abs(m) > _NOTHING else 0.0
        v = v if v > _NOTHING else 0.0
        table[slot, ADAM.first] = m
        table[slot, ADAM.second] = v
        table[slot, CELL.head] -= step * m / (math.sqrt(scale * v) + terms.ridge)


@inlined
def _count_iterates(table, seen):
    """Add the weights to their sums."""
    for slot in range(seen):
        table[slot, ADAM.sum] += table[slot, CELL.head]


@allocating_kernel
def learn_adam(setup, terms, lazy, clock, table, indptr, slots, values, labels, weights, predictions):
    """Adam (Kingma and Ba 2015, Alg. 1), with ε = ridge.

    ``m = β₁m + (1−β₁)g``, ``v = β₂v + (1−β₂)g²``, ``w −= step·m̂/(√v̂ + ε)``, m̂ = m/(1−β₁ᵗ), v̂ = v/(1−β₂ᵗ).

    As published every feature moves in every round, O(features seen); features not seen yet have no moments,
    and stay at 0. Lazily only the features of the row move, and only their moments decay, O(non-zeros).

    Shapes: table (slots, columns of ADAM), indptr (n+1,), slots and values (nnz,), labels, weights, predictions (n,).
    Returns the number of rows learned: fewer if an update is not finite.
    """
    b1 = terms.beta1
    b2 = terms.beta2
    gain = max(1.0, setup.step / terms.ridge) * 1e12  # bounds the distance that a gradient may ever cause
    size = longest(indptr)
    head = np.empty(size)
    first = np.empty(size)
    second = np.empty(size)
    for i in range(indptr.size - 1):
        x = values[indptr[i] : indptr[i + 1]]
        at = slots[indptr[i] : indptr[i + 1]]
        t = clock[TIMER.rounds] + 1
        seen = clock[TIMER.seen]
        # 1 Gather the weights of x's features, and 2 predict.
        margin = 0.0
        for j in range(x.size):
            head[j] = table[at[j], CELL.head]
            margin += head[j] * x[j]
            seen = max(seen, at[j] + 1)
        if not abs(margin) <= LARGEST:
            return i
        # 3 Slope, and 4 absorb: the moments, on copies.
        predictions[i], slope = clamped_slope(setup, margin, labels[i])
        unfit = 0
        for j in range(x.size):
            g = weights[i] * slope * x[j]
            first[j] = b1 * table[at[j], ADAM.first] + (1.0 - b1) * g
            second[j] = b2 * table[at[j], ADAM.second] + (1.0 - b2) * g * g
            unfit += not (abs(g) * gain <= terms.largest and second[j] <= terms.most)
        # 5 Check: the table has not been written.
        if unfit > 0:
            return i
        # 6 Write: every feature as published, those of the row if lazy.
        step = setup.step / (1.0 - b1**t)
        scale = 1.0 / (1.0 - b2**t)
        if not lazy:
            _move_all(terms, table, seen, step, scale)
        for j in range(x.size):
            slot = at[j]
            move = step * first[j] / (math.sqrt(scale * second[j]) + terms.ridge)
            table[slot, CELL.head] = head[j] - move
            table[slot, ADAM.first] = first[j]
            table[slot, ADAM.second] = second[j]
            if lazy:
                table[slot, ADAM.sum] += (t - 1) * move
        # 7 Count the iterate and the round.
        if setup.average and not lazy:
            _count_iterates(table, seen)
        clock[TIMER.rounds] = t
        clock[TIMER.seen] = seen
    return indptr.size - 1


@inner
def ftrl_weight(setup, terms, z, n):
    """``−(z − sign(z)·l1)/((ridge + √n)/step + l2)`` where |z| > l1, else 0."""
    size = max(abs(z) - terms.l1, 0.0) / ((terms.ridge + math.sqrt(n)) / setup.step + terms.l2)
    return math.copysign(size, -z)


@allocating_kernel
def learn_ftrl(setup, terms, clock, table, indptr, slots, values, labels, weights, predictions):
    """FTRL-proximal (McMahan et al. 2013, Alg. 1), with α = step, β = ridge; the packed row is [z, n].

    ``σ = (√(n + g²) − √n)/step``, ``z += g − σw``, ``n += g²``; w is computed when it is read. O(non-zeros).

    Shapes: table (slots, 2), the others as in ``learn_adam``. Returns the number of rows learned.
    """
    head = np.empty(longest(indptr))
    energy = np.empty(head.size)
    for i in range(indptr.size - 1):
        x = values[indptr[i] : indptr[i + 1]]
        at = slots[indptr[i] : indptr[i + 1]]
        # 1 Gather z and n of x's features, and 2 predict.
        margin = 0.0
        for j in range(x.size):
            head[j] = table[at[j], CELL.head]
            energy[j] = table[at[j], CELL.energy]
            margin += x[j] * ftrl_weight(setup, terms, head[j], energy[j])
        if not abs(margin) <= LARGEST:
            return i
        # 3 Slope, and 4 absorb: the gradient enters z and n, on copies.
        predictions[i], slope = clamped_slope(setup, margin, labels[i])
        unfit = 0
        for j in range(x.size):
            g = weights[i] * slope * x[j]
            n = energy[j] + g * g
            roots = math.sqrt(n) + math.sqrt(energy[j])
            if roots > 0.0:
                w = ftrl_weight(setup, terms, head[j], energy[j])
                head[j] += g - g * (g / roots) / setup.step * w
            energy[j] = n
            unfit += not (abs(head[j]) <= terms.reach and n <= terms.most)
        # 5 Check: the table has not been written.
        if unfit > 0:
            return i
        # 6 Write the cells back, and 7 count the round.
        for j in range(x.size):
            table[at[j], CELL.head] = head[j]
            table[at[j], CELL.energy] = energy[j]
        clock[TIMER.rounds] += 1
    return indptr.size - 1


@allocating_kernel
def learn_arow(setup, terms, clock, table, indptr, slots, values, labels, weights, predictions):
    """AROW with a diagonal covariance Σ = 1/(1 + E) (Crammer, Kulesza and Dredze 2009).

    On rounds with a slope ℓ', ``w −= (ℓ'/2)/(x·Σx + r)·Σx``, then ``E += x²/r``, r = ridge over the sample
    weight. O(non-zeros).

    Shapes: table (slots, columns of CELL), the others as in ``learn_adam``. Returns the number of rows learned.
    """
    head = np.empty(longest(indptr))
    energy = np.empty(head.size)
    for i in range(indptr.size - 1):
        x = values[indptr[i] : indptr[i + 1]]
        at = slots[indptr[i] : indptr[i + 1]]
        t = clock[TIMER.rounds] + 1
        # 1 Gather the cells of x's features, and 2 predict; the variance is x·Σx.
        margin = 0.0
        variance = 0.0
        for j in range(x.size):
            head[j] = table[at[j], CELL.head]
            energy[j] = table[at[j], CELL.energy]
            margin += head[j] * x[j]
            variance += x[j] * x[j] / (1.0 + energy[j])
        if not abs(margin) <= LARGEST:
            return i
        # 3 Slope, and 4 absorb where there is one: the step and the covariance, on copies.
        predictions[i], slope = clamped_slope(setup, margin, labels[i])
        if slope != 0.0 and weights[i] > 0.0:
            trust = weights[i] / terms.ridge
            move = 0.5 * slope * trust / (variance * trust + 1.0)
            unfit = 0
            for j in range(x.size):
                w = head[j] - move * x[j] / (1.0 + energy[j])
                e = energy[j] + trust * x[j] * x[j]
                unfit += not (abs(w) <= terms.largest and e <= terms.most)
                energy[j] = e
                head[j] = w
            # 5 Check: the table has not been written.
            if unfit > 0:
                return i
            # 6 Write the cells back. Sums of iterates are kept less rounds·weight, so that absent features rest.
            for j in range(x.size):
                slot = at[j]
                if setup.average:
                    table[slot, CELL.total] -= (t - 1) * (head[j] - table[slot, CELL.head])
                table[slot, CELL.head] = head[j]
                table[slot, CELL.energy] = energy[j]
        # 7 Count the round.
        clock[TIMER.rounds] = t
    return indptr.size - 1


@kernel
def read_rules(setup, terms, column, summed, dual, clock, table, indptr, slots, out):
    """Write the weights of the slots of rows that end at ``indptr``.

    A weight is the head, FTRL's from [z, n] (``dual``), or the mean of iterates.

    The mean is kept in ``column`` (0: none) as their sum (``summed``), or as that sum less rounds·weight.
    """
    rounds = max(clock[TIMER.rounds], 1)
    for i in range(indptr[indptr.size - 1]):
        w = np.float64(table[slots[i], CELL.head])
        if dual:
            w = ftrl_weight(setup, terms, w, table[slots[i], CELL.energy])
        elif column > 0:
            total = table[slots[i], column] / rounds
            w = total if summed else w + total
        out[i] = w
