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

from onsketch.core import bordered
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import inlined, inner
from onsketch.learners.auto.state import FIGURE, FIRST_ROW, HEADS, ROOT, SKETCHED, TALLY
from onsketch.learners.sketched.packed import CLOCK

_rebuild, _border, _shrink, _restart, _measure = map(
    inner, (bordered.rebuild, bordered.border, bordered.shrink, bordered.restart, bordered.measure)
)


@inlined
def ridge_with(settings, numbers, k, escaped):
    """The ridge of expert k where so much has escaped; the first one's is more where rows have weights."""
    heavier = math.sqrt(numbers[FIGURE.heaviest]) if k == 0 else 1.0
    return max(
        settings.ridges[k] * heavier * numbers[FIGURE.norm] + settings.growths[k] * escaped, numbers[FIGURE.least]
    )


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


@inlined
def _ridges(settings, small):
    return ridge_of(settings, small, 0), ridge_of(settings, small, 1)


@inner
def rebuild(settings, small):
    """The small inverses from the Gram matrix."""
    ridges = _ridges(settings, small)
    _rebuild(small.gram, small.inverses, ridges, small.counts[TALLY.rows], small.values, small.vectors, small.work)


@inner
def measure(settings, small, light, table):
    """Compute the Gram matrix from the rows of the sketch, which are in float32, and the inverses from it.

    Heavy heads are folded into light ones. Both grow while their sum does not, until float32 has no digits for it.
    Rows in the buffer, if there are any, are of features without sketch columns: they are zero.
    """
    n = min(small.counts[TALLY.rows], settings.size - 1)
    _measure(table.rows, table.clock[CLOCK.seen], FIRST_ROW, n, small.gram)
    top = 0.0
    for i in range(n):
        top = max(top, small.gram[i, i])
    for place in range(1, table.clock[CLOCK.seen]):
        for k in range(SKETCHED):
            light.rows[place, k] += table.rows[place, HEADS[k]]
            table.rows[place, HEADS[k]] = 0.0
    small.numbers[FIGURE.least] = settings.resolution * top
    rebuild(settings, small)


@inner
def append(settings, small, p, square, rho, q):
    """Border the Gram matrix and both inverses by the row ρ·x, whose part with columns has this squared length."""
    n = small.counts[TALLY.rows]
    small.counts[TALLY.rows] = n + 1
    for k in range(3):
        small.a[k, n] = 0.0
    if not _border(small.gram, small.inverses, _ridges(settings, small), n, p, FIRST_ROW, q, rho, square):
        rebuild(settings, small)


@inner
def shrink(settings, small):
    """Shrink a full sketch to its m − 1 first directions; fills the transform, which folds a into the heads.

    The third head is the transform's first row and column.
    """
    n = small.counts[TALLY.rows]
    kept = settings.size - 1
    fade = small.numbers[FIGURE.fade]
    transform = small.transform
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
    rho = _shrink(small.gram, n, settings.size, fade, small.values, small.vectors, small.work, transform, 1, 1)
    small.numbers[FIGURE.escaped] = fade * (small.numbers[FIGURE.escaped] + rho)
    small.numbers[FIGURE.fade] = 1.0
    _restart(small.gram, small.inverses, _ridges(settings, small), n, kept)
    for e in range(kept):
        small.spectrum[e] = small.gram[e, e]
    small.counts[TALLY.rows] = kept
    small.counts[TALLY.turned] = kept
