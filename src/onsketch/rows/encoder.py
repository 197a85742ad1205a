"""Encode named values as rows of numbers, by one set of rules for objects, columns, tables, frames and single rows.

Each feature has a name, which is hashed; where all columns are numbers, a feature is the index of its column instead:

==================  ====================================================================================
number, boolean     ``column``, with the number as its value; zeros are left out
category            ``column=word``, with value 1
text                ``column=word`` for each word in lower case, with its count; with pairs also ``column=two words``
date                ``column.hour=13``, ``column.weekday=0`` (Monday) and ``column.month=5``, each with value 1, and
                    ``column.days``, the days since the first date
missing value       ``column=``, with value 1; or nothing; or an error, as ``missing`` says
object              its columns, named ``column.name``
list                of words: like a text of these words; of other values: ``column.0``, ``column.1``, ...
==================  ====================================================================================

The entries of a row follow the order of the schema; columns that the schema does not list follow by name.

Cost: columns of numbers, dates and plain texts take compiled or NumPy loops; of all other columns each distinct cell is
encoded once. A single row is encoded in one pass in Python, with a dictionary of the words seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, shown
from onsketch.core.tolerances import LARGEST
from onsketch.jit.decorators import kernel
from onsketch.rows.arrays import (
    NO_VALUE,
    Faults,
    cells_of,
    distinct,
    hours_of,
    is_numeric,
    is_plain_text,
    not_a,
    numbers_of,
)
from onsketch.rows.cells import date_entries
from onsketch.rows.hashing import DEFAULT_BITS
from onsketch.rows.interactions import Interactions, interact
from onsketch.rows.names import Names
from onsketch.rows.schema import (
    FEATURES,
    NUMERIC_KINDS,
    ORDERS,
    Field,
    Schema,
    date_names,
    is_gap,
    number_of,
    second_of,
    word_of,
)
from onsketch.rows.sparse import Sparse, csr
from onsketch.rows.words import Entries, Hashes, as_bytes, bag, bags, weight_of

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

DEEPEST = 8
"""Objects within objects."""

_ABSENT: Any = object()
_SIMPLE = frozenset((int, float, bool, str, type(None)))
"""Types of cells that hold no other cells."""


@kernel
def put_entries(ends, slots, values, cursor, indices, data):
    """Append the entries of one column to all rows: row i has the entries ends[i-1]..ends[i] of slots and values."""
    j = 0
    for i in range(ends.size):
        place = cursor[i]
        while j < ends[i]:
            indices[place] = slots[j]
            data[place] = values[j]
            place += 1
            j += 1
        cursor[i] = place


@kernel
def put_dense(X, indptr, indices, values):
    """Write the non-zeros of X (n, d) in sparse form: a NaN in column k is 1 in column d + k. Return their number."""
    end, width = 0, X.shape[1]
    for i in range(X.shape[0]):
        gaps = False
        for k in range(width):
            if np.isnan(X[i, k]):
                gaps = True
            elif X[i, k] != 0.0:
                indices[end], values[end] = k, X[i, k]
                end += 1
        if gaps:
            for k in range(width):
                if np.isnan(X[i, k]):
                    indices[end], values[end] = width + k, 1.0
                    end += 1
        indptr[i + 1] = end
    return end


def sparse_with_gaps(X: Floats) -> Sparse:
    """The rows of a dense block in sparse form; behind its columns follow those of missing values (NaN)."""
    rows, width = X.shape
    indptr, indices, values = np.zeros(rows + 1, np.int64), np.empty(X.size, np.int64), np.empty(X.size)
    end = put_dense(np.ascontiguousarray(X), indptr, indices, values)
    return csr(indptr, indices[:end], values[:end], 2 * width)


class CellError(InputError):
    """A cell that is not of its column's kind."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"{column}: {reason}.")
        self.column, self.reason = column, reason

    def __reduce__(self) -> tuple[type[CellError], tuple[str, str]]:
        return type(self), (self.column, self.reason)


class Plan(NamedTuple):
    """Encoding of one column."""

    name: str
    kind: str
    own: int
    """The feature of a number."""
    gap: int
    """The feature of a missing value; −1 if there is none."""
    strict: bool
    """True if a missing value is an error."""
    step: Callable[[Any, list[int], list[float]], None]
    """Encodes one cell: appends its entries."""
    field: Field
    gaps: frozenset[Any]
    """Texts of missing values."""


class Encoder:
    """Encodes rows of a schema, as CSR rows or, where all columns are numbers and present, as a dense array.

    Args:
        schema: the columns.
        bits: hashed features are numbers below 2^bits.
        missing: "indicate", "zero" or "error".
        names: collects the names of features, if given.
        pairs: products of columns.

    >>> encoder = Encoder(Schema((Field("age", "number"), Field("job", "category"))), names=(names := Names()))
    >>> rows = encoder.objects([{"age": 31, "job": "cook"}, {"job": None}])
    >>> [names.of(slot) for slot in rows.indices.tolist()], rows.data.tolist()
    (['age', 'job=cook', 'age is missing', 'job is missing'], [31.0, 1.0, 1.0, 1.0])
    """

    def __init__(
        self, schema: Schema, bits: int = DEFAULT_BITS, missing: str = "indicate", names: Names | None = None,
        pairs: Interactions | None = None,
    ) -> None:  # fmt: skip
        self.schema, self.missing, self.pairs = schema, missing, pairs or Interactions()
        self._names = names
        used = schema.of(*FEATURES)
        self.hashes = Hashes(bits, names, (field.name for field in used))
        self.listed = {field.name for field in schema.fields}
        """Names of the columns of the schema."""
        self._parents = {name.split(".")[0] for name in self.listed if "." in name}
        self.width = self.hashes.mask + 1 if schema.hashed else len(used)
        self.plans = [self._plan(field, place) for place, field in enumerate(used)]
        if schema.extra == "ignore":
            self.pairs.check([field.name for field in used])
        self._steps: list[tuple[str | None, Callable[..., None]]] = []
        """Encode a row: with the name of a column its cell, without one several cells of the row."""
        for numeric, group in groupby(self.plans, lambda plan: plan.kind in NUMERIC_KINDS and not self.pairs):
            plans = list(group)
            together = numeric and len(plans) > 1
            self._steps += (
                [(None, _numbers_together(plans))] if together else [(plan.name, plan.step) for plan in plans]
            )

    def __reduce__(self) -> tuple[type[Encoder], tuple[Any, ...]]:
        """Copies and pickles start with an empty memory of words."""
        return Encoder, (self.schema, self.hashes.mask.bit_length(), self.missing, self._names, self.pairs)

    def _plan(self, field: Field, place: int) -> Plan:
        hashes, name = self.hashes, field.name
        numeric = field.kind in (*NUMERIC_KINDS, "any")
        own, gap = (hashes.one(name, named=numeric), -1) if self.schema.hashed else (place, self.width + place)
        if self.missing != "indicate":
            gap = -1
        elif self.schema.hashed:
            gap = hashes.one(f"{name}=", f"{name} is missing")
        if not self.schema.hashed and self._names is not None:
            self._names.add(own, name)
        gaps = self.schema.missing_words
        plan = Plan(name, field.kind, own, gap, self.missing == "error", _ABSENT, field, gaps)
        return plan._replace(step=_STEPS[field.kind](hashes, plan))

    def unlisted(self, name: str) -> Plan:
        """Return the plan of a column that the schema does not list; such a column is never missing."""
        plan = self.hashes.plans.get(name)
        if plan is None:
            own, gaps = self.hashes.enter([name])[0], self.schema.missing_words
            plan = Plan(name, "any", own, -1, False, _ABSENT, Field(name, "any"), gaps)
            plan = plan._replace(step=_any_step(self.hashes, plan))
            self.hashes.take(weight_of(name))
            self.hashes.plans[name] = plan
        return plan

    # Single rows --------------------------------------------------------------------------------------------

    def object(self, row: Mapping[str, Any], origins: list[int] | None = None) -> tuple[list[int], list[float]]:
        """Encode one row: features and values. An InputError names the column.

        Args:
            row: the row.
            origins: receives the namespace of each feature, where products are made.
        """
        indices: list[int] = []
        values: list[float] = []
        if self._parents and not self._parents.isdisjoint(row):
            row = flattened(row)
        for place, (name, step) in enumerate(self._steps):
            step(row if name is None else row.get(name), indices, values)
            if origins is not None:
                origins += [self.pairs.origin(self.plans[place].name)] * (len(indices) - len(origins))
        if self.schema.extra == "learn" and not row.keys() <= self.listed:
            self._encode_others(row, indices, values, origins)
        return indices, values

    def _encode_others(
        self, row: Mapping[str, Any], indices: list[int], values: list[float], origins: list[int] | None
    ) -> None:
        """Encode the columns of a row that the schema does not list, in the order of their names."""
        plans, known, names = self.hashes.plans, self.hashes.columns, sorted(row.keys() - self.listed)
        cells: list[Any] = list(map(row.__getitem__, names))
        try:
            total: Any = sum(cells, 0.0)
        except (TypeError, OverflowError):
            total = None
        if origins is None and type(total) is float and total - total == 0.0:  # plain, finite numbers
            try:
                slots = [known[name] for name in names]
            except KeyError:
                slots = self.hashes.enter(names)
            indices += [slot for slot, cell in zip(slots, cells, strict=True) if cell]
            values += filter(None, cells)
            return
        if not _SIMPLE.issuperset(map(type, cells)):
            flat = flattened(dict(zip(names, cells, strict=True)))
            names = sorted(flat.keys() - self.listed)
            cells = [flat[name] for name in names]
        for name, cell in zip(names, cells, strict=True):
            plan = plans.get(name) or self.unlisted(name)
            plan.step(cell, indices, values)
            if origins is not None:
                origins += [self.pairs.origin(name)] * (len(indices) - len(origins))

    def objects(self, rows: Sequence[Any]) -> Sparse | Floats:
        """Encode objects, or lists of values in the order of the columns. An InputError names row and column."""
        ends, indices, values, spaces = [0], list[int](), list[float](), list[int]()
        for place, row in enumerate(rows):
            origins: list[int] | None = [] if self.pairs else None
            try:
                more, numbers = self.object(self.named(row), origins)
            except InputError as error:
                raise InputError(f"row {place}: {error}") from None
            indices += more
            values += numbers
            spaces += origins or ()
            ends.append(len(indices))
        return self.block(ends, indices, values, spaces)

    def named(self, row: Any) -> Mapping[str, Any]:
        """The row as an object: a list has the values of the columns in order."""
        if isinstance(row, (dict, Mapping)):
            return row
        plans = self.plans
        if isinstance(row, (list, tuple)) and (len(row) == len(plans) or self.schema.extra == "learn"):
            names = [plan.name for plan in plans] if len(row) == len(plans) else list(map(str, range(len(row))))
            return dict(zip(names, row, strict=True))
        raise InputError(f"features: expected an object or a list of {len(plans)} values, found {shown(row)}.")

    def block(
        self, ends: Sequence[int], indices: Sequence[int], values: Sequence[float], origins: Sequence[int] = ()
    ) -> Sparse | Floats:
        """Rows from entries that ``object`` made: those of row i are ends[i]..ends[i+1]."""
        parts = np.array(ends), np.array(indices, dtype=np.int64), np.array(values, dtype=np.float64)
        if self.schema.hashed:
            return self.sparse(*parts, np.array(origins, dtype=np.float64))
        indptr, slots, numbers = parts
        X = np.zeros((indptr.size - 1, 2 * self.width))
        X[np.repeat(np.arange(indptr.size - 1), np.diff(indptr)), slots] = numbers
        return self.dense(np.where(X[:, self.width :] > 0.0, np.nan, X[:, : self.width]))

    # Columns ------------------------------------------------------------------------------------------------

    def columns(self, columns: Mapping[str, Any], count: int, faults: Faults | None = None) -> Sparse | Floats:
        """Encode columns by name: lists, arrays, series or Arrow columns with ``count`` cells each.

        Bad cells are collected in ``faults``, if given, and count as missing; otherwise the first is an InputError.
        """
        found = faults or Faults(count)
        if self.schema.hashed:
            plans = list(self.plans)
            if self.schema.extra == "learn":
                plans += [self.unlisted(name) for name in sorted(columns) if name not in self.listed]
            entries = [self._entries(plan, cells_of(columns.get(plan.name)), count, found) for plan in plans]
        else:
            X = np.empty((count, self.width))
            for plan in self.plans:
                X[:, plan.own] = numbers_of(
                    plan.field, cells_of(columns.get(plan.name)), count, found, plan.strict, plan.gaps
                )
        if faults is None and found.found:
            row, name, reason = min(found.found)
            raise InputError(f"row {row}: {name}: {reason}.")
        if not self.schema.hashed:
            return self.dense(X)
        return self._joined(plans, entries, count)

    def _joined(self, plans: Sequence[Plan], entries: Sequence[Entries], count: int) -> Sparse:
        """The entries of all columns, row by row."""
        indptr = np.zeros(count + 1, dtype=np.int64)
        for part in entries:
            indptr[1:] += part.ends
        cursor, origins = indptr[:-1].copy(), indptr[:-1].copy()
        indices, data = np.empty(int(indptr[-1]), dtype=np.int64), np.empty(int(indptr[-1]))
        spaces = np.zeros(indices.size if self.pairs else 0)
        for plan, part in zip(plans, entries, strict=True):
            put_entries(part.ends, part.slots, part.values, cursor, indices, data)
            if self.pairs:
                of_column = np.full(part.slots.size, float(self.pairs.origin(plan.name)))
                put_entries(part.ends, part.slots, of_column, origins, indices, spaces)
        return self.sparse(indptr, indices, data, spaces)

    def sparse(self, indptr: Whole, indices: Whole, data: Floats, origins: NDArray[Any]) -> Sparse:
        """Return rows of hashed features with their products; ``origins`` are the namespaces of the entries."""
        if not self.pairs:
            return csr(indptr, indices, data, self.width)
        mask, spaces = self.hashes.mask, origins.astype(np.uint8)
        return csr(*interact(indptr, indices, data, spaces, self.pairs, mask, self.hashes.names), mask + 1)

    def dense(self, X: Floats) -> Sparse | Floats:
        """Return rows of numbers with NaN for missing ones; sparse if missing values are features."""
        with np.errstate(over="ignore", invalid="ignore"):
            gaps = bool(np.isnan(X.sum())) and bool(np.isnan(X).any())
        if gaps and self.missing != "indicate":
            X, gaps = np.nan_to_num(X, nan=0.0), False
        if not gaps and not self.schema.gaps and not self.pairs:
            return X
        if gaps and self._names is not None:
            for plan in self.plans:
                self._names.add(plan.gap, f"{plan.name} is missing")
        rows = sparse_with_gaps(X)
        if not self.pairs:
            return rows
        origins = np.array([self.pairs.origin(plan.name) for plan in self.plans] * 2, dtype=np.float64)
        return self.sparse(
            rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data, origins[rows.indices]
        )

    def _entries(self, plan: Plan, cells: Any, count: int, faults: Faults) -> Entries:
        """The entries of one column."""
        if plan.kind in NUMERIC_KINDS or (plan.kind == "any" and is_numeric(cells)):
            numbers = numbers_of(plan.field, cells, count, faults, plan.strict, plan.gaps)
            slots = np.where(np.isnan(numbers), plan.gap, plan.own)
            values = np.where(np.isnan(numbers), 1.0, numbers)
            there = (values != 0.0) & (slots >= 0)
            return Entries(np.cumsum(there), slots[there], values[there])
        if plan.kind == "text" and is_plain_text(cells):
            return self._bags(plan, cells, count, faults)
        return self._by_cell(plan, *distinct(hours_of(cells) if plan.kind == "date" else cells, count), faults)

    def _by_cell(self, plan: Plan, codes: Whole, different: Sequence[Any], faults: Faults) -> Entries:
        """Encode each distinct cell once, and give the rows the entries of their cells."""
        if plan.kind == "category":
            words = [word_of(cell) for cell in different if type(cell) is str and not is_gap(cell, plan.gaps)]
            self.hashes.learn(plan.name, words)
        ends = np.zeros(len(different) + 1, dtype=np.int64)
        slots: list[int] = []
        values: list[float] = []
        for code, cell in enumerate(different):
            try:
                plan.step(cell, slots, values)
            except CellError as error:
                faults.add(codes == code, plan.name, error.reason)
            ends[code + 1] = len(slots)
        sizes = np.diff(ends)[codes]
        last = np.cumsum(sizes)
        places = np.arange(sizes.sum()) + np.repeat(ends[codes] - last + sizes, sizes)
        return Entries(last, np.array(slots, dtype=np.int64)[places], np.array(values, dtype=np.float64)[places])

    def _bags(self, plan: Plan, texts: Any, count: int, faults: Faults) -> Entries:
        """The words of an Arrow column of texts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = texts.cast(pa.large_string())
        gone = pc.is_in(pc.ascii_trim(texts, " \t\r\n"), pa.array(sorted(plan.gaps), pa.large_string()))
        gaps = np.asarray(pc.or_(pc.is_null(texts), gone))
        if plan.strict:
            faults.add(gaps, plan.name, NO_VALUE)
        texts = pc.if_else(pa.array(gaps), "", texts).cast(pa.large_string())
        _, offsets, data = texts.buffers()
        places = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + count + 1].copy()
        ends, slots, values = bags(self.hashes, plan.field, as_bytes(data or b""), places[:-1], places[1:])
        if plan.gap >= 0 and gaps.any():
            at = ends[gaps]
            ends, slots, values = ends + np.cumsum(gaps), np.insert(slots, at, plan.gap), np.insert(values, at, 1.0)
        return Entries(ends, slots, values)


# Cells ------------------------------------------------------------------------------------------------------


def _put_gap(plan: Plan, indices: list[int], values: list[float]) -> None:
    if plan.strict:
        raise CellError(plan.name, NO_VALUE)
    if plan.gap >= 0:
        indices.append(plan.gap)
        values.append(1.0)


def _number_step(hashes: Hashes, plan: Plan) -> Callable[..., None]:
    own, name, comma, gaps = plan.own, plan.name, plan.field.comma, plan.gaps

    def step(value: Any, indices: list[int], values: list[float]) -> None:
        kind = type(value)
        plain = (kind is float or kind is int) and -LARGEST < value < LARGEST
        number = value if plain else number_of(value, comma)
        if number is None or number in gaps:
            if number is not None or is_gap(value, gaps):
                return _put_gap(plan, indices, values)
            raise CellError(name, not_a(value, "finite number"))
        if number:
            indices.append(own)
            values.append(number)
        return None

    return step


def _numbers_together(plans: list[Plan]) -> Callable[..., None]:
    """Reads adjacent columns of numbers, in one pass where all are present, plain and finite."""
    names, slots = [plan.name for plan in plans], [plan.own for plan in plans]

    def step(row: Mapping[str, Any], indices: list[int], values: list[float]) -> None:
        found: list[Any] = list(map(row.get, names))
        try:
            total: Any = sum(found, 0.0)  # not a finite number if one of them is none
        except (TypeError, OverflowError):
            total = None
        if type(total) is not float or total - total != 0.0:
            for plan, value in zip(plans, found, strict=True):
                plan.step(value, indices, values)
        elif 0 in found:
            indices += [slot for slot, value in zip(slots, found, strict=True) if value]
            values += filter(None, found)
        else:
            indices += slots
            values += found

    return step


def _category_step(hashes: Hashes, plan: Plan) -> Callable[..., None]:
    name, known = plan.name, hashes.known(plan.name)

    def step(value: Any, indices: list[int], values: list[float]) -> None:
        slot = known.get(value) if type(value) is str else None
        if slot is None:
            if is_gap(value, plan.gaps):
                return _put_gap(plan, indices, values)
            if isinstance(value, (Mapping, list, tuple)):
                raise CellError(name, not_a(value, "category"))
            word = word_of(value)
            slot = known.get(word)
            if slot is None:
                (slot,) = hashes.learn(name, [word])
        indices.append(slot)
        values.append(1.0)
        return None

    return step


def _text_step(hashes: Hashes, plan: Plan) -> Callable[..., None]:
    def step(value: Any, indices: list[int], values: list[float]) -> None:
        if is_gap(value, plan.gaps):
            return _put_gap(plan, indices, values)
        listed = isinstance(value, (list, tuple))
        text = " ".join(map(word_of, value)) if listed else value if isinstance(value, str) else word_of(value)
        slots, counts = bag(hashes, plan.field, text)
        indices += slots
        values += counts
        return None

    return step


def date_slots(hashes: Hashes, column: str) -> Whole:
    """Return the features of a column of dates, in the order of ``date_names``."""
    return np.array([hashes.one(part) for part in date_names(column)])


def _date_step(hashes: Hashes, plan: Plan) -> Callable[..., None]:
    parts = date_slots(hashes, plan.name)
    start, order = plan.field.start, ORDERS[plan.field.form]

    def step(value: Any, indices: list[int], values: list[float]) -> None:
        if is_gap(value, plan.gaps):
            return _put_gap(plan, indices, values)
        slots, numbers = np.empty(4, dtype=np.int64), np.empty(4)
        second = second_of(value, order)
        if second is None:
            raise CellError(plan.name, not_a(value, "date"))
        count = date_entries(second, start, parts, slots, numbers)
        indices += slots[:count].tolist()
        values += numbers[:count].tolist()
        return None

    return step


def _any_step(hashes: Hashes, plan: Plan) -> Callable[..., None]:
    """Encodes a number as a number, a list of words as a text, an object as columns, all else as a category."""
    name, number, category = plan.name, _number_step(hashes, plan), _category_step(hashes, plan)
    comma = plan.field.comma

    known = hashes.known(name)

    def step(value: Any, indices: list[int], values: list[float]) -> None:
        kind = type(value)
        if kind is float or kind is int or kind is bool:
            return number(value, indices, values)
        if kind is str and value in known:
            return category(value, indices, values)
        if isinstance(value, (Mapping, list, tuple)):
            listed = not isinstance(value, Mapping)
            if listed and value and all(isinstance(item, str) for item in value):
                return _text_step(hashes, plan)(
                    [word for word in value if not is_gap(word, plan.gaps)], indices, values
                )
            cells: Any = {str(place): item for place, item in enumerate(value)} if listed else value
            for inner, cell in sorted(flattened(cells, f"{name}.").items()):
                if listed and isinstance(cell, (list, tuple)):
                    raise CellError(inner, not_a(cell, "number or a word"))
                (own,) = hashes.enter([inner])
                _any_step(hashes, plan._replace(name=inner, own=own, gap=-1, strict=False))(cell, indices, values)
            return None
        numeric = is_gap(value, plan.gaps) or number_of(value, comma) is not None
        return (number if numeric else category)(value, indices, values)

    return step


_STEPS: dict[str, Callable[[Hashes, Plan], Callable[..., None]]] = {
    "number": _number_step, "boolean": _number_step, "category": _category_step, "text": _text_step,
    "date": _date_step, "any": _any_step,
}  # fmt: skip


def flattened(row: Mapping[str, Any], before: str = "", deeper: int = DEEPEST) -> dict[str, Any]:
    """The row without objects in it: the columns of an object ``a`` are named ``a.b``.

    >>> flattened({"a": {"b": 1, "c": {"d": 2}}, "e": 3})
    {'a.b': 1, 'a.c.d': 2, 'e': 3}
    """
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            if not deeper:
                raise InputError(f"{before}{name}: objects lie deeper than {DEEPEST} within each other.")
            flat |= flattened(value, f"{before}{name}.", deeper - 1)
        else:
            flat[f"{before}{name}"] = value
    return flat
