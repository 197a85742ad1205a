r"""Scaling of features, x = clip((v − c)/s, ±10): a scale s for each and, if it is mostly non-zero, a centre c.

Running statistics with winsorised updates, so that one value in wrong units has little effect:

    M   mean magnitude of the non-zero values of a feature
    c   mean of a centred feature over all rows since it became centred
    D   root mean square deviation from that mean, over the same rows

A feature that is not zero in more than 60 % of the rows is *centred* until that falls below 40 %. The scale in use is

    s = D + M/√changes   and the centre is c,   for a centred feature; M/√changes allows for errors of D and c
    s = M                and the centre is 0,   otherwise

A *change* is a value other than the one before: in ordered rows, a value that stays for long counts as one. A feature
that was constant for a thousand rows says nothing about the size of its next step.

The scale and the centre in use follow the statistics when the scale has moved by a factor of ``LEAP`` or the centre by
``SHIFT`` scales. Then x' = r·x + b with constants r and b, and the owner rewrites its state for the feature exactly.
There is no common scale: a column in other units does not change the others.

**Memory.** Every feature has the four ``FIGURES``. Centred features, which every row visits, have a column each in a
table of ``STATISTICS``, by which eight of them are followed at once. A row is a list of *entries*: first the centred
features in the order of that table, then the other features that it has. ``collect`` brings the statistics of a row's
entries together, ``follow`` takes the row into them and finds those that have moved; the owner handles those one by one
(``move``, ``join``, ``leave``). Cost: O(1) per value.

Statistics of different rows can be merged (:func:`merged`).
Reference: Ross, Mineiro and Langford, "Normalized online learning", UAI 2013, for rewriting weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import (
    fma,
    load,
    magnitude,
    minus,
    plus,
    product,
    quotient,
    root,
    spread,
    store,
    total,
    where_less,
)

Floats = NDArray[np.float64]

MAGNITUDE, VALUES, SIZE = range(3)
"""M, the number of non-zero values, and the magnitude in use, which is also the scale of a feature without a centre."""
PLACE = 3
"""Last of the figures: 1 + the column of a centred feature in the table of statistics, which then has all others."""
FIGURES = 4
CENTRE, SCALE, MEAN, SQUARE, VISITS, CHANGES, LAST = range(3, 10)
"""Further statistics: centre and scale in use; c, D² and their count; changes of value and the last value."""
STATISTICS = 10
WANTED, MOVED = 5, 6
"""Further rows of entries, after SCALE: the scale that the statistics give, and what has moved."""
ENTRIES = 7

RESIZED, RESCALED, SWITCHED = 1.0, 2.0, 4.0
"""Added in MOVED: the magnitude is off, scale or centre are off, the feature is to become centred or no longer so."""

CUT = 10.0
"""Scaled values are cut at ± this."""

LEAP, SHIFT = 1.1, 0.1
"""The scale in use follows when it is off by this factor, the centre when it is off by this many scales."""

MOSTLY, RARELY = 0.6, 0.4
"""A feature becomes centred when its share of non-zero rows exceeds MOSTLY, until it falls below RARELY."""

WINSOR, EARLY = 10.0, 10.0
"""After EARLY values, a value counts as at most WINSOR times the magnitude or deviation so far."""

STILL = 1e-4
"""Deviations are cut at WINSOR times this share of the magnitude at least."""

LEAST = 1e-9
"""A deviation below this share of the centre is rounding error: the feature is constant, and scaled to 0."""


@inner
def collect(figures, centred, count, slots, entries, listed):
    """Bring the statistics of a row's entries together, which are ``listed`` centred features and then others.

    Shapes: figures (features, FIGURES), centred (STATISTICS, room), slots and the rows of entries: whole vectors.
    """
    for at in range(0, listed, 8):
        for f in range(WANTED):
            store(entries, f * entries.shape[1] + at, load(centred, f * centred.shape[1] + at, 8))
    for b in range(listed, count):
        feature = figures[slots[b]]
        entries[MAGNITUDE, b], entries[VALUES, b] = feature[MAGNITUDE], feature[VALUES]
        entries[SIZE, b] = entries[SCALE, b] = feature[SIZE]
        entries[CENTRE, b] = 0.0
    for b in range(count, (count + 7) // 8 * 8):
        for f in range(WANTED):
            entries[f, b] = 0.0


@inlined
def _lesser(a, b):
    return where_less(b, a, b, a)


@inlined
def _off(used, wanted, otherwise):
    """RESCALED where a scale is off from a positive one that is wanted, else ``otherwise``."""
    leap, yes = spread(LEAP, 8), spread(RESCALED, 8)
    off = where_less(product(leap, used), wanted, yes, otherwise)
    off = where_less(product(leap, wanted), used, yes, off)
    return where_less(spread(0.0, 8), wanted, off, spread(0.0, 8))


@inlined
def _follow_deviations(centred, at, v, size):
    """Take a value each of eight centred features into c and D; returns the scales wanted and RESCALED where off."""
    room, zero, one, two = centred.shape[1], spread(0.0, 8), spread(1.0, 8), spread(2.0, 8)
    early, winsor = spread(EARLY, 8), spread(WINSOR, 8)
    mean, square = load(centred, MEAN * room + at, 8), load(centred, SQUARE * room + at, 8)
    n = plus(load(centred, VISITS * room + at, 8), one)
    # A feature that was constant so far may begin to vary.
    widest = root(square)
    least = product(spread(STILL, 8), size)
    widest = product(winsor, where_less(widest, least, least, widest))
    widest = where_less(early, n, widest, spread(math.inf, 8))
    away = minus(v, mean)
    away = where_less(widest, away, widest, where_less(away, minus(zero, widest), minus(zero, widest), away))
    mean = plus(mean, quotient(away, n))
    away = _lesser(magnitude(minus(v, mean)), widest)
    rate = quotient(where_less(n, early, one, two), where_less(n, early, n, plus(n, one)))
    square = fma(rate, minus(product(away, away), square), square)
    changes, last = load(centred, CHANGES * room + at, 8), load(centred, LAST * room + at, 8)
    changes = plus(changes, where_less(zero, magnitude(minus(v, last)), one, zero))
    store(centred, MEAN * room + at, mean)
    store(centred, SQUARE * room + at, square)
    store(centred, VISITS * room + at, n)
    store(centred, CHANGES * room + at, changes)
    store(centred, LAST * room + at, v)
    # The scale wanted.
    scale = plus(root(square), quotient(size, root(where_less(changes, one, one, changes))))
    scale = where_less(product(spread(LEAST, 8), magnitude(mean)), scale, scale, zero)
    used = load(centred, SCALE * room + at, 8)
    shift = magnitude(minus(mean, load(centred, CENTRE * room + at, 8)))
    shifted = where_less(product(spread(SHIFT, 8), used), shift, spread(RESCALED, 8), zero)
    return scale, _off(used, scale, shifted)


@inner
def follow(centred, count, raw, entries, listed, rows, places):
    """Take a row into the statistics of its entries; returns True if one has moved.

    Fills WANTED and MOVED. The figures of features that are not centred are then to be written back (``keep``). ``raw``
    has the values, ``rows`` is the number of rows including this one, ``places`` is 0, 1, 2, …; for whole vectors.
    """
    width, room, any_moved = entries.shape[1], centred.shape[1], spread(0.0, 8)
    zero, one, two, winsor = spread(0.0, 8), spread(1.0, 8), spread(2.0, 8), spread(WINSOR, 8)
    leap, resized, switched = spread(LEAP, 8), spread(RESIZED, 8), spread(SWITCHED, 8)
    for at in range(0, count, 8):
        v, known, n = load(raw, at, 8), load(entries, at, 8), load(entries, VALUES * width + at, 8)
        used, size = load(entries, SIZE * width + at, 8), magnitude(v)
        # M: early on, a much larger value replaces it.
        most = product(winsor, known)
        fresh = where_less(n, spread(EARLY, 8), where_less(most, size, one, zero), zero)
        slow = fma(quotient(two, plus(n, two)), minus(_lesser(size, most), known), known)
        size = where_less(zero, size, where_less(zero, fresh, size, slow), known)
        n = plus(n, where_less(zero, magnitude(v), one, zero))
        store(entries, MAGNITUDE * width + at, size)
        store(entries, VALUES * width + at, n)
        moved = where_less(product(leap, used), size, resized, where_less(product(leap, size), used, resized, zero))
        wanted = size
        also = where_less(spread(MOSTLY * rows, 8), n, switched, _off(used, size, zero))
        if at < listed:
            store(centred, MAGNITUDE * room + at, size)
            store(centred, VALUES * room + at, n)
            scale, off = _follow_deviations(centred, at, v, size)
            off = where_less(n, spread(RARELY * rows, 8), switched, off)
            inside, end = load(places, at, 8), spread(np.float64(listed), 8)
            wanted, also = where_less(inside, end, scale, wanted), where_less(inside, end, off, also)
        moved = plus(moved, also)
        store(entries, WANTED * width + at, wanted)
        store(entries, MOVED * width + at, moved)
        any_moved = plus(any_moved, moved)
    return total(any_moved) > 0.0


@inner
def keep(figures, count, slots, entries, listed):
    """Write the statistics of the entries that are not centred back."""
    for b in range(listed, count):
        feature = figures[slots[b]]
        feature[MAGNITUDE], feature[VALUES] = entries[MAGNITUDE, b], entries[VALUES, b]


@inner
def move(figures, centred, entries, b, j, centre, scale):
    """Put this centre and scale to use for entry b, feature j, and its magnitude if that is off."""
    place = int(figures[j, PLACE]) - 1
    if place < 0 or entries[MOVED, b] % RESCALED == RESIZED:
        entries[SIZE, b] = entries[MAGNITUDE, b]
    entries[CENTRE, b], entries[SCALE, b] = centre, scale
    if place < 0:
        figures[j, SIZE] = entries[SIZE, b]
    else:
        for f in range(WANTED):
            centred[f, place] = entries[f, b]


@inner
def join(figures, centred, entries, b, j, value, listed):
    """Make entry b, feature j, a centred one, after the ``listed`` ones; it starts from this value."""
    figures[j, PLACE] = listed + 1.0
    for f in range(WANTED):
        centred[f, listed] = entries[f, b]
    centred[MEAN, listed] = centred[LAST, listed] = value
    centred[VISITS, listed] = centred[CHANGES, listed] = 1.0
    centred[SQUARE, listed] = 0.0


@inner
def leave(figures, entries, b, j):
    """Take entry b, feature j, off the centred ones; its column is to be removed (``close_ranks``)."""
    figures[j, PLACE] = 0.0
    figures[j, MAGNITUDE], figures[j, VALUES] = entries[MAGNITUDE, b], entries[VALUES, b]


@inner
def close_ranks(figures, centred, features, listed):
    """Remove the columns of features that have left; returns how many remain."""
    kept = 0
    for i in range(listed):
        j = features[i]
        if figures[j, PLACE] > 0.0:
            features[kept] = j
            figures[j, PLACE] = kept + 1.0
            for f in range(STATISTICS):
                centred[f, kept] = centred[f, i]
            kept += 1
    return kept


@inlined
def typical(length, square, t):
    """Return (mean |x|^¼)⁸ with one more row, the t-th: a squared length that a few long rows hardly move."""
    if length == 0.0 or square == 0.0:
        return max(length, square)
    root = math.sqrt(math.sqrt(math.sqrt(length)))
    root += (math.sqrt(math.sqrt(math.sqrt(square))) - root) / t
    root *= root
    root *= root
    return root * root


def whole(figures: Floats, centred: Floats, features: Any) -> Floats:
    """Return all statistics of each feature, (features, STATISTICS); ``features`` are the centred ones."""
    out = np.zeros((len(figures), STATISTICS))
    out[:, :PLACE], out[:, SCALE] = figures[:, :PLACE], figures[:, SIZE]
    out[features] = centred[:, : len(features)].T
    return out


def parted(statistics: Floats, features: Any, room: int) -> tuple[Floats, Floats]:
    """Return figures, and the table of the centred ``features`` with this room, from all statistics of each."""
    figures, centred = np.zeros((len(statistics), FIGURES)), np.zeros((STATISTICS, room))
    figures[:, :PLACE] = statistics[:, :PLACE]
    figures[features, PLACE] = np.arange(1, len(features) + 1)
    centred[:, : len(features)] = statistics[features].T
    return figures, centred


def merged(parts: list[Floats], signs: tuple[float, ...], rounds: float) -> Floats:
    """Return the statistics (features, STATISTICS) of the ``rounds`` rows of all parts; sign −1 subtracts a part.

    Means are weighted by counts, and squares include the distance of the parts' means. Centres and scales are those
    that the statistics give. A part that has fewer visits than one taken off became centred anew after it, and does not
    contain it: then only one other can, and nothing is taken off.
    """
    out = np.zeros_like(parts[0])
    given = list(zip(signs, parts, strict=True))
    fewest = np.min([part[:, VISITS] for sign, part in given if sign > 0.0], axis=0)
    held: list[Any] = [np.where((sign < 0.0) & (part[:, VISITS] > fewest), 0.0, sign) for sign, part in given]
    for count, figure, by in ((VALUES, MAGNITUDE, signs), (VISITS, MEAN, held), (VISITS, SQUARE, held)):
        counts = [sign * part[:, count] for sign, part in zip(by, parts, strict=True)]
        total = np.maximum(sum(counts), 0.0)
        terms = [part[:, figure] for part in parts]
        if figure == SQUARE:
            terms = [part[:, SQUARE] + (part[:, MEAN] - out[:, MEAN]) ** 2 for part in parts]
        summed = sum(n * term for n, term in zip(counts, terms, strict=True))
        out[:, count], out[:, figure] = total, summed / np.where(total > 0.0, total, 1.0)
    changes = sum(sign * part[:, CHANGES] for sign, part in zip(held, parts, strict=True))
    out[:, CHANGES], out[:, LAST] = np.maximum(changes, 0.0), parts[0][:, LAST]
    out[:, [MAGNITUDE, SQUARE]] = np.maximum(out[:, [MAGNITUDE, SQUARE]], 0.0)
    out[:, SIZE] = out[:, SCALE] = out[:, MAGNITUDE]
    centred = mostly(out, rounds)
    doubt = out[centred, MAGNITUDE] / np.sqrt(np.maximum(out[centred, CHANGES], 1.0))
    scale, out[centred, CENTRE] = np.sqrt(out[centred, SQUARE]) + doubt, out[centred, MEAN]
    out[centred, SCALE] = np.where(scale > LEAST * np.abs(out[centred, CENTRE]), scale, 0.0)
    return out


def mostly(statistics: Floats, rounds: float) -> Any:
    """Return the slots of features that are centred after a merge."""
    return np.flatnonzero(statistics[:, VALUES] > 0.5 * (MOSTLY + RARELY) * rounds)
