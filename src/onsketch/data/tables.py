"""CSV: what its first lines say, its scratch arrays, and blocks made from them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import OptionError, ReadError
from onsketch.data.block import Block, Position, csr
from onsketch.data.columns import Columns, Roles, find_columns
from onsketch.data.hashing import column_mask
from onsketch.data.interactions import Pairs, interact
from onsketch.data.separated import MISSING_WORDS, TAG, WEIGHT, WORD, parse_csv
from onsketch.data.sources import Bytes
from onsketch.data.text import TextFormat, longer

DELIMITERS = ",\t;|"
"""Tried where none is given: the one met most often in the first line."""

_LONGEST_HEADER = 1 << 24


class CSV(TextFormat):
    """Lines of separated values. Without categories X is dense; with some, all columns are hashed."""

    def __init__(
        self,
        rows: int,
        roles: Roles,
        header: bool | str,
        delimiter: str,
        bits: int,
        pairs: Pairs,
        names: dict[int, str],
        naming: bool,
    ) -> None:
        super().__init__(rows)
        if header not in (True, False, "auto"):
            raise OptionError(f'header={header!r}: it is True, False or "auto".')
        single = len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n'
        if delimiter != "auto" and not (single and not delimiter.isdigit()):
            raise OptionError(f'delimiter={delimiter!r}: it is one ASCII character, or "auto".')
        self.roles, self.header, self.delimiter = roles, header, delimiter
        self.bits, self.pairs, self.names, self.naming = bits, pairs, names, naming
        self.mask = column_mask(bits)
        self.columns: Columns | None = None
        self.labels = np.full(rows, np.nan)
        self.weights = np.ones(rows)
        self.tag_spans = np.zeros((rows, 2), dtype=np.int64)
        self.tags: list[str] = []
        self.marks = np.empty((0, 3), dtype=np.int64)
        self.key = np.empty(0, dtype=np.uint8)
        positive = "" if roles.positive is None else str(roles.positive)
        value = _number(positive)
        text = np.array(bytearray(positive.encode()), dtype=np.uint8)
        self.aim = text, WORD if value is None else 0, 0.0 if value is None else value

    def begin(self, source: Bytes) -> int:
        """Find the columns in the first lines of the first file; the header of later files must be the same."""
        lines = _first_lines(source)
        if not lines:
            return 0
        if self.delimiter == "auto":
            self.delimiter = max(DELIMITERS, key=lambda d: (lines[-1][0].count(d), -DELIMITERS.index(d)))
        fields = [_fields(line, self.delimiter) for line, _ in lines]
        if self.header == "auto":
            self.header = not any(_number(field) is not None for field in fields[0])
        if self.columns is None:
            names = fields[0] if self.header else [str(k) for k in range(len(fields[0]))]
            row = fields[-1] if len(fields) > int(self.header is True) else [""] * len(names)
            wordy = [field not in MISSING_WORDS and _number(field) is None for field in row]
            wordy += [False] * (len(names) - len(wordy))
            self.columns = find_columns(source.name, names, wordy[: len(names)], self.roles, self.bits)
            self.width = self.columns.width
            self.names.update(self.columns.features)
            prefixes = [f"{name}=".encode() for name in names]
            pointers = np.zeros(len(names) + 1, dtype=np.int64)
            pointers[1:] = np.cumsum([len(prefix) for prefix in prefixes])
            self.prefix = np.frombuffer(b"".join(prefixes), dtype=np.uint8)
            self.prefix_ptr = pointers
        elif self.header and tuple(fields[0]) != self.columns.names:
            raise ReadError(source.name, 1, None, "the header is not that of the first file")
        if not self.header:
            return 0
        source.skip(lines[0][1])
        return lines[0][0].count("\n")

    def resume(self, position: Position) -> None:
        """Nothing is decided by earlier blocks: the first lines of the first file say it all."""

    def reserve(self, count: int, text: int) -> None:
        """Make room for the values of ``text`` bytes after ``count`` values: an empty field takes one byte."""
        super().reserve(count, 2 * (text + 1))
        if self.naming and len(self.marks) < self.values.size:
            self.marks = longer(self.marks, self.values.size, count)
        if self.key.size < text + self.prefix.size:
            self.key = np.empty(text + self.prefix.size, dtype=np.uint8)

    def parse(self, text: NDArray[np.uint8], state: NDArray[np.int64], stop: int, budget: int, skipping: bool) -> None:
        """Parse lines of the text from ``state`` on."""
        columns = self.columns
        assert columns is not None
        table = (
            ord(self.delimiter),
            columns.kinds,
            columns.slots,
            self.prefix,
            self.prefix_ptr,
            columns.dense,
            self.roles.missing == "zero",
            self.roles.unlabelled,
            self.naming,
            np.uint64(self.mask),
        )
        into = self.indices, self.values, self.labels, self.weights, self.tag_spans, self.marks
        parse_csv(text, state, stop, budget, self.rows, skipping, table, self.aim, self.key, self.indptr, into)

    def collect(self, text: bytearray, rows: tuple[int, int], values: tuple[int, int]) -> None:
        """Keep the tags of these rows, and the names of categories met for the first time."""
        assert self.columns is not None
        if (self.columns.kinds == TAG).any():
            spans = self.tag_spans[rows[0] : rows[1]].tolist()
            self.tags.extend(_word(text, start, stop) for start, stop in spans)
        if self.naming and not self.columns.dense:
            found, first = np.unique(self.indices[values[0] : values[1]], return_index=True)
            for column, at in zip(found.tolist(), first.tolist(), strict=True):
                if column not in self.names:
                    k, start, stop = self.marks[values[0] + at].tolist()
                    self.names[column] = f"{self.columns.names[k]}={_word(text, start, stop)}"

    def word(self, rest: bytearray) -> bytearray:
        """What to show of the rest of a bad line: up to the next delimiter, unless it is that which is wrong."""
        return rest[:1] + rest[1:].split(self.delimiter.encode())[0]

    def block(self, rows: int, count: int, position: Position) -> Block:
        """The rows parsed, copied out of the scratch arrays."""
        assert self.columns is not None
        tags, self.tags = self.tags, []
        values = self.values[:count]
        if self.columns.dense and not self.pairs:
            X: Any = values.reshape(rows, self.width).copy()
        else:
            indptr, indices = self.indptr[: rows + 1], self.indices[:count]
            if self.columns.dense:
                indices = np.tile(np.arange(self.width), rows)
            if self.pairs:
                spaces = np.full(count, ord(" "), dtype=np.uint8)
                indptr, indices, values = interact(indptr, indices, values, spaces, self.pairs, self.mask)
            X = csr(indptr, indices, values, max(self.width, self.mask + 1))
        weighted = (self.columns.kinds == WEIGHT).any()
        return Block(
            rows=X,
            y=self.labels[:rows].copy(),
            sample_weight=self.weights[:rows].copy() if weighted else None,
            tags=tags if (self.columns.kinds == TAG).any() else None,
            groups=None,
            initial=None,
            position=replace(position, width=X.shape[1]),
        )


def _first_lines(source: Bytes) -> list[tuple[str, int]]:
    """The first two lines that are not blank, each with its end in the file; blank ones before belong to it."""
    size, wanted = 1 << 16, 2
    while True:
        head = source.peek(size, wanted)
        lines: list[tuple[str, int]] = []
        at = start = 0
        while len(lines) < 2 and at < len(head):
            end = head.find(b"\n", at) + 1 or len(head)
            if head[at:end].strip():
                lines.append((head[start:end].decode("utf-8", "replace"), end))
                start = end
            at = end
        complete = sum(head[:end].endswith(b"\n") for _, end in lines)
        if complete == 2 or (len(head) < size and head.count(b"\n") < wanted):
            return lines
        if size > _LONGEST_HEADER:
            raise ReadError(source.name, 1, None, f"a line of more than {_LONGEST_HEADER:,} bytes; is this CSV?")
        size, wanted = 4 * size, 4 * wanted


def _word(text: bytearray, start: int, stop: int) -> str:
    """A field as text; a doubled quote in a quoted one stands for one."""
    word = text[start:stop]
    quoted = start > 0 and text[start - 1 : start] == b'"'
    return (word.replace(b'""', b'"') if quoted else word).decode("utf-8", "replace")


def _fields(line: str, delimiter: str) -> list[str]:
    """The fields of one of the first lines, without quotes and the blanks around them."""
    line = line.strip("\r\n")
    mark = re.escape(delimiter)
    field = re.compile(rf'[ \r]*"((?:[^"]|"")*)"[ \t\r]*(?:{mark}|$)|([^{mark}]*)(?:{mark}|$)')
    fields = []
    at = 0
    while at <= len(line):
        match = field.match(line, at)
        assert match is not None  # the second form takes anything
        quoted, plain = match.groups()
        fields.append(plain.strip() if quoted is None else quoted.replace('""', '"'))
        if not match[0].endswith(delimiter):
            break
        at = match.end()
    return fields


def _number(field: str) -> float | None:
    """A field as a number, None for a word. Only for the first lines and options."""
    if "_" in field:
        return None
    try:
        return float(field)
    except ValueError:
        return None
