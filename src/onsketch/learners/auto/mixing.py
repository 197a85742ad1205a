"""The mixture of one output: temperatures, exponential weights, and a stack by implicit Newton steps.

With expert margins m_o in units of labels and kept within bounds,

    f_o = temperature_o·m_o,   f = Σ share_o·f_o,   g = s₀·f + Σ s_o·(f_o − f) + s_c·one,

the prediction is ``way₀·f + way₁·g``. Shares and ways are exponential weights on the losses; for numbers on the log
likelihood under Gaussian or Laplace noise of unknown size. Row t counts as t in these sums of losses. All is linear in
the m_o, and ``mixture.mix`` holds the coefficients. Cost: O(K³) a row for K experts.
"""

from __future__ import annotations

import math

from onsketch.core import losses
from onsketch.core.implicit import implicit_step
from onsketch.jit.decorators import inner
from onsketch.learners.auto.state import COOLEST, HOTTEST, OUTPUTS, PRIOR, RATE, STACK_PRIOR, STACKED, TRUSTS

TINY = 1e-290


@inner
def weigh(loss, sums, priors, count, rate, shares):
    """Fill the shares from sums of losses over rows of total weight ``count``."""
    best, degree, total = sums[0], loss.degree, 0.0
    for i in range(sums.size):
        best = min(best, sums[i])
    for i in range(sums.size):
        worse = sums[i] - best
        if degree > 0:
            worse = count / degree * math.log(max(sums[i], TINY) / max(best, TINY))
        shares[i] = priors[i] * math.exp(-min(rate * worse, 700.0))
        total += shares[i]
    for i in range(sums.size):
        shares[i] /= total


@inner
def solve(hessian, prior, gradient, factor):
    """Replace the gradient by ``(hessian + prior·I)⁻¹ gradient``, by Cholesky's method."""
    n = gradient.size
    for i in range(n):
        for j in range(i + 1):
            total = hessian[i, j] + (prior if i == j else 0.0)
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            factor[i, j] = math.sqrt(max(total, 1e-6 * prior)) if i == j else total / factor[j, j]
    for i in range(n):
        for k in range(i):
            gradient[i] -= factor[i, k] * gradient[k]
        gradient[i] /= factor[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            gradient[i] -= factor[k, i] * gradient[k]
        gradient[i] /= factor[i, i]


@inner
def learn_mixture(loss, mixture, m, one, y, weight, past, scratch):
    """Let the mixture learn from the experts' margins m (OUTPUTS, 1) and the label, both in units of labels.

    ``one`` is the stack's constant feature. ``past`` holds the shares of the past that remain in curvatures and in
    losses, the total weight of the rows in losses, and the heaviest weight. All steps are implicit: a confident and
    wrong margin has no curvature to divide its slope by.
    """
    forget, keep, count, heaviest = past
    f, along, prior = scratch.features, scratch.gradient, (1.0 - forget) * PRIOR
    f[0] = 0.0
    for o in range(OUTPUTS):
        f[o + 1] = mixture.temperatures[o] * m[o, 0]
        f[0] += mixture.shares[o] * f[o + 1]
    f[OUTPUTS + 1] = one
    g = mixture.stack[0] * f[0] + mixture.stack[OUTPUTS + 1] * one
    for o in range(OUTPUTS):
        z, v = m[o, 0], f[o + 1]
        mixture.losses[o] = keep * mixture.losses[o] + weight * losses.value(loss, v, y)
        hardness = forget * mixture.hardness[o] + prior
        _, slope, bend = implicit_step(loss, v, y, weight * z * z / hardness)
        better = mixture.temperatures[o] - weight * slope * z / hardness
        mixture.temperatures[o] = min(max(better, COOLEST), HOTTEST)
        mixture.hardness[o] = hardness + weight * bend * z * z
        f[o + 1] -= f[0]
        g += mixture.stack[o + 1] * f[o + 1]
    mixture.costs[0] = keep * mixture.costs[0] + weight * losses.value(loss, f[0], y)
    mixture.costs[1] = keep * mixture.costs[1] + weight * losses.value(loss, g, y)
    for i in range(STACKED):
        along[i] = f[i]
        for j in range(STACKED):
            mixture.hessian[i, j] *= forget
    solve(mixture.hessian, STACK_PRIOR, along, scratch.factor)
    leverage = 0.0
    for i in range(STACKED):
        leverage += along[i] * f[i]
    _, slope, bend = implicit_step(loss, g, y, weight * max(leverage, 0.0))
    for i in range(STACKED):
        mixture.stack[i] = min(max(mixture.stack[i] - weight * slope * along[i], -HOTTEST), HOTTEST)
        for j in range(i + 1):
            mixture.hessian[i, j] += weight * bend * f[i] * f[j]
            mixture.hessian[j, i] = mixture.hessian[i, j]
    weigh(loss, mixture.losses, TRUSTS, count, RATE / heaviest, mixture.shares)
    weigh(loss, mixture.costs, (0.5, 0.5), count, RATE / heaviest, mixture.ways)
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
