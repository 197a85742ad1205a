"""Conversion of dictionaries and data frames to rows: feature names are numbered in order of appearance.

The estimator stores the numbers, so memory grows only with the features seen. Features that appear together are
numbered by name, and a row is sorted by its numbers. So the order within a dictionary, or of the columns, does not
change a single bit.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import repeat
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError
from onsketch.core.interrupts import uninterrupted
from onsketch.core.matrices import sound
from onsketch.core.tolerances import LARGEST
from onsketch.learners.rows import Rows, as_rows
from onsketch.learners.single import NOT_NUMBERS, PreparedRow, SingleRows
from onsketch.rows.arrays import refuse_twice
from onsketch.rows.names import Numbers
from onsketch.rows.schema import is_gap, number_of, word_of

PLAIN = frozenset({float, int, bool, np.float64})
"""Types of values that need no further check."""

_DICTIONARIES = frozenset({dict, Counter, OrderedDict, defaultdict})
"""Types of rows whose names are looked up without copying the row."""

_UNKNOWN = repeat(-1)


class FeatureNames(Numbers):
    """Rows from dictionaries and frames; a word is the feature ``name=word``, and None is ignored."""

    def learn_one(self, single: SingleRows, x: Mapping[Any, Any], label: float) -> bool:
        """Learn a row of plain numbers by prepared calls; return False if that is not possible: nothing has changed."""
        values = x.values()
        if type(x) not in _DICTIONARIES or not _plain(values):
            return False
        row, margin = single.take(len(values)), None
        if row is None:
            return False
        try:
            names, forgotten = tuple(x), self.forgotten
            key = row.key
            if key is not None and key[1] == forgotten and key[0] == names:
                margin = row.learn(values, label, 1.0, len(self.of))
            else:
                margin = self._learn_others(row, x, label)
                if margin is not None:
                    row.key = names, forgotten
        except NOT_NUMBERS:
            pass
        return single.give_back(row, margin) is not None

    def _learn_others(self, row: PreparedRow, x: Mapping[Any, Any], label: float) -> float | None:
        """Learn a row with other features than the one before."""
        numbers, count = self.of, len(x)
        try:
            row.put(map(numbers.__getitem__, x), count, sort=True)
        except KeyError:  # new names: they are forgotten if the row is not learned
            with uninterrupted, self.entering:
                known, margin = len(numbers), None
                try:
                    self._enter([name for name in x if name not in numbers])
                    row.put(map(numbers.__getitem__, x), count, sort=True)
                    margin = row.learn(x.values(), label, 1.0, len(numbers))
                finally:
                    if margin is None:
                        self.forget(max(known, row.width))  # an interrupt may come after the row was learned
                return margin
        return row.learn(x.values(), label, 1.0, len(numbers))

    def predict_one(self, single: SingleRows, x: Mapping[Any, Any]) -> float | None:
        """Return the margin of a row of plain numbers by prepared calls; None if that is not possible."""
        values = x.values()
        if type(x) not in _DICTIONARIES or not _plain(values):
            return None
        row, margin = single.take(len(values)), None
        if row is None:
            return None
        try:
            names, forgotten = tuple(x), self.forgotten
            key = row.key
            if key is not None and key[1] == forgotten and key[0] == names:
                margin = row.predict(values)
            else:
                row.put(map(self.of.get, names, _UNKNOWN), len(names), sort=True)
                margin = row.predict(values)
                if margin is not None and row.complete:
                    row.key = names, forgotten
        except NOT_NUMBERS:
            pass
        return single.give_back(row, margin)

    def _enter(self, names: Iterable[Any]) -> None:
        """Number new names, in an order that does not depend on that of the row."""
        words = set(map(type, names)) == {str}
        self.enter(sorted(names, key=None if words else lambda name: (type(name).__name__, str(name))))

    def row(self, x: Mapping[Any, Any], *, learn: bool) -> Rows:
        """Return a dictionary as one checked row; new features get numbers when learning, else they are left out."""
        numbers = self.of
        if not hasattr(x, "keys"):
            raise InputError(f"x: expected a dictionary of features, got {type(x).__name__}. Nothing was learned.")
        if not PLAIN.issuperset(map(type, x.values())):
            x = _as_numbers(x)
        if not x.keys() <= numbers.keys():
            if learn:
                self._enter(set(x).difference(numbers))
            else:
                x = {name: value for name, value in x.items() if name in numbers}
        try:
            values = np.fromiter(x.values(), np.float64, len(x))
        except OverflowError:  # an integer of hundreds of digits
            name = next(name for name, value in x.items() if not abs(value) <= LARGEST)
            raise InputError(f"x: {name!r} is beyond ±{LARGEST:g}. Nothing was learned.") from None
        top = np.abs(values).max(initial=0.0)
        if not top * math.sqrt(len(x)) <= LARGEST:
            _check_length(x, values)
        features = np.fromiter(map(numbers.__getitem__, x), np.int64, len(x))
        if (features[1:] < features[:-1]).any():
            order = features.argsort()
            features, values = features[order], values[order]
        return Rows(np.array([0, len(x)]), features, values, len(numbers), dense=False)

    def frame(self, X: Any, *, learn: bool) -> Rows:
        """Return a data frame as checked rows, each with the frame's columns."""
        names = list(sound(X).columns)
        refuse_twice(names)
        try:
            block = np.asarray(X.to_numpy(), dtype=np.float64)
        except (TypeError, ValueError):  # words
            return self._by_row(X, learn)
        if learn:
            self._enter(set(names).difference(self.of))
        known = sorted((name for name in names if name in self.of), key=self.of.__getitem__)
        if known != names:
            block = block[:, [names.index(name) for name in known]]
        try:
            checked = as_rows(block, None)
        except InputError as error:
            raise InputError(f"{error} (Columns are counted as in {known!r}.)") from None
        features = np.array([self.of[name] for name in known], dtype=np.int64)
        return checked._replace(indices=np.tile(features, len(block)), n_features=len(self.of), dense=False)

    def _by_row(self, X: Any, learn: bool) -> Rows:
        """Return a frame with words as rows; NaN is a missing value there."""
        found = X.to_dicts() if hasattr(X, "to_dicts") else X.to_dict("records")
        rows = [self.row({n: None if is_gap(v) else v for n, v in row.items()}, learn=learn) for row in found]
        indptr = np.cumsum([0, *(row.values.size for row in rows)])
        features, values = (np.concatenate([row[k] for row in rows]) for k in (1, 2))
        return Rows(indptr, features, values, len(self.of), dense=False)


def _plain(values: Collection[Any]) -> bool:
    """Return True if all values are of plain types. Then their sum is a float, which Python computes fast."""
    try:
        return type(sum(values, 0.0)) is float or PLAIN.issuperset(map(type, values))
    except (TypeError, OverflowError):  # no number, or beyond float64
        return False


def index_of(X: Any) -> Any:
    """Return the index of a data frame; polars has none, so its rows are counted."""
    return X.index if hasattr(X, "index") else range(len(X))


def _as_numbers(x: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the row with words as features of their own, by the rule of columns that no schema lists."""
    found: dict[Any, Any] = {}
    for name, value in x.items():
        if isinstance(value, str):
            number = number_of(value)
            if number is not None:
                found[name] = number
            elif not is_gap(value):
                found[f"{name}={word_of(value)}"] = 1.0
        elif value is None:
            continue
        elif isinstance(value, (SupportsFloat, np.bool_)) and not isinstance(value, _NO_NUMBERS):
            found[name] = value
        else:
            raise InputError(f"x: the feature {name!r} is {value!r}; expected a number, a word or None.")
    return found


_NO_NUMBERS = (np.ndarray, np.datetime64, np.timedelta64)
"""Types that ``float`` may take, but are no numbers."""


def _check_length(x: Mapping[Any, Any], values: NDArray[np.float64]) -> None:
    for name, value in x.items():
        if not abs(float(value)) <= LARGEST:
            limit = f"it must be finite and within ±{LARGEST:g}"
            raise InputError(f"x: the feature {name!r} is {value!r}; {limit}. Nothing was learned.")
    if np.linalg.norm(values / LARGEST) > 1.0:
        raise InputError(f"x: the row is longer than {LARGEST:g}: rescale it. Nothing was learned.")
