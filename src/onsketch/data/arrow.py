"""Parquet, Arrow and Feather files, read batch by batch with pyarrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, compress, islice
from typing import Any, BinaryIO

import numpy as np

from onsketch.core.errors import InputError, ReadError
from onsketch.data.arrow_messages import open_file, open_pipe
from onsketch.data.block import Block, Position
from onsketch.data.columns import Roles, decide, place_of
from onsketch.data.named import NamedValues
from onsketch.data.parquet import in_a_line, open_parquet, row_groups
from onsketch.data.sampling import LOOKED_AT, SAMPLE_LINES
from onsketch.data.sources import STDIN, Bytes, shown
from onsketch.data.text import Limits
from onsketch.rows.arrays import (
    Faults,
    as_floats,
    cells_of,
    columns_of,
    import_pyarrow,
    is_numeric,
    numbers_of,
    values_of,
)
from onsketch.rows.schema import Schema


def count_rows(path: str) -> int:
    """Rows of a Parquet file, by its footer; 0 where there is none."""
    arrow = import_pyarrow()
    from pyarrow.parquet import read_metadata

    try:
        return int(read_metadata(path).num_rows)
    except (OSError, arrow.ArrowInvalid):  # reading the file reports the error
        return 0


def schema_of(path: str, columns: Mapping[str, Any], roles: Roles, types: Mapping[str, Any]) -> Schema:
    """Decide the schema by the first cells of these columns; those of a category type are categories in any case.

    Args:
        path: name of the source for messages.
        columns: cells by name.
        roles: roles of the columns by the options.
        types: Arrow types by name, if they are known.
    """
    cells = []
    for name, column in columns.items():
        first = cells_of(column[:SAMPLE_LINES])
        plain = is_numeric(first) and not import_pyarrow().types.is_boolean(first.type)
        cells.append(as_floats(first) if plain else values_of(first))
        if name in types:
            _check_type(path, name, types[name], roles)
    return decide(path, list(columns), cells, roles, categories={name for name in types if is_category(types[name])})


class Tables(NamedValues):
    """Convert tables to blocks. A row with a bad cell is bad, as a line of text would be."""

    first_skipped: ReadError | None = None

    def begin(self, path: str, found: Any, sample: Callable[[], Any]) -> None:
        """Find the columns of a file: the first one, by a batch of its first rows, decides for all.

        Args:
            path: name of the file for messages.
            found: its Arrow schema.
            sample: returns a batch, or None if there is none.
        """
        types, given = columns_of(found.empty_table()), self.decided and not self.begun
        batch = None if self.begun else sample()
        first = {} if batch is None else columns_of(batch.slice(0, SAMPLE_LINES))
        if not self.decided:
            by_name = {name: column.type for name, column in types.items()}
            self.sample = {name: values_of(column) for name, column in first.items()}
            self.schema, self.decided = schema_of(path, first or types, self.roles, by_name), True
        cells = {name: values_of(column[:LOOKED_AT]) for name, column in first.items()} if given else None
        self.match(path, list(types), cells)

    def block(self, path: str, batch: Any, here: Position, skipping: bool) -> tuple[Block, Position, ReadError | None]:
        """A batch as a block. Where a row is bad and must not be skipped, the block ends before it."""
        fields, count, error = self.columns.fields, batch.num_rows, None
        names, faults = [field.name for field in fields], Faults(count)
        columns = dict(zip(names, columns_of(batch).values(), strict=True))
        X = self.encoder.columns(columns, count, faults)
        y, weights, tags = np.full(count, np.nan), None, None
        for field in fields:
            name, kind = field.name, field.kind
            if kind == "label":
                y = self.read.column(columns[name], count, name, faults)
            elif kind == "weight":
                strict, gaps = self.roles.missing == "error", self.schema.missing_words
                weights = numbers_of(field, cells_of(columns[name]), count, faults, strict, gaps)
                weights = np.nan_to_num(weights, nan=1.0)
                faults.add(weights < 0.0, name, "weights are not negative")
            elif kind == "tag":
                tags = ["" if tag is None else str(tag) for tag in columns[name].to_pylist()]
        stop, kept = count, ~faults.rows
        if faults.found:
            row, name, reason = min(faults.found, key=lambda fault: (fault[0], names.index(fault[1])))
            reason, options = self.remedy(name, reason)
            error = ReadError(path, here.offset + row + 1, names.index(name) + 1, reason, **options)
            self.first_skipped = self.first_skipped or error
            if not skipping:
                stop, kept = row, np.arange(count) < row
            good = columns_of(batch.filter(import_pyarrow().array(kept)))
            X = self.encoder.columns(dict(zip(names, good.values(), strict=True)), int(kept.sum()))
        rows, width = int(kept.sum()), int(X.shape[1])
        here = replace(
            here, offset=here.offset + stop, rows=here.rows + rows, skipped=here.skipped + stop - rows,
            line=here.offset + stop, width=width,
        )  # fmt: skip
        weights = None if weights is None else weights[kept]
        tags = None if tags is None else [tag for tag, good in zip(tags, kept, strict=True) if good]
        carried = [names[place_of(path, names, name, "columns")] for name in self.roles.columns]
        cells = {name: list(compress(values_of(columns[name]), kept)) for name in carried}
        return Block(X, y[kept], here, weights, tags, columns=cells or None), here, None if skipping else error


def read_arrow(
    source: str | BinaryIO, opened: Bytes | None, form: Tables, start: Position, limits: Limits, parquet: bool
) -> Iterator[Block | Position]:
    """The blocks of one file from a position on, and at the end the last position."""
    pyarrow = import_pyarrow()
    path = shown(source)
    here = replace(start, path=path)
    try:
        for batch in _batches(pyarrow, source, opened, path, form, start.offset, limits, parquet):
            block, here, error = form.block(path, batch, here, limits.skipping)
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
    ahead: list[Any] = []

    def sample(batches: Iterator[Any]) -> Any:
        """Take the first batch with rows, and keep it to be read."""
        ahead.extend(islice((batch for batch in batches if _checked(path, batch).num_rows), 1))
        return ahead[0] if ahead else None

    if parquet:
        if source == STDIN:
            raise InputError(
                "standard input: Parquet ends with its index, so it cannot be read from a pipe; use a file."
            )
        found = _seekable(source)
        files, size = open_parquet(found), _size(found)
        file = files[0]
        most = _rows(len(file.schema_arrow), limits)
        counts = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
        first = next((k for k, count in enumerate(counts) if count), len(counts))
        batches = row_groups(path, files, size, range(first, len(counts)), most, limits)
        form.begin(path, files[-1].schema_arrow, lambda: sample(batches))
        start = first
        while first < len(counts) and skip >= counts[first]:
            skip -= counts[first]
            first += 1
        if first > start:  # the first rows are not among those to be read
            batches, ahead = row_groups(path, files, size, range(first, len(counts)), most, limits), []
    else:
        if source == STDIN:
            opened = opened or Bytes(source, limits.unpacking)
            reader = open_pipe(opened, limits.unpacking)
        else:
            found = _seekable(source)
            if isinstance(found, str):
                found = pyarrow.OSFile(found)
            reader = open_file(path, found, limits.unpacking)
        most, batches = _rows(len(reader.schema), limits), iter(reader)
        form.begin(path, reader.schema, lambda: sample(batches))
    for batch in chain(ahead, batches):
        _checked(path, batch)
        passed = min(skip, batch.num_rows)
        skip -= passed
        for at in range(passed, batch.num_rows, most):
            yield batch.slice(at, most)


def _checked(path: str, batch: Any) -> Any:
    """Return a batch; refuse one whose buffers contradict each other, since following them reads foreign memory."""
    try:
        if batch is not None:
            batch.validate(full=True)
    except (ValueError, TypeError, IndexError) as error:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                column.validate(full=True)
            except (ValueError, TypeError, IndexError) as reason:
                raise ReadError(path, None, None, f"column {name!r} is damaged ({reason})") from None
        raise ReadError(path, None, None, f"a batch of rows is damaged ({error})") from None
    return batch


def _rows(columns: int, limits: Limits) -> int:
    """Rows to a block: eight bytes of block for each byte that a text might have."""
    return max(1, min(limits.rows, limits.bytes // max(1, columns)))


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


def is_category(kind: Any) -> bool:
    """True for a type of categories that are words."""
    types = import_pyarrow().types
    return bool(types.is_dictionary(kind) and is_words(kind.value_type))


def is_words(kind: Any) -> bool:
    """True for a type of strings."""
    types = import_pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def can_be_learned(kind: Any) -> bool:
    """True for a type of numbers, words, dates, or lists of them."""
    types = import_pyarrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    known = (
        types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null, types.is_list,
        types.is_large_list, types.is_fixed_size_list, types.is_timestamp, types.is_date, is_words,
    )  # fmt: skip
    return any(holds(kind) for holds in known)


def _check_type(path: str, name: str, kind: Any, roles: Roles) -> None:
    """Refuse a column that cannot be learned from, and is neither ignored nor a tag."""
    if not can_be_learned(kind) and name not in roles.ignore and name != roles.tag:
        problem = f"{path}: column {name!r} is of type {kind}, neither numbers nor words. Leave it out"
        if path == "X":
            raise InputError(f"{problem}, or give what counts of it as numbers.")
        raise InputError(f"{problem} with ignore={name!r}.", ignore=name)
