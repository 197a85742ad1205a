"""Online classification under River's contract."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from river import base

from onsketch.adapters.options import (
    DEFAULT_METHOD,
    class_model,
    keep_parameters,
    loss_of,
    probabilities,
    takes_learner_options,
)
from onsketch.adapters.river.base import OnlineEstimator
from onsketch.core.errors import InputError, UpdateError
from onsketch.learners.base import Learner
from onsketch.learners.keywords import EstimatorOptions
from onsketch.learners.rows import Rows


class OnlineClassifier(OnlineEstimator, base.MiniBatchClassifier):
    """A linear classifier whose steps know the curvature, for rows that are dictionaries.

    Labels that are True and False are learned by one learner. Any others may be of any number, and new ones may come at
    any time: by a multinomial ``auto`` (``"softmax"``, what ``multiclass="auto"`` means where the method is ``auto``);
    by one learner for each (``"one-vs-rest"``), where a class that comes late is learned exactly as if it had been
    known from the start; or over one sketch for all (``"shared"``). In the first and the last it starts from zero.

    Args:
        method: a name out of :func:`onsketch.methods`.
        loss: "logistic", "hinge", "squared_hinge", or "softmax" where classes are not learned one by one.
        multiclass: "auto", "softmax", "one-vs-rest", or "shared" (of rfd-son where the method is "auto").
        fit_intercept: whether to add a constant feature.
        seed: for methods that draw random numbers.
        **options: options of :func:`onsketch.learner`; None leaves one to the method.

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
        self._codes: dict[Any, int] = {}

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def classes(self) -> list[Any]:
        """The labels met so far, in order of appearance (False and True where labels are these)."""
        return list(self._codes)

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn one row."""
        with self._names.learning():
            self._learn(self._names.row(x, learn=True), [y])

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a data frame, one after the other, in one compiled pass."""
        if len(X) == 0:
            return
        with self._names.learning():
            self._learn(self._names.frame(X, learn=True), list(y))

    def _learn(self, rows: Rows, labels: list[Any]) -> None:
        if len(labels) != rows.count:
            raise InputError(f"y: {len(labels)} labels for {rows.count} rows.")
        for row, label in enumerate(labels):
            _check_label(label, row)
        if self._learner is None:
            self._first(labels)
        try:
            if isinstance(self._learner, Learner):
                signs = np.array([self._sign(label) for label in labels])
                self._learner.learn_checked(rows, signs, np.ones(rows.count))
            else:
                self._learn_classes(rows, labels)
        finally:
            if not self._learner.rounds:  # the first row was refused: there is nothing yet
                self._learner, self._codes = None, {}

    def _learn_classes(self, rows: Rows, labels: list[Any]) -> None:
        """Learn the rows up to the first of a new class, make room for that class, and so on."""
        starts = [0]
        if any(label not in self._codes for label in labels):
            first = {label: row for row, label in reversed(list(enumerate(labels))) if label not in self._codes}
            starts = sorted({0, *first.values()})
        for start, stop in zip(starts, [*starts[1:], rows.count], strict=True):
            newcomer = labels[start] not in self._codes
            if newcomer:
                self._codes[_plain(labels[start])] = self._learner.add_class()
            part = rows if stop - start == rows.count else rows.part(start, stop)
            before = self._learner.rounds
            try:
                codes = np.array([self._codes[label] for label in labels[start:stop]])
                self._learner.learn_checked(part, codes, np.ones(part.count))
            except BaseException as error:
                if newcomer and self._learner.rounds == before:  # its first row was refused
                    self._learner.drop_class()
                    del self._codes[_plain(labels[start])]
                if isinstance(error, UpdateError) and start:
                    raise UpdateError(error.where, start + error.row) from None
                raise

    def _first(self, labels: list[Any]) -> None:
        """Make the learner: one for True and False, an open number of classes for other labels."""
        truths = all(isinstance(label, (bool, np.bool_)) for label in labels)
        self._learner = class_model(
            self.method, self.multiclass, 2 if truths else 0, self._options(), open_ended=not truths
        )
        self._codes = {False: 0, True: 1} if truths else {}

    def _sign(self, label: Any) -> float:
        if not isinstance(label, (bool, np.bool_)):
            raise InputError(f"y: the label {label!r} comes after labels True and False; use words or numbers for all.")
        return 1.0 if label else -1.0

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of each class met so far."""
        if not self._codes:
            return {}
        return dict(zip(self._codes, self._probabilities(self._names.row(x, learn=False))[0].tolist(), strict=True))

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """The likeliest class, None before any was met."""
        if not self._codes:
            return None
        return list(self._codes)[self._likeliest(self._names.row(x, learn=False))[0]]

    def predict_proba_many(self, X: Any) -> Any:
        """The probabilities of each class met so far, a data frame."""
        import pandas as pd

        if not self._codes:
            return pd.DataFrame(index=X.index)
        found = self._probabilities(self._names.frame(X, learn=False))
        return pd.DataFrame(found, index=X.index, columns=list(self._codes))

    def predict_many(self, X: Any) -> Any:
        """The likeliest class of each row, a series; empty before any was met."""
        import pandas as pd

        if not self._codes:
            return pd.Series(index=X.index[:0], dtype=object)
        labels = list(self._codes)
        found = [labels[code] for code in self._likeliest(self._names.frame(X, learn=False))]
        return pd.Series(found, index=X.index)

    def _likeliest(self, rows: Rows) -> Any:
        margins = self._learner.predict(rows)
        return (margins > 0.0).astype(np.int64) if margins.ndim == 1 else margins.argmax(axis=1)

    def _probabilities(self, rows: Rows) -> Any:
        if self.loss not in ("logistic", "softmax"):
            raise NotImplementedError(f"loss={self.loss!r} gives no probabilities; use loss='logistic'.")
        return probabilities(self._learner.predict(rows), loss_of(self._learner, self.loss))


def _check_label(label: Any, row: int) -> None:
    """Refuse what is no class: nothing at all, what does not equal itself, and what cannot be looked up."""
    try:
        fit = label is not None and hash(label) is not None and bool(label == label)
    except (TypeError, ValueError):
        fit = False
    if not fit:
        raise InputError(
            f"y: the label at row {row} is {label!r}, which is no class; use words, whole numbers or True and False. "
            "Nothing was learned."
        )


def _plain(label: Any) -> Any:
    """A label as Python has it, without NumPy's type."""
    return label.item() if isinstance(label, np.generic) else label
