"""Exact summaries: the whole covariance, and its diagonal."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np

from onsketch.core import state
from onsketch.core.matrices import is_sparse
from onsketch.core.tolerances import LARGEST
from onsketch.sketches.base import SQUARED, BufferedSketch, Sketch
from onsketch.sketches.rows import Array
from onsketch.sketches.spectral import eigenvalues, symmetric_root

_BATCH = 32
"""Rows per matrix product."""


class Exact(BufferedSketch):
    """Exact ``AᵀA``, which the sketches approximate, for small d.

    Merging adds the matrices. Cost per row: O(d²), and d² numbers of memory.

    >>> import numpy as np
    >>> from onsketch.sketch import Exact
    >>> sketch = Exact(2).update([[1.0, 2.0], [3.0, 4.0]])
    >>> sketch.covariance()
    array([[10., 14.],
           [14., 20.]])
    >>> bool(np.allclose(sketch.matrix @ sketch.matrix, sketch.covariance()))
    True
    """

    _sum: Annotated[Array, state.Array("n_features n_features", within=SQUARED)]
    widens = False

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features, _BATCH)
        self._sum = np.zeros((self.n_features, self.n_features))

    @property
    def matrix(self) -> Array:
        """Symmetric square root of ``AᵀA``."""
        return symmetric_root(self.covariance())

    @property
    def spectrum(self) -> Array:
        """The d eigenvalues of ``AᵀA``, descending."""
        return eigenvalues(self.covariance())

    @classmethod
    def room(cls, n_features: int, size: int = 0, block: int = 1) -> int:
        """Return d²."""
        return n_features * (n_features + _BATCH)

    def covariance(self) -> Array:
        """Return ``AᵀA``."""
        waiting = self._buffer[: self._filled]
        return self._sum + waiting.T @ waiting

    def _empty_buffer(self) -> None:
        self._sum += self._buffer.T @ self._buffer
        self._filled = 0

    def _merge(self, other: Self) -> None:
        self._sum += other.covariance()


class Diagonal(Sketch):
    """Diagonal of ``AᵀA``: the summary of first-order methods such as diagonal AdaGrad.

    Merging adds the diagonals. Cost per row: its non-zeros if rows are sparse, else O(d); d numbers of
    memory. `matrix` and `covariance` are d×d; `energy` is not.

    >>> from onsketch.sketch import Diagonal
    >>> Diagonal(2).update([[1.0, 2.0], [3.0, 4.0]]).energy
    array([10., 20.])
    """

    _energy: Annotated[Array, state.Array("n_features", within=(0.0, LARGEST * LARGEST))]
    widens = False

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self._energy = np.zeros(self.n_features)

    @property
    def energy(self) -> Array:
        """Sum of squares of each feature."""
        return self._energy.copy()

    @property
    def matrix(self) -> Array:
        """Diagonal matrix of the roots of `energy`."""
        return np.diag(np.sqrt(self._energy))

    @property
    def spectrum(self) -> Array:
        """`energy`, descending."""
        return np.sort(self._energy)[::-1]

    def _absorb(self, block: Any) -> None:
        # One addition after the other: the sum does not depend on the division of the stream into blocks.
        if is_sparse(block):
            np.add.at(self._energy, block.indices, block.data * block.data)
        else:
            for row in block:
                self._energy += row * row

    def _merge(self, other: Self) -> None:
        self._energy += other._energy
