"""Why a row was predicted as it was: the contributions weight × value of its features to the margin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import OptionError

if TYPE_CHECKING:
    from onsketch.jobs.prediction import Model

Array = NDArray[np.float64]


class Reasons:
    """The largest contributions behind each prediction of a linear model.

    A margin is the sum of weight × value over the features of a row, plus the intercept (and, for a method that clips,
    cut off at its bound). Of many classes, those of the class with the largest margin are told.
    """

    def __init__(self, model: Model, count: int) -> None:
        self._names, self._count = model.names, count
        try:
            learners = [model.learner] if not model.task.many else list(model.learner.learners)
            self._tables = [_table(learner) for learner in learners]
        except (OptionError, AttributeError):
            raise OptionError(
                "--explain needs one weight for each feature; kernels, and auto with many classes, have none. "
                "Train with another learner, such as -l adagrad."
            ) from None
        self._many = model.task.many

    def behind(self, said: list[str], rows: Any, margins: Array, names: Mapping[int, str]) -> list[str]:
        """Each answer, followed by its reasons."""
        told = []
        for k, answer in enumerate(said):
            columns, values = _row(rows, k)
            features, weights, intercept = self._tables[int(margins[k].argmax()) if self._many else 0]
            place = np.minimum(np.searchsorted(features, columns), max(features.size - 1, 0))
            known = features[place] == columns if features.size else np.zeros(columns.size, dtype=bool)
            parts = np.where(known, weights[place] * values, 0.0) if features.size else np.zeros(columns.size)
            order = np.argsort(-np.abs(parts), kind="stable")[: self._count]
            shown = [
                f"{self._names.get(c) or names.get(c) or c}={part:+.4g}"
                for c, part in ((int(columns[i]), float(parts[i])) for i in order)
                if part
            ]
            if intercept:
                shown.append(f"(intercept)={intercept:+.4g}")
            told.append(f"{answer}  # {', '.join(shown)}")
        return told


def _table(learner: Any) -> tuple[NDArray[np.int64], Array, float]:
    features, weights = learner.coefficients()
    return features, weights, float(learner.intercept)


def _row(rows: Any, k: int) -> tuple[NDArray[np.int64], Array]:
    """The columns and values of a row."""
    if hasattr(rows, "indptr"):
        part = slice(int(rows.indptr[k]), int(rows.indptr[k + 1]))
        return np.asarray(rows.indices[part], dtype=np.int64), np.asarray(rows.data[part])
    values = np.asarray(rows[k])
    there = np.flatnonzero(values)
    return there, values[there]
