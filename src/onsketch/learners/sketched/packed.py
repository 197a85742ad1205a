"""The packed table: everything a learner keeps per feature, in one row of memory, brought up to date lazily.

A learner's weights are ``w = base·h + Sᵀa``: a head h (one number per feature), a few sketch rows S and small
vectors. Per feature the table holds one row

    [ head | epoch | diagonal | sum | s_1 … s_k | buffer rows … ]

so that a non-zero of an example costs one or two cache lines for *everything* the round needs to know of it.

A sketch that turns all its rows leaves most features to be turned when they are next met: see ``epochs``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Columns(NamedTuple):
    """Columns of a packed row."""

    head: int
    """h"""
    epoch: int
    """the epoch it is up to"""
    diagonal: int
    """Σg² for the diagonal adaptation"""
    sum: int
    """for the sum of iterates"""
    sketch: int
    """the first of the sketch rows"""


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
    """a row on its way through the log"""


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
    """whether no feature sleeps, so that no epoch need be looked up"""
    met: int
    """non-zeros met since the last epoch ended, while some sleep"""


CLOCK = Clock(*range(6))


class Table(NamedTuple):
    """The packed rows and the log of transforms not yet applied to all of them."""

    rows: NDArray[np.floating]
    """(slots, width), in float64 or float32."""
    features: NDArray[np.int64]
    """The feature of each slot."""
    clock: NDArray[np.int64]
    touched: NDArray[np.int32]
    """Slots that have buffer rows in this epoch, in order."""
    running: NDArray[np.float64]
    """(LEVELS·RADIX, k, k+2 padded): products from the start of a complete unit of the current block to now."""
    past: NDArray[np.float64]
    """Products from the start of a past unit to the end of its block, level after level.

    A product is stored as it is applied: row j says where s_j goes, to the k new rows, to the head, to the sum."""
    places: NDArray[np.int64]
    """Where each level starts in ``past``."""
    work: NDArray[np.float64]
    """Scratch of a round, rows as wide as a packed row."""
