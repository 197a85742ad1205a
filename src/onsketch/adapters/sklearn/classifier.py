"""Classification in one pass, under scikit-learn's contract."""

from __future__ import annotations

from typing import Any, Self, Unpack

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from onsketch.adapters.options import (
    DEFAULT_METHOD,
    class_model,
    keep_parameters,
    loss_of,
    named_loss,
    shared_model,
    shares_a_sketch,
    takes_learner_options,
)
from onsketch.adapters.sklearn.base import Floats, OnlineEstimator, all_or_nothing
from onsketch.core.errors import InputError
from onsketch.core.probabilities import logistic, probabilities
from onsketch.learners.base import Learner
from onsketch.learners.keywords import EstimatorOptions
from onsketch.learners.options import documents_options


def _gives_probabilities(estimator: OnlineClassifier) -> bool:
    loss = named_loss(vars(estimator))
    if loss in ("logistic", "softmax"):
        return True
    raise AttributeError(f"loss={loss!r} gives no probabilities; use loss='logistic' or 'softmax'.")


@documents_options
class OnlineClassifier(ClassifierMixin, OnlineEstimator):  # type: ignore[misc]
    """Linear classifier that learns in one pass, with second-order steps.

    Two classes are learned by one learner. For more, ``multiclass="auto"`` is a multinomial ``auto`` (``"softmax"``,
    calibrated and without tuning) if the method is ``auto``. Otherwise each class has a learner (``"one-vs-rest"``, any
    method, in parallel threads). ``"shared"`` learns K weight vectors with one sketch of a frequent-directions method;
    with ``loss="softmax"`` this is multinomial logistic regression.

    Multilabel targets, a matrix of 0 and 1, also share one such sketch; ``predict`` returns a matrix of 0 and 1.

    Args:
        method: a name from :func:`onsketch.methods`.
        loss: "logistic" ("log_loss"), "hinge", "squared_hinge", or "softmax" unless classes are learned one by one.
        multiclass: "auto", "softmax", "one-vs-rest", or "shared" (of rfd-son where the method is "auto").
        fit_intercept: add a constant feature.
        class_weight: a dictionary, or "balanced" (``fit`` only).
        max_iter: passes over the rows in ``fit``, at most.
        early_stopping: hold some rows out, and end the passes when their score stops improving.
        validation_fraction: the share of rows held out.
        tol: least improvement of the score in a pass; without ``early_stopping``, it is the score of the training rows.
        n_iter_no_change: number of passes without improvement before stopping.
        warm_start: ``fit`` continues from the previous solution.
        verbose: print the score after each pass.
        missing: numbers that are NaN: "error", "zero", or "indicate", by a feature of their own; "auto" indicates them
            in data frames and refuses them in arrays. Words in a data frame become features by themselves
            (``encoded_names_``); words that are missing have a feature in any case.
        shuffle: shuffle the rows in ``fit``; ``partial_fit`` never does.
        random_state: seed of the order and of the learner's draws.
        n_jobs: threads for one-vs-rest; None for one (or as many as the context of joblib says), -1 for one per
            processor.
        clip: bound of the margins while learning; None for none. "default" means None here, except for "auto".
            ``decision_function`` is never clipped.
        **options: options of :func:`onsketch.learner`; None selects the method's default.

    Attributes:
        classes_: the labels, sorted.
        coef_, intercept_: the weights, (1, d) for two classes and (K, d) for more; not for kernel methods. Those of
            the multinomial ``auto`` are its linear part for rows of typical length.
        learner_: the learner itself (:class:`onsketch.Learner`, or one of :mod:`onsketch.learners.multiclass`).
        encoded_names_: the name of each weight.
        multilabel_: True if rows have several labels.
        n_iter_: passes of the last ``fit``.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X / 16, y, random_state=0)
    >>> model = OnlineClassifier(random_state=0).fit(X, y)  # one pass
    >>> bool(model.score(X_test, y_test) > 0.93)
    True
    """

    classes_: NDArray[Any]
    multilabel_: bool
    _kept = ("n_features_in_", "n_iter_", "multilabel_")

    @takes_learner_options
    def __init__(
        self,
        method: str = DEFAULT_METHOD,
        *,
        loss: str = "logistic",
        multiclass: str = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        max_iter: int = 1,
        shuffle: bool = True,
        random_state: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        tol: float | None = None,
        n_iter_no_change: int = 5,
        warm_start: bool = False,
        verbose: int = 0,
        missing: str = "auto",
        n_jobs: int | None = None,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        keep_parameters(self, locals())

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from these rows only, in at most ``max_iter`` passes."""
        X, y = self._checked(X, y, first=True, multi_output=True)
        y = _labels(y)
        weights = self._weights(X, sample_weight)
        classes = np.arange(y.shape[1]) if y.ndim == 2 else np.unique(y[weights > 0.0])
        if y.ndim == 1 and len(classes) < 2:
            raise ValueError(
                f"a classifier needs rows of two classes at least; there is one class: {classes.tolist()}."
            )
        goes_on = self.warm_start and hasattr(self, "learner_") and np.array_equal(self.classes_, classes)
        goes_on = goes_on and self.multilabel_ == (y.ndim == 2)
        if goes_on:
            self._refuse_changes()
        learner = self.learner_ if goes_on else self._new_learner(classes, X, y)
        weights = weights * self._class_weights(classes, y, weights)
        targets = _targets(learner, classes, y)
        return self._fit_anew(X, targets, weights, learner, classes_=classes, multilabel_=y.ndim == 2)

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continue learning with these rows, in their order, in one pass.

        Args:
            X: the rows.
            y: their labels.
            sample_weight: their weights.
            classes: all labels that will ever come; needed in the first call.
        """
        first = not hasattr(self, "learner_")
        self._refuse_changes()
        X, y = self._checked(X, y, first=first, multi_output=True)
        y = _labels(y)
        if y.ndim == 2:
            classes = np.arange(y.shape[1])
            if not (first or (self.multilabel_ and np.array_equal(self.classes_, classes))):
                raise ValueError(f"y: {y.shape[1]} labels to a row; it was otherwise in the first call.")
        known = np.unique(classes) if classes is not None else getattr(self, "classes_", None)
        if known is not None and y.ndim == 1:
            _refuse_strange(known, y)
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all rows at once and is for fit; for partial_fit give the "
                "weights of the classes as a dictionary (see sklearn.utils.class_weight.compute_class_weight)."
            )
        weights = self._weights(X, sample_weight)
        if _check_partial_fit_first_call(self, classes):
            try:
                if y.ndim == 1 and len(self.classes_) < 2:
                    raise ValueError(
                        f"a classifier needs two classes at least; there is one class: {self.classes_[0]!r}."
                    )
                self.learner_, self._parameters = self._new_learner(self.classes_, X, y), self._made_with()
            except Exception:
                del self.classes_
                raise
        self.multilabel_ = y.ndim == 2
        weights = weights * self._class_weights(self.classes_, y, weights)
        return self._go_on(X, _targets(self.learner_, self.classes_, y), weights, first)

    def decision_function(self, X: Any) -> Floats:
        """Return the margins: (rows,) for two classes, positive for ``classes_[1]``; (rows, K) for more."""
        return self._margins(self._rows(X), clipped=False)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        margins = self.decision_function(X)
        if self.multilabel_:
            return (margins > 0.0).astype(np.int64)
        codes = (margins > 0.0).astype(np.int64) if margins.ndim == 1 else margins.argmax(axis=1)
        found: NDArray[Any] = self.classes_[codes]
        return found

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, (rows, K): softmax, or normalised values of the logistic function."""
        margins = self.decision_function(X)
        if self.multilabel_:
            return logistic(margins)
        return probabilities(margins, loss_of(self.learner_, named_loss(vars(self))))

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    @property
    def coef_(self) -> Floats:
        """Weights of the features, (1, d) or (K, d), a new array at each access."""
        return np.atleast_2d(self._of_the_weights("weights"))

    @property
    def intercept_(self) -> Floats:
        """Weight of the constant feature, (1,) or (K,)."""
        return np.atleast_1d(self._of_the_weights("intercept"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = tags.target_tags.multi_output = shares_a_sketch(self.method)
        return tags

    def _new_learner(self, classes: NDArray[Any], X: Any, y: NDArray[Any]) -> Any:
        options = self._options(self._width(X))
        if y.ndim == 1:
            return class_model(
                self.method, self.multiclass, len(classes), options, threads=effective_n_jobs(self.n_jobs)
            )
        if self.class_weight is not None:
            raise ValueError("class_weight: several labels to a row have no classes to weigh; give sample_weight.")
        loss = "logistic" if options["loss"] == "softmax" else options["loss"]  # of a label alone
        return shared_model(self.method, len(classes), {**options, "loss": loss})

    def _class_weights(self, classes: NDArray[Any], y: NDArray[Any], weights: Floats) -> Any:
        """Return the weight of each row, ``class_weight`` included."""
        if self.class_weight is None:
            return 1.0
        counted = weights > 0.0
        of_class = compute_class_weight(
            self.class_weight, classes=classes, y=y[counted], sample_weight=weights[counted]
        )
        return of_class[_places(classes, y)]


def _labels(y: Any) -> NDArray[Any]:
    """Return labels, (rows,), or binary labels, (rows, K)."""
    kind = type_of_target(y, input_name="y")
    if kind == "multilabel-indicator":
        return np.asarray(y.toarray() if hasattr(y, "toarray") else y)
    if kind == "multiclass-multioutput":
        raise ValueError("y: several labels to a row are 0 and 1 each; for more classes use MultiOutputClassifier.")
    found = np.asarray(y)
    found = column_or_1d(found, warn=True) if found.ndim == 2 and found.shape[1] == 1 else found
    check_classification_targets(found)
    return found


def _targets(learner: Any, classes: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Return the learner's targets: ±1 for two classes or several labels to a row, codes for more classes."""
    codes = y if y.ndim == 2 else _places(classes, y)
    return np.where(codes > 0, 1.0, -1.0) if y.ndim == 2 or isinstance(learner, Learner) else codes


def _places(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of each label in the sorted classes; arbitrary for unknown labels."""
    return np.minimum(np.searchsorted(classes, y), len(classes) - 1)


def _refuse_strange(classes: NDArray[Any], y: NDArray[Any]) -> None:
    """Raise an error that names the first label which is not among the classes."""
    strange = np.flatnonzero(classes[_places(classes, y)] != y)
    if strange.size:
        row = int(strange[0])
        raise InputError(
            f"y: the label {y[[row]].tolist()[0]!r} at row {row} is not among the classes given in the first call of "
            f"partial_fit, {classes.tolist()!r}. Give all classes there. Nothing was learned."
        )
