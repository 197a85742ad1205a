"""What a sketch's small arrays can be: asked of a model file before any compiled loop follows them.

Loops have no bounds checks. A count that says where the next row goes, a slot that is listed twice, a ridge of 0: each
would be believed.
"""

from __future__ import annotations

import numpy as np

from onsketch.core.tolerances import LARGEST
from onsketch.files.arrays import require, require_within
from onsketch.learners.setup import Setup
from onsketch.learners.sketched.frequent_directions import Directions
from onsketch.learners.sketched.packed import COLUMN
from onsketch.learners.sketched.rank_counting import FFD_SQUARE, RankedDirections
from onsketch.learners.sketched.state import COUNT, LINE, NUMBER, SQUARE, State

_SQUARED = LARGEST * LARGEST


def check_sketch(sketch: State, fresh: State, setup: Setup) -> None:
    """Refuse counts that do not belong to a sketch of this kind, and numbers that no rows can have led to."""
    rows, closed, column, rank = (int(count) for count in sketch.counts)
    capacity = setup.capacity
    where = "sketch.counts"
    if isinstance(sketch, Directions | RankedDirections):
        waits = (
            isinstance(sketch, RankedDirections) and setup.dual
        )  # it shrinks before the next row, not after this one
        require(0 <= rows <= capacity - (not waits), f"{rows} rows in a sketch of {capacity}", where)
        require(0 <= closed <= capacity, "a change of basis of more rows than there were", where)
        require(column == 0 or COLUMN.sketch <= column < COLUMN.sketch + capacity, "a row went to no column", where)
        require(0 <= rank <= capacity, "its spectrum is older than its rows", where)
    else:
        require(rows == fresh.counts[COUNT.rows] and closed == fresh.counts[COUNT.closed], "other rows", where)
        require(column == -1 and -1 <= rank <= rows, "its rank is impossible", where)
    numbers, first = sketch.numbers, float(fresh.numbers[NUMBER.ridge])
    require_within(numbers[NUMBER.ridge], first, _SQUARED, "sketch.numbers")
    for place in (NUMBER.escaped, NUMBER.lengths):
        require_within(numbers[place], 0.0, np.finfo(np.float64).max, "sketch.numbers")
    require_within(numbers[NUMBER.fade], np.finfo(np.float64).tiny, 1.0, "sketch.numbers")
    require_within(sketch.lines[LINE.values], 0.0, np.finfo(np.float64).max, "sketch.lines")
    require_within(sketch.lines, -_SQUARED, np.finfo(np.float64).max, "sketch.lines")
    require_within(np.abs(sketch.transform), 0.0, _SQUARED, "sketch.transform")
    _check_padding(sketch, rows)
    if isinstance(sketch, RankedDirections):
        require_within(
            np.diagonal(sketch.squares[FFD_SQUARE.lower])[:rows], np.finfo(float).tiny, LARGEST, "sketch.squares"
        )
    elif isinstance(sketch, Directions):
        require_within(np.diagonal(sketch.squares[SQUARE.gram]), 0.0, np.finfo(np.float64).max, "sketch.squares")


def _check_padding(sketch: State, rows: int) -> None:
    """Rows are read in whole vectors: what lies beyond the last must be 0."""
    last = (rows + 3) // 4 * 4
    require(not sketch.lines[LINE.a, rows:last].any(), "a has entries beyond its rows", "sketch.lines")
