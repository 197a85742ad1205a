"""Oja's algorithm: directions that follow the leading eigenvectors of the rows."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

import numpy as np

from onsketch.core import state
from onsketch.core.arrays import LONGEST_COUNT, require, require_lengths, require_within
from onsketch.core.errors import OptionError
from onsketch.core.tolerances import LARGEST
from onsketch.sketches.base import SQUARED, Sketch, whole_number
from onsketch.sketches.rows import Array, dense_chunks
from onsketch.sketches.spectral import change_of_basis, orthonormalise, row_spectrum

LONGEST_STEP = 1e4
"""Cap on ``γ|a|²``, the factor by which one step stretches a direction.

Only rows without normalisation reach it. Below it a step leaves at least 1e-8 of a direction's squared length
independent of the others, well above the cutoff at which a direction counts as lost.
"""


class Oja(Sketch):
    r"""Oja's sketch: ``B = diag(√λ) V`` with m orthonormal directions V that follow the rows.

    Row t, with ``γ_t = min(1/t, 1e4/|a_t|²)``, or a constant ``step`` in place of 1/t:

        ``λ ← λ + (V a_t)²``, entry by entry, and ``V ← GramSchmidt(V + γ_t V a_t a_tᵀ)``, in row order.

    With ``block = b`` V is updated only every b rows, by the sum of their steps (each capped at 1e4/b), which
    makes the Gram-Schmidt b times cheaper; ``b = m`` is the paper's suggestion.

    V starts from Gaussian columns, one for each feature, which depend on ``(seed, feature)`` alone,
    orthonormalised over the features seen. A feature is seen at its first non-zero value. Until
    then its column takes part in all row operations but in no inner product, as if it had been there
    from the start. So a late feature does not disturb directions already learned. While fewer than
    m features were seen, the excess directions are zero rows.

    No worst-case guarantee is known. On independent rows V converges to the leading eigenvectors, at a rate
    that depends on the scale of the rows: steps of 1/t are not scale-free.

    Merging stacks the rows ``√λ V`` of both and keeps the m leading directions of the stack; a direction
    without energy restarts. Rows of an unfinished block of ``other`` add their energy, but do not change V.

    Cost per row: O(m²d), or O(m²d/b + md) with blocks.

    Erkki Oja: "Simplified neuron model as a principal component analyzer", J. Math. Biology 15, 1982.
    Haipeng Luo, Alekh Agarwal, Nicolò Cesa-Bianchi, John Langford: "Efficient Second Order Online Learning
    by Sketching", NIPS 2016, algorithm 3.

    >>> import numpy as np
    >>> from onsketch.sketch import Oja
    >>> rows = np.random.default_rng(0).normal(size=(2000, 4)) * [3.0, 2.0, 0.1, 0.1]
    >>> (Oja(4, 2).update(rows).spectrum / 2000).round(1)
    array([9. , 3.9])
    >>> (rows**2).mean(axis=0)[:2].round(1)
    array([9.1, 3.8])
    """

    _directions: Annotated[Array, state.Array("size n_features")]
    """V, zero where a feature is unseen."""
    _operations: Annotated[Array, state.Array("size size")]
    """Accumulated row operations: the column of an unseen feature with start z is ``_operations @ z``."""
    _energy: Annotated[Array, state.Array("size", within=(0.0, LARGEST * LARGEST))]
    """λ."""
    _seen: Annotated[Any, state.Array("n_features", "?")]
    _rounds: Annotated[int, state.Array("", "i8", within=(0, LONGEST_COUNT))]
    _waiting: Annotated[Array, state.Array("block n_features", within=SQUARED)]
    """Rows not yet used to update V."""
    _steps: Annotated[Array, state.Array("block")]
    _filled: Annotated[int, state.Array("", "i8")]

    def __init__(self, n_features: int, size: int, seed: int = 0, block: int = 1, step: float | None = None) -> None:
        super().__init__(n_features)
        self.size = whole_number("size", size, at_least=0)
        self.seed = whole_number("seed", seed, at_least=0, below=2**63)
        self.block = whole_number("block", block, at_least=1)
        if step is not None and not 0.0 < step < math.inf:
            raise OptionError(f"step={step!r}: expected a number above 0, or None for 1/t.")
        self.step = 0.0 if step is None else float(step)
        self._directions = np.zeros((self.size, self.n_features))
        self._operations = np.eye(self.size)
        self._energy = np.zeros(self.size)
        self._seen = np.zeros(self.n_features, dtype=bool)
        self._rounds = 0
        self._waiting = np.zeros((self.block, self.n_features))
        self._steps = np.zeros(self.block)
        self._filled = 0

    @property
    def matrix(self) -> Array:
        """``diag(√λ) V``, m×d."""
        return np.sqrt(self._energy)[:, np.newaxis] * self._directions

    @property
    def spectrum(self) -> Array:
        """λ, descending."""
        return np.sort(self._energy)[::-1][: self.n_features]

    def check(self, prefix: str, **sizes: int) -> None:
        """Raise ModelFileError unless the block has space for a row and the directions can be orthonormal."""
        require(0 <= self._filled < self.block, "more rows wait than there is room for", "filled")
        require_within(self._steps, 0.0, max(1.0, self.step), "steps")
        require_lengths(self._directions, 2.0, "directions")  # they are orthonormal
        require_lengths(self._operations, LARGEST, "operations")
        require_lengths(self._waiting, LARGEST, "waiting")

    def _absorb(self, block: Any) -> None:
        for chunk in dense_chunks(block):
            for row in chunk:
                self._absorb_row(row)

    def _absorb_row(self, row: Array) -> None:
        self.meet(row != 0.0)
        self._waiting[self._filled] = row
        row = self._waiting[self._filled]
        self._energy += (self._directions @ row) ** 2
        self._rounds += 1
        self._steps[self._filled] = self._step(float(row @ row))
        self._filled += 1
        if self._filled == self.block:
            self._turn()

    def _step(self, squared_length: float) -> float:
        longest = LONGEST_STEP / self.block
        step = self.step or 1.0 / self._rounds
        return step if step * squared_length <= longest else longest / squared_length

    def meet(self, present: Any) -> bool:
        """Initialise the columns of features that are present for the first time."""
        new = np.flatnonzero(present & ~self._seen)
        if new.size and self.size:
            self._directions[:, new] = self._operations @ self._start(new)
            orthonormalise(self._directions, self._operations)
        self._seen[new] = True
        return True

    def _start(self, features: Any) -> Array:
        from onsketch.core.draws import feature_columns  # imports numba, which only random sketches need

        return feature_columns(self.seed, features, self.size)

    def _turn(self) -> None:
        """Update V with the waiting rows, which fill the block."""
        self._directions += (self._directions @ self._waiting.T * self._steps) @ self._waiting
        orthonormalise(self._directions, self._operations)
        self._filled = 0

    def _merge(self, other: Self) -> None:
        # The row operations travel with the directions as extra columns.
        stacked = np.vstack(
            [
                np.sqrt(part._energy)[:, np.newaxis] * np.hstack([part._directions, part._operations])
                for part in (self, other)
            ]
        )
        values, vectors = row_spectrum(stacked[:, : self.n_features])
        energy = values[: self.size]
        alive = energy > 0.0
        carried = change_of_basis(values, vectors, alive.astype(np.float64)).T @ stacked
        self._seen |= other._seen
        self._energy = energy
        self._directions = carried[:, : self.n_features].copy()
        self._operations = carried[:, self.n_features :].copy()
        self._rounds += other._rounds
        self._restart(~alive)

    def _restart(self, rows: Any) -> None:
        """Restart these directions from Gaussian columns, over the features seen."""
        self._operations[rows] = np.eye(self.size)[rows]
        seen = np.flatnonzero(self._seen)
        if seen.size and rows.any():
            self._directions[np.ix_(rows, seen)] = self._start(seen)[rows]
        orthonormalise(self._directions, self._operations)

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "size": self.size, "block": self.block, "step": self.step or None}
