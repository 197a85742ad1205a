"""Sparse matrices from users: their structure is checked before any loop relies on it.

SciPy does not check the three arrays of a compressed matrix, and neither do its conversions. An index outside of the
matrix, or row ends beyond the entries, would make them read and write memory out of bounds.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError


def is_sparse(X: Any) -> bool:
    """Return True for a sparse matrix, recognised by its ``tocsr`` so that SciPy need not be imported."""
    return hasattr(X, "tocsr")


def as_csr(X: Any) -> Any:
    """Return the sparse matrix as CSR. Other formats are checked before conversion; CSR is returned unchanged."""
    kind = getattr(X, "format", "csr")
    if kind in ("csc", "bsr"):
        try:
            X.check_format(full_check=True)
        except (ValueError, TypeError, IndexError) as error:
            raise InputError(f"X: not a sound {kind.upper()} matrix ({error}). Nothing was learned.") from None
    elif kind == "coo":
        for axis, (places, length) in enumerate(zip(X.coords, X.shape, strict=True)):
            if places.size != X.data.size or (places.size and not 0 <= places.min() <= places.max() < length):
                raise InputError(f"X: not a sound COO matrix: axis {axis} has an index outside of 0 to {length - 1}.")
    return X.tocsr()


def check_csr(csr: Any) -> None:
    """Refuse a CSR matrix whose row ends or indices do not fit its shape and its entries.

    >>> from scipy.sparse import csr_array
    >>> check_csr(csr_array(([1.0, 2.0], [0, 7], [0, 2]), shape=(1, 3)))
    Traceback (most recent call last):
    ...
    onsketch.core.errors.InputError: X: row 0 has index 7, outside of 0 to 2. Nothing was learned.
    """
    indptr, indices, entries = csr.indptr, csr.indices, csr.data.size
    for array in (indptr, indices):
        if array.dtype.kind not in "iu" or array.ndim != 1:
            raise InputError(f"X: its indices are {array.dtype} in {array.ndim} dimensions, not whole numbers in one.")
    if indptr.size != csr.shape[0] + 1 or indptr[0] != 0:
        refuse_structure(indptr, indices, entries, csr.shape, 0)
    broken = (indptr[1:] < indptr[:-1]) | (indptr[1:] > min(indices.size, entries))
    if broken.any():
        refuse_structure(indptr, indices, entries, csr.shape, int(broken.argmax()))
    used = indices[: indptr[-1]]
    if used.size and not 0 <= used.min() <= used.max() < csr.shape[1]:
        place = int(np.flatnonzero((used < 0) | (used >= csr.shape[1]))[0])
        refuse_structure(indptr, indices, entries, csr.shape, int(np.searchsorted(indptr, place, side="right")) - 1)


def sound(X: Any) -> Any:
    """Return sparse data as a checked CSR matrix whose indices SciPy can handle, and other numbers unchanged."""
    if not is_sparse(X):
        try:
            refuse_unfit(X)
        except TypeError as error:
            raise InputError(f"X: {error}.") from None
        return X
    csr = as_csr(X)
    if csr.ndim != 2:
        csr = csr.reshape(1, -1)
    check_csr(csr)
    if csr.indices.dtype != csr.indptr.dtype or csr.indices.dtype not in (np.int32, np.int64):
        used = slice(int(csr.indptr[-1]))
        parts = csr.data[used], csr.indices[used].astype(np.int64), csr.indptr.astype(np.int64)
        csr = type(csr)(parts, shape=csr.shape)
    return csr


def refuse_structure(
    indptr: NDArray[Any], indices: NDArray[Any], entries: int, shape: tuple[int, ...], row: int
) -> None:
    """Describe the defect in the structure of a CSR matrix at this row."""
    count, width = shape
    if indptr.size != count + 1:
        raise InputError(f"X: {indptr.size} row ends (indptr) for {count} rows; expected {count + 1}.")
    low, high = [int(end) for end in indptr[row : row + 2]] if count else (int(indptr[0]), int(indptr[0]))
    if indptr[0] != 0 or not 0 <= low <= high <= min(indices.size, entries):
        raise InputError(
            f"X: row {row} is said (by indptr) to have the entries {low} to {high}, of {indices.size} indices and "
            f"{entries} values. Nothing was learned."
        )
    part = indices[low:high]
    found = int(part[(part < 0) | (part >= width)][0])
    raise InputError(f"X: row {row} has index {found}, outside of 0 to {width - 1}. Nothing was learned.")


def refuse_unfit(values: Any) -> None:
    """Refuse what ``numpy.asarray`` would take for numbers: dates, masked values, and lazy frames."""
    if type(values) is np.ndarray:
        if values.dtype.kind in "mM":
            raise TypeError(f"{values.dtype} is a date or a duration; give numbers, such as days")
        return
    if hasattr(values, "collect") and not hasattr(values, "to_arrow"):
        raise TypeError("a lazy frame has no rows yet; call collect() first")
    for name, kind in zip(getattr(values, "columns", ()), getattr(values, "dtypes", ()), strict=False):
        if str(kind).lower().startswith(("date", "time", "duration", "period")):
            raise TypeError(f"column {name!r} is of type {kind}; leave it out, or give numbers, such as days")
    if "numpy.ma" not in sys.modules:  # imported on first use
        return
    parts = values if isinstance(values, (list, tuple)) else (values,)
    if not any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, parts))):
        return
    for part in parts:
        mask = np.ma.getmaskarray(part)
        if mask.any():
            place = ", ".join(str(int(where[0])) for where in np.nonzero(np.atleast_1d(mask)))
            raise TypeError(f"it has masked values, the first at {place}; fill them, or leave these rows out")
