"""Implicit steps of sketched learners: the slope is taken at the end of the step (see ``core/implicit.py``).

A round absorbs ρ·x and then steps by g in the *new* metric. The margin moves by g·τ', with τ' the leverage of x after
absorbing. Only the leverage τ before it is known:

===================================  ==================================================================
Newton, frequent directions          the row is absorbed exactly: τ' = τ/(1 + ρ²τ), exactly
Newton, other sketches               τ' ≤ τ, with equality if the row is not absorbed (Oja's directions move
                                     with the row, so that it holds only on average)
AdaGrad geometries                   τ' ≤ τ, and τ' ≤ |x|/ρ for the row's own energy alone
===================================  ==================================================================

With the slope ℓ'(z') of a step of length τ (Newton) or of the smaller bound (AdaGrad), no step passes the label.
"""

from __future__ import annotations

import math

from onsketch.core import losses
from onsketch.core.geometry import NEWTON
from onsketch.core.implicit import implicit_step
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inner
from onsketch.learners.sketched.packed import COLUMN
from onsketch.learners.sketched.parts import metric
from onsketch.learners.sketched.state import COUNT, NUMBER
from onsketch.learners.stages import row_scale, slope_and_scale


@inner
def leverage_of(setup, sketch, p, square, q):
    """Return c of ``P x = c·x + Sᵀq`` for the row gathered in p, and the leverage x·P x; fills q."""
    flat = metric(setup, sketch, p, square, q)
    leverage = flat * square
    for i in range(sketch.counts[COUNT.rows]):
        leverage += q[i] * p[COLUMN.sketch + i]
    return flat, max(leverage, CUTOFF * flat * square)


@inner
def implicit_gradient(setup, sketch, p, square, margin, label, weight, t, q):
    """G and ρ of an implicit step from this margin."""
    fade = sketch.numbers[NUMBER.fade]
    _, leverage = leverage_of(setup, sketch, p, square, q)
    if setup.geometry != NEWTON:
        _, rho = slope_and_scale(setup, margin, label, weight, t)
        if abs(rho) > 0.0:
            leverage = min(leverage, math.sqrt(square) / abs(rho))
        _, slope, _ = implicit_step(setup.loss, margin, label, weight * setup.step * leverage)
        return weight * slope, rho
    _, slope, bend = implicit_step(setup.loss, margin, label, weight * setup.step * leverage / fade)
    # if the slope does not depend on the distance, a step that ends at the label must not count as none
    met = losses.slope(setup.loss, margin, label) if losses.straight(setup.loss) else slope
    rho = row_scale(setup, met, bend, weight, t) / math.sqrt(fade)
    whole = 1.0 + rho * rho * leverage if setup.whole else 1.0
    return weight * slope * whole / fade, rho
