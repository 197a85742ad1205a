"""The mixture of one output: temperatures, exponential weights, and a stack by implicit Newton steps.

With expert margins m_o in units of labels and kept within bounds,

    f_o = temperature_o·m_o,   f = Σ share_o·f_o,   g = s₀·f + Σ s_o·(f_o − f) + s_c·one,

the prediction is ``way₀·f + way₁·g``. Shares and ways are exponential weights on the losses; for numbers on the log
likelihood under Gaussian or Laplace noise of unknown size. Row t counts as t in these sums of losses. All is linear in
the m_o, and ``mixture.mix`` holds the coefficients. Cost: O(K³) a row for K experts. The experts and their two
combinations fill the lanes of one vector.
"""

from __future__ import annotations

from onsketch.core.implicit import implicit_steps, values_at
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import exponentials, fma, load, logarithms, spread, store
from onsketch.learners.auto.state import (
    COOLEST,
    HOTTEST,
    LANES,
    LARGEST_STEP,
    OUTPUTS,
    PRIOR,
    RATE,
    STACK_PRIOR,
    STACKED,
    TRUSTS,
)

TINY = 1e-290
MEAN, STACK = OUTPUTS, OUTPUTS + 1
"""Places of the experts' mean and of the stack after the experts, where all are treated at once."""


@inner
def weigh(loss, mixture, count, rate, sums):
    """Fill shares and ways from the sums of losses over rows of total weight ``count``."""
    degree = loss.degree
    for o in range(LANES):
        sums[o] = mixture.losses[o] if o < OUTPUTS else mixture.costs[min(o - OUTPUTS, 1)]
    if degree > 0:
        for o in range(LANES):
            sums[o] = max(sums[o], TINY)
        store(sums, 0, logarithms(load(sums, 0, LANES), LANES))
        rate *= count / degree
    best, least = sums[0], min(sums[MEAN], sums[STACK])
    for o in range(OUTPUTS):
        best = min(best, sums[o])
    for o in range(LANES):
        sums[o] = -min(rate * (sums[o] - (best if o < OUTPUTS else least)), 700.0)
    store(sums, 0, exponentials(load(sums, 0, LANES), LANES))
    total = 0.0
    for o in range(OUTPUTS):
        sums[o] *= TRUSTS[o]
        total += sums[o]
    for o in range(OUTPUTS):
        mixture.shares[o] = sums[o] / total
    mixture.ways[0] = sums[MEAN] / (sums[MEAN] + sums[STACK])
    mixture.ways[1] = sums[STACK] / (sums[MEAN] + sums[STACK])


@inner
def solve(hessian, prior, f, rows, along):
    """Fill ``along = (hessian + prior·I)⁻¹ f`` by elimination; the last lane of each row has the right-hand side."""
    for i in range(STACKED):
        for j in range(STACKED):
            rows[i, j] = hessian[i, j]
        rows[i, i] += prior
        rows[i, STACKED] = f[i]
    for i in range(STACKED):
        pivot = load(rows, i * LANES, LANES)
        along[i] = 1.0 / max(rows[i, i], 1e-6 * prior)
        for j in range(STACKED):
            if j != i:
                by = spread(-along[i] * rows[j, i], LANES)
                store(rows, j * LANES, fma(by, pivot, load(rows, j * LANES, LANES)))
    for i in range(STACKED):
        along[i] *= rows[i, STACKED]


@inlined
def finite_or_zero(x):
    """Return a part of a step; 0 for one that a row beyond all bounds has made infinite."""
    return x if abs(x) <= LARGEST_STEP else 0.0


@inner
def learn_mixture(loss, mixture, m, one, y, weight, past, scratch):
    """Let the mixture learn from the experts' margins m (OUTPUTS, 1) and the label, both in units of labels.

    ``one`` is the stack's constant feature. ``past`` holds the shares of the past that remain in curvatures and in
    losses, the total weight of the rows in losses, and the heaviest weight. All steps are implicit: a confident and
    wrong margin has no curvature to divide its slope by. They are taken at once, those of the experts' temperatures and
    that of the stack.
    """
    forget, keep, count, heaviest = past
    f, along, prior = scratch.features, scratch.gradient, (1.0 - forget) * PRIOR
    ends, lengths, slopes, bends = scratch.ends, scratch.reaches, scratch.steep, scratch.bends
    f[0] = 0.0
    for o in range(OUTPUTS):
        f[o + 1] = ends[o] = mixture.temperatures[o] * m[o, 0]
        f[0] += mixture.shares[o] * f[o + 1]
    f[STACK], f[STACKED] = one, 0.0
    g = mixture.stack[0] * f[0] + mixture.stack[STACK] * one
    for o in range(OUTPUTS):
        f[o + 1] -= f[0]
        g += mixture.stack[o + 1] * f[o + 1]
    ends[MEAN], ends[STACK], ends[STACKED] = f[0], g, 0.0
    # The losses so far.
    values_at(loss, ends, y, slopes, STACKED)
    for o in range(OUTPUTS):
        mixture.losses[o] = keep * mixture.losses[o] + finite_or_zero(weight * slopes[o])
    mixture.costs[0] = keep * mixture.costs[0] + finite_or_zero(weight * slopes[MEAN])
    mixture.costs[1] = keep * mixture.costs[1] + finite_or_zero(weight * slopes[STACK])
    # The steps.
    if forget < 1.0:
        for i in range(STACKED):
            for j in range(STACKED):
                mixture.hessian[i, j] *= forget
    solve(mixture.hessian, STACK_PRIOR, f, scratch.factor, along)
    leverage = 0.0
    for i in range(STACKED):
        leverage += along[i] * f[i]
    for o in range(OUTPUTS):
        mixture.hardness[o] = forget * mixture.hardness[o] + prior
        lengths[o] = weight * m[o, 0] * m[o, 0] / mixture.hardness[o]
    lengths[MEAN], lengths[STACK], lengths[STACKED] = 0.0, weight * max(leverage, 0.0), 0.0
    implicit_steps(loss, ends, y, lengths, slopes, bends, STACKED)
    for o in range(OUTPUTS):
        z, hardness = m[o, 0], mixture.hardness[o]
        better = mixture.temperatures[o] - finite_or_zero(weight * slopes[o] * z / hardness)
        mixture.temperatures[o] = min(max(better, COOLEST), HOTTEST)
        mixture.hardness[o] = hardness + finite_or_zero(weight * bends[o] * z * z)
    move, bend = finite_or_zero(weight * slopes[STACK]), finite_or_zero(weight * bends[STACK])
    for i in range(STACKED):
        moved = mixture.stack[i] - finite_or_zero(move * along[i])
        mixture.stack[i] = min(max(moved, -HOTTEST), HOTTEST)
        for j in range(STACKED):
            mixture.hessian[i, j] += finite_or_zero(bend * (f[i] * f[j]))
    weigh(loss, mixture, count, RATE / heaviest, ends)
    fill_mix(mixture)


@inner
def fill_mix(mixture):
    """Fill the coefficients of the experts in the prediction."""
    stacked, along = mixture.ways[1], mixture.stack[0]
    for o in range(OUTPUTS):
        along -= mixture.stack[o + 1]
    for o in range(OUTPUTS):
        mixed = (mixture.ways[0] + stacked * along) * mixture.shares[o] + stacked * mixture.stack[o + 1]
        mixture.mix[o] = mixture.temperatures[o] * mixed
    mixture.mix[OUTPUTS] = stacked * mixture.stack[OUTPUTS + 1]
