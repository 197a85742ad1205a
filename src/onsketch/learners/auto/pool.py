"""From the margins of the experts to calibrated probabilities.

1. Each expert's margins are multiplied by a **temperature** of its own (Newton's method on its log loss).
2. A **mixture** by exponential weights on the log losses: ``f₀ = Σ share_o·f_o``.
3. A **stack**: ``g = s₀·f₀ + Σ s_o·(f_o − f₀) + bias``, by Newton's method with a prior on (1, 0, …, 0).
4. A **linear pool** of softmax(f₀), softmax(g), the sharper softmax(3g), the flatter softmax(g/3) and the uniform
   distribution; its shares are found by online expectation maximisation (Cappé and Moulines 2009). That is what makes
   the probabilities calibrated: no power of a softmax can say "one time in fifty it is something else altogether".
5. A **map of the likeliest class's probability** q (as Zadrozny and Elkan's bins, 2002, but without jumps): at each of
   15 knots is kept how far rows near it were from being right as often as q said, and q moves by what lies between its
   two knots. The others share what is left as before; the likeliest stays the likeliest.

Row t counts in all sums as t⁵: what the experts were early does not matter. O(K·O²) a row, for O experts.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.softmax import fill_softmax
from onsketch.core.weighting import exponential_weights
from onsketch.jit.decorators import exact

Floats = NDArray[np.float64]

PRIOR = 10.0
"""Rows that the prior on temperatures, stack and biases counts as."""
RATE = 0.5
"""How fast the mixture believes in an expert that does better; 1 is Bayes' rule."""
FADE = 5.0
"""Row t counts as t^FADE."""
SLOWEST, SOON = 0.01, 50.0
"""The pool's shares move by max(SLOWEST, 1/√(t + SOON)) of the way."""
WIDEST = 50.0
"""Margins beyond ± this are as good as certain, and count as this."""
COOLEST, HOTTEST = 0.05, 20.0
"""Bounds of the temperatures."""
HEAVIEST = 10.0
"""A row counts as at most so many for the pool, whatever its weight."""
LEAST = 1e-6
"""No part of the pool is given up for good."""
PARTS = 5
KNOTS, DOUBT = 15, 50.0
"""Knots of the map of the likeliest class's probability, and rows near a knot that no correction counts as."""
TIED = 1.0 + 1e-9
"""Where the likeliest two classes differ by less than this factor there is no likeliest, and nothing is corrected."""
LEAST_REST = 0.1
"""The map leaves the other classes at least so much of what they had."""
FIRST_MIX = (0.3, 0.6, 0.04, 0.04, 0.02)
"""The pool's shares before the first row."""


class Pool(NamedTuple):
    """The state of the pool, for O experts and K classes."""

    temperatures: Floats
    hardness: Floats
    """Σ curvature of each temperature."""
    losses: Floats
    shares: Floats
    stack: Floats
    """(O + 1,): s."""
    hessian: Floats
    """(O + 1, O + 1), without the prior."""
    mix: Floats
    biases: Floats
    firmness: Floats
    """Σ curvature of each bias."""
    gaps: Floats
    """(2, KNOTS): rows near each knot, and by how many more of them the likeliest class was right than it said."""

    @classmethod
    def empty(cls, experts: int, classes: int) -> Self:
        """The pool before the first row."""
        stack = np.zeros(experts + 1)
        stack[0] = 1.0
        return cls(
            temperatures=np.ones(experts),
            hardness=np.full(experts, PRIOR),
            losses=np.zeros(experts),
            shares=np.full(experts, 1.0 / experts),
            stack=stack,
            hessian=np.zeros((experts + 1, experts + 1)),
            mix=np.array(FIRST_MIX),
            biases=np.zeros(classes),
            firmness=np.full(classes, PRIOR),
            gaps=np.zeros((2, KNOTS)),
        )

    def coefficients(self) -> Floats:
        """The coefficients of the experts' margins in those of the stack."""
        rest = self.stack[0] - self.stack[1:].sum()
        return np.asarray(self.temperatures * (self.stack[1:] + rest * self.shares))


_exponential_weights = exact(exponential_weights)


@exact
def _clamped(z):
    return min(max(z, -WIDEST), WIDEST)


@exact
def _likeliest(p, classes):
    """The likeliest class, the second's probability, the knot below the first's, and how far on its way to the next
    it is.
    """
    top, second = 0, 0.0
    for k in range(1, classes):
        if p[k] > p[top]:
            second = p[top]
            top = k
        else:
            second = max(second, p[k])
    along = min(max(p[top] * KNOTS - 0.5, 0.0), KNOTS - 1.0)
    knot = min(int(along), KNOTS - 2)
    return top, second, knot, along - knot


@exact
def _correct(pool, p, classes, log_p):
    """Fill the log-probabilities from the pool's probabilities p."""
    top, second, knot, part = _likeliest(p, classes)
    rest = 0.0
    for k in range(classes):
        if k != top:
            rest += p[k]
        log_p[k] = math.log(max(p[k], 1e-300))
    gaps = pool.gaps
    if not rest > 0.0 or p[top] <= TIED * second or gaps[0, knot] + gaps[0, knot + 1] == 0.0:
        return
    here, there = gaps[1, knot] / (gaps[0, knot] + DOUBT), gaps[1, knot + 1] / (gaps[0, knot + 1] + DOUBT)
    # no less likely than the second is then
    least = min(p[top], 1.001 * second / (rest + second))
    sure = max(p[top] + (1.0 - part) * here + part * there, least)
    left = max(1.0 - sure, LEAST_REST * rest)
    less = math.log(left / rest)
    for k in range(classes):
        log_p[k] += less
    log_p[top] = math.log(max(1.0 - left, 1e-300))


@exact
def combine(pool, scratch, classes, log_p):
    """Fill the log-probabilities from the experts' margins z (O, K); f, parts and p, the pool's probabilities, are
    kept for ``teach``.
    """
    z, f, g, parts = scratch.z, scratch.f, scratch.g, scratch.parts
    experts = z.shape[0]
    for k in range(classes):
        f[0, k] = 0.0
    for o in range(experts):
        for k in range(classes):
            f[o + 1, k] = pool.temperatures[o] * _clamped(z[o, k])
            f[0, k] += pool.shares[o] * f[o + 1, k]
    for k in range(classes):
        g[k] = pool.stack[0] * f[0, k] + pool.biases[k]
    for o in range(experts):
        for k in range(classes):
            f[o + 1, k] -= f[0, k]
            g[k] += pool.stack[o + 1] * f[o + 1, k]
    fill_softmax(f[0], classes, parts[0])
    top = g[0]
    for k in range(classes):
        top = max(top, g[k])
    once, sharp, flat = 0.0, 0.0, 0.0
    for k in range(classes):
        third = math.exp((g[k] - top) / 3.0)
        whole = third * third * third
        parts[3, k] = third
        parts[1, k] = whole
        parts[2, k] = whole * whole * whole
        flat += third
        once += whole
        sharp += parts[2, k]
    for k in range(classes):
        parts[1, k] /= once
        parts[2, k] /= sharp
        parts[3, k] /= flat
        parts[4, k] = 1.0 / classes
        total = 0.0
        for i in range(PARTS):
            total += pool.mix[i] * parts[i, k]
        scratch.p[k] = total
    _correct(pool, scratch.p, classes, log_p)


@exact
def _newton(pool, gradient, work):
    """``stack −= (hessian + PRIOR·I)^{-1} gradient``, by Cholesky's method in ``work``."""
    n = gradient.size
    for i in range(n):
        for j in range(i + 1):
            total = pool.hessian[i, j]
            for k in range(j):
                total -= work[i, k] * work[j, k]
            if i == j:
                work[i, i] = math.sqrt(max(total + PRIOR, 1e-6 * PRIOR))
            else:
                work[i, j] = total / work[j, j]
    for i in range(n):
        for k in range(i):
            gradient[i] -= work[i, k] * gradient[k]
        gradient[i] /= work[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            gradient[i] -= work[k, i] * gradient[k]
        gradient[i] /= work[i, i]
        pool.stack[i] = min(max(pool.stack[i] - gradient[i], -HOTTEST), HOTTEST)


@exact
def _learn_mix(pool, parts, y, certain, h, t):
    """One step of online expectation maximisation."""
    pace = 1.0 - math.pow(1.0 - max(SLOWEST, 1.0 / math.sqrt(t + SOON)), h)
    total = 0.0
    for i in range(PARTS):
        pool.mix[i] = max(pool.mix[i] * (1.0 - pace + pace * parts[i, y] / certain), LEAST)
        total += pool.mix[i]
    for i in range(PARTS):
        pool.mix[i] /= total


@exact
def _learn_stack(pool, f, p, y, classes, h, keep, gradient, work):
    """Newton's step for the stack and for the biases, p being its softmax."""
    n = gradient.size
    for i in range(n):
        mean = 0.0
        for k in range(classes):
            mean += p[k] * f[i, k]
        gradient[i] = mean
    for i in range(n):
        for j in range(i + 1):
            product = 0.0
            for k in range(classes):
                product += p[k] * f[i, k] * f[j, k]
            pool.hessian[i, j] = keep * pool.hessian[i, j] + h * (product - gradient[i] * gradient[j])
            pool.hessian[j, i] = pool.hessian[i, j]
    for i in range(n):
        gradient[i] = h * (gradient[i] - f[i, y])
    _newton(pool, gradient, work)
    for k in range(classes):
        pool.firmness[k] = keep * pool.firmness[k] + (1.0 - keep) * PRIOR + h * p[k] * (1.0 - p[k])
        pool.biases[k] -= h * (p[k] - (1.0 if k == y else 0.0)) / pool.firmness[k]


@exact
def _learn_temperatures(pool, z, y, classes, h, keep, scaled, p):
    """Newton's step for each temperature, and the losses of the mixture."""
    for o in range(z.shape[0]):
        for k in range(classes):
            scaled[k] = pool.temperatures[o] * _clamped(z[o, k])
        whole = fill_softmax(scaled, classes, p)
        pool.losses[o] = keep * pool.losses[o] + h * (whole - scaled[y])
        mean, square = 0.0, 0.0
        for k in range(classes):
            v = _clamped(z[o, k])
            mean += p[k] * v
            square += p[k] * v * v
        pool.hardness[o] = keep * pool.hardness[o] + (1.0 - keep) * PRIOR + h * max(square - mean * mean, 0.0)
        better = pool.temperatures[o] - h * (mean - _clamped(z[o, y])) / pool.hardness[o]
        pool.temperatures[o] = min(max(better, COOLEST), HOTTEST)
        pool.shares[o] = 1.0
    _exponential_weights(pool.losses, pool.shares, 0, 0.0, RATE, pool.shares)


@exact
def _learn_gaps(pool, p, y, classes, h, keep):
    """How often the likeliest class is right, beside how often it should be."""
    top, second, knot, part = _likeliest(p, classes)
    if p[top] <= TIED * second:
        h = 0.0
    for i in range(KNOTS):
        near = (1.0 - part if i == knot else (part if i == knot + 1 else 0.0)) * h
        pool.gaps[0, i] = keep * pool.gaps[0, i] + near
        pool.gaps[1, i] = keep * pool.gaps[1, i] + near * ((1.0 if top == y else 0.0) - p[top])


@exact
def teach(pool, scratch, y, classes, weight, t):
    """Take in the label of the row that ``combine`` was called for last, the t-th from 0."""
    h = min(weight, HEAVIEST)
    keep = (t + 1.0) / (t + 1.0 + FADE)
    _learn_gaps(pool, scratch.p, y, classes, h, keep)
    _learn_mix(pool, scratch.parts, y, max(scratch.p[y], 1e-300), h, t)
    _learn_stack(pool, scratch.f, scratch.parts[1], y, classes, h, keep, scratch.gradient, scratch.work)
    _learn_temperatures(pool, scratch.z, y, classes, h, keep, scratch.g, scratch.p)
