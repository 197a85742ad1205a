"""The map from a feature's index to its slot, in order of first appearance.

The state of a sparse learner has one row (a *slot*) per feature seen, for any range of indices. Slots are
assigned in order of appearance, which also keeps frequent features close in memory.

If the indices from 0 up are densely used, their slots are listed; the others are found by hashing.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import require, require_within
from onsketch.core.errors import InputError
from onsketch.core.state import GROWTH
from onsketch.jit.decorators import inlined, inner, kernel
from onsketch.learners.rows import GOLDEN, Rows, Slotted

INTERCEPT = -1
"""The index under which the constant feature of ``fit_intercept`` is filed."""

MOST_FEATURES = (1 << 31) - 1
"""Slots are counted in 32 bits."""

COUNT, HASHED, KNOWN = range(3)
"""Entries of a map's tally: features seen, those of them that are not listed, and features that ``take_out`` keeps."""

_EMPTY = np.int32(-1)
_SPARSEST = 2
"""Of the indices that the list covers, at least one in this many has been seen (estimated from a sample)."""
_SAMPLE = 8192
"""Features in that sample."""


@inner
def _shift(table):
    """How far a 64-bit hash is shifted to become a place in the table, whose size is a power of two."""
    shift = 64
    size = table.size
    while size > 1:
        size >>= 1
        shift -= 1
    return np.uint64(shift)


@inner
def _find(table, features, feature):
    """The slot of a hashed feature (or −1), and the place in the table where the search ended.

    Multiplicative hashing (Knuth 1973) with linear probing.
    """
    mask = np.uint64(table.size - 1)
    place = (np.uint64(feature) * GOLDEN) >> _shift(table)
    while True:
        slot = table[place]
        if slot < 0 or features[np.uint32(slot)] == feature:
            return slot, place
        place = (place + np.uint64(1)) & mask


@inlined
def _file(listed, table, features, tally, slot):
    """Note the slot where its feature is looked for."""
    feature = features[slot]
    if np.uint64(feature) < np.uint64(listed.size):
        listed[feature] = slot
    else:
        _, place = _find(table, features, feature)
        table[place] = slot
        tally[HASHED] += 1


@inner
def _enter(listed, table, features, tally, feature):
    """Give a feature that has none its slot."""
    slot = np.int32(tally[COUNT])
    features[slot] = feature
    tally[COUNT] += 1
    _file(listed, table, features, tally, slot)
    return slot


@kernel
def _refill(listed, table, features, tally):
    """Rebuild the list and the table from all features."""
    tally[HASHED] = 0
    for slot in range(tally[COUNT]):
        _file(listed, table, features, tally, slot)


@inlined
def _listed_row(parts, part, out, learn):
    """The slots of a row of listed features, by themselves, so that they run at the speed of memory.

    Rows known to be without zeros have been checked, and have no feature twice. Returns whether all have a slot.
    """
    listed, table, features, tally = parts
    strange = 0
    for j in range(part.size):
        strange += 1 if np.uint64(part[j]) >= np.uint64(listed.size) else 0
    if strange > 0:
        return False
    for j in range(part.size):
        slot = listed[np.uint64(part[j])]
        out[j] = slot
        strange += 1 if slot < 0 else 0
    if strange > 0 and learn:
        for j in range(part.size):
            if out[j] < 0:
                out[j] = _enter(listed, table, features, tally, np.int64(part[j]))
    return strange == 0 or learn


@inlined
def _known_run(parts, mask, shift, indices, values, zeros, known, stop, slots, end):
    """Write slots while features have one and their values are kept; return the number of entries done."""
    listed, table, features, _ = parts
    while known < stop:
        feature = np.uint64(indices[known])
        if feature < np.uint64(listed.size):
            slot = listed[feature]
        else:
            place = (feature * GOLDEN) >> shift
            slot = table[place]
            while slot >= 0 and np.uint64(features[np.uint32(slot)]) != feature:
                place = (place + np.uint64(1)) & mask
                slot = table[place]
        if slot < 0 or (zeros and values[known] == 0.0):
            break
        slots[end] = slot
        end += 1
        known += 1
    return known, end


@inlined
def _put(parts, index, value, learn, slots, kept, end):
    """Append a feature's slot and value, if it has or gets a slot; return the new end of the output."""
    listed, table, features, tally = parts
    if np.uint64(index) < np.uint64(listed.size):
        slot = listed[np.uint64(index)]
    else:
        slot, _ = _find(table, features, index)
    if slot < 0 and learn and value != 0.0:
        slot = _enter(listed, table, features, tally, index)
    if slot >= 0 and value != 0.0:
        slots[end] = slot
        kept[end] = value
        end += 1
    return end


@kernel
def translate_rows(parts, rows, intercept, learn, copying, out_ptr, slots, kept):
    """Rewrite rows in slots, without explicit zeros and, when only looking up, without unseen features.

    The values are copied to ``kept`` only from the moment on when one of them must be left out.
    Returns the number of rows done (fewer when the tables are full) and whether values were copied.

    Shapes: ``parts`` are those of the map, ``rows`` is indptr (n+1,), indices and values (nnz,) and two flags; out_ptr
    (n+1,), slots and kept (nnz,), with n more entries for an intercept.
    """
    listed, table, features, tally = parts
    indptr, indices, values, dense, zeros = rows
    mask, shift = np.uint64(table.size - 1), _shift(table)
    end = out_ptr[0]
    for row in range(indptr.size - 1):
        start = indptr[row]
        stop = indptr[row + 1]
        more = stop - start + 1
        hashed = 1 if dense else more
        # Stop before a row whose features may not fit into the tables.
        if learn and (tally[COUNT] + more > features.size or tally[HASHED] + hashed > table.size // 4 * 3):
            return row, copying
        # Rows of listed features without zeros, in one loop over the list.
        known = start
        if not (copying or zeros) and _listed_row(parts, indices[start:stop], slots[end : end + stop - start], learn):
            end += stop - start
            known = stop
        # Stretches of known features; new ones are added between them. The first value to be left out begins the copy.
        while known < stop and not copying:
            known, end = _known_run(parts, mask, shift, indices, values, zeros, known, stop, slots, end)
            if known < stop:
                if learn and values[known] != 0.0:
                    slots[end] = _enter(listed, table, features, tally, np.int64(indices[known]))
                    end += 1
                    known += 1
                else:
                    copying = True
                    for j in range(end):
                        kept[j] = values[known - end + j]
        # With a copy, value by value.
        for i in range(known, stop):
            end = _put(
                parts, np.int64(i - start) if dense else np.int64(indices[i]), values[i], learn, slots, kept, end
            )
        if intercept:
            end = _put(parts, np.int64(INTERCEPT), 1.0, learn, slots, kept, end)
        out_ptr[row + 1] = end
    return indptr.size - 1, copying


@kernel
def translate_row(parts, rows, intercept, room, out_ptr, slots, kept):
    """Rewrite one row in slots, with new slots for new features.

    Return 1, or 0 where these exceed ``room`` slots or the tables of the map. Shapes: as in ``translate_rows``.
    """
    _, table, features, tally = parts
    indptr, indices, values, _, _ = rows
    tally[KNOWN] = tally[COUNT]
    most, stop, end = table.size // 4 * 3, indptr[1], 0
    for i in range(indptr[0], stop + (1 if intercept else 0)):
        if tally[COUNT] >= features.size or tally[HASHED] >= most:
            return 0
        feature, value = (np.int64(indices[i]), values[i]) if i < stop else (np.int64(INTERCEPT), 1.0)
        end = _put(parts, feature, value, True, slots, kept, end)
    out_ptr[1] = end
    return 1 if tally[COUNT] <= room else 0


@kernel
def take_out(parts):
    """Remove all features but the first ``tally[KNOWN]``: they are as if they had never been seen."""
    listed, table, features, tally = parts
    if tally[KNOWN] < tally[COUNT]:
        tally[COUNT] = tally[KNOWN]
        for i in range(listed.size):
            listed[i] = _EMPTY
        for i in range(table.size):
            table[i] = _EMPTY
        _refill(listed, table, features, tally)


class FeatureMap:
    """Feature index → slot, by a list or by open addressing, over the features in order of appearance."""

    def __init__(self) -> None:
        self._tally = np.zeros(3, dtype=np.int64)
        self._features = np.empty(16, dtype=np.int64)
        self._listed = np.full(16, _EMPTY)
        self._table = np.full(32, _EMPTY)

    @property
    def count(self) -> int:
        """Features seen."""
        return int(self._tally[COUNT])

    @property
    def parts(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Return the arrays that compiled loops use."""
        return self._listed, self._table, self._features, self._tally

    def holds(self, parts: tuple[NDArray[Any], ...]) -> bool:
        """Return True if ``parts`` are still the arrays of this map."""
        return self._table is parts[1] and self._features is parts[2] and self._listed is parts[0]

    @property
    def room(self) -> int:
        """Number of slots. Tables of as many rows grow with the map, and not at other times."""
        return self._features.size

    @property
    def features(self) -> NDArray[np.int64]:
        """The features seen, in order of their slots."""
        return self._features[: self.count]

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self._features.nbytes + self._listed.nbytes + self._table.nbytes

    def _reserve(self, more: int, hashed: int) -> None:
        """Reserve space for ``more`` features, of which this many may have to be hashed."""
        if self.count + more > MOST_FEATURES:
            raise InputError(f"X: more than {MOST_FEATURES:,} features; hash them to fewer.")
        if self.count + more > self._features.size:
            size = max(self.count + more, self.room + self.room // GROWTH)
            self._features = np.append(self.features, np.empty(size - self.count, dtype=np.int64))
        if self._table.size // 4 * 3 < self._tally[HASHED] + hashed:
            self._file(self._dense_part(), hashed)

    def _dense_part(self) -> int:
        """Return the number of indices that the list should cover: the densely used range, estimated from a sample."""
        stride = self.count // _SAMPLE + 1
        _, bits = np.frexp(np.maximum(self.features[::stride], 0).astype(np.float64))  # n bits: below 2^n
        below = stride * np.cumsum(np.bincount(bits, minlength=32))[:32]
        sizes = np.append(1 << np.arange(32), self.features.max(initial=0) + 1.0)
        below = np.append(below, self.count)
        return int(sizes[below * _SPARSEST >= sizes].max(initial=self._listed.size))

    def _file(self, listed: int, more: int) -> None:
        """Rebuild the map with the features below ``listed`` in the list, and space for ``more``."""
        hashed = int(np.count_nonzero((self.features < 0) | (self.features >= listed)))
        size = 32
        while size // 4 * 3 < hashed + more:
            size *= 2
        self._listed, self._table = np.full(listed, _EMPTY), np.full(size, _EMPTY)  # both, or no memory for either
        _refill(self._listed, self._table, self._features, self._tally)

    def translate(self, rows: Rows, *, learn: bool, intercept: bool = False, once: bool = False) -> Slotted:
        """Return these rows as (indptr, slots, values); new features are added when learning.

        The values are those of ``rows``, not a copy, if none was left out: do not change them. With ``once``, rows
        with the same features (dense ones without zeros) share the slots of one row.

        Features of the map without a row in the learner's table would be read beyond its end. Learners therefore call
        ``admit``, and ``forget`` or ``keep_learned`` if some rows were not learned.
        """
        if rows.slotted is not None:
            return rows.slotted
        if once and learn and rows.dense and not (rows.zeros or intercept) and rows.count > 1:
            _, slots, _ = self.translate(rows.part(0, 1), learn=True)
            return rows.indptr - rows.indptr[0], slots, rows.values[rows.indptr[0] : rows.indptr[-1]]
        first, last = int(rows.indptr[0]), int(rows.indptr[-1])
        size = last - first + (rows.count if intercept else 0)
        out_ptr = np.zeros(rows.count + 1, dtype=np.int64)
        slots = np.empty(size, dtype=np.int32)
        kept = np.empty(size, dtype=np.float64)
        if rows.dense and learn and rows.n_features > self._listed.size:
            self._file(rows.n_features, 1)
        done, copying = 0, intercept or rows.dense
        while True:
            indptr, ends = (rows.indptr[done:], out_ptr[done:]) if done else (rows.indptr, out_ptr)
            block = indptr, rows.indices, rows.values, rows.dense, rows.zeros
            more, copying = translate_rows(self.parts, block, intercept, learn, copying, ends, slots, kept)
            done += more
            if done == rows.count:
                end = int(out_ptr[-1])
                return out_ptr, slots[:end], kept[:end] if copying else rows.values[first:last]
            more = int(rows.indptr[done + 1] - rows.indptr[done]) + 1
            self._reserve(more, 1 if rows.dense else more)

    def shared(self, rows: Rows, *, learn: bool, intercept: bool = False) -> Rows:
        """Return the rows with the result of ``translate``, for all maps with the same features as this one.

        When learning, rows with a new feature are returned unchanged, because each map must add it.
        """
        slotted = self.translate(rows, learn=False, intercept=intercept)
        entries = np.count_nonzero(rows.values[rows.indptr[0] : rows.indptr[-1]]) + rows.count * intercept
        return rows if learn and slotted[1].size < entries else rows._replace(slotted=slotted)

    def add(self, features: NDArray[np.int64]) -> NDArray[np.int32]:
        """The slots of these features, adding the ones not seen before."""
        indptr = np.array([0, features.size])
        return self.translate(Rows(indptr, features, np.ones(features.size), 0, dense=False), learn=True)[1]

    def find(self, features: NDArray[np.int64]) -> NDArray[np.int32]:
        """The slots of these features, without the ones not seen."""
        indptr = np.array([0, features.size])
        return self.translate(Rows(indptr, features, np.ones(features.size), 0, dense=False), learn=False)[1]

    def admit(
        self, rows: Rows, make_room: Callable[[], None], *, intercept: bool = False, once: bool = False
    ) -> Slotted:
        """Translate rows to be learned and call ``make_room`` for their features; if either fails, forget those."""
        known = self.count
        try:
            slotted = self.translate(rows, learn=True, intercept=intercept, once=once)
            make_room()
        except BaseException:  # no memory, or interrupted
            self.forget(known)
            raise
        return slotted

    def keep_learned(self, known: int, slotted: Slotted, done: int) -> None:
        """Keep the first ``known`` features and those of the first ``done`` of these rows."""
        indptr, slots, _ = slotted
        self.forget(max(known, int(slots[: indptr[done]].max(initial=-1)) + 1))

    def forget(self, count: int) -> None:
        """Keep only the first ``count`` features, and forget the others."""
        if count < self.count:
            self._tally[KNOWN] = count
            take_out(self.parts)  # in place: there may be no memory, which is why they are forgotten

    def refill(self, features: NDArray[np.int64], width: int | None = None, intercept: bool = True) -> None:
        """Let an empty map have seen these features, in this order, if rows of this width can have had them."""
        if not intercept:
            require((features != INTERCEPT).all(), "features has a constant one, and there is no intercept", "features")
        last = np.iinfo(np.int64).max if width is None else max(width - 1, INTERCEPT)
        require_within(features, INTERCEPT, last, "features")
        require(features.size < MOST_FEATURES, "features has too many", "features")
        self._features = features.copy()
        self._tally[COUNT] = features.size
        self._file(self._dense_part(), 0)
        filed = np.count_nonzero(self._listed != _EMPTY) + np.count_nonzero(self._table != _EMPTY)
        require(int(filed) == features.size, "features has one twice", "features")

    def copy(self) -> FeatureMap:
        """A map of the same features that grows by itself."""
        return deepcopy(self)
