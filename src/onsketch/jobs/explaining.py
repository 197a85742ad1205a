"""Explain a prediction: the contribution of each feature of a row to the margin.

A linear model has one weight for each feature, and a feature adds weight × value: with the intercept these sum up to
the margin (before a clip). If there is no such weight (kernels, ``auto`` with many classes), its contribution is the
loss of margin when the feature is left out of the row. Of many classes, the one with the largest margin is explained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError
from onsketch.rows.sparse import Sparse

Array = NDArray[np.float64]

LONGEST = 2000
"""Features of a row that are left out one by one, each at the cost of a prediction of the row."""


class Reason(NamedTuple):
    """Contributions of the features of a row, the largest first."""

    columns: NDArray[np.int64]
    parts: Array
    intercept: float | None
    """None where the parts come from leaving features out: they need not sum up to the margin."""

    def named(self, names: Mapping[int, str]) -> dict[str, float]:
        """Parts by name; columns of one name are added."""
        found: dict[str, float] = {}
        for column, part in zip(self.columns.tolist(), self.parts.tolist(), strict=True):
            if part:
                name = names.get(column) or str(column)
                found[name] = found.get(name, 0.0) + part
        return found


class Reasons:
    """Explains predictions of one learner as it is now.

    Cost: that of writing out all weights once; without weights, non-zeros × a prediction for each row.
    """

    def __init__(self, learner: Any, many: bool) -> None:
        self._learner, self._many = learner, many
        try:
            learners = learner.learners if many else [learner]
            self._tables = [(*one.coefficients(), float(one.intercept)) for one in learners]
        except (OptionError, AttributeError):  # no weight for each feature
            self._tables = []

    def behind(self, rows: Any, margins: Array, most: int) -> Iterator[Reason]:
        """The ``most`` largest parts of each row."""
        for k in range(len(margins)):
            columns, values = _row(rows, k)
            which = int(margins[k].argmax()) if self._many and margins[k].size else 0
            if self._tables:
                features, weights, intercept = self._tables[which]
                parts = _weights_of(columns, features, weights) * values
            else:
                intercept, parts = None, self._left_out(columns, values, rows.shape[1], margins[k], which)
            order = np.argsort(-np.abs(parts), kind="stable")[:most]
            yield Reason(columns[order], parts[order], intercept)

    def _left_out(self, columns: NDArray[np.int64], values: Array, width: int, margin: Any, which: int) -> Array:
        """Compute how much the margin loses without each of the n features: one prediction of n rows, O(n²) values."""
        n = columns.size
        if n > LONGEST:
            raise InputError(
                f"a row has {n:,} features; this learner has no weights, and {LONGEST:,} features at most are left out "
                "one by one to explain it."
            )
        if not n or not np.isfinite(margin[which] if self._many and np.size(margin) else np.sum(margin)):
            return np.zeros(n)
        others = ~np.eye(n, dtype=bool)
        indptr = np.arange(n + 1, dtype=np.int64) * (n - 1)
        without = Sparse(np.tile(values, (n, 1))[others], np.tile(columns, (n, 1))[others], indptr, (n, width))
        found = self._learner.predict(without)
        return np.asarray(margin[which] - found[:, which] if self._many else margin - found)


def _weights_of(columns: NDArray[np.int64], features: NDArray[np.int64], weights: Array) -> Array:
    """Weights of columns; unseen ones have none."""
    if not features.size:
        return np.zeros(columns.size)
    place = np.minimum(np.searchsorted(features, columns), features.size - 1)
    return np.where(features[place] == columns, weights[place], 0.0)


def _row(rows: Any, k: int) -> tuple[NDArray[np.int64], Array]:
    """The columns and values of a row."""
    if hasattr(rows, "indptr"):
        part = slice(int(rows.indptr[k]), int(rows.indptr[k + 1]))
        return np.asarray(rows.indices[part], dtype=np.int64), np.asarray(rows.data[part])
    values = np.asarray(rows[k])
    there = np.flatnonzero(values)
    return there, values[there]
