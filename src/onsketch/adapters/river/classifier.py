"""Online classification under River's contract."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from river import base

from onsketch.adapters.options import (
    DEFAULT_METHOD,
    class_model,
    keep_parameters,
    loss_of,
    named_loss,
    takes_learner_options,
)
from onsketch.adapters.river.base import OnlineEstimator
from onsketch.adapters.river.features import index_of
from onsketch.core.errors import InputError, UpdateError
from onsketch.core.matrices import sound
from onsketch.core.probabilities import of_two, probabilities
from onsketch.learners.base import Learner
from onsketch.learners.keywords import EstimatorOptions
from onsketch.learners.options import documents_options
from onsketch.learners.rows import Rows, as_weights

Kept = tuple[Rows, list[Any], NDArray[np.float64]] | tuple[dict[Any, Any], int]
"""Rows with their labels and weights, or one row of weight 1 as it was given, with its label."""

_ROOM, _CALL = 1 << 18, 16
"""Largest number of values in stored rows of labels 0 and 1; values that each row adds to its own."""


@documents_options
class OnlineClassifier(OnlineEstimator, base.MiniBatchClassifier):
    """Linear classifier with second-order steps, for rows that are dictionaries.

    Labels True and False, or 1 and 0, are learned by one learner. Other labels may have any number of classes, and new
    classes may appear at any time. ``multiclass`` selects the strategy:

    - ``"softmax"``: a multinomial ``auto``, the default if the method is ``auto``. A new class starts from zero.
    - ``"one-vs-rest"``: one learner for each class. A late class is learned exactly as if known from the start.
    - ``"shared"``: one sketch for all classes. A new class starts from zero.

    Args:
        method: a name from :func:`onsketch.methods`.
        loss: "logistic", "hinge", "squared_hinge", or "softmax" unless classes are learned one by one.
        multiclass: "auto", "softmax", "one-vs-rest", or "shared" (of rfd-son where the method is "auto").
        fit_intercept: add a constant feature.
        seed: seed of methods that draw random numbers.
        **options: options of :func:`onsketch.learner`; None selects the method's default.

    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.Phishing(), OnlineClassifier(), metrics.Accuracy())
    Accuracy: 89...%
    """

    multiclass: str

    @takes_learner_options
    def __init__(
        self,
        method: str = DEFAULT_METHOD,
        loss: str = "logistic",
        multiclass: str = "auto",
        fit_intercept: bool = True,
        seed: int = 0,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        keep_parameters(self, locals())
        self._start()
        self._first_rows: dict[int, Kept] | None = None
        """Rows of labels 0 and 1 by the round of the first of them; None if they are not stored."""
        self._room = _ROOM

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def classes(self) -> list[Any]:
        """Labels so far, in order of appearance (False and True if labels are booleans)."""
        return list(self._codes)

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one row of weight w; a row of weight 0 is ignored."""
        kind, learner = type(y), self._learner
        if w == 0.0:
            return
        single = getattr(learner, "single", None)  # of one learner; ABC's isinstance takes a tenth of the whole call
        if single is not None and w == 1.0 and (kind is bool or (kind is int and 0 <= y <= 1)):
            label = 1.0 if y else -1.0
            if self._first_rows is None:
                if self._names.learn_one(single, x, label):
                    return
            else:
                with self._names.entering:
                    self._keep(learner.rounds, (dict(x), y), len(x))
                    if self._names.learn_one(single, x, label):
                        return
        with self._names.learning(self._rounds):
            self._learn(self._names.row(x, learn=True), [y], as_weights([w], 1))

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of a data frame (pandas or polars), one after the other, in one compiled pass."""
        if len(sound(X)) == 0:
            return
        with self._names.learning(self._rounds):
            rows = self._names.frame(X, learn=True)
            self._learn(rows, list(y), as_weights(w, rows.count))

    def merge(self, other: Self) -> Self:
        """Take in what another estimator has learned from other rows; see ``OnlineRegressor.merge``.

        The first rows of labels 0 and 1 are no longer kept: a third label restarts.
        """
        super().merge(other)
        self._first_rows = None
        return self

    def _learn(self, rows: Rows, labels: list[Any], weights: NDArray[np.float64]) -> None:
        if len(labels) != rows.count:
            raise InputError(f"y: {len(labels)} labels for {rows.count} rows.")
        different = _different(labels)
        if not all(map(_is_class, different)):
            _refuse_label(labels)
        if self._learner is None:
            self._first(different)
        others = [label for label in different if not _is_truth(label)]
        if self._two and others:
            self._become_many()
        try:
            if isinstance(self._learner, Learner):
                if others:
                    reason = "comes after labels True and False; use words or numbers for all."
                    raise InputError(f"y: the label {others[0]!r} {reason}")
                signs = np.where(np.array(labels, dtype=bool), 1.0, -1.0)
                self._keep(self._learner.rounds, (rows.copy(), labels, weights), rows.values.size)
                self._learner.learn_checked(rows, signs, weights)
            else:
                self._learn_classes(rows, labels, weights)
        finally:
            if not self._learner.rounds:  # the first row was refused: there is no learner yet
                self._learner, self._codes = None, {}

    def _learn_classes(self, rows: Rows, labels: list[Any], weights: NDArray[np.float64]) -> None:
        """Learn the rows up to the first of a new class, add that class, and continue."""
        labels, starts = list(map(_plain, labels)), [0]
        if any(label not in self._codes for label in labels):
            first = {label: row for row, label in reversed(list(enumerate(labels))) if label not in self._codes}
            starts = sorted({0, *first.values()})
        for start, stop in zip(starts, [*starts[1:], rows.count], strict=True):
            newcomer = labels[start] not in self._codes
            if newcomer:
                self._codes[labels[start]] = self._learner.n_classes  # first, for threads that predict
                self._learner.add_class()
            part = rows if stop - start == rows.count else rows.part(start, stop)
            before = self._learner.rounds
            try:
                codes = np.array([self._codes[label] for label in labels[start:stop]])
                self._learner.learn_checked(part, codes, weights[start:stop])
            except BaseException as error:
                if newcomer and self._learner.rounds == before:  # its first row was refused
                    self._learner.drop_class()
                    del self._codes[labels[start]]
                if isinstance(error, UpdateError) and start:
                    raise UpdateError(error.where, start + error.row) from None
                raise

    def _first(self, labels: list[Any]) -> None:
        """Create the learner: one for True and False, or 1 and 0; an open number of classes for other labels."""
        truths = all(_is_truth(label) for label in labels)
        self._learner = class_model(
            self.method, self.multiclass, 2 if truths else 0, self._options(), open_ended=not truths
        )
        numbers = truths and not any(isinstance(label, (bool, np.bool_)) for label in labels)
        self._codes = ({0: 0, 1: 1} if numbers else {False: 0, True: 1}) if truths else {}
        self._first_rows, self._room = {} if numbers else None, _ROOM

    @property
    def _two(self) -> bool:
        """Return True if one learner learns the labels 0 and 1, so that a third label would change that."""
        return isinstance(self._learner, Learner) and not any(isinstance(label, bool) for label in self._codes)

    def _keep(self, round: int, block: Kept, values: int) -> None:
        """Store a block of labels 0 and 1 that is learned in this round, to learn it again if a third label appears.

        Where it is not learned, the next block takes its place. If there are too many values, none is stored.
        """
        if self._first_rows is not None:
            self._first_rows[round] = block
            self._room -= values + _CALL
            if self._room < 0:
                self._first_rows = None

    def _become_many(self) -> None:
        """Handle a third label: relearn the stored rows with classes, or restart if there were too many."""
        kept, self._first_rows = self._first_rows, None
        if kept is None:
            reason = "the labels were 0 and 1 until now, which was one learner; with a third label it starts again."
            warnings.warn(reason, UserWarning, stacklevel=4)
        before, ends = (self._learner, self._codes), [*list(kept or ())[1:], self._rounds()]
        self._learner = class_model(self.method, self.multiclass, 0, self._options(), open_ended=True)
        self._codes = {}
        try:
            for (start, block), end in zip((kept or {}).items(), ends, strict=False):
                if len(block) == 2:
                    block = self._names.row(block[0], learn=True), [block[1]], np.ones(1)
                rows, labels, weights = block
                if end > start:  # else it was not learned
                    self._learn_classes(rows.part(0, end - start), labels[: end - start], weights[: end - start])
        except BaseException:
            (self._learner, self._codes), self._first_rows = before, kept
            raise

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each class so far."""
        if not self._codes:
            return {}
        if self.loss == "logistic" and self.method != "arow":
            margin = self._margin(x)
            if margin is not None:
                no, yes = self._codes
                unlikely, likely = of_two(margin)
                return {no: unlikely, yes: likely}
        margins = self._learner.predict(self._names.row(x, learn=False))
        return dict(zip(self._codes, self._probabilities(margins)[0].tolist(), strict=False))

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the most probable class, None before any label."""
        if not self._codes:
            return None
        margin = self._margin(x)
        if margin is not None:
            no, yes = self._codes
            return yes if margin > 0.0 else no
        return list(self._codes)[self._likeliest(self._names.row(x, learn=False))[0]]

    def _margin(self, x: dict[Any, Any]) -> float | None:
        """Return the margin of a row of two classes by prepared calls; None if that is not possible."""
        single = getattr(self._learner, "single", None)
        return None if single is None else self._names.predict_one(single, x)

    def predict_proba_many(self, X: Any) -> Any:
        """Return the probabilities of each class so far, as a data frame."""
        import pandas as pd

        if not self._codes:
            return pd.DataFrame(index=index_of(X))
        found = self._probabilities(self._learner.predict(self._names.frame(X, learn=False)))
        return pd.DataFrame(found, index=index_of(X), columns=list(self._codes))

    def predict_many(self, X: Any) -> Any:
        """Return the most probable class of each row, as a series; empty before any label."""
        import pandas as pd

        if not self._codes:
            return pd.Series(index=index_of(X)[:0], dtype=object)
        labels = list(self._codes)
        found = [labels[code] for code in self._likeliest(self._names.frame(X, learn=False))]
        return pd.Series(found, index=index_of(X))

    def _likeliest(self, rows: Rows) -> Any:
        margins = self._learner.predict(rows)
        return (margins > 0.0).astype(np.int64) if margins.ndim == 1 else margins.argmax(axis=1)

    def _probabilities(self, margins: NDArray[np.float64]) -> Any:
        loss = named_loss(vars(self))
        if loss not in ("logistic", "softmax"):
            # the error of River's base class, which river.checks expects
            raise NotImplementedError(f"loss={loss!r} gives no probabilities; use loss='logistic'.")
        return probabilities(margins, loss_of(self._learner, loss))


def _is_truth(label: Any) -> bool:
    """Return True for the labels False and True, or 0 and 1."""
    return isinstance(label, (bool, np.bool_)) or (isinstance(label, (int, np.integer)) and label in (0, 1))


def _different(labels: list[Any]) -> list[Any]:
    """Return one label of each type and value, so that the others need no check."""
    try:
        return list(dict(zip(zip(map(type, labels), labels, strict=True), labels, strict=True)).values())
    except TypeError:  # a label is not hashable
        return labels


def _is_class(label: Any) -> bool:
    """Return True if a label is not None, equals itself, and is hashable."""
    try:
        return label is not None and hash(label) is not None and bool(label == label)
    except (TypeError, ValueError):
        return False


def _refuse_label(labels: list[Any]) -> NoReturn:
    row = next(row for row, label in enumerate(labels) if not _is_class(label))
    raise InputError(
        f"y: the label at row {row} is {labels[row]!r}, which is no class; use words, whole numbers or True and False. "
        "Nothing was learned."
    )


def _plain(label: Any) -> Any:
    """Return a label as a Python value, without NumPy's type."""
    return label.item() if isinstance(label, np.generic) else label
