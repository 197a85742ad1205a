"""A metric that is a scalar except in a few directions, and its operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.geometry import geometry_of
from onsketch.learners.clip import shortest_move

Array = NDArray[np.float64]


class Metric(NamedTuple):
    """``H = Vᵀ diag(h) V + h₀(I − VᵀV)``; everything here costs O(kd) for k directions."""

    directions: Array
    """V, (k, d), orthonormal rows."""
    inside: Array
    """h, one for each direction."""
    outside: float
    """h₀; infinite where no step may leave the directions (Ada-LR)."""

    def apply(self, inside: Array, outside: float, x: Array) -> Array:
        """``f(H) x`` for a function with these values on the directions and outside of them."""
        along = self.directions @ x
        if outside == 0.0:
            return np.asarray((inside * along) @ self.directions)
        # computed separately, so that a large component outside does not cancel digits of a small one inside
        remainder = x - along @ self.directions
        return np.asarray(outside * remainder + (inside * along) @ self.directions)

    def times(self, x: Array) -> Array:
        """``H x``."""
        return self.apply(self.inside, self.outside, x)

    def solve(self, x: Array) -> Array:
        """``P x = H⁻¹x``."""
        return self.apply(1.0 / self.inside, 1.0 / self.outside, x)

    def plus(self, ridge: float) -> Metric:
        """``H + ridge·I``."""
        return self._replace(inside=self.inside + ridge, outside=self.outside + ridge)

    def scaled(self, factor: float) -> Metric:
        """``factor·H``."""
        return self._replace(inside=factor * self.inside, outside=factor * self.outside)

    def solve_sum(self, others: Sequence[Metric], target: Array, otherwise: Array) -> Array:
        """``(Σ H_i)⁻¹ target`` for this metric and others, by Woodbury's identity."""
        metrics = [self, *others]
        scalar = math.fsum(metric.outside for metric in metrics)
        V = np.vstack([metric.directions for metric in metrics])
        rest = np.concatenate([metric.inside - metric.outside for metric in metrics])
        small = scalar * np.eye(len(V)) + (V @ V.T) * rest
        return np.asarray((target - (rest * np.linalg.solve(small, V @ target)) @ V) / scalar)

    def project(self, u: Array, x: Array, margin: float, bound: float) -> Array:
        """Bring ``margin = u·x`` within the bound (clip.py)."""
        direction = self.solve(x)
        length = float(x @ direction)
        return u - shortest_move(margin, bound, length) * direction if length > 0.0 else u


def from_spectrum(
    geometry: str, directions: Array, energy: Array, ridge: float, escaped: float, outside: float | None
) -> Metric:
    """The metric of a geometry (see onsketch.core.geometry) on directions with these energies, all above zero.

    ``outside`` is the metric where there is no energy, for the methods that fix it; else the geometry's own.
    """
    *inside, flat = geometry_of(geometry).metrics([*energy, 0.0], ridge, escaped)
    return Metric(directions, np.array(inside), flat if outside is None else outside)
