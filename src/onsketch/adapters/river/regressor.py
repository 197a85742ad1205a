"""Online regression under River's contract."""

from __future__ import annotations

from typing import Any

import numpy as np
from river import base

from onsketch.adapters.options import DEFAULT_METHOD, keep_parameters, regression_learner
from onsketch.adapters.river.base import OnlineEstimator


class OnlineRegressor(OnlineEstimator, base.MiniBatchRegressor):
    """A linear regressor whose steps know the curvature, for rows that are dictionaries.

    With the squared loss a Newton method is recursive least squares, sketched or (``method="ons"``) exact.

    Args:
        method: a name out of :func:`onsketch.methods`.
        loss: "squared" or "absolute".
        fit_intercept: whether to add a constant feature.
        seed: for methods that draw random numbers.
        clip, sketch_size, ridge, step_size, curvature, curvature_schedule, summary, update, doubling, diagonal,
            shrink_fraction, l1, l2, box, average, forget, betas, kernel, gamma, accuracy, budget, floor, degree,
            coef0, max_points, restart, dtype:
            options of :func:`onsketch.learner`; None leaves them to the method.

    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), OnlineRegressor(), metrics.MAE())  # raw features
    MAE: 0.25...
    """

    def __init__(
        self,
        method: str = DEFAULT_METHOD,
        loss: str = "squared",
        sketch_size: int | None = None,
        ridge: float | None = None,
        step_size: float | None = None,
        clip: float | None = None,
        curvature: float | None = None,
        curvature_schedule: str | None = None,
        summary: str | None = None,
        update: str | None = None,
        doubling: bool | None = None,
        diagonal: bool | None = None,
        shrink_fraction: float | None = None,
        l1: float | None = None,
        l2: float | None = None,
        box: tuple[float, float] | None = None,
        average: bool | None = None,
        forget: float | None = None,
        betas: tuple[float, float] | None = None,
        kernel: str | None = None,
        gamma: float | None = None,
        accuracy: float | None = None,
        budget: int | None = None,
        floor: float | None = None,
        degree: int | None = None,
        coef0: float | None = None,
        max_points: int | None = None,
        restart: bool | None = None,
        dtype: str | None = None,
        fit_intercept: bool = True,
        seed: int = 0,
    ) -> None:
        keep_parameters(self, locals())
        self._start()

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn one row."""
        with self._names.learning():
            rows = self._names.row(x, learn=True)
            self._ready().learn(rows, np.array([y], dtype=np.float64))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a data frame, one after the other, in one compiled pass."""
        with self._names.learning():
            rows = self._names.frame(X, learn=True)
            self._ready().learn(rows, np.asarray(y, dtype=np.float64))

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The prediction, 0 before anything was learned."""
        if self._learner is None:
            return 0.0
        return float(self._learner.predict(self._names.row(x, learn=False))[0])

    def predict_many(self, X: Any) -> Any:
        """The predictions of the rows of a data frame, a series."""
        import pandas as pd

        if self._learner is None:
            return pd.Series(0.0, index=X.index)
        return pd.Series(self._learner.predict(self._names.frame(X, learn=False)), index=X.index)

    def _ready(self) -> Any:
        if self._learner is None:
            self._learner = regression_learner(self.method, self._options())
        return self._learner
