"""The vectors of a dense learner, one number per feature each, and what plays rounds on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays
from onsketch.core.tolerances import LARGEST
from onsketch.learners.options import Options

Array = NDArray[np.float64]


class Iterate(NamedTuple):
    """Where a dense learner stands, in plain arrays. What its options do not ask for has no entries."""

    weights: NDArray[np.floating]
    """u, the unprojected iterate; in adapted coordinates with ``diagonal``."""
    total: NDArray[np.floating]
    """Σu over the rounds, for ``average``."""
    gradient_sum: NDArray[np.floating]
    """ḡ = Σg, for dual averaging."""
    diagonal: Array
    """Σg² in the original coordinates, for ``diagonal``."""
    clock: NDArray[np.int64]
    """[rounds played]."""


def new_iterate(options: Options) -> Iterate:
    """No features yet, no rounds played."""
    nothing = np.zeros(0, dtype=options.dtype)
    return Iterate(nothing, nothing, nothing, np.zeros(0), np.zeros(1, dtype=np.int64))


def widened(iterate: Iterate, width: int, options: Options) -> Iterate:
    """The iterate with zeros for the features from its width on."""

    def longer(vector: NDArray[np.floating], wanted: bool) -> NDArray[np.floating]:
        return np.pad(vector, (0, width - vector.size)) if wanted else vector

    return Iterate(
        weights=longer(iterate.weights, True),
        total=longer(iterate.total, options.average),
        gradient_sum=longer(iterate.gradient_sum, options.update == "dual"),
        diagonal=longer(iterate.diagonal, options.diagonal).astype(np.float64, copy=False),
        clock=iterate.clock,
    )


def largest_weight(options: Options) -> float:
    """Weights and sums of gradients beyond this are refused: what their type can hold, and add up."""
    return LARGEST if options.dtype == "float64" else 1e30


class Engine(ABC):
    """Holds a learner's metric, in one form or another, and plays rounds with it."""

    @abstractmethod
    def widen(self, width: int) -> None:
        """Make room for this many features."""

    @abstractmethod
    def learn(self, iterate: Iterate, X: Array, labels: Array, sample_weights: Array, out: Array) -> int:
        """Play the rounds of a dense block, in place; returns the number of rows learned."""

    @abstractmethod
    def leverage(self, X: Array) -> Array:
        """``x·A⁻¹x`` for each row, in adapted coordinates."""

    @abstractmethod
    def merge(self, mine: Iterate, other: Any, theirs: Iterate, base: Any, common: Iterate) -> Array:
        """Take in another engine's metric less the base's; returns the merged weights.

        ``mine`` has its sums and its clock merged already, its weights not yet.
        """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the metric."""

    @abstractmethod
    def spectrum(self, one: float = 1.0) -> Array:
        """The eigenvalues of what was absorbed, as if the constant feature, which is ``one``, were 1."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """The metric, for a model file."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> None:
        """Take the metric from a model file, the features having been made room for."""
