"""Error of the sketches on given data against sketch size (luo2019, figures 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from onsketch import sketches as sketch
from onsketch.sketches.base import Sketch
from onsketch.sketches.named import make

COMPARED = ("fast-fd", "fast-rfd", "cfd", "pfd", "rp", "oja")


class Outcome(NamedTuple):
    """Result of one sketch of one size: its error, absolute and relative to ‖AᵀA‖₂, and the energy captured."""

    kind: str
    size: int
    error: float
    relative: float
    captured: float


def spectral_error(A: Any, summary: Sketch) -> float:
    """Return ``‖AᵀA − (BᵀB + ridge·I)‖₂`` by Lanczos iteration: products with A and B only, never a d×d matrix.

    >>> from onsketch.sketch import FastFrequentDirections
    >>> rows = np.diag([4.0, 3.0, 2.0, 1.0])
    >>> spectral_error(rows, FastFrequentDirections(4, 2).update(rows))  # all eigenvalues lost at most 9
    9.0
    """
    B, ridge = summary.matrix, summary.ridge
    width = summary.n_features
    if width <= 64:
        dense = A.toarray() if hasattr(A, "toarray") else np.asarray(A)
        return float(np.abs(np.linalg.eigvalsh(dense.T @ dense - summary.covariance())).max())
    from scipy.sparse.linalg import LinearOperator, eigsh

    difference = LinearOperator(
        (width, width), matvec=lambda x: A.T @ (A @ x) - B.T @ (B @ x) - ridge * x, dtype=np.float64
    )
    start = np.random.default_rng(0).normal(size=width)
    top = eigsh(difference, k=1, which="LM", v0=start, return_eigenvectors=False, tol=1e-4)
    return float(np.abs(top).max())


def error_bounds(A: Any, sizes: Iterable[int]) -> dict[int, float]:
    """Return ``min_k<m ‖A − A_k‖²_F/(m − k)`` for each size m, relative to ‖AᵀA‖₂: the bound of frequent directions.

    >>> error_bounds(np.diag([4.0, 3.0, 2.0, 1.0]), [2])  # (30 − 16)/(2 − 1) of 16
    {2: 0.875}
    """
    wanted = list(sizes)
    most = max(wanted, default=1)
    if min(A.shape) <= 64:
        dense = A.toarray() if hasattr(A, "toarray") else np.asarray(A)
        tops = np.sort(np.linalg.eigvalsh(dense.T @ dense))[::-1]
    else:
        from scipy.sparse.linalg import svds

        count = min(most, min(A.shape) - 1)
        tops = np.sort(svds(A, k=count, return_singular_vectors=False, random_state=0) ** 2)[::-1]
    squares = A.data if hasattr(A, "indptr") else np.asarray(A)
    left = np.concatenate([[0.0], np.cumsum(tops)])
    rest = np.maximum(float((squares**2).sum()) - left, 0.0)
    return {
        m: float(min(rest[k] / (m - k) for k in range(min(m, rest.size))) / tops[0]) if tops[0] > 0.0 else 0.0
        for m in wanted
    }


def study(A: Any, sizes: Iterable[int], kinds: Iterable[str] = COMPARED) -> Iterator[Outcome]:
    """Sketch all rows with each kind at each size, and yield the results."""
    from scipy.sparse import csr_array

    rows = csr_array(A)
    whole = sketch.FastFrequentDirections(rows.shape[1], 1)  # at size 1 it keeps nothing: its error is ‖AᵀA‖₂
    norm, energy = spectral_error(rows, whole), float((rows.data**2).sum())
    for size in sizes:
        for kind in kinds:
            summary = make(kind, rows.shape[1], size).update(rows)
            error = spectral_error(rows, summary)
            captured = float(np.sum(summary.matrix**2)) / energy if energy else 0.0
            yield Outcome(kind, size, error, error / norm if norm else 0.0, captured)
