"""Rows in units of their own: centred where a feature is mostly there, one common scale for wide text.

A feature with mean μ and variance σ² over all rows, not 0 in a share f of them, becomes

    x_j = (v_j − μ_j·[f_j > ½]) / s_j,   s_j² = σ_j²/f_j,

so that its unit does not matter, rare features are not blown up, and a feature with a large mean is no second constant.
Features that are mostly there but not in this row count as 0 there, and have a value after centring. In wide text how
often a word comes says something, so all words share one scale (the geometric mean of their root mean squares).

The figures take in a row before its margins are computed: they do not look at its label.
"""

from __future__ import annotations

import math

from onsketch.jit.decorators import exact
from onsketch.learners.multiclass.softmax.state import FIGURE, RUNNING, TALLY

UNIT_CONSTANT = 0.3
"""The constant feature beside a row of unit length; beside others it is as long as a typical row."""
LARGEST_SUM = 1e304
"""Σ(v − mean)² is kept below what float64 can hold."""
TINY = 1e-14
"""A variance below this times the squared mean is rounding error: the feature is constant, and says nothing."""


@exact
def update_figures(common, slots, values, low, high, learning, fresh):
    """Fill ``fresh`` with the figures of this row's features, the row included when learning; False: too large."""
    for j in range(low, high):
        figure = common.figures[slots[j]]
        n, mean, squares = figure[FIGURE.values], figure[FIGURE.mean], figure[FIGURE.squares]
        if learning:
            n += 1.0
            apart = values[j] - mean
            mean += apart / n
            squares += apart * (values[j] - mean)
            if not squares <= LARGEST_SUM:
                return False
        fresh[j - low, FIGURE.values] = n
        fresh[j - low, FIGURE.mean] = mean
        fresh[j - low, FIGURE.squares] = squares
    return True


@exact
def keep_figures(common, slots, low, high, fresh):
    """Write what ``update_figures`` found."""
    for j in range(low, high):
        for i in range(3):
            common.figures[slots[j], i] = fresh[j - low, i]
        common.tally[TALLY.seen] = max(common.tally[TALLY.seen], slots[j] + 1)


@exact
def _centred(value, n, mean, squares, rows):
    """The x of a feature with these figures."""
    share = n / rows
    variance = squares / max(n, 1.0) + mean * mean * (1.0 - share)
    if not variance > TINY * mean * mean:
        return 0.0
    return (value - (share * mean if share > 0.5 else 0.0)) / math.sqrt(variance)


@exact
def centred_row(common, slots, values, low, high, rows, fresh, mark, places, x):
    """Fill the places and values of a scaled row, places counted from 1; returns their number and Σx².

    ``mark`` is zero for all features, before and after.
    """
    square = 0.0
    for j in range(low, high):
        i = j - low
        places[i] = slots[j] + 1
        x[i] = _centred(values[j], fresh[i, FIGURE.values], fresh[i, FIGURE.mean], fresh[i, FIGURE.squares], rows)
        square += x[i] * x[i]
        mark[slots[j]] = 1
    count = high - low
    for slot in range(common.tally[TALLY.seen]):
        n = common.figures[slot, FIGURE.values]
        if mark[slot] == 0 and n > 0.5 * rows:
            places[count] = slot + 1
            x[count] = _centred(0.0, n, common.figures[slot, FIGURE.mean], common.figures[slot, FIGURE.squares], rows)
            square += x[count] * x[count]
            count += 1
    for j in range(low, high):
        mark[slots[j]] = 0
    return count, square


@exact
def common_scale(common, fresh, count, learning, out):
    """Fill (mean logarithm, values it is the mean of), this row included; returns the scale of all features."""
    mean, n = common.running[RUNNING.log_scale], common.running[RUNNING.log_count]
    if learning:
        for i in range(count):
            square = fresh[i, FIGURE.squares] / fresh[i, FIGURE.values] + fresh[i, FIGURE.mean] * fresh[i, FIGURE.mean]
            n += 1.0
            mean += ((0.5 * math.log(square) if square > 0.0 else 0.0) - mean) / n
    out[0], out[1] = mean, n
    return math.exp(min(max(mean, -345.0), 345.0))


@exact
def rarity(common, n, learning):
    """How many rows there are, as a logarithm, for one that has a feature of n rows (the idf of text)."""
    return math.log((common.tally[TALLY.rounds] + (2.0 if learning else 1.0)) / (n + 0.5))
