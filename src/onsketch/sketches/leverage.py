"""Ridge leverage scores of rows as they come, and the coin that keeps few of them: the heart of KORS."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from onsketch.core import state
from onsketch.core.arrays import Arrays
from onsketch.core.tolerances import CUTOFF, LARGEST
from onsketch.sketches.growing_factor import GrowingFactor
from onsketch.sketches.rows import Array

PRACTICAL_BUDGET = 1.0
"""β where none is given: what the theorem asks for is so large that nearly every row of most streams is kept."""

INDEFINITE = 1e-8
"""A squared length below minus this part of k(x, x) is no rounding error: the kernel is not positive."""


_POSITIVE = (0.0, float(np.finfo(np.float64).max))


class Candidate(NamedTuple):
    """A row on its way into a dictionary."""

    solved: Array
    """L⁻¹k̄, with LLᵀ = K̄ + αI over the dictionary."""
    residual: float
    """|φ̄|² outside of what the dictionary explains: α·φ̄ᵀ(αI + Σ φ̄ᵢφ̄ᵢᵀ/p̃ᵢ)⁻¹φ̄."""
    scale: float
    score: float
    """τ̃, an over-estimate of the row's ridge leverage score."""
    probability: float


class NotPositiveError(ArithmeticError):
    """A squared length came out negative beyond rounding: no inner product has these values."""


def remainder(whole: float, solved: Array, least: float, trusted: bool = True) -> float:
    """``k − |L⁻¹k̄|²``, what the rows of a factor leave of a squared length k; ``least`` where it is rounding noise.

    A kernel that is not positive is found out here, unless it is ``trusted``: of one that is known to be positive a
    negative remainder is the rounding of an ill-conditioned factor.
    """
    left = whole - float(solved @ solved)
    if not trusted and (left < -INDEFINITE * whole or whole < 0.0):
        raise NotPositiveError
    return max(left if left > CUTOFF * whole else 0.0, least)


class LeverageSampler:
    """The coin of KORS, from kernel values alone; which rows are meant is for the caller to know.

    Over the rows kept, with φ̄ = scale·φ and weights 1/p̃, ``E = S K̄ S + αI`` has a growing Cholesky factor L. A new
    row has the residual ``r = k̄_tt − |L⁻¹ S k̄|²``; counting itself with weight 1 turns this into ``rα/(r + α)``, so

        τ̃ = (1 + ε)·r/(r + α),   p̃ = max(min(β τ̃, 1), floor).

    One triangular solve a row, O(n²) for n rows kept, and O(n) more for a row that enters.
    """

    energy: Annotated[float, state.Array("", within=_POSITIVE)]
    """The trace of S K̄ S."""
    scales: Annotated[Array, state.Array("kept", within=(-LARGEST, LARGEST))]
    """scale/√p̃ of each row kept, and room for more."""
    p_min: Annotated[float, state.Array("", within=(0.0, 1.0))]
    """The smallest probability so far."""
    total: Annotated[float, state.Array("", within=_POSITIVE)]
    """Σ τ̃, which over-estimates the online effective dimension."""

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
        """Rows kept."""
        return self.factor.size

    def weigh(self, values: Array, own: float, scale: float = 1.0) -> Candidate:
        """The candidate whose kernel values with the rows kept, and with itself, are these; changes nothing."""
        ridge, accuracy, budget, floor = self._settings
        solved = self.factor.solve(values * self.scales[: self.size] * scale)
        whole = own * scale * scale
        # The least that can be left of a row: right for one that comes again and again.
        residual = remainder(whole, solved, whole / (1.0 + self.energy / ridge), self._trusted)
        score = (1.0 + accuracy) * residual / (residual + ridge)
        return Candidate(solved, residual, scale, score, max(min(budget * score, 1.0), floor))

    def note(self, candidate: Candidate) -> None:
        """Count a round for the diagnostics, whether or not its row enters."""
        self.total += candidate.score
        self.p_min = min(self.p_min, candidate.probability)

    def admit(self, candidate: Candidate) -> None:
        """Keep the candidate, with weight 1/p̃."""
        ridge, p = self._settings[0], candidate.probability
        if self.size >= len(self.scales):
            state.grow(self, kept=self.size + 1)
        self.scales[self.size] = candidate.scale / math.sqrt(p)
        whole = candidate.residual + float(candidate.solved @ candidate.solved)
        # Never below α, what E's diagonal gains: a row that comes again cannot break the factor.
        pivot = self.factor.pivot(candidate.residual / p + ridge, whole / p + ridge)
        self.factor.append(candidate.solved / math.sqrt(p), pivot)
        self.energy += whole / p

    def mark(self) -> tuple[int, float, float, float, float]:
        """Where it stands, to ``go_back`` to: its arrays only grow at their ends."""
        return self.factor.size, self.factor.largest, self.energy, self.p_min, self.total

    def go_back(self, mark: tuple[int, float, float, float, float]) -> None:
        """Forget all that came after the mark."""
        self.factor.size, self.factor.largest, self.energy, self.p_min, self.total = mark

    def arrays(self, prefix: str) -> Arrays:
        """Return what a model file stores."""
        return state.pack(self, prefix, kept=self.size) | self.factor.arrays(f"{prefix}.factor")

    def restore(self, arrays: Arrays, prefix: str) -> None:
        """Fill a new sampler from a model file, or raise ModelFileError."""
        state.unpack(self, arrays, prefix, free=("kept",))
        self.factor.restore(arrays, f"{prefix}.factor", len(self.scales))

    def effective_dimension(self) -> float:
        """The trace of K̃(K̃ + αI)⁻¹ of the weighted rows kept, which stand for all rows; O(n³)."""
        return self.size - self._settings[0] * self.factor.inverse_trace()
