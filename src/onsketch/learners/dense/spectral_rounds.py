"""The one algorithm in plain NumPy, one round at a time.

A summary gives directions and energies, a geometry makes a metric of them, the weights take a step in it.
"""

from __future__ import annotations

import copy
from typing import Annotated

import numpy as np

from onsketch.core import state
from onsketch.core.geometry import geometry_of
from onsketch.core.tolerances import LARGEST
from onsketch.learners.clip import clipped
from onsketch.learners.dense.composite import Terms, proximal
from onsketch.learners.dense.iterate import Array, Engine, Iterate, largest_weight
from onsketch.learners.dense.metric import Metric, from_spectrum
from onsketch.learners.dense.summaries import Summary
from onsketch.learners.merging import by_mean
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.setup import make_setup
from onsketch.learners.sketched.driver import FIRST_DIAGONAL
from onsketch.learners.stages import slope_and_scale

_SAFE = 1e70
"""Rounds whose numbers (and their inverses) stay below this cannot overflow."""


class SpectralRounds(Engine):
    """The rounds of every dense method but ``ons``; their cost is the summary's (see summaries).

    Round t: predict ``z = w·x``, with w the projection of u where ``|u·x| > C``; absorb the row; then, with
    P the inverse of the metric, ``u = prox(w − η·P g)`` (mirror descent, weight η on the composite term φ)
    or ``u = prox(−η·P ḡ)`` (dual averaging, weight ηt).
    """

    summary: Annotated[Summary | None, state.Part()]

    def __init__(self, method: Method, options: Options) -> None:
        self.method, self.options = method, options
        self.setup = make_setup(method, options)
        self.terms = Terms.of(options)
        self.limit = largest_weight(options)
        self.summary = None
        self._metric: Metric | None = None

    def _widen(self, width: int) -> None:
        """Make the summary, or a wider one."""
        if self.summary is None:
            self.summary = self.method.kind.dense_form(width, self.options)
        else:
            self.summary = copy.copy(self.summary)
            self.summary.widen(width)
        self._metric = None

    @property
    def metric(self) -> Metric:
        """Return H of the current summary."""
        if self._metric is None:
            self._metric = self.metric_of(self.summary)
        return self._metric

    def metric_of(self, summary: Summary | None) -> Metric:
        """Return H of this summary."""
        assert summary is not None
        counted = geometry_of(self.method.geometry).counts_escaped
        ridge = self.setup.ridge if counted else summary.ridge
        return from_spectrum(self.method.geometry, *summary.spectrum(), ridge, summary.escaped, summary.outside)

    def learn(self, iterate: Iterate, X: Array, labels: Array, sample_weights: Array, out: Array) -> int:
        """Play the rounds of a block."""
        with np.errstate(all="ignore"):  # what overflows is refused
            for k in range(len(X)):
                margin = self._round(iterate, X[k], float(labels[k]), float(sample_weights[k]))
                if margin is None:
                    return k
                out[k] = margin
        return len(X)

    def _round(self, iterate: Iterate, raw: Array, label: float, weight: float) -> float | None:
        """The margin predicted; None when the update would not be finite, and then nothing has changed."""
        assert self.summary is not None
        setup, t = self.setup, int(iterate.clock[0]) + 1
        # 1 Gather the row and the weights, and 2 predict.
        x = raw / np.sqrt(FIRST_DIAGONAL + iterate.diagonal) if setup.diagonal else raw
        w = iterate.weights.astype(np.float64)
        z, length = float(w @ x), float(np.linalg.norm(x))
        if not (abs(z) <= LARGEST and length <= LARGEST):
            return None
        if self.summary.see(x):
            self._metric = None
        margin: float = clipped(z, setup.clip)
        if margin != z and not (setup.dual or setup.diagonal_first):
            w = self.metric.project(w, x, z, setup.clip)
        # 3 Slope and curvature of the loss.
        slope, rho = slope_and_scale(setup, margin, label, weight, t)
        slope *= weight
        if not max(abs(slope), abs(rho)) * max(1.0, length, float(np.linalg.norm(raw))) <= LARGEST:
            return None
        if setup.diagonal_first:
            x = raw / np.sqrt(FIRST_DIAGONAL + iterate.diagonal + (slope * raw) ** 2)
        g = slope * x
        if setup.dual:
            g += iterate.gradient_sum
        # 4 Absorb the row into the summary, of which a round that may be refused makes a copy, and compute the step.
        summary = self.summary if self._is_safe(w, g, x, rho * x) else copy.deepcopy(self.summary)
        try:
            summary.absorb(rho * x)
            metric = self.metric_of(summary)
            u = self._step(metric, w, g, t)
            if setup.reach < np.inf:
                u = _stopped(w, u, x, z, setup.reach)
        except np.linalg.LinAlgError:
            return None
        # 5 Check: the weights have not been written.
        fits = _largest(u) <= self.limit and _largest(g) <= self.limit
        if not (fits and np.isfinite(metric.inside).all() and np.isfinite(metric.directions).all()):
            return None
        # 6 Write the summary and the iterate, and 7 count the round.
        self.summary, self._metric = summary, None if summary.settle() else metric
        self._commit(iterate, u, g, slope * raw)
        return margin

    def _step(self, metric: Metric, w: Array, g: Array, t: int) -> Array:
        """The iterate after a step along the gradient g (in dual averaging, the sum of all gradients)."""
        step = self.setup.step
        if self.setup.dual:
            u, weight = -step * metric.solve(g), step * t
        else:
            u, weight = w - step * metric.solve(g), step
        return u if self.terms is None else proximal(metric, u, self.terms, weight)

    def _is_safe(self, *vectors: Array) -> bool:
        numbers = (*map(_largest, (*vectors, self.metric.inside)), 1.0 / self.setup.ridge, self.setup.step)
        return all(number <= _SAFE for number in numbers)

    def _commit(self, iterate: Iterate, u: Array, g: Array, gradient: Array) -> None:
        iterate.weights[:] = u
        iterate.clock[0] += 1
        if self.setup.dual:
            iterate.gradient_sum[:] = g
        if self.setup.average:
            iterate.total[:] += u
        if self.setup.diagonal:
            iterate.diagonal[:] += gradient * gradient

    def leverage(self, X: Array) -> Array:
        """``x·P x``."""
        P = self.metric.solve
        return np.array([x @ P(x) for x in X])

    def merge(
        self, mine: Iterate, other: SpectralRounds, theirs: Iterate, base: SpectralRounds, common: Iterate
    ) -> Array:
        """Merge the summaries; the weights move by the mean of both displacements, each in its metric.

        ``(n₁H₁ + n₂H₂)(w − w₀) = n₁H₁(w₁ − w₀) + n₂H₂(w₂ − w₀)``, 0 being the base and n_i the rounds since it, and w
        is clipped to the box: steps that shrink no faster than 1/√t would overshoot if they were added. Where Ada-LR's
        metric is infinite, the ridge is used. Dual averaging steps from the merged summary and the sum of all
        gradients. No theorem covers this.
        """
        assert self.summary is not None
        assert other.summary is not None
        assert base.summary is not None
        weights = common.weights.astype(np.float64)
        rounds = int(mine.clock[0] - common.clock[0])
        if rounds:
            share = (theirs.clock[0] - common.clock[0]) / rounds
            weights = weights + self._mean_displacement(((1.0 - share, self, mine), (share, other, theirs)), weights)
        self.summary.merge(other.summary, base.summary)
        self._metric = None
        if self.setup.dual:
            return self._step(self.metric, weights, mine.gradient_sum.astype(np.float64), int(mine.clock[0]))
        return weights if self.terms is None else self.terms.clip(weights)

    def _mean_displacement(self, parts: tuple[tuple[float, SpectralRounds, Iterate], ...], start: Array) -> Array:
        metrics, moved = [], []
        for share, engine, iterate in parts:
            metric = engine.metric
            if np.isinf(metric.outside):
                metric = metric._replace(outside=self.setup.ridge)
            metrics.append(metric.scaled(share))
            moved.append(iterate.weights.astype(np.float64) - start)
        return by_mean(metrics, moved)

    def spectrum(self, one: float = 1.0) -> Array:
        """The summary's; the constant feature is 1 there."""
        return np.zeros(0) if self.summary is None else self.summary.spectrum()[1]


def _stopped(w: Array, u: Array, x: Array, margin: float, reach: float) -> Array:
    """Return the point between w and u at which the margin of x reaches ±C."""
    moved = float((u - w) @ x)
    if moved == 0.0:
        return w
    return np.asarray(w + (clipped(margin + moved, reach) - margin) / moved * (u - w))


def _largest(vector: Array) -> float:
    return float(np.abs(vector).max(initial=0.0))
