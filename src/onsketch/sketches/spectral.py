"""Small linear algebra that all sketches share."""

from __future__ import annotations

import numpy as np

from onsketch.core.tolerances import CUTOFF
from onsketch.sketches.rows import Array


def without_noise(values: Array, largest: float | None = None) -> Array:
    """Return the eigenvalues with rounding errors and negative values set to zero."""
    if largest is None:
        largest = float(values.max(initial=0.0))
    return np.where(values > CUTOFF * largest, values, 0.0)


def row_spectrum(rows: Array) -> tuple[Array, Array]:
    """Return eigenvalues of ``rows·rowsᵀ``, descending, and their eigenvectors as columns.

    ``rows = U·diag(√λ)·V`` then gives the right factors as ``V = diag(1/√λ)·Uᵀ·rows``: an n×n problem
    for n rows, however wide they are, and never an SVD of the rows.
    """
    values, vectors = np.linalg.eigh(rows @ rows.T)
    return without_noise(values[::-1]), vectors[:, ::-1]


def eigenvalues(symmetric: Array) -> Array:
    """Return the eigenvalues of a positive semi-definite matrix, descending."""
    return without_noise(np.asarray(np.linalg.eigvalsh(symmetric)[::-1], dtype=np.float64))


def symmetric_root(covariance: Array) -> Array:
    """Return the symmetric ``B ⪰ 0`` with ``B·B = covariance``."""
    values, vectors = np.linalg.eigh(covariance)
    root: Array = (vectors * np.sqrt(without_noise(values))) @ vectors.T
    return root


def orthonormalise(directions: Array, followers: Array) -> None:
    """Orthonormalise by Gram-Schmidt in row order, in place; the row operations also apply to ``followers``.

    A row that depends on previous rows becomes a zero row; the eliminations still apply to its
    follower. Each row is projected twice: one projection leaves errors that grow with the condition number.
    """
    for i, (row, follower) in enumerate(zip(directions, followers, strict=True)):
        before = row @ row
        for _ in range(2):
            overlap = directions[:i] @ row
            row -= overlap @ directions[:i]
            follower -= overlap @ followers[:i]
        after = row @ row
        if after <= CUTOFF * before:
            row[:] = 0.0
        else:
            row /= np.sqrt(after)
            follower /= np.sqrt(after)
