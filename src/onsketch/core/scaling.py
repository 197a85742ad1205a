r"""Scaling of features, x = clip((v − c)/s, ±10): a scale s for each and, if it is mostly non-zero, a centre c.

Running statistics of a feature, with winsorised updates, so that one value in wrong units has little effect:

    M   mean magnitude of its non-zero values
    c   mean over the rows in which it was visited
    D   root mean square deviation from that mean, over the same rows

A feature that is not zero in more than 60 % of the rows is *centred* until that falls below 40 %. The scale in use is

    s = D + M/√changes   and the centre is c,   for a centred feature; M/√changes allows for errors of D and c
    s = M                and the centre is 0,   otherwise

A *change* is a value other than the one before: in ordered rows, a value that stays for long counts as one. A feature
that was constant for a thousand rows says nothing about the size of its next step.

The scale and the centre in use follow the statistics when the scale has moved by a factor of ``LEAP`` or the centre by
``MOVED`` scales. Then x' = r·x + b with constants r and b, and the owner rewrites its state for the feature exactly.
There is no common scale: a column in other units does not change the others.

Statistics of different rows can be merged (:func:`merged`). Cost: O(1) per value and eleven numbers per feature.
Reference: Ross, Mineiro and Langford, "Normalized online learning", UAI 2013, for rewriting weights.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from onsketch.jit.decorators import inlined, inner

MAGNITUDE, VALUES, MEAN, SQUARE, VISITS, CHANGES, LAST, CENTRE, SCALE, MAGNITUDE_USED, CENTRED = range(11)
"""Figures of a feature: M and its count; c, D² and their count; changes of value and the last value; centre, scale and
magnitude in use; 1 if centred."""

FIGURES = 11

CUT = 10.0
"""Scaled values are cut at ± this."""

LEAP, MOVED = 1.1, 0.1
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
def follow(figures, value):
    """Take one more value into a feature's running figures."""
    size, n, magnitude = abs(value), figures[VALUES], figures[MAGNITUDE]
    if size > 0.0:
        if magnitude == 0.0 or (n < EARLY and size > WINSOR * magnitude):
            figures[MAGNITUDE] = size
        elif size != magnitude:
            figures[MAGNITUDE] = magnitude + 2.0 / (n + 2.0) * (min(size, WINSOR * magnitude) - magnitude)
        figures[VALUES] = n + 1.0
    n = figures[VISITS] + 1.0
    widest = math.inf
    if n > EARLY:  # a feature that was constant so far may begin to vary
        widest = WINSOR * max(math.sqrt(figures[SQUARE]), STILL * figures[MAGNITUDE])
    if value != figures[MEAN]:
        figures[MEAN] += max(min(value - figures[MEAN], widest), -widest) / n
    away = min(abs(value - figures[MEAN]), widest)
    if away > 0.0 or figures[SQUARE] > 0.0:
        figures[SQUARE] += (1.0 / n if n < EARLY else 2.0 / (n + 1.0)) * (away * away - figures[SQUARE])
    figures[VISITS] = n
    if value != figures[LAST]:
        figures[CHANGES] += 1.0
        figures[LAST] = value


@inner
def wanted(figures):
    """Return the centre and the scale given by the running statistics; scale 0 for a constant feature."""
    if figures[CENTRED] == 1.0:
        centre = figures[MEAN]
        scale = math.sqrt(figures[SQUARE]) + figures[MAGNITUDE] / math.sqrt(max(figures[CHANGES], 1.0))
        return centre, scale if scale > LEAST * abs(centre) else 0.0
    return 0.0, figures[MAGNITUDE]


@inlined
def has_moved(figures, centre, scale):
    """Return True if the scale or centre in use is far from the statistics, so that the feature must be rewritten."""
    used = figures[SCALE]
    return scale > 0.0 and (scale > LEAP * used or used > LEAP * scale or abs(centre - figures[CENTRE]) > MOVED * used)


@inlined
def scaled(figures, value):
    """Return the value in the feature's own scale, cut; 0 before a scale is known."""
    if not figures[SCALE] > 0.0:
        return 0.0
    return max(min((value - figures[CENTRE]) / figures[SCALE], CUT), -CUT)


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


def merged(parts: list[NDArray[np.float64]], signs: tuple[float, ...]) -> NDArray[np.float64]:
    """Return the running statistics (features, 11) of the rows of all parts; sign −1 subtracts a part.

    Means are weighted by counts, and squares include the distance of the parts' means. No scale is in use yet.
    """
    out = np.zeros_like(parts[0])
    for count, figure in ((VALUES, MAGNITUDE), (VISITS, MEAN), (VISITS, SQUARE)):
        counts = [sign * part[:, count] for sign, part in zip(signs, parts, strict=True)]
        total = np.maximum(sum(counts), 0.0)
        terms = [part[:, figure] for part in parts]
        if figure == SQUARE:
            terms = [part[:, SQUARE] + (part[:, MEAN] - out[:, MEAN]) ** 2 for part in parts]
        summed = sum(n * term for n, term in zip(counts, terms, strict=True))
        out[:, count], out[:, figure] = total, summed / np.where(total > 0.0, total, 1.0)
    changes = sum(sign * part[:, CHANGES] for sign, part in zip(signs, parts, strict=True))
    out[:, CHANGES], out[:, LAST] = np.maximum(changes, 0.0), parts[0][:, LAST]
    out[:, [MAGNITUDE, SQUARE]] = np.maximum(out[:, [MAGNITUDE, SQUARE]], 0.0)
    return out
