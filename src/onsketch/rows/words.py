"""Hashing of the words of columns, with a memory of words, and bags of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, shown
from onsketch.jit.decorators import inlined, kernel
from onsketch.rows.hashing import column_mask, murmur, name_hash
from onsketch.rows.names import Names
from onsketch.rows.schema import PAIRS, Field, tokens_of

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

MOST_WORDS = 1 << 18
"""Words whose hashes are remembered at a time, for all columns together; and columns that no schema lists. One of more
than 64 characters counts as several."""


@kernel
def hash_words(text, ends, prefix, mask, key, out):
    """Hash ``prefix + word`` for each of the words that are concatenated in ``text`` (bytes,) and end at ``ends``."""
    for i in range(prefix.size):
        key[i] = prefix[i]
    start = 0
    for word in range(ends.size):
        size = prefix.size
        for at in range(start, ends[word]):
            key[size] = text[at]
            size += 1
        out[word] = np.int64(name_hash(key, 0, size, np.uint64(0)) & mask)
        start = ends[word]


@inlined
def _put_word(key, size, mask, low, end, slots, values):
    """Count the word in key[:size] in the ascending entries low..end of a row; return their end."""
    slot = np.int64(murmur(key, 0, size, np.uint64(0)) & mask)
    j = end
    while j > low and slots[j - 1] > slot:
        j -= 1
    if j > low and slots[j - 1] == slot:
        values[j - 1] += 1.0
        return end
    for i in range(end, j, -1):
        slots[i] = slots[i - 1]
        values[i] = values[i - 1]
    slots[j] = slot
    values[j] = 1.0
    return end + 1


@kernel
def bags_of_words(text, starts, stops, prefix, pairs, mask, key, ends, slots, values):
    """Count the words of ASCII texts in lower case, as hashed features in ascending order within each row.

    Text i is text[starts[i]:stops[i]]. With ``pairs``, two neighbouring words are a feature, too. Stops before the
    first text that is not ASCII and returns the number of texts done. ``ends`` receives the ends of the rows' entries.
    Cost: O(bytes), and O(words²) at worst for the order within a row.
    """
    head = prefix.size
    for i in range(head):
        key[i] = prefix[i]
    end = 0
    for row in range(starts.size):
        low, at, stop = end, starts[row], stops[row]
        for i in range(at, stop):
            if text[i] >= 128:
                return row
        before = 0  # bytes of the word before, which follows the prefix in the key
        while at < stop:
            begin = size = head + before + (before > 0)
            while at < stop:
                c = text[at]
                if 65 <= c <= 90:
                    c += np.uint8(32)
                elif not (97 <= c <= 122 or 48 <= c <= 57 or c == 95):
                    break
                key[size] = c
                size += 1
                at += 1
            if size > begin:
                if before:  # the pair first, then the word alone, which moves to the front
                    key[begin - 1] = 32
                    end = _put_word(key, size, mask, low, end, slots, values)
                    for i in range(begin, size):
                        key[head + i - begin] = key[i]
                    size += head - begin
                end = _put_word(key, size, mask, low, end, slots, values)
                before = size - head if pairs else 0
            at += 1
        ends[row] = end
    return starts.size


def weight_of(word: str) -> int:
    """Return the cost of a word in the memory of words: 1, and 1 more for every 64 characters."""
    return 1 + len(word) // 64


class Entries(NamedTuple):
    """The entries of one column: those of row i are ends[i-1]..ends[i]."""

    ends: Whole
    slots: Whole
    values: Floats


class Hashes:
    """Map from names of features to hashed columns of X, with a cache of words.

    A full cache is emptied, also by other threads. The dictionaries of listed columns stay the same objects then.
    """

    def __init__(self, bits: int, names: Names | None, listed: Iterable[str]) -> None:
        self.mask, self._column_names = column_mask(bits), names
        self.names = names if names is not None and names.words else None
        self.columns: dict[str, int] = {}
        """Hashed names of columns that no schema lists."""
        self.plans: dict[str, Any] = {}
        """Plans of those that hold more than numbers."""
        self._known: dict[tuple[str, bool], dict[str, int]] = {(name, False): {} for name in listed}
        self._listed, self._room = len(self._known), MOST_WORDS

    def of(self, words: Sequence[str], column: str) -> Whole:
        """Hash ``column=word`` for these words."""
        return self._hashed([_bytes(word) for word in words], _bytes(column) + b"=")

    def one(self, name: str, shown_as: str | None = None, named: bool = True) -> int:
        """Hash the name of a column, and keep it among the names of features if ``named``."""
        slot = int(self._hashed([_bytes(name)], b"")[0])
        if named and self._column_names is not None:
            self._column_names.add(slot, shown_as or name)
        return slot

    def enter(self, columns: Sequence[str]) -> list[int]:
        """Hash and name columns that no schema lists."""
        self.take(sum(weight_of(name) for name in columns if name not in self.columns))
        slots: list[int] = self._hashed([_bytes(name) for name in columns], b"").tolist()
        self.columns.update(zip(columns, slots, strict=True))
        if self.names is not None:
            for slot, name in zip(slots, columns, strict=True):
                self.names.add(slot, name)
        return slots

    def known(self, column: str, texts: bool = False) -> dict[str, int]:
        """Return the hashes of the categories of a column seen so far, or those of the words of its texts."""
        found = self._known.get((column, texts))
        if found is None:
            self.take(weight_of(column))
            found = self._known.setdefault((column, texts), {})
        return found

    def take(self, room: int) -> None:
        """Take room in the cache, which is emptied first if it is full."""
        self._room -= room
        if self._room < 0:
            for known in list(self._known.values()):  # in place: steps hold them
                known.clear()
            for column in list(islice(self._known, self._listed, None)):
                self._known.pop(column, None)
            self.plans.clear()
            self.columns.clear()
            self._room = MOST_WORDS

    def learn(self, column: str, words: Sequence[str], texts: bool = False) -> list[int]:
        """Hash words of a column, remember and name them; return the hashes."""
        self.take(sum(map(weight_of, words)))
        slots: list[int] = self.of(words, column).tolist()
        self.known(column, texts).update(zip(words, slots, strict=True))
        if self.names is not None:
            for slot, word in zip(slots, words, strict=True):
                self.names.add(slot, f"{column}={word}")
        return slots

    def _hashed(self, texts: list[bytes], prefix: bytes) -> Whole:
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        key = np.empty(len(prefix) + max(map(len, texts), default=0) + 8, dtype=np.uint8)
        out = np.empty(len(texts), dtype=np.int64)
        hash_words(as_bytes(b"".join(texts)), ends, as_bytes(prefix), np.uint64(self.mask), key, out)
        return out


def bags(hashes: Hashes, field: Field, text: NDArray[np.uint8], starts: Whole, stops: Whole) -> Entries:
    """The words of the texts text[starts[i]:stops[i]], compiled where they are ASCII."""
    name, count, pairs = field.name, starts.size, field.form == PAIRS
    prefix, mask = as_bytes(_bytes(name) + b"="), np.uint64(hashes.mask)
    sizes = stops - starts
    key = np.empty(prefix.size + 2 * int(sizes.max(initial=0)) + 16, dtype=np.uint8)
    room = int(sizes.sum()) // (1 if pairs else 2) + count + 1
    ends, slots, values = np.zeros(count, np.int64), np.empty(room, np.int64), np.empty(room)
    done, end = 0, 0
    while done < count:
        part = ends[done:], slots[end:], values[end:]
        more = bags_of_words(text, starts[done:], stops[done:], prefix, pairs, mask, key, *part)
        ends[done : done + more] += end
        done += more
        end = int(ends[done - 1]) if done else 0
        if done < count:  # a text that is not ASCII
            found, times = bag(hashes, field, bytes(text[starts[done] : stops[done]]).decode("utf-8", "replace"))
            slots[end : end + len(found)], values[end : end + len(found)] = found, times
            ends[done] = end = end + len(found)
            done += 1
    slots, values = slots[:end], values[:end]
    if hashes.names is not None:  # the compiled loop handles hashes only
        new = hashes.names.new(slots, hashes.mask + 1)
        for row in np.unique(np.searchsorted(ends, new, "right")).tolist():
            bag(hashes, field, bytes(text[starts[row] : stops[row]]).decode("utf-8", "replace"))
    return Entries(ends, slots, values)


def bag(hashes: Hashes, field: Field, text: str) -> tuple[list[int], list[float]]:
    """The words of a text, as features in ascending order, and their counts."""
    known, tokens = hashes.known(field.name, texts=True), [token.lower() for token in tokens_of(text)]
    if field.form == PAIRS:
        tokens += [f"{one} {two}" for one, two in pairwise(tokens)]
    found: dict[str, Any] = {token: known.get(token) for token in tokens}
    fresh = [token for token, slot in found.items() if slot is None]
    if fresh:
        found.update(zip(fresh, hashes.learn(field.name, fresh, texts=True), strict=True))
    counted = Counter(map(found.__getitem__, tokens))
    slots = sorted(counted)
    return slots, [float(counted[slot]) for slot in slots]


def as_bytes(data: Any) -> NDArray[np.uint8]:
    """Bytes as an array that compiled loops take, which is writable."""
    return np.frombuffer(data, dtype=np.uint8).copy() if len(data) else np.zeros(0, dtype=np.uint8)


def _bytes(word: str) -> bytes:
    try:
        return word.encode()
    except UnicodeEncodeError:
        raise InputError(f"{shown(word)}: half a character (a lone surrogate) cannot be hashed.") from None
