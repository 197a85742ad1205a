"""Labels of one output: their centre, unit and range, and the prediction within it."""

from __future__ import annotations

import math
from typing import NamedTuple

from onsketch.jit.decorators import inlined, inner
from onsketch.learners.auto.state import FIRST, LEAST_RATE, MARGIN, OUTPUTS, RUN


class Label(NamedTuple):
    """A label, and the figures of labels up to it."""

    centre: float
    mean: float
    """Mean from the centre; of counts, the mean."""
    unit: float
    """Mean deviation; signs have the unit 1."""
    target: float
    """The label as experts and mixture learn it, and with which weight."""
    weight: float


@inlined
def see_label(setup, run, y, weight):
    """Return a label with the figures of labels, this one included."""
    t, centre, mean = run[RUN.rounds], run[RUN.centre], run[RUN.mean]
    if setup.counts:  # the centre is of margins; with z = c + v the loss is e^c·(eᵛ − (y/e^c)·v) and a constant
        if t == 1.0 and setup.intercept:
            centre = math.log(max(y, LEAST_RATE))
        rate = math.exp(centre)
        return Label(centre, mean + (y - mean) / t, 1.0, y / rate, weight * rate)
    if not setup.real:
        return Label(0.0, 0.0, 1.0, y, weight)
    if t == 1.0 and setup.intercept:
        centre = y
    mean = mean + (y - centre - mean) / t if setup.intercept else 0.0
    unit = run[RUN.unit] + (abs(y - centre - mean) - run[RUN.unit]) / t
    return Label(centre, mean, unit, y - centre, weight)


@inner
def count_label(setup, state, y, label):
    """Take in the figures of a label; the centre follows the mean, and the constant of every expert with it."""
    run = state.running
    run[RUN.centre], run[RUN.mean], run[RUN.unit] = label.centre, label.mean, label.unit
    run[RUN.low], run[RUN.high] = min(run[RUN.low], y), max(run[RUN.high], y)
    if setup.signs or not setup.intercept:
        return
    away = math.log(max(label.mean, LEAST_RATE)) - label.centre if setup.counts else label.mean
    if abs(away) > 0.5 * label.unit:
        for o in range(OUTPUTS):
            if o < FIRST:
                state.weights[0, o, 0] -= away
            elif run[RUN.used] > 0.0:
                state.weights[0, o, 0] -= away / math.sqrt(run[RUN.used])
        run[RUN.centre] += away
        run[RUN.mean] -= 0.0 if setup.counts else away


@inner
def bounds_of(setup, run):
    """Return the bounds of predictions: the clip, or the range of the labels seen and a margin."""
    low, high = -setup.clip, setup.clip
    if run[RUN.rounds] == 0.0:
        low = high = 0.0
    elif setup.bounded and setup.counts:
        low, high = -math.inf, math.log(max(run[RUN.high] + MARGIN * (run[RUN.high] - run[RUN.low]), 1.0))
    elif setup.bounded and not setup.signs:
        room = MARGIN * (run[RUN.high] - run[RUN.low])
        low, high = run[RUN.low] - room, run[RUN.high] + room
    return low, high


@inner
def mixed(setup, run, mixture, margins):
    """The prediction of one output from the experts' linear margins."""
    total = run[RUN.centre] + mixture.mix[OUTPUTS] * (1.0 if setup.signs or setup.counts else run[RUN.unit])
    for o in range(OUTPUTS):
        total += mixture.mix[o] * margins[o, 0]
    low, high = bounds_of(setup, run)
    return min(max(total, low), high)
