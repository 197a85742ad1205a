"""What a learned row adds to the running figures: labels, losses, scales and lengths, forgetting."""

from __future__ import annotations

import math

import numpy as np

from onsketch.core.losses import POISSON, in_unit
from onsketch.jit.decorators import inlined, inner
from onsketch.learners.auto.directions import rebuild
from onsketch.learners.auto.mixing import EXPERTS, LANES, forget_mixing, learn_mixing, set_mix, set_shares, start_mixing
from onsketch.learners.auto.passes import COMMON_SQUARE, LOG_SQUARES, LOG_SUM, OWN_SQUARE
from onsketch.learners.auto.scaling import ALIKE, APART, COMMON_LEAP, followed, next_regime, typical
from onsketch.learners.auto.state import FIGURE, LAPLACE, LIGHT, SKETCHED, TALLY

LEAST_THIN = 1e-12
"""Forgetting is written into the energies when so little is left."""

LEAST_RATE = 0.01
"""The centre of counts is not below the logarithm of this."""

WARM = 10
"""Real labels: rows after which their unit is known well enough for calibrating and stacking."""

FARTHEST = 50.0
"""Margins of sign labels are judged within ± this."""


@inlined
def own_or_common(regime, own, common):
    """The figure that belongs to the sketch's rows, and the one that belongs to the wide experts'."""
    return common if regime == ALIKE else own, own if regime == APART else common


@inner
def see_label(settings, small, y, rounds, label):
    """Fill the centre, the mean and the mean deviation of labels, this one included; signs are of size 1."""
    numbers = small.numbers
    if settings.loss.code == POISSON:  # the centre is of margins, and the mean of counts
        label[0] = math.log(max(y, LEAST_RATE)) if rounds == 1 and settings.intercept else numbers[FIGURE.centre]
        label[1] = numbers[FIGURE.mean_label] + (y - numbers[FIGURE.mean_label]) / rounds
        label[2] = 1.0
        return
    if not settings.real:
        label[0], label[1], label[2] = 0.0, 0.0, 1.0
        return
    label[0] = numbers[FIGURE.centre]
    if rounds == 1 and settings.intercept:
        label[0] = y
    target = y - label[0]
    label[1] = 0.0
    if settings.intercept:
        label[1] = numbers[FIGURE.mean_label] + (target - numbers[FIGURE.mean_label]) / rounds
    label[2] = numbers[FIGURE.unit] + (abs(target - label[1]) - numbers[FIGURE.unit]) / rounds


@inlined
def seen_label(settings, y, weight, centre):
    """A label and a weight as the experts see them, whose margins start from the centre.

    Real labels are counted from it. With z = c + v the Poisson loss is ``e^c·(eᵛ − (y/e^c)·v)``, but for what does not
    depend on v: the same loss for the label y/e^c and e^c times the weight.
    """
    if settings.loss.code == POISSON:
        rate = math.exp(centre)
        return y / rate, weight * rate
    return y - centre, weight


@inner
def count_label(settings, light, small, y, label, constant, size):
    """Take in the figures of labels; the centre follows the mean, and all constants with it."""
    numbers = small.numbers
    numbers[FIGURE.centre], numbers[FIGURE.mean_label], numbers[FIGURE.unit] = label[0], label[1], label[2]
    numbers[FIGURE.low] = min(numbers[FIGURE.low], y)
    numbers[FIGURE.high] = max(numbers[FIGURE.high], y)
    if constant < 0 or settings.signs:
        return
    counts = settings.loss.code == POISSON
    away = math.log(max(label[1], LEAST_RATE)) - label[0] if counts else label[1]
    if abs(away) > 0.5 * label[2]:
        place = np.int64(light.places[constant])
        for k in range(EXPERTS):
            light.rows[place, k] -= away / (size if k < SKETCHED else 1.0)
        numbers[FIGURE.centre] += away
        numbers[FIGURE.mean_label] -= 0.0 if counts else away


@inner
def count_weight(settings, small, weight):
    """Take in a sample weight; returns the share of it that the mixture counts.

    A heavier row doubles the heaviest weight, and counts no more than that in the mixture: one row that is far heavier
    than all others neither decides between the experts nor makes all later rows too light to. (It moves the experts.)
    """
    if weight <= small.numbers[FIGURE.heaviest]:
        return 1.0
    small.numbers[FIGURE.heaviest] *= 2.0
    rebuild(settings, small)
    return min(1.0, small.numbers[FIGURE.heaviest] / weight)


@inner
def count_mixture(settings, small, margins, target, weight, unit, label, rounds, one, work):
    """Judge the experts and let the mixture learn; ``one`` is its constant feature."""
    numbers = small.numbers
    forget = settings.forget
    if forget < 1.0:
        for i in range(3):
            for k in range(LANES):
                small.sums[i, k] *= forget
        forget_mixing(forget, small.calibration, small.covariance)
    numbers[FIGURE.weight] = forget * numbers[FIGURE.weight] + weight
    if unit <= 0.0:
        return
    if rounds <= (WARM if settings.real else 1):
        start_mixing(small.calibration, small.stack, small.covariance)
    low, high = -FARTHEST, FARTHEST
    if settings.real:
        low = high = 0.0
        if numbers[FIGURE.low] <= numbers[FIGURE.high]:
            low, high = (numbers[FIGURE.low] - label[0]) / unit, (numbers[FIGURE.high] - label[0]) / unit
    for k in range(EXPERTS):
        margins[k] = min(max(margins[k] / unit, low), high)
    learn_mixing(in_unit(settings.loss, unit), margins, target / unit, weight, unit, one,
                 small.sums, small.shares, small.calibration, small.stack, small.covariance, work)  # fmt: skip
    set_shares(settings.loss, small.sums, small.shares, numbers[FIGURE.weight], numbers[FIGURE.heaviest], work)
    set_mix(small.shares, small.calibration, small.stack, small.mix)


@inner
def count_row(settings, small, figures, n, rounds):
    """Take a learned row into the running figures of scales and lengths."""
    numbers = small.numbers
    if n > 0:
        numbers[FIGURE.values] += n
        numbers[FIGURE.logs] += (figures[LOG_SUM] - n * numbers[FIGURE.logs]) / numbers[FIGURE.values]
        numbers[FIGURE.squared_logs] += (figures[LOG_SQUARES] - n * numbers[FIGURE.squared_logs]) / numbers[
            FIGURE.values
        ]
    numbers[FIGURE.own_length] = typical(numbers[FIGURE.own_length], figures[OWN_SQUARE], rounds)
    numbers[FIGURE.common_length] = typical(numbers[FIGURE.common_length], figures[COMMON_SQUARE], rounds)
    if abs(numbers[FIGURE.logs] - numbers[FIGURE.common]) > COMMON_LEAP:
        numbers[FIGURE.common_length] *= math.exp(2.0 * (numbers[FIGURE.common] - numbers[FIGURE.logs]))
        numbers[FIGURE.common] = numbers[FIGURE.logs]
    variance = numbers[FIGURE.squared_logs] - numbers[FIGURE.logs] * numbers[FIGURE.logs]
    small.counts[TALLY.regime] = next_regime(small.counts[TALLY.regime], variance)
    sketched, wide = own_or_common(
        small.counts[TALLY.regime], numbers[FIGURE.own_length], numbers[FIGURE.common_length]
    )
    if wide > 0.0:
        numbers[FIGURE.wide_norm] = followed(numbers[FIGURE.wide_norm], wide)
    if sketched > 0.0 and followed(numbers[FIGURE.norm], sketched) != numbers[FIGURE.norm]:
        numbers[FIGURE.norm] = sketched
        rebuild(settings, small)


@inner
def write_thin(light, small):
    """Write forgetting into energies and variances; a variance is left as it is: its prior bounds it."""
    thin = small.numbers[FIGURE.thin]
    for k in range(4):
        by = 1.0 / thin if k == LAPLACE - SKETCHED else thin
        for place in range(small.counts[TALLY.warm] + 1):
            light.rows[place, LIGHT.energy + k] *= by
        for place in range(small.counts[TALLY.cold] + 1):
            light.cold[place, LIGHT.energy + k] *= by
    small.numbers[FIGURE.thin] = 1.0


@inner
def forget_row(settings, light, small):
    """Let the sketch and the energies fade."""
    small.numbers[FIGURE.fade] *= settings.forget
    small.numbers[FIGURE.thin] *= settings.forget
    if small.numbers[FIGURE.thin] < LEAST_THIN:
        write_thin(light, small)
