"""Ridge leverage scores of a stream of rows, and the sampling probabilities of KORS."""

from __future__ import annotations

import copy
import math
from typing import Annotated, NamedTuple, Self

import numpy as np

from onsketch.core import state
from onsketch.core.arrays import require
from onsketch.core.tolerances import CUTOFF, LARGEST
from onsketch.sketches.growing_factor import GrowingFactor
from onsketch.sketches.rows import Array

PRACTICAL_BUDGET = 1.0
"""Default of β: the theorem's value is so large that nearly every row of most streams is kept."""

INDEFINITE = 1e-8
"""Relative tolerance: a squared length below minus this part of k(x, x) shows that the kernel is not positive."""


_POSITIVE = (0.0, float(np.finfo(np.float64).max))


class Candidate(NamedTuple):
    """Row that may enter a dictionary."""

    solved: Array
    """Vector L⁻¹k̄, with LLᵀ = K̄ + αI over the dictionary."""
    residual: float
    """Squared length |φ̄|² outside of the dictionary's span: α·φ̄ᵀ(αI + Σ φ̄ᵢφ̄ᵢᵀ/p̃ᵢ)⁻¹φ̄."""
    scale: float
    score: float
    """Over-estimate τ̃ of the row's ridge leverage score."""
    probability: float


class NotPositiveError(ArithmeticError):
    """Squared length that is negative beyond rounding: no inner product has these values."""


def remainder(whole: float, solved: Array, least: float, trusted: bool = True) -> float:
    """Return ``k − |L⁻¹k̄|²``, the part of a squared length k outside of the span; ``least`` if it is rounding noise.

    A kernel that is not positive is detected here, unless it is ``trusted``: if it is known to be positive, a
    negative remainder is a rounding error of an ill-conditioned factor.
    """
    left = whole - float(solved @ solved)
    if not trusted and (left < -INDEFINITE * whole or whole < 0.0):
        raise NotPositiveError
    return max(left if left > CUTOFF * whole else 0.0, least)


class LeverageSampler:
    """Sampler of KORS, from kernel values alone; the caller keeps the rows.

    Over the rows kept, with φ̄ = scale·φ and weights 1/p̃, ``E = S K̄ S + αI`` has a growing Cholesky factor L. A new
    row has the residual ``r = k̄_tt − |L⁻¹ S k̄|²``; counting itself with weight 1 turns this into ``rα/(r + α)``, so

        τ̃ = (1 + ε)·r/(r + α),   p̃ = max(min(β τ̃, 1), floor).

    One triangular solve a row, O(n²) for n rows kept, and O(n) more for a row that enters.
    """

    factor: Annotated[GrowingFactor, state.Part()]
    energy: Annotated[float, state.Array("", within=_POSITIVE)]
    """Trace of S K̄ S."""
    scales: Annotated[Array, state.Array("kept", within=(-LARGEST, LARGEST))]
    """Scale/√p̃ of each row kept, and spare capacity."""
    p_min: Annotated[float, state.Array("", within=(0.0, 1.0))]
    """Smallest probability so far."""
    total: Annotated[float, state.Array("", within=_POSITIVE)]
    """Σ τ̃, which over-estimates the online effective dimension."""
    free = ("kept",)

    def __init__(
        self, ridge: float, accuracy: float, budget: float | None, floor: float = 0.0, trusted: bool = True
    ) -> None:
        self._trusted = trusted
        self._settings = (ridge, accuracy, PRACTICAL_BUDGET if budget is None else budget, floor)
        self.factor = GrowingFactor()
        self.energy, self.p_min, self.total = 0.0, 1.0, 0.0
        self.scales = np.zeros(0)

    @property
    def size(self) -> int:
        """Number of rows kept."""
        return self.factor.size

    def weigh(self, values: Array, own: float, scale: float = 1.0) -> Candidate:
        """Return the candidate with these kernel values with the rows kept, and with itself; changes nothing."""
        ridge, accuracy, budget, floor = self._settings
        solved = self.factor.solve(values * self.scales[: self.size] * scale)
        whole = own * scale * scale
        # The smallest possible remainder, exact for a row that recurs.
        residual = remainder(whole, solved, whole / (1.0 + self.energy / ridge), self._trusted)
        score = (1.0 + accuracy) * residual / (residual + ridge)
        return Candidate(solved, residual, scale, score, max(min(budget * score, 1.0), floor))

    def note(self, candidate: Candidate) -> None:
        """Count a round for the diagnostics, also if its row is not kept."""
        self.total += candidate.score
        self.p_min = min(self.p_min, candidate.probability)

    def admit(self, candidate: Candidate) -> None:
        """Keep the candidate, with weight 1/p̃."""
        ridge, p = self._settings[0], candidate.probability
        if self.size >= len(self.scales):
            state.grow(self, kept=self.size + 1)
        self.scales[self.size] = candidate.scale / math.sqrt(p)
        whole = candidate.residual + float(candidate.solved @ candidate.solved)
        # At least α, which E's diagonal gains: a recurring row cannot make the factor singular.
        pivot = self.factor.pivot(candidate.residual / p + ridge, whole / p + ridge)
        self.factor.append(candidate.solved / math.sqrt(p), pivot)
        self.energy += whole / p

    def fork(self) -> Self:
        """Return a sampler that continues from here. They share arrays, which only grow at their ends."""
        twin = copy.copy(self)
        twin.factor = copy.copy(self.factor)
        return twin

    def used(self) -> dict[str, int]:
        """Return the number of rows kept."""
        return {"kept": self.size}

    def check(self, prefix: str, kept: int) -> None:
        """Raise ModelFileError for a factor of another size."""
        require(self.size == kept, "a factor is not as large as its rows are many", f"{prefix}.scales")

    def effective_dimension(self) -> float:
        """Return the trace of K̃(K̃ + αI)⁻¹ of the weighted rows kept, which represent all rows; O(n³)."""
        return self.size - self._settings[0] * self.factor.inverse_trace()
