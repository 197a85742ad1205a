"""The AdaGrads: steps, how far they reach, and the ends of all implicit steps of one output."""

from __future__ import annotations

import math

from onsketch.core.implicit import implicit_steps, slopes_at
from onsketch.core.losses import slope_unit
from onsketch.core.softmax import fill_softmax, implicit_slopes
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import fma, load, product, quotient, root, spread, store, total, where_less
from onsketch.learners.auto.state import BOLD, FIRST, FIRST_ENERGY, NEWTON, OUTPUTS, OWN, RUN, STEPS

_softmax = inner(fill_softmax.py_func)


@inner
def fill_steps(lanes, loss, state, scratch, count, classes, y, weight, unit):
    """Fill the AdaGrads' steps, and how far they reach, with one energy for each feature."""
    run, z, slopes, energies = state.running, scratch.margins, scratch.slopes, scratch.energies
    thin, label = run[RUN.thin], int(y) if len(lanes) == 0 else 0
    steep = slope_unit(loss, unit) if len(lanes) == 1 else 1.0
    if len(lanes) == 1:
        for o in range(OUTPUTS):
            scratch.ends[o] = z[o, 0]
        slopes_at(loss, scratch.ends, y, scratch.steep, FIRST)
    for b in range(count + 1):
        j = scratch.slots[b]
        for o in range(FIRST):
            energies[o, b] = state.energies[j, o]
    for o in range(FIRST):
        if len(lanes) == 1:
            slopes[o, 0] = scratch.steep[o]
        else:
            _softmax(z[o], classes, slopes[o])
            slopes[o, label] -= 1.0
        more = 0.0
        for k in range(classes):
            more += slopes[o, k] * slopes[o, k]
        norm, gain, first, eta = run[RUN.norm] if o == OWN else run[RUN.wide], 0.0, 0.0, 0.0
        if norm > 0.0:
            gain, first = weight * more / thin, FIRST_ENERGY * (steep * steep) / thin
            eta = STEPS[o] * unit / math.sqrt(norm)
        x = scratch.rare if o == OWN else scratch.wide
        reach = _scaled_steps(x, energies, scratch.by, o * energies.shape[1], count + 1, gain, first, thin)
        scratch.paces[o], scratch.reaches[o] = weight * eta, reach * eta


@inlined
def _scaled_steps(x, energies, by, start, count, gain, first, thin):
    """Take a row into the energies, and fill x/√energy; returns the sum of its products with x.

    After the row, x is 0 up to a whole vector.
    """
    reach, zero, scale, least = spread(0.0, 4), spread(0.0, 4), spread(thin, 4), spread(1e-290, 4)
    known, fresh = spread(gain, 4), spread(gain + first, 4)
    for b in range(0, count, 4):
        v, energy = load(x, b, 4), load(energies, start + b, 4)
        energy = fma(product(v, v), where_less(zero, energy, known, fresh), energy)
        store(energies, start + b, energy)
        step = quotient(v, root(fma(energy, scale, least)))
        store(by, start + b, step)
        reach = fma(v, step, reach)
    return total(reach)


@inner
def solve_steps(loss, signs, state, scratch, y, weight, pace):
    """The ends of all steps of one output. All are implicit, except the bold AdaGrad's on signs.

    Rows of many rare words are learned better by steps that overshoot, but a heavy row overshoots no more than one of
    weight 1.
    """
    reaches, steep, slopes = scratch.reaches, scratch.steep, scratch.slopes
    for o in range(FIRST):
        reaches[o] *= weight
    for e in range(NEWTON):
        lev = scratch.leverages[e, 0]
        if state.gram.shape[0] == 0:
            lev = max(lev, 0.0) / state.running[RUN.fade]
        reaches[FIRST + e] = pace * lev
    implicit_steps(loss, scratch.ends, y, reaches, steep, scratch.bends, OUTPUTS)
    bold = slopes[BOLD, 0]
    for o in range(OUTPUTS):
        slopes[o, 0] = steep[o]
    if signs and abs(bold) > max(weight, 1.0) * abs(steep[BOLD]):
        slopes[BOLD, 0] = bold / max(weight, 1.0)


@inner
def first_order_steps(lanes, state, scratch, count, classes, y, weight):
    """Make the AdaGrads' steps; those of one output have been solved."""
    slopes, tau, by, energies = scratch.slopes, scratch.lengths, scratch.by, scratch.energies
    if len(lanes) == 0:
        for o in range(FIRST):
            for k in range(classes):
                tau[k] = scratch.reaches[o]
            implicit_slopes(scratch.margins[o], int(y), tau, weight, classes, slopes[o])
    for b in range(count + 1):
        j = scratch.slots[b]
        for o in range(FIRST):
            state.energies[j, o] = energies[o, b]
            step = scratch.paces[o] * by[o, b]
            for k in range(classes):
                state.weights[j, o, k] -= step * slopes[o, k]
