"""CSV: its scratch arrays, and blocks made from them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError, ReadError
from onsketch.data.block import Block, Position
from onsketch.data.columns import decide, number, place_of
from onsketch.data.cursor import FEW_FIELDS, MANY_FIELDS, OPEN_QUOTE
from onsketch.data.named import NamedValues
from onsketch.data.sampling import LOOKED_AT, SAMPLE_LINES, find_decimal, find_delimiter, first_lines, is_header, split
from onsketch.data.separated import LEFT_OUT, REFUSED, ROOM, TEXT_HERE, WORD, missing_table, parse_csv
from onsketch.data.sniff import blanks_between
from onsketch.data.sources import CHUNK, Bytes
from onsketch.data.text import TextFormat, longer
from onsketch.rows.encoder import date_slots
from onsketch.rows.schema import ANY, CATEGORICAL, FEATURES, KINDS, LABEL, ORDERS, TAG, TEXT, WEIGHT, Schema, word_of
from onsketch.rows.sparse import Sparse
from onsketch.rows.words import Entries, bags

Floats = NDArray[np.float64]


class CSV(NamedValues, TextFormat):
    """Lines of separated values. Rows of numbers are parsed as dense ones; with other columns, all are hashed."""

    def __init__(self, rows: int, header: bool | str, delimiter: str, decimal: str, *common: Any) -> None:
        TextFormat.__init__(self, rows)
        NamedValues.__init__(self, *common)
        if header not in (True, False, "auto"):
            raise OptionError(f'header={header!r}: it is True, False or "auto".', header=header)
        single = len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n'
        if delimiter != "auto" and not (single and not delimiter.isdigit()):
            raise OptionError(f'delimiter={delimiter!r}: it is one ASCII character, or "auto".', delimiter=delimiter)
        if decimal not in ("auto", ".", ","):
            raise OptionError(f'decimal={decimal!r}: it is ".", "," or "auto".', decimal=decimal)
        self.header, self.delimiter, self.decimal = header, delimiter, decimal
        self._codes: dict[bytes, float] = {}
        self.labels = np.full(rows, np.nan)
        self.weights = np.ones(rows)
        self.tag_spans = np.zeros((rows, 2), dtype=np.int64)
        self.word_spans = np.zeros((rows, 2), dtype=np.int64)
        self.tags: list[str] = []
        self.record_spans = np.zeros((rows, 2), dtype=np.int64)
        self._carried: dict[str, int] = {}
        """Places of the columns passed through, by name."""
        self._cells: dict[str, list[Any]] = {}
        self.marks = np.empty((0, 3), dtype=np.int64)
        self.spaces = np.empty(0, dtype=np.uint8)
        self.key = np.empty(0, dtype=np.uint8)
        self.breaks = np.zeros(3, dtype=np.int64)
        self._bags: list[tuple[NDArray[np.int64], Entries]] = []
        """The words of texts: places of the texts among the values, and their entries."""
        positive = "" if self.roles.positive is None else str(self.roles.positive)
        value = number(positive)
        text = np.array(bytearray(positive.encode()), dtype=np.uint8)
        self.aim = text, WORD if value is None else 0, 0.0 if value is None else value

    def begin(self, source: Bytes) -> int:
        """Find the columns in the first lines of the first file; those of later files are found by name."""
        head = first_lines(source, 1 if self.decided else SAMPLE_LINES)
        if not head.lines:  # blank lines only: they have no rows, as an empty file has none
            while source.read(CHUNK):
                pass
            return 0
        if not self.decided:
            self.schema, self.decided = self._decide(source.name, head.lines), True
        self.delimiter, self.header = self.schema.delimiter, self.schema.header
        (names,) = split(head.lines[:1], self.delimiter)
        names = names if self.header else [str(k) for k in range(len(names))]
        sample = None
        if self.given and os.path.isfile(source.name):  # a pipe may not have brought enough to look at
            rows = split(first_lines(source, LOOKED_AT).lines, self.delimiter)[int(self.header) :]
            sample = {name: [row[k] for row in rows if len(row) > k] for k, name in enumerate(names)}
        first = not self.begun
        try:
            self.match(source.name, names, sample)
        except InputError as error:
            if first:
                raise
            raise ReadError(source.name, 1, None, f"the header is not that of the first file ({error})") from None
        self._carried = {names[k]: k for k in (place_of(source.name, names, n, "columns") for n in self.roles.columns)}
        self._cells = {name: [] for name in self._carried}
        self._describe_columns()
        if not self.header:
            return 0
        source.skip(head.first_end)
        return head.first_lines

    def _describe_columns(self) -> None:
        """Describe the columns of a file to the parser."""
        fields, encoder, roles = self.columns.fields, self.encoder, self.roles
        listed = {id(plan.field): plan for plan in encoder.plans}
        missing = REFUSED if roles.missing == "error" else LEFT_OUT
        slots, absent = np.zeros(len(fields), dtype=np.int64), np.full(len(fields), missing, dtype=np.int64)
        dates = np.zeros((len(fields), 45), dtype=np.int64)
        for k, field in enumerate(fields):
            if field.kind in FEATURES:
                plan = listed.get(id(field)) or encoder.unlisted(field.name)
                slots[k], absent[k] = plan.own, REFUSED if plan.strict else plan.gap
            if field.kind == "date":
                dates[k] = [*date_slots(encoder.hashes, field.name), field.start]
        self.kinds = np.array([KINDS[field.kind] for field in fields], dtype=np.uint8)
        self._kinds = set(self.kinds.tolist())
        self.gone = [listed[id(field)] for field in self.columns.gone]
        self.width = encoder.width
        prefixes = [f"{field.name}=".encode() for field in fields]
        pointers = np.cumsum([0, *map(len, prefixes)])
        prefix = np.frombuffer(b"".join(prefixes) or b" ", dtype=np.uint8)
        forms = np.array([ORDERS[one.form] if one.kind == "date" else one.comma for one in fields], dtype=np.int64)
        origins = np.array([self.pairs.origin(field.name) for field in fields], dtype=np.uint8)
        gaps = missing_table([word for word in self.schema.missing_words if isinstance(word, str)])
        numbers = np.array([word for word in self.schema.missing_words if isinstance(word, float)], dtype=np.float64)
        width = 0 if self.schema.hashed else self.width
        self._table = (
            ord(self.delimiter), forms, self.kinds, slots, absent, origins, prefix, pointers, width,
            roles.unlabelled, self.schema.word_labels, np.uint64(encoder.hashes.mask), dates,
            gaps, numbers,
        )  # fmt: skip

    def _decide(self, path: str, lines: list[str]) -> Schema:
        """The schema that the first lines of the first file suggest."""
        delimiter = find_delimiter(lines) if self.delimiter == "auto" else self.delimiter
        rows = split(lines, delimiter)
        words = {len(one.split()) for one in lines}
        if len(rows[0]) == 1 < max(words) and len(words) == 1:
            raise blanks_between(path)
        header = self.header
        if header == "auto":
            header = is_header(rows[0], rows[1:])
        names = rows[0] if header else [str(k) for k in range(len(rows[0]))]
        rows = rows[1:] if header else rows
        decimal = find_decimal(rows, delimiter) if self.decimal == "auto" else self.decimal
        columns = [[row[k] for row in rows if len(row) > k] for k in range(len(names))]
        self.sample = dict(zip(names, columns, strict=True))
        mark = "auto" if self.decimal == "auto" and decimal == "." else decimal
        schema = decide(path, names, columns, self.roles, mark)
        return replace(schema, header=bool(header), delimiter=delimiter, decimal=decimal)

    def resume(self, position: Position) -> None:
        """Do nothing: the first lines of the first file decide everything, so earlier blocks leave no state."""

    def reserve(self, count: int, text: int) -> None:
        """Reserve space for the values of ``text`` bytes after ``count`` values: an empty field takes one byte."""
        wider = 1 if self.schema.hashed else 1 + self.width // len(self.kinds)  # a file may lack columns
        super().reserve(count, 2 * (text + 1) * wider)
        if self.schema.hashed and len(self.marks) < self.values.size:
            self.marks = longer(self.marks, self.values.size, count)
            self.spaces = longer(self.spaces, self.values.size, count)
        room = text + self._table[6].size + ROOM
        if self.key.size < room:
            self.key = np.empty(room, dtype=np.uint8)

    def parse(self, text: NDArray[np.uint8], state: NDArray[np.int64], stop: int, budget: int, skipping: bool) -> None:
        """Parse lines of the text from ``state`` on."""
        into = (
            self.indices, self.values, self.labels, self.weights, self.tag_spans, self.word_spans, self.marks,
            self.spaces, self.breaks, self.record_spans,
        )  # fmt: skip
        table = *self._table, stop
        parse_csv(text, state, stop, budget, self.rows, skipping, table, self.aim, self.key, self.indptr, into)

    def collect(self, text: bytearray, rows: tuple[int, int], values: tuple[int, int]) -> None:
        """Keep the tags and the labels that are words, and the names of new categories."""
        fields = self.columns.fields
        if TAG in self._kinds:
            spans = self.tag_spans[rows[0] : rows[1]].tolist()
            self.tags.extend(_word(text, start, stop) for start, stop in spans)
        if self.schema.word_labels and LABEL in self._kinds:
            spans = self.word_spans[rows[0] : rows[1]].tolist()
            self.labels[rows[0] : rows[1]] = [self._code(text, start, stop) for start, stop in spans]
        if self._carried:
            for start, stop in self.record_spans[rows[0] : rows[1]].tolist():
                (record,) = split([text[start:stop].decode("utf-8", "replace")], self.delimiter)
                for name, place in self._carried.items():
                    self._cells[name].append(record[place])
        part = slice(*values)
        indices = self.indices[part]
        if TEXT in self._kinds:
            array, texts = np.frombuffer(text, dtype=np.uint8), np.flatnonzero(indices == TEXT_HERE)
            marks = self.marks[part][texts]
            for k in np.flatnonzero(self.kinds == TEXT):
                ours = marks[:, 0] == k
                found = bags(self.encoder.hashes, fields[k], array, marks[ours, 1], marks[ours, 2])
                self._bags.append((values[0] + texts[ours], found))
        if self.names.words and self._kinds & {CATEGORICAL, ANY}:
            known: Any = np.flatnonzero(indices >= 0) if TEXT in self._kinds else slice(None)
            for at in np.arange(indices.size)[known][self.names.new(indices[known], self.encoder.width)]:
                k, start, stop = self.marks[values[0] + at].tolist()
                if k >= 0:
                    self.names.add(int(indices[at]), f"{fields[k].name}={_word(text, start, stop)}")

    def _code(self, text: bytearray, start: int, stop: int) -> float:
        """Return the index of a label among the words seen; NaN if it is missing."""
        if stop == 0:
            return np.nan
        quoted = text[start - 1 : start] == b'"'
        key = bytes(text[start:stop])
        code = self._codes.get(key)
        if code is None:
            name = (key.replace(b'""', b'"') if quoted else key).decode("utf-8", "replace")
            code = self._codes[key] = self.read.code(word_of(name))
        return code

    def word(self, rest: bytearray) -> bytearray:
        """Return the part of a bad line to show: up to the next delimiter, unless the delimiter itself is wrong."""
        return rest[:1] + rest[1:].split(self.delimiter.encode())[0]

    def reason(self, code: int, found: str) -> tuple[str, dict[str, Any]]:
        """Return the reason of a bad line, with the column and what can be done."""
        reason, options = super().reason(code, found)
        if code in (FEW_FIELDS, MANY_FIELDS, OPEN_QUOTE):
            return reason, options
        return self.remedy(self.columns.fields[int(self.breaks[2])].name, reason)

    def block(self, rows: int, count: int, position: Position) -> Block:
        """The rows parsed, copied out of the scratch arrays."""
        tags, self.tags = self.tags, []
        cells, self._cells = self._cells, {name: [] for name in self._carried}
        X: Any = self._hashed(rows, count) if self.schema.hashed else self._dense(rows, count)
        return Block(
            rows=X,
            y=self.labels[:rows].copy(),
            sample_weight=self.weights[:rows].copy() if WEIGHT in self._kinds else None,
            tags=tags if TAG in self._kinds else None,
            columns=cells or None,
            position=replace(position, width=X.shape[1]),
        )

    def _dense(self, rows: int, count: int) -> Sparse | Floats:
        """The rows of a table of numbers; columns that the file lacks are missing."""
        X = self.values[:count].reshape(rows, self.width).copy()
        X[:, [plan.own for plan in self.gone]] = np.nan
        return self.encoder.dense(X)

    def _hashed(self, rows: int, count: int) -> Sparse:
        """The rows of a table with other columns, with the words of each text in the place of its entry."""
        found, self._bags = self._bags, []
        indptr, indices, values, spaces = (
            self.indptr[: rows + 1],
            self.indices[:count],
            self.values[:count],
            self.spaces,
        )
        spaces = spaces[:count]
        if found:
            sizes = np.ones(count, dtype=np.int64)
            for places, words in found:
                sizes[places] = np.diff(words.ends, prepend=0)
            ends = np.cumsum(sizes)
            indices, values, spaces = np.repeat(indices, sizes), np.repeat(values, sizes), np.repeat(spaces, sizes)
            for places, words in found:
                targets = np.repeat(ends[places] - words.ends, sizes[places]) + np.arange(words.slots.size)
                indices[targets], values[targets] = words.slots, words.values
            indptr = np.concatenate([[0], ends])[indptr]
        gone = [plan for plan in self.gone if plan.gap >= 0]
        if gone:
            ends = np.repeat(indptr[1:], len(gone))
            indices = np.insert(indices, ends, np.tile([plan.gap for plan in gone], rows))
            values = np.insert(values, ends, 1.0)
            spaces = np.insert(spaces, ends, np.tile([self.pairs.origin(plan.name) for plan in gone], rows))
            indptr = indptr + len(gone) * np.arange(rows + 1)
        return self.encoder.sparse(indptr, indices, values, spaces)


def _word(text: bytearray, start: int, stop: int) -> str:
    """A field as text; a doubled quote in a quoted field is one quote."""
    word = text[start:stop]
    quoted = start > 0 and text[start - 1 : start] == b'"'
    return (word.replace(b'""', b'"') if quoted else word).decode("utf-8", "replace")
