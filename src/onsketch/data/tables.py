"""CSV: its scratch arrays, and blocks made from them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError, ReadError, meant, some
from onsketch.data.block import Block, Position
from onsketch.data.columns import MISSING, Roles, decide, number, place_of, refuse_changed, with_label
from onsketch.data.sampling import (
    LOOKED_AT,
    SAMPLE_LINES,
    find_decimal,
    find_delimiter,
    first_lines,
    is_header,
    look_at,
    split,
)
from onsketch.data.separated import ROOM, TEXT_HERE, WORD, parse_csv
from onsketch.data.sources import CHUNK, Bytes
from onsketch.data.text import TextFormat, longer
from onsketch.rows.encoder import Entries, Hashes, bags
from onsketch.rows.hashing import column_mask
from onsketch.rows.interactions import Interactions, interact
from onsketch.rows.labels import Labels
from onsketch.rows.names import Names
from onsketch.rows.schema import (
    ANY,
    CATEGORICAL,
    FEATURES,
    LABEL,
    MISSING_WORDS,
    TAG,
    TEXT,
    WEIGHT,
    Columns,
    Schema,
    fitted,
    without_label,
    word_of,
)
from onsketch.rows.sparse import Sparse, csr, sparse_with_gaps

Floats = NDArray[np.float64]


class CSV(TextFormat):
    """Lines of separated values. Without categories and gaps X is dense; with categories, all columns are hashed."""

    def __init__(
        self,
        rows: int,
        roles: Roles,
        header: bool | str,
        delimiter: str,
        decimal: str,
        schema: Schema | None,
        bits: int,
        pairs: Interactions,
        names: Names,
        naming: bool,
    ) -> None:
        super().__init__(rows)
        if header not in (True, False, "auto"):
            raise OptionError(f'header={header!r}: it is True, False or "auto".', header=header)
        single = len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n'
        if delimiter != "auto" and not (single and not delimiter.isdigit()):
            raise OptionError(f'delimiter={delimiter!r}: it is one ASCII character, or "auto".', delimiter=delimiter)
        if decimal not in ("auto", ".", ","):
            raise OptionError(f'decimal={decimal!r}: it is ".", "," or "auto".', decimal=decimal)
        if schema is not None and roles.label in (None, "none"):
            schema = without_label(schema)
        self.roles, self.header, self.delimiter, self.decimal = roles, header, delimiter, decimal
        self.bits, self.pairs, self.names, self.naming = bits, pairs, names, naming
        self.schema, self._given = schema, schema is not None
        self.sample: list[list[str]] = []
        """The fields of the first rows, by which the schema was decided."""
        self.mask = column_mask(bits)
        self.columns: Columns | None = None
        self.notes: list[str] = []
        """Remarks on columns that files lack or have in addition."""
        self.read = Labels(roles.positive, words=True)
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
        self.breaks = np.zeros(1, dtype=np.int64)
        self._hashes = Hashes(bits, names if naming else None, ())
        self._bags: list[tuple[NDArray[np.int64], Entries]] = []
        """The words of texts: places of the texts among the values, and their entries."""
        positive = "" if roles.positive is None else str(roles.positive)
        value = number(positive)
        text = np.array(bytearray(positive.encode()), dtype=np.uint8)
        self.aim = text, WORD if value is None else 0, 0.0 if value is None else value

    @property
    def classes(self) -> list[str]:
        """Words seen as labels, in order; a label is an index into them."""
        return self.read.classes

    def begin(self, source: Bytes) -> int:
        """Find the columns in the first lines of the first file; those of later files are found by name."""
        head = first_lines(source, SAMPLE_LINES if self.schema is None else 1)
        if not head.lines:  # blank lines only: they have no rows, as an empty file has none
            while source.read(CHUNK):
                pass
            return 0
        if self.schema is None:
            self.schema = self._decide(source.name, head.lines)
        schema = self.schema
        self.delimiter, self.header = schema.delimiter, schema.header
        fields = split(head.lines[:1], self.delimiter)
        names = fields[0] if schema.header else [str(k) for k in range(len(fields[0]))]
        if self.columns is None and self._given:
            self.schema = schema = with_label(source.name, schema, names, self.roles)
        self.columns = columns = self._fitted(schema, source.name, names)
        if self._given and os.path.isfile(source.name):  # a pipe may not have brought enough to look at
            rows = split(first_lines(source, LOOKED_AT).lines, self.delimiter)[int(schema.header) :]
            sample = {name: [row[k] for row in rows if len(row) > k] for k, name in enumerate(columns.names)}
            refuse_changed(source.name, schema.fields, sample)
        carried = [place_of(source.name, names, name, "columns") for name in self.roles.columns]
        self._carried = {names[place]: place for place in carried}
        self._cells = {name: [] for name in self._carried}
        self._kinds = set(columns.kinds.tolist())
        self.width = columns.width
        self.names.known.update(columns.features)
        indicated = self.roles.missing == "indicate"
        self.gaps = np.array([*columns.gone.values()] if indicated else [], dtype=np.int64)
        self.gap_origins = np.array([self.pairs.origin(name) for name in columns.gone], dtype=np.uint8)
        if not columns.dense and indicated:
            self.names.known.update(columns.gap_names)
        prefixes = [f"{name}=".encode() for name in columns.names]
        pointers = np.zeros(len(prefixes) + 1, dtype=np.int64)
        pointers[1:] = np.cumsum([len(prefix) for prefix in prefixes])
        self.prefix = np.frombuffer(b"".join(prefixes) or b" ", dtype=np.uint8)
        self.prefix_ptr = pointers
        if schema.extra == "ignore":
            self.pairs.check([field.name for field in schema.of(*FEATURES)])
        self.origins = np.array([self.pairs.origin(name) for name in columns.names], dtype=np.uint8)
        if not schema.header:
            return 0
        source.skip(head.first_end)
        return head.first_lines

    def _fitted(self, schema: Schema, path: str, names: list[str]) -> Columns:
        """Match the columns of a file by name with those of the first one, or of the training."""
        try:
            columns = fitted(schema, path, names, self.bits, self.roles.unlabelled, self.roles.missing)
        except InputError as error:
            if self.columns is None:
                raise
            raise ReadError(path, 1, None, f"the header is not that of the first file ({error})") from None
        self.notes += columns.notes
        return columns

    def _decide(self, path: str, lines: list[str]) -> Schema:
        """The schema that the first lines of the first file suggest."""
        delimiter = find_delimiter(lines) if self.delimiter == "auto" else self.delimiter
        rows = split(lines, delimiter)
        if (
            len(rows[0]) == 1
            and len(words := lines[0].split()) > 1
            and {len(one.split()) for one in lines} == {len(words)}
        ):
            raise InputError(
                f"{path}: its columns seem to be separated by blanks; turn these into commas: tr -s ' ' ',' <FILE."
            )
        header = self.header
        if header == "auto":
            header = is_header(rows[0], rows[1:])
        names = rows[0] if header else [str(k) for k in range(len(rows[0]))]
        self.sample = rows[1:] if header else rows
        decimal = find_decimal(self.sample, delimiter) if self.decimal == "auto" else self.decimal
        seen = look_at(self.sample, len(names), "auto" if self.decimal == "auto" and decimal == "." else decimal)
        fields = decide(path, names, seen, self.roles)
        label = next((k for k, field in enumerate(fields) if field.kind == "label"), None)
        worded = False
        if label is not None and self.roles.everyday:
            worded = seen[label].wordy and self.roles.positive is None
            if self.roles.positive is not None and not self.roles.unlabelled:
                _check_positive(path, self.roles.positive, [row[label] for row in self.sample if len(row) > label])
        gaps = any(one.gaps for one, field in zip(seen, fields, strict=True) if field.kind == "number")
        indicated = self.roles.missing == "indicate"
        return Schema(fields, bool(header), delimiter, decimal, worded, gaps and indicated)

    def resume(self, position: Position) -> None:
        """Do nothing: the first lines of the first file decide everything, so earlier blocks leave no state."""

    def reserve(self, count: int, text: int) -> None:
        """Reserve space for the values of ``text`` bytes after ``count`` values: an empty field takes one byte."""
        super().reserve(count, 2 * (text + 1))
        assert self.columns is not None
        if not self.columns.dense and len(self.marks) < self.values.size:
            self.marks = longer(self.marks, self.values.size, count)
            self.spaces = longer(self.spaces, self.values.size, count)
        if self.key.size < text + self.prefix.size + ROOM:
            self.key = np.empty(text + self.prefix.size + ROOM, dtype=np.uint8)

    def parse(self, text: NDArray[np.uint8], state: NDArray[np.int64], stop: int, budget: int, skipping: bool) -> None:
        """Parse lines of the text from ``state`` on."""
        columns, schema = self.columns, self.schema
        assert columns is not None
        assert schema is not None
        table = (
            ord(self.delimiter),
            columns.forms,
            columns.kinds,
            columns.slots,
            columns.absent,
            self.origins,
            self.prefix,
            self.prefix_ptr,
            columns.dense,
            MISSING.index(self.roles.missing),
            self.roles.unlabelled,
            schema.word_labels,
            np.uint64(self.mask),
            stop,
            columns.dates,
        )
        into = (
            self.indices, self.values, self.labels, self.weights, self.tag_spans, self.word_spans, self.marks,
            self.spaces, self.breaks, self.record_spans,
        )  # fmt: skip
        parse_csv(text, state, stop, budget, self.rows, skipping, table, self.aim, self.key, self.indptr, into)

    def collect(self, text: bytearray, rows: tuple[int, int], values: tuple[int, int]) -> None:
        """Keep the tags and the labels that are words, and the names of new categories."""
        columns, schema = self.columns, self.schema
        assert columns is not None
        assert schema is not None
        if TAG in self._kinds:
            spans = self.tag_spans[rows[0] : rows[1]].tolist()
            self.tags.extend(_word(text, start, stop) for start, stop in spans)
        if schema.word_labels and LABEL in self._kinds:
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
            for k in np.flatnonzero(columns.kinds == TEXT):
                ours = marks[:, 0] == k
                found = bags(self._hashes, columns.fields[k], array, marks[ours, 1], marks[ours, 2])
                self._bags.append((values[0] + texts[ours], found))
        if self.naming and self._kinds & {CATEGORICAL, ANY}:
            known: Any = np.flatnonzero(indices >= 0) if TEXT in self._kinds else slice(None)
            for at in np.arange(indices.size)[known][self.names.new(indices[known], self.mask + 1)]:
                k, start, stop = self.marks[values[0] + at].tolist()
                if k >= 0:
                    self.names.add(int(indices[at]), f"{columns.names[k]}={_word(text, start, stop)}")

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

    def block(self, rows: int, count: int, position: Position) -> Block:
        """The rows parsed, copied out of the scratch arrays."""
        columns = self.columns
        assert columns is not None
        tags, self.tags = self.tags, []
        cells, self._cells = self._cells, {name: [] for name in self._carried}
        values = self.values[:count]
        if columns.dense:
            X: Any = values.reshape(rows, self.width).copy()
            with np.errstate(over="ignore"):
                doubtful = np.isnan(values.sum())
            if doubtful and (gaps := np.isnan(X)).any():
                X = sparse_with_gaps(X, gaps)
                self.names.known.update(columns.gap_names)
            if self.pairs:
                X = self._interacting(*_parts(X), self.origins_of(X))
        else:
            parts = self.indptr[: rows + 1], self.indices[:count], values, self.spaces[:count]
            indptr, indices, values, spaces = self._with_words(*parts)
            if self.gaps.size:  # columns that this file lacks
                ends = np.repeat(indptr[1:], self.gaps.size)
                indices = np.insert(indices, ends, np.tile(self.gaps, rows))
                values = np.insert(values, ends, 1.0)
                spaces = np.insert(spaces, ends, np.tile(self.gap_origins, rows))
                indptr = indptr + self.gaps.size * np.arange(rows + 1)
            if self.pairs:
                X = self._interacting(indptr, indices, values, spaces)
            else:
                X = csr(indptr, indices, values, self.width)
        return Block(
            rows=X,
            y=self.labels[:rows].copy(),
            sample_weight=self.weights[:rows].copy() if WEIGHT in self._kinds else None,
            tags=tags if TAG in self._kinds else None,
            columns=cells or None,
            position=replace(position, width=X.shape[1]),
        )

    def _with_words(self, indptr: Any, indices: Any, values: Floats, spaces: NDArray[np.uint8]) -> Any:
        """The same rows with the words of each text in the place of its entry."""
        found, self._bags = self._bags, []
        if not found:
            return indptr, indices, values, spaces
        sizes = np.ones(indices.size, dtype=np.int64)
        for places, words in found:
            sizes[places] = np.diff(words.ends, prepend=0)
        ends = np.cumsum(sizes)
        indices, values, spaces = (np.repeat(part, sizes) for part in (indices, values, spaces))
        for places, words in found:
            targets = np.repeat(ends[places] - words.ends, sizes[places]) + np.arange(words.slots.size)
            indices[targets], values[targets] = words.slots, words.values
        return np.concatenate([[0], ends])[indptr], indices, values, spaces

    def origins_of(self, X: Floats | Sparse) -> NDArray[np.uint8]:
        """The namespace of each value of a table without categories."""
        columns = self.columns
        assert columns is not None
        by_slot = np.zeros(2 * columns.width, dtype=np.uint8)
        by_slot[columns.slots] = self.origins
        by_slot[columns.absent] = self.origins
        found: NDArray[np.uint8] = by_slot[_parts(X)[1]]
        return found

    def _interacting(self, indptr: Any, indices: Any, values: Floats, spaces: NDArray[np.uint8]) -> Sparse:
        naming = self.names if self.naming else None
        parts = interact(indptr, indices, values, spaces, self.pairs, self.mask, naming)
        return csr(*parts, max(self.width, self.mask + 1))


def _parts(X: Floats | Sparse) -> tuple[Any, Any, Floats]:
    """Rows as pointers, columns and values."""
    if isinstance(X, Sparse):
        return X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data
    rows, width = X.shape
    return np.arange(rows + 1) * width, np.tile(np.arange(width), rows), X.reshape(-1)


def _check_positive(path: str, positive: str, labels: list[str]) -> None:
    """Refuse a class that no row has and that looks like a slip: another case, or a letter more or less."""
    known = sorted({label for label in labels if label not in MISSING_WORDS})
    value = number(positive)
    if positive in known or (value is not None and any(number(label) == value for label in known)):
        return
    folded = {label.casefold(): label for label in known}
    close = meant(positive.casefold(), folded, cutoff=0.75)
    if close and value is None:
        raise InputError(
            f"{path}: positive={positive!r}: no label of the first rows is spelt like this; did you mean "
            f"{folded[close]!r}? The labels are {some(known)}.",
            positive=positive,
        )


def _word(text: bytearray, start: int, stop: int) -> str:
    """A field as text; a doubled quote in a quoted field is one quote."""
    word = text[start:stop]
    quoted = start > 0 and text[start - 1 : start] == b'"'
    return (word.replace(b'""', b'"') if quoted else word).decode("utf-8", "replace")
