"""What the tuning-free learner keeps: a packed row per feature, and a few small arrays.

A packed row is that of ``learners/sketched/packed.py`` with its two heads serving the two Newton experts, and six more
numbers:

    [ head 0 | epoch | scale | head 1 | s_1 … s_k, buffer rows … | mean | count | w₂ | E₂ | w₃ | E₃ ]

All of it is in units of the feature's scale: the weight of expert 0 is ``(head + s·a₀)/scale``.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.jit.vectors import padded
from onsketch.learners.auto.mixing import EXPERTS
from onsketch.learners.sketched.packed import COLUMN

SCALE = COLUMN.diagonal
"""The packed column of a feature's scale."""
HEADS = (COLUMN.head, COLUMN.sum)
"""The packed columns of the Newton experts' heads."""

MEAN, COUNT, FIRST, EXTRA = 0, 1, 2, 6
"""Packed columns after the sketch's: mean magnitude; values seen; from FIRST on, weight and energy of each AdaGrad
expert. EXTRA of them in all."""

ROWS, CONSTANT = range(2)
"""Counts: rows of S; the slot of the constant feature (−1: none yet)."""

_FAR = float(np.finfo(np.float64).max)
"""LOW starts here and HIGH at its negative: no label has been met."""

ESCAPED, NORM, LENGTH, LABEL, LOW, HIGH, WEIGHT, FADE, THIN = range(9)
"""Numbers: Σρ shrunk away; the mean of |x|² in use, and as it runs; mean |y|; the range of labels; Σ sample weights;
what forgetting has left of the sketch's rows and ridge (as factors of A) and of AdaGrad's energies since they were
written."""


class Settings(NamedTuple):
    """What never changes while the learner learns."""

    loss: int
    size: int
    """m, at least 1."""
    capacity: int
    first_ridge: float
    second_ridge: float
    """Ridges, in units of the rows' mean squared length."""
    first_step: float
    second_step: float
    """Steps of AdaGrad, in units of labels over the rows' root mean squared length."""
    rate: float
    real: bool
    """Whether labels are numbers, not signs."""
    ranged: bool
    """Whether predictions are kept within the range of labels seen."""
    clip: float
    forget: float
    largest: float
    """Bound on what is written per feature …"""
    steepest: float
    """… and on gradients, whose squares are summed up."""


class Small(NamedTuple):
    """The small arrays."""

    counts: NDArray[np.int64]
    numbers: NDArray[np.float64]
    sums: NDArray[np.float64]
    """Σ loss of each expert."""
    shares: NDArray[np.float64]
    a: NDArray[np.float64]
    """(2, capacity): coefficients of the Newton experts on the sketch's rows."""
    gram: NDArray[np.float64]
    inverses: NDArray[np.float64]
    """(2, capacity, capacity): (ridge_k·I + SSᵀ)^{-1}."""
    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    transform: NDArray[np.float64]
    """The change of basis of a shrink, as the packed table logs it."""
    work: NDArray[np.float64]
    """Scratch: not part of the state."""

    @property
    def scratch(self) -> tuple[str, ...]:
        """Fields that hold nothing between rounds."""
        return ("work",)

    @classmethod
    def empty(cls, capacity: int, kept: int) -> Self:
        """The state before the first row."""
        return cls(
            counts=np.array([0, -1]),
            numbers=np.array([0.0, 0.0, 0.0, 0.0, _FAR, -_FAR, 0.0, 1.0, 1.0]),
            sums=np.zeros(EXPERTS),
            shares=np.full(EXPERTS, 1.0 / EXPERTS),
            a=np.zeros((2, capacity)),
            gram=np.zeros((capacity, capacity)),
            inverses=np.zeros((2, capacity, capacity)),
            values=np.zeros(capacity),
            vectors=np.zeros((padded(capacity), padded(capacity))),
            transform=np.zeros((capacity, padded(kept + 2))),
            work=np.zeros((2, padded(capacity))),
        )
