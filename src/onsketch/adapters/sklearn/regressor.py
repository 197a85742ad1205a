"""Regression in one pass, under scikit-learn's contract."""

from __future__ import annotations

from typing import Any, Self, Unpack

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from onsketch.adapters.options import (
    DEFAULT_METHOD,
    keep_parameters,
    regression_learner,
    shares_a_sketch,
    takes_learner_options,
)
from onsketch.adapters.sklearn.base import Floats, OnlineEstimator, all_or_nothing
from onsketch.core.errors import OptionError
from onsketch.core.losses import in_units_of_labels
from onsketch.learners.keywords import EstimatorOptions
from onsketch.learners.multiclass import SharedSketch
from onsketch.learners.options import documents_options


@documents_options
class OnlineRegressor(RegressorMixin, OnlineEstimator):  # type: ignore[misc]
    """Linear regressor that learns in one pass, with second-order steps.

    With ``summary="curvature"`` and the squared loss a Newton method is recursive least squares: exact with
    ``method="ons"``, sketched with ``method="rfd-son"``; the default, "auto", mixes such learners and needs no scaling.

    Several targets, (rows, K), share one sketch of a frequent-directions method (rfd-son if the method is "auto"):
    K recursive least squares at little more than the cost of one.

    Args:
        method: a name from :func:`onsketch.methods`.
        loss: "squared" ("squared_error"), "absolute" ("absolute_error"), "quantile" (of level ``quantile``), "huber" or
            "epsilon_insensitive" (with ``epsilon``, in the unit of the targets), or "poisson" for counts, whose margins
            are logarithms: ``predict`` gives e to their power.
        fit_intercept: add a constant feature.
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
        clip: bound of the predictions; None for none, and so is "default" here: ``X @ coef_ + intercept_``.
        **options: options of :func:`onsketch.learner`; None selects the method's default.

    Attributes:
        coef_, intercept_: the weights (d,) and the constant, (K, d) and (K,) for K targets; not for kernel methods.
        learner_: the :class:`onsketch.Learner` itself; for several targets a learner with a shared sketch.
        encoded_names_: the name of each weight.
        n_iter_: passes of the last ``fit``.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = OnlineRegressor(random_state=0).fit(StandardScaler().fit_transform(X), y)  # one pass
    >>> bool(model.score(StandardScaler().fit_transform(X), y) > 0.45)  # 0.518 is the best that a linear model can do
    True
    """

    @takes_learner_options
    def __init__(
        self,
        method: str = DEFAULT_METHOD,
        *,
        loss: str = "squared",
        fit_intercept: bool = True,
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
        **options: Unpack[EstimatorOptions],
    ) -> None:
        keep_parameters(self, locals())

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from these rows only, in at most ``max_iter`` passes."""
        X, y = self._checked(X, y, first=True, y_numeric=True, multi_output=True)
        y = _targets(y)
        weights = self._weights(X, sample_weight)
        goes_on = self.warm_start and hasattr(self, "learner_")
        if goes_on:
            self._refuse_changes()
        learner = self.learner_ if goes_on else self._new_learner(self._width(X), y)
        return self._fit_anew(X, y, weights, learner)

    _real = True

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Continue learning with these rows, in their order, in one pass."""
        first = not hasattr(self, "learner_")
        self._refuse_changes()
        X, y = self._checked(X, y, first=first, y_numeric=True, multi_output=True)
        y = _targets(y)
        if not first and y.shape[1:] != np.shape(self.intercept_ if self._several else 0.0):
            raise ValueError(f"y: of shape {y.shape}; the number of targets was another in the first call.")
        weights = self._weights(X, sample_weight)
        if first:
            self.learner_, self._parameters = self._new_learner(self._width(X), y), self._made_with()
        return self._go_on(X, y, weights, first)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predictions, (rows,); with ``return_std`` also their standard deviation.

        The deviation includes the noise and the uncertainty of the weights. It needs the method "auto" and the squared
        loss.
        """
        X = self._rows(X)
        predictions = in_units_of_labels(self.loss, self._margins(X, clipped=self.clip not in ("default", None)))
        if not return_std:
            return predictions
        if not hasattr(self.learner_, "deviation"):
            raise OptionError(f"return_std=True: {self.method} knows no standard deviation; use method='auto'.")
        return predictions, self.learner_.deviation(X)

    @property
    def coef_(self) -> Floats:
        """Weights of the features, (d,), a new array at each access."""
        return np.asarray(self._of_the_weights("weights"))

    @property
    def intercept_(self) -> Any:
        """Weight of the constant feature; one for each of several targets."""
        found = self._of_the_weights("intercept")
        return found if self._several else float(found)

    @property
    def _several(self) -> bool:
        return isinstance(self.learner_, SharedSketch)

    def _new_learner(self, n_features: int | None, y: Floats) -> Any:
        options = self._options(n_features)
        return regression_learner(self.method, options, 0 if y.ndim == 1 else y.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        counts = self.loss == "poisson"
        tags.target_tags.positive_only = counts
        # scikit-learn's check of several targets has negative ones whatever positive_only says
        tags.target_tags.multi_output = shares_a_sketch(self.method) and not counts
        return tags


def _targets(y: Any) -> Floats:
    """Return targets as numbers, (rows,), or (rows, K) for several targets."""
    return np.asarray(column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y, dtype=np.float64)
