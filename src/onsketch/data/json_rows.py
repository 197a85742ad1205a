"""JSON objects to rows: names to numbers or words, nested objects as namespaces, hashed as Vowpal Wabbit's text is.

``{"age": 31, "colour": "red", "site": {"clicks": 2}}`` is the row of ``| age:31 colour:red |site clicks:2``, column for
column and in this order, so that a model learned from either goes on with the other. In detail:

- a number is the value of its name; true is 1; false, 0 and null are left out, as zeros are in text;
- a word is hashed on from its name, with value 1: ``H("red", H("colour", h))``;
- an object is a namespace; within another one its name is the path, ``user.place``;
- a list of numbers is a namespace of features without names, as ``|x :1 :2`` is;
  a list of words, one of features without values, as ``|x a b`` is.

A row's cost: a look into a dictionary for each feature; a name met for the first time is hashed. The dictionary is
emptied when it is full, so that names without end cost time and not memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onsketch.core.errors import InputError, shown
from onsketch.data.columns import LABEL_NAMES
from onsketch.rows.hashing import DEFAULT_BITS, column_mask, hash_word
from onsketch.rows.sparse import Sparse, csr

MOST_NAMES = 1 << 18
"""Names whose columns are remembered at a time."""

ENVELOPE = frozenset(("features", "label", "weight", "tag"))
"""Keys of an object that has its features apart."""

DEEPEST = 8
"""Objects within objects."""

_INFINITY = float("inf")
_UNNAMED = ord(" ")
"""What stands for the first letter of the namespace without a name."""


class Example(NamedTuple):
    """A JSON object taken apart."""

    features: Any
    """An object, or a list of numbers."""
    label: Any
    """A number or a word; None where there is none."""
    weight: Any
    tag: Any


def example(row: Any, label: str | None = "auto", weight: str | None = None, tag: str | None = None) -> Example:
    """The parts of an object that has its label, weight and tag beside its features.

    An object is an envelope if it has no other keys than those of ``{"features": {...}, "label": 1, "weight": 2,
    "tag": "a"}`` and no option asks for another one. Any other object is flat: each key is a feature, ``features`` too.

    Args:
        row: an envelope, as the service takes it, or a flat object, in which VW's ``_label``, ``_weight`` and ``_tag``
            are known, too.
        label: the label's name in a flat object; "auto" is ``_label``, else the one named label, target, y or class.
        weight: the name of the sample weight in a flat object.
        tag: the name of the tag in a flat object.

    >>> example({"features": {"age": 3}, "label": 1})
    Example(features={'age': 3}, label=1, weight=None, tag=None)
    >>> example({"age": 3, "target": "yes"})
    Example(features={'age': 3}, label='yes', weight=None, tag=None)
    """
    if not isinstance(row, Mapping):
        raise InputError(f"expected an object, found {shown(row)}.")
    asked = {label, weight, tag} - {None, "auto"}
    if isinstance(row.get("features"), (Mapping, list)) and row.keys() <= ENVELOPE and asked <= ENVELOPE:
        return Example(row["features"], row.get("label"), row.get("weight"), row.get("tag"))
    names = (_label_name(row, label), weight or "_weight", tag or "_tag")
    parts = [None if name is None else row.get(name) for name in names]
    return Example({name: value for name, value in row.items() if name not in names}, *parts)


def _label_name(row: Mapping[str, Any], label: str | None) -> str | None:
    if label != "auto":
        return label
    if "_label" in row:
        return "_label"
    found = [name for name in row if name.lower() in LABEL_NAMES]
    if len(found) > 1:
        raise InputError(f"{' and '.join(map(repr, found))} may both be the label; say which.")
    return found[0] if found else None


class ObjectRows:
    """Rows from objects, one after the other; ``take`` hands them over.

    >>> from onsketch.rows.hashing import hash_name
    >>> rows = ObjectRows()
    >>> rows.add({"17": 2, "colour": "red", "site": {"clicks": True, "views": 0}})
    >>> rows.take().indices.tolist() == [17, hash_name("colour", value="red"), hash_name("clicks", "site")]
    True
    """

    def __init__(self, bits: int = DEFAULT_BITS, names: dict[int, str] | None = None) -> None:
        self.mask = column_mask(bits)
        self.width = self.mask + 1
        self.names = names
        """Where the names of columns are collected, if anywhere."""
        self.columns: list[int] = []
        self.values: list[float] = []
        self.spaces: list[int] = []
        """The first byte of each value's namespace, which interactions go by."""
        self.ends: list[int] = [0]
        self._known: dict[Any, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self.ends) - 1

    def add(self, features: Any) -> None:
        """Add a row. An InputError names the field, and leaves the rows as they were."""
        start = len(self.columns)
        try:
            if isinstance(features, Mapping):
                self._object(features, "", DEEPEST)
            elif isinstance(features, (list, tuple)):
                self._list(features, "")
            else:
                raise InputError(f"features: expected an object or a list of numbers, found {shown(features)}.")
        except BaseException:
            del self.columns[start:], self.values[start:], self.spaces[start:]
            raise
        self.ends.append(len(self.columns))

    def take(self) -> Sparse:
        """The rows added since the last call."""
        indptr = np.array(self.ends, dtype=np.int64)
        rows = csr(indptr, np.array(self.columns, dtype=np.int64), np.array(self.values, dtype=np.float64), self.width)
        self.columns, self.values, self.spaces, self.ends = [], [], [], [0]
        return rows

    def _object(self, features: Mapping[str, Any], space: str, deeper: int) -> None:
        known = self._known
        columns, values, spaces = self.columns, self.values, self.spaces
        for name, value in features.items():
            kind = type(value)
            if kind is float or kind is int or kind is bool:
                if value == 0:
                    continue
                column, first = known.get((space, name)) or self._enter(space, name)
                number = _number(value, space, name) if kind is not bool else 1.0
                columns.append(column)
                values.append(number)
                spaces.append(first)
            elif kind is str:
                column, first = known.get((space, name, value)) or self._enter(space, name, value)
                columns.append(column)
                values.append(1.0)
                spaces.append(first)
            elif value is None:
                continue
            elif isinstance(value, Mapping):
                if not deeper:
                    raise InputError(f"{_path(space, name)}: objects lie deeper than {DEEPEST} within each other.")
                self._object(value, _path(space, name), deeper - 1)
            elif isinstance(value, (list, tuple)):
                self._list(value, _path(space, name))
            else:
                raise InputError(f"{_path(space, name)}: expected a number or a word, found {shown(value)}.")

    def _list(self, items: Sequence[Any], space: str) -> None:
        """Numbers are features without names, counted from the namespace's own column on."""
        base, first = self._hash(space) if space else (0, _UNNAMED)
        for place, value in enumerate(items):
            if isinstance(value, str):
                column, _ = self._known.get((space, value)) or self._enter(space, value)
                number = 1.0
            elif isinstance(value, (int, float)):
                column, number = (base + place) & self.mask, _number(value, space, place)
            elif value is None:
                continue
            else:
                raise InputError(f"{_path(space, place)}: expected a number or a word, found {shown(value)}.")
            if number != 0.0:
                self.columns.append(column)
                self.values.append(number)
                self.spaces.append(first)
                if self.names is not None and not isinstance(value, str):
                    self.names.setdefault(column, _shown_name(space, str(place)))

    def _hash(self, space: str) -> tuple[int, int]:
        """The whole hash of a namespace, and its first byte."""
        found = self._known.get(space)
        if found is None:
            found = self._known[space] = hash_word(_text(space), 0), _text(space)[0]
        return found

    def _enter(self, space: str, name: str, word: str | None = None) -> tuple[int, int]:
        """Hash a name met for the first time."""
        if len(self._known) >= MOST_NAMES:
            self._known.clear()
        seed, first = self._hash(space) if space else (0, _UNNAMED)
        column = hash_word(_text(name), seed)
        if word is not None:
            column = hash_word(_text(word), column)
        found = column & self.mask, first
        self._known[(space, name) if word is None else (space, name, word)] = found
        if self.names is not None:
            self.names.setdefault(found[0], _shown_name(space, name if word is None else f"{name}:{word}"))
        return found


def rows_of(objects: Iterable[Any], bits: int = DEFAULT_BITS) -> Sparse:
    """Objects as the rows of a matrix; an error says which.

    >>> rows_of([{"a": 1, "b": 0}, {"b": 2.5}]).data.tolist()
    [1.0, 2.5]
    """
    rows = ObjectRows(bits)
    for place, features in enumerate(objects):
        try:
            rows.add(features)
        except InputError as error:
            raise InputError(f"row {place}: {error}") from None
    return rows.take()


def _number(value: float, space: str, name: str | int) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = _INFINITY
    if not -_INFINITY < number < _INFINITY:
        raise InputError(f"{_path(space, name)}: {shown(value)} is not a finite number.")
    return number


def _text(word: str) -> bytes:
    try:
        return word.encode()
    except UnicodeEncodeError:
        raise InputError(f"{shown(word)}: half a character (a lone surrogate) cannot be hashed.") from None


def _path(space: str, name: str | int) -> str:
    return f"{space}.{name}" if space else str(name)


def _shown_name(space: str, name: str) -> str:
    """As the reader of VW text names features."""
    return f"{space}^{name}" if space else name
