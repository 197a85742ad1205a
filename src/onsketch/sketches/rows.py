"""Checks and conversion of rows to the dense form that sketches absorb."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError
from onsketch.core.matrices import is_sparse, refuse_unfit, sound
from onsketch.core.tolerances import LARGEST

Array = NDArray[np.float64]

_CHUNK = 1 << 20
"""Entries of a sparse block made dense at a time (8 MiB)."""


def checked(rows: Any, n_features: int) -> Any:
    """Return the rows as a float64 array ``(n, d)`` or a canonical CSR matrix; raise `InputError` for anything else."""
    return _checked_sparse(rows, n_features) if is_sparse(rows) else _checked_dense(rows, n_features)


def widened(X: Any, n_features: int) -> Any:
    """Return the rows with empty features added up to this width."""
    missing = n_features - X.shape[1]
    if missing <= 0:
        return X
    if hasattr(X, "indptr"):
        from scipy.sparse import csr_array

        return csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))
    return np.pad(X, ((0, 0), (0, missing)))


def dense_chunks(block: Any) -> Iterator[Array]:
    """Yield the checked block as dense pieces, in row order; a dense block is not copied."""
    if not is_sparse(block):
        yield block
        return
    step = max(1, _CHUNK // block.shape[1])
    for start in range(0, block.shape[0], step):
        yield block[start : start + step].toarray()


def _checked_dense(rows: Any, n_features: int) -> Array:
    try:
        refuse_unfit(rows)
        raw = np.asarray(rows)
        if raw.dtype.kind == "c":
            raise TypeError("complex numbers are not supported")
        block = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"rows must be real numbers in one or two dimensions: {error}") from None
    if block.ndim not in (1, 2):
        raise InputError(f"rows must be one row (d,) or a block (n, d), not {block.ndim}-dimensional")
    block = np.atleast_2d(block)
    _check_width(block.shape[1], n_features)
    if not _all_fit(block, block.shape[1]):
        bad = np.argwhere(~_fits(block))
        if len(bad):
            row, column = bad[0]
            raise InputError(_complaint(block[row, column], int(row), int(column)))
        _check_lengths(np.linalg.norm(block / LARGEST, axis=1))
    return block


def _checked_sparse(rows: Any, n_features: int) -> Any:
    if rows.dtype.kind not in "fiub":
        raise InputError(f"rows must be real numbers, not {rows.dtype}")
    block = sound(rows)
    block = block.astype(np.float64, copy=False)
    _check_width(block.shape[1], n_features)
    if not block.has_canonical_format:
        block = block.copy()  # summing duplicates works in place, and must not change the caller's matrix
        block.sum_duplicates()
    if not _all_fit(block.data, block.shape[1]):
        owner = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        bad = np.flatnonzero(~_fits(block.data))
        if bad.size:
            raise InputError(_complaint(block.data[bad[0]], int(owner[bad[0]]), int(block.indices[bad[0]])))
        _check_lengths(np.sqrt(np.bincount(owner, (block.data / LARGEST) ** 2)))
    return block


def _check_width(width: int, n_features: int) -> None:
    if width != n_features:
        raise InputError(f"rows have {width} features, the sketch has {n_features}")


def _all_fit(values: Array, width: int) -> bool:
    """Return True if entries, hence rows, are certainly small: one pass for the extremes, which propagate NaN."""
    limit = LARGEST / math.sqrt(width)
    return values.size == 0 or bool(values.max() <= limit and values.min() >= -limit)


def _fits(values: Array) -> NDArray[np.bool_]:
    return np.abs(values) <= LARGEST


def _check_lengths(relative: Array) -> None:
    if (relative > 1.0).any():
        row = int(np.argmax(relative > 1.0))
        raise InputError(f"row {row} is longer than {LARGEST:g}, too long to square; nothing was absorbed")


def _complaint(value: float, row: int, column: int) -> str:
    what = "too large to square" if np.isfinite(value) else "not finite"
    return f"the value {value} in row {row}, column {column} is {what}; nothing was absorbed"
