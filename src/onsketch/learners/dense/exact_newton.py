"""The online Newton step with the full matrix, ``ons`` (Hazan, Agarwal and Kale 2007).

Round t: with ``|u·x| > C``, w is the projection of u in the metric A, else ``w = u``. Predict ``w·x``,
absorb the row ``r = √(σ+η_t)·g`` (or x, or √ℓ''·x) into ``A = ridge·I + Σ rrᵀ``, and step to ``u = w −
η·A⁻¹g``, or in dual averaging to ``u = −η·A⁻¹ḡ``. O(d²) a round and d² numbers of memory, with the inverse
of inverse_factor.py.

Elad Hazan, Amit Agarwal, Satyen Kale: "Logarithmic regret algorithms for online convex optimization", Machine
Learning 69, 2007. Haipeng Luo et al.: "Efficient second order online learning by sketching", NIPS 2016 (the
projection).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from onsketch.core import state
from onsketch.core.errors import OptionError
from onsketch.core.tolerances import LARGEST
from onsketch.jit.decorators import allocating_kernel, inner
from onsketch.learners.clip import clipped, limited_step, shortest_move
from onsketch.learners.dense.inverse_factor import (
    Factor,
    absorb,
    copy_rows,
    dot,
    extend,
    factor_of,
    fits_within,
    matrix_of,
    new_factor,
    residual,
    restore,
    rows_fit,
    safe_scale,
    times,
    wider_factor,
)
from onsketch.learners.dense.iterate import Array, Engine, Iterate, largest_weight
from onsketch.learners.merging import by_fisher_weight
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.setup import fisher_weight, make_setup
from onsketch.learners.sketched.driver import FIRST_DIAGONAL
from onsketch.learners.stages import slope_and_scale


def _solved(factor: Factor, right: Array) -> Array:
    """A⁻¹·right, or the pseudo-inverse's."""
    F = factor.rows[: factor.rank[0]]
    return np.asarray(F.T @ (F @ right) / factor.unit)


class FullMetric(NamedTuple):
    """A metric of d×d numbers, for merging."""

    matrix: Array
    ridge: float

    def times(self, x: Array) -> Array:
        """Return the product with a vector."""
        return np.asarray(self.matrix @ x)

    def solve_sum(self, others: Sequence[FullMetric], target: Array, otherwise: Array) -> Array:
        """Return the inverse of the sum of this metric and others, or its pseudo-inverse, times a vector."""
        return _solved(factor_of(self.matrix + sum(other.matrix for other in others), self.ridge), target)


@inner
def _project(factor, x, n, outside, margin, bound, w, b):
    """Bring ``w·x`` within the bound (clip.py): along A⁻¹x, or n, which is free."""
    if outside > 0.0:
        for i in range(w.size):
            w[i] -= shortest_move(margin, bound, outside) * n[i]
        return
    length = times(factor, x, b)
    if length > 0.0:
        for i in range(w.size):
            w[i] -= shortest_move(margin, bound, length) * b[i]


@inner
def _risky(setup, factor, iterate, g, length, w, limit):
    """Return True if a bound on the step is not finite; F is then saved before it changes."""
    if factor.ridge == 0.0:
        return True
    if setup.dual:
        length = length * abs(g) + math.sqrt(dot(iterate.gradient_sum, iterate.gradient_sum, w.size))
    else:
        length *= abs(g)
    return not (setup.step * length / factor.ridge <= 0.5 * limit and fits_within(w, 0.5 * limit))


@inner
def _adapt(setup, iterate, raw, g, x):
    """The row in coordinates adapted to the gradients so far, and to its own, g·raw."""
    for i in range(x.size):
        x[i] = raw[i]
    if setup.diagonal:
        for i in range(x.size):
            x[i] /= math.sqrt(FIRST_DIAGONAL + iterate.diagonal[i] + (g * raw[i]) ** 2)


@inner
def _newton_step(factor, x, rho, g, n, outside, r, b):
    """Absorb the row ρ·x; returns s with ``A_t⁻¹(g·x) = s·b``."""
    if rho == 0.0 or (outside > 0.0 and abs(rho) * math.sqrt(outside) <= 1.0 / LARGEST):
        return 0.0  # nothing to absorb, or too short to be inverted
    if outside > 0.0:
        extend(factor, x, rho, n, outside, b)
        return g / rho
    for i in range(x.size):
        r[i] = rho * x[i]
    scale = safe_scale(factor, r)
    return g / rho / (absorb(factor, r, scale, b) * scale)


@inner
def _commit(setup, iterate, w, gradient_sum, g, raw):
    """Make w the iterate."""
    for i in range(w.size):
        iterate.weights[i] = w[i]
    if setup.dual:
        for i in range(w.size):
            iterate.gradient_sum[i] = gradient_sum[i]
    if setup.average:
        for i in range(w.size):
            iterate.total[i] += w[i]
    if setup.diagonal:
        for i in range(w.size):
            iterate.diagonal[i] += (g * raw[i]) ** 2
    iterate.clock[0] += 1


@inner
def _move(setup, margin, step, x, b, w):
    """``w ← w − step·b``, where b is parallel to P x; the step ends within reach."""
    length = setup.step * step
    if setup.reach < math.inf:
        along = dot(b, x, w.size)
        turned = -1.0 if along < 0.0 else 1.0
        length = turned * limited_step(setup, margin, turned * step, turned * along)
    for i in range(w.size):
        w[i] -= length * b[i]


@inner
def _add_gradient(iterate, g, x, total, w):
    """Fill ``total`` with ḡ + g·x, from which dual averaging computes the weights; w is cleared."""
    for i in range(w.size):
        total[i] = iterate.gradient_sum[i] + g * x[i]
        w[i] = 0.0


@allocating_kernel
def learn_rows(setup, factor, iterate, limit, X, labels, sample_weights, predictions):
    """Learn a block of dense rows, one round each, and return how many were learned: fewer if an update is not finite.

    Shapes: X (n, d), labels, sample_weights and predictions (n,). Scratch of size d: x the adapted row, w the weights,
    b the step's direction, n the part of x outside the range of A, r the row to absorb. Cost: O(d²) for a row.
    """
    d = X.shape[1]
    x = np.empty(d)
    r = np.empty(d)
    w = np.empty(d)
    b = np.empty(d)
    n = np.empty(d)
    for k in range(X.shape[0]):
        # 1 Gather the row and the weights, and 2 predict.
        _adapt(setup, iterate, X[k], 0.0, x)
        for i in range(d):
            w[i] = iterate.weights[i]
        margin = dot(w, x, d)
        length = math.sqrt(dot(x, x, d))
        if not (abs(margin) <= LARGEST and length <= LARGEST):
            return k
        outside = residual(factor, x, n)
        if abs(margin) > setup.clip and not (setup.dual or setup.diagonal_first):
            _project(factor, x, n, outside, margin, setup.clip, w, b)
        margin = clipped(margin, setup.clip)
        # 3 Slope and curvature of the loss.
        slope, rho = slope_and_scale(setup, margin, labels[k], sample_weights[k], iterate.clock[0] + 1)
        g = sample_weights[k] * slope
        raw = math.sqrt(dot(X[k], X[k], d)) if setup.diagonal else length
        if not max(abs(g), abs(rho)) * max(1.0, length, raw) <= LARGEST:
            return k
        if setup.diagonal_first:
            _adapt(setup, iterate, X[k], g, x)
            length = math.sqrt(dot(x, x, d))
            outside = residual(factor, x, n)
        # 4 Absorb the row into F, of which a risky round keeps a copy, and step on a copy of the weights.
        risky = _risky(setup, factor, iterate, g, length, w, limit)
        rank = factor.rank[0]
        saved = np.empty((rank if risky else 0, d))
        copy_rows(factor, saved)
        step = _newton_step(factor, x, rho, g, n, outside, r, b)
        if setup.dual:
            _add_gradient(iterate, g, x, r, w)
            times(factor, r, b)
            step = 1.0 / factor.unit
        if step != 0.0:
            _move(setup, margin, step, x, b, w)
        elif abs(margin) > setup.reach:  # nothing was absorbed: the projection is all there is
            _project(factor, x, n, outside, margin, setup.reach, w, b)
        # 5 Check, and undo what F has absorbed.
        if not (
            fits_within(w, limit) and (not setup.dual or fits_within(r, limit)) and (not risky or rows_fit(factor))
        ):
            restore(factor, saved, rank)
            return k
        # 6 Write the iterate, and 7 count the round.
        _commit(setup, iterate, w, r, g, X[k])
        predictions[k] = margin
    return X.shape[0]


@allocating_kernel
def leverage_rows(factor, X, leverages):
    """``x·A⁻¹x`` of rows in adapted coordinates; infinite for a row outside the range of a singular A."""
    d = X.shape[1]
    n = np.empty(d)
    for k in range(X.shape[0]):
        if residual(factor, X[k], n) > 0.0:
            leverages[k] = np.inf
            continue
        leverages[k] = times(factor, X[k], n) / factor.unit


class ExactNewton(Engine):
    """The rounds of ``ons``: O(d²) each, in one compiled loop over a block."""

    factor: Annotated[Factor, state.Part()]

    def __init__(self, method: Method, options: Options) -> None:
        self.setup = make_setup(method, options)
        self.limit = largest_weight(options)
        self.factor = new_factor(self.setup.ridge)

    def _widen(self, width: int) -> None:
        """New features have nothing but the ridge."""
        self.factor = wider_factor(self.factor, width)

    def learn(self, iterate: Iterate, X: Array, labels: Array, sample_weights: Array, out: Array) -> int:
        """Play the rounds of a block."""
        return int(learn_rows(self.setup, self.factor, iterate, self.limit, X, labels, sample_weights, out))

    def leverage(self, X: Array) -> Array:
        """``x·A⁻¹x``; infinite at ridge 0 for a row outside of what was seen."""
        leverages = np.empty(len(X))
        leverage_rows(self.factor, X, leverages)
        return leverages

    def merge(self, mine: Iterate, other: ExactNewton, theirs: Iterate, base: ExactNewton, common: Iterate) -> Array:
        """``A = A₀ + Δ₁ + Δ₂`` and ``(A₀ + Σ s_iΔ_i)(w − w₀) = Σ (A₀ + s_iΔ_i)(w_i − w₀)``, 0 being the base; O(d³).

        ``Δ_i = A_i − A₀`` is what learner i has absorbed, s_i its weight (``knowledge``), which is 1 for curvature
        rows at step 1. Without a clip that is exact (to rounding, for any split of the stream) on the squared
        loss: recursive least squares. Dual averaging steps from the sum of all gradients.
        """
        start, first = common.weights.astype(np.float64), matrix_of(base.factor)
        began, theirs_end = int(common.clock[0]), int(theirs.clock[0])
        ends = int(mine.clock[0]) - theirs_end + began, theirs_end  # mine is merged already
        gained, ridge = [matrix_of(engine.factor) - first for engine in (self, other)], self.factor.ridge
        try:
            factor = factor_of(first + gained[0] + gained[1], ridge)
            if self.setup.dual:
                weights = _solved(factor, -self.setup.step * mine.gradient_sum.astype(np.float64))
            else:
                worth = [fisher_weight(self.setup, began, end) for end in ends]
                known = [FullMetric(s * part, ridge) for s, part in zip(worth, gained, strict=True)]
                moved = [iterate.weights - start for iterate in (mine, theirs)]
                weights = start + by_fisher_weight(FullMetric(first, ridge), known, moved)
        except np.linalg.LinAlgError:
            raise OptionError("merge: these learners did not start from the base given.") from None
        self.factor = factor
        return weights

    def spectrum(self, one: float = 1.0) -> Array:
        """Return the eigenvalues of A less the ridge, as if the constant feature were 1: O(d³)."""
        absorbed = matrix_of(self.factor)
        absorbed.flat[:: len(absorbed) + 1] -= self.factor.ridge
        absorbed[:1] /= one
        absorbed[:, :1] /= one
        values = np.linalg.eigvalsh(absorbed)
        return np.maximum(np.asarray(values, dtype=np.float64), 0.0)
