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


def spectrum(symmetric: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of a positive semi-definite matrix, descending, and their eigenvectors as columns."""
    values, vectors = np.linalg.eigh(symmetric)
    return without_noise(values[::-1]), vectors[:, ::-1]


def positive_spectrum(symmetric: Array) -> tuple[Array, Array]:
    """Return the eigenvalues above the cutoff, descending, and their eigenvectors as columns."""
    values, vectors = spectrum(symmetric)
    kept = values > 0.0
    return values[kept], vectors[:, kept]


def row_spectrum(rows: Array) -> tuple[Array, Array]:
    """Return eigenvalues of ``rows·rowsᵀ``, descending, and their eigenvectors as columns.

    ``rows = U·diag(√λ)·V`` then gives the right factors as ``V = diag(1/√λ)·Uᵀ·rows``: an n×n problem
    for n rows, however wide they are, and never an SVD of the rows.
    """
    return spectrum(rows @ rows.T)


def change_of_basis(values: Array, vectors: Array, energy: Array) -> Array:
    """Return T, for rows with this spectrum, such that ``Tᵀ·rows`` has orthogonal rows of these squared lengths."""
    had = values[: energy.size]
    return vectors[:, : energy.size] * np.sqrt(np.divide(energy, had, out=np.zeros_like(energy), where=had > 0.0))


def eigenvalues(symmetric: Array) -> Array:
    """Return the eigenvalues of a positive semi-definite matrix, descending."""
    return without_noise(np.asarray(np.linalg.eigvalsh(symmetric)[::-1], dtype=np.float64))


def symmetric_root(covariance: Array) -> Array:
    """Return the symmetric ``B ⪰ 0`` with ``B·B = covariance``."""
    values, vectors = spectrum(covariance)
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T)


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
