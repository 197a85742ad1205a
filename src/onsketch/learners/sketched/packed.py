"""The packed table: all numbers that a learner keeps for a feature, in one row of memory, brought up to date lazily.

A learner's weights are ``w = base·h + Sᵀa``: a head h (one number for each feature), the rows S of the sketch, and one
coefficient in a for each of them. The table has one row for each feature seen

    [ head | epoch | diagonal | sum | s_1 … s_k | buffer rows … ]

so that a non-zero of an example reads one or two cache lines for *all* numbers that the round needs. If a feature has
more than two heads, the others come after s_k, and buffer rows are elsewhere.

When a sketch rotates all its rows, most features are rotated later, when they next occur: see ``epochs``.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import LONGEST_COUNT, require, require_within
from onsketch.core.state import Array, grow, new
from onsketch.jit.decorators import inner
from onsketch.jit.vectors import LANES, padded

COUNTED = (0, LONGEST_COUNT)

BITS, LEVELS = 4, 5
"""Epochs are counted in base 2^BITS; LEVELS digits are enough for a million of them."""

RADIX = 1 << BITS


@inner
def further_heads(k, entry):
    """Return the number of heads after s_k; a log entry has them after head and sum, which end in padding."""
    return entry - (k + 2 + LANES - 1) // LANES * LANES


@inner
def epoch_limit(size, k, heads):
    """Return the number of epochs to log between flushes: 64, plus what fits into a twelfth of ``size`` bytes."""
    return min(64 + size // (12 * 8 * (k + 1) * (k + 2 + heads)), (1 << BITS * LEVELS) - 1)


@inner
def _logged(epoch):
    """Return the number of units in ``past`` after so many epochs: RADIX for each ended block of each level."""
    units = 0
    for level in range(1, LEVELS + 1):
        units += RADIX * (epoch >> BITS * level)
    return units


logged = _logged.py_func


@inner
def place_of(level, unit):
    """Return the index in ``past`` of a unit of an ended block: blocks are stored in the order in which they end."""
    end = ((unit >> BITS) + 1) << BITS * (level + 1)
    return _logged(end - 1) + RADIX * level + (unit & (RADIX - 1))


class Columns(NamedTuple):
    """Columns of a packed row."""

    head: int
    """h, the feature's number in the head"""
    epoch: int
    """the epoch to which the row has been brought up to date"""
    diagonal: int
    """Σg² for the diagonal adaptation"""
    sum: int
    """part of the sum of iterates, for averaging"""
    sketch: int
    """s_1, the feature's entry in the first row of S"""


COLUMN = Columns(*range(5))


class Scratch(NamedTuple):
    """Rows of a table's scratch."""

    gathered: int
    """Σ x_i·row_i"""
    along: int
    """coefficients on the sketch's rows"""
    change: int
    """what a round adds to a row"""
    moved: int
    """a row while logged transforms are applied"""


SCRATCH = Scratch(*range(4))


class Clock(NamedTuple):
    """Entries of a table's clock."""

    rounds: int
    """rounds played"""
    seen: int
    """slots in use"""
    epoch: int
    """epochs logged"""
    touched: int
    """slots with rows in the buffer"""
    current: int
    """1 if all features are up to date, so that no epoch need be checked"""
    met: int
    """non-zeros read since the last epoch ended, while some features are behind"""
    unmeasured: int
    """non-zeros read since the small matrices were computed from the rows; counted if the rows are in float32"""


CLOCK = Clock(*range(7))


class Table(NamedTuple):
    """The packed rows, and the log of transforms that some of them still need."""

    rows: Annotated[NDArray[np.floating], Array("slots width", "real", aligned=True)]
    """Packed rows, in float64 or float32."""
    features: Annotated[NDArray[np.int64], Array("slots", "i8", borrowed=True)]
    """The feature of each slot: the feature map's own array."""
    clock: Annotated[NDArray[np.int64], Array("7", "i8", start=(0, 0, 0, 0, 1, 0, 0), within=COUNTED)]
    touched: Annotated[NDArray[np.int32], Array("slots", "i4", scratch=True)]
    """Slots that have buffer rows in this epoch, in order; also given by the rows' epochs."""
    running: Annotated[NDArray[np.float64], Array("units k entry")]
    """Products from the start of a complete unit of the current block to now, for each level and digit."""
    past: Annotated[NDArray[np.float64], Array("log k entry")]
    """Products from the start of a past unit to the end of its block, in the order in which blocks end.

    A product is stored as it is applied: row j says where s_j goes, to the k new rows, to the head, to the sum, to
    further heads."""
    work: Annotated[NDArray[np.float64], Array("4 width", scratch=True)]
    """Scratch of a round, rows as wide as a packed row."""

    def used(self) -> dict[str, int]:
        """Return the slots and log entries in use."""
        return {"slots": int(self.clock[CLOCK.seen]), "log": logged(int(self.clock[CLOCK.epoch]))}

    def check(self, prefix: str, slots: int, log: int) -> None:
        """Raise ModelFileError for counts and epochs that no stream leads to: compiled loops check no bounds."""
        clock, epochs = self.clock, self.rows[:slots, COLUMN.epoch]
        epoch, where = int(clock[CLOCK.epoch]), f"{prefix}.clock"
        listed = np.flatnonzero(epochs == epoch + 0.5)  # with rows in the buffer
        require(clock[CLOCK.seen] == slots, f"{clock[CLOCK.seen]} slots for {slots} features", where)
        require(clock[CLOCK.touched] == listed.size, "the buffer's slots are others", where)
        require(clock[CLOCK.current] in (0, 1), "the flag of features that are behind is neither 0 nor 1", where)
        limit = _epoch_limit(self, slots * self.rows.strides[0])
        require(epoch < max(limit, 1) and log == logged(epoch), "its log is of other epochs", where)
        require_within(epochs, 0.0, epoch + 0.5, f"{prefix}.rows")
        require(np.count_nonzero(epochs % 1.0) == listed.size, "a feature is of no epoch", f"{prefix}.rows")
        require(not clock[CLOCK.current] or (epochs >= epoch).all(), "a feature is behind", f"{prefix}.rows")
        self.touched[: listed.size] = listed


def new_table(columns: int, k: int, dtype: Any, heads: int = 0) -> Table:
    """Return an empty table for ``columns`` sketch columns, ``k`` of them subject to transforms, and further heads."""
    entry = padded(k + 2) + padded(heads)
    width = padded(COLUMN.sketch + (entry if heads else columns), 8)
    table = new(Table, slots=0, width=width, units=RADIX * LEVELS, k=k, entry=entry, log=0, real=dtype)
    return roomy(table, 0)


def _epoch_limit(table: Table, size: int) -> int:
    _, k, entry = table.running.shape
    return int(epoch_limit.py_func(size, k, further_heads.py_func(k, entry)))


def roomy(table: Table, slots: int) -> Table:
    """Return the table with space for ``slots`` features, and for the epochs between two flushes."""
    table = grow(table, slots=slots)
    roomier: Table = grow(table, log=logged(_epoch_limit(table, table.rows.nbytes)))
    return roomier
