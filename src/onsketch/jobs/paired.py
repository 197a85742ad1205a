"""Standard error of the difference between two learners: paired differences over blocks of their common rows.

Losses of two learners on the same rows rise and fall together, so that their difference is known far better than
either. With D_b the difference of the summed losses over block b of B, the standard error of the total is
``√(B/(B − 1)·Σ (D_b − D̄)²)``. The estimate is valid if blocks are long enough for neighbours to be almost independent.
The first rows, on which all learners improve fast, widen it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onsketch.jobs.compare import Score

BLOCKS = 40
"""Blocks that a stream is cut into, at most."""


class Gap(NamedTuple):
    """Difference of a learner to another: mean loss and error, each with its standard error (NaN: too few blocks)."""

    loss: float
    loss_error: float
    ratio: float
    """Of the losses; NaN where the other's is not above 0."""
    ratio_error: float
    error: float
    error_error: float


def gap(one: Score, other: Score) -> Gap | None:
    """Return the gap between two contenders; None if they have no rows in common.

    >>> sums = [(k, 1.0 * k, k, 0.0) for k in range(11)], [(k, 0.5 * k, k, 0.0) for k in range(11)]
    >>> one, other = (Score("", 1.0, None, {}, 1.0, sums=tuple(each)) for each in sums)
    >>> found = gap(one, other)
    >>> found.ratio, found.loss, found.loss_error
    (2.0, 0.5, 0.0)
    """
    theirs = {row[0]: row for row in other.sums}
    common = [(row, theirs[row[0]]) for row in one.sums if row[0] in theirs]
    if len(common) < 2:
        return None
    edges = np.unique(np.linspace(0, len(common) - 1, min(BLOCKS + 1, len(common))).round().astype(int))
    mine, their = (np.array([common[k][side] for k in edges]) for side in (0, 1))
    mass = mine[-1, 2]
    if not mass > 0.0:
        return None
    loss, loss_error = _total(mine[:, 1] - their[:, 1])
    wrong, wrong_error = _total(mine[:, 3] - their[:, 3])
    base = their[-1, 1]
    ratio, ratio_error = (mine[-1, 1] / base, loss_error / base) if base > 0.0 else (math.nan, math.nan)
    figures = loss / mass, loss_error / mass, ratio, ratio_error, wrong / mass, wrong_error / mass
    return Gap(*map(float, figures))


def _total(sums: np.ndarray) -> tuple[float, float]:
    """The total of differences, given as running sums, and its standard error."""
    each = np.diff(sums)
    total = float(sums[-1] - sums[0])
    if each.size < 4:
        return total, math.nan
    return total, math.sqrt(each.size / (each.size - 1.0) * float(((each - each.mean()) ** 2).sum()))
