"""Weights for pairs of a feature and a class, kept only for pairs that have met: memory for the classes that matter.

A feature has a list of classes, each with the weights of the four experts beside it; it lies in one piece somewhere in
an arena, in a place of a power of two of pairs. A list that has filled its place moves to a larger one, and leaves the
old place to others.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.jit.decorators import exact

EXPERTS = 4
SMALLEST = 4
"""Pairs of the smallest place."""
LEVELS = 28


class Wide(NamedTuple):
    """Tables for wide rows."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int32]
    rooms: NDArray[np.int32]
    """Where the list of each feature is, its pairs, and how many it has room for."""
    energies: NDArray[np.float64]
    """(features, 3): AdaGrad's, of experts 0, 1 and 3."""
    classes: NDArray[np.int32]
    weights: Any
    """(pairs, EXPERTS), float32 or float64."""
    free: NDArray[np.int64]
    """The first free place of each size, −1 for none; a free place has the next one in ``classes``."""
    tail: NDArray[np.int64]
    """Pairs of the arena in use."""

    @classmethod
    def empty(cls, features: int, pairs: int, dtype: Any) -> Self:
        """Without any pair."""
        return cls(
            starts=np.zeros(features, np.int64),
            lengths=np.zeros(features, np.int32),
            rooms=np.zeros(features, np.int32),
            energies=np.zeros((features, 3)),
            classes=np.zeros(pairs, np.int32),
            weights=np.zeros((pairs, EXPERTS), dtype),
            free=np.full(LEVELS, -1),
            tail=np.zeros(1, np.int64),
        )

    def with_features(self, features: int) -> Wide:
        """The same, with room for so many features."""
        more = features - len(self.starts)
        columns = {name: np.append(getattr(self, name), np.zeros(more, np.int32)) for name in ("lengths", "rooms")}
        energies = np.append(self.energies, np.zeros((more, 3)), axis=0)
        return self._replace(starts=np.append(self.starts, np.zeros(more, np.int64)), energies=energies, **columns)

    def with_pairs(self, pairs: int) -> Wide:
        """The same, with room for so many pairs; no copy is made where the system can help it."""
        self.classes.resize(pairs, refcheck=False)
        self.weights.resize((pairs, EXPERTS), refcheck=False)
        return self


@exact
def level_of(pairs):
    """The size of the place for so many pairs: SMALLEST·2^level."""
    level = 0
    while (SMALLEST << level) < pairs:
        level += 1
    return level


@exact
def make_room(table, feature, pairs):
    """Move a feature's list to a place with room for so many pairs; there must be one."""
    level = level_of(pairs)
    place = table.free[level]
    if place >= 0:
        table.free[level] = table.classes[place]
    else:
        place = table.tail[0]
        table.tail[0] += SMALLEST << level
    start = table.starts[feature]
    for i in range(table.lengths[feature]):
        table.classes[place + i] = table.classes[start + i]
        for e in range(EXPERTS):
            table.weights[place + i, e] = table.weights[start + i, e]
    if table.rooms[feature] > 0:
        old = level_of(table.rooms[feature])
        table.classes[start] = table.free[old]
        table.free[old] = start
    table.starts[feature] = place
    table.rooms[feature] = SMALLEST << level


@exact
def missing(table, feature, active, count):
    """How many of the active classes a feature's list lacks; ``active`` marks them."""
    start = table.starts[feature]
    found = 0
    for i in range(start, start + table.lengths[feature]):
        found += active[table.classes[i]]
    return count - found


@exact
def needed(table, feature, more):
    """Pairs of the arena that a list takes which grows by so many: 0 if there is room where it is."""
    pairs = table.lengths[feature] + more
    return 0 if pairs <= table.rooms[feature] else SMALLEST << level_of(pairs)


@exact
def add_to(table, feature, paces, moves, active, listed, count, more):
    """``w_ke −= pace_e·move_ke`` for the active classes, entering those that the list lacks (``more`` of them)."""
    if table.lengths[feature] + more > table.rooms[feature]:
        make_room(table, feature, table.lengths[feature] + more)
    start = table.starts[feature]
    length = table.lengths[feature]
    for i in range(start, start + length):
        k = table.classes[i]
        if active[k]:
            for e in range(EXPERTS):
                table.weights[i, e] -= paces[e] * moves[k, e]
            active[k] = 2  # done
    for c in range(count):
        k = listed[c]
        if active[k] == 1:
            i = start + length
            table.classes[i] = k
            for e in range(EXPERTS):
                table.weights[i, e] = -paces[e] * moves[k, e]
            length += 1
        active[k] = 1
    table.lengths[feature] = length


@exact
def add_margins(table, feature, x, z):
    """``z_ke += w_ke·x_e`` for the classes that a feature has met."""
    start = table.starts[feature]
    for i in range(start, start + table.lengths[feature]):
        k = table.classes[i]
        for e in range(EXPERTS):
            z[k, e] += table.weights[i, e] * x[e]
