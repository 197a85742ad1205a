"""Online regression under River's contract, of one target or several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from river import base

from onsketch.adapters.options import regression_learner
from onsketch.adapters.river.base import OnlineEstimator
from onsketch.adapters.river.features import index_of
from onsketch.core.errors import InputError
from onsketch.core.losses import in_units_of_labels
from onsketch.learners.options import documents_options
from onsketch.learners.rows import Rows


@documents_options
class OnlineRegressor(OnlineEstimator, base.MiniBatchRegressor):
    """Linear regressor with second-order steps, for rows that are dictionaries.

    With the squared loss a Newton method is recursive least squares, sketched or (``method="ons"``) exact.

    Args:
        method: a name from :func:`onsketch.methods`.
        loss: "squared", "absolute", "quantile" (of level ``quantile``), "huber" or "epsilon_insensitive" (with
            ``epsilon``), or "poisson" (for counts).
        fit_intercept: add a constant feature.
        seed: seed of methods that draw random numbers.
        **options: options of :func:`onsketch.learner`; None selects the method's default.

    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), OnlineRegressor(), metrics.MAE())  # raw features
    MAE: 0.21...
    """

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one row of weight w; a row of weight 0 is ignored."""
        learner = self._learner
        if w == 0.0:
            return
        plain = learner is not None and w == 1.0 and type(y) in (float, int)
        if plain and learner._loss.takes(y) and self._names.learn_one(learner.single, x, y):
            return
        with self._names.learning(self._rounds):
            rows = self._names.row(x, learn=True)
            self._ready().learn(rows, [y], [w])

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of a data frame (pandas or polars), one after the other, in one compiled pass."""
        with self._names.learning(self._rounds):
            rows = self._names.frame(X, learn=True)
            self._ready().learn(rows, np.asarray(y, dtype=np.float64), w)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """Return the prediction, 0 before any learning."""
        if self._learner is None:
            return 0.0
        margin = self._names.predict_one(self._learner.single, x)
        if margin is None:
            margin = self._learner.predict(self._names.row(x, learn=False))[0]
        return float(in_units_of_labels(self.loss, margin))

    def predict_many(self, X: Any) -> Any:
        """Return the predictions of the rows of a data frame, as a series."""
        import pandas as pd

        if self._learner is None:
            return pd.Series(0.0, index=index_of(X))
        margins = self._learner.predict(self._names.frame(X, learn=False))
        return pd.Series(in_units_of_labels(self.loss, margins), index=index_of(X))

    def _ready(self) -> Any:
        if self._learner is None:
            self._learner = regression_learner(self.method, self._options())
        return self._learner


@documents_options
class OnlineMultiTargetRegressor(OnlineEstimator, base.MultiTargetRegressor):
    """Linear regressor of several targets, for rows and targets that are dictionaries.

    All targets share one sketch of a frequent-directions method ("auto" means ``rfd-son``). With the squared loss these
    are K recursive least squares at little more than the cost of one. Every row has the targets of the first one.

    Args:
        method: rfd-son, fd-son, pfd-son, cfd-son, ada-fd or s-adagrad; "auto" is rfd-son.
        loss: as for :class:`OnlineRegressor`.
        fit_intercept: add a constant feature.
        seed: seed of methods that draw random numbers.
        **options: options of :func:`onsketch.learner`; None selects the method's default.

    >>> from river import evaluate, metrics, stream
    >>> from sklearn.datasets import load_linnerud
    >>> rows = stream.iter_sklearn_dataset(load_linnerud(), shuffle=True, seed=1)
    >>> metric = metrics.multioutput.MicroAverage(metrics.MAE())
    >>> evaluate.progressive_val_score(rows, OnlineMultiTargetRegressor(), metric)
    MicroAverage(MAE): 11.7...
    """

    def learn_one(self, x: dict[Any, Any], y: dict[Any, Any], w: float = 1.0, **kwargs: Any) -> None:
        """Learn one row of weight w; a row of weight 0 is ignored."""
        if w != 0.0:
            self._learn(list(y), list(y.values()), lambda: self._names.row(x, learn=True), [w])

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of a data frame, one after the other; ``y`` is a frame with a column for each target."""
        self._learn(list(y.columns), np.asarray(y).T, lambda: self._names.frame(X, learn=True), w)

    def _learn(self, names: list[Any], values: Any, rows: Callable[[], Rows], weights: Any) -> None:
        codes = self._codes or {name: code for code, name in enumerate(names)}
        if not names or codes.keys() != set(names) or len(codes) != len(names):
            raise InputError(f"y: the targets are {names!r}; expected {list(codes) or 'one or more'}.")
        try:
            targets = np.asarray(values, dtype=np.float64).reshape(len(names), -1)
        except (TypeError, ValueError):
            raise InputError(f"y: the targets {names!r} are numbers; found {values!r}.") from None
        with self._names.learning(self._rounds):
            checked = rows()
            if self._learner is None:
                self._learner, self._codes = regression_learner(self.method, self._options(), len(codes)), codes
            try:
                self._learner.learn(checked, targets[[names.index(name) for name in codes]].T, weights)
            finally:
                if not self._learner.rounds:  # the first row was refused: there is no learner yet
                    self._learner, self._codes = None, {}

    def predict_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Return the prediction of each target; empty before any learning."""
        if self._learner is None:
            return {}
        margins = self._learner.predict(self._names.row(x, learn=False))[0]
        return dict(zip(self._codes, in_units_of_labels(self.loss, margins).tolist(), strict=True))

    def predict_many(self, X: Any) -> Any:
        """Return the predictions of the rows of a data frame, a column for each target."""
        import pandas as pd

        if self._learner is None:
            return pd.DataFrame(index=index_of(X))
        margins = self._learner.predict(self._names.frame(X, learn=False))
        return pd.DataFrame(in_units_of_labels(self.loss, margins), index=index_of(X), columns=list(self._codes))
