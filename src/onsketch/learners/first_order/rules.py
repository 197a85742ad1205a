"""Rules that are no steps in a metric: Adam, which has a loop of its own, and AROW. A clip clamps their predictions.

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
from onsketch.learners.first_order.steps import CELL, TIMER, Terms, longest, plays


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


class ArowTerms(Terms):
    """The terms of AROW, by which its rounds are chosen."""

    __slots__ = ()


def _play_arow(setup, terms, t, x, head, energy, margin, label, weight):
    """AROW with a diagonal covariance Σ = 1/(1 + E) (Crammer, Kulesza and Dredze 2009); see ``steps.play``.

    On rounds with a slope ℓ', ``w −= (ℓ'/2)/(x·Σx + r)·Σx``, then ``E += x²/r``, r = ridge over the sample weight.
    """
    if not abs(margin) <= LARGEST:
        return margin, False
    margin, slope = clamped_slope(setup, margin, label)
    if slope == 0.0 or weight <= 0.0:
        return margin, True
    variance = 0.0
    for j in range(x.size):
        variance += x[j] * x[j] / (1.0 + energy[j])
    trust = weight / terms.ridge
    move = 0.5 * slope * trust / (variance * trust + 1.0)
    unfit = 0
    for j in range(x.size):
        w = head[j] - move * x[j] / (1.0 + energy[j])
        e = energy[j] + trust * x[j] * x[j]
        unfit += not (abs(w) <= terms.largest and e <= terms.most)
        energy[j] = e
        head[j] = w
    return margin, unfit == 0


plays[ArowTerms] = _play_arow


@kernel
def read_adam(setup, terms, lazy, clock, table, indptr, slots, out):
    """Write the weights of the slots of rows that end at ``indptr``, or the means of iterates.

    Sums of iterates are whole, or if ``lazy`` less rounds·weight.
    """
    rounds = max(clock[TIMER.rounds], 1)
    for i in range(indptr[indptr.size - 1]):
        out[i] = table[slots[i], CELL.head]
        if setup.average:
            mean = table[slots[i], ADAM.sum] / rounds
            out[i] = out[i] + mean if lazy else mean
