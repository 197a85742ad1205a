"""Packed tables: making, growing, saving, and restoring them from files whose counts have been checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onsketch.files.arrays import LONGEST_COUNT, Arrays, require, require_within, take
from onsketch.jit.vectors import aligned_zeros, padded
from onsketch.learners.sketched.epochs import BITS, LEVELS, RADIX, epoch_limit
from onsketch.learners.sketched.packed import CLOCK, COLUMN, Table


def new_table(columns: int, k: int, dtype: np.dtype[np.floating]) -> Table:
    """An empty table for ``columns`` sketch columns, ``k`` of them subject to transforms."""
    width = padded(COLUMN.sketch + columns, 8)
    table = Table(
        rows=aligned_zeros(0, width, dtype),
        features=np.empty(0, dtype=np.int64),
        clock=np.array([0, 0, 0, 0, 1, 0], dtype=np.int64),
        touched=np.empty(0, dtype=np.int32),
        running=np.zeros((RADIX * LEVELS, k, padded(k + 2))),
        past=np.zeros((0, k, padded(k + 2))),
        places=np.zeros(LEVELS, dtype=np.int64),
        work=np.zeros((4, width)),
    )
    return _with_log_room(table, 0)


def grown(table: Table, features: NDArray[np.int64], logs: bool) -> Table:
    """The table with a row for each of these features (the first ones being those it has)."""
    have = table.rows.shape[0]
    if features.size > have:
        size = max(features.size, have + have // 8, 16)
        rows = aligned_zeros(size, table.rows.shape[1], table.rows.dtype)
        rows[:have] = table.rows
        touched = np.zeros(size, dtype=np.int32)
        touched[:have] = table.touched
        table = table._replace(rows=rows, touched=touched)
        if logs:
            table = _with_log_room(table, size)
    return table._replace(features=features)


def _with_log_room(table: Table, slots: int) -> Table:
    """Room for as many epochs as this many slots may see between two settlements."""
    epoch = int(table.clock[CLOCK.epoch])
    limit = max(epoch_limit.py_func(slots * table.rows.strides[0], table.running.shape[1]), epoch + 1)
    sizes = [RADIX * ((limit >> BITS * (level + 1)) + 1) for level in range(LEVELS)]
    places = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    past = np.zeros((sum(sizes), *table.past.shape[1:]))
    for level, (start, target) in enumerate(zip(table.places, places, strict=True)):
        units = table.past[start:][: _past_units(epoch, level)]
        past[target : target + len(units)] = units
    return table._replace(past=past, places=places)


def saved(table: Table) -> Arrays:
    """The table as a model file keeps it: the rows in use and the log, as they are, nothing brought up to date."""
    clock, levels = table.clock, range(LEVELS)
    past = [table.past[table.places[level] :][: _past_units(int(clock[CLOCK.epoch]), level)] for level in levels]
    return {
        "rows": table.rows[: clock[CLOCK.seen]],
        "clock": clock,
        "touched": table.touched[: clock[CLOCK.touched]],
        "running": table.running,
        "past": np.concatenate(past),
    }


def filled(table: Table, arrays: Arrays, features: NDArray[np.int64], logs: bool) -> Table:
    """An empty table filled with what ``saved`` kept."""
    seen = features.size
    clock = take(arrays, "clock", np.int64, (6,))
    rows = take(arrays, "rows", table.rows.dtype, (seen, table.rows.shape[1]))
    _check_clock(clock, seen)
    epoch = int(clock[CLOCK.epoch])
    # auto's files of before cold features have rows up to twice as wide
    limit = epoch_limit.py_func(2 * seen * table.rows.strides[0], table.running.shape[1])
    require(epoch < max(limit, 1), "too many epochs", "table.clock")
    touched = take(arrays, "touched", np.int32, (int(clock[CLOCK.touched]),))
    _check_epochs(rows[:, COLUMN.epoch], touched, clock)
    table = grown(table, features, logs)
    table.rows[:seen] = rows
    table.touched[: touched.size] = touched
    table.clock[:] = clock
    if logs:
        table = _with_log_room(table, table.rows.shape[0])
    table.running[:] = take(arrays, "running", np.float64, table.running.shape)
    units = [_past_units(epoch, level) for level in range(LEVELS)]
    past = take(arrays, "past", np.float64, (sum(units), *table.past.shape[1:]))
    for place, stop, count in zip(table.places, np.cumsum(units), units, strict=True):
        table.past[place : place + count] = past[stop - count : stop]
    return table


def _past_units(epoch: int, level: int) -> int:
    """How many past units of a level the log holds."""
    return RADIX * (epoch >> BITS * (level + 1))


def _check_clock(clock: NDArray[np.int64], seen: int) -> None:
    """Refuse counts that no stream can have led to."""
    where = "table.clock"
    require_within(clock, 0, LONGEST_COUNT, where)
    require(clock[CLOCK.seen] == seen, f"{clock[CLOCK.seen]} slots for {seen} features", where)
    require(clock[CLOCK.touched] <= seen, "more slots in the buffer than there are", where)
    require(clock[CLOCK.current] in (0, 1), "neither asleep nor awake", where)


def _check_epochs(epochs: NDArray[np.floating], touched: NDArray[np.int32], clock: NDArray[np.int64]) -> None:
    """Refuse features of a future epoch, and a list of the buffer's slots that does not name each once.

    A feature with rows in the buffer is of half an epoch more, which is how it is known to be listed already.
    """
    epoch = int(clock[CLOCK.epoch])
    listed = epochs == epoch + 0.5
    require((listed | (epochs == np.floor(epochs))).all(), "a feature is of no epoch", "table.rows")
    require_within(epochs, 0.0, epoch + 0.5, "table.rows")
    require(not clock[CLOCK.current] or (epochs >= epoch).all(), "a feature sleeps", "table.rows")
    require(np.array_equal(np.sort(touched), np.flatnonzero(listed)), "the buffer's slots are others", "table.touched")
