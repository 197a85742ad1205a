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

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, shown
from onsketch.core.tolerances import LARGEST
from onsketch.jit.decorators import inlined, kernel
from onsketch.rows.cells import date_entries
from onsketch.rows.hashing import DEFAULT_BITS, column_mask, murmur, name_hash
from onsketch.rows.interactions import Interactions, interact
from onsketch.rows.names import Names
from onsketch.rows.schema import (
    FEATURES,
    GAPS,
    NUMERIC_KINDS,
    ORDERS,
    PAIRS,
    Field,
    Schema,
    date_names,
    is_gap,
    number_of,
    second_of,
    tokens_of,
    word_of,
)
from onsketch.rows.sparse import Sparse, csr

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

MOST_WORDS = 1 << 18
"""Words whose hashes are remembered at a time, for all columns together; and columns that no schema lists. One of more
than 64 characters counts as several."""

DEEPEST = 8
"""Objects within objects."""

_ABSENT: Any = object()
_SIMPLE = frozenset((int, float, bool, str, type(None)))
"""Types of cells that hold no other cells."""

NO_VALUE = 'no value in this field; missing="zero" reads such fields as 0, missing="indicate" as missing'


# Compiled loops ---------------------------------------------------------------------------------------------


@kernel
def hash_words(text, ends, prefix, mask, key, out):
    """Hash ``prefix + word`` for each of the words that are concatenated in ``text`` (bytes,) and end at ``ends``."""
    for i in range(prefix.size):
        key[i] = prefix[i]
    start = 0
    for word in range(ends.size):
        size = prefix.size
        for at in range(start, ends[word]):
            key[size] = text[at]
            size += 1
        out[word] = np.int64(name_hash(key, 0, size, np.uint64(0)) & mask)
        start = ends[word]


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


@inlined
def _put_word(key, size, mask, low, end, slots, values):
    """Count the word in key[:size] in the ascending entries low..end of a row; return their end."""
    slot = np.int64(murmur(key, 0, size, np.uint64(0)) & mask)
    j = end
    while j > low and slots[j - 1] > slot:
        j -= 1
    if j > low and slots[j - 1] == slot:
        values[j - 1] += 1.0
        return end
    for i in range(end, j, -1):
        slots[i] = slots[i - 1]
        values[i] = values[i - 1]
    slots[j] = slot
    values[j] = 1.0
    return end + 1


@kernel
def bags_of_words(text, starts, stops, prefix, pairs, mask, key, ends, slots, values):
    """Count the words of ASCII texts in lower case, as hashed features in ascending order within each row.

    Text i is text[starts[i]:stops[i]]. With ``pairs``, two neighbouring words are a feature, too. Stops before the
    first text that is not ASCII and returns the number of texts done. ``ends`` receives the ends of the rows' entries.
    Cost: O(bytes), and O(words²) at worst for the order within a row.
    """
    head = prefix.size
    for i in range(head):
        key[i] = prefix[i]
    end = 0
    for row in range(starts.size):
        low, at, stop = end, starts[row], stops[row]
        for i in range(at, stop):
            if text[i] >= 128:
                return row
        before = 0  # bytes of the word before, which follows the prefix in the key
        while at < stop:
            begin = size = head + before + (before > 0)
            while at < stop:
                c = text[at]
                if 65 <= c <= 90:
                    c += np.uint8(32)
                elif not (97 <= c <= 122 or 48 <= c <= 57 or c == 95):
                    break
                key[size] = c
                size += 1
                at += 1
            if size > begin:
                if before:  # the pair first, then the word alone, which moves to the front
                    key[begin - 1] = 32
                    end = _put_word(key, size, mask, low, end, slots, values)
                    for i in range(begin, size):
                        key[head + i - begin] = key[i]
                    size += head - begin
                end = _put_word(key, size, mask, low, end, slots, values)
                before = size - head if pairs else 0
            at += 1
        ends[row] = end
    return starts.size


def sparse_with_gaps(X: Floats) -> Sparse:
    """The rows of a dense block in sparse form; behind its columns follow those of missing values (NaN)."""
    rows, width = X.shape
    indptr, indices, values = np.zeros(rows + 1, np.int64), np.empty(X.size, np.int64), np.empty(X.size)
    end = put_dense(np.ascontiguousarray(X), indptr, indices, values)
    return csr(indptr, indices[:end], values[:end], 2 * width)


def weight_of(word: str) -> int:
    """Return the cost of a word in the memory of words: 1, and 1 more for every 64 characters."""
    return 1 + len(word) // 64


# Names and faults -------------------------------------------------------------------------------------------


class Hashes:
    """Map from names of features to hashed columns of X, with a cache of words.

    A full cache is emptied, also by other threads. The dictionaries of listed columns stay the same objects then.
    """

    def __init__(self, bits: int, names: Names | None, listed: Iterable[str]) -> None:
        self.mask, self._column_names = column_mask(bits), names
        self.names = names if names is not None and names.words else None
        self.columns: dict[str, int] = {}
        """Hashed names of columns that no schema lists."""
        self.plans: dict[str, Plan] = {}
        """Plans of those that hold more than numbers."""
        self._known: dict[tuple[str, bool], dict[str, int]] = {(name, False): {} for name in listed}
        self._listed, self._room = len(self._known), MOST_WORDS

    def of(self, words: Sequence[str], column: str) -> Whole:
        """Hash ``column=word`` for these words."""
        return self._hashed([_bytes(word) for word in words], _bytes(column) + b"=")

    def one(self, name: str, shown_as: str | None = None, named: bool = True) -> int:
        """Hash the name of a column, and keep it among the names of features if ``named``."""
        slot = int(self._hashed([_bytes(name)], b"")[0])
        if named and self._column_names is not None:
            self._column_names.add(slot, shown_as or name)
        return slot

    def enter(self, columns: Sequence[str]) -> list[int]:
        """Hash and name columns that no schema lists."""
        self.take(sum(weight_of(name) for name in columns if name not in self.columns))
        slots: list[int] = self._hashed([_bytes(name) for name in columns], b"").tolist()
        self.columns.update(zip(columns, slots, strict=True))
        if self.names is not None:
            for slot, name in zip(slots, columns, strict=True):
                self.names.add(slot, name)
        return slots

    def known(self, column: str, texts: bool = False) -> dict[str, int]:
        """Return the hashes of the categories of a column seen so far, or those of the words of its texts."""
        found = self._known.get((column, texts))
        if found is None:
            self.take(weight_of(column))
            found = self._known.setdefault((column, texts), {})
        return found

    def take(self, room: int) -> None:
        """Take room in the cache, which is emptied first if it is full."""
        self._room -= room
        if self._room < 0:
            for known in list(self._known.values()):  # in place: steps hold them
                known.clear()
            for column in list(islice(self._known, self._listed, None)):
                self._known.pop(column, None)
            self.plans.clear()
            self.columns.clear()
            self._room = MOST_WORDS

    def learn(self, column: str, words: Sequence[str], texts: bool = False) -> list[int]:
        """Hash words of a column, remember and name them; return the hashes."""
        self.take(sum(map(weight_of, words)))
        slots: list[int] = self.of(words, column).tolist()
        self.known(column, texts).update(zip(words, slots, strict=True))
        if self.names is not None:
            for slot, word in zip(slots, words, strict=True):
                self.names.add(slot, f"{column}={word}")
        return slots

    def _hashed(self, texts: list[bytes], prefix: bytes) -> Whole:
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        key = np.empty(len(prefix) + max(map(len, texts), default=0) + 8, dtype=np.uint8)
        out = np.empty(len(texts), dtype=np.int64)
        hash_words(_as_bytes(b"".join(texts)), ends, _as_bytes(prefix), np.uint64(self.mask), key, out)
        return out


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


class Entries(NamedTuple):
    """The entries of one column: those of row i are ends[i-1]..ends[i]."""

    ends: Whole
    slots: Whole
    values: Floats


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

    def table(self, table: Any, faults: Faults | None = None) -> Sparse | Floats:
        """Encode a pyarrow Table or RecordBatch; structs are objects."""
        return self.columns(columns_of(table), table.num_rows, faults)

    def frame(self, frame: Any, faults: Faults | None = None) -> Sparse | Floats:
        """Encode a data frame of pandas or polars."""
        if hasattr(frame, "to_arrow"):
            return self.table(frame.to_arrow(), faults)
        return self.columns(columns_of(frame), len(frame), faults)

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
        if plan.kind == "text" and _is_plain_text(cells):
            return self._bags(plan, cells, count, faults)
        return self._by_cell(plan, *distinct(_hours(cells) if plan.kind == "date" else cells, count), faults)

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
        ends, slots, values = bags(self.hashes, plan.field, _as_bytes(data or b""), places[:-1], places[1:])
        if plan.gap >= 0 and gaps.any():
            at = ends[gaps]
            ends, slots, values = ends + np.cumsum(gaps), np.insert(slots, at, plan.gap), np.insert(values, at, 1.0)
        return Entries(ends, slots, values)


# Cells ------------------------------------------------------------------------------------------------------


class CellError(InputError):
    """A cell that is not of its column's kind."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"{column}: {reason}.")
        self.column, self.reason = column, reason

    def __reduce__(self) -> tuple[type[CellError], tuple[str, str]]:
        return type(self), (self.column, self.reason)


def _not_a(cell: Any, what: str) -> str:
    infinite = isinstance(cell, float) and np.isinf(cell)
    return "an infinite value" if infinite else f"expected a {what}, found {shown(cell)}"


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
            raise CellError(name, _not_a(value, "finite number"))
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
                raise CellError(name, _not_a(value, "category"))
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
        slots, counts = _bag(hashes, plan.field, text)
        indices += slots
        values += counts
        return None

    return step


def bags(hashes: Hashes, field: Field, text: NDArray[np.uint8], starts: Whole, stops: Whole) -> Entries:
    """The words of the texts text[starts[i]:stops[i]], compiled where they are ASCII."""
    name, count, pairs = field.name, starts.size, field.form == PAIRS
    prefix, mask = _as_bytes(_bytes(name) + b"="), np.uint64(hashes.mask)
    sizes = stops - starts
    key = np.empty(prefix.size + 2 * int(sizes.max(initial=0)) + 16, dtype=np.uint8)
    room = int(sizes.sum()) // (1 if pairs else 2) + count + 1
    ends, slots, values = np.zeros(count, np.int64), np.empty(room, np.int64), np.empty(room)
    done, end = 0, 0
    while done < count:
        part = ends[done:], slots[end:], values[end:]
        more = bags_of_words(text, starts[done:], stops[done:], prefix, pairs, mask, key, *part)
        ends[done : done + more] += end
        done += more
        end = int(ends[done - 1]) if done else 0
        if done < count:  # a text that is not ASCII
            found, times = _bag(hashes, field, bytes(text[starts[done] : stops[done]]).decode("utf-8", "replace"))
            slots[end : end + len(found)], values[end : end + len(found)] = found, times
            ends[done] = end = end + len(found)
            done += 1
    slots, values = slots[:end], values[:end]
    if hashes.names is not None:  # the compiled loop handles hashes only
        new = hashes.names.new(slots, hashes.mask + 1)
        for row in np.unique(np.searchsorted(ends, new, "right")).tolist():
            _bag(hashes, field, bytes(text[starts[row] : stops[row]]).decode("utf-8", "replace"))
    return Entries(ends, slots, values)


def _bag(hashes: Hashes, field: Field, text: str) -> tuple[list[int], list[float]]:
    """The words of a text, as features in ascending order, and their counts."""
    known, tokens = hashes.known(field.name, texts=True), [token.lower() for token in tokens_of(text)]
    if field.form == PAIRS:
        tokens += [f"{one} {two}" for one, two in pairwise(tokens)]
    found: dict[str, Any] = {token: known.get(token) for token in tokens}
    fresh = [token for token, slot in found.items() if slot is None]
    if fresh:
        found.update(zip(fresh, hashes.learn(field.name, fresh, texts=True), strict=True))
    counted = Counter(map(found.__getitem__, tokens))
    slots = sorted(counted)
    return slots, [float(counted[slot]) for slot in slots]


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
            raise CellError(plan.name, _not_a(value, "date"))
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
                    raise CellError(inner, _not_a(cell, "number or a word"))
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


# Cells of whole columns -------------------------------------------------------------------------------------


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


def _as_bytes(data: Any) -> NDArray[np.uint8]:
    """Bytes as an array that compiled loops take, which is writable."""
    return np.frombuffer(data, dtype=np.uint8).copy() if len(data) else np.zeros(0, dtype=np.uint8)


def _bytes(word: str) -> bytes:
    try:
        return word.encode()
    except UnicodeEncodeError:
        raise InputError(f"{shown(word)}: half a character (a lone surrogate) cannot be hashed.") from None


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


def _is_plain_text(cells: Any) -> bool:
    if cells is None or isinstance(cells, list):
        return False
    from pyarrow import types

    return bool(types.is_string(cells.type) or types.is_large_string(cells.type) or types.is_string_view(cells.type))


def as_floats(cells: Any) -> Floats:
    """A numeric Arrow column as float64, NaN where a value is missing."""
    import pyarrow as pa

    found: Floats = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


def _hours(cells: Any) -> Any:
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
                faults.add(codes == code, name, _not_a(different[code], "finite number"))
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
