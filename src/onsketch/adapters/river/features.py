"""From dictionaries and data frames to rows: feature names become whole numbers in order of appearance.

The numbers are kept by the estimator, so memory grows with the features seen and with nothing else. Features that
appear together are numbered by name and a row is put in the order of its numbers, so that the order within a
dictionary or of the columns changes not a single bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from onsketch.adapters.river.short_way import PLAIN
from onsketch.core.errors import InputError, UpdateError
from onsketch.core.interrupts import uninterrupted
from onsketch.core.tolerances import LARGEST
from onsketch.learners.rows import Rows, as_rows


class FeatureNames:
    """Which number each feature name has."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Keep names met inside if rows were learned; forget them if an error comes before the first. Signals wait."""
        known = len(self.numbers)
        with uninterrupted:
            try:
                yield
            except BaseException as error:
                if isinstance(error, UpdateError) and error.row > 0:
                    raise  # the rows before it have been learned, under these names
                for name in list(islice(self.numbers, known, None)):
                    del self.numbers[name]
                raise

    def _enter(self, names: Iterable[Any]) -> None:
        """Give the names not seen before their numbers, in an order that is not that of the row."""
        fresh = [name for name in names if name not in self.numbers]
        for name in sorted(fresh, key=lambda name: (type(name).__name__, str(name))):
            self.numbers[name] = len(self.numbers)

    def row(self, x: Mapping[Any, Any], *, learn: bool) -> Rows:
        """A dictionary as one checked row; features not seen before get numbers when learning, else are left out."""
        numbers = self.numbers
        if not hasattr(x, "keys"):
            raise InputError(f"x: expected a dictionary of features, got {type(x).__name__}. Nothing was learned.")
        if not x.keys() <= numbers.keys():
            if learn:
                self._enter(x)
            else:
                x = {name: value for name, value in x.items() if name in numbers}
        if not PLAIN.issuperset(map(type, x.values())):
            _check_numbers(x)  # NumPy would take "3" for 3, and None for NaN
        try:
            values = np.fromiter(x.values(), np.float64, len(x))
        except OverflowError:  # a whole number of hundreds of digits
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
        """A data frame as checked rows, each with the frame's columns."""
        names = list(X.columns)
        if len(set(names)) < len(names):
            raise InputError("X: two columns of the data frame have the same name.")
        if learn:
            self._enter(names)
        known = sorted((name for name in names if name in self.numbers), key=self.numbers.__getitem__)
        try:
            block = np.asarray((X if known == names else X[known]).to_numpy(), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"X: not a data frame of numbers ({error}). Encode words as numbers first.") from None
        try:
            checked = as_rows(block, None)
        except InputError as error:
            raise InputError(f"{error} (Columns are counted as in {known!r}.)") from None
        features = np.array([self.numbers[name] for name in known], dtype=np.int64)
        return checked._replace(indices=np.tile(features, len(block)), n_features=len(self.numbers), dense=False)


def index_of(X: Any) -> Any:
    """The index of a data frame; polars has none, so its rows are counted."""
    return X.index if hasattr(X, "index") else range(len(X))


def _check_numbers(x: Mapping[Any, Any]) -> None:
    for name, value in x.items():
        if not isinstance(value, (SupportsFloat, np.bool_)) or isinstance(value, np.ndarray):
            raise InputError(
                f"x: the feature {name!r} is {value!r}, which is not a number. Encode words as numbers first."
            )


def _check_length(x: Mapping[Any, Any], values: NDArray[np.float64]) -> None:
    for name, value in x.items():
        if not abs(float(value)) <= LARGEST:
            limit = f"it must be finite and within ±{LARGEST:g}"
            raise InputError(f"x: the feature {name!r} is {value!r}; {limit}. Nothing was learned.")
    if np.linalg.norm(values / LARGEST) > 1.0:
        raise InputError(f"x: the row is longer than {LARGEST:g}: rescale it. Nothing was learned.")
