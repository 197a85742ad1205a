"""Newton's step with one sketch for all classes, where features are many and rows are dense.

A row's curvature in a metric that all classes share is the mean of the non-zero eigenvalues of diag(p) − ppᵀ,
κ = (1 − Σp²)/(K − 1); one robust frequent-directions sketch S of the rows √κ·x serves both experts,

    A_e = ridge_e·I + SᵀS,   ridge_e = c_e·norm + γ_e·Σρ,   τ_k = η_e·x·A_e^{-1}x/α_k,

where α_k, the share of class k in all curvature times K, gives rare classes longer steps. Between shrinks the weights
of class k are ``w_k + Sᵀa_k``, so that a row costs O(m·(non-zeros + K + m)); a shrink, once every m + 1 rows, O(m·K·d).

K classes differ in up to K − 1 directions, which the sketch must hold beside those in which the rows of one class do:
m grows with K (``directions_for``).
"""

from __future__ import annotations

import math

from onsketch.core import bordered
from onsketch.core.shrinking import HALF
from onsketch.core.softmax import LONGEST, implicit_slopes
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import exact
from onsketch.learners.multiclass.softmax.state import AVERAGE, NEWTON, RUNNING, TALLY

_rebuild, _border, _restart = map(exact, (bordered.rebuild, bordered.border, bordered.restart))
_shrink_gram = exact(bordered.shrink)

RIDGES = (0.1, 0.001)
"""c of the two experts."""
ESCAPED = (HALF, 0.005)
"""γ of the two; with ½ for both, both ridges drown in what a small sketch loses."""
A_CLASS, AT_MOST = 3, 4
"""Directions for each class, and how many times those asked for there may be."""
STEPS = (4.0, 2.0)
"""η."""
NEGLIGIBLE = 1e-6
"""Rows that tell less than this (curvature times leverage) are not sketched."""
LEAP = 1.1
"""How far the rows' mean square length and the one that ridges are made of may come apart."""
LEAST_ALPHA = 0.01


def directions_for(size: int, classes: int) -> int:
    """Return m for so many classes where ``sketch_size`` is ``size``."""
    size = max(size, 2)
    return max(size, min(A_CLASS * classes, AT_MOST * size))


@exact
def ridge_of(common, e):
    """The ridge of Newton expert e."""
    return RIDGES[e] * common.running[RUNNING.used] + ESCAPED[e] * common.running[RUNNING.escaped]


@exact
def _ridges(common):
    return ridge_of(common, 0), ridge_of(common, 1)


@exact
def rebuild(common, table, scratch):
    """The small inverses from the Gram matrix."""
    n, values, vectors = common.tally[TALLY.sketched], scratch.values, scratch.vectors
    _rebuild(table.gram, table.inverses, _ridges(common), n, values, vectors, scratch.eigen_work)


@exact
def follow_norm(common, table, scratch):
    """Let the ridges follow the rows' lengths when they have come apart."""
    norm, used = common.running[RUNNING.norm], common.running[RUNNING.used]
    if norm > LEAP * used or used > LEAP * norm:
        common.running[RUNNING.used] = norm
        rebuild(common, table, scratch)


@exact
def _append(common, table, scratch, rho, length):
    """Border the Gram matrix and both inverses by the row ρ·x."""
    n = common.tally[TALLY.sketched]
    common.tally[TALLY.sketched] = n + 1
    for k in range(table.coefficients.shape[1]):
        for c in range(table.coefficients.shape[2]):
            table.coefficients[n, k, c] = 0.0
    if not _border(table.gram, table.inverses, _ridges(common), n, scratch.products, 0, scratch.q, rho, length):
        rebuild(common, table, scratch)


@exact
def fold(common, table, features):
    """Write the coefficients on the sketch's rows into the weights."""
    room = table.alphas.size
    for i in range(features):
        for r in range(common.tally[TALLY.sketched]):
            s = table.sketch[i, r]
            if s != 0.0:
                for b in range(2 * NEWTON):
                    at = (b if b < NEWTON else AVERAGE + b - NEWTON) * room
                    a = table.coefficients[r, b]
                    for k in range(room):
                        table.weights[i, at + k] += s * a[k]
    for r in range(common.tally[TALLY.sketched]):
        for b in range(2 * NEWTON):
            for k in range(room):
                table.coefficients[r, b, k] = 0.0


@exact
def _shrink(common, table, scratch, features):
    """Shrink a full sketch of 2m rows to its m − 1 first directions."""
    n = common.tally[TALLY.sketched]
    kept = n // 2 - 1
    fold(common, table, features)
    values, vectors, change = scratch.values, scratch.vectors, scratch.transform
    rho = _shrink_gram(table.gram, n, n // 2, 1.0, values, vectors, scratch.eigen_work, change, 0, 0)
    common.running[RUNNING.escaped] += rho
    _restart(table.gram, table.inverses, _ridges(common), n, kept)
    common.tally[TALLY.sketched] = kept
    row = scratch.products
    for i in range(features):
        s = table.sketch[i]
        for r in range(kept):
            row[r] = 0.0
        for j in range(n):
            if s[j] != 0.0:
                for r in range(kept):
                    row[r] += s[j] * change[j, r]
        for r in range(n):
            s[r] = row[r] if r < kept else 0.0


@exact
def _expert(common, table, scratch, e, length, y, classes, h, trust):
    """The moves of Newton expert e; returns its leverage and the row's curvature."""
    n = common.tally[TALLY.sketched]
    inside = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += table.inverses[e, i, j] * scratch.products[j]
        scratch.q[e, i] = total
        inside += total * scratch.products[i]
    ridge = ridge_of(common, e)
    leverage = max(length - inside, CUTOFF * length) / ridge
    tau, slopes = scratch.tau, scratch.slopes
    longest = 0.0
    for k in range(classes):
        alpha = (table.alphas[k] * classes + 1.0) / (common.running[RUNNING.alpha] + 1.0)
        tau[k] = STEPS[e] * leverage / max(alpha, LEAST_ALPHA)
        longest = max(longest, tau[k])
    h = min(h, LONGEST / longest)
    implicit_slopes(scratch.z[e], y, tau, h, classes, slopes)
    for k in range(classes):
        scratch.moves[e, k] = -h * slopes[k] * tau[k] / (leverage * ridge)
    bend = 0.0
    for k in range(classes):
        p = abs(slopes[k])
        bend += p * (1.0 - p)
        table.alphas[k] += trust * h * p * (1.0 - p)
    common.running[RUNNING.alpha] += trust * h * bend
    return leverage, h * bend / max(classes - 1.0, 1.0)


@exact
def sketch_step(common, table, pool, scratch, places, x, count, features, length, y, classes, h, omega):
    """The implicit steps of both Newton experts, written at once, and the row into the sketch."""
    n = common.tally[TALLY.sketched]
    trusted = 0.0
    for e in range(NEWTON):
        trusted += pool.shares[e] + pool.shares[AVERAGE + e] + 1e-9
    curvature, told = 0.0, 0.0
    for e in range(NEWTON):
        trust = (pool.shares[e] + pool.shares[AVERAGE + e] + 1e-9) / trusted
        leverage, bend = _expert(common, table, scratch, e, length, y, classes, h, trust)
        curvature += trust * bend
        told = max(told, leverage)
    rho = math.sqrt(curvature) if curvature * told > NEGLIGIBLE else 0.0
    room = table.alphas.size
    for j in range(count):
        v = x[j]
        if v != 0.0:
            w = table.weights[places[j]]
            for e in range(NEWTON):
                move = scratch.moves[e]
                for k in range(classes):
                    w[e * room + k] += move[k] * v
                    w[(AVERAGE + e) * room + k] += omega * move[k] * v
            table.sketch[places[j], n] = rho * v
    for e in range(NEWTON):
        move = scratch.moves[e]
        for i in range(n):
            q = scratch.q[e, i]
            for k in range(classes):
                table.coefficients[i, e, k] -= move[k] * q
                table.coefficients[i, NEWTON + e, k] -= omega * move[k] * q
    if rho > 0.0:
        _append(common, table, scratch, rho, length)
        if common.tally[TALLY.sketched] == table.gram.shape[0]:
            _shrink(common, table, scratch, features)
