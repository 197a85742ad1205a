"""What the experts make of a row before anything is written: two Newton steps, two AdaGrad steps.

Newton expert k, with A_k from ``directions.py`` and leverage τ = x·A_k⁻¹x, makes the implicit step ``w ← w −
ℓ'(z')·A_k⁻¹x`` (``implicit.py``); the curvature κ(z') there is what the row adds to the sketch, averaged over the two
experts by their shares. AdaGrad expert k adds (ℓ'(z)·x_j)² to its energies E_j and makes the implicit step ``w_j ← w_j
− η·ℓ'(z')·x_j/√E_j`` with τ = Σ η·x_j²/√E_j (Duchi, Hazan and Singer 2011), its η in units of labels over the rows'
root mean squared length.
"""

from __future__ import annotations

import math

from onsketch.core import losses
from onsketch.core.losses import ABSOLUTE
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inner
from onsketch.learners.auto.directions import apply_inverse, ridge_of
from onsketch.learners.auto.implicit import implicit_step
from onsketch.learners.auto.state import FADE, FIRST, LABEL, THIN
from onsketch.learners.sketched.packed import COLUMN

NEGLIGIBLE = 1e-6
"""Rows that tell the Newton experts less than this (curvature times leverage) are not sketched."""

TINY = 1e-290
"""Keeps the root of an energy that has underflowed from being 0."""


@inner
def label_unit(settings, small, y, rounds):
    """The mean magnitude of real labels, this one included; signs are of size 1."""
    if not settings.real:
        return 1.0
    return small.numbers[LABEL] + (abs(y) - small.numbers[LABEL]) / rounds


@inner
def newton_steps(settings, small, p, length, margins, y, weight, unit, moves, q):
    """Fill the moves ``−ℓ'(z')/ridge`` along ``x − Sᵀq``; returns the scale ρ of the row to sketch (0: none).

    The absolute loss has a slope of size 1 whatever the labels' unit, so its steps are taken in that unit.
    """
    pace = weight * unit if settings.loss == ABSOLUTE else weight
    curvature = 0.0
    told = 0.0
    trusted = small.shares[0] + small.shares[1]
    for k in range(2):
        ridge = ridge_of(settings, small, k) * small.numbers[FADE]
        inside = apply_inverse(small, k, p, COLUMN.sketch, q)
        leverage = max(length - inside, CUTOFF * length) / ridge
        _, slope, bend = implicit_step(settings.loss, margins[k], y, pace * leverage)
        moves[k] = -pace * slope / ridge
        share = small.shares[k] / trusted if trusted > 0.0 else 0.5
        curvature += share * weight * bend
        told = max(told, leverage)
    return math.sqrt(curvature / small.numbers[FADE]) if curvature * told > NEGLIGIBLE else 0.0


@inner
def adagrad_length(rows, slots, x, low, high, column, thin, g, step):
    """The leverage of a row under an AdaGrad expert whose energies take in the gradient g·x."""
    total = 0.0
    for j in range(low, high):
        energy = rows[slots[j], column] + (g * x[j]) * (g * x[j]) / thin
        total += x[j] * x[j] / math.sqrt(energy * thin + TINY)
    return step * total


@inner
def adagrad_steps(settings, table, small, slots, x, low, high, norm, margins, y, weight, unit, gradients, steps):
    """Fill, for each AdaGrad expert, the gradient its energies take in, and its step less x_j/√E_j."""
    for k in range(2):
        step = (settings.first_step if k == 0 else settings.second_step) * unit / math.sqrt(norm)
        z = margins[2 + k]
        g = weight * losses.slope(settings.loss, z, y)
        gradients[k] = g
        steps[k] = 0.0
        if g != 0.0:
            column = COLUMN.sketch + settings.capacity + FIRST + 2 * k + 1
            length = adagrad_length(table.rows, slots, x, low, high, column, small.numbers[THIN], g, step)
            _, slope, _ = implicit_step(settings.loss, z, y, weight * length)
            steps[k] = step * weight * slope
