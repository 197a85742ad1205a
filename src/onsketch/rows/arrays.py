"""Whole columns of data frames, Arrow tables, arrays and lists: their cells, distinct cells and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, shown
from onsketch.rows.schema import GAPS, Field, is_gap, number_of

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

NO_VALUE = 'no value in this field; missing="zero" reads such fields as 0, missing="indicate" as missing'


class Faults:
    """Cells that cannot be encoded: which rows have one, and the first of each column."""

    def __init__(self, count: int) -> None:
        self.rows = np.zeros(count, dtype=bool)
        self.found: list[tuple[int, str, str]] = []
        """Row, column and reason."""

    def add(self, rows: NDArray[np.bool_], column: str, reason: str) -> None:
        """Take note of the rows whose cell in this column is bad."""
        if rows.any():
            self.rows |= rows
            self.found.append((int(rows.argmax()), column, reason))


def not_a(cell: Any, what: str) -> str:
    """Return the reason why a cell is bad."""
    infinite = isinstance(cell, float) and np.isinf(cell)
    return "an infinite value" if infinite else f"expected a {what}, found {shown(cell)}"


def columns_of(table: Any) -> dict[str, Any]:
    """The columns of a pandas frame or a pyarrow Table or RecordBatch by name.

    The columns of a struct ``a`` of Arrow are named ``a.b``. Two columns of one name are an InputError.
    """
    if hasattr(table, "iloc"):
        names, columns = [str(name) for name in table.columns], [table.iloc[:, k] for k in range(table.shape[1])]
    else:
        pa = import_pyarrow()
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        while any(pa.types.is_struct(kind) for kind in table.schema.types):
            table = table.flatten()
        names, columns = table.column_names, table.columns
    refuse_twice(names)
    return dict(zip(names, columns, strict=True))


def as_columns(X: Any) -> dict[str, Any] | None:
    """Return the columns of a data frame or an Arrow table by name; None for anything else."""
    if hasattr(X, "to_arrow"):
        X = X.to_arrow()
    arrow = hasattr(X, "schema") and (hasattr(X, "column_names") or type(X).__name__ == "RecordBatch")
    return columns_of(X) if arrow or (hasattr(X, "iloc") and hasattr(X, "columns")) else None


def refuse_twice(names: Sequence[Any]) -> None:
    """Refuse two columns of one name."""
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InputError(f"two columns have the name {twice!r}; rename one of them.")


def import_pyarrow() -> Any:
    """Import pyarrow, or raise an error that names the extra to install."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError("Parquet, Arrow and data frames need pyarrow: pip install 'onsketch[arrow]'") from None
    return pyarrow


def cells_of(cells: Any) -> Any:
    """Return a column as one Arrow array, or as a list if Arrow has no type for it."""
    if cells is None or isinstance(cells, list):
        return cells
    pa = import_pyarrow()
    if not isinstance(cells, (pa.Array, pa.ChunkedArray)):
        try:
            cells = pa.array(cells, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return cells.tolist() if hasattr(cells, "tolist") else list(cells)
    return pa.concat_arrays(cells.chunks) if isinstance(cells, pa.ChunkedArray) and cells.num_chunks else cells


def is_numeric(cells: Any) -> bool:
    """True for an Arrow column of floats, integers or booleans."""
    if cells is None or isinstance(cells, list):
        return False
    from pyarrow import types

    return bool(types.is_floating(cells.type) or types.is_integer(cells.type) or types.is_boolean(cells.type))


def is_plain_text(cells: Any) -> bool:
    """True for an Arrow column of strings."""
    if cells is None or isinstance(cells, list):
        return False
    from pyarrow import types

    return bool(types.is_string(cells.type) or types.is_large_string(cells.type) or types.is_string_view(cells.type))


def as_floats(cells: Any) -> Floats:
    """A numeric Arrow column as float64, NaN where a value is missing."""
    import pyarrow as pa

    found: Floats = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


def hours_of(cells: Any) -> Any:
    """A column of dates by the hour, which is all that their features depend on."""
    if isinstance(cells, list):  # as it arrives where pyarrow is not installed
        return cells
    import pyarrow as pa

    if isinstance(cells, pa.Array) and (pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type)):
        import pyarrow.compute as pc

        return pc.floor_temporal(cells.cast(pa.timestamp("us", getattr(cells.type, "tz", None))), unit="hour")
    return cells


def numbers_of(
    field: Field, cells: Any, count: int, faults: Faults, strict: bool, gaps: frozenset[Any] = GAPS
) -> Floats:
    """A column as float64, NaN where a value is missing (which is a fault if ``strict``) or bad."""
    name = field.name
    if is_numeric(cells):
        numbers = as_floats(cells)
    else:
        codes, different = distinct(cells, count)
        found = [np.nan if is_gap(cell, gaps) else number_of(cell, field.comma) for cell in different]
        for code, number in enumerate(found):
            if number is None:
                faults.add(codes == code, name, not_a(different[code], "finite number"))
        numbers = np.array(found, dtype=np.float64)[codes]
    for known in gaps - GAPS if gaps is not GAPS else ():
        if isinstance(known, float):
            numbers = np.where(numbers == known, np.nan, numbers)
    infinite = np.isinf(numbers)
    faults.add(infinite, name, "an infinite value")
    if strict:
        faults.add(np.isnan(numbers) & ~faults.rows, name, NO_VALUE)
    return np.where(infinite, np.nan, numbers) if infinite.any() else numbers


def values_of(column: Any) -> list[Any]:
    """Return the cells of a column as Python objects; equal cells are one object, however long they are."""
    cells = cells_of(column)
    codes, different = distinct(cells, len(cells))
    return [different[code] for code in codes.tolist()]


def distinct(cells: Any, count: int) -> tuple[Whole, list[Any]]:
    """A column as codes into a list of its distinct cells."""
    if cells is None:
        return np.zeros(count, dtype=np.int64), [None]
    if not isinstance(cells, list):
        import pyarrow as pa

        try:
            coded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
            codes = coded.indices.cast(pa.int64()).fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
            used = np.zeros(len(coded.dictionary) + 1, dtype=bool)
            used[codes] = True  # a dictionary may hold cells of other batches
            different = coded.dictionary.take(pa.array(np.flatnonzero(used[:-1]))).to_pylist()
            return (np.cumsum(used) - 1)[codes], [*different, None]
        except pa.ArrowNotImplementedError:  # for example a list of lists
            cells = cells.to_pylist()
    index: dict[Any, int] = {}
    alike = len(set(map(type, cells)) - {type(None)}) <= 1
    try:  # 1 and True are the same key, and not the same category
        found = [
            index.setdefault(key, len(index)) for key in (cells if alike else zip(map(type, cells), cells, strict=True))
        ]
    except TypeError:  # objects or lists
        return np.arange(len(cells)), cells
    return np.array(found, dtype=np.int64), list(index) if alike else [cell for _, cell in index]
