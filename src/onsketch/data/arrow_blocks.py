"""Batches of pyarrow as blocks of rows: columns of numbers, words, labels and weights, and which rows are bad."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import ReadError
from onsketch.data.block import Block, Position
from onsketch.rows.hashing import column_mask, hash_name
from onsketch.rows.interactions import interact
from onsketch.rows.schema import CATEGORICAL, LABEL, NUMERIC, TAG, WEIGHT
from onsketch.rows.sparse import csr

if TYPE_CHECKING:
    from onsketch.data.arrow import Tables

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


def _numbers(column: Any) -> Floats:
    """A column as float64, NaN where there is no value."""
    pyarrow = import_pyarrow()
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    numbers: Floats = column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def words_of(column: Any) -> tuple[NDArray[np.int64], list[str]]:
    """Return a column as codes into the list of its words; the code is −1 where there is no value.

    A dictionary may hold words of other batches; they are left out.
    """
    pyarrow = import_pyarrow()
    if not pyarrow.types.is_dictionary(column.type):
        column = column.cast(pyarrow.string()).dictionary_encode()
    # The indices may be unsigned, so they are widened before −1 stands for a gap.
    codes = column.indices.cast(pyarrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    dictionary = column.dictionary
    used = np.zeros(len(dictionary) + 1, dtype=bool)
    used[codes] = True
    used[-1] = False
    if not used[:-1].all():
        dictionary = dictionary.take(pyarrow.array(np.flatnonzero(used)))
        codes = np.where(codes < 0, -1, np.cumsum(used)[codes] - 1)
    words = dictionary.cast(pyarrow.string()).to_pylist()
    missing = np.array([word is None for word in words] + [True])
    return np.where(missing[codes], -1, codes), ["" if word is None else word for word in words]


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
    codes, words = words_of(column)
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
        codes, words = words_of(column)
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


def block_of(
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
        position=here,
    )
    return block, here, None if skipping else error
