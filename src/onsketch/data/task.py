"""Task of a stream, given by its labels: two classes, many classes, or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError

Array = NDArray[np.float64]

TASKS = ("binary", "multiclass", "classification", "regression")
"""Names of tasks; "classification" is binary or multiclass, depending on the labels."""

_FEW = 100
"""Largest number of distinct whole numbers that count as classes."""

_UNKNOWN = -1.0


@dataclass(frozen=True)
class Task:
    """Classification between two labels (or many), or regression."""

    kind: Literal["classification", "multiclass", "regression"]
    """Either "classification" (two labels), "multiclass" or "regression"."""
    negative: float | None = None
    """Label that becomes −1; None if only 1 has occurred, so that 0 and −1 are both possible."""
    positive: float | None = None
    """Label that becomes +1."""
    named: str | None = None
    """Label of the positive class, if the reader has already mapped it to +1 and all others to −1."""
    names: list[str] | None = None
    """Names of classes: the two labels if they are words, or all classes so far, indexed by their codes."""
    words: bool = False
    """True if labels are words in the file."""

    def __str__(self) -> str:
        if self.kind == "regression":
            return "regression"
        if self.many:
            names = self.names or []
            some = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
            return f"classification, {len(names)} classes ({some})"
        if self.named is not None:
            return f"classification, label {self.named} against every other"
        negative, positive = self.two_names
        return f"classification, label {positive} against {negative}"

    @property
    def signs(self) -> bool:
        """True if learners see −1 and +1."""
        return self.kind == "classification"

    @property
    def many(self) -> bool:
        """True if learners see codes of classes."""
        return self.kind == "multiclass"

    @property
    def two_names(self) -> tuple[str, str]:
        """Return the two labels as in the files, the negative one first."""
        if self.named is not None:
            return "other", self.named
        if self.names is not None:
            return self.names[0], self.names[1]
        assert self.positive is not None
        return f"{-1.0 if self.negative is None else self.negative:g}", f"{self.positive:g}"

    @property
    def shown_names(self) -> list[str] | None:
        """Return the file's labels for those that learners see; None for numbers, which are unchanged."""
        return list(self.two_names) if self.signs else self.names

    @property
    def default_loss(self) -> str:
        """Return the loss that fits the task."""
        return "squared" if self.kind == "regression" else "logistic"

    def labels(self, y: Array, words: Sequence[str] | None = None) -> Array:
        """Return the labels, none of them missing, in the form of learners: −1 and +1, codes of classes, or numbers.

        Args:
            y: labels from the reader.
            words: the words that ``y`` indexes, if labels are words.
        """
        known = self.encode(y, words)
        if not self.signs:
            return known
        strange = self.strange(known)
        if strange.any():
            raise InputError(f"label {name_of(y[strange][0], words)}: this is a {self}.")
        return np.where(known == self.positive, 1.0, -1.0)

    def encode(self, y: Array, words: Sequence[str] | None = None, grow: bool = False) -> Array:
        """Return labels as codes; with ``grow`` a new class is added, else it is unknown."""
        if self.names is None or not (self.many or words is not None):
            return y
        found, first, place = np.unique(y, return_index=True, return_inverse=True)
        codes = np.full(found.size, _UNKNOWN)
        for k in np.argsort(first):
            if np.isnan(found[k]):
                continue
            name = name_of(found[k], words)
            if name not in self.names and grow:
                self.names.append(name)
            codes[k] = self.names.index(name) if name in self.names else _UNKNOWN
        return codes[place.reshape(-1)] if y.size else y

    def strange(self, y: Array) -> NDArray[np.bool_]:
        """Return a mask of labels, in the form of ``encode``, that are unknown to the task."""
        unknown = np.zeros(y.shape, dtype=bool)
        if self.many:
            unknown = y < 0.0
        elif self.signs and self.negative is None:
            unknown = ~np.isin(y, (-1.0, 0.0, 1.0))
        elif self.signs:
            unknown = (y != self.negative) & (y != self.positive)
        return unknown


def name_of(label: float, words: Sequence[str] | None) -> str:
    """Return a label as in the file."""
    if words is not None:
        return words[int(label)]
    return f"{label:g}" if float(f"{label:g}") == label else repr(float(label))


def find_task(y: Array, kind: str | None = None, named: str | None = None, words: Sequence[str] | None = None) -> Task:
    """Return the task that the first labels of a stream suggest, or the given one.

    ``named`` is the option ``positive`` of the reader; ``words`` are the labels if they are words.

    Two distinct labels make a classification. The larger one (of words, the later one in the alphabet) is positive;
    of −1, 0 and +1 one is enough. More words are classes, and so are a few recurring whole numbers. Other numbers make
    a regression.

    >>> print(find_task(np.array([1.0, 2.0, 2.0])))
    classification, label 2 against 1
    >>> print(find_task(np.array([0.5, 2.25, -1.0])))
    regression
    >>> print(find_task(np.array([0.0, 1.0]), words=["yes", "no"]))
    classification, label yes against no
    >>> print(find_task(np.tile([1.0, 2.0, 3.0], 10)))
    classification, 3 classes (1, 2, 3)
    """
    if kind is not None and kind not in TASKS:
        raise OptionError(f"task={kind!r}: expected one of {', '.join(TASKS)}.", task=kind)
    if kind in ("regression", "multiclass") and named is not None:
        raise OptionError(f"--positive names a class; it does not go with --task {kind}.")
    if kind == "regression":
        if words is not None:
            raise InputError(f"--task regression: the labels are words ({', '.join(words[:5])}).")
        return Task("regression")
    if named is not None:
        return Task("classification", -1.0, 1.0, named)
    different = np.array(sorted(set(y[~np.isnan(y)].tolist())))  # np.unique imports masked arrays for it
    if not different.size:
        raise InputError("not one of the first rows has a label that can be learned; say what it is: --task.")
    if kind == "multiclass":
        return _classes(y, words)
    return _of_numbers(y, different, kind) if words is None else _of_words(y, different, kind, words)


def _of_words(y: Array, different: Array, kind: str | None, words: Sequence[str]) -> Task:
    """Return the task of labels that are words."""
    names = sorted(words[int(code)] for code in different)
    if len(names) == 2:
        return Task("classification", 0.0, 1.0, names=names, words=True)
    if kind == "binary":
        raise InputError(f"--task binary: the labels met first are {', '.join(names[:6])}; --positive names one.")
    return _classes(y, words)


def _of_numbers(y: Array, different: Array, kind: str | None) -> Task:
    """Return the task of labels that are numbers."""
    if np.isin(different, (-1.0, 0.0, 1.0)).all() and different.size <= 2 and set(different) != {-1.0, 0.0}:
        alone = different.size == 1 and different[0] == 1.0
        return Task("classification", None if alone else float(different[0]) if different[0] < 1.0 else -1.0, 1.0)
    if different.size == 2:
        return Task("classification", float(different[0]), float(different[1]))
    whole = bool((different == np.floor(different)).all()) and bool(different[0] >= 0.0)
    few = different.size <= _FEW and 5 * different.size <= y.size
    dense = float(different[-1] - different[0]) < 2 * different.size
    if kind == "binary":
        some = ", ".join(f"{label:g}" for label in different[:6]) + (", …" if different.size > 6 else "")
        raise InputError(f"--task binary: the labels met first are {some}. --positive names the one to be found.")
    if kind == "classification" or (whole and few and dense):
        return _classes(y, None)
    return Task("regression")


def _classes(y: Array, words: Sequence[str] | None) -> Task:
    """Return a task of many classes; numbers among the first rows are sorted, so that codes read well."""
    task = Task("multiclass", names=[], words=words is not None)
    task.encode(np.sort(y[~np.isnan(y)]) if words is None else y[~np.isnan(y)], words, grow=True)
    return task
