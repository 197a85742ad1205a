"""The vectors of a dense learner, one number per feature each, and what plays rounds on them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import LONGEST_COUNT
from onsketch.core.state import Array as State
from onsketch.core.state import new, resize
from onsketch.core.tolerances import LARGEST
from onsketch.learners.options import Options
from onsketch.learners.setup import Setup

Array = NDArray[np.float64]


class Iterate(NamedTuple):
    """The vectors of a dense learner. Axes that its options do not need have size 0."""

    weights: Annotated[NDArray[np.floating], State("features", "real")]
    """u, the unprojected iterate; in adapted coordinates with ``diagonal``."""
    total: Annotated[NDArray[np.floating], State("averaged", "real")]
    """Σu over the rounds, for ``average``."""
    gradient_sum: Annotated[NDArray[np.floating], State("dual", "real")]
    """ḡ = Σg, for dual averaging."""
    diagonal: Annotated[Array, State("adapted", within=(0.0, float(np.finfo(np.float64).max)))]
    """Σg² in the original coordinates, for ``diagonal``."""
    clock: Annotated[NDArray[np.int64], State("1", "i8", within=(0, LONGEST_COUNT))]
    """[rounds played]."""


def new_iterate(options: Options) -> Iterate:
    """Return the vectors for no features and no rounds."""
    made: Iterate = new(Iterate, features=0, averaged=0, dual=0, adapted=0, real=options.dtype)
    return made


def widened(iterate: Iterate, width: int, options: Options) -> Iterate:
    """Return the iterate with this many features; new entries are zero."""
    asked = {"averaged": options.average, "dual": options.update == "dual", "adapted": options.diagonal}
    axes = {axis: width for axis, is_used in asked.items() if is_used}
    wider: Iterate = resize(iterate, features=width, **axes)
    return wider


def largest_weight(options: Options) -> float:
    """Weights and sums of gradients beyond this are refused: what their type can hold, and add up."""
    return LARGEST if options.dtype == "float64" else 1e30


class Engine(ABC):
    """Holds a learner's metric, in one form or another, and plays rounds with it."""

    setup: Setup

    def widened(self, width: int) -> Self:
        """Return an engine with room for this many features, which shares no array that changes with this one."""
        wider = copy.copy(self)
        wider._widen(width)
        return wider

    @abstractmethod
    def _widen(self, width: int) -> None:
        """Replace everything that has the number of features by something wider."""

    @abstractmethod
    def learn(self, iterate: Iterate, X: Array, labels: Array, sample_weights: Array, out: Array) -> int:
        """Play the rounds of a dense block, in place; returns the number of rows learned."""

    @abstractmethod
    def leverage(self, X: Array) -> Array:
        """``x·A⁻¹x`` for each row, in adapted coordinates."""

    @abstractmethod
    def merge(self, mine: Iterate, other: Any, theirs: Iterate, base: Any, common: Iterate) -> Array:
        """Add another engine's metric less the base's; return the merged weights.

        The sums and the clock of ``mine`` are already merged, its weights are not.
        """

    @abstractmethod
    def spectrum(self, one: float = 1.0) -> Array:
        """Return the eigenvalues of the absorbed matrix, as if the constant feature, which is ``one``, were 1."""
