"""The small matrices of a sketch S: its Gram matrix K = SSᵀ, and (ridge·I + K)⁻¹ for several ridges.

These are plain functions that compiled loops mark with their own options: ``inner(rebuild)`` may reorder sums,
``exact(rebuild)`` may not. ``ridges`` is a tuple, so the compiler knows the number of inverses.

Shapes: gram (m, m), inverses (ridges, m, m), values (m,), vectors (m, m) with an eigenvector in each row, work (2, m).
Cost: O(m³) for a shrink or a rebuild. Inverses are bordered by a new row in O(m²): ``small_gram.last_column``.
"""

from __future__ import annotations

import math

import numpy as np

from onsketch.core.eigen import eigh
from onsketch.core.shrinking import left_of
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inlined

_left_of = inlined(left_of)


def measure(rows, count, start, n, gram):
    """Compute K = SSᵀ from S itself, which is in n columns of ``rows`` from ``start`` on; O(count·n²).

    K follows the rows of S exactly, but rows in float32 are rounded whenever they change. So they drift away from K.
    """
    for i in range(n):
        for j in range(i + 1):
            gram[i, j] = 0.0
    for slot in range(count):
        for i in range(n):
            s = np.float64(rows[slot, start + i])
            if s != 0.0:
                for j in range(i + 1):
                    gram[i, j] += s * np.float64(rows[slot, start + j])
    for i in range(n):
        for j in range(i):
            gram[j, i] = gram[i, j]


def rebuild(gram, inverses, ridges, n, values, vectors, work, whole=False):
    """Compute the inverses from the spectrum of the first n rows of K.

    Eigenvalues below the cutoff become 0. The inverses are restricted to the other eigenvectors, except if ``whole``.
    """
    eigh(gram, n, values, vectors, work)
    for k in range(len(ridges)):
        for i in range(n):
            for j in range(n):
                inverses[k, i, j] = 0.0
        for e in range(n):
            if values[e] <= CUTOFF * values[0]:
                values[e] = 0.0
            if values[e] > 0.0 or whole:
                weight = 1.0 / (ridges[k] + values[e])
                for i in range(n):
                    for j in range(n):
                        inverses[k, i, j] += weight * vectors[e, i] * vectors[e, j]


def shrink(gram, n, size, fade, values, vectors, work, transform, row, column):
    """Shrink a sketch of n rows to size − 1 orthogonal rows, multiply K by ``fade``, and return ρ.

    K becomes diagonal. The change of basis (n, size − 1) is written to ``transform`` from (row, column) on. Call
    ``restart`` for the inverses, after the ridge has grown by its part of ρ.
    """
    eigh(gram, n, values, vectors, work)
    rho = values[size - 1] if n >= size and values[size - 1] > CUTOFF * values[0] else 0.0
    for i in range(n):
        for j in range(n):
            gram[i, j] = 0.0
    for e in range(size - 1):
        energy = fade * _left_of(values[e], rho) if e < n and values[e] > CUTOFF * values[0] else 0.0
        scale = math.sqrt(energy / values[e]) if energy > 0.0 else 0.0
        for i in range(n):
            transform[row + i, column + e] = scale * vectors[e, i]
        gram[e, e] = energy
    return rho


def restart(gram, inverses, ridges, n, kept):
    """Compute the inverses of a diagonal K with ``kept`` rows, and clear the other entries of n rows."""
    for k in range(len(ridges)):
        for i in range(n):
            for j in range(n):
                inverses[k, i, j] = 1.0 / (ridges[k] + gram[i, i]) if i == j and i < kept else 0.0
