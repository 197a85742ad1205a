"""The implicit softmax step: the slopes of all classes are taken where the step ends, so that none overshoots.

A row of class y and weight h moves the margin of class k along its own metric, with leverage τ_k ≥ 0:

    z'_k = z_k − h·τ_k·(p'_k − [k = y]),   p' = softmax(z'),

the minimiser of ``−h·log p_y(v) + Σ (v_k − z_k)²/(2τ_k)``. With L = log Σ exp z'_k each class is by itself,

    h·τ_k·p'_k = ω(a_k − L + log hτ_k),   a_k = z_k + h·τ_k·[k = y],   ω + log ω = s

(Wright's omega), and L is the root of ``Σ p'_k(L) = 1``: a decreasing function of one variable. Newton's method on its
logarithm, kept between bounds that follow from 0 ≤ p' ≤ 1, takes three or four steps.

The slope of the label's class, ``p'_y − 1``, is the sum of the others' and is computed as such: for long steps p'_y is
1 to rounding, and a step is h·τ_y times how far it is from 1. O(K) a step.
"""

from __future__ import annotations

import math

from onsketch.jit.decorators import exact, exact_kernel

LONGEST = 1e30
"""Steps (h·τ) are not longer than this: the label has long become certain."""

CLOSE = 1e-10
"""How exactly margins are found, in units of the larger of 1 and the label's move."""


@exact
def omega(s):
    """The root of ``ω + log ω = s``: a start good to 1e-2, then two steps of fourth order (Fritsch 1973)."""
    if s < -9.0:
        w = math.exp(s)
        return w * (1.0 - w * (1.0 - 1.5 * w))
    if s < -2.0:
        w = math.exp(s)
        w *= 1.0 - w + 1.5 * w * w
    elif s < 4.0:
        e = s - 1.0
        w = 1.0 + e * (0.5 + e * (0.0625 - e / 192.0))
    else:
        w = s - math.log(s)
    for _ in range(2):
        r = s - w - math.log(w)
        a = 1.0 + w
        b = 2.0 * a * (a + 2.0 * r / 3.0)
        w *= 1.0 + r / a * (b - r) / (b - 2.0 * r)
    return w


@exact
def _bounds(z, y, tau, h, classes):
    """Where L can be: low, high, and the longest step."""
    top = z[y] + h * tau[y]
    low = z[y]
    most = 0.0
    for k in range(classes):
        most = max(most, h * tau[k])
        if k != y:
            top = max(top, z[k])
            low = max(low, z[k] - h * tau[k])
    total = math.exp(z[y] + h * tau[y] - top)
    for k in range(classes):
        if k != y:
            total += math.exp(z[k] - top)
    high = top + math.log(total)
    largest = z[y]
    for k in range(classes):
        largest = max(largest, z[k])
    # there the others' shares are below 1/(e·(1 + most)), and the label lacks 1/most at least
    high = min(high, largest + math.log(classes) + math.log1p(most) + 1.0)
    return min(max(low, high - most), high), high, most


@exact
def _shares(z, y, tau, h, classes, level, slopes):
    """Fill ``p'_k(L)`` for the other classes; returns Σ p'_k − 1, its slope in L, and 1 − p'_y."""
    others = 0.0
    slope = 0.0
    for k in range(classes):
        if k != y:
            t = h * tau[k]
            b = z[k] - level
            s = b + math.log(max(t, 1e-9))
            p = math.exp(min(b, 50.0)) if t < 1e-9 or s < -40.0 else omega(s) / t
            slopes[k] = p
            others += p
            slope += p / (1.0 + t * p)
    t = h * tau[y]
    if t < 1e-9:
        p = math.exp(min(z[y] - level, 50.0))
        short = -math.expm1(min(z[y] - level, 50.0))
    else:
        p = omega(z[y] + t - level + math.log(t)) / t
        short = (level - z[y] + math.log(p)) / t if t > 1.0 and p > 0.5 else 1.0 - p  # p may be 1 to rounding
    return others - short, slope + p / (1.0 + t * p), short


@exact
def implicit_slopes(z, y, tau, h, classes, slopes):
    """Fill ``p'_k − [k = y]``; returns the number of iterations."""
    low, high, most = _bounds(z, y, tau, h, classes)
    level = max(low, high - 0.5 * most) if most < 1.0 else max(low, high - most)
    last = 1e300
    count = 0
    for _ in range(200):
        count += 1
        gap, slope, short = _shares(z, y, tau, h, classes, level, slopes)
        if gap > 0.0:
            low = level
        else:
            high = level
        if abs(gap) <= CLOSE * (abs(short) + min(1.0, 1.0 / max(most, 1e-300))):
            break
        g = math.log1p(max(gap, -1.0 + 1e-300))
        better = level + g * (1.0 + gap) / slope if slope > 0.0 else low
        # Newton where it stays inside and gets closer, bisection otherwise
        if not low <= better <= high or abs(gap) > 0.7 * last:
            better = 0.5 * (low + high)
        if better == level:
            break
        last = abs(gap)
        level = better
    total = 0.0
    for k in range(classes):
        if k != y:
            total += slopes[k]
    slopes[y] = -min(total, 1.0)
    return count


@exact
def fill_softmax(z, classes, p):
    """``p = softmax(z)``; returns log Σ exp z."""
    top = z[0]
    for k in range(classes):
        top = max(top, z[k])
    total = 0.0
    for k in range(classes):
        p[k] = math.exp(z[k] - top)
        total += p[k]
    for k in range(classes):
        p[k] /= total
    return top + math.log(total)


@exact_kernel
def solve(z, y, tau, h, slopes):
    """``implicit_slopes`` for callers in Python: tests and explanations."""
    return implicit_slopes(z, y, tau, h, z.size, slopes)
