"""The text formats without columns, LIBSVM and VW: their scratch arrays, and blocks made from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onsketch.data.block import Block, Position
from onsketch.data.libsvm import NO_GROUP, parse_libsvm
from onsketch.data.text import TextFormat, longer
from onsketch.data.vw import INITIAL, LABEL, WEIGHT, parse_vw
from onsketch.rows.hashing import column_mask, hash_name
from onsketch.rows.interactions import Interactions, interact
from onsketch.rows.names import Names
from onsketch.rows.sparse import csr

_ANY_WIDTH = 1 << 62
_ALL_BITS = (1 << 63) - 1
UNDECIDED = -1
"""Base of LIBSVM indices before the first block, with ``zero_based="auto"``."""


class Libsvm(TextFormat):
    """LIBSVM lines. Column = index, less 1 where indices count from 1, modulo 2^bits where bits are given."""

    def __init__(
        self, rows: int, zero_based: bool | str, n_features: int | None, bits: int | None, pairs: Interactions
    ) -> None:
        super().__init__(rows)
        self.base = UNDECIDED if zero_based == "auto" else int(not zero_based)
        self.n_features = n_features
        self.mask = _ALL_BITS if bits is None else column_mask(bits)
        self.pairs = pairs
        self.hashed = 0 if bits is None else 1 << bits
        self.width = n_features or self.hashed
        self.labels = np.empty(rows)
        self.groups = np.empty(rows, dtype=np.int64)

    def parse(self, text: NDArray[np.uint8], state: NDArray[np.int64], stop: int, budget: int, skipping: bool) -> None:
        """Parse lines of the text from ``state`` on."""
        width = self.n_features or _ANY_WIDTH
        into = self.indptr, self.indices, self.values, self.labels, self.groups
        parse_libsvm(text, state, stop, budget, self.rows, skipping, max(self.base, 0), width, self.mask, *into)

    def block(self, rows: int, count: int, position: Position) -> Block:
        """Return the parsed rows, copied out of the scratch arrays."""
        indptr, indices, values = self.indptr[: rows + 1], self.indices[:count], self.values[:count]
        if self.base == UNDECIDED:
            self.base = int(indices.min(initial=1) > 0)
            indices -= self.base
        if self.pairs:
            spaces = np.full(count, ord(" "), dtype=np.uint8)
            indptr, indices, values = interact(indptr, indices, values, spaces, self.pairs, self.mask)
        if not (self.n_features or self.hashed):
            self.width = max(self.width, int(indices.max(initial=-1)) + 1)
        groups = self.groups[:rows]
        return Block(
            rows=csr(indptr, indices, values, self.width),
            y=self.labels[:rows].copy(),
            groups=groups.copy() if (groups != NO_GROUP).any() else None,
            position=_settled(position, self),
        )


@dataclass(frozen=True)
class Filter:
    """Namespaces to leave out: a single letter selects all that begin with it, a longer name one namespace."""

    ignore: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    """If any are given, all others are left out."""

    def letters(self) -> NDArray[np.bool_]:
        """Return for each byte True if namespaces that begin with it are left out."""
        table = np.zeros(256, dtype=bool)
        table[[ord(name) for name in self.ignore if len(name.encode()) == 1]] = True
        if self.keep:
            table[:] = True
            table[[ord(name) for name in self.keep if len(name.encode()) == 1]] = False
        return table

    def hashes(self) -> NDArray[np.uint64]:
        """Return hashes of the namespaces that are exceptions to their first letter."""
        names = [name for name in self.keep or self.ignore if len(name.encode()) > 1]
        return np.array([hash_name(name, bits=31) for name in names], dtype=np.uint64)


class VW(TextFormat):
    """VW lines, with names hashed to ``bits`` bits."""

    def __init__(
        self, rows: int, bits: int, pairs: Interactions, names: Names | None, spaces: Filter | None = None
    ) -> None:
        super().__init__(rows)
        self.mask = column_mask(bits)
        self.width = 1 << bits
        self.pairs = pairs
        self.names = names
        self.heads = np.empty((rows, 3))
        self.tag_spans = np.empty((rows, 2), dtype=np.int64)
        self.spaces = np.empty(0, dtype=np.uint8)
        self.met = np.zeros(256, dtype=bool)
        """First letters of namespaces seen, if products of them are made."""
        spaces = spaces or Filter()
        self.dropped, self.dropped_names = spaces.letters(), spaces.hashes()
        self.marks = np.empty((0, 4), dtype=np.int64)
        self.tags: list[str] = []

    def reserve(self, count: int, text: int) -> None:
        """Reserve space for the values of ``text`` bytes after ``count`` values."""
        super().reserve(count, text)
        if self.pairs and self.spaces.size < self.values.size:
            self.spaces = longer(self.spaces, self.values.size, count)
        if self.names is not None and len(self.marks) < self.values.size:
            self.marks = longer(self.marks, self.values.size, count)

    def parse(self, text: NDArray[np.uint8], state: NDArray[np.int64], stop: int, budget: int, skipping: bool) -> None:
        """Parse lines of the text from ``state`` on."""
        how = np.uint64(self.mask), bool(self.pairs), self.names is not None, self.dropped, self.dropped_names
        into = self.indptr, self.indices, self.values, self.heads, self.tag_spans, self.spaces, self.marks
        parse_vw(text, state, stop, budget, self.rows, skipping, *how, *into)

    def collect(self, text: bytearray, rows: tuple[int, int], values: tuple[int, int]) -> None:
        """Collect the tags of these rows, and the names of new features."""
        spans = self.tag_spans[rows[0] : rows[1]]
        if (spans[:, 1] > spans[:, 0]).any():
            self.tags.extend([""] * (rows[0] - len(self.tags)))
            self.tags.extend(text[a:b].decode("utf-8", "replace") for a, b in spans.tolist())
        if self.names is not None:
            for at in self.names.new(self.indices[values[0] : values[1]], self.mask + 1):
                space, space_stop, start, stop = self.marks[values[0] + at].tolist()
                name = text[start:stop].decode("utf-8", "replace")
                within = text[space:space_stop].decode("utf-8", "replace")
                self.names.add(int(self.indices[values[0] + at]), f"{within}^{name}" if within else name)

    def block(self, rows: int, count: int, position: Position) -> Block:
        """Return the parsed rows, copied out of the scratch arrays."""
        indptr, indices, values = self.indptr[: rows + 1], self.indices[:count], self.values[:count]
        if self.pairs:
            spaces = self.spaces[:count]
            indptr, indices, values = interact(indptr, indices, values, spaces, self.pairs, self.mask, self.names)
            self.met[np.unique(spaces)] = True
        heads = self.heads[:rows]
        tags, self.tags = self.tags, []
        tags.extend([""] * (rows - len(tags)))
        return Block(
            rows=csr(indptr, indices, values, self.width),
            y=heads[:, LABEL].copy(),
            sample_weight=heads[:, WEIGHT].copy() if (heads[:, WEIGHT] != 1.0).any() else None,
            tags=tags if any(tags) else None,
            initial=heads[:, INITIAL].copy() if heads[:, INITIAL].any() else None,
            position=_settled(position, self),
        )


def _settled(position: Position, form: TextFormat) -> Position:
    """Return the position with the decisions of this block."""
    return replace(position, width=form.width, base=form.base)
