"""Rows in the scales and centres of ``core/scaling.py``, over a common length, and labels in theirs.

    x' = clip((x − c)/s, ±10)/L     y' = (y − c)/s

L is the root of a typical squared length of scaled rows, so that rows have length 1 and a ridge or a step means the
same on every stream. c, s and L stand still between two calls of ``choose``. O(1) per value.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core import scaling
from onsketch.core.arrays import LONGEST_COUNT
from onsketch.core.scaling import (
    CENTRE,
    CHANGES,
    CUT,
    LAST,
    LEAST,
    MAGNITUDE,
    MEAN,
    MOSTLY,
    RARELY,
    SCALE,
    SIZE,
    SQUARE,
    STATISTICS,
    STILL,
    VALUES,
    VISITS,
    WINSOR,
)
from onsketch.core.state import Array
from onsketch.jit.decorators import inlined, inner, kernel

Floats = NDArray[np.float64]


CENTRED = SIZE
"""Column in which a feature has 1 if it is centred; the others are those of ``core/scaling.py``."""

RUNNING = [MAGNITUDE, VALUES, MEAN, SQUARE, VISITS, CHANGES, LAST]
USED = [CENTRED, CENTRE, SCALE]
"""Statistics of values, and what is in use."""


class Clock(NamedTuple):
    """Entries of a law's clock."""

    rounds: int
    due: int
    """the round after which scales are chosen again"""
    phase: int
    """EARLY, while the first rows are kept; LATER; HELD, if scales are never chosen again"""


class Lengths(NamedTuple):
    """Numbers that concern whole rows."""

    typical: int
    """squared length of scaled rows"""
    used: int
    """L"""
    common: int
    """scale of new features, if scales are held"""


CLOCK, LENGTH = Clock(*range(3)), Lengths(*range(3))

EARLY, LATER, HELD = range(3)
"""Phases."""

LENGTHS = 1e-100, 1e100
"""Bounds of L."""

LEAST_SCALE = 1e-150
"""Smaller figures do not change a scale, and are no scale of labels."""

STEADY = 8.0
"""After so many changes of value, in half of the rows or more, the error of a centre is at most the deviation."""


class Law(NamedTuple):
    """Figures of features and labels, see ``core/scaling.py``."""

    figures: Annotated[Floats, Array(f"slots {STATISTICS}")]
    labels: Annotated[Floats, Array(f"targets {STATISTICS}")]
    clock: Annotated[NDArray[np.int64], Array("3", "i8", start=(0, 1, 0), within=(0, LONGEST_COUNT))]
    lengths: Annotated[Floats, Array("3", within=(0.0, math.inf))]


@inner
def follow(figures, value):
    """Take one more value into a feature's statistics: the law of ``core/scaling.follow``, for a feature alone."""
    size, n, known = abs(value), figures[VALUES], figures[MAGNITUDE]
    if size > 0.0:
        if known == 0.0 or (n < scaling.EARLY and size > WINSOR * known):
            figures[MAGNITUDE] = size
        else:
            figures[MAGNITUDE] = known + 2.0 / (n + 2.0) * (min(size, WINSOR * known) - known)
        figures[VALUES] = n + 1.0
    n = figures[VISITS] + 1.0
    widest = math.inf
    if n > scaling.EARLY:  # a feature that was constant so far may begin to vary
        widest = WINSOR * max(math.sqrt(figures[SQUARE]), STILL * figures[MAGNITUDE])
    figures[MEAN] += max(min(value - figures[MEAN], widest), -widest) / n
    away = min(abs(value - figures[MEAN]), widest)
    figures[SQUARE] += (1.0 / n if n < scaling.EARLY else 2.0 / (n + 1.0)) * (away * away - figures[SQUARE])
    figures[VISITS] = n
    figures[CHANGES] += 1.0 if value != figures[LAST] else 0.0
    figures[LAST] = value


@inner
def wanted(figures):
    """Return the centre and the scale that the statistics give; scale 0 for a constant feature."""
    if figures[CENTRED] == 0.0:
        return 0.0, figures[MAGNITUDE]
    scale = math.sqrt(figures[SQUARE]) + figures[MAGNITUDE] / math.sqrt(max(figures[CHANGES], 1.0))
    return figures[MEAN], scale if scale > LEAST * abs(figures[MEAN]) else 0.0


@inlined
def scaled(figures, value):
    """Return the value in the feature's own scale, cut; 0 before a scale is known."""
    if not figures[SCALE] > 0.0:
        return 0.0
    return max(min((value - figures[CENTRE]) / figures[SCALE], CUT), -CUT)


@inner
def _marked(marks, slots, low, high, mark):
    """Mark the features of a row."""
    for j in range(low, high):
        marks[slots[j]] = mark


@kernel
def scale_rows(law, listed, marks, constant, rows, out_ptr, out_slots, out_values):
    """Scale rows, after the constant feature if it has a slot, and add the centred features that they lack.

    A feature without a scale gets that of its first value.

    Shapes: ``rows`` is indptr (n+1,), slots and values (nnz,); listed are the centred slots, marks (slots,) is zero.
    """
    indptr, slots, values = rows
    end = out_ptr[0]
    for i in range(indptr.size - 1):
        low, high, start = indptr[i], indptr[i + 1], end
        if constant >= 0:
            out_slots[end], out_values[end] = constant, 1.0
            end += 1
        first, square = end, 0.0
        _marked(marks, slots, low, high, 1)
        for j in range(high - low + listed.size):
            slot = slots[low + j] if j < high - low else listed[j - high + low]
            if j < high - low or marks[slot] == 0:
                figures, value = law.figures[slot], values[low + j] if j < high - low else 0.0
                if figures[SCALE] == 0.0 and value != 0.0:
                    figures[SCALE] = law.lengths[LENGTH.common] if law.clock[CLOCK.phase] == HELD else abs(value)
                out_slots[end], out_values[end] = slot, scaled(figures, value)
                square += out_values[end] * out_values[end]
                end += 1
        _marked(marks, slots, low, high, 0)
        if law.lengths[LENGTH.used] == 0.0 and square > 0.0:
            law.lengths[LENGTH.used] = max(math.sqrt(square), LENGTHS[0])
        for j in range(first, end if square > 0.0 else start):
            out_values[j] /= law.lengths[LENGTH.used]
        out_ptr[i + 1] = end


@kernel
def scale_labels(law, labels, out):
    """Scale those of the labels (n, outputs) that have scales.

    Return 1 if these rows need not be kept, and scales are not due after them.
    """
    last = law.clock[CLOCK.rounds] + labels.shape[0]
    for i in range(labels.shape[0]):
        for k in range(labels.shape[1]):
            out[i, k] = labels[i, k]
            if k < law.labels.shape[0]:
                one = law.labels[k]
                if law.clock[CLOCK.phase] == EARLY and law.clock[CLOCK.rounds] == 0:  # the very first row
                    one[SCALE] = abs(labels[i, k]) if abs(labels[i, k]) > LEAST_SCALE else 1.0
                out[i, k] = (labels[i, k] - one[CENTRE]) / one[SCALE]
    return 1 if law.clock[CLOCK.phase] != EARLY and last < law.clock[CLOCK.due] else 0


@kernel
def follow_rows(law, listed, marks, rows, labels, done):
    """Take the first rows, which have been learned, into the figures; (arguments as for ``scale_rows``)."""
    indptr, slots, values = rows
    for i in range(done):
        low, high, square = indptr[i], indptr[i + 1], 0.0
        _marked(marks, slots, low, high, 1)
        for j in range(high - low + listed.size):
            slot = slots[low + j] if j < high - low else listed[j - high + low]
            if j < high - low or marks[slot] == 0:
                figures, value = law.figures[slot], values[low + j] if j < high - low else 0.0
                x = scaled(figures, value)
                square += x * x
                follow(figures, value)
        _marked(marks, slots, low, high, 0)
        law.clock[CLOCK.rounds] += 1
        law.lengths[LENGTH.typical] = scaling.typical(
            law.lengths[LENGTH.typical], square, float(law.clock[CLOCK.rounds])
        )
        for k in range(law.labels.shape[0]):
            follow(law.labels[k], labels[i, k])


@kernel
def choose(figures, rounds, centring, leap, moved):
    """Set the scales and centres in use where they are off by a factor, or by so many scales; return how many were."""
    count = 0
    for slot in range(figures.shape[0]):
        one = figures[slot]
        if one[VALUES] > 0.0:
            share = RARELY if one[CENTRED] == 1.0 else MOSTLY
            centred = 1.0 if centring and one[VALUES] > share * rounds else 0.0
            flipped = centred != one[CENTRED]
            one[CENTRED] = centred
            centre, scale = wanted(one)
            if centred == 1.0 and one[CHANGES] >= max(STEADY, one[VISITS] / 2.0) and one[SQUARE] > 0.0:
                scale = min(scale, 2.0 * math.sqrt(one[SQUARE]))
            used = one[SCALE]
            off = flipped or scale >= leap * used or used >= leap * scale or abs(centre - one[CENTRE]) > moved * used
            if scale > LEAST_SCALE and off:
                one[CENTRE], one[SCALE] = centre, scale
                count += 1
    return count
