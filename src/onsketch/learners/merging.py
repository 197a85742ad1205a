"""Merging learners that have seen different rows: the rules for weights, and the algebra of unpacked sketches.

Two learners and their common base (a new learner, unless given) are unpacked over a common list of features. Sums
over rounds add up, with the base counted once (``less_base``). Weights follow one of two rules, with ``d_i = w_i −
w_0`` the displacement of learner i from the base:

    by precision   (M_0 + K_1 + K_2)(w − w_0) = (M_0 + K_1) d_1 + (M_0 + K_2) d_2
    by mean        (M_1 + M_2)(w − w_0) = M_1 d_1 + M_2 d_2

The first is for Newton steps: ``M_0`` is the metric of the base and ``K_i`` the precision that learner i has gained
since. A displacement counts in full in directions where the other learner gained nothing, and in proportion where both
did. The second is for steps that shrink no faster than 1/√t, where sums of displacements would overshoot. In directions
without any metric, displacements add: a feature that only one learner has seen keeps its weight.

A ``Metric`` is ``diag(flat) + RᵀR``, with n rows R; dense learners have metrics of their own. Everything here costs
O(n²) for each feature.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from onsketch.core.tolerances import CUTOFF
from onsketch.sketches.spectral import positive_spectrum

Array = NDArray[np.float64]

SIGNS = (1.0, 1.0, -1.0)
"""Two learners count; their base is subtracted."""


def less_base(values: Iterable[Any]) -> Any:
    """Return the sum of both learners' values, with that of the base counted once."""
    return sum(sign * value for sign, value in zip(SIGNS, values, strict=True))


class Metric(NamedTuple):
    """``diag(flat) + RᵀR``."""

    flat: Any
    """(features,), or one number for all."""
    rows: Array
    """R, (n, features)."""

    def times(self, x: Array) -> Array:
        """Return the product with a vector."""
        return np.asarray(self.flat * x + self.rows.T @ (self.rows @ x))

    def solve(self, target: Array, otherwise: Array) -> Array:
        """Return the inverse times a vector; where there is no metric at all, ``otherwise``."""
        flat = np.broadcast_to(np.asarray(self.flat, dtype=np.float64), target.shape)
        known = flat > 0.0
        if not len(self.rows):
            return np.where(known, target / np.where(known, flat, 1.0), otherwise)
        if not known.all():  # no ridge: the pseudo-inverse
            values, directions = spectrum(self.rows)
            return np.asarray(directions.T @ (directions @ target / values))
        root = 1.0 / np.sqrt(flat)
        values, directions = spectrum(self.rows * root)
        scaled = target * root
        return np.asarray(root * (scaled - directions.T @ (directions @ scaled * values / (1.0 + values))))

    def solve_sum(self, others: Sequence[Metric], target: Array, otherwise: Array) -> Array:
        """Return the inverse of the sum of this metric and others times a vector, or ``otherwise`` as in ``solve``."""
        metrics = [self, *others]
        summed = Metric(sum(metric.flat for metric in metrics), np.vstack([metric.rows for metric in metrics]))
        return summed.solve(target, otherwise)


class AnyMetric(Protocol):
    """A metric in the form that a family of learners has: the one above, or those of ``learners.dense``."""

    def times(self, x: Array) -> Array:
        """Return the product with a vector."""

    def solve_sum(self, others: Sequence[Any], target: Array, otherwise: Array) -> Array:
        """Return the inverse of the sum of this metric and others times a vector."""


def by_fisher_weight(base: AnyMetric, gained: Sequence[AnyMetric], moved: Sequence[Array]) -> Array:
    """Return the displacement of the merged weights, for Newton steps."""
    target = sum(base.times(direction) + part.times(direction) for part, direction in zip(gained, moved, strict=True))
    return base.solve_sum(gained, np.asarray(target), np.asarray(sum(moved)))


def by_mean(metrics: Sequence[AnyMetric], moved: Sequence[Array]) -> Array:
    """Return the mean of the displacements, each in its metric."""
    target = sum(metric.times(direction) for metric, direction in zip(metrics, moved, strict=True))
    return metrics[0].solve_sum(metrics[1:], np.asarray(target), np.asarray(sum(moved)))


# Unpacked sketches: rows B, with BᵀB the matrix that the sketch represents -------------------------------------


def difference(stack: list[Array]) -> tuple[Array, Array]:
    """Return the positive eigenvalues λ of ``B_1ᵀB_1 + … − B_0ᵀB_0``, descending, and T with directions ``T·stack``.

    With the Gram matrix ``G = UDUᵀ`` of all rows and J their signs, the small matrix ``D^{1/2}UᵀJUD^{1/2}`` has the
    same spectrum. A sketch that has shrunk may hold less of a direction than its base did: that is cut off at zero.
    """
    rows = np.vstack(stack)
    J = np.repeat(SIGNS[-len(stack) :], [len(part) for part in stack])
    energy, U = positive_spectrum(rows @ rows.T)
    root = np.sqrt(energy)
    values, W = np.linalg.eigh((root[:, None] * (U.T * J) @ U) * root)
    values, W = values[::-1], W[:, ::-1]
    kept = values > CUTOFF * energy.max(initial=0.0)
    return values[kept], (W[:, kept].T / root) @ U.T


def added(stack: list[Array]) -> Array:
    """Return rows R with ``RᵀR`` the sum less the base, the last; the rows themselves if the base has none."""
    if not len(stack[-1]):
        return np.vstack(stack)
    values, T = difference(stack)
    return np.asarray((np.sqrt(values)[:, None] * T) @ np.vstack(stack))


def spectrum(rows: Array) -> tuple[Array, Array]:
    """Return λ (descending, cut off) and orthonormal directions V of ``rowsᵀ rows``, from the small Gram matrix."""
    values, vectors = positive_spectrum(rows @ rows.T)
    return values, (vectors.T @ rows) / np.sqrt(values)[:, None]
