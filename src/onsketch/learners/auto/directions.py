"""One robust frequent-directions sketch under three metrics.

The sketch of the curvature rows √κ·x is shared: the experts differ in their ridge and in the power of the metric alone,

    A_k = ridge_k·I + SᵀS,   ridge_k = c_k·(typical |x|²) + γ_k·Σρ

(Luo, Chen, Zhang, Li and Zhang 2019, for the growing ridge; with γ = ½ for all, Σρ would swamp what tells them apart).
Two Newton experts step through A_k⁻¹, so one set of sketch rows serves both and only the small inverses ``(ridge_k·I +
SSᵀ)^{-1}`` are kept twice; the third steps through A⁻¹ᐟ² in the basis of the last shrink, where S has orthogonal rows.
O(m²) a row; O(m³) every m + 1 rows that are sketched.
"""

from __future__ import annotations

import math

from onsketch.core.shrinking import left_of
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inlined, inner
from onsketch.learners.auto.state import FIGURE, FIRST_ROW, ROOT, TALLY
from onsketch.learners.sketched.small_gram import decompose

_left_of = inlined(left_of)


@inlined
def ridge_with(settings, numbers, k, escaped):
    """The ridge of expert k where so much has escaped; the first one's is more where rows have weights."""
    heavier = math.sqrt(numbers[FIGURE.heaviest]) if k == 0 else 1.0
    return settings.ridges[k] * heavier * numbers[FIGURE.norm] + settings.growths[k] * escaped


@inlined
def ridge_of(settings, small, k):
    """The ridge of expert k."""
    return ridge_with(settings, small.numbers, k, small.numbers[FIGURE.escaped])


@inner
def apply_inverse(small, k, p, q):
    """``q = (ridge·I + SSᵀ)^{-1} Sx`` of Newton expert k, from Sx in p; returns its product with Sx."""
    n = small.counts[TALLY.rows]
    product = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += small.inverses[k, i, j] * p[FIRST_ROW + j]
        q[k, i] = total
        product += total * p[FIRST_ROW + i]
    return product


@inner
def apply_root(small, ridge, p, q):
    """Likewise for the third expert: A^{-1/2}x = (x − Sᵀq)/√ridge."""
    fade = small.numbers[FIGURE.fade]
    product = 0.0
    for i in range(small.counts[TALLY.rows]):
        q[ROOT, i] = 0.0
        if i < small.counts[TALLY.turned] and small.spectrum[i] > 0.0:
            energy = small.spectrum[i]
            q[ROOT, i] = (1.0 - math.sqrt(ridge / (ridge + fade * energy))) / energy * p[FIRST_ROW + i]
            product += q[ROOT, i] * p[FIRST_ROW + i]
    return product


@inner
def sketched_lengths(settings, small, p, length, pace, lengths, by, q):
    """Fill the lengths of the steps of the experts with a sketch, which go along ``x − Sᵀq``, and what turns a slope
    into a step; returns the largest leverage.
    """
    numbers = small.numbers
    largest = 0.0
    for k in range(2):
        ridge = ridge_of(settings, small, k) * numbers[FIGURE.fade]
        leverage = max(length - apply_inverse(small, k, p, q), CUTOFF * length) / ridge
        lengths[k] = pace * leverage
        by[k] = pace / ridge
        largest = max(largest, leverage)
    ridge = ridge_of(settings, small, ROOT) * numbers[FIGURE.fade]
    by[ROOT] = pace * settings.root_step / math.sqrt(numbers[FIGURE.norm] * ridge)
    lengths[ROOT] = by[ROOT] * max(length - apply_root(small, ridge, p, q), CUTOFF * length)
    return largest


@inlined
def newton_share(small, k):
    """How much of the trust in the two Newton experts is in this one."""
    trusted = small.shares[1, 0] + small.shares[1, 1]
    return small.shares[1, k] / trusted if trusted > 0.0 else 0.5


@inner
def worth_sketching(settings, small, weight, bends, leverage):
    """The scale ρ of the row to sketch (0: none), and what rows left out would have told.

    A row that tells little (curvature times leverage) is left out, and what such rows would have told is saved up; when
    it is enough, a row is sketched in the place of all of them.
    """
    numbers, first = small.numbers, newton_share(small, 0)
    curvature = weight * (first * bends[0] + (1.0 - first) * bends[1])
    told = curvature * leverage
    credit = numbers[FIGURE.credit] + told
    if told <= 0.0 or credit < settings.told:
        return 0.0, credit
    if told < settings.told:
        curvature *= settings.told / told
        told = settings.told
    return math.sqrt(curvature / numbers[FIGURE.fade]), credit - told


@inner
def rebuild(settings, small):
    """The small inverses from the Gram matrix, on the span of its rows."""
    n = small.counts[TALLY.rows]
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
def append(settings, small, p, square, rho, q):
    """Border the Gram matrix and both inverses by the row ρ·x, whose part with columns has this squared length."""
    n = small.counts[TALLY.rows]
    small.counts[TALLY.rows] = n + 1
    for i in range(n):
        small.gram[n, i] = rho * p[FIRST_ROW + i]
        small.gram[i, n] = small.gram[n, i]
    small.gram[n, n] = rho * rho * square
    for k in range(3):
        small.a[k, n] = 0.0
    for k in range(2):
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
    """Shrink a full sketch to its m − 1 first directions; fills the transform, which folds a into the heads.

    The third head is the transform's first row and column.
    """
    n = small.counts[TALLY.rows]
    size = settings.size
    kept = size - 1
    fade = small.numbers[FIGURE.fade]
    values, transform = small.values, small.transform
    decompose(small.gram, n, values, small.vectors, small.work)
    rho = values[size - 1] if n >= size else 0.0
    small.numbers[FIGURE.escaped] = fade * (small.numbers[FIGURE.escaped] + rho)
    small.numbers[FIGURE.fade] = 1.0
    for i in range(transform.shape[0]):
        for c in range(transform.shape[1]):
            transform[i, c] = 0.0
    transform[0, 0] = 1.0
    for i in range(n):
        transform[i + 1, 0] = small.a[ROOT, i]
        transform[i + 1, kept + 1] = small.a[0, i]
        transform[i + 1, kept + 2] = small.a[1, i]
        for k in range(3):
            small.a[k, i] = 0.0
        for j in range(n):
            small.gram[i, j] = 0.0
            small.inverses[0, i, j] = 0.0
            small.inverses[1, i, j] = 0.0
    for e in range(kept):
        small.spectrum[e] = 0.0
        if e < n:
            energy = fade * _left_of(values[e], rho)
            scale = math.sqrt(energy / values[e]) if values[e] > 0.0 else 0.0
            for i in range(n):
                transform[i + 1, e + 1] = scale * small.vectors[e, i]
            small.gram[e, e] = energy
            small.spectrum[e] = energy
            for k in range(2):
                small.inverses[k, e, e] = 1.0 / (ridge_of(settings, small, k) + energy)
    small.counts[TALLY.rows] = kept
    small.counts[TALLY.turned] = kept
