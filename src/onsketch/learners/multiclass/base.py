"""The interface of learners of many classes: learn, predict, weights, and adding classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays
from onsketch.core.errors import InputError, OptionError
from onsketch.core.losses import Loss
from onsketch.core.rwlock import Locked, reading
from onsketch.files import model_file
from onsketch.learners.rows import Rows, as_labels

Floats = NDArray[np.float64]


class ManyClasses(Locked, ABC):
    """An online learner whose labels are class codes 0 … K − 1; a margin for each class.

    It may be used from several threads: one learns at a time, any number predict between two calls; see ``rwlock.py``.
    """

    reads = ("weights", "intercept", "predict", "spectrum", "state_bytes")
    writes = ("learn_checked", "add_class", "drop_class", "merge")

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """K."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Width of the widest row seen, or as given."""

    @property
    @abstractmethod
    def rounds(self) -> int:
        """Rows learned."""

    @property
    @abstractmethod
    def weights(self) -> Floats:
        """(K, d)."""

    @property
    @abstractmethod
    def intercept(self) -> Floats:
        """(K,): the weights of the constant feature of ``fit_intercept``."""

    @abstractmethod
    def learn(self, X: Any, codes: Any, sample_weight: Any = None) -> Floats:
        """Learn from these rows in one pass; returns the margins (rows, K) predicted before each was learned."""

    @abstractmethod
    def learn_checked(self, rows: Rows, labels: NDArray[np.int64], weights: Floats) -> Floats:
        """As ``learn``, for input that ``as_rows``, ``as_codes`` and ``as_weights`` have checked already."""

    @abstractmethod
    def predict(self, X: Any) -> Floats:
        """The margins (rows, K); the state does not change."""

    @abstractmethod
    def add_class(self) -> int:
        """Add a class and return its code."""

    @abstractmethod
    def drop_class(self) -> None:
        """Forget the class that was added last, of which no row has been learned."""

    def merge(self, other: Any, codes: Sequence[int] | None = None) -> Self:
        """Take in what another learner has learned from other rows, if this kind of learner can."""
        raise OptionError(
            f"merge: {type(self).__name__} couples its classes and cannot be merged; use multiclass='one-vs-rest'."
        )

    @reading
    def save(self, path: model_file.PathLike, notes: Mapping[str, Any] | None = None) -> None:
        """Write the learner to a model file, atomically; ``onsketch.load`` restores it bit for bit."""
        model_file.write(path, "classes", self._header(), self._arrays(), notes)

    @abstractmethod
    def _header(self) -> dict[str, Any]:
        """Return what a file needs to build this learner: class, method, number of classes and options."""

    @abstractmethod
    def _arrays(self) -> Arrays:
        """Everything of the state that the header does not give."""

    @abstractmethod
    def _restore(self, arrays: Arrays, header: Mapping[str, Any]) -> None:
        """Fill a new learner, or raise a ModelFileError."""


def as_codes(codes: Any, count: int, n_classes: int) -> NDArray[np.int64]:
    """Class codes that there are weights for, one per row."""
    labels = np.ascontiguousarray(codes)
    if labels.shape != (count,):
        raise InputError(f"y: expected shape ({count},) to match X, got {labels.shape}.")
    if labels.dtype.kind not in "iu":
        raise InputError(f"y: class codes are whole numbers, not {labels.dtype}.")
    unfit = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if unfit.size:
        row = int(unfit[0])
        raise InputError(f"y: the class code at row {row} is {labels[row]}; expected 0 to {n_classes - 1}.")
    return labels.astype(np.int64, copy=False)


def as_targets(targets: Any, shape: tuple[int, int], loss: Loss) -> Floats:
    """Labels of several targets, a row of them for each row: signs or numbers, as the loss has them."""
    labels = np.ascontiguousarray(targets, dtype=np.float64)
    if labels.shape != shape:
        raise InputError(f"y: expected shape {shape}, a label for each row and target, got {labels.shape}.")
    for target in labels.T:
        as_labels(target, shape[0], loss)
    return labels
