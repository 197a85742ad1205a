"""Diagonal steps: mirror descent and dual averaging where the preconditioner is one number per feature.

With E_j the energy Σ ρ²x_j² of feature j, the metric is a number per feature,

=========  ====================  ===========================================================
gradient   H_j = √t              online gradient descent (Zinkevich 2003)
adagrad    H_j = ridge + √E_j    diagonal AdaGrad (Duchi, Hazan and Singer 2011)
s-adagrad  H_j = √(ridge + E_j)  the same with the ridge inside (nothing escapes a diagonal)
newton     H_j = ridge + E_j     diagonal online Newton
=========  ====================  ===========================================================

and a round is ``w_j ← w_j − step·g_j/H_j`` (mirror descent) or ``w_j = −step·ḡ_j/H_j`` (dual averaging), the
latter computed when it is read. FTRL-proximal (McMahan et al. 2013, Algorithm 1, with α = step and β = ridge) is dual
averaging with AdaGrad's metric around the iterates: ``z += g − σw`` with ``σ = (H' − H)/step``, H' being the metric
that has absorbed the gradient, takes the place of ``ḡ += g``, and l1 and l2 count once instead of in every round.

A round reads the packed rows of its non-zeros into columns, computes on those, and writes them back if the
result is finite, so that a refused round changes nothing; O(non-zeros). This file has the rounds that only
change features of the row; ``lazy`` has those that change absent features too.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import LONGEST_COUNT
from onsketch.core.geometry import GRADIENT
from onsketch.core.implicit import implicit_step
from onsketch.core.spectral_step import chosen_by_geometry
from onsketch.core.state import Array
from onsketch.core.tolerances import LARGEST
from onsketch.jit.by_type import chosen_by_type
from onsketch.jit.decorators import allocating_kernel, inner, kernel
from onsketch.jit.vectors import ask_for
from onsketch.learners.clip import clipped, shortest_move
from onsketch.learners.stages import slope_and_scale


class Cells(NamedTuple):
    """Columns of a packed row of a per-feature learner."""

    head: int
    """w, or ḡ under dual averaging"""
    energy: int
    """E"""
    total: int
    """for lazy rounds: the sum of iterates"""
    stamp: int
    """and the round it is up to"""


CELL = Cells(*range(4))

LEAST_FADE = 1e-6
"""Energies are rewritten when forgetting has left so little of them."""


class Timer(NamedTuple):
    """Entries of the clock of a per-feature learner."""

    rounds: int
    """rounds played"""
    start: int
    """the round from which stamps count"""
    seen: int
    """slots in use (Adam)"""


TIMER = Timer(*range(3))


class State(NamedTuple):
    """State of a per-feature learner."""

    clock: Annotated[NDArray[np.int64], Array("3", "i8", within=(0, LONGEST_COUNT))]
    fade: Annotated[NDArray[np.float64], Array("1", start=1.0, within=(float(np.finfo(float).tiny), 1.0))]
    """The product of the λ so far, over which energies are stored."""
    table: Annotated[NDArray[np.floating], Array("slots width", "real", aligned=True)]
    """A row for each feature: CELL, or ADAM."""


class Terms(NamedTuple):
    """Constants of a per-feature learner, in addition to its ``Setup``."""

    ridge: float
    flat: float
    unit: float
    root: float
    inside: float
    """H = flat + unit·E + root·√(inside + E), but that flat is √t for gradient descent."""
    l1: float
    l2: float
    low: float
    high: float
    """Composite terms; the box is infinite where there is none."""
    centred: bool
    """True for FTRL-proximal."""
    beta1: float
    beta2: float
    largest: float
    """Largest weight or gradient a packed row may hold …"""
    most: float
    """… and largest energy."""
    reach: float
    """Largest ḡ that still gives a weight within ``largest``."""


CACHED = 1 << 17
"""Entries of a table that fits in the cache. In larger ones, what the next row needs is fetched while this one is
written."""


@inner
def flat_part(setup, terms, t):
    """Return the part of H that does not depend on the energy."""
    return math.sqrt(t) if setup.geometry == GRADIENT else terms.flat


def metric_at(setup, terms, flat, energy):
    """H_j, without a branch, so that loops over it stay short and fast (``Geometry.coefficients``)."""
    return flat + terms.unit * energy + terms.root * math.sqrt(terms.inside + energy)


def _make_metric_at(h):
    def metric_at(setup, terms, flat, energy):
        return h(energy, terms.ridge, 0.0)  # nothing escapes a diagonal

    return metric_at


chosen_by_geometry(metric_at, _make_metric_at)


@inner
def proximal(terms, v, metric, s):
    """``argmin_w metric/2·(w−v)² + s·(l1|w| + l2/2·w²)`` over the box."""
    size = max(abs(v) - s * terms.l1 / metric, 0.0) / (1.0 + s * terms.l2 / metric)
    return min(max(math.copysign(size, v), terms.low), terms.high)


@inner
def dual_weight(setup, terms, head, metric, rounds):
    """Return the weight of dual averaging for a sum of gradients after t rounds."""
    times = 1.0 if terms.centred else rounds
    size = setup.step * max(abs(head) - times * terms.l1, 0.0) / (metric + setup.step * times * terms.l2)
    return min(max(math.copysign(size, -head), terms.low), terms.high)


@inner
def project(setup, terms, flat, x, head, energy, margin):
    """Move the weights so that the margin is within the clip (clip.py)."""
    length = 0.0
    for j in range(x.size):
        length += x[j] * x[j] / metric_at(setup, terms, flat, energy[j])
    if length > 0.0:
        gamma = shortest_move(margin, setup.clip, length)
        for j in range(x.size):
            head[j] -= gamma * x[j] / metric_at(setup, terms, flat, energy[j])


@inner
def take_step(setup, terms, flat, x, head, energy, rho, g):
    """Absorb ρ·x, step along g·x; returns how many entries ended up beyond what a packed row may hold."""
    unfit = 0
    if setup.dual:
        for j in range(x.size):
            h = head[j] + g * x[j]
            e = energy[j] + (rho * x[j]) * (rho * x[j])
            roots = math.sqrt(e) + math.sqrt(energy[j])
            if terms.centred and roots > 0.0:
                w = dual_weight(setup, terms, head[j], metric_at(setup, terms, flat, energy[j]), 1.0)
                h -= g * x[j] * (g * x[j] / roots) / setup.step * w
            head[j] = h
            energy[j] = e
            unfit += not (abs(h) <= terms.reach and e <= terms.most)
        return unfit
    move = setup.step * g
    for j in range(x.size):
        e = energy[j] + (rho * x[j]) * (rho * x[j])
        w = head[j] - move * x[j] / metric_at(setup, terms, flat, e)
        head[j] = w
        energy[j] = e
        unfit += not (abs(w) <= terms.largest and abs(g * x[j]) <= terms.largest and e <= terms.most)
    return unfit


@inner
def implicit_slope(setup, terms, flat, x, energy, rho, margin, label, weight):
    """The slope where a step along the metric that has absorbed ρ·x ends (see ``core/implicit.py``)."""
    length = 0.0
    for j in range(x.size):
        length += x[j] * x[j] / metric_at(setup, terms, flat, energy[j] + (rho * x[j]) * (rho * x[j]))
    _, slope, _ = implicit_step(setup.loss, margin, label, weight * setup.step * length)
    return slope


def play(setup, terms, t, x, head, energy, margin, label, weight):
    """Play round t on the columns of a row; return the prediction, and True if the columns may be kept."""
    if not abs(margin) <= LARGEST:
        return margin, False
    flat = flat_part(setup, terms, t)
    if abs(margin) > setup.clip and not setup.dual:
        project(setup, terms, flat, x, head, energy, margin)
    margin = clipped(margin, setup.clip)
    slope, rho = slope_and_scale(setup, margin, label, weight, t)
    if setup.geometry == GRADIENT:
        rho = 0.0
    if setup.implicit:
        slope = implicit_slope(setup, terms, flat, x, energy, rho, margin, label, weight)
    return margin, take_step(setup, terms, flat, x, head, energy, rho, weight * slope) == 0


plays = chosen_by_type(play, otherwise=True)
"""Implementations for other rules, by the class of their terms."""


@inner
def longest(indptr):
    """Entries of the longest row."""
    size = 0
    for i in range(indptr.size - 1):
        size = max(size, indptr[i + 1] - indptr[i])
    return size


@allocating_kernel
def learn_steps(setup, terms, clock, fade, table, indptr, slots, values, labels, weights, predictions):
    """Learn a block of rows, one round each, and return how many were learned: fewer if an update is not finite.

    Shapes: table (slots, columns of CELL), indptr (n+1,), slots and values (nnz,), labels, weights, predictions (n,).
    With forgetting, E_t = λ·E_{t−1} + (ρx)²: energies are stored over ``fade[0]``, the product of the λ so far, which
    is written into them before it becomes too small.
    """
    head = np.empty(longest(indptr))
    energy = np.empty(head.size)
    ahead = table.size > CACHED
    for i in range(indptr.size - 1):
        x = values[indptr[i] : indptr[i + 1]]
        at = slots[indptr[i] : indptr[i + 1]]
        t = clock[TIMER.rounds] + 1
        # 1 Gather the cells of x's features, and 2 predict.
        margin = 0.0
        other = 0.0
        for j in range(x.size):
            slot = np.uint32(at[j])
            w = table[slot, CELL.head]
            head[j] = w
            energy[j] = table[slot, CELL.energy] * fade[0]
            margin, other = other, margin + w * x[j]  # two sums, so that one need not wait for the other
        margin += other
        if setup.dual and t > 1:
            margin = 0.0
            flat = flat_part(setup, terms, t - 1)
            for j in range(x.size):
                metric = metric_at(setup, terms, flat, energy[j])
                margin += x[j] * dual_weight(setup, terms, head[j], metric, t - 1)
        # 3 Slope, 4 absorb: the step, on the gathered copies.
        predictions[i], fit = play(setup, terms, t, x, head, energy, margin, labels[i], weights[i])
        # 5 Check: the table has not been written.
        if not fit:
            return i
        # 6 Write the cells back; those of the next row are fetched meanwhile.
        after = indptr[i + 1]
        more = indptr[i + 2] - after if ahead and i + 2 < indptr.size else 0
        whole = 1.0 / fade[0]
        for j in range(x.size):
            slot = np.uint32(at[j])
            table[slot, CELL.head] = head[j]
            table[slot, CELL.energy] = energy[j] * whole
            if j < more:
                ask_for(table, slots[after + j] * table.shape[1], 1)
        # 7 Count the round, and what forgetting has left.
        fade[0] *= setup.forget
        if fade[0] < LEAST_FADE:
            for row in range(table.shape[0]):
                table[row, CELL.energy] *= fade[0]
            fade[0] = 1.0
        clock[TIMER.rounds] = t
    return indptr.size - 1


@kernel
def read_steps(setup, terms, clock, table, indptr, slots, out):
    """Write the weights of the slots of rows that end at ``indptr``."""
    rounds = max(clock[TIMER.rounds], 1)
    flat = flat_part(setup, terms, rounds)
    for i in range(indptr[indptr.size - 1]):
        w = table[slots[i], CELL.head]
        if setup.dual:
            w = dual_weight(setup, terms, w, metric_at(setup, terms, flat, table[slots[i], CELL.energy]), rounds)
        out[i] = w


@kernel
def row_products(indptr, left, right, out):
    """Σ left·right over each row."""
    for i in range(out.size):
        total = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            total += left[j] * right[j]
        out[i] = total
