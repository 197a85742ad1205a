"""The spectrum of a small matrix that gains one row, from the spectrum it had: O(n²) divisions instead of an ``eigh``.

In the basis of its eigenvectors, ``M + vvᵀ`` is ``diag(λ) + zzᵀ`` with ``z = Uv``. Its eigenvalues μ solve the *secular
equation* ``1 + Σ_j z_j²/(λ_j − μ) = 0``, one between any two neighbouring λ and one beyond the last; the eigenvectors
are ``z_j/(λ_j − μ)``, normalised (Golub 1973; Bunch, Nielsen and Sorensen 1978). What makes it accurate:

- a λ with almost no z stays, and of two close λ one is rotated to have no z (deflation);
- μ is held as its distance from the nearest λ. It is found by replacing the sum with a constant and two poles, the λ on
  either side, so that value, slope and curvature are exact at the last guess (Borges and Gragg 1993: the error is cubed
  at each step), within a bracket;
- eigenvectors are computed for the ẑ for which the computed μ are *exact* eigenvalues, so that they are
  orthogonal even for close λ (Gu and Eisenstat 1994).

Eight roots are computed at once, one in each lane of a vector.
"""

from __future__ import annotations

import math

from onsketch.jit.decorators import exact, exact_inlined, inlined, inner
from onsketch.jit.vectors import (
    dot,
    fma,
    load,
    magnitude,
    minus,
    plus,
    product,
    quotient,
    root,
    rotate,
    spread,
    store,
    total,
    where_less,
)

LINES = 8
"""Rows of scratch that ``absorb_row`` needs, each with space for n rounded up to eight."""

POLES, COUPLINGS, SQUARES, BELOW, ABOVE, WEIGHT_BELOW, WEIGHT_ABOVE, OFFSETS = range(LINES)
"""Rows of the work array, for the λ in use, ascending: λ, z, z²; for each root the λ below and above it with their z²;
and its distance from the nearer one. BELOW ends as that one."""

NEGLIGIBLE = 5e-16
"""Entries below this share of the matrix are taken for 0 (the rounding error of ``eigh`` is no smaller)."""

CLOSE = 1e-7
"""A step that moves a root by less than this share of its offset is the last: the next would move it by the cube."""

TRIES = 40
"""Steps towards a root before giving up; four do, as a rule."""


@exact_inlined
def _falling_root(c, a, b):
    """The root of ``cτ² − aτ + b`` at which it falls, lane by lane."""
    discriminant = fma(product(spread(-4.0, 8), b), c, product(a, a))
    zero = spread(0.0, 8)
    length = root(where_less(zero, discriminant, discriminant, zero))
    above = where_less(zero, a, product(spread(2.0, 8), b), minus(a, length))
    return quotient(above, where_less(zero, a, plus(a, length), product(spread(2.0, 8), c)))


@exact_inlined
def _find_eight(n, work, k):
    """Find the roots k to k + 7, one in each lane; returns False if one was not found.

    Shapes: work (LINES, n rounded up to eight); the poles on either side of the roots and their weights are read from
    it, the nearer pole and the distance from it are written in BELOW and OFFSETS.
    """
    zero, one, half = spread(0.0, 8), spread(1.0, 8), spread(0.5, 8)
    width = work.shape[1]
    tolerance = spread(1.2e-16 * max(n, 8), 8)
    below = load(work, BELOW * width + k, 8)
    above = load(work, ABOVE * width + k, 8)
    weight_left = load(work, WEIGHT_BELOW * width + k, 8)
    weight_right = load(work, WEIGHT_ABOVE * width + k, 8)
    gap = minus(above, below)
    inverse_gap = quotient(one, gap)
    origin = below
    offset = product(half, gap)  # μ − origin: start half-way, and find the nearer pole
    left, right = zero, gap  # the two poles as seen from the origin
    low, high = zero, zero  # where the offset must be
    missing = 1.0
    for attempt in range(TRIES):
        # Evaluate the sum at the last guess. It is rounded by about the sum of the magnitudes of its terms.
        value, size, slope, bend = one, one, zero, zero  # f, Σ|terms|, f', f''/2
        for j in range(0, n, 2):  # one division for two poles; the last one is followed by a pole of weight 0
            first = minus(minus(spread(work[POLES, j], 8), origin), offset)
            second = minus(minus(spread(work[POLES, j + 1], 8), origin), offset)
            both = quotient(one, product(first, second))
            inverse, other = product(second, both), product(first, both)
            term = product(spread(work[SQUARES, j], 8), inverse)
            next_term = product(spread(work[SQUARES, j + 1], 8), other)
            value = plus(value, plus(term, next_term))
            size = plus(size, plus(magnitude(term), magnitude(next_term)))
            term, next_term = product(term, inverse), product(next_term, other)
            slope = plus(slope, plus(term, next_term))
            bend = fma(term, inverse, fma(next_term, other, bend))
        # Narrow the bracket. Replace the sum by c + w/(left − τ) + w'/(right − τ), with the value, slope and bend of
        # the sum. In the first attempt it has the true weights of the two poles.
        to_left, to_right = minus(left, offset), minus(right, offset)
        if attempt:
            low = where_less(value, zero, offset, low)
            high = where_less(value, zero, high, offset)
            term_left = product(product(to_left, to_left), minus(product(to_right, bend), slope))
            term_left = product(term_left, inverse_gap)
            term_right = product(product(to_right, to_right), minus(slope, product(to_left, bend)))
            term_right = product(term_right, inverse_gap)
            weight_left, weight_right = product(term_left, to_left), product(term_right, to_right)
        else:
            term_left, term_right = quotient(weight_left, to_left), quotient(weight_right, to_right)
            origin = where_less(value, zero, above, below)
            left, right = minus(below, origin), minus(above, origin)
            low = where_less(value, zero, minus(zero, offset), zero)
            high = where_less(value, zero, zero, offset)
        c = minus(minus(value, term_left), term_right)
        # Solve for the root of the replacement, which must stay within the bracket. It is computed as a change of the
        # last guess, whose rounding error is as small as the value.
        if attempt:
            a = plus(fma(c, plus(to_left, to_right), weight_left), weight_right)
            b = product(product(to_left, to_right), value)
            step = plus(offset, _falling_root(c, a, b))
        else:
            a = plus(fma(c, plus(left, right), weight_left), weight_right)
            b = fma(weight_left, right, product(weight_right, left))
            step = _falling_root(c, a, b)
        middle = product(half, plus(low, high))
        step = where_less(step, low, middle, where_less(high, step, middle, step))
        # Stop when every lane stands still or moves by next to nothing.
        if attempt:
            step = where_less(product(tolerance, size), magnitude(value), step, offset)
            change, reach = minus(step, offset), product(spread(CLOSE, 8), step)
            missing = total(where_less(product(change, change), product(reach, reach), zero, one))
        offset = step
        if missing == 0.0:
            break
    store(work, BELOW * width + k, origin)
    store(work, OFFSETS * width + k, offset)
    return missing == 0.0


@exact
def _find_roots(n, work):
    """The n roots for the poles in ``work``; False where one was not found."""
    k = 0
    while k < n and _find_eight(n, work, k):
        k += 8
    return k >= n


@exact
def _deflate(values, vectors, n, held, work, scale):
    """Move the eigenvectors that ``z`` (in WEIGHT_ABOVE) concerns to ``held``, ascending, the others to the end.

    Fills POLES, COUPLINGS and SQUARES with their λ and z, over ``scale``; returns their number.

    Shapes: values (n,), vectors and held (n, n rounded up to whole vectors), work (LINES, n rounded up to eight).
    """
    stride = vectors.shape[1]
    whole = (n + 3) // 4 * 4
    length = 0.0
    for j in range(n):
        length += work[WEIGHT_ABOVE, j] * work[WEIGHT_ABOVE, j]
    length = math.sqrt(length / scale)
    active = 0
    end = n
    for j in range(n - 1, -1, -1):
        pole = values[j] / scale
        z = work[WEIGHT_ABOVE, j] / math.sqrt(scale)
        # An eigenvector without a part in v stays: it moves to the end.
        if abs(z) * length <= NEGLIGIBLE:
            end -= 1
            values[end] = values[j]
            for c in range(0, whole, 4):
                store(vectors, end * stride + c, load(vectors, j * stride + c, 4))
            continue
        # Of two eigenvalues so close that any basis of their plane will do, rotate the second out of v. It stays, too.
        for c in range(0, whole, 4):
            store(held, active * stride + c, load(vectors, j * stride + c, 4))
        last = active - 1
        if active:
            both = math.sqrt(work[COUPLINGS, last] * work[COUPLINGS, last] + z * z)
            cosine = work[COUPLINGS, last] / both
            sine = z / both
            gap = pole - work[POLES, last]
            if gap * abs(cosine * sine) <= NEGLIGIBLE:
                rotate(held, last * stride, active * stride, cosine, sine, whole)
                work[POLES, last] += sine * sine * gap
                work[COUPLINGS, last] = both
                end -= 1
                values[end] = scale * (pole - sine * sine * gap)
                for c in range(0, whole, 4):
                    store(vectors, end * stride + c, load(held, active * stride + c, 4))
                continue
        # All others take part.
        work[POLES, active] = pole
        work[COUPLINGS, active] = z
        active += 1
    for j in range(active):
        work[SQUARES, j] = work[COUPLINGS, j] * work[COUPLINGS, j]
    return active


@exact
def _surround(active, work):
    """Write the two poles that enclose each root; unused lanes compute the last root, too."""
    beyond = work[POLES, active - 1]
    for j in range(active):
        beyond += 4.0 * work[SQUARES, j]  # twice as far as the last root may be: that one is nearer to its own pole
    for k in range((active + 7) // 8 * 8):
        j = min(k, active - 1)
        last = j + 1 == active
        work[BELOW, k] = work[POLES, j]
        work[ABOVE, k] = beyond if last else work[POLES, j + 1]
        work[WEIGHT_BELOW, k] = work[SQUARES, j]
        work[WEIGHT_ABOVE, k] = 0.0 if last else work[SQUARES, j + 1]
        if k >= active:  # any poles will do
            work[POLES, k] = beyond + k
            work[COUPLINGS, k] = 0.0
            work[SQUARES, k] = 0.0


@exact
def _restore_couplings(active, work):
    """Replace z by the ẑ for which the roots found are exact: ``ẑ_j² = Π_k (λ_j − μ_k) / Π_{k≠j} (λ_j − λ_k)``."""
    zero, one = spread(0.0, 4), spread(1.0, 4)
    width = work.shape[1]
    for j in range(0, active, 4):
        poles = load(work, POLES * width + j, 4)
        ratios = spread(-1.0, 4)
        distances, gaps = one, one
        for k in range(active):
            distance = minus(minus(poles, spread(work[BELOW, k], 4)), spread(work[OFFSETS, k], 4))
            gap = minus(poles, spread(work[POLES, k], 4))
            gap = where_less(gap, zero, gap, where_less(zero, gap, gap, one))
            distances = product(distances, distance)
            gaps = product(gaps, gap)
            if k % 4 == 3 or k + 1 == active:  # divisions are slow, and products of many small numbers too small
                ratios = product(ratios, quotient(distances, gaps))
                distances, gaps = one, one
        old = load(work, COUPLINGS * width + j, 4)
        new = root(where_less(zero, ratios, ratios, zero))
        new = where_less(old, zero, minus(zero, new), where_less(zero, old, new, zero))
        store(work, COUPLINGS * width + j, new)


@inlined
def _turn_block(turn, lengths, held, active, row, column, vectors, lanes):
    """Four rows of the product, ``lanes`` of their columns: enough independent sums to hide their latency."""
    stride = held.shape[1]
    one = spread(0.0, lanes)
    two = spread(0.0, lanes)
    three = spread(0.0, lanes)
    four = spread(0.0, lanes)
    for j in range(active):
        old = load(held, j * stride + column, lanes)
        one = fma(spread(turn[row, j], lanes), old, one)
        two = fma(spread(turn[row + 1, j], lanes), old, two)
        three = fma(spread(turn[row + 2, j], lanes), old, three)
        four = fma(spread(turn[row + 3, j], lanes), old, four)
    place = row * stride + column
    store(vectors, place, product(spread(lengths[row], lanes), one))
    if row + 1 < active:
        store(vectors, place + stride, product(spread(lengths[row + 1], lanes), two))
    if row + 2 < active:
        store(vectors, place + 2 * stride, product(spread(lengths[row + 2], lanes), three))
    if row + 3 < active:
        store(vectors, place + 3 * stride, product(spread(lengths[row + 3], lanes), four))


@inner
def _turn(turn, lengths, held, active, whole, vectors):
    """Compute the first rows of ``vectors``: ``lengths·(turn @ held)``."""
    for row in range(0, active, 4):
        column = 0
        while whole - column >= 8:
            _turn_block(turn, lengths, held, active, row, column, vectors, 8)
            column += 8
        if whole > column:
            _turn_block(turn, lengths, held, active, row, column, vectors, 4)


@exact
def absorb_row(values, vectors, n, v, work, held, turn):
    """Eigenvalues (descending) and eigenvectors (rows) of ``Uᵀ diag(λ) U + vvᵀ``, overwriting the given ones.

    Shapes: values (n,), vectors (n, n) and v (n,) with zeros up to whole vectors; scratch: work (LINES, n rounded up to
    eight), held and turn as vectors. Returns False if a root was not found; the given spectrum is then lost. O(n²)
    divisions, and O(n³) products for the eigenvectors.
    """
    stride = vectors.shape[1]
    width = work.shape[1]
    whole = (n + 3) // 4 * 4
    # Rotate the row into the basis of the eigenvectors: z = Uv.
    scale = 0.0
    for j in range(n):
        z = dot(vectors, j * stride, v, 0, whole)
        work[WEIGHT_ABOVE, j] = z
        scale += z * z
    if scale == 0.0:
        return True
    # Eigenvalues: those that z concerns are roots of the secular equation.
    scale = max(scale, values[0])
    active = _deflate(values, vectors, n, held, work, scale)
    if active:
        _surround(active, work)
        if not _find_roots(active, work):
            return False
        _restore_couplings(active, work)
    # Eigenvectors in the old basis, ẑ_j/(λ_j − μ_k), and their squared lengths; the largest eigenvalue comes first.
    for k in range(active):
        norm = spread(0.0, 4)
        for j in range(0, active, 4):
            distance = minus(load(work, POLES * width + j, 4), spread(work[BELOW, k], 4))
            distance = minus(distance, spread(work[OFFSETS, k], 4))
            part = quotient(load(work, COUPLINGS * width + j, 4), distance)
            norm = fma(part, part, norm)
            store(turn, (active - 1 - k) * stride + j, part)
        work[WEIGHT_ABOVE, active - 1 - k] = total(norm)
        values[active - 1 - k] = scale * (work[BELOW, k] + work[OFFSETS, k])
    # Normalise them and multiply by the old basis.
    for k in range(0, active, 4):
        place = WEIGHT_ABOVE * width + k
        store(work, place, quotient(spread(1.0, 4), root(load(work, place, 4))))
    _turn(turn, work[WEIGHT_ABOVE], held, active, whole, vectors)
    # Insert the deflated eigenvalues in their order.
    for i in range(max(active, 1), n):
        j = i
        while j > 0 and values[j - 1] < values[j]:
            values[j - 1], values[j] = values[j], values[j - 1]
            for c in range(0, whole, 4):
                one = load(vectors, j * stride + c, 4)
                store(vectors, j * stride + c, load(vectors, (j - 1) * stride + c, 4))
                store(vectors, (j - 1) * stride + c, one)
            j -= 1
    return True
