"""What the softmax learner keeps: figures of every feature, and the tables of the way it learns.

Row 0 of every table is the constant feature; the feature of slot s has row s + 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.jit.vectors import padded

Floats = NDArray[np.float64]


class Tally(NamedTuple):
    """Entries of the whole numbers."""

    rounds: int
    """rows learned"""
    seen: int
    """features seen"""
    classes: int
    """K"""
    nonzeros: int
    """values seen that are not 0"""
    sketched: int
    """rows of the sketch"""
    why: int
    """why learning stopped before a row, one of STOP; 0: it did not"""


TALLY = Tally(*range(6))


class Stops(NamedTuple):
    """Why learning stops before a row."""

    no: int
    refused: int
    """its update would not be finite"""
    outgrown: int
    """another way of learning is due"""
    full: int
    """there is no room for its pairs"""


STOP = Stops(*range(4))


class Running(NamedTuple):
    """Entries of the running figures of the whole stream."""

    norm: int
    """mean |x|² of the scaled rows"""
    used: int
    """the one that the sketch's ridges are made of"""
    escaped: int
    """Σρ shrunk away"""
    log_scale: int
    """mean logarithm of the features' root mean squares"""
    log_count: int
    """over so many values"""
    omega: int
    """Ω, the sum of the averages' weights"""
    alpha: int
    """Σ curvature of all classes"""


RUNNING = Running(*range(7))


class Figures(NamedTuple):
    """Entries of the figures of a feature, over its values that are not 0."""

    values: int
    """how many"""
    mean: int
    squares: int
    """Σ(v − mean)²"""


FIGURE = Figures(*range(3))


class Common(NamedTuple):
    """What every way of learning keeps."""

    tally: NDArray[np.int64]
    running: Floats
    figures: Floats
    """(slots, 3)."""

    @classmethod
    def empty(cls, classes: int) -> Self:
        """Before the first row."""
        return cls(np.array([0, 0, classes, 0, 0, 0]), np.zeros(7), np.zeros((0, 3)))


NEWTON, OUTPUTS = 2, 7
"""Experts 0 and 1 are Newton's, 2 is AdaGrad on scaled rows, 3 on rows of unit length; outputs 4, 5 and 6 hold the
sums behind the averages of 0, 1 and 2."""
SCALED, UNIT, AVERAGE = 2, 3, 4


class Dense(NamedTuple):
    """Tables for rows that are dense, or not wide. The weights of a feature are (OUTPUTS, K), one after the other."""

    weights: Any
    """(features, OUTPUTS·K), float32 or float64."""
    energies: Floats
    """(features, 2): of AdaGrad on scaled and on unit rows."""
    metrics: Floats
    """(NEWTON, K, features, features): the inverse of each class's A where there are few features; else empty."""
    sketch: Any
    """(features, capacity): the columns of S; empty where there are few features."""
    coefficients: Floats
    """(capacity, 2·NEWTON, K): of the Newton experts and of their sums on the rows of S."""
    gram: Floats
    inverses: Floats
    """(NEWTON, capacity, capacity): (ridge·I + SSᵀ)^{-1}."""
    alphas: Floats
    """(K,): Σ p(1 − p) of each class."""

    @classmethod
    def empty(cls, features: int, classes: int, capacity: int, dtype: Any) -> Self:
        """Zero tables; ``capacity`` 0 is for few features."""
        few = capacity == 0
        return cls(
            weights=np.zeros((features, OUTPUTS * classes), dtype),
            energies=np.zeros((features, 2)),
            metrics=np.zeros((NEWTON, classes, features, features) if few else (NEWTON, 0, 0, 0)),
            sketch=np.zeros((features, capacity), dtype),
            coefficients=np.zeros((capacity, 2 * NEWTON, classes)),
            gram=np.zeros((capacity, capacity)),
            inverses=np.zeros((NEWTON, capacity, capacity)),
            alphas=np.zeros(classes),
        )

    @property
    def classes(self) -> int:
        """Classes there is room for."""
        return len(self.alphas)

    @property
    def capacity(self) -> int:
        """Rows of the sketch there is room for; 0 where there is none."""
        return len(self.gram)

    def resized(self, features: int, classes: int, capacity: int = 0) -> Dense:
        """The same numbers in tables of this size, with room for as many rows of the sketch as before at least."""
        n = self.capacity
        new = Dense.empty(features, classes, max(capacity, n), self.weights.dtype)
        f, k = min(features, len(self.energies)), min(classes, self.classes)
        split = new.weights.reshape(features, OUTPUTS, classes)
        split[:f, :, :k] = self.weights.reshape(-1, OUTPUTS, self.classes)[:f, :, :k]
        new.energies[:f] = self.energies[:f]
        if not self.capacity:
            new.metrics[:, :k, :f, :f] = self.metrics[:, :k, :f, :f]
        new.sketch[:f, :n] = self.sketch[:f]
        new.coefficients[:n, :, :k] = self.coefficients[:, :, :k]
        new.gram[:n, :n], new.inverses[:, :n, :n] = self.gram, self.inverses
        new.alphas[:k] = self.alphas[:k]
        return new


class Scratch(NamedTuple):
    """Room to work in; nothing of it is kept between rows."""

    z: Floats
    """(outputs, K): margins."""
    f: Floats
    g: Floats
    parts: Floats
    p: Floats
    slopes: Floats
    tau: Floats
    gradient: Floats
    work: Floats
    q: Floats
    """(K, features) for metrics, (NEWTON, capacity) for the sketch."""
    products: Floats
    """(capacity,): Sx."""
    moves: Floats
    """(NEWTON, K)."""
    values: Floats
    vectors: Floats
    eigen_work: Floats
    transform: Floats

    @classmethod
    def empty(cls, outputs: int, classes: int, features: int, capacity: int) -> Self:
        """For so many outputs and classes; ``features`` only where every class has a metric."""
        return cls(
            z=np.zeros((outputs, classes)),
            f=np.zeros((outputs + 1, classes)),
            g=np.zeros(classes),
            parts=np.zeros((5, classes)),
            p=np.zeros(classes),
            slopes=np.zeros(classes),
            tau=np.zeros(classes),
            gradient=np.zeros(outputs + 1),
            work=np.zeros((outputs + 1, outputs + 1)),
            q=np.zeros((NEWTON, capacity)) if capacity else np.zeros((classes, features)),
            products=np.zeros(capacity),
            moves=np.zeros((NEWTON, classes)),
            values=np.zeros(capacity),
            vectors=np.zeros((padded(capacity), padded(capacity))),
            eigen_work=np.zeros((2, padded(capacity))),
            transform=np.zeros((capacity, capacity)),
        )
