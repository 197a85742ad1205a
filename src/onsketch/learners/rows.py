"""Checking and shaping what users pass in: rows that reach a learner are finite and of the right width."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import LONGEST_COUNT
from onsketch.core.errors import InputError
from onsketch.core.losses import Loss
from onsketch.core.matrices import as_csr, check_csr, is_sparse, refuse_unfit
from onsketch.core.tolerances import LARGEST
from onsketch.jit.decorators import inlined, kernel

Slotted = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]
"""Rows as (indptr, slots, values), slots being the places that a learner keeps its features in."""


GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: the multiplier of multiplicative hashing (Knuth 1973)."""

_STRETCH = 4096
"""Number of entries that four bytes can count, which is twice as fast as eight."""


class Rows(NamedTuple):
    """Rows in compressed sparse form. In a dense block rows have every column, and ``indices`` is empty."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32] | NDArray[np.int64]
    values: NDArray[np.float64]
    n_features: int
    dense: bool
    zeros: bool = True
    """True if some of the values may be 0."""
    slotted: Slotted | None = None
    """Result of ``FeatureMap.translate``, if learners with the same features share it."""

    @property
    def count(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return self.indptr.size - 1

    def part(self, start: int, stop: int) -> Rows:
        """The rows start..stop, without copying."""
        slotted = None
        if self.slotted is not None:
            indptr, slots, values = self.slotted
            low, high = indptr[start], indptr[stop]
            slotted = indptr[start : stop + 1] - low, slots[low:high], values[low:high]
        return self._replace(indptr=self.indptr[start : stop + 1], slotted=slotted)

    def copy(self) -> Rows:
        """Return the same rows in new, contiguous memory."""
        first, last = self.indptr[0], self.indptr[-1]
        indices = self.indices if self.dense else self.indices[first:last].copy()
        values = self.values[first:last].copy()
        return Rows(self.indptr - first, indices, values, self.n_features, self.dense, self.zeros)

    def entries(self) -> tuple[list[int], list[float]]:
        """The features and the values of a block of one row."""
        first, last = self.indptr.tolist()
        features = list(range(self.n_features)) if self.dense else self.indices[first:last].tolist()
        return features, self.values[first:last].tolist()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of a ``copy``."""
        entry = self.values.itemsize + (0 if self.dense else self.indices.itemsize)
        return self.indptr.nbytes + int(self.indptr[-1] - self.indptr[0]) * entry

    def toarray(self) -> NDArray[np.float64]:
        """The rows as a dense block."""
        first, last = self.indptr[0], self.indptr[-1]
        if self.dense:
            return self.values[first:last].reshape(self.count, self.n_features)
        block = np.zeros((self.count, self.n_features))
        owner = np.repeat(np.arange(self.count), np.diff(self.indptr))
        block[owner, self.indices[first:last]] = self.values[first:last]
        return block


@kernel
def _survey(values, count, limit):
    """Return two flags: a value is NaN or beyond the limit; there are zeros."""
    beyond = zeros = 0
    for i in range(count):
        beyond += not abs(values[i]) <= limit
        zeros += values[i] == 0.0
    return beyond > 0, zeros > 0


@kernel
def _plainly_sound(indptr, indices, entries, width):
    """Entries of the longest row, if the ends of the rows are in order and all indices ascend below the width; else −1.

    Indices fall from row to row as often as in all, then, which is quick to count.
    """
    last, longest, across, falls = indptr[indptr.size - 1], 0, 0, 0
    if indptr[0] != 0 or last > entries:
        return -1
    for row in range(indptr.size - 1):
        low, high = indptr[row], indptr[row + 1]
        if not low <= high <= last:
            return -1
        if low < high:
            if indices[low] < 0 or indices[high - 1] >= width:
                return -1
            across += high < last and indices[high] <= indices[high - 1]
            longest = max(longest, high - low)
    for start in range(0, last - 1, _STRETCH):
        part = indices[start : min(start + _STRETCH + 1, last)]
        few = np.int32(0)
        for i in range(part.size - 1):
            few = np.int32(few + np.int32(part[i + 1] <= part[i]))
        falls += int(few)
    return longest if falls == across else -1


@kernel
def too_long(indptr, values, largest):
    """The first row that is not finite or longer than ``largest``, −1 for none."""
    for row in range(indptr.size - 1):
        total = 0.0
        for i in range(indptr[row], indptr[row + 1]):
            total += values[i] * values[i]
        if not total <= largest * largest:
            return row
    return -1


@inlined
def _place_of(feature, features, places, base):
    """Return where a hash table of 2^k entry numbers, counted from ``base``, has a feature or would file it.

    Smaller numbers are of earlier rows.
    """
    mask = np.uint64(places.size - 1)
    place = (np.uint64(feature) * GOLDEN) >> np.uint64(32) & mask
    while places[place] >= base and features[np.uint64(places[place] - base)] != feature:
        place = (place + np.uint64(1)) & mask
    return place


@kernel
def _first_repeating(indptr, indices, places):
    """Return the first row that lists a feature twice, −1 for none."""
    for row in range(indptr.size - 1):
        part = indices[indptr[row] : indptr[row + 1]]
        for i in range(part.size):
            place = _place_of(part[i], part, places, indptr[row])
            if places[place] >= indptr[row]:
                return row
            places[place] = indptr[row] + i
    return -1


@inlined
def _join_repeats(features, values, count, places, base):
    """Sum the values of a feature that comes twice, where it first stands; return the number of entries that remain."""
    end = 0
    for i in range(count):
        place = _place_of(features[i], features, places, base)
        if places[place] >= base:
            values[places[place] - base] += values[i]
        else:
            places[place] = base + end
            features[end], values[end] = features[i], values[i]
            end += 1
    return end


@kernel
def _sum_repeats(indptr, indices, values, places, out_ptr):
    """Move the rows together in place, with each feature once, at its first position, with the sum of its values."""
    for row in range(indptr.size - 1):
        low, end, count = indptr[row], out_ptr[row], indptr[row + 1] - indptr[row]
        for i in range(count):
            indices[end + i], values[end + i] = indices[low + i], values[low + i]
        out_ptr[row + 1] = end + _join_repeats(indices[end:], values[end:], count, places, low)


def _checked(rows: Rows, longest: int) -> Rows:
    """Return the rows if none, with at most so many entries, is longer than ``LARGEST``."""
    beyond, zeros = _survey(rows.values, int(rows.indptr[-1]), LARGEST / max(longest, 1) ** 0.5)
    row = too_long(rows.indptr, rows.values, LARGEST) if beyond else -1
    if row < 0:
        return rows._replace(zeros=zeros)
    start, stop = rows.indptr[row], rows.indptr[row + 1]
    unfit = np.flatnonzero(~(np.abs(rows.values[start:stop]) <= LARGEST))
    if not unfit.size:
        raise InputError(f"X: row {row} is longer than {LARGEST:g}: rescale it. Nothing was learned.")
    found = rows.values[start + unfit[0]]
    column = int(unfit[0] if rows.dense else rows.indices[start + unfit[0]])
    reason = f"is {found}" if not np.isfinite(found) else f"is {found:g}, beyond {LARGEST:g}: rescale it"
    raise InputError(f"X: the value at row {row}, column {column} {reason}. Nothing was learned.")


def as_rows(X: Any, n_features: int | None) -> Rows:
    """An array, nested list or SciPy sparse matrix as checked rows; ``Rows`` are returned unchanged.

    Raises InputError, naming row and column, for values that are not finite or whose square overflows.
    """
    longest = 0
    if isinstance(X, Rows):
        rows = X
    elif is_sparse(X):
        rows, longest = _sparse_rows(X)
    else:
        try:
            dense = _plain(X, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"X: not an array of numbers ({error}).") from None
        if dense.ndim != 2:
            hint = " For a single row, pass X.reshape(1, -1)." if dense.ndim == 1 else ""
            raise InputError(f"X: expected 2 dimensions (rows, features), got {dense.ndim}.{hint}")
        count, width = dense.shape
        longest = width
        indptr = np.arange(count + 1, dtype=np.int64) * width
        rows = Rows(indptr, np.empty(0, dtype=np.int32), dense.reshape(-1), width, dense=True)
    if n_features is not None and rows.n_features != n_features:
        raise InputError(
            f"X: has {rows.n_features} features, but this learner was made with n_features={n_features!r}. "
            "Leave n_features out to let the learner grow with the stream.",
            n_features=n_features,
        )
    return rows if isinstance(X, Rows) else _checked(rows, longest)


def _plain(array: Any, dtype: Any) -> NDArray[Any]:
    """Return the array in the dtype and layout of compiled loops; copied only if it differs."""
    if type(array) is np.ndarray and array.dtype == dtype and array.flags.carray:
        return array
    if np.iscomplexobj(array):
        raise TypeError("complex numbers have no order and no sign")
    refuse_unfit(array)
    try:
        return np.require(array, dtype=dtype, requirements=("C", "A", "W", "E"))
    except ArithmeticError as error:  # a whole number of hundreds of digits
        raise ValueError(error) from None


def _sparse_rows(X: Any) -> tuple[Rows, int]:
    """The rows of a sparse matrix whose structure is sound, each feature once in a row, and a row's most entries."""
    csr = as_csr(X)
    if csr.ndim != 2:
        raise InputError(f"X: expected 2 dimensions (rows, features), got {csr.ndim}.")
    try:
        values = _plain(csr.data, np.float64)
        indptr = _whole(csr.indptr, np.int64)
        indices = _whole(csr.indices, np.int32 if csr.indices.dtype == np.int32 else np.int64)
    except (TypeError, ValueError) as error:
        raise InputError(f"X: not a matrix of numbers ({error}).") from None
    entries, width = min(indices.size, values.size), int(csr.shape[1])
    longest = _plainly_sound(indptr, indices, entries, width) if indptr.size == csr.shape[0] + 1 else -1
    if longest < 0:
        check_csr(csr)
        longest = int(np.diff(indptr).max(initial=0))
        size = max(4 * longest, min(16 * longest, 4096))
        places = np.full(1 << max(size - 1, 1).bit_length(), -1)
        if _first_repeating(indptr, indices, places) >= 0:  # a feature listed twice in a row counts as the sum
            places[:] = -1
            ends, indices, values = np.zeros_like(indptr), indices.copy(), values.copy()
            _sum_repeats(indptr, indices, values, places, ends)
            indptr, indices, values = ends, indices[: ends[-1]], values[: ends[-1]]
    return Rows(indptr, indices, values, width, dense=False), longest


def _whole(array: Any, dtype: Any) -> NDArray[Any]:
    """An array of whole numbers in one dimension."""
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"its indices are {array.dtype} in {array.ndim} dimensions, not whole numbers in one")
    return _plain(array, dtype)


@inlined
def _sort_row(features, values, count):
    """Sort a row by feature, unless it is sorted (Shell 1959, with Knuth's gaps)."""
    for i in range(1, count):
        if features[i] < features[i - 1]:
            break
    else:
        return
    gap = 1
    while gap < count // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            feature, value, j = features[i], values[i], i
            while j >= gap and features[j - gap] > feature:
                features[j], values[j] = features[j - gap], values[j - gap]
                j -= gap
            features[j], values[j] = feature, value
        gap //= 3


class Header(NamedTuple):
    """Entries of the header of a packed row."""

    entries: int
    sort: int
    """1 if the row is to be sorted by feature; then no feature comes twice."""
    base: int
    """Number of entries of all rows so far; see ``_join_repeats``."""


HEADER = Header(*range(3))


@kernel
def arrange(header, given, numbers, places, largest, indptr, features, values):
    """Make a row of CSR form of packed features and numbers. Return 1 if it is finite and within bounds, else 0.

    Shapes: header as in HEADER, given and numbers (count or more,), where a feature of −1 is left out. Cost: O(count).
    """
    end = 0
    for i in range(header[HEADER.entries]):
        if given[i] >= 0:
            features[end], values[end] = given[i], numbers[i]
            end += 1
    if header[HEADER.sort]:
        _sort_row(features, values, end)
    else:
        end = _join_repeats(features, values, end, places, header[HEADER.base])
        header[HEADER.base] += header[HEADER.entries]
    total = 0.0
    for i in range(end):
        total += values[i] * values[i]
    indptr[1] = end
    return 1 if total <= largest * largest else 0


@kernel
def unseen_squares(indptr, values, kept_ptr, kept, out):
    """Σ x² over the entries of each row that are not among those kept, which come in the same order."""
    for i in range(out.size):
        total = 0.0
        at = kept_ptr[i]
        for j in range(indptr[i], indptr[i + 1]):
            if at < kept_ptr[i + 1] and kept[at] == values[j]:
                at += 1
            else:
                total += values[j] * values[j]
        out[i] = total


@kernel
def _dense_margins(values, bounds, weights, constant, out):
    """Margins of dense rows, (n·d,) values, whose values are cut off at bounds (2, d)."""
    width = weights.size
    for i in range(out.size):
        row = values[i * width : (i + 1) * width]
        total = constant
        for j in range(width):
            total += min(max(row[j], bounds[0, j]), bounds[1, j]) * weights[j]
        out[i] = total


class Linear(NamedTuple):
    """A learner's weights, for predicting many dense rows: one product for a value instead of a search."""

    features: NDArray[np.int64]
    """−1 is the constant feature."""
    weights: NDArray[np.float64]
    low: float
    high: float
    """Bounds of margins."""
    bounds: NDArray[np.float64] | None = None
    """The least and the largest value of each feature, at which others are cut off, (2, features)."""

    def margins(self, rows: Rows) -> NDArray[np.float64]:
        """Return the clipped margins of dense rows."""
        width, out = rows.n_features, np.empty(rows.count)
        weights, bounds = np.zeros(width), np.outer([-np.inf, np.inf], np.ones(width))
        values = rows.values[rows.indptr[0] : rows.indptr[-1]]
        constant = float(self.weights[self.features < 0].sum())
        known = (self.features >= 0) & (self.features < width)
        weights[self.features[known]] = self.weights[known]
        if self.bounds is not None:
            bounds[:, self.features[known]] = self.bounds[:, known]
            beyond = self.features >= width  # these are 0 in all rows, which may be outside of their bounds
            constant += float(np.clip(0.0, *self.bounds[:, beyond]) @ self.weights[beyond])
        _dense_margins(values, bounds, weights, constant, out)
        np.maximum(out, self.low, out=out)
        return np.minimum(out, self.high, out=out)  # a fifth of the time of np.clip


def finite(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the margins. They need no check for infinities, because such rows are refused."""
    if not np.isfinite(margins).all():
        row = int(np.argwhere(~np.isfinite(margins))[0][0])
        raise InputError(
            f"X: the prediction of row {row} is beyond what float64 can hold: its values times the model's weights are "
            "too large. Rescale the features."
        )
    return margins


def refuse_endless(rounds: int, count: int) -> None:
    """Refuse rows beyond the largest count that a file can store."""
    if rounds + count > LONGEST_COUNT:
        raise InputError(f"X: after {rounds:,} rows there is no counting of {count:,} more; the last is 2^53.")


def _column(name: str, numbers: Any, count: int) -> NDArray[np.float64]:
    """Return one number per row."""
    try:
        column = _plain(numbers, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name}: not numbers ({error}).") from None
    if column.shape != (count,):
        raise InputError(f"{name}: expected shape ({count},) to match X, got {column.shape}.")
    return column


def as_labels(y: Any, count: int, loss: Loss) -> NDArray[np.float64]:
    """Labels that the loss can take, one per row."""
    labels = _column("y", y, count)
    if loss.labels == "count":
        fit = (labels >= 0.0) & (labels <= LARGEST)
        wanted = f"loss={loss.name!r} takes counts, 0 or more"
    elif loss.labels == "sign":
        fit = np.abs(labels) == 1.0
        wanted = f"loss={loss.name!r} takes -1 and +1"
    else:
        fit = np.abs(labels) <= LARGEST
        wanted = f"it must be finite and within ±{LARGEST:g}"
    if not fit.all():
        row = int(fit.argmin())
        raise InputError(
            f"y: the label at row {row} is {labels[row]:g}; {wanted}. Nothing was learned.", loss=loss.name
        )
    return labels


def as_weights(sample_weight: Any, count: int) -> NDArray[np.float64]:
    """Sample weights, one per row; all 1 when left out."""
    if sample_weight is None:
        return np.ones(count)
    weights = _column("sample_weight", sample_weight, count)
    unfit = np.flatnonzero(~((weights >= 0.0) & (weights <= LARGEST)))
    if unfit.size:
        row = int(unfit[0])
        raise InputError(f"sample_weight: {weights[row]:g} at row {row}; weights are finite and not negative.")
    return weights
