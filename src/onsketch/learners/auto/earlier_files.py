"""Model files of before: without the heaviest weight; and of before cold features, with one light row per feature and
the buffer within the heavy rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.files.arrays import Arrays, require
from onsketch.learners.auto.state import FIGURE, FIRST_ROW, LIGHT, TALLY, WIDTH, Light, beyond_float32, light_of
from onsketch.learners.sketched.packed import CLOCK, COLUMN

COLUMNS = [*range(7), 13, *range(8, 13), 14, 7, 15]
"""Where the columns of a light row were."""

_FORMS = {
    "light.rows": ("f", 2),
    "light.heavy": ("i", 1),
    "table.rows": ("f", 2),
    "table.running": ("f", 3),
    "table.clock": ("i", 1),
    "table.touched": ("i", 1),
    "small.counts": ("i", 1),
}
"""Kind of number and dimensions of what is looked at here; the rest is checked with what is read today."""


def with_heaviest(numbers: NDArray[Any]) -> NDArray[Any]:
    """The figures of a learner; those of before had no heaviest weight, and all weights counted as one of 1 does."""
    return np.append(numbers, 1.0) if numbers.shape == (FIGURE.heaviest,) else numbers


def in_present_form(arrays: Arrays, free: int, patience: int, empty: Light) -> Arrays:
    """The arrays of a file as they would be written today; those of today as they are."""
    if "small.numbers" in arrays:
        arrays = arrays | {"small.numbers": with_heaviest(arrays["small.numbers"])}
    if "light.heavy" not in arrays:
        return arrays
    for name, form in _FORMS.items():
        array = arrays.get(name)
        require(array is not None and (array.dtype.kind, array.ndim) == form, "it has another form", name)
    rows, heavy, table = arrays["light.rows"], arrays["light.heavy"], arrays["table.rows"]
    clock, touched, counts = arrays["table.clock"].copy(), arrays["table.touched"], arrays["small.counts"]
    require(
        clock.shape == (len(CLOCK),) and arrays["table.running"].shape[1] > 0, "its shapes are others", "table.clock"
    )
    room, kept = empty.buffer.shape[1], arrays["table.running"].shape[1] - 1
    width = -(-(FIRST_ROW + kept) // 8) * 8
    require(
        counts.shape == (6,) and heavy.shape == (len(rows),) and rows.shape[1:] == (WIDTH,), "its shapes are others"
    )
    require(table.ndim == 2 and table.shape[1] >= FIRST_ROW + kept, "its shapes are others", "table.rows")
    inside = (heavy >= 0).all() and (heavy < len(table)).all() and (touched >= 0).all() and (touched < len(table)).all()
    require(inside, "a feature's sketch is not there", "light.heavy")
    rows = rows[:, COLUMNS]
    warm = (heavy > 0) | (np.arange(len(rows)) < free) | (rows[:, LIGHT.met] >= patience)
    warm |= beyond_float32(rows.astype(np.float64))
    if 0 <= counts[TALLY.constant] < len(rows):
        warm[counts[TALLY.constant]] = True
    more = np.append(counts, np.zeros(len(TALLY) - 6, dtype=np.int64))
    light = light_of(empty, more, rows.astype(np.float64), warm)
    places = light.places[: len(rows)]
    arrays = {name: array for name, array in arrays.items() if name != "light.heavy"}
    buffer = np.zeros((0, room), dtype=table.dtype)
    if kept:  # there is a sketch
        packed = np.zeros((int(warm.sum()) + 1, width), dtype=table.dtype)
        packed[:, COLUMN.epoch] = clock[CLOCK.epoch]
        had = heavy > 0
        packed[places[had], : FIRST_ROW + kept] = table[heavy[had], : FIRST_ROW + kept]
        moved = np.zeros(len(table), dtype=np.int32)
        moved[heavy[had]] = places[had]
        whole = table[touched, FIRST_ROW + kept :]
        buffer = np.zeros((len(touched), room), dtype=table.dtype)
        buffer[:, : min(room, whole.shape[1])] = whole[:, :room]
        arrays["table.rows"], arrays["table.touched"] = packed, moved[touched]
        clock[CLOCK.seen], clock[CLOCK.current] = len(packed), 0
        arrays["table.clock"] = clock
    else:
        arrays["table.rows"] = table[:, :width]
    return arrays | {
        "small.counts": more,
        "light.rows": light.rows[: more[TALLY.warm] + 1],
        "light.cold": light.cold[: more[TALLY.cold] + 1],
        "light.places": places,
        "light.buffer": buffer,
    }
