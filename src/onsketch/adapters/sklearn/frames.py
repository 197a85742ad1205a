"""Data frames with words and missing values as rows of numbers, by the rules of the program's tables.

A frame (pandas, polars, Arrow) goes through the reader of Arrow files, which knows columns as the program does: a word
is a feature ``column=word``, a missing value a feature ``column is missing``, a number is itself. Their columns are
numbered as they appear, so that a learner has as many as there are, and new words may come at any time.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from onsketch.core.errors import InputError, ModelFileError, OptionError
from onsketch.data import stream
from onsketch.data.arrow import can_be_learned
from onsketch.rows.encoder import import_pyarrow

MISSING = ("error", "zero", "indicate")


class FrameRows:
    """What the columns of the first frame were, and the number of every feature met.

    >>> import pandas as pd
    >>> rows, frame = FrameRows(), pd.DataFrame({"age": [31.0, None], "colour": ["red", "blue"]})
    >>> rows.rows(as_table(frame), "indicate", learn=True).toarray()
    array([[31.,  1.,  0.,  0.],
           [ 0.,  0.,  1.,  1.]])
    >>> rows.names
    ['age', 'colour=red', 'age is missing', 'colour=blue']
    """

    def __init__(self) -> None:
        self.schema: dict[str, Any] | None = None
        self.numbers: dict[int, int] = {}
        """The number of each column of the reader, by which it is known."""
        self.names: list[str] = []

    def rows(self, table: Any, missing: str, *, learn: bool) -> csr_array:
        """The rows of a table; features not met before get numbers when learning, and are left out otherwise."""
        for field in table.schema:
            if not can_be_learned(field.type):
                raise InputError(f"X: column {field.name!r} is of type {field.type}, neither numbers nor words. "
                                 "Leave it out, or give what counts of it as numbers.")  # fmt: skip
        if missing == "error":
            _refuse_gaps(table)
        file = io.BytesIO()
        with import_pyarrow().ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        file.seek(0)
        options: dict[str, Any] = {"label": "none", "unlabelled": True, "everyday": True, "names": True, "prefetch": 0}
        gaps = "indicate" if missing == "error" else missing  # of words; numbers have none
        reading = stream(file, "arrow", missing=gaps, schema=self.schema, block_rows=table.num_rows + 1, **options)
        with reading as blocks:
            whole = [csr_array(block.X) for block in blocks]
            names = dict(blocks.names)
            if learn:
                self.schema = blocks.schema
        parts = [self._numbered(block, names, learn) for block in whole]
        for part in parts:
            part.resize((part.shape[0], len(self.names)))
        if len(parts) == 1:
            return parts[0]
        from scipy.sparse import vstack

        return csr_array(vstack(parts)) if parts else csr_array((0, len(self.names)))

    def mark(self) -> tuple[Any, int]:
        """What is known now, for ``undo``."""
        return self.schema, len(self.names)

    def undo(self, mark: tuple[Any, int]) -> None:
        """Forget what was met since."""
        self.schema, count = mark
        del self.names[count:]
        self.numbers = {column: number for column, number in self.numbers.items() if number < count}

    def _numbered(self, block: csr_array, names: Mapping[int, str], learn: bool) -> csr_array:
        columns, first, place = np.unique(block.indices, return_index=True, return_inverse=True)
        if learn:
            for column in columns[np.argsort(first)].tolist():
                if column not in self.numbers:
                    self.numbers[column] = len(self.names)
                    self.names.append(names.get(column, str(column)))
        numbers = np.array([self.numbers.get(column, -1) for column in columns.tolist()], dtype=np.int64)[place]
        known = numbers >= 0
        ends = np.concatenate([[0], np.cumsum(known)])[block.indptr]
        found = csr_array((block.data[known], numbers[known], ends), shape=(block.shape[0], len(self.names)))
        found.sort_indices()
        return found

    def state(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"schema": self.schema, "columns": list(self.numbers), "names": self.names}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> FrameRows:
        """What ``state`` told."""
        rows = cls()
        rows.schema, rows.names = state["schema"], [str(name) for name in state["names"]]
        rows.numbers = {int(column): number for number, column in enumerate(state["columns"])}
        if len(rows.numbers) != len(rows.names):
            raise ModelFileError("its columns and their names are not as many.")
        return rows


def as_table(X: Any) -> Any:
    """A data frame as an Arrow table, NaN being no value; None for what is no frame."""
    if hasattr(X, "to_arrow"):  # polars
        table = X.to_arrow()
    elif hasattr(X, "iloc") and hasattr(X, "columns"):
        pyarrow = import_pyarrow()
        try:
            table = pyarrow.Table.from_pandas(X, preserve_index=False)
        except (pyarrow.ArrowException, ValueError, OverflowError) as error:
            raise InputError(f"X: a column of the data frame is neither numbers nor words ({error}).") from None
    elif hasattr(X, "schema") and hasattr(X, "column_names"):
        table = X
    else:
        return None
    return _without_nan(table)


def named(X: Any) -> Any:
    """Return a RecordBatch of pyarrow as a Table, whose names scikit-learn checks; anything else as it is."""
    if type(X).__name__ == "RecordBatch" and hasattr(X, "schema"):
        return import_pyarrow().Table.from_batches([X])
    return X


def is_worded(X: Any) -> bool:
    """Whether this is a data frame with a column that is not of numbers."""
    kinds = getattr(X, "dtypes", None)
    if kinds is None and hasattr(X, "schema") and hasattr(X, "column_names"):
        from pyarrow import types

        return not all(types.is_integer(t) or types.is_floating(t) or types.is_boolean(t) for t in X.schema.types)
    if kinds is None or not hasattr(X, "columns"):
        return False
    if hasattr(X, "to_arrow"):
        return not all(kind.is_numeric() or str(kind) == "Boolean" for kind in kinds)
    return any(_holds_words(X, k, kind) for k, kind in enumerate(kinds))


def _holds_words(X: Any, place: int, kind: Any) -> bool:
    """Whether a column of a pandas frame has words; numbers in a column of objects are numbers."""
    if getattr(kind, "kind", "O") in "biufc" and str(kind) != "category":
        return False
    if str(kind) == "object":
        return any(isinstance(value, str) for value in X.iloc[:, place])
    return str(kind) in ("category", "str") or str(kind).startswith("string")


def table_of(X: Any, missing: str) -> Any:
    """An array of numbers with gaps as a table, its columns called x0, x1 and so on."""
    table = as_table(X)
    if table is not None or missing == "error" or hasattr(X, "tocsr"):
        return table
    try:
        block = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if block.ndim != 2 or 0 in block.shape:
        return None  # scikit-learn has words for it
    pyarrow = import_pyarrow()
    return pyarrow.table({f"x{k}": pyarrow.array(block[:, k], from_pandas=True) for k in range(block.shape[1])})


def check_missing(missing: str) -> None:
    """Refuse any other word."""
    if missing not in MISSING:
        raise OptionError(f"missing={missing!r}: expected {' or '.join(map(repr, MISSING))}.")


def _without_nan(table: Any) -> Any:
    pyarrow = import_pyarrow()
    columns = [
        pyarrow.array(column.to_numpy(), from_pandas=True) if pyarrow.types.is_floating(column.type) else column
        for column in table.columns
    ]
    return pyarrow.table(columns, names=[str(name) for name in table.column_names])


def _refuse_gaps(table: Any) -> None:
    types = import_pyarrow().types
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and (types.is_floating(column.type) or types.is_integer(column.type)):
            raise ValueError(
                f"Input X contains NaN: column {name!r} has no number in {column.null_count} of its rows. "
                "missing='indicate' gives such values a feature of their own, missing='zero' takes them for 0."
            )
