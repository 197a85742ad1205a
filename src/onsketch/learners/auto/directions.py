"""One robust frequent-directions sketch under two ridges.

The sketch of the curvature rows √κ·x is shared: the Newton experts differ in their ridge alone,

    A_k = ridge_k·I + SᵀS,   ridge_k = c_k·(mean |x|²) + Σρ/2

(Luo, Chen, Zhang, Li and Zhang 2019, for the growing ridge), so one set of sketch rows serves both and only the small
inverses ``(ridge_k·I + SSᵀ)^{-1}`` are kept twice. O(m²) a row; O(m³) every m + 1 rows.
"""

from __future__ import annotations

import math

from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inner
from onsketch.learners.auto.state import ESCAPED, FADE, NORM, ROWS
from onsketch.learners.sketched.frequent_directions import decompose


@inner
def ridge_of(settings, small, k):
    """The ridge of Newton expert k."""
    start = settings.first_ridge if k == 0 else settings.second_ridge
    return start * small.numbers[NORM] + 0.5 * small.numbers[ESCAPED]


@inner
def apply_inverse(small, k, p, start, q):
    """``q = (ridge·I + SSᵀ)^{-1} Sx`` of expert k, from Sx in p; returns its product with Sx."""
    n = small.counts[ROWS]
    product = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += small.inverses[k, i, j] * p[start + j]
        q[k, i] = total
        product += total * p[start + i]
    return product


@inner
def rebuild(settings, small):
    """The small inverses from the Gram matrix, on the span of its rows."""
    n = small.counts[ROWS]
    decompose(small.gram, n, small.values, small.vectors, small.work)
    for k in range(2):
        ridge = ridge_of(settings, small, k)
        for i in range(n):
            for j in range(n):
                small.inverses[k, i, j] = 0.0
        for e in range(n):
            if small.values[e] > 0.0:
                weight = 1.0 / (ridge + small.values[e])
                for i in range(n):
                    for j in range(n):
                        small.inverses[k, i, j] += weight * small.vectors[e, i] * small.vectors[e, j]


@inner
def append(settings, small, p, start, square, rho, q):
    """Border the Gram matrix and both inverses by the row ρ·x."""
    n = small.counts[ROWS]
    small.counts[ROWS] = n + 1
    for i in range(n):
        small.gram[n, i] = rho * p[start + i]
        small.gram[i, n] = small.gram[n, i]
    small.gram[n, n] = rho * rho * square
    for k in range(2):
        small.a[k, n] = 0.0
        whole = ridge_of(settings, small, k) + small.gram[n, n]
        pivot = whole
        for i in range(n):
            pivot -= rho * q[k, i] * small.gram[n, i]
        if pivot <= CUTOFF * whole:
            rebuild(settings, small)
            return
        for i in range(n):
            weight = rho * q[k, i] / pivot
            for j in range(n):
                small.inverses[k, i, j] += weight * rho * q[k, j]
            small.inverses[k, i, n] = -weight
            small.inverses[k, n, i] = -weight
        small.inverses[k, n, n] = 1.0 / pivot


@inner
def shrink(settings, small):
    """Shrink a full sketch to its m − 1 first directions; fills the transform, which folds a into the heads."""
    n = small.counts[ROWS]
    size = settings.size
    kept = size - 1
    fade = small.numbers[FADE]
    values = small.values
    decompose(small.gram, n, values, small.vectors, small.work)
    rho = values[size - 1] if n >= size else 0.0
    small.numbers[ESCAPED] = fade * (small.numbers[ESCAPED] + rho)
    small.numbers[FADE] = 1.0
    for i in range(n):
        for e in range(kept):
            small.transform[i, e] = 0.0
        for k in range(2):
            small.transform[i, kept + k] = small.a[k, i]
            small.a[k, i] = 0.0
        for j in range(n):
            small.gram[i, j] = 0.0
            small.inverses[0, i, j] = 0.0
            small.inverses[1, i, j] = 0.0
    for e in range(min(kept, n)):
        energy = fade * max(values[e] - rho, 0.0)
        scale = math.sqrt(energy / values[e]) if values[e] > 0.0 else 0.0
        for i in range(n):
            small.transform[i, e] = scale * small.vectors[e, i]
        small.gram[e, e] = energy
        for k in range(2):
            small.inverses[k, e, e] = 1.0 / (ridge_of(settings, small, k) + energy)
    small.counts[ROWS] = kept
