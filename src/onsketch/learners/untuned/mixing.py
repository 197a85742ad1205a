"""The mixture of one output: temperatures, exponential weights, and a stack by Newton's method.

With expert margins m_o in units of labels and kept within bounds,

    f_o = temperature_o·m_o,   f = Σ share_o·f_o,   g = s₀·f + Σ s_o·(f_o − f) + bias,

the prediction is ``way₀·f + way₁·g``. Shares and ways are exponential weights on the losses; for numbers on the log
likelihood under Gaussian or Laplace noise of unknown size. Row t counts as t in all sums. All is linear in the m_o, and
``mixture.mix`` holds the coefficients. Cost: O(K³) a row for K experts.
"""

from __future__ import annotations

import math

from onsketch.core import losses
from onsketch.core.losses import HUBER, LOGISTIC, POISSON, SQUARED, SQUARED_HINGE, STEEPEST_RATE
from onsketch.jit.decorators import inner
from onsketch.learners.untuned.state import COOLEST, HOTTEST, OUTPUTS, PRIOR, RATE, TRUSTS

TINY = 1e-290


@inner
def bend_at(loss, z, y, slope):
    """Return the curvature of the loss at z, where its slope is given; the square of the slope for straight pieces."""
    code = loss.code
    if code == SQUARED:
        return 2.0
    if code == LOGISTIC:
        return abs(slope) * (1.0 - abs(slope))
    if code == POISSON:
        return math.exp(min(z, STEEPEST_RATE))
    if code == SQUARED_HINGE:
        return 2.0 if y * z < 1.0 else 0.0
    if code == HUBER:
        return losses.curvature(loss, z, y)
    return slope * slope


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
def learn_mixture(loss, mixture, m, y, weight, keep, count, heaviest, scratch):
    """Let the mixture learn from the experts' margins m (OUTPUTS, 1) and the label, both in units of labels.

    ``keep`` is the share of the past that remains, ``count`` the weight of all rows in the sums.
    """
    f, gradient, prior = scratch.features, scratch.gradient, (1.0 - keep) * PRIOR
    f[0] = 0.0
    for o in range(OUTPUTS):
        f[o + 1] = mixture.temperatures[o] * m[o, 0]
        f[0] += mixture.shares[o] * f[o + 1]
    g = mixture.stack[0] * f[0] + mixture.bias[0]
    for o in range(OUTPUTS):
        z, v = m[o, 0], f[o + 1]
        slope = losses.slope(loss, v, y)
        mixture.losses[o] = keep * mixture.losses[o] + weight * losses.value(loss, v, y)
        mixture.hardness[o] = keep * mixture.hardness[o] + prior + weight * bend_at(loss, v, y, slope) * z * z
        better = mixture.temperatures[o] - weight * slope * z / mixture.hardness[o]
        mixture.temperatures[o] = min(max(better, COOLEST), HOTTEST)
        f[o + 1] -= f[0]
        g += mixture.stack[o + 1] * f[o + 1]
    mixture.costs[0] = keep * mixture.costs[0] + weight * losses.value(loss, f[0], y)
    mixture.costs[1] = keep * mixture.costs[1] + weight * losses.value(loss, g, y)
    slope = losses.slope(loss, g, y)
    bend = bend_at(loss, g, y, slope)
    for i in range(OUTPUTS + 1):
        gradient[i] = weight * slope * f[i]
        for j in range(i + 1):
            mixture.hessian[i, j] = keep * mixture.hessian[i, j] + weight * bend * f[i] * f[j]
            mixture.hessian[j, i] = mixture.hessian[i, j]
    solve(mixture.hessian, PRIOR, gradient, scratch.factor)
    for i in range(OUTPUTS + 1):
        mixture.stack[i] = min(max(mixture.stack[i] - gradient[i], -HOTTEST), HOTTEST)
    mixture.bias[1] = keep * mixture.bias[1] + prior + weight * bend
    mixture.bias[0] -= weight * slope / mixture.bias[1]
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
    mixture.mix[OUTPUTS] = stacked * mixture.bias[0]
