"""Parquet, Arrow and Feather files, read batch by batch with pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, ReadError
from onsketch.data.arrow_blocks import block_of, import_pyarrow, words_of
from onsketch.data.arrow_messages import open_file, open_pipe
from onsketch.data.block import Block, Position
from onsketch.data.columns import Roles, Sampled, decide
from onsketch.data.parquet import in_a_line, open_parquet, row_groups
from onsketch.data.sources import STDIN, Bytes, shown
from onsketch.data.text import Limits
from onsketch.rows.interactions import Interactions
from onsketch.rows.names import Names
from onsketch.rows.schema import CATEGORICAL, NUMERIC, Columns, Schema, fitted, without_label

Floats = NDArray[np.float64]


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
        """Return labels that are words as places among the classes, which come in the order of the rows.

        A label that is missing is NaN.
        """
        codes, words = words_of(column)
        first = np.zeros(len(words) + 1, dtype=np.int64)
        first[codes[::-1]] = np.arange(codes.size)[::-1]
        for k in np.argsort(first[:-1]).tolist():
            if words[k] not in self.classes:
                self.classes.append(words[k])
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
            block, here, error = block_of(path, form, batch, here, limits.skipping)
            if len(block):
                yield block
            if error is not None:
                raise error
    except (pyarrow.ArrowException, OSError, UnicodeError) as error:
        form_of = "Parquet" if parquet else "Arrow"
        reason = f"not a readable {form_of} file, from row {here.offset + 1:,} on ({in_a_line(error)})"
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
        if source == STDIN:
            raise InputError(
                "standard input: Parquet ends with its index, so it cannot be read from a pipe; use a file."
            )
        found = _seekable(source)
        files, size = open_parquet(found), _size(found)
        file = files[0]
        columns = form.begin(path, file.schema_arrow)
        counts = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
        first = 0
        while first < len(counts) and skip >= counts[first]:
            skip -= counts[first]
            first += 1
        parts: Iterator[Any] = row_groups(path, files, size, range(first, len(counts)), _rows(columns, limits), limits)
    else:
        if source == STDIN:
            opened = opened or Bytes(source, limits.unpacking)
            reader = open_pipe(opened, limits.unpacking)
        else:
            found = _seekable(source)
            if isinstance(found, str):
                found = pyarrow.OSFile(found)
            reader = open_file(path, found, limits.unpacking)
        columns = form.begin(path, reader.schema)
        parts = iter(reader)
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


def _size(file: Any) -> int:
    """Return the bytes of a file given as a path or a file object that can seek."""
    return os.path.getsize(file) if isinstance(file, str) else int(file.seek(0, os.SEEK_END))


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
