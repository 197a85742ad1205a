"""Implicit steps: the slope is taken at the end of the step, not at its start, so that no step overshoots.

A step of length τ along the metric's own direction moves a margin from z to

    z' = argmin_v ℓ(v, y) + (v − z)²/(2τ),   that is   z' = z − τ·ℓ'(z'),

where τ is the leverage x·P x of the row. However large τ, z' does not pass the label (Kivinen and Warmuth 1997; Kulis
and Bartlett 2010; Vowpal Wabbit's importance-aware updates, Karampatziakis and Langford 2011, follow the same idea).
For Newton steps with the curvature taken at z' this is the online Laplace approximation of a Bayesian linear model.

=============  ==============================================================  ======================================
loss           z'                                                              curvature κ(z')
=============  ==============================================================  ======================================
squared        (z + 2τy)/(1 + 2τ)                                              2
absolute       z moved towards y by at most τ                                  the slope's square
quantile       z moved towards y by at most τ·q or τ·(1 − q)                   the slope's square
logistic       the root of z' = z + τy/(1 + e^{yz'}), by safeguarded Newton    p(1 − p)
hinge          yz' = min(yz + τ, 1) where yz < 1                               the slope's square
squared_hinge  yz' = (yz + 2τ)/(1 + 2τ) where yz < 1                           2 where yz' < 1, else 0
poisson        the root of z' = z − τ(e^{z'} − y), in the same way             e^{z'}
huber          as squared where that ends within ε of y, else moved by 2ετ     2·min(1, ε/|z' − y|)
ε-insensitive  z moved towards y by at most τ, as far as ε before it           the slope's square
=============  ==============================================================  ======================================

For losses without a curvature, the square of the slope takes its place, as with gradient rows.
"""

from __future__ import annotations

import math

from onsketch.core import losses
from onsketch.core.losses import HINGE, HUBER, INSENSITIVE, LOGISTIC, POISSON, SQUARED, STEEPEST_RATE
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import (
    exponentials,
    fma,
    load,
    logarithms,
    magnitude,
    minus,
    plus,
    product,
    quotient,
    spread,
    store,
    total,
    where_less,
)

LONGEST = 1e100
"""Steps are not longer than this; the margin has long reached the label then."""


@inner
def _logistic_margin(z, y, length):
    """The root of ``v = yz + length/(1 + eᵛ)``: the signed margin yz' of a logistic step."""
    start = y * z
    low, high = start, start + length / (1.0 + math.exp(min(start, 700.0)))
    v, before = start, 2.0 * (high - low)  # the first step may be a full one
    for _ in range(100):
        odds = math.exp(min(v, 700.0))
        gap = v - start - length / (1.0 + odds)
        if gap > 0.0:
            high = v
        else:
            low = v
        better = v - gap / (1.0 + length * odds / ((1.0 + odds) * (1.0 + odds)))
        # Newton where it stays inside and halves its steps, bisection otherwise
        if not low <= better <= high or abs(better - v) > 0.5 * before:
            better = 0.5 * (low + high)
        before = abs(better - v)
        v = better
        if before <= 1e-6 * (1.0 + abs(v)):  # the next step would be its square
            break
    return v


@inner
def _poisson_margin(z, y, length):
    """The root v of ``v + length·eᵛ = z + length·y``: the margin of a Poisson step.

    With u = log(length) + v this is ``u + eᵘ = s``, s = z + length·y + log(length), whose left side is convex: Newton's
    steps from above never pass the root.
    """
    if not length > 0.0:
        return z
    log = math.log(length)
    s = z + length * y + log
    u = s if s < 1.0 else math.log(s)  # both are above the root
    for _ in range(50):
        grown = math.exp(u)
        move = (u + grown - s) / (1.0 + grown)
        u -= move
        if abs(move) <= 1e-10 * (1.0 + abs(u)):
            break
    return u - log


@inner
def implicit_step(loss, z, y, length):
    """Return z', the slope that leads there, and the curvature at z'."""
    length = min(length, LONGEST)
    code = loss.code
    if code == SQUARED:
        slope = 2.0 * (z - y) / (1.0 + 2.0 * length)
        return z - length * slope, slope, 2.0
    if code == LOGISTIC:
        signed = _logistic_margin(z, y, length)
        slope = losses.slope(loss, signed, 1.0)
        return y * signed, y * slope, -slope * (1.0 + slope)
    if code == POISSON:
        end = _poisson_margin(z, y, length)
        rate = math.exp(min(end, STEEPEST_RATE))
        slope = (z - end) / length if length * rate > 1.0 else rate - y  # whichever is the sharper
        return end, slope, rate
    if code == HUBER:
        slope = 2.0 * (z - y) / (1.0 + 2.0 * length)
        slope = min(max(slope, -2.0 * loss.level), 2.0 * loss.level)
        end = z - length * slope
        return end, slope, losses.curvature(loss, end, y)
    if losses.straight(loss):
        slope = losses.slope(loss, z, y)
        room = 1.0 - y * z if code == HINGE else abs(z - y) - (loss.level if code == INSENSITIVE else 0.0)
        reach = length * abs(slope)
        if slope != 0.0 and room < reach:
            slope *= room / reach
        return z - length * slope, slope, slope * slope
    short = max(0.0, 1.0 - y * z) / (1.0 + 2.0 * length)
    return z + 2.0 * length * y * short, -2.0 * y * short, 2.0 if short > 0.0 else 0.0


# Eight margins at once ------------------------------------------------------------------------------------


@inlined
def _shares_against(signed):
    """1/(1 + eᵛ): how likely the other label is, by the logistic loss."""
    return quotient(spread(1.0, 8), plus(spread(1.0, 8), exponentials(signed, 8)))


@inner
def _logistic_shares(margins, y, lengths):
    """1/(1 + eᵛ) at the ends of logistic steps: each as in ``_logistic_margin``, standing still when it is there."""
    zero, one, half = spread(0.0, 8), spread(1.0, 8), spread(0.5, 8)
    start = product(spread(y, 8), load(margins, 0, 8))
    length = load(lengths, 0, 8)
    length = where_less(spread(LONGEST, 8), length, spread(LONGEST, 8), length)
    share = _shares_against(start)
    v, low, high = start, start, fma(length, share, start)
    before = plus(minus(high, low), minus(high, low))
    moving = one
    for _ in range(100):
        gap = minus(minus(v, start), product(length, share))
        high = where_less(zero, gap, v, high)
        low = where_less(zero, gap, low, v)
        steep = fma(length, product(share, minus(one, share)), one)
        better = minus(v, quotient(gap, steep))
        middle = product(half, plus(low, high))
        far = where_less(product(half, before), magnitude(minus(better, v)), one, zero)
        far = where_less(better, low, one, where_less(high, better, one, far))
        better = where_less(half, far, middle, better)
        better = where_less(half, moving, better, v)
        before = magnitude(minus(better, v))
        v = better
        share = _shares_against(v)
        enough = fma(spread(1e-4, 8), magnitude(v), spread(1e-4, 8))  # the next step would be its square
        moving = where_less(enough, before, moving, zero)
        if total(moving) == 0.0:
            break
    return share


@inner
def implicit_steps(loss, margins, y, lengths, slopes, bends, count):
    """Apply ``implicit_step`` to the first margins, each with its own length; fill slopes and curvatures.

    The arrays have room for eight, and finite numbers after the first ``count``.
    """
    if loss.code == LOGISTIC:
        share = _logistic_shares(margins, y, lengths)
        store(slopes, 0, product(spread(-y, 8), share))
        store(bends, 0, product(share, minus(spread(1.0, 8), share)))
    else:
        for k in range(count):
            _, slopes[k], bends[k] = implicit_step(loss, margins[k], y, lengths[k])


@inner
def slopes_at(loss, margins, y, slopes, count):
    """Fill the slopes at the first margins; as in ``implicit_steps``."""
    if loss.code == LOGISTIC:
        store(slopes, 0, product(spread(-y, 8), _shares_against(product(spread(y, 8), load(margins, 0, 8)))))
    else:
        for k in range(count):
            slopes[k] = losses.slope(loss, margins[k], y)


@inner
def values_at(loss, margins, y, out, count):
    """Fill the losses at the first margins; as in ``implicit_steps``."""
    if loss.code == LOGISTIC:
        signed = product(spread(y, 8), load(margins, 0, 8))
        odds = exponentials(minus(spread(0.0, 8), magnitude(signed)), 8)
        wrong = where_less(signed, spread(0.0, 8), signed, spread(0.0, 8))
        store(out, 0, minus(logarithms(plus(spread(1.0, 8), odds), 8), wrong))
    else:
        for k in range(count):
            out[k] = losses.value(loss, margins[k], y)
