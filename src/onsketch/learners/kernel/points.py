"""The rows a kernel learner keeps, and the kernel between them and new ones.

Up to DENSE_UP_TO features rows are kept dense, even if they were given sparse, and compared by BLAS. Wider ones are
kept sparse, in slots of the features seen (see ``linear.features``), and compared along their non-zeros: memory and
time follow the non-zeros, not the index space. A user's own kernel function is given dense rows at any width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.kernels import OWN, PRODUCTS, Kernel
from onsketch.learners.features import FeatureMap
from onsketch.learners.kernel.comparing import compare, row_lengths
from onsketch.learners.rows import Rows
from onsketch.sketches.growing_factor import Array

DENSE_UP_TO = 512
"""Most features of rows that are kept dense; a value takes 8 bytes there, and 12 where it is kept sparse."""


class KeptRows(ABC):
    """Rows in the order in which they were appended."""

    owns: Annotated[Array, state.Array("rows")]
    """k(x, x) of each row, with spare entries."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.count = 0
        self.owns = np.zeros(0)

    def append(self, query: Any, i: int, own: float) -> None:
        """Keep row i of the query, whose k(x, x) is ``own``."""
        if self.count >= len(self.owns):
            state.grow(self, rows=self.count + 1)
        self.owns[self.count] = own
        self._append(query, i)
        self.count += 1

    def remove(self, place: int) -> None:
        """Drop a row; those after it move up."""
        self._remove(place)
        self.owns[place : self.count - 1] = self.owns[place + 1 : self.count]
        self.count -= 1

    @abstractmethod
    def query(self, rows: Rows, *, learn: bool) -> Any:
        """These rows in the form in which they are compared; to be appended later when learning."""

    @abstractmethod
    def row(self, query: Any, i: int) -> tuple[Array, float]:
        """k(x_i, ·) with every row kept, and k(x_i, x_i)."""

    @abstractmethod
    def values(self, query: Any) -> tuple[Array, Array]:
        """The same for all rows of the query: a matrix and a vector."""

    @property
    def features_known(self) -> int:
        """Number of features that have a slot."""
        return 0

    def forget(self, query: Any, i: int, known: int) -> None:
        """Undo from refused row i of the query on: keep only the first ``known`` features."""
        return

    @abstractmethod
    def _append(self, query: Any, i: int) -> None: ...

    @abstractmethod
    def _remove(self, place: int) -> None: ...

    @abstractmethod
    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """The rows as (indptr, features, values)."""

    @property
    def nbytes(self) -> int:
        """Memory of the rows kept, in bytes."""
        return state.nbytes(self)


class DenseRows(KeptRows):
    """Rows side by side, all features of each."""

    block: Annotated[Array, state.Array("rows width")]

    def __init__(self, kernel: Kernel, width: int) -> None:
        super().__init__(kernel)
        self.block = np.zeros((0, width))

    def query(self, rows: Rows, *, learn: bool) -> Array:
        """A dense block of the same width, zeros for the features that the rows do not have."""
        X, width = rows.toarray(), self.block.shape[1]
        return X if X.shape[1] == width else np.pad(X, ((0, 0), (0, width - X.shape[1])))

    def row(self, query: Array, i: int) -> tuple[Array, float]:
        """k(x_i, ·) with every row kept, and k(x_i, x_i)."""
        return self.kernel.of_row(query[i], self.block[: self.count]), float(self.kernel.diagonal(query[i : i + 1])[0])

    def values(self, query: Array) -> tuple[Array, Array]:
        """The kernel matrix by BLAS, and the diagonal."""
        return self.kernel.between(query, self.block[: self.count]), self.kernel.diagonal(query)

    def _append(self, query: Array, i: int) -> None:
        self.block[self.count] = query[i]

    def _remove(self, place: int) -> None:
        self.block[place : self.count - 1] = self.block[place + 1 : self.count]

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """The rows as (indptr, features, values)."""
        rows = self.block[: self.count]
        owner, features = np.nonzero(rows)
        indptr = np.searchsorted(owner, np.arange(self.count + 1))
        return indptr.astype(np.int64), features.astype(np.int64), rows[owner, features]


class SparseQuery(NamedTuple):
    """Rows in slots; ``lengths`` includes features without a slot."""

    indptr: NDArray[np.int64]
    slots: NDArray[np.int32]
    values: Array
    lengths: Array
    squares: Array


class SparseRows(KeptRows):
    """Rows as their non-zeros, in slots of the features seen."""

    indptr: Annotated[NDArray[np.int64], state.Array("ends", "i8")]
    slots: Annotated[NDArray[np.int32], state.Array("entries", "i4")]
    numbers: Annotated[Array, state.Array("entries")]
    work: Annotated[Array, state.Array("features", scratch=True)]

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.indptr = np.zeros(1, dtype=np.int64)
        self.slots = np.zeros(0, dtype=np.int32)
        self.numbers = np.zeros(0)
        self.map = FeatureMap()
        self.work = np.zeros(0)

    def query(self, rows: Rows, *, learn: bool) -> SparseQuery:
        """The rows in slots; features never seen get one when learning, and else only count in the lengths."""
        indptr, slots, values = self.map.translate(rows, learn=learn)
        squares, lengths = np.empty(rows.count), np.empty(rows.count)
        row_lengths(PRODUCTS, rows.indptr, rows.values, squares)
        row_lengths(self.kernel.form, rows.indptr, rows.values, lengths)
        return SparseQuery(indptr, slots, values, lengths, squares)

    @property
    def features_known(self) -> int:
        """Features that have a slot."""
        return self.map.count

    def forget(self, query: SparseQuery, i: int, known: int) -> None:
        """Remove the slots that only row i of the query and later rows needed."""
        self.map.keep_learned(known, query[:3], i)

    def row(self, query: SparseQuery, i: int) -> tuple[Array, float]:
        """k(x_i, ·) with every row kept, and k(x_i, x_i)."""
        if len(self.work) < self.map.count:
            state.grow(self, features=self.map.count)
        return self._compared(query, i, i + 1, self.work)[0], float(self.kernel.of_self(query.squares[i : i + 1])[0])

    def values(self, query: SparseQuery) -> tuple[Array, Array]:
        """The same for all rows of the query."""
        work = np.zeros(self.map.count)  # a new one, for concurrent threads
        return self._compared(query, 0, len(query.squares), work), self.kernel.of_self(query.squares)

    def _compared(self, query: SparseQuery, start: int, stop: int, work: Array) -> Array:
        out = np.empty((stop - start, self.count))
        kept = self.indptr, self.slots, self.numbers, self.count
        compare(self.kernel.form, start, stop, tuple(query[:4]), kept, work, out)
        return self.kernel.of(out)

    def _append(self, query: SparseQuery, i: int) -> None:
        part = slice(int(query.indptr[i]), int(query.indptr[i + 1]))
        slots, values = query.slots[part], query.values[part]
        start = int(self.indptr[self.count])
        stop = start + len(slots)
        if stop > len(self.slots) or self.count + 2 > len(self.indptr):
            state.grow(self, entries=stop, ends=self.count + 2)
        self.slots[start:stop] = slots
        self.numbers[start:stop] = values
        self.indptr[self.count + 1] = stop

    def _remove(self, place: int) -> None:
        start, stop, end = (int(self.indptr[row]) for row in (place, place + 1, self.count))
        for array in (self.slots, self.numbers):
            array[start : start + end - stop] = array[stop:end]
        self.indptr[place : self.count] = self.indptr[place + 1 : self.count + 1] - (stop - start)

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """The rows as (indptr, features, values)."""
        end = int(self.indptr[self.count])
        return self.indptr[: self.count + 1].copy(), self.map.features[self.slots[:end]], self.numbers[:end].copy()

    @property
    def nbytes(self) -> int:
        """Memory of the rows kept and of their features, in bytes."""
        return state.nbytes(self) + self.map.nbytes


def kept_rows(kernel: Kernel, width: int) -> KeptRows:
    """Return an empty store in the form that suits the width."""
    return DenseRows(kernel, width) if width <= DENSE_UP_TO or kernel.form == OWN else SparseRows(kernel)


def refilled(
    kept: KeptRows, indptr: NDArray[np.int64], features: NDArray[np.int64], values: Array, owns: Array
) -> None:
    """Append rows given as (indptr, features, values) to those kept, which must be wide enough."""
    width = kept.block.shape[1] if isinstance(kept, DenseRows) else int(features.max(initial=-1)) + 1
    query = kept.query(Rows(indptr, features, values, width, dense=False), learn=True)
    for i, own in enumerate(owns):
        kept.append(query, i, float(own))


def for_width(kept: KeptRows, width: int) -> KeptRows:
    """The same rows where rows of this width can be compared with them; what was given is not changed."""
    if isinstance(kept, SparseRows) or (isinstance(kept, DenseRows) and width <= kept.block.shape[1]):
        return kept
    wider = kept_rows(kept.kernel, width)
    refilled(wider, *kept.entries(), kept.owns[: kept.count])
    return wider
