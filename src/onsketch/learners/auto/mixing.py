"""The mixture: calibrate each expert, weigh, stack, and weigh the three ways of mixing.

From the experts' margins m_k (in units of labels) three predictions are made,

    weighed      Σ share_k·m_k
    calibrated   b = Σ share'_k·a_k·m_k, a_k by a one-dimensional online Laplace step (mean 1, precision 10)
    stacked      θ₀·b + Σ θ_k·(a_k·m_k − b) + θ_c, an online Laplace regression that starts at b, precision 10

and mixed once more. With L_k the (weighted) sum of the losses of what is to be mixed, n the sum of sample weights, and
rate = ½ over the heaviest of them (at least 1: a loss times h is mixable at 1/h of the rate only; see count_weight),

    sign labels   share_k ∝ prior_k·exp(−rate·L_k)
    real labels   share_k ∝ prior_k·L_k^{−rate·n/p}, p = 2 for the squared, 1 for the absolute and the quantile loss

The former is exponential weighting (Vovk 1990; Littlestone and Warmuth 1994); at rate 1 it is Bayes' rule for the
logistic loss. The latter is the same on the log likelihood under Gaussian or Laplace noise of unknown size, so that
the unit of y does not matter. Margins, not probabilities, are mixed: the mixture is linear, and ``mix`` has its
coefficients. Experts are judged by their margins kept within the labels seen (signs: within ±50).

Cost: O(K²) a row for K experts.
"""

from __future__ import annotations

from onsketch.core import losses
from onsketch.core.implicit import implicit_steps, values_at
from onsketch.jit.decorators import inner
from onsketch.jit.vectors import exponentials, load, logarithms, product, spread, store, where_less

EXPERTS = 7
LANES = 8
"""Experts are kept in whole vectors."""
FEATURES = EXPERTS + 2
"""Of the stacked regression."""

RATE = 0.5
"""How fast the mixture believes in what does better; 1 is Bayes' rule for the logistic loss."""
PRECISION = 10.0
"""Of the calibration and the stacking, at the start."""
TRUSTED, TRUST = 2, 4.0
"""The first two experts are Newton's: best on few rows, and trusted so many times as much as the others."""
PRIORS = (TRUST,) * TRUSTED + (1.0,) * (EXPERTS - TRUSTED)
"""How much the experts are trusted before the first label, but for a factor."""

STAGES = 3
WEIGHED, CALIBRATED, STACKED = range(STAGES)
"""The stages."""

TINY = 1e-290


@inner
def set_shares(loss, sums, shares, count, heaviest, work):
    """Fill the shares from the sums of losses over rows of total weight ``count``, none above ``heaviest``; ``work`` is
    scratch.
    """
    degree = loss.degree
    for row in range(3):
        number = EXPERTS if row < STACKED else STAGES
        best = sums[row, 0]
        for k in range(1, number):
            best = min(best, sums[row, k])
        for k in range(LANES):
            work[row, k] = max(sums[row, k], TINY) / max(best, TINY) if degree > 0 else best - sums[row, k]
    for row in range(3):
        place = row * work.shape[1]
        number = EXPERTS if row < STACKED else STAGES
        if degree > 0:
            worse = product(spread(-count / degree, LANES), logarithms(load(work, place, LANES), LANES))
        else:
            worse = load(work, place, LANES)
        worse = product(spread(RATE / heaviest, LANES), worse)
        share = where_less(worse, spread(-700.0, LANES), spread(0.0, LANES), exponentials(worse, LANES))
        store(work, place, share)
        whole = 0.0
        for k in range(TRUSTED if row < STACKED else 0):
            work[row, k] *= TRUST
        for k in range(number):
            whole += work[row, k]
        for k in range(number):
            shares[row, k] = work[row, k] / whole


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
    feature. ``work`` is scratch, (7, 2·LANES).
    """
    degree = loss.degree
    price = weight * (unit * unit if degree == 2 else (unit if degree == 1 else 1.0))
    features, along, judged, costs = work[0], work[1], work[2], work[3]
    lengths, slopes, bends = work[4], work[5], work[6]
    weighed = 0.0
    calibrated = 0.0
    for k in range(EXPERTS):
        m = margins[k]
        scaled = calibration[0, k] * m
        weighed += shares[0, k] * m
        calibrated += shares[1, k] * scaled
        judged[k] = m
        judged[LANES + k] = scaled
        features[k + 1] = scaled
        lengths[k] = weight * m * m / calibration[1, k]
    judged[EXPERTS] = weighed
    judged[LANES + EXPERTS] = calibrated
    features[0] = calibrated
    features[FEATURES - 1] = one
    for k in range(EXPERTS):
        features[k + 1] -= calibrated
    stacked = 0.0
    leverage = 0.0
    for i in range(FEATURES):
        stacked += stack[i] * features[i]
        entry = 0.0
        for j in range(FEATURES):
            entry += covariance[i, j] * features[j]
        along[i] = entry
        leverage += entry * features[i]
    values_at(loss, judged, y, costs)
    for k in range(EXPERTS):
        sums[0, k] += price * costs[k]
        sums[1, k] += price * costs[LANES + k]
    sums[2, WEIGHED] += price * costs[EXPERTS]
    sums[2, CALIBRATED] += price * costs[LANES + EXPERTS]
    sums[2, STACKED] += price * losses.value(loss, stacked, y)
    # the calibrated margins and the stacked one step side by side
    for k in range(EXPERTS):
        judged[k] = judged[LANES + k]
    judged[EXPERTS] = stacked
    lengths[EXPERTS] = weight * leverage
    implicit_steps(loss, judged, y, lengths, slopes, bends)
    bend = weight * bends[EXPERTS]
    less = bend / (1.0 + bend * leverage)
    for i in range(FEATURES):
        stack[i] -= weight * slopes[EXPERTS] * along[i]
        for j in range(FEATURES):
            covariance[i, j] -= less * along[i] * along[j]
    for k in range(EXPERTS):
        m = margins[k]
        calibration[0, k] -= weight * slopes[k] * m / calibration[1, k]
        calibration[1, k] += weight * bends[k] * m * m
