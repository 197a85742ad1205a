"""Rows in compressed sparse form, without SciPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]


class Sparse(NamedTuple):
    """The arrays of a CSR matrix, which is all that learners need; importing SciPy takes a tenth of a second."""

    data: Floats
    indices: NDArray[Any]
    indptr: NDArray[Any]
    shape: tuple[int, int]
    ndim: int = 2

    def tocsr(self) -> Self:
        """As it is."""
        return self

    def matrix(self) -> csr_array:
        """The same numbers as SciPy's."""
        from scipy.sparse import csr_array

        return csr_array(self[:3], shape=self.shape)


def csr(indptr: NDArray[Any], indices: NDArray[np.int64], values: Floats, width: int) -> Sparse:
    """Copies of these parts, with 32-bit indices where they fit."""
    narrow = width <= np.iinfo(np.int32).max and indices.size <= np.iinfo(np.int32).max
    kind = np.int32 if narrow else np.int64
    return Sparse(values.copy(), indices.astype(kind), indptr.astype(kind), (indptr.size - 1, width))
