"""Gaussian random projection: sums of rows with random weights."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import LONGEST_COUNT, require
from onsketch.core.errors import InputError
from onsketch.sketches.base import SQUARED, BufferedSketch, whole_number
from onsketch.sketches.rows import Array

_BATCH = 32
"""Rows per matrix product."""


class RandomProjection(BufferedSketch):
    r"""Random projection: ``S ← S + r_t a_tᵀ`` with ``r_t`` of m Gaussian numbers of variance 1/m.

    ``E[SᵀS] = AᵀA``, and for any fixed x the ratio ``‖Sx‖²/‖Ax‖²`` is χ² with m degrees of freedom over m:
    of standard deviation √(2/m). This holds on average, not in the worst case. The sketch is accurate if the
    rank of A is small compared with m. The draw of row t depends on ``(seed, t)`` alone.

    Merging adds the matrices. Their draws must be independent, so sketches to be merged need different
    seeds; a sketch remembers all seeds that went into it.

    Cost per row: O(md).

    Haipeng Luo, Alekh Agarwal, Nicolò Cesa-Bianchi, John Langford: "Efficient Second Order Online Learning
    by Sketching", NIPS 2016, section 3.

    >>> import numpy as np
    >>> from onsketch.sketch import RandomProjection
    >>> rows = np.diag([3.0, 2.0, 1.0])
    >>> mean = sum(RandomProjection(3, 10, seed).update(rows).covariance() for seed in range(1000)) / 1000
    >>> mean.diagonal().round()
    array([9., 4., 1.])
    """

    _sum: Annotated[Array, state.Array("size n_features", within=SQUARED)]
    _rounds: Annotated[int, state.Array("", "i8", within=(0, LONGEST_COUNT))]
    """Rows in ``_sum`` drawn by this sketch, without merged ones: the key of the draws."""
    _seeds: Annotated[NDArray[np.int64], state.Array("seeds", "i8", within=(0, 2**63 - 1))]
    independent = True
    free = ("seeds",)

    def __init__(self, n_features: int, size: int, seed: int = 0) -> None:
        self.size = whole_number("size", size, at_least=0)
        self.seed = whole_number("seed", seed, at_least=0, below=2**63)
        super().__init__(n_features, _BATCH)
        self._sum = np.zeros((self.size, self.n_features))
        self._rounds = 0
        self._seeds = np.array([self.seed])

    @property
    def matrix(self) -> Array:
        """``S``, m×d."""
        return self._sum + self._projected()

    def check(self, prefix: str, **sizes: int) -> None:
        """Raise ModelFileError unless the sketch's own seed is among the seeds it has drawn from."""
        super().check(prefix, **sizes)
        require(self.seed in self._seeds, "it has drawn from other seeds", "seeds")

    def _projected(self) -> Array:
        """Return the projection of the rows that wait in the buffer."""
        from onsketch.core.draws import round_vector  # imports numba, which only random sketches need

        weights = np.empty((self._filled, self.size))
        for i in range(self._filled):
            weights[i] = round_vector(self.seed, self._rounds + i + 1, self.size)
        return weights.T @ self._buffer[: self._filled]

    def _empty_buffer(self) -> None:
        self._sum += self._projected()
        self._rounds += self._filled
        self._filled = 0

    def _merge(self, other: Self) -> None:
        shared = np.intersect1d(self._seeds, other._seeds)
        if shared.size:
            raise InputError(f"cannot merge: both drew from seed {shared[0]}, so they are not independent")
        self._sum += other.matrix
        self._seeds = np.union1d(self._seeds, other._seeds)

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "size": self.size}
