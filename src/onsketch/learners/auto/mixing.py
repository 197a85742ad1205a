"""The mixture: calibrate each expert, weigh, stack, and weigh the three ways of mixing.

From the experts' margins m_k (in units of labels) three predictions are made,

    weighed      Σ share_k·m_k
    calibrated   b = Σ share'_k·a_k·m_k, a_k by a one-dimensional online Laplace step (mean 1, precision 10)
    stacked      θ₀·b + Σ θ_k·(a_k·m_k − b) + θ_c, an online Laplace regression that starts at b, precision 10

and mixed once more. With L_k the (weighted) sum of the losses of what is to be mixed and n the sum of sample weights,

    sign labels   share_k ∝ exp(−rate·L_k)
    real labels   share_k ∝ L_k^{−rate·n/p}, with p = 2 for the squared, 1 for the absolute and the quantile loss

The former is exponential weighting (Vovk 1990; Littlestone and Warmuth 1994); at rate 1 it is Bayes' rule for the
logistic loss. The latter is the same on the log likelihood under Gaussian or Laplace noise of unknown size, so that
the unit of y does not matter. Margins, not probabilities, are mixed: the mixture is linear, and ``mix`` has its
coefficients. Experts are judged by their margins kept within the labels seen (signs: within ±50).

Cost: O(K²) a row for K experts.
"""

from __future__ import annotations

import math

from onsketch.core import losses
from onsketch.jit.decorators import inner
from onsketch.learners.auto.implicit import implicit_step

EXPERTS = 7
LANES = 8
"""Experts are kept in whole vectors."""
FEATURES = EXPERTS + 2
"""Of the stacked regression."""

RATE = 0.5
"""How fast the mixture believes in what does better; 1 is Bayes' rule for the logistic loss."""
PRECISION = 10.0
"""Of the calibration and the stacking, at the start."""

WEIGHED, CALIBRATED, STACKED = range(3)
"""The stages."""

TINY = 1e-290


@inner
def set_shares(loss, sums, shares, row, number, count):
    """Fill ``shares[row]`` from the sums of losses over rows of total weight ``count``."""
    degree = loss.degree
    best = sums[row, 0]
    for k in range(1, number):
        best = min(best, sums[row, k])
    total = 0.0
    for k in range(number):
        if degree > 0:
            worse = count / degree * math.log(max(sums[row, k], TINY) / max(best, TINY))
        else:
            worse = sums[row, k] - best
        shares[row, k] = math.exp(-RATE * worse) if RATE * worse < 700.0 else 0.0
        total += shares[row, k]
    for k in range(number):
        shares[row, k] /= total


@inner
def set_mix(shares, calibration, stack, mix):
    """The coefficients of the experts in the prediction, all stages taken together."""
    last = shares[2, STACKED]
    others = 0.0
    for k in range(EXPERTS):
        others += stack[k + 1]
    along = shares[2, CALIBRATED] + last * (stack[0] - others)
    for k in range(EXPERTS):
        mix[k] = shares[2, WEIGHED] * shares[0, k] + calibration[0, k] * (along * shares[1, k] + last * stack[k + 1])
    mix[LANES - 1] = last * stack[FEATURES - 1]


@inner
def start_mixing(calibration, stack, covariance):
    """Every expert as it is, and the stacked prediction equal to the calibrated one."""
    for k in range(EXPERTS):
        calibration[0, k] = 1.0
        calibration[1, k] = PRECISION
    for i in range(FEATURES):
        stack[i] = 1.0 if i == 0 else 0.0
        for j in range(FEATURES):
            covariance[i, j] = 1.0 / PRECISION if i == j else 0.0


@inner
def forget_mixing(forget, calibration, covariance):
    """Let precisions and covariances return to where they started."""
    for k in range(EXPERTS):
        calibration[1, k] = forget * calibration[1, k] + (1.0 - forget) * PRECISION
    for i in range(FEATURES):
        for j in range(FEATURES):
            covariance[i, j] = forget * covariance[i, j] + ((1.0 - forget) / PRECISION if i == j else 0.0)


@inner
def learn_mixing(loss, margins, y, weight, unit, one, sums, shares, calibration, stack, covariance, work):
    """Judge the stages by a label, and let each of them learn from it; margins and y in units of labels.

    ``margins`` are within bounds; losses are counted in units of ``unit``; ``one`` is the stacked regression's constant
    feature. ``work`` is scratch, (2, ≥ FEATURES).
    """
    degree = loss.degree
    price = weight * (unit * unit if degree == 2 else (unit if degree == 1 else 1.0))
    weighed = 0.0
    calibrated = 0.0
    for k in range(EXPERTS):
        weighed += shares[0, k] * margins[k]
        calibrated += shares[1, k] * calibration[0, k] * margins[k]
    work[0, 0] = calibrated
    work[0, FEATURES - 1] = one
    for k in range(EXPERTS):
        work[0, k + 1] = calibration[0, k] * margins[k] - calibrated
    stacked = 0.0
    leverage = 0.0
    for i in range(FEATURES):
        stacked += stack[i] * work[0, i]
        along = 0.0
        for j in range(FEATURES):
            along += covariance[i, j] * work[0, j]
        work[1, i] = along
        leverage += along * work[0, i]
    sums[2, WEIGHED] += price * losses.value(loss, weighed, y)
    sums[2, CALIBRATED] += price * losses.value(loss, calibrated, y)
    sums[2, STACKED] += price * losses.value(loss, stacked, y)
    _, slope, bend = implicit_step(loss, stacked, y, weight * leverage)
    less = weight * bend / (1.0 + weight * bend * leverage)
    for i in range(FEATURES):
        stack[i] -= weight * slope * work[1, i]
        for j in range(FEATURES):
            covariance[i, j] -= less * work[1, i] * work[1, j]
    for k in range(EXPERTS):
        m, factor, precision = margins[k], calibration[0, k], calibration[1, k]
        sums[0, k] += price * losses.value(loss, m, y)
        sums[1, k] += price * losses.value(loss, factor * m, y)
        _, slope, bend = implicit_step(loss, factor * m, y, weight * m * m / precision)
        calibration[0, k] = factor - weight * slope * m / precision
        calibration[1, k] = precision + weight * bend * m * m
