"""Encoding of data frames with words and missing values, by the rules of the program's tables.

A word is a feature ``column=word``, a missing value a feature ``column is missing``, a number is itself. Features are
numbered as they appear, so that a learner has one weight for each, and new words may come at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils.validation import validate_data

from onsketch.core.errors import InputError, ModelFileError, OptionError
from onsketch.data.arrow import schema_of
from onsketch.data.columns import Roles
from onsketch.rows.arrays import as_columns, as_floats, cells_of, import_pyarrow, is_numeric, refuse_twice
from onsketch.rows.encoder import Encoder
from onsketch.rows.names import Names, Numbers
from onsketch.rows.schema import NUMERIC_KINDS, Schema

MISSING = ("auto", "error", "zero", "indicate")

BITS = 31
"""Bits of the hashes that identify features: 100,000 features have two collisions."""


def validated(estimator: Any, *data: Any, **checks: Any) -> Any:
    """Return data after scikit-learn's checks."""
    try:
        return validate_data(estimator, *data, **checks)
    except OverflowError as error:  # a whole number of hundreds of digits
        raise InputError(f"X: {error}.") from None


class FrameRows:
    """Schema of the first frame, and the number of every feature seen.

    >>> import pandas as pd
    >>> rows, frame = FrameRows(), pd.DataFrame({"age": [31.0, None], "colour": ["red", "blue"]})
    >>> rows.rows(as_columns(frame), "indicate", learn=True).toarray()
    array([[31.,  1.,  0.,  0.],
           [ 0.,  0.,  1.,  1.]])
    >>> rows.names
    ['age', 'colour=red', 'age is missing', 'colour=blue']
    """

    def __init__(self, schema: Schema | None = None) -> None:
        self.schema = schema
        self.numbers = Numbers()
        """The number of each hashed feature."""
        self._names = Names()
        self._encoder: Encoder | None = None

    @property
    def names(self) -> list[str]:
        """Names of the features, in the order of their numbers."""
        return [self._names.of(feature) for feature in self.numbers.of]

    def rows(self, columns: Mapping[str, Any], missing: str, *, learn: bool) -> csr_array:
        """Encode a frame; new features get numbers when learning, and are left out otherwise."""
        missing = "indicate" if missing == "auto" else missing
        count = len(next(iter(columns.values()), ()))
        columns = {name: cells_of(cells) for name, cells in columns.items()}
        if self.schema is None:
            gaps = "zero" if missing == "zero" else "indicate"
            roles = Roles(label=None, unlabelled=True, everyday=True, missing=gaps)
            types = {name: cells.type for name, cells in columns.items() if not isinstance(cells, list)}
            self.schema = schema_of("X", columns, roles, types)
        if self._encoder is None:  # missing words have a feature even if missing numbers are refused
            self._encoder = Encoder(self.schema, BITS, "zero" if missing == "zero" else "indicate", self._names)
        if missing == "error":
            self._refuse_gaps(columns)
        found = csr_array(_matrix(self._encoder.columns(columns, count)))
        features, first, place = np.unique(found.indices, return_index=True, return_inverse=True)
        if learn:
            self.numbers.enter(features[np.argsort(first)].tolist())
        numbers = np.array([self.numbers.of.get(feature, -1) for feature in features.tolist()], dtype=np.int64)[place]
        known = numbers >= 0
        ends = np.concatenate([[0], np.cumsum(known)])[found.indptr]
        rows = csr_array((found.data[known], numbers[known], ends), shape=(count, len(self.numbers.of)))
        rows.sort_indices()
        return rows

    def mark(self) -> tuple[Schema | None, int]:
        """Return the current state, for ``undo``."""
        return self.schema, len(self.numbers.of)

    def undo(self, mark: tuple[Schema | None, int]) -> None:
        """Forget features added since the mark."""
        self.schema, count = mark
        self.numbers.forget(count)
        self._encoder = None

    def take_in(self, other: FrameRows) -> NDArray[np.int64]:
        """Number the features of another encoder, too; return the number here of each of its features."""
        mine, theirs = (None if rows.schema is None else rows.schema.state() for rows in (self, other))
        if mine != theirs:
            raise OptionError("merge: the columns of the two data frames are of different kinds.")
        self.numbers.enter(other.numbers.of)
        for feature in other.numbers.of:
            self._names.add(feature, other._names.of(feature))
        return np.array([self.numbers.of[feature] for feature in other.numbers.of], dtype=np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrameRows.from_state, (self.state(),)

    def _refuse_gaps(self, columns: Mapping[str, Any]) -> None:
        assert self.schema is not None
        for field in self.schema.of(*NUMERIC_KINDS):
            cells = columns.get(field.name)
            gaps = int(np.isnan(as_floats(cells)).sum()) if is_numeric(cells) else 0
            if gaps:
                raise ValueError(
                    f"Input X contains NaN: column {field.name!r} has no number in {gaps} of its rows. "
                    "missing='indicate' gives such values a feature of their own, missing='zero' takes them for 0."
                )

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        schema = None if self.schema is None else self.schema.state()
        return {"schema": schema, "columns": list(self.numbers.of), "names": self.names}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> FrameRows:
        """Restore from ``state``."""
        rows = cls(None if state["schema"] is None else Schema.from_state(state["schema"]))
        rows.numbers.enter([int(feature) for feature in state["columns"]])
        if len(rows.numbers.of) != len(state["names"]):
            raise ModelFileError("its columns and their names are not as many.")
        for feature, name in zip(rows.numbers.of, state["names"], strict=True):
            rows._names.add(feature, str(name))
        return rows


def _matrix(rows: Any) -> Any:
    return rows.matrix() if hasattr(rows, "matrix") else rows


def named(X: Any, name: str = "X") -> Any:
    """Return a RecordBatch of pyarrow as a Table, whose names scikit-learn checks; anything else as it is.

    A data frame with two columns of one name and a lazy frame are refused.
    """
    if hasattr(X, "collect") and not hasattr(X, "to_arrow"):
        raise InputError(f"{name}: a lazy frame has no rows yet; call collect() first.")
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        refuse_twice(list(X.columns))
    if type(X).__name__ == "RecordBatch" and hasattr(X, "schema"):
        return import_pyarrow().Table.from_batches([X])
    return X


def needs_encoding(X: Any) -> bool:
    """True for a data frame or an Arrow table with a column that is not of numbers, or has missing values."""
    kinds = getattr(X, "dtypes", None)
    if hasattr(X, "iloc") and kinds is not None and all(getattr(kind, "kind", "O") in "biuf" for kind in kinds):
        return bool(X.isna().to_numpy().any())  # without Arrow
    columns = as_columns(X)
    if columns is None:
        return False
    for cells in map(cells_of, columns.values()):
        if not is_numeric(cells) or cells.null_count or np.isnan(as_floats(cells)).any():
            return True
    return False


def columns_with_gaps(X: Any, missing: str) -> dict[str, Any] | None:
    """Return the columns of a frame, or of an array of numbers with missing values, named x0, x1 and so on."""
    columns = as_columns(X)
    if columns is not None or missing in ("auto", "error") or hasattr(X, "tocsr"):
        return columns
    try:
        block = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if block.ndim != 2 or 0 in block.shape:
        return None  # scikit-learn raises its own error
    return {f"x{k}": block[:, k] for k in range(block.shape[1])}


def check_missing(missing: str) -> None:
    """Refuse an unknown value of ``missing``."""
    if missing not in MISSING:
        raise OptionError(f"missing={missing!r}: expected {' or '.join(map(repr, MISSING))}.")
