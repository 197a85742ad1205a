"""Parquet, Arrow and Feather files, read batch by batch with pyarrow."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, ReadError
from onsketch.data.block import Block, Position, csr
from onsketch.data.columns import Roles, Sampled, decide
from onsketch.data.hashing import column_mask, hash_name
from onsketch.data.interactions import Interactions, interact
from onsketch.data.names import Names
from onsketch.data.parquet import row_groups
from onsketch.data.schema import Columns, Schema, fitted, without_label
from onsketch.data.separated import CATEGORICAL, LABEL, NUMERIC, TAG, WEIGHT
from onsketch.data.sources import STDIN, Bytes, shown
from onsketch.data.text import Limits

Floats = NDArray[np.float64]

_NO_LABEL = "the label is missing"
_NO_VALUE = 'no value in this field; missing="zero" reads such fields as 0, missing="indicate" as missing'


def import_pyarrow() -> Any:
    """pyarrow, or a message that says how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError("reading Parquet and Arrow needs pyarrow: pip install 'onsketch[arrow]'") from None
    return pyarrow


def count_rows(path: str) -> int:
    """Rows of a Parquet file, by its footer; 0 where there is none."""
    arrow = import_pyarrow()
    from pyarrow.parquet import read_metadata

    try:
        return int(read_metadata(path).num_rows)
    except (OSError, arrow.ArrowInvalid):  # reading it will say what is wrong
        return 0


@dataclass
class Tables:
    """How tables become blocks. A row with a missing or infinite value is bad, as a line of text would be."""

    roles: Roles
    schema: Schema | None
    bits: int
    pairs: Interactions
    names: Names
    naming: bool
    columns: Columns | None = None
    first_skipped: ReadError | None = None
    classes: list[str] = field(default_factory=list)
    """The words met as labels, in their order; a label is a place among them."""

    def begin(self, path: str, found: Any) -> Columns:
        """Find the columns in the schema of the first file; those of later files are found by name."""
        schema = self.schema
        if schema is None:
            wordy = [_kind(path, column, self.roles) == CATEGORICAL for column in found]
            fields = decide(path, found.names, [Sampled(float(words), False, 0) for words in wordy], self.roles)
            worded = any(words for words, one in zip(wordy, fields, strict=True) if one.kind == "label")
            schema = Schema(fields, word_labels=worded and self.roles.everyday and self.roles.positive is None)
        elif self.roles.label in (None, "none"):
            schema = without_label(schema)
        self.schema = schema
        self.columns = fitted(schema, path, found.names, self.bits, self.roles.unlabelled)
        if self.columns.extra and not self.roles.unlabelled:
            raise InputError(f"{path}: its columns are not those of the first file: {self.columns.extra[0]!r} is new.")
        self.names.known.update(self.columns.features)
        return self.columns

    def codes(self, column: Any) -> Floats:
        """Labels that are words as places among the classes; NaN where there is none."""
        codes, words = _words(column)
        for word in words:
            if word not in self.classes:
                self.classes.append(word)
        places = np.array([*(float(self.classes.index(word)) for word in words), np.nan])
        return places[codes]


def read_arrow(
    source: str | BinaryIO, opened: Bytes | None, form: Tables, start: Position, limits: Limits, parquet: bool
) -> Iterator[Block | Position]:
    """The blocks of one file from a position on, and at the end the last position."""
    pyarrow = import_pyarrow()
    path = shown(source)
    here = replace(start, path=path)
    try:
        for batch in _batches(pyarrow, source, opened, path, form, start.offset, limits, parquet):
            block, here, error = _block(path, form, batch, here, limits.skipping)
            if len(block):
                yield block
            if error is not None:
                raise error
    except (pyarrow.ArrowException, OSError, UnicodeError) as error:
        form_of = "Parquet" if parquet else "Arrow"
        reason = f"not a readable {form_of} file, from row {here.offset + 1:,} on ({error})"
        raise ReadError(path, None, None, reason) from None
    yield here


def _batches(
    pyarrow: Any,
    source: str | BinaryIO,
    opened: Bytes | None,
    path: str,
    form: Tables,
    skip: int,
    limits: Limits,
    parquet: bool,
) -> Iterator[Any]:
    """Batches of at most ``limits.rows`` rows, after the first ``skip`` rows of the file."""
    if parquet:
        from pyarrow import parquet as reading

        if source == STDIN:
            raise InputError(
                "standard input: Parquet ends with its index, so it cannot be read from a pipe; use a file."
            )
        found = _seekable(source)
        file = reading.ParquetFile(found)
        columns = form.begin(path, file.schema_arrow)
        counts = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
        first = 0
        while first < len(counts) and skip >= counts[first]:
            skip -= counts[first]
            first += 1
        parts: Iterator[Any] = row_groups(path, file, found, range(first, len(counts)), _rows(columns, limits), limits)
    else:
        if source == STDIN:
            stream = pyarrow.ipc.open_stream(
                io.BufferedReader(_AsRaw(opened or Bytes(source, limits.unpacking)), 1 << 20)
            )
            columns = form.begin(path, stream.schema)
            parts = iter(stream)
        else:
            file = _seekable(source)
            try:
                whole = pyarrow.ipc.open_file(file)
            except pyarrow.ArrowInvalid:  # no index at the end: the streaming format
                if not isinstance(file, str):
                    file.seek(0)
                stream = pyarrow.ipc.open_stream(pyarrow.OSFile(file) if isinstance(file, str) else file)
                columns = form.begin(path, stream.schema)
                parts = iter(stream)
            else:
                columns = form.begin(path, whole.schema)
                parts = (whole.get_batch(k) for k in range(whole.num_record_batches))
    most = _rows(columns, limits)
    for batch in parts:
        _check_batch(path, batch)
        passed = min(skip, batch.num_rows)
        skip -= passed
        for at in range(passed, batch.num_rows, most):
            yield batch.slice(at, most)


def _check_batch(path: str, batch: Any) -> None:
    """Refuse a batch whose buffers contradict each other: whoever follows them reads memory that is not theirs."""
    try:
        batch.validate(full=True)
    except (ValueError, TypeError, IndexError) as error:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                column.validate(full=True)
            except (ValueError, TypeError, IndexError) as reason:
                raise ReadError(path, None, None, f"column {name!r} is damaged ({reason})") from None
        raise ReadError(path, None, None, f"a batch of rows is damaged ({error})") from None


def _rows(columns: Columns, limits: Limits) -> int:
    """Rows to a block: eight bytes of block for each byte that a text might have."""
    return max(1, min(limits.rows, limits.bytes // max(1, len(columns.names))))


class _AsRaw(io.RawIOBase):
    """A source as a raw file."""

    def __init__(self, source: Bytes) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _seekable(source: str | BinaryIO) -> Any:
    if not isinstance(source, str):
        return source
    if "://" in source:
        from onsketch.data.sources import open_remote

        return open_remote(source)
    try:
        with open(source, "rb"):
            return source
    except OSError as error:
        raise InputError(f"{source}: {error.strerror or error}.") from None


def kind_of(type: Any) -> int:
    """NUMERIC or CATEGORICAL for a column of this type; 0 where it cannot be learned from."""
    types = import_pyarrow().types
    kind = type.value_type if types.is_dictionary(type) else type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return CATEGORICAL
    numeric = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null
    return NUMERIC if any(holds(kind) for holds in numeric) else 0


def _kind(path: str, field: Any, roles: Roles) -> int:
    """The same of a column, which is refused where it cannot be learned from, and is neither ignored nor a tag."""
    kind = kind_of(field.type)
    if kind or field.name in roles.ignore or field.name == roles.tag:
        return kind
    raise InputError(
        f"{path}: column {field.name!r} is of type {field.type}, neither numbers nor words. "
        f"Leave it out with ignore={field.name!r}."
    )


def _numbers(column: Any) -> Floats:
    """A column as float64, NaN where there is no value."""
    pyarrow = import_pyarrow()
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    numbers: Floats = column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _words(column: Any) -> tuple[NDArray[np.int64], list[str]]:
    """A column as codes, −1 where there is no value, into a list of words."""
    pyarrow = import_pyarrow()
    if not pyarrow.types.is_dictionary(column.type):
        column = column.cast(pyarrow.string()).dictionary_encode()
    codes = column.indices.fill_null(-1).cast(pyarrow.int64()).to_numpy(zero_copy_only=False)
    words = column.dictionary.cast(pyarrow.string()).to_pylist()
    if None in words:
        codes = np.where(codes == words.index(None), -1, codes)
        words = ["" if word is None else word for word in words]
    return codes, words


def _labels(column: Any, positive: str | None) -> tuple[Floats, str]:
    """The labels, NaN where there is none; +1 and −1 where a positive class is named; and why NaN may come."""
    pyarrow = import_pyarrow()
    kind = column.type.value_type if pyarrow.types.is_dictionary(column.type) else column.type
    if pyarrow.types.is_null(kind):
        return np.full(len(column), np.nan), _NO_LABEL
    wordy = not (pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind) or pyarrow.types.is_boolean(kind))
    if not wordy:
        labels = _numbers(column)
        if positive is None:
            return labels, _NO_LABEL
        return np.where(np.isnan(labels), np.nan, np.where(labels == float(positive), 1.0, -1.0)), _NO_LABEL
    codes, words = _words(column)
    if positive is None:
        return np.full(codes.size, np.nan), 'labels are words; name the class to learn with positive="..."'
    return np.where(codes < 0, np.nan, np.where(np.array(words)[codes] == positive, 1.0, -1.0)), _NO_LABEL


def _matrix(form: Tables, values: Floats, slots: NDArray[np.int64], spaced: list[int]) -> Any:
    """The rows with these values in these columns, and their products where they are asked for: dense or CSR."""
    columns, schema = form.columns, form.schema
    assert columns is not None
    assert schema is not None
    if columns.dense and not form.pairs and slots.max(initial=0) < columns.width:
        X = np.empty_like(values)
        if len(slots):
            X[:, slots[0]] = values
        return X
    present = values != 0.0
    indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    parts = indptr, slots[present], values[present]
    width = columns.width if schema.hashed else 2 * columns.width
    if form.pairs:
        spaces = np.tile(np.array(spaced, dtype=np.uint8), (len(values), 1))[present]
        naming = form.names if form.naming else None
        parts = interact(*parts, spaces, form.pairs, column_mask(form.bits), naming)
        width = max(width, column_mask(form.bits) + 1)
    return csr(*parts, width)


class _Batch:
    """The columns of a batch on their way to a block: values and where they go, and what is wrong with which rows."""

    def __init__(self, form: Tables, count: int) -> None:
        assert form.columns is not None
        self.form, self.columns, self.count = form, form.columns, count
        self.gappy = form.roles.missing != "error"
        self.origins = form.pairs.origins(form.columns.names)
        self.bad = np.zeros(count, dtype=bool)
        self.faults: list[tuple[int, int, str]] = []
        self.y = np.full(count, np.nan)
        self.weights: Floats | None = None
        self.tags: list[str] | None = None
        self.picked: list[Floats] = []
        self.filed: list[NDArray[np.int64]] = []
        self.spaced: list[int] = []

    def add(self, k: int, kind: int, column: Any) -> None:
        """Take a column in as what it is."""
        if kind == LABEL:
            self._label(k, column)
        elif kind == TAG:
            self.tags = ["" if tag is None else str(tag) for tag in column.to_pylist()]
        elif kind == CATEGORICAL:
            self._category(k, column)
        elif kind in (NUMERIC, WEIGHT):
            numbers = _numbers(column)
            self._fault(np.isinf(numbers), k, "an infinite value")
            self._fault(np.isnan(numbers) & (not self.gappy), k, _NO_VALUE)
            if kind == NUMERIC:
                slots = np.full(self.count, self.columns.slots[k])
                self._feature(k, np.nan_to_num(numbers, nan=0.0), slots, ~np.isnan(numbers))
            else:
                self.weights = np.nan_to_num(numbers, nan=1.0)
                self._fault(self.weights < 0.0, k, "weights are not negative")

    def _label(self, k: int, column: Any) -> None:
        schema, roles = self.form.schema, self.form.roles
        worded = schema is not None and schema.word_labels
        self.y, reason = (self.form.codes(column), _NO_LABEL) if worded else _labels(column, roles.positive)
        unlabelled = roles.unlabelled and reason == _NO_LABEL
        self._fault(np.isinf(self.y) if unlabelled else ~np.isfinite(self.y), k, reason)

    def _category(self, k: int, column: Any) -> None:
        codes, words = _words(column)
        self._fault((codes < 0) & (not self.gappy), k, _NO_VALUE)
        named = [f"{self.columns.names[k]}={word}" for word in words]
        hashes = [hash_name(name, bits=self.form.bits) for name in named]
        if self.form.naming:
            for column_of_x, name in zip(hashes, named, strict=True):
                self.form.names.add(column_of_x, name)
        slots = np.array([*hashes, 0], dtype=np.int64)[codes]
        self._feature(k, (codes >= 0).astype(np.float64), slots, codes >= 0)

    def _feature(self, k: int, values: Floats, slots: NDArray[np.int64], there: NDArray[np.bool_]) -> None:
        """A column's values, or in their place 1 in the column that says that they are missing."""
        absent = self.columns.absent
        if self.form.roles.missing == "indicate" and not there.all():
            values, slots = np.where(there, values, 1.0), np.where(there, slots, absent[k])
            self.form.names.known.setdefault(int(absent[k]), f"{self.columns.names[k]} is missing")
        self.picked.append(values)
        self.filed.append(slots)
        self.spaced.append(int(self.origins[k]))

    def _fault(self, rows: NDArray[np.bool_], place: int, reason: str) -> None:
        if rows.any():
            self.faults.append((int(rows.argmax()), place, reason))
            self.bad[rows] = True


def _block(
    path: str, form: Tables, batch: Any, here: Position, skipping: bool
) -> tuple[Block, Position, ReadError | None]:
    """A batch as a block. Where a row is bad and must not be skipped, the block ends before it."""
    read = _Batch(form, batch.num_rows)
    for k, kind in enumerate(read.columns.kinds.tolist()):
        read.add(k, kind, batch.column(k))
    stop, error = read.count, None
    if read.faults:
        row, place, reason = min(read.faults)
        error = ReadError(path, here.offset + row + 1, place + 1, f"column {read.columns.names[place]!r}: {reason}")
        if not skipping:
            stop = row
        form.first_skipped = form.first_skipped or error
    kept = np.flatnonzero(~read.bad[:stop])
    here = replace(here, offset=here.offset + stop, rows=here.rows + kept.size, skipped=here.skipped + stop - kept.size)
    X = _matrix(form, np.column_stack(read.picked)[kept], np.column_stack(read.filed)[kept], read.spaced)
    here = replace(here, width=int(X.shape[1]), line=here.offset)
    block = Block(
        rows=X,
        y=read.y[kept],
        sample_weight=None if read.weights is None else read.weights[kept],
        tags=None if read.tags is None else [read.tags[row] for row in kept],
        groups=None,
        initial=None,
        position=here,
    )
    return block, here, None if skipping else error
