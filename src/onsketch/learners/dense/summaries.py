"""Summaries of rows in dense learners: orthonormal directions and the energy of each.

=============  ====================================================  ======================  ================
summary        what it is                                            cost of a round         memory
=============  ====================================================  ======================  ================
Exact          ``Σ ggᵀ`` and its eigenvectors                        O(d³)                   O(d²)
SketchedRows   any sketch of onsketch.sketches, by its Gram matrix     O(m²d)                  O(md)
RankCounting   Ada-FFD's frequent directions, which count rank       O(m²d)                  O(md)
LowRank        Ada-LR: ``Σ ggᵀ`` seen through a random range         O(τd²)                  O(d²)
Rada           RadaGrad: the random range alone, by incremental QR   O(τ²d + d log d)        O(τd)
=============  ====================================================  ======================  ================

The last two are in onsketch.learners.dense.fourier. Everything is float64. An energy is never zero: directions below
the cutoff are left out.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import require
from onsketch.core.errors import OptionError
from onsketch.core.shrinking import shrunk
from onsketch.core.tolerances import CUTOFF, LARGEST
from onsketch.learners.options import Options
from onsketch.learners.sketch_table import sketch_of
from onsketch.sketches.base import Sketch
from onsketch.sketches.spectral import positive_spectrum, spectrum

Array = NDArray[np.float64]
SQUARED = (-LARGEST * LARGEST, LARGEST * LARGEST)


class Summary(ABC):
    """A summary of the rows absorbed so far."""

    free: tuple[str, ...] = ()
    """Axes whose size the options do not give: a model file does."""
    outside: float | None = None
    """The metric outside of the directions, where the method fixes it; None: the geometry's at energy 0."""
    escaped = 0.0
    """Σρ, the energy that shrinks have taken off."""

    def __init__(self, width: int, options: Options) -> None:
        self._ridge = options.ridge or 0.0

    @property
    def ridge(self) -> float:
        """The multiple of the identity added to the directions."""
        return self._ridge

    def see(self, x: Array) -> bool:
        """Meet the features of a row, before the round's prediction; returns whether anything changed."""
        return False

    @abstractmethod
    def absorb(self, row: Array) -> None:
        """Take in the row of a round, before its step."""

    def settle(self) -> bool:
        """Do the work left after the step; return True if the directions or energies changed."""
        return False

    @abstractmethod
    def spectrum(self) -> tuple[Array, Array]:
        """Orthonormal directions, (k, d), and their energies, (k,), above the cutoff."""

    def widen(self, width: int) -> None:
        """Make room for this many features, in new arrays; the new features have no energy."""
        state.resize(self, features=width)

    @abstractmethod
    def merge(self, other: Self, base: Self) -> None:
        """Take in what ``other`` summarises and ``base``, from which both started, does not."""


class Exact(Summary):
    """``Σ ggᵀ`` itself (Ada-full; Duchi, Hazan and Singer 2011). O(d³) a round. Merging adds the matrices."""

    matrix: Annotated[Array, state.Array("features features", within=SQUARED)]

    def __init__(self, width: int, options: Options) -> None:
        super().__init__(width, options)
        self.matrix = np.zeros((width, width))

    def absorb(self, row: Array) -> None:
        """One more ggᵀ."""
        self.matrix += np.outer(row, row)

    def spectrum(self) -> tuple[Array, Array]:
        """By LAPACK."""
        values, vectors = positive_spectrum(self.matrix)
        return vectors.T, values

    def merge(self, other: Self, base: Self) -> None:
        """Matrices add."""
        self.matrix += other.matrix - base.matrix


class SketchedRows(Summary):
    """Any sketch B of the rows, by its small Gram matrix: ``BBᵀ = U diag(λ)Uᵀ``, ``V = diag(1/√λ)UᵀB``.

    O(k²d) a round for k rows. Merging is the sketch's own; rows once shrunk cannot be taken off again, so
    that learners that started from a common base do not merge.
    """

    sketch: Annotated[Sketch, state.Part()]

    def __init__(self, name: str, width: int, options: Options) -> None:
        super().__init__(width, options)
        self.name = name
        make = sketch_of(name).make
        assert make is not None
        self.sketch = make(width, options, self._ridge)

    @property
    def ridge(self) -> float:
        """The learner's own, or RFD's, which grows."""
        return self.sketch.ridge if sketch_of(self.name).robust else self._ridge

    @property
    def escaped(self) -> float:  # type: ignore[override]
        """Σρ, of the sketches that subtract it."""
        return 0.0 if sketch_of(self.name).error_share is None else float(getattr(self.sketch, "escaped", 0.0))

    def see(self, x: Array) -> bool:
        """A sketch may have something to draw for every new feature."""
        return self.sketch.meet(x != 0.0)

    def absorb(self, row: Array) -> None:
        """One more row for the sketch."""
        self.sketch.update(row)

    def spectrum(self) -> tuple[Array, Array]:
        """V and λ, from the Gram matrix."""
        rows = self.sketch.matrix
        values, vectors = positive_spectrum(rows @ rows.T)
        directions = (vectors / np.sqrt(values)).T @ rows
        # The Gram matrix squares the spread of the rows: weak directions need a second orthonormalisation.
        triangle = np.linalg.cholesky(directions @ directions.T)
        return np.linalg.inv(triangle) @ directions, values

    def widen(self, width: int) -> None:
        """Zeros for the new features, in every row of a copy of the sketch."""
        self.sketch = copy.deepcopy(self.sketch)
        self.sketch.widen(width)

    def merge(self, other: Self, base: Self) -> None:
        """As the sketch does."""
        if base.sketch.n_rows > 0:
            raise OptionError(
                f"merge: a sketch ({self.name}) cannot give back the rows of a base. "
                "Let each learner start from nothing, and merge without one."
            )
        self.sketch.merge(other.sketch)


class RankCounting(Summary):
    """Ada-FFD's sketch (Wan and Zhang 2021, algorithms 3 and 4).

    A basis V grows by the normalised residual of each row that leaves it, and ``M += (Vg)(Vg)ᵀ``, so that
    ``VᵀMV = Σ ggᵀ`` exactly. Once V has 2m rows, *after* the step, the m-th eigenvalue of M is taken off
    and the m − 1 leading directions stay. A dependent row takes no space: with 2m > d it is Ada-full.

    O(m²d) a round. Merging absorbs the other's directions, each as a row as long as the root of its energy.
    """

    basis: Annotated[Array, state.Array("directions features", within=SQUARED)]
    small: Annotated[Array, state.Array("directions directions", within=SQUARED)]
    escaped: Annotated[float, state.Array("", within=(0.0, LARGEST * LARGEST))]
    free = ("directions",)

    def __init__(self, width: int, options: Options) -> None:
        super().__init__(width, options)
        self.size = options.sketch_size
        self.basis = np.zeros((0, width))
        self.small = np.zeros((0, 0))
        self.escaped = 0.0

    def absorb(self, row: Array) -> None:
        """Grow the basis if the row leaves it, and M in any case."""
        if self.size == 0:
            return
        residual = row.copy()
        for _ in range(2):  # a single pass would leave rounding errors of a nearly dependent row
            residual -= (self.basis @ residual) @ self.basis
        left = float(residual @ residual)
        if left > CUTOFF * float(row @ row):
            state.resize(self, directions=len(self.basis) + 1)
            self.basis[-1] = residual / np.sqrt(left)
        inside = self.basis @ row
        self.small += np.outer(inside, inside)

    def settle(self) -> bool:
        """Shrink, once the basis is full."""
        if self.size == 0 or len(self.basis) < 2 * self.size:
            return False
        values, vectors = spectrum(self.small)
        energy, _, rho = shrunk(values, self.size)
        self.escaped += rho
        self.basis = vectors[:, : energy.size].T @ self.basis
        self.small = np.diag(energy)
        return True

    def widen(self, width: int) -> None:
        """Zeros for the new features, in new arrays."""
        state.resize(self, features=width, directions=len(self.basis))

    def check(self, prefix: str, directions: int) -> None:
        """Raise ModelFileError for more directions than fit."""
        require(directions < max(2 * self.size, 1), "more directions than there is room for", f"{prefix}.basis")

    def spectrum(self) -> tuple[Array, Array]:
        """V turned by the eigenvectors of M."""
        values, vectors = positive_spectrum(self.small)
        return vectors.T @ self.basis, values

    def merge(self, other: Self, base: Self) -> None:
        """Absorb the other's directions as rows, then shrink."""
        if len(base.basis):
            raise OptionError(
                "merge: a sketch (ffd) cannot give back the rows of a base. "
                "Let each learner start from nothing, and merge without one."
            )
        for direction, energy in zip(*other.spectrum(), strict=True):
            self.absorb(np.sqrt(energy) * direction)
        self.escaped += other.escaped
        self.settle()
