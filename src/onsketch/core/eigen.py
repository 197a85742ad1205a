"""The spectrum of small symmetric matrices inside compiled loops.

Sketches need the spectrum of a Gram matrix of at most a few dozen rows, thousands of times a second;
at that size a call to LAPACK costs more than the arithmetic.
"""

from __future__ import annotations

import math

from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import add, rotate


@inner
def _tridiagonalise(n, basis, diagonal, below):
    """Householder's reduction: rows of ``basis`` hold A on entry and Q' with Q' A Q tridiagonal on exit.

    Shapes: basis (n, n), diagonal and below (n,). ``below[i]`` is the entry between i − 1 and i. ``diagonal`` holds the
    h of the reflections I − u uᵀ/h, whose u stay in the rows of ``basis``.
    """
    for i in range(n - 1, 0, -1):
        # Scale row i, and make the u that reflects its first i entries onto the last of them.
        scale = 0.0
        if i > 1:
            for k in range(i):
                scale += abs(basis[i, k])
        if scale == 0.0:
            below[i] = basis[i, i - 1]
            diagonal[i] = 0.0
            continue
        h = 0.0
        for k in range(i):
            basis[i, k] /= scale
            h += basis[i, k] * basis[i, k]
        f = basis[i, i - 1]
        g = -math.copysign(math.sqrt(h), f)
        below[i] = scale * g
        h -= f * g
        basis[i, i - 1] = f - g
        # below[:i] ← A u/h, from the lower triangle of A alone, so that both loops run along rows.
        for j in range(i):
            below[j] = 0.0
        for j in range(i):
            u = basis[i, j]
            total = basis[j, j] * u
            for k in range(j):
                total += basis[j, k] * basis[i, k]
                below[k] += basis[j, k] * u
            below[j] += total
        # A ← A − u qᵀ − q uᵀ with q = A u/h − (uᵀA u/2h²) u.
        f = 0.0
        for j in range(i):
            below[j] /= h
            f += below[j] * basis[i, j]
        half = f / (h + h)
        for j in range(i):
            below[j] -= half * basis[i, j]
        for j in range(i):
            f = basis[i, j]
            g = below[j]
            for k in range(j + 1):
                basis[j, k] -= f * below[k] + g * basis[i, k]
        diagonal[i] = h
    diagonal[0] = 0.0
    below[0] = 0.0


@inner
def _accumulate(n, basis, diagonal, work):
    """Turn the stored reflections into Q', row by row; leaves the tridiagonal's diagonal in ``diagonal``."""
    stride = basis.shape[1]
    for i in range(n):
        if diagonal[i] != 0.0:
            # Q[:i, :i] -= (u/h) (u' Q): basis holds Q' transposed at this stage, so work along its rows
            whole = (i + 3) // 4 * 4
            for k in range(whole):
                work[k] = 0.0
            for j in range(i):
                add(work, 0, basis[i, j], basis, j * stride, whole)
            for k in range(i, whole):
                work[k] = 0.0
            for j in range(i):
                add(basis, j * stride, -basis[i, j] / diagonal[i], work, 0, whole)
        diagonal[i] = basis[i, i]
        basis[i, i] = 1.0
        for j in range(i):
            basis[i, j] = 0.0
            basis[j, i] = 0.0


@inner
def _diagonalise(n, basis, diagonal, below):
    """Implicit QL with Wilkinson's shifts; rotations act on pairs of rows of ``basis``.

    Shapes: basis (n, n rounded up to whole vectors), diagonal and below (n,). At most 60 sweeps for an eigenvalue.
    """
    stride = basis.shape[1]
    whole = (n + 3) // 4 * 4
    for i in range(1, n):
        below[i - 1] = below[i]
    below[n - 1] = 0.0
    for low in range(n):
        for _ in range(60):
            # Find the end m of the block that begins at ``low``; a block of one is an eigenvalue.
            m = low
            while m < n - 1:
                size = abs(diagonal[m]) + abs(diagonal[m + 1])
                if abs(below[m]) <= 2.3e-16 * size:
                    break
                m += 1
            if m == low:
                break
            # Shift by the eigenvalue of the first two rows that is nearer to the first.
            g = (diagonal[low + 1] - diagonal[low]) / (2.0 * below[low])
            r = math.sqrt(g * g + 1.0)
            g = diagonal[m] - diagonal[low] + below[low] / (g + math.copysign(r, g))
            s = 1.0
            c = 1.0
            p = 0.0
            split = False
            # Sweep from m to ``low``: each rotation removes the entry that the one before it has made.
            for i in range(m - 1, low - 1, -1):
                f = s * below[i]
                b = c * below[i]
                r = math.sqrt(f * f + g * g)
                below[i + 1] = r
                if r == 0.0:  # the block falls in two
                    diagonal[i + 1] -= p
                    below[m] = 0.0
                    split = True
                    break
                s = f / r
                c = g / r
                g = diagonal[i + 1] - p
                r = (diagonal[i] - g) * s + 2.0 * c * b
                p = s * r
                diagonal[i + 1] = g + p
                g = c * r - b
                rotate(basis, (i + 1) * stride, i * stride, c, s, whole)
            if split:
                continue
            diagonal[low] -= p
            below[low] = g
            below[m] = 0.0


@inlined
def _sort(n, basis, diagonal):
    """Put the largest value first."""
    for i in range(n):
        top = i
        for j in range(i + 1, n):
            if diagonal[j] > diagonal[top]:
                top = j
        if top != i:
            diagonal[i], diagonal[top] = diagonal[top], diagonal[i]
            for k in range(n):
                basis[i, k], basis[top, k] = basis[top, k], basis[i, k]


@inner
def eigh(matrix, n, values, vectors, work):
    """Eigendecomposition of the leading n×n block of a symmetric, finite ``matrix``.

    ``values[:n]`` come in descending order, *row* i of ``vectors`` is the i-th eigenvector. The matrix is not
    changed. ``vectors`` and the two rows of scratch in ``work`` have space for n rounded up to whole vectors. The
    matrix is scaled first, so that neither 1e-120 nor 1e120 is out of range. O(n³).
    """
    scale = 0.0
    for i in range(n):
        for j in range(i + 1):
            scale = max(scale, abs(matrix[i, j]))
    if scale == 0.0 or n == 0:
        for i in range(n):
            values[i] = 0.0
            for j in range(n):
                vectors[i, j] = 1.0 if i == j else 0.0
        return
    for i in range(n):
        for j in range(i + 1):
            vectors[i, j] = matrix[i, j] / scale
            vectors[j, i] = vectors[i, j]
        for j in range(n, (n + 3) // 4 * 4):
            vectors[i, j] = 0.0
    if n > 1:
        _tridiagonalise(n, vectors, values, work[0])
        # the rows so far describe Q column-wise below the diagonal; accumulate and transpose
        _accumulate(n, vectors, values, work[1])
        for i in range(n):
            for j in range(i):
                vectors[i, j], vectors[j, i] = vectors[j, i], vectors[i, j]
        _diagonalise(n, vectors, values, work[0])
    else:
        values[0] = vectors[0, 0]
        vectors[0, 0] = 1.0
    _sort(n, vectors, values)
    for i in range(n):
        values[i] *= scale
