"""Deferred updates of weights whose feature does not occur, in closed form: the arithmetic behind ``lazy``.

Mirror descent with l1 and l2 maps the size m of such a weight in every round to ``m ← max(m − l1·η, 0)/(1 + l2·η)``,
η = step/H. All these maps, whatever η, fix the point −l1/l2. So from round r to round k, with
``G = Π(1 + l2·η)`` and ``S = Σ η/G`` counted from any common beginning, and as long as m stays above 0,

    m_k = m·G_r/G_k − l1·G_r·(S_k − S_r)
    Σ_{r<i≤k} m_i = (k−r)·m − G_r·(l1 + l2·m)·Σ_{r<i≤k} (S_i − S_r)

For AdaGrad η is constant while a feature does not occur, and G, S and ΣS are powers. For online gradient descent
η = step/√t is the same for all features, and G, S and ΣS are kept for each round of a *window*. The sum of
iterates of dual averaging, ``Σ step·(|ḡ| − t·l1)/(H + step·t·l2)``, is treated alike: prefix sums in a window
for H = √t, the Euler-Maclaurin formula for a constant H.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onsketch.jit.decorators import exact_inlined


class MirrorWindow(NamedTuple):
    """Columns of a window under mirror descent."""

    growth: int
    """G"""
    pull: int
    """S"""
    pulls: int
    """ΣS"""


MIRROR = MirrorWindow(*range(3))


class AveragingWindow(NamedTuple):
    """Columns of a window under dual averaging."""

    share: int
    """Σ 1/(√t + step·l2·t)"""
    time: int
    """Σ t/(√t + step·l2·t)"""


AVERAGING = AveragingWindow(*range(2))


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
def shrunk_in_window(l1, l2, window, r, now, m, summed):
    """The same from round r to round ``now`` of a window."""
    growth = window[r, MIRROR.growth]
    start = window[r, MIRROR.pull]
    left = m * growth / window[now, MIRROR.growth] - l1 * growth * (window[now, MIRROR.pull] - start)
    if not summed:
        return max(left, 0.0), 0.0
    pull = growth * (l1 + l2 * m)
    alive = now
    if left <= 0.0 and l1 > 0.0:
        left = 0.0
        alive = r
        beyond = now
        while beyond - alive > 1:
            middle = (alive + beyond) // 2
            if pull * (window[middle, MIRROR.pull] - start) < m:
                alive = middle
            else:
                beyond = middle
    n = alive - r
    return left, n * m - pull * (window[alive, MIRROR.pulls] - window[r, MIRROR.pulls] - n * start)


@exact_inlined
def _rational_sum(p, l1, u, c, n):
    """``Σ_{0≤i<n} (p − l1·i)/(u + c·i)``."""
    if c == 0.0:
        return (p * n - 0.5 * l1 * n * (n - 1.0)) / u
    total = 0.0
    while n > 0.0 and (32.0 * c > u or n <= 16.0):
        total += p / u
        p -= l1
        u += c
        n -= 1.0
    if n <= 0.0:
        return total
    # Euler and Maclaurin's formula about midpoints; the integral from −½ to n−½, arranged for small q
    q = c / u
    first = 1.0 - 0.5 * q
    last = first + q * n
    y = q * n / first
    log = math.log1p(y)
    less = y - log
    if y < 1.0:
        r = y / (2.0 + y)
        less = 0.0
        for k in range(35, 1, -2):
            less = r * r * (less + 1.0 / k)
        less = r * y - 2.0 * r * less
    value = p * log / q - l1 * (less - 0.5 * q * y) / (q * q)
    bend = q * p + l1
    early = 1.0 / (first * first)
    late = 1.0 / (last * last)
    value += bend / 24.0 * (late - early)
    value -= bend * (7.0 / 960.0) * q * q * (late * late - early * early)
    value += bend * (31.0 / 8064.0) * q**4 * (late * late * late - early * early * early)
    return total + value / u


@exact_inlined
def _limited(value, low, high):
    """A number of rounds, whole and within these; infinity is taken, too."""
    return np.int64(np.floor(min(max(value, low), high)))


@exact_inlined
def dual_total(terms, step, metric, size, bound, before, now):
    """Σ of dual averaging's weights over the rounds before < t ≤ now, |ḡ| = size and the metric constant."""
    last = now
    if terms.l1 > 0.0:
        last = _limited(size / terms.l1, before, now)
    at_bound = before
    slope = step * terms.l1 + bound * step * terms.l2
    if bound < math.inf:
        room = step * size - bound * metric
        if slope > 0.0:
            at_bound = _limited(room / slope, before, last)
        elif room >= 0.0:
            at_bound = last
    first = at_bound + 1.0
    ratio = _rational_sum(
        size - terms.l1 * first, terms.l1, metric + step * terms.l2 * first, step * terms.l2, last - at_bound
    )
    return (bound * (at_bound - before) if at_bound > before else 0.0) + step * ratio


@exact_inlined
def dual_total_in_window(terms, step, window, start, size, bound, r, now):
    """The same for H = √t, from round r to round ``now`` of a window that starts after round ``start``."""
    last = now
    if terms.l1 > 0.0:
        last = _limited(size / terms.l1 - start, r, now)
    at_bound = r
    if bound < math.inf:
        # the largest u = √t with bound·(u + step·l2·u²) ≤ step·(size − l1·u²)
        square = bound * step * terms.l2 + step * terms.l1
        u = 2.0 * step * size / (bound + math.sqrt(bound * bound + 4.0 * square * step * size))
        at_bound = _limited(u * u - start, r, last)
    share = window[last, AVERAGING.share] - window[at_bound, AVERAGING.share]
    time = window[last, AVERAGING.time] - window[at_bound, AVERAGING.time]
    total = step * (size * share - terms.l1 * time)
    return total + bound * (at_bound - r) if at_bound > r else total
