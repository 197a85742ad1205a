"""The experts with two numbers per feature: three AdaGrads and a diagonal online Laplace learner, lanes of a vector.

AdaGrad (Duchi, Hazan and Singer 2011) adds (ℓ'(z)·x_j)² to the energy E_j and steps by ``η·ℓ'·x_j/√E_j``. The energy of
a feature starts at a tenth of its square: the first step of a rare feature would be of full size otherwise. η is in
units of labels over the rows' root mean squared length. The step is implicit, but for the bold expert's on sign
labels: rows of many rare words are learned better by steps that overshoot.

The Laplace expert has a variance v_j, at first 1/(0.1·mean |x|²), and makes the step ``w_j −= ℓ'(z')·v_j·x_j, v_j −=
κ·v_j²x_j²/(1 + κτ)``, with τ = Σ v_j x_j² (assumed-density filtering, as in AROW of Crammer, Kulesza and Dredze 2009),
on the squared hinge for sign labels.

A row of weight h adds h·(ℓ'·x_j)² to energies and h·κ to precisions, and its implicit step has length h·τ: in the limit
of short steps that is h rows (Karampatziakis and Langford 2011).
"""

from __future__ import annotations

import math

from onsketch.core import losses
from onsketch.core.implicit import implicit_step, implicit_steps, slopes_at
from onsketch.core.losses import SQUARED_HINGE, Form
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import (
    fma,
    joined,
    load,
    minus,
    plus,
    product,
    quotient,
    root,
    spread,
    store,
    where_less,
)
from onsketch.learners.auto.state import ADAGRAD, BOLD_ADAGRAD, FIGURE, LAPLACE, LIGHT, OWN_ADAGRAD, SKETCHED, WIDTH

FIRST_ENERGY = 0.1
"""An energy's start, in units of the feature's square (times the label's for the squared loss)."""

HINGED = Form(SQUARED_HINGE, 0.0, 0)
"""The loss of the Laplace expert for sign labels."""

TINY = 1e-290
"""Keeps the root of an energy that has underflowed from being 0."""


@inlined
def lanes_of(own, wide):
    """A feature's value as the four experts see it."""
    return joined(own, wide, wide, wide)


@inlined
def is_laplace():
    """1 in the lane of the Laplace expert, 0 in the others."""
    return joined(0.0, 1.0, 0.0, 0.0)


@inlined
def next_energies(rows, slot, x, gains, first, prior, thin):
    """The energies with one more row, and what each expert's step is multiplied by in this feature (1/√E or v).

    ``gains`` are the squared slopes over what is left after forgetting (``thin``), ``first`` the start of an energy.
    """
    old = load(rows, slot * WIDTH + LIGHT.energy, 4)
    squares = product(x, x)
    fresh = where_less(spread(0.0, 4), old, spread(0.0, 4), spread(first, 4))
    energies = fma(plus(gains, fresh), squares, old)
    by = quotient(spread(1.0, 4), root(fma(energies, spread(thin, 4), spread(TINY, 4))))
    grown = quotient(old, spread(thin, 4))
    limit = spread(prior, 4)
    variance = where_less(spread(0.0, 4), grown, where_less(grown, limit, grown, limit), limit)
    mine = is_laplace()
    return where_less(mine, spread(0.5, 4), energies, variance), where_less(mine, spread(0.5, 4), by, variance)


@inner
def slopes_of(settings, margins, y, weight, slopes, gains):
    """Fill the slopes of all experts, and the squares of the four diagonal ones', in which rows of weight h count h
    times.
    """
    slopes_at(settings.loss, margins, y, slopes)
    if settings.signs:
        slopes[LAPLACE] = losses.slope(HINGED, margins[LAPLACE], y)
    for k in range(SKETCHED, SKETCHED + 4):
        gains[k - SKETCHED] = weight * slopes[k] * slopes[k]


@inner
def diagonal_lengths(settings, small, weight, unit, squares, lengths, by):
    """Fill, from Σ x²·by, the lengths of the steps of the diagonal experts, and what turns a slope into a step."""
    own = settings.own_step * unit / math.sqrt(small.numbers[FIGURE.norm])
    wide = unit / math.sqrt(small.numbers[FIGURE.wide_norm])
    by[OWN_ADAGRAD] = weight * own
    by[LAPLACE] = weight * (unit if settings.loss.degree == 1 else 1.0)
    by[ADAGRAD] = weight * settings.step * wide
    by[BOLD_ADAGRAD] = weight * settings.bold_step * wide
    for k in range(SKETCHED, SKETCHED + 4):
        lengths[k] = by[k] * squares[k - SKETCHED]


@inner
def expert_steps(settings, margins, y, lengths, explicit, slopes, bends):
    """The slopes and curvatures where the steps of all experts end; the bold one's is explicit for sign labels."""
    implicit_steps(settings.loss, margins, y, lengths, slopes, bends)
    if settings.signs:
        _, slopes[LAPLACE], bends[LAPLACE] = implicit_step(HINGED, margins[LAPLACE], y, lengths[LAPLACE])
        slopes[BOLD_ADAGRAD] = explicit[BOLD_ADAGRAD]


@inlined
def write_diagonal(rows, slot, weights, x, by, energies, steps, shrinking, thin):
    """Write the experts' steps from these weights into a light row."""
    start = slot * WIDTH
    store(rows, start + OWN_ADAGRAD, minus(weights, product(steps, product(x, by))))
    reach = product(x, energies)
    shrunk = product(spread(thin, 4), minus(energies, product(spread(shrinking, 4), product(reach, reach))))
    store(rows, start + LIGHT.energy, where_less(is_laplace(), spread(0.5, 4), energies, shrunk))
