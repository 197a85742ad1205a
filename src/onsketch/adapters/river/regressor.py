"""Online regression under River's contract."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from river import base

from onsketch.adapters.options import DEFAULT_METHOD, keep_parameters, regression_learner, takes_learner_options
from onsketch.adapters.river.base import OnlineEstimator
from onsketch.adapters.river.features import index_of
from onsketch.core.losses import in_units_of_labels
from onsketch.core.tolerances import LARGEST
from onsketch.learners.keywords import EstimatorOptions


class OnlineRegressor(OnlineEstimator, base.MiniBatchRegressor):
    """Linear regressor with second-order steps, for rows that are dictionaries.

    With the squared loss a Newton method is recursive least squares, sketched or (``method="ons"``) exact.

    Args:
        method: a name from :func:`onsketch.methods`.
        loss: "squared", "absolute", "quantile" (of level ``quantile``) or "poisson" (for counts).
        fit_intercept: add a constant feature.
        seed: seed of methods that draw random numbers.
        **options: options of :func:`onsketch.learner`; None selects the method's default.

    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), OnlineRegressor(), metrics.MAE())  # raw features
    MAE: 0.21...
    """

    @takes_learner_options
    def __init__(
        self,
        method: str = DEFAULT_METHOD,
        loss: str = "squared",
        fit_intercept: bool = True,
        seed: int = 0,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        keep_parameters(self, locals())
        self._start()

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one row of weight w; a row of weight 0 is ignored."""
        if w == 1.0 and type(y) in (float, int) and self._limits[0] <= y <= self._limits[1]:
            if self._fast.learn(self._learner, x, y):
                return
        elif w == 0.0:
            return
        with self._names.learning(self._rounds):
            rows = self._names.row(x, learn=True)
            self._ready().learn(rows, [y], [w])
        self._fast.notice(self._learner, x, self._names.of)

    @property
    def _limits(self) -> tuple[float, float]:
        """Return the least and the largest valid label."""
        return (0.0, LARGEST) if self.loss == "poisson" else (-LARGEST, LARGEST)

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of a data frame (pandas or polars), one after the other, in one compiled pass."""
        with self._names.learning(self._rounds):
            rows = self._names.frame(X, learn=True)
            self._ready().learn(rows, np.asarray(y, dtype=np.float64), w)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """Return the prediction, 0 before any learning."""
        if self._learner is None:
            return 0.0
        margin = self._fast.predict(self._learner, x)
        if margin is None:
            margins = self._learner.predict(self._names.row(x, learn=False))
            self._fast.notice(self._learner, x, self._names.of)
            margin = margins[0]
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
