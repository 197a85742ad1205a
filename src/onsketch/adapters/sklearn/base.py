"""Base class of the classifier and the regressor: options, passes over rows, model files."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from onsketch.adapters.options import CHUNK, Held, differs, learner_options, merged, refuse_other
from onsketch.adapters.sklearn.frames import (
    FrameRows,
    check_missing,
    columns_with_gaps,
    named,
    needs_encoding,
    validated,
)
from onsketch.adapters.sklearn.saving import Saved
from onsketch.core.errors import InputError, OptionError
from onsketch.core.interrupts import uninterrupted
from onsketch.core.losses import in_units_of_labels
from onsketch.core.matrices import sound
from onsketch.learners.multiclass import OneVersusRest

Floats = NDArray[np.float64]
Learn = TypeVar("Learn", bound=Callable[..., Any])


def all_or_nothing(learn: Learn) -> Learn:
    """Decorate ``fit`` or ``partial_fit`` to forget the words of a frame that is refused before any row is learned."""

    @functools.wraps(learn)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        before, rounds = self.__dict__.get("_frames"), self._rounds
        known = None if before is None else before.mark()
        with uninterrupted:  # except the checks in ``_pass``
            try:
                return learn(self, *args, **kwargs)
            except BaseException:
                if self._rounds == rounds:
                    self.__dict__.pop("_frames", None)
                    if before is not None:
                        before.undo(known)
                        self._frames = before
                raise

    return cast(Learn, wrapped)


class OnlineEstimator(Held, Saved, BaseEstimator):  # type: ignore[misc]
    """Estimator around a learner, which is ``learner_`` once the estimator is fitted."""

    _held = "learner_"

    writes = ("fit", "partial_fit", "merge")
    learner_: Any

    def _options(self, n_features: int | None) -> dict[str, Any]:
        """Return the options of the learner, and a seed for it drawn from ``random_state``."""
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return {**learner_options(self.get_params(deep=False)), "n_features": n_features, "seed": seed}

    @property
    def _rounds(self) -> int:
        return int(self.learner_.rounds) if hasattr(self, "learner_") else 0

    def _checked(self, X: Any, y: Any, *, first: bool, **checks: Any) -> tuple[Any, Any]:
        """Return rows and targets after scikit-learn's checks; CSR stays CSR."""
        how = {"accept_sparse": "csr", "dtype": (np.float64, np.float32), **checks}
        X, y = named(X), named(y, "y")
        table = self._table(X, first)
        if table is None:
            given: tuple[Any, Any] = validated(self, sound(X), y, reset=first, **how)
            return given
        validate_data(self, X, skip_check_array=True, reset=first)
        if not hasattr(self, "_frames"):
            self._frames = FrameRows()
        rows = self._frames.rows(table, self.missing, learn=True)
        checked: tuple[Any, Any] = check_X_y(rows, y, ensure_min_features=0, **how)
        return checked

    def _table(self, X: Any, first: bool) -> Any:
        """Return the columns of a frame (or an array with missing values) to encode; None for plain numbers."""
        check_missing(self.missing)
        if first and not (self.warm_start and hasattr(self, "learner_")):
            self.__dict__.pop("_frames", None)
        if not (hasattr(self, "_frames") or (first and (self.missing in ("zero", "indicate") or needs_encoding(X)))):
            return None
        table = columns_with_gaps(X, self.missing)
        if table is None and hasattr(self, "_frames") and not first and hasattr(self, "feature_names_in_"):
            raise InputError(
                f"X: {type(self).__name__} was fitted on a data frame with the columns "
                f"{', '.join(map(repr, self.feature_names_in_))}; give rows as such a frame, not as an array."
            )
        return table

    def _width(self, X: Any) -> int | None:
        """Return the width for a new learner; None if new words may appear."""
        return None if hasattr(self, "_frames") else int(X.shape[1])

    @property
    def encoded_names_(self) -> list[str]:
        """Names of the weights of ``coef_``: columns, and for words ``column=word``."""
        check_is_fitted(self, "learner_")
        if hasattr(self, "_frames"):
            return list(self._frames.names)
        known = getattr(self, "feature_names_in_", None)
        return [f"x{k}" for k in range(self.n_features_in_)] if known is None else [str(name) for name in known]

    def _weights(self, X: Any, sample_weight: Any) -> Floats:
        weights: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if sample_weight is not None and not weights.any():
            raise ValueError("sample_weight: every weight is zero, so that there is nothing to learn from.")
        return weights

    def _pass(self, X: Any, targets: NDArray[Any], weights: Floats, order: NDArray[np.int64] | None) -> None:
        """Learn the rows once in this order; rows of weight zero are ignored."""
        if order is None and not weights.all():
            order = np.arange(len(weights))
        if order is not None:
            order = order[weights[order] > 0.0]
        count = len(weights) if order is None else len(order)
        width = X.nnz // max(X.shape[0], 1) if hasattr(X, "nnz") else X.shape[1]
        step = max(1, CHUNK // max(width, 1))
        for start in range(0, count, step):
            uninterrupted.check()
            rows = slice(start, start + step) if order is None else order[start : start + step]
            self.learner_.learn(X[rows], targets[rows], weights[rows])

    def _fit_anew(self, X: Any, targets: NDArray[Any], weights: Floats, learner: Any, **fitted: Any) -> Self:
        """Fit from scratch: discard the previous state, and leave no state if learning fails."""
        self._forget()
        self.__dict__.update(learner_=learner, _parameters=self._made_with(), **fitted)
        try:
            self._passes(X, targets, weights)
        except BaseException:
            self._forget()
            raise
        return self

    def _go_on(self, X: Any, targets: NDArray[Any], weights: Floats, first: bool) -> Self:
        """Continue fitting: one pass, in order; a first pass that fails leaves no state."""
        try:
            self._pass(X, targets, weights, None)
        except BaseException:
            if first:
                self._forget()
            raise
        self.n_iter_ = 1
        return self

    def merge(self, other: Self) -> Self:
        """Take in what another estimator has learned from other rows; in place, the other is left as it was.

        Both need the same parameters, columns and classes. Named methods need ``scaling="none"``, and many classes
        the method "auto" or ``multiclass="one-vs-rest"``; other learners are refused with the reason.
        """
        for one in (self, other):
            check_is_fitted(one, "learner_")
        refuse_other(self, other, self._made_with(), other._made_with())
        for name in ("n_features_in_", "feature_names_in_", "classes_"):
            mine, theirs = getattr(self, name, None), getattr(other, name, None)
            if differs(mine, theirs):
                raise OptionError(f"merge: {name} is {mine!r} here and {theirs!r} in the other.")
        frames, numbers = copy.deepcopy(getattr(self, "_frames", None)), None
        if frames is not None:
            numbers = frames.take_in(other._frames)
        with uninterrupted:
            self.learner_ = merged(self.learner_, other.learner_, numbers)
            if frames is not None:
                self._frames = frames
        return self

    def _passes(self, X: Any, targets: NDArray[Any], weights: Floats) -> None:
        """Take at most ``max_iter`` passes, each in a new order with ``shuffle``.

        With ``early_stopping`` or a ``tol``, they end when ``n_iter_no_change`` consecutive passes have not improved
        the score by more than ``tol``. The score is that of the held-out rows, or else of the training rows.
        """
        for name in ("max_iter", "n_iter_no_change"):
            if not isinstance(getattr(self, name), (int, np.integer)) or getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r}: expected a whole number of passes, at least 1.")
        random = check_random_state(self.random_state)
        rows = np.arange(X.shape[0])
        judged = rows
        if self.early_stopping:
            if not 0.0 < self.validation_fraction < 1.0:
                raise ValueError(f"validation_fraction={self.validation_fraction!r}: expected a share within (0, 1).")
            held = self._held_out(targets, random)
            rows, judged = rows[~held], rows[held]
        judging = self.early_stopping or self.tol is not None
        best, waited = -np.inf, 0
        for done in range(1, self.max_iter + 1):
            whole = len(rows) == X.shape[0] and not self.shuffle
            self._pass(X, targets, weights, None if whole else random.permutation(rows) if self.shuffle else rows)
            self.n_iter_ = done
            score = self._judge(X, targets, weights, judged) if judging or self.verbose else 0.0
            if self.verbose:
                print(f"pass {done}: score {score:.6g}")
            waited = 0 if score > best + (self.tol or 0.0) else waited + 1
            best = max(best, score)
            if judging and waited >= self.n_iter_no_change:
                return
        if judging:
            warnings.warn(
                f"the score was still improving after max_iter={self.max_iter} passes; give a larger max_iter to "
                f"let {self.n_iter_no_change} passes without improvement (n_iter_no_change) end the fit.",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _held_out(self, targets: NDArray[Any], random: Any) -> NDArray[np.bool_]:
        """Return a mask of validation rows, stratified by class (with some training rows of every class)."""
        several = self._real or targets.ndim == 2
        groups = [np.arange(len(targets))] if several else [np.flatnonzero(targets == k) for k in np.unique(targets)]
        held = np.zeros(len(targets), dtype=bool)
        for group in groups:
            size = min(int(np.ceil(self.validation_fraction * len(group))), len(group) - 1)
            held[random.permutation(group)[:size]] = True
        if not held.any():
            raise ValueError("early_stopping: too few rows to hold some out; give more rows, or early_stopping=False.")
        return held

    def _judge(self, X: Any, targets: NDArray[Any], weights: Floats, rows: NDArray[np.int64]) -> float:
        """Return the score of the current learner: R², or the accuracy."""
        margins, y, c = np.asarray(self.learner_.predict(X[rows])), targets[rows], weights[rows]
        if self._real:
            spread = c @ (y - np.average(y, weights=c, axis=0)) ** 2
            missed = c @ (y - in_units_of_labels(self.loss, margins)) ** 2
            return float(np.mean(1.0 - missed / np.where(spread > 0.0, spread, 1.0)))
        right = margins * y > 0.0 if margins.ndim == y.ndim else margins.argmax(axis=1) == y
        right = right if right.ndim == 1 else right.mean(axis=1)
        return float(np.average(right, weights=c))

    _real = False
    """True if targets are numbers, not classes."""

    def _made_with(self) -> dict[str, Any]:
        """Return the parameters that made the learner."""
        later = ("max_iter", "shuffle", "random_state", "n_jobs", "class_weight", "early_stopping", "tol", "verbose",
                 "validation_fraction", "n_iter_no_change", "warm_start")  # fmt: skip
        return {name: value for name, value in self.get_params(deep=False).items() if name not in later}

    def _refuse_changes(self) -> None:
        """Refuse parameters changed since the learner was made: ``partial_fit`` continues with the old ones."""
        known = getattr(self, "_parameters", None)
        changed = [name for name, value in self._made_with().items() if known and differs(known.get(name), value)]
        if changed:
            raise ValueError(
                f"partial_fit: {', '.join(changed)} changed since the learner was made; call fit, which restarts, "
                "or partial_fit of a clone."
            )

    def _forget(self) -> None:
        """Delete all fitted attributes."""
        for name in ("learner_", "classes_", "n_iter_", "multilabel_", "_parameters"):
            self.__dict__.pop(name, None)

    def _margins(self, X: Any, *, clipped: bool) -> Floats:
        """Return the margins of checked rows; with ``clipped`` as the learner predicts, if it clips."""
        if not clipped and _clips(self.learner_):
            try:
                weights, constant = self.learner_.weights, self.learner_.intercept
            except OptionError:  # a learner without weights
                return np.asarray(self.learner_.predict(X))
            return np.asarray(X @ np.transpose(weights) + constant)
        return np.asarray(self.learner_.predict(X))

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "learner_")
        X = named(X)
        table = self._table(X, first=False)
        if table is None:
            return validated(self, sound(X), accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        validate_data(self, X, skip_check_array=True, reset=False)
        return self._frames.rows(table, self.missing, learn=False)

    def _of_the_weights(self, name: str) -> Any:
        """Return ``weights`` or ``intercept`` of the learner; raise AttributeError if it has none."""
        check_is_fitted(self, "learner_")
        try:
            return getattr(self.learner_, name)
        except OptionError as error:
            raise AttributeError(str(error)) from None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing in ("zero", "indicate")
        return tags


def _clips(learner: Any) -> bool:
    """Return True if the learner clips its own predictions."""
    if isinstance(learner, OneVersusRest):
        learner = learner.learners[0]
    return getattr(getattr(learner, "options", None), "clip", None) is not None
