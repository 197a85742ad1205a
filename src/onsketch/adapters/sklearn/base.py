"""What the classifier and the regressor share: options on their way to a learner, passes over rows, model files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from onsketch.adapters.options import CHUNK, described, learner_options, revived
from onsketch.core.errors import OptionError

Floats = NDArray[np.float64]


class OnlineEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator around a learner. The learner itself is ``learner_`` once the estimator is fitted."""

    def _options(self, n_features: int) -> dict[str, Any]:
        """The options of the learner, and a seed for it drawn from ``random_state``."""
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return {**learner_options(self.get_params(deep=False)), "n_features": n_features, "seed": seed}

    def _checked(self, X: Any, y: Any, *, first: bool, **checks: Any) -> tuple[Any, Any]:
        """Rows and targets as scikit-learn checks them; CSR stays CSR."""
        given: tuple[Any, Any] = validate_data(
            self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), reset=first, **checks
        )
        return given

    def _weights(self, X: Any, sample_weight: Any) -> Floats:
        weights: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if sample_weight is not None and not weights.any():
            raise ValueError("sample_weight: every weight is zero, so that there is nothing to learn from.")
        return weights

    def _pass(self, X: Any, targets: NDArray[Any], weights: Floats, order: NDArray[np.int64] | None) -> None:
        """One pass over the rows, in this order; rows of weight zero count as not there."""
        if order is None and not weights.all():
            order = np.arange(len(weights))
        if order is not None:
            order = order[weights[order] > 0.0]
        count = len(weights) if order is None else len(order)
        width = X.nnz // max(X.shape[0], 1) if hasattr(X, "nnz") else X.shape[1]
        step = max(1, CHUNK // max(width, 1))
        for start in range(0, count, step):
            rows = slice(start, start + step) if order is None else order[start : start + step]
            self.learner_.learn(X[rows], targets[rows], weights[rows])

    def _passes(self, X: Any, targets: NDArray[Any], weights: Floats) -> None:
        """``max_iter`` passes, each in an order of its own with ``shuffle``."""
        if not isinstance(self.max_iter, (int, np.integer)) or self.max_iter < 1:
            raise ValueError(f"max_iter={self.max_iter!r}: expected a whole number of passes, at least 1.")
        random = check_random_state(self.random_state)
        for _ in range(self.max_iter):
            self._pass(X, targets, weights, random.permutation(X.shape[0]) if self.shuffle else None)
        self.n_iter_ = self.max_iter

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "learner_")
        return validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)

    def _of_the_weights(self, name: str) -> Any:
        """``weights`` or ``intercept`` of the learner; an estimator whose learner has none lacks the attribute."""
        check_is_fitted(self, "learner_")
        try:
            return getattr(self.learner_, name)
        except OptionError as error:
            raise AttributeError(str(error)) from None

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "learner_" in state:
            state["learner_"] = described(state["learner_"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if "learner_" in state:  # with arrays of its own: those of a memory-mapped pickle cannot be written to
            state["learner_"] = revived(*state["learner_"])
        super().__setstate__(state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a model file, without pickle; :func:`onsketch.load` brings it back."""
        from onsketch.adapters.sklearn.saving import save_estimator

        check_is_fitted(self, "learner_")
        save_estimator(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
