"""The Newton experts: an exact metric for each output where features are few, otherwise one sketch for all outputs.

Both experts make implicit Newton steps of length 1, ``w ← w − h·ℓ'(z')·P x`` with leverage ``τ = xᵀP x``, and differ in
their ridge. A row of weight h counts h times. With the share φ that forgetting has left since the last ``upkeep``,
``A = φ·Ã`` is the metric and Ã is what is stored.

    exact    P_k = (ridge·I + Σ κ_k·xxᵀ)⁻¹ for each output k
    sketch   A = ridge·I + SᵀS, S from robust frequent directions; output k steps by A⁻¹x over its share

``change`` rewrites everything known of a feature when it becomes x' = r·x + b. With z the constant feature and
T = I + (b/z)·e_j e₀ᵀ: w ← T⁻ᵀw and A ← T A Tᵀ. Then the prior of w_j is exchanged such that A w stays the same:
w ← w − g·w_j·A⁻¹e_j and A ← A + g·e_j e_jᵀ with g = ridge·(1 − r²).
"""

from __future__ import annotations

import math

from onsketch.core.softmax import implicit_slopes
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import element, fma, joined, lane, load, plus, spread, store
from onsketch.learners.auto.columns import append, entry, ridge_of, set_entry
from onsketch.learners.auto.state import (
    DELAYED,
    FEW,
    FIRST,
    LEAST_FACTOR,
    NARROW,
    NEWTON,
    OWN,
    REWRITTEN,
    RUN,
    SMALL,
    WORTH,
)
from onsketch.learners.sketched.passes import gather

TINY = 1e-12


@inlined
def worth_exact(classes, size):
    """Return True where exact metrics of this size are worth their cost."""
    return size <= NARROW and classes * size * size <= FEW


@inner
def apply_metric(state, e, k, slots, x, count, size, factors, q):
    """Fill ``q = P x`` with an exact metric; returns xᵀP x."""
    delayed, n = state.delayed[e, k], state.waiting[e, k]
    stride = delayed.shape[1]
    gather(state.metrics[e, k], slots, x, 0, count, size, q)
    if n > 0:
        for i in range(n):
            along = 0.0
            for b in range(count):
                along += delayed[i, slots[b]] * x[b]
            factors[i] = -state.delayed_by[e, k, i] * along
        for at in range(0, size, 8):
            row = load(q, at, 8)
            for i in range(n):
                row = fma(spread(element(factors, i), 8), load(delayed, i * stride + at, 8), row)
            store(q, at, row)
    total = 0.0
    for b in range(count):
        total += q[slots[b]] * x[b]
    return total


@inner
def take_off(state, e, k, size, by, factors):
    """``P −= by·u uᵀ`` for the vector after those that wait; written when there are ``DELAYED``."""
    n = state.waiting[e, k]
    state.delayed_by[e, k, n] = by
    state.waiting[e, k] = n + 1
    if n + 1 == DELAYED:
        write_delayed(state, e, k, size, factors)


@inlined
def _store_rows(metric, place, stride, a, b, c, d):
    """Store four numbers of four rows."""
    store(metric, place, a)
    store(metric, place + stride, b)
    store(metric, place + 2 * stride, c)
    store(metric, place + 3 * stride, d)


@inlined
def _mirror(metric, place, stride, a, b, c, d):
    """Store a block of four by four numbers, given by its rows, transposed."""
    first = joined(lane(a, 0), lane(b, 0), lane(c, 0), lane(d, 0))
    second = joined(lane(a, 1), lane(b, 1), lane(c, 1), lane(d, 1))
    third = joined(lane(a, 2), lane(b, 2), lane(c, 2), lane(d, 2))
    fourth = joined(lane(a, 3), lane(b, 3), lane(c, 3), lane(d, 3))
    _store_rows(metric, place, stride, first, second, third, fourth)


@inlined
def _take_off_block(metric, delayed, n, factors, i, at, stride):
    """Take the vectors that wait off four rows and eight columns, and write those right of the diagonal below it."""
    place = i * stride + at
    a, b = load(metric, place, 4), load(metric, place + stride, 4)
    c, d = load(metric, place + 2 * stride, 4), load(metric, place + 3 * stride, 4)
    p, q = load(metric, place + 4, 4), load(metric, place + stride + 4, 4)
    r, s = load(metric, place + 2 * stride + 4, 4), load(metric, place + 3 * stride + 4, 4)
    for h in range(n):
        u, v = load(delayed, h * stride + at, 4), load(delayed, h * stride + at + 4, 4)
        by = spread(element(factors, 4 * h), 4)
        a, p = fma(by, u, a), fma(by, v, p)
        by = spread(element(factors, 4 * h + 1), 4)
        b, q = fma(by, u, b), fma(by, v, q)
        by = spread(element(factors, 4 * h + 2), 4)
        c, r = fma(by, u, c), fma(by, v, r)
        by = spread(element(factors, 4 * h + 3), 4)
        d, s = fma(by, u, d), fma(by, v, s)
    _store_rows(metric, place + 4, stride, p, q, r, s)
    if at >= i:  # otherwise they have been written from above the diagonal
        _store_rows(metric, place, stride, a, b, c, d)
    if at > i:
        _mirror(metric, at * stride + i, stride, a, b, c, d)
    if at + 4 > i:
        _mirror(metric, (at + 4) * stride + i, stride, p, q, r, s)


@inner
def write_delayed(state, e, k, size, factors):
    """Take the vectors that wait off an exact metric, all in one pass over one triangle."""
    metric, delayed, n = state.metrics[e, k], state.delayed[e, k], state.waiting[e, k]
    stride = metric.shape[1]
    if n > 0:
        for i in range(0, size, 4):
            for h in range(n):
                for r in range(4):
                    factors[4 * h + r] = -state.delayed_by[e, k, h] * delayed[h, i + r]
            for at in range(i // 8 * 8, size, 8):
                _take_off_block(metric, delayed, n, factors, i, at, stride)
        state.waiting[e, k] = 0


@inner
def change(state, scratch, exact, size, classes, j, r, b):
    """Rewrite what is known of the feature in slot j, which is x' = r·x + b from now on."""
    run, weights = state.running, state.weights
    if run[RUN.used] == 0.0:
        return
    tau = b / math.sqrt(run[RUN.used]) if j > 0 else 0.0
    state.energies[j, OWN] *= r * r
    for k in range(classes):
        weights[0, OWN, k] -= b * weights[j, OWN, k]
    if exact:
        _change_exact(state, scratch, size, classes, j, r, tau)
    else:
        _change_sketched(state, scratch, classes, j, r, tau)


@inner
def _change_exact(state, scratch, size, classes, j, r, tau):
    run, weights, metrics = state.running, state.weights, state.metrics
    for e in range(NEWTON):
        g = ridge_of(run, True, e) * (1.0 - r * r)
        for k in range(classes):
            write_delayed(state, e, k, size, scratch.factors)
            weights[j, FIRST + e, k] /= r
            weights[0, FIRST + e, k] -= tau * weights[j, FIRST + e, k]
            for i in range(size):
                metrics[e, k, j, i] /= r
            for i in range(size):
                metrics[e, k, i, j] /= r
            if tau != 0.0:
                for i in range(size):
                    metrics[e, k, 0, i] -= tau * metrics[e, k, j, i]
                for i in range(size):
                    metrics[e, k, i, 0] -= tau * metrics[e, k, i, j]
            if abs(g) * metrics[e, k, j, j] > REWRITTEN:
                u = state.delayed[e, k, 0]
                for i in range(u.size):
                    u[i] = metrics[e, k, j, i]
                by = g / (1.0 + g * u[j])
                move = by * weights[j, FIRST + e, k]
                take_off(state, e, k, size, by, scratch.factors)
                for i in range(size):
                    weights[i, FIRST + e, k] -= move * u[i]


@inner
def _change_sketched(state, scratch, classes, j, r, tau):
    run, weights, a, inverses = state.running, state.weights, state.coefficients, state.inverses
    m, place, turned, q = int(run[RUN.rows]), state.places[j], scratch.turned, scratch.inner
    for i in range(m):
        turned[0, i] = entry(state, place, i) if place >= 0 else 0.0
        turned[1, i] = r * turned[0, i] + tau * entry(state, 0, i) if place >= 0 else 0.0
    for e in range(NEWTON):
        for k in range(classes):
            total, after = weights[j, FIRST + e, k], 0.0
            for i in range(m):
                total += turned[0, i] * a[e, i, k]
                after += turned[1, i] * a[e, i, k]
            weights[j, FIRST + e, k] = total / r - after
            weights[0, FIRST + e, k] -= tau * total / r
    if place >= 0:
        for i in range(m):
            for h in range(m):
                state.gram[i, h] += turned[1, i] * turned[1, h] - turned[0, i] * turned[0, h]
        for e in range(NEWTON):
            for sign in range(2):  # the new entries come in, then the old ones go
                dot = 0.0
                for i in range(m):
                    q[e, i] = 0.0
                    for h in range(m):
                        q[e, i] += inverses[e, i, h] * turned[1 - sign, h]
                    dot += q[e, i] * turned[1 - sign, i]
                by = 1.0 / (1.0 + dot) if sign == 0 else -1.0 / max(1.0 - dot, 1e-9)
                for i in range(m):
                    for h in range(m):
                        inverses[e, i, h] -= by * q[e, i] * q[e, h]
        for i in range(m):
            set_entry(state, place, i, turned[1, i])
    for e in range(NEWTON):
        for i in range(m):
            q[e, i] = 0.0
            for h in range(m):
                q[e, i] += inverses[e, i, h] * turned[1, h]
        for k in range(classes):
            w = weights[j, FIRST + e, k]
            for i in range(m):
                w += turned[1, i] * a[e, i, k]
            w *= 1.0 - r * r
            weights[j, FIRST + e, k] -= w
            for i in range(m):
                a[e, i, k] += w * q[e, i]


@inner
def start_anew(state, scratch, exact, size, classes, j):
    """Forget what is known of the feature in slot j."""
    run, m, place = state.running, int(state.running[RUN.rows]), state.places[j]
    state.energies[j, OWN] = 0.0
    for k in range(classes):
        state.weights[j, OWN, k] = 0.0
        for e in range(NEWTON):
            state.weights[j, FIRST + e, k] = 0.0
            if exact:
                write_delayed(state, e, k, size, scratch.factors)
                for i in range(size):
                    state.metrics[e, k, i, j] = state.metrics[e, k, j, i] = 0.0
                state.metrics[e, k, j, j] = 1.0 / ridge_of(run, exact, e)
            elif place >= 0:  # the column of S stays, and counts for nothing in the weight
                for i in range(m):
                    state.weights[j, FIRST + e, k] -= entry(state, place, i) * state.coefficients[e, i, k]


@inner
def exact_leverages(state, scratch, size, classes, count, label, length):
    """Fill the leverages of the outputs, and P x in the next vectors that wait, for both experts."""
    run, z, lev = state.running, scratch.margins, scratch.leverages
    for e in range(NEWTON):
        lowest = z[FIRST + e, label] - math.log(max(length / (ridge_of(run, True, e) * SMALL), 1.0))
        for k in range(classes):
            lev[e, k] = 0.0
            if k == label or z[FIRST + e, k] > lowest:
                q = state.delayed[e, k, state.waiting[e, k]]
                lev[e, k] = apply_metric(state, e, k, scratch.slots, scratch.own, count + 1, size, scratch.factors, q)


@inner
def exact_step(lanes, worth, state, scratch, size, classes, e, y, weight, pace):
    """The implicit Newton step of expert e with a metric for each output, and the metrics with this row.

    The step of one output has been solved.
    """
    z, tau, lev, slopes = scratch.margins, scratch.lengths, scratch.leverages, scratch.slopes
    unfaded, bend, steps = 1.0 / state.running[RUN.fade], scratch.bends[FIRST + e], pace
    if len(lanes) == 0:
        for k in range(classes):
            tau[k] = max(lev[e, k], 0.0) * unfaded
        implicit_slopes(z[FIRST + e], int(y), tau, weight, classes, slopes[FIRST + e])
        steps = weight
    for k in range(classes):
        if lev[e, k] > 0.0:
            move, q = steps * unfaded * slopes[FIRST + e, k], state.delayed[e, k, state.waiting[e, k]]
            for h in range(size):
                state.weights[h, FIRST + e, k] -= move * q[h]
            if len(lanes) == 0:
                bend = abs(slopes[FIRST + e, k]) * (1.0 - abs(slopes[FIRST + e, k]))
            more = weight * bend * unfaded
            information = more * lev[e, k]
            state.pending[e, k] += information
            if information > 0.0 and state.pending[e, k] >= worth:
                state.pending[e, k] -= max(information, worth)
                more *= max(1.0, worth / information)
                take_off(state, e, k, size, more / (1.0 + more * lev[e, k]), scratch.factors)


@inlined
def _products_block(matrix, start, stride, m, x, out, place, at, lanes):
    """``lanes`` columns of ``_products``: two sums, so that one need not wait for the other."""
    even = spread(0.0, lanes)
    odd = spread(0.0, lanes)
    i = 0
    while i + 1 < m:
        even = fma(spread(x[i], lanes), load(matrix, start + i * stride + at, lanes), even)
        odd = fma(spread(x[i + 1], lanes), load(matrix, start + (i + 1) * stride + at, lanes), odd)
        i += 2
    if i < m:
        even = fma(spread(x[i], lanes), load(matrix, start + i * stride + at, lanes), even)
    store(out, place + at, plus(even, odd))


@inlined
def _products(inverses, e, m, x, q):
    """Fill the first m of ``q[e] = inverses[e]·x``; the inverses are symmetric."""
    stride, at = inverses.shape[2], 0
    start = e * stride * stride
    while at < m and at + 16 <= stride:
        _products_block(inverses, start, stride, m, x, q, e * stride, at, 16)
        at += 16
    while at < m and at + 4 <= stride:
        _products_block(inverses, start, stride, m, x, q, e * stride, at, 4)
        at += 4
    while at < m:  # widths need not be whole vectors
        q[e, at] = 0.0
        for i in range(m):
            q[e, at] += inverses[e, i, at] * x[i]
        at += 1


@inner
def sketch_leverage(state, scratch, e, length):
    """Fill q = inverse·Sx; returns the leverage of a row of this squared length."""
    m, q, products, dot = int(state.running[RUN.rows]), scratch.inner, scratch.products, 0.0
    _products(state.inverses, e, m, products, q)
    for r in range(m):
        dot += q[e, r] * products[r]
    return max(length - dot, TINY * length) / (ridge_of(state.running, False, e) * state.running[RUN.fade])


@inner
def sketch_step(lanes, state, scratch, shares, classes, count, y, weight, pace):
    """The implicit Newton steps of both experts through the sketch, and the row into the sketch.

    The steps of one output have been solved.
    """
    run, x, slots, q, a = state.running, scratch.own, scratch.slots, scratch.inner, state.coefficients
    z, tau, slopes, m = scratch.margins, scratch.lengths, scratch.slopes, int(run[RUN.rows])
    highest, curvature, total, unfaded = 0.0, 0.0, 1e-9, 1.0 / run[RUN.fade]
    label = int(y) if len(lanes) == 0 else 0
    for e in range(NEWTON):
        total += shares[FIRST + e]
    for e in range(NEWTON):
        lev = scratch.leverages[e, 0]
        share = (shares[FIRST + e] + 1e-9 / NEWTON) / total
        highest = max(highest, lev)
        if len(lanes) == 1:
            tau[0], bend, steps = lev, scratch.bends[FIRST + e], pace
        else:
            for k in range(classes):
                factor = (state.factors[k] * classes + 1.0) / (run[RUN.alpha] + 1.0)
                tau[k] = lev / max(factor, LEAST_FACTOR)
            implicit_slopes(z[FIRST + e], label, tau, weight, classes, slopes[FIRST + e])
            bend, steps = 0.0, weight
            for k in range(classes):
                v = abs(slopes[FIRST + e, k])
                bend += v * (1.0 - v)
                state.factors[k] += share * weight * v * (1.0 - v)
                run[RUN.alpha] += share * weight * v * (1.0 - v)
            bend /= max(classes - 1.0, 1.0)
        curvature += share * weight * bend
        for k in range(classes):
            slopes[FIRST + e, k] *= -steps * unfaded * tau[k] / (lev * ridge_of(run, False, e)) if lev > 0.0 else 0.0
            for r in range(m):
                a[e, r, k] -= slopes[FIRST + e, k] * q[e, r]
    rho, information = 0.0, curvature * highest
    run[RUN.pending] += information
    if information > 0.0 and run[RUN.pending] >= WORTH:
        run[RUN.pending] -= max(information, WORTH)
        rho = math.sqrt(curvature * unfaded * max(1.0, WORTH / information))
    inside = 0.0
    for b in range(count + 1):
        j, place = slots[b], state.places[slots[b]]
        for e in range(NEWTON):
            for k in range(classes):
                state.weights[j, FIRST + e, k] += slopes[FIRST + e, k] * x[b]
        if rho > 0.0 and place >= 0:
            set_entry(state, place, m, rho * x[b])
            inside += x[b] * x[b]
    if rho > 0.0:
        append(state, scratch, rho, inside)
