"""What the labels of a stream mean: two classes, or numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
_FEW = 100
"""At most so many different whole numbers look like classes."""


@dataclass(frozen=True)
class Task:
    """Classification between two labels, or regression."""

    kind: str
    negative: float | None = None
    """The label that becomes −1."""
    positive: float | None = None
    """The label that becomes +1."""
    named: str | None = None
    """The label told from all others, where the reader has made +1 of it and −1 of them already."""

    def __str__(self) -> str:
        if self.kind == "regression":
            return "regression"
        if self.named is not None:
            return f"classification, label {self.named} against every other"
        return f"classification, label {self.positive:g} against {self.negative:g}"

    @property
    def signs(self) -> bool:
        """Whether learners see −1 and +1."""
        return self.kind == "classification"

    @property
    def default_loss(self) -> str:
        """The loss that fits the task."""
        return "logistic" if self.signs else "squared"

    def labels(self, y: Array) -> Array:
        """The labels, none of them missing, as learners take them."""
        if not self.signs:
            return y
        strange = self.strange(y)
        if strange.any():
            raise InputError(f"label {y[strange][0]:g}: this is a {self}.")
        return np.where(y == self.positive, 1.0, -1.0)

    def strange(self, y: Array) -> NDArray[np.bool_]:
        """Which labels the task does not know."""
        return (y != self.negative) & (y != self.positive) if self.signs else np.zeros(y.shape, dtype=bool)

    def state(self) -> dict[str, Any]:
        """As JSON can hold it; ``Task(**state)`` is the same task."""
        return asdict(self)


def understood(y: Array, kind: str | None = None, named: str | None = None) -> Task:
    """The task that the first labels of a stream suggest, or as told.

    ``named`` is the label that the reader was told to find (its option ``positive``).

    Two different labels make a classification, the larger one being positive; −1, 0 and +1 need not both have
    been met. Other numbers make a regression, unless they look like the numbers of classes: then one must say.

    >>> print(understood(np.array([1.0, 2.0, 2.0])))
    classification, label 2 against 1
    >>> print(understood(np.array([0.5, 2.25, -1.0])))
    regression
    """
    if kind is not None and kind not in TASKS:
        raise OptionError(f"task={kind!r}: expected one of {', '.join(TASKS)}.")
    if kind == "regression":
        if named is not None:
            raise OptionError("--positive names a class; it does not go with --task regression.")
        return Task("regression")
    if named is not None:
        return Task("classification", -1.0, 1.0, named)
    different = np.unique(y[~np.isnan(y)])
    if not different.size:
        raise InputError("not one of the first rows has a label that can be learned; say what it is: --task.")
    if different.size and np.isin(different, (-1.0, 0.0, 1.0)).all() and different.size <= 2:
        negative = 0.0 if 0.0 in different else -1.0
        if not (negative == 0.0 and -1.0 in different):
            return Task("classification", negative, 1.0)
    if different.size == 2:
        return Task("classification", float(different[0]), float(different[1]))
    if kind == "classification" or (different.size <= _FEW and (different == np.floor(different)).all()):
        some = ", ".join(f"{label:g}" for label in different[:6]) + (", …" if different.size > 6 else "")
        raise InputError(
            f"the labels met first ({some}) are not two classes. Say which class is to be told from the others "
            "(--positive LABEL), or --task regression to predict the numbers."
        )
    return Task("regression")
