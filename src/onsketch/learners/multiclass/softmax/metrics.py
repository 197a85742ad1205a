"""Newton's step with a metric for each class, where features are few: A_k = c·norm·I + Σ κ_k·xxᵀ, κ_k = p'_k(1 − p'_k).

The inverses are kept, O(d²) for each class that has something to say. A class that could not move the label's margin by
much (see ``_reach``) is left alone; a filter on its probability alone would be unsafe, for steps can be long.
"""

from __future__ import annotations

import math

from onsketch.core.softmax import LONGEST, implicit_slopes
from onsketch.jit.decorators import exact
from onsketch.learners.multiclass.softmax.state import AVERAGE

RIDGES = (0.1, 0.001)
"""c of the two experts."""
STEPS = (1.5, 2.0)
"""η: how many Newton steps a step is; their averages make up for it."""
SMALL = 0.1
"""A move of a margin that is not worth d² operations."""
SLIGHT = 1e-5
"""A row that tells a class less than this (curvature times leverage) leaves its metric as it is."""


@exact
def _reach(e, length, norm, h):
    """Classes whose margin is lower than the label's by more than this are not moved: it would be by SMALL at most."""
    return math.log(max(h, 1.0) * STEPS[e] * length / (RIDGES[e] * norm * SMALL))


@exact
def _products(metrics, e, k, places, x, count, width, start, q):
    """``q = P_k x`` for an x with these places; returns x·P_k x."""
    for i in range(width):
        q[i] = 0.0
    for j in range(count):
        row = metrics[e, k, places[j]]
        if row[places[j]] == 0.0:  # a feature or a class not met so far
            row[places[j]] = start
        v = x[j]
        if v != 0.0:
            for i in range(width):
                q[i] += v * row[i]
    total = 0.0
    for j in range(count):
        total += q[places[j]] * x[j]
    return total


@exact
def metric_step(table, scratch, e, places, x, count, width, length, norm, y, classes, h, omega):
    """The implicit step of Newton expert e, written at once: everything that could fail has been checked."""
    z, tau, slopes, q = scratch.z[e], scratch.tau, scratch.slopes, scratch.q
    start = 1.0 / (RIDGES[e] * norm)
    step = STEPS[e]
    longest = 0.0
    lowest = z[y] - _reach(e, length, norm, h)
    for k in range(classes):
        tau[k] = 0.0
        if k == y or z[k] > lowest:
            tau[k] = max(_products(table.metrics, e, k, places, x, count, width, start, q[k]), 1e-300) * step
            longest = max(longest, tau[k])
    h = min(h, LONGEST / longest)
    implicit_slopes(z, y, tau, h, classes, slopes)
    weights, room = table.weights, table.alphas.size
    for k in range(classes):
        if tau[k] > 0.0:
            move = h * step * slopes[k]
            for i in range(width):
                weights[i, e * room + k] -= move * q[k, i]
                weights[i, (AVERAGE + e) * room + k] -= omega * move * q[k, i]
            p = abs(slopes[k])
            bend = h * p * (1.0 - p)
            if bend * tau[k] > SLIGHT:
                bend /= 1.0 + bend * tau[k] / step
                for i in range(width):
                    v = bend * q[k, i]
                    if v != 0.0:
                        row = table.metrics[e, k, i]
                        for j in range(width):
                            row[j] -= v * q[k, j]
