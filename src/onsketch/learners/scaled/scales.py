r"""Scales: what features, rows and labels are divided by, so that no unit matters and no row outweighs the others.

A feature's scale s follows the magnitudes v of its values, where it is not 0, by

    s ← s·(1 + g_n·2(v − s)/(v + s)),   g_n = 2/(n + 4),

whose influence is bounded on both sides: one value in wrong units moves s by a factor of at most 1 + 4/(n + 4), and a
start that was far too large is left behind like n⁻⁴. The scale *in use* follows when the two have come apart by a
factor of ``LEAP``, so that most of the time it stands still; weights are per unit of scale and stay as they are then
(as in normalised online learning, Ross, Mineiro and Langford 2013, where scales only grow).

The mean squared length of the scaled rows is followed in the same way and divided out, so that rows have length 1
and a ridge or a step means the same on every stream: with the rows it rises and falls. A row more than ``LONGEST``
times as long as others is learned as if it were that long. Labels that are numbers are divided by their magnitude, too
(but for least squares by Newton steps on the curvature, whose weights are linear in the labels anyway); of the first
``EARLY`` of them, one that is ``EARLY_LEAP`` times their scale becomes it.

Scales can be *held*: then none changes any more, and features not met so far have one scale in common. Learners that
hold the same scales can be merged, because their weights are in the same units.

Multiplying a feature, all rows or the labels by a constant changes nothing but rounding errors. O(1) per non-zero.
"""

from __future__ import annotations

import math

from onsketch.jit.decorators import inner, kernel

USED, RUNNING, COUNT = range(3)
"""Columns of each magnitude: the scale in use, the running scale, and the number of values."""

ROW, LABEL, HELD = range(3)
"""Magnitudes besides those of the features: of the rows' squared lengths, of labels, and, if scales are held, of new
features."""

LEAP, LABEL_LEAP = 1.1, 3.0
"""How far a scale in use and the running one may come apart. A leap of the labels' scale moves every prediction."""

EARLY, EARLY_LEAP = 30.0, 10.0
"""Of so many first labels, one that is so many times their scale becomes it: the first may be next to nothing."""

LONGEST = 30.0
"""Rows are learned as if they were at most so many times as long as others."""

LENGTHS = 1e-100, 1e100
"""Largest possible mean squared length of scaled rows: it starts at 1 or more and changes by n⁴ at most."""

LEAST_LABEL = 1e-150
"""Labels nearer to 0 have no part in the labels' scale: others, divided by it, would overflow."""

FAR = 1e30
"""Values are at most so many times their scale."""


@inner
def follow(scale, value, leap):
    """Take in one more magnitude."""
    n = scale[COUNT]
    if n == 0.0:
        scale[RUNNING] = value
        scale[USED] = value
    else:
        running = scale[RUNNING]
        scale[RUNNING] = running * (1.0 + 4.0 / (n + 4.0) * (value - running) / (value + running))
        if scale[RUNNING] > leap * scale[USED] or scale[USED] > leap * scale[RUNNING]:
            scale[USED] = scale[RUNNING]
    scale[COUNT] = n + 1.0


@inner
def keep(source, target):
    """Copy a scale."""
    for i in range(3):
        target[i] = source[i]


@inner
def in_scale(scale, value):
    """A value over the scale in use; the first value is its own scale."""
    if value == 0.0:
        return 0.0
    used = scale[USED] if scale[COUNT] > 0.0 else abs(value)
    return math.copysign(min(abs(value) / used, FAR), value)


@kernel
def scale_rows(features, others, seen, indptr, slots, values, labels, x, indices, y, lengths, units, undo, undo_others):
    """Scale rows in their order, each by what was known before it, and take it in.

    Args:
        features: (slots, 3), the scales of the features.
        others: (3, 3), of the rows and of the labels, and of new features if scales are held.
        seen: what features the slots are for.
        indptr: where rows begin and end.
        slots: of their features.
        values: of their features.
        labels: as they came; y receives them scaled, or as they are where there is no scale for them (units empty).
        x: receives the scaled values.
        indices: receives the features.
        y: receives the scaled labels.
        lengths: receives, for each row, what it was shortened to (1: not at all).
        units: receives, for each row, what labels are divided by.
        undo: receives the scales of the features as they were before each value.
        undo_others: receives the other scales as they were before each row.
    """
    held = others[HELD, COUNT] > 0.0
    for i in range(indptr.size - 1):
        for other in range(2):
            keep(others[other], undo_others[i, other])
        square = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            scale = features[slots[j]]
            keep(scale, undo[j])
            x[j] = in_scale(scale, values[j])
            indices[j] = seen[slots[j]]
            square += x[j] * x[j]
            if values[j] != 0.0 and not held:
                follow(scale, abs(values[j]), LEAP)
        norm = others[ROW, USED] if others[ROW, COUNT] > 0.0 else square
        shorter = 1.0
        if square > 0.0:
            if not held:
                follow(others[ROW], square, LEAP)
            shorter = min(1.0, LONGEST * math.sqrt(norm / square))
            for j in range(indptr[i], indptr[i + 1]):
                x[j] *= shorter / math.sqrt(norm)
        lengths[i] = shorter
        y[i] = labels[i]
        if units.size > 0:
            size = abs(labels[i]) if abs(labels[i]) > LEAST_LABEL and not held else 0.0
            if others[LABEL, COUNT] < EARLY and size > EARLY_LEAP * others[LABEL, USED]:
                others[LABEL, USED] = others[LABEL, RUNNING] = size
            units[i] = others[LABEL, USED] if others[LABEL, USED] > 0.0 else 1.0
            y[i] = labels[i] / units[i]
            if size > 0.0:
                follow(others[LABEL], size, LABEL_LEAP)


@kernel
def take_back(features, others, indptr, slots, done, undo, undo_others):
    """Make the scales what they were before row ``done``."""
    for j in range(indptr[indptr.size - 1] - 1, indptr[done] - 1, -1):
        keep(undo[j], features[slots[j]])
    for other in range(2):
        keep(undo_others[done, other], others[other])


@kernel
def scale_known(features, others, seen, indptr, slots, values, x, indices):
    """Scale values of features that are known; nothing is taken in."""
    norm = others[ROW, USED] if others[ROW, COUNT] > 0.0 else 1.0
    for j in range(indptr[indptr.size - 1]):
        x[j] = in_scale(features[slots[j]], values[j]) / math.sqrt(norm)
        indices[j] = seen[slots[j]]
