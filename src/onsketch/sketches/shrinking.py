"""The frequent-directions mechanism: a buffer of rows and a rule that shrinks its spectrum.

Rows go into a buffer. When it is full, its Gram matrix gives the eigenvalues ``λ₁ ≥ λ₂ ≥ …`` of ``BᵀB``,
a *rule* shrinks the largest ``m − 1``, the others are dropped, and the buffer is rotated
to ``m − 1`` orthogonal rows with those eigenvalues. The variants differ in

- the rule: a pure function of the spectrum (``onsketch.core.shrinking``);
- the capacity: ``m`` rows (a shrink at every row) or ``2m`` (a shrink every ``m + 1`` rows, the doubled
  or "fast" variant);
- the use of ``Σρ``, the sum of the eigenvalues ``ρ = λ_m`` found at the shrinks, in the output: none,
  a multiple of the identity (robust), or an addition to the kept eigenvalues (compensative).

Under every rule no direction loses more than ρ at a shrink, so that ``0 ⪯ AᵀA − BᵀB ⪯ Σρ·I``: the
sketch has a bound of its error, `ShrinkingSketch.escaped`.
"""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np

from onsketch.core import shrinking, state
from onsketch.core.arrays import require
from onsketch.core.tolerances import LARGEST
from onsketch.sketches.base import BufferedSketch, whole_number
from onsketch.sketches.rows import Array
from onsketch.sketches.spectral import change_of_basis, row_spectrum, without_noise


class ShrinkingSketch(BufferedSketch):
    """Buffer of m (or, doubled, 2m) rows that a rule shrinks to m − 1 rows when it is full.

    The first ``_kept`` rows of the buffer result from a shrink and are orthogonal. Those up to
    ``_filled`` are unchanged rows of the stream.
    """

    _kept: Annotated[int, state.Array("", "i8")]
    _escaped: Annotated[float, state.Array("", within=(0.0, LARGEST * LARGEST))]

    def __init__(self, n_features: int, size: int, rule: int, doubling: bool, fraction: float = 1.0) -> None:
        self.size = whole_number("size", size, at_least=0)
        self.doubling = bool(doubling)
        super().__init__(n_features, 2 * self.size if self.doubling else self.size)
        self._rule, self._fraction = rule, fraction
        self._kept = 0
        self._escaped = 0.0

    @property
    def escaped(self) -> float:
        """``Σρ``: an upper bound of the energy that any direction has lost to the shrinks."""
        return self._escaped

    @property
    def matrix(self) -> Array:
        """``B``: m rows, the m-th of them zero; if doubled, the current rows, fewer than 2m."""
        held = self._shown()
        if self.doubling:
            return held
        padded = np.zeros((self.size, self.n_features))
        padded[: len(held)] = held
        return padded

    def _shown(self) -> Array:
        """Return a copy of the current rows, as the output shows them."""
        return self._buffer[: self._filled].copy()

    def check(self, prefix: str, **sizes: int) -> None:
        """Raise ModelFileError unless the rows kept are among the current rows."""
        super().check(prefix, **sizes)
        require(0 <= self._kept <= self._filled, "it kept more rows than it has", "kept")

    def _empty_buffer(self) -> None:
        self._shrink(self._buffer)

    def _shrunk(self, values: Array) -> Array:
        """Return what a shrink leaves of the m − 1 largest eigenvalues."""
        return shrinking.shrunk(values, self.size, self._rule, self._fraction).energy

    def _shrink(self, rows: Array) -> None:
        """Replace the rows, m at least, by m − 1 orthogonal ones with the shrunk spectrum."""
        values, vectors = row_spectrum(rows)
        # Cut off again: the difference of two equal eigenvalues is rounding error, without a direction.
        energy = without_noise(self._shrunk(values), largest=float(values[0]))
        self._buffer[: energy.size] = change_of_basis(values, vectors, energy).T @ rows
        self._kept = self._filled = energy.size
        self._escaped += float(values[self.size - 1])

    def _merge(self, other: Self) -> None:
        # Kept rows first. Those of two sketches are not orthogonal to each other, and need a shrink.
        stacked = np.vstack(
            [
                self._buffer[: self._kept],
                other._buffer[: other._kept],
                self._buffer[self._kept : self._filled],
                other._buffer[other._kept : other._filled],
            ]
        )
        self._escaped += other._escaped
        if len(stacked) < len(self._buffer) and (self._kept == 0 or other._kept == 0):
            self._buffer[: len(stacked)] = stacked
            self._kept, self._filled = self._kept + other._kept, len(stacked)
        elif len(stacked) > 0:
            self._shrink(stacked)

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "size": self.size, "doubling": self.doubling}
