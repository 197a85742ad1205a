"""What the counts and epochs of a packed table can be: asked of a model file before any compiled loop follows them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onsketch.files.arrays import LONGEST_COUNT, require, require_within
from onsketch.learners.sketched.packed import CLOCK


def check_clock(clock: NDArray[np.int64], seen: int) -> None:
    """Refuse counts that no stream can have led to."""
    where = "table.clock"
    require_within(clock, 0, LONGEST_COUNT, where)
    require(clock[CLOCK.seen] == seen, f"{clock[CLOCK.seen]} slots for {seen} features", where)
    require(clock[CLOCK.touched] <= seen, "more slots in the buffer than there are", where)
    require(clock[CLOCK.current] in (0, 1), "neither asleep nor awake", where)


def check_epochs(epochs: NDArray[np.floating], touched: NDArray[np.int32], clock: NDArray[np.int64]) -> None:
    """Refuse features of a future epoch, and a list of the buffer's slots that does not name each once.

    A feature with rows in the buffer is of half an epoch more, which is how it is known to be listed already.
    """
    epoch = int(clock[CLOCK.epoch])
    listed = epochs == epoch + 0.5
    require((listed | (epochs == np.floor(epochs))).all(), "a feature is of no epoch", "table.rows")
    require_within(epochs, 0.0, epoch + 0.5, "table.rows")
    require(not clock[CLOCK.current] or (epochs >= epoch).all(), "a feature sleeps", "table.rows")
    require(np.array_equal(np.sort(touched), np.flatnonzero(listed)), "the buffer's slots are others", "table.touched")
