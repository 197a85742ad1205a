"""Base class of the River estimators: names of features, and model files."""

from __future__ import annotations

import os
from typing import Any

from onsketch.adapters.options import described, learner_options, revived
from onsketch.adapters.river.fast_path import FastPath
from onsketch.adapters.river.features import FeatureNames


class OnlineEstimator:
    """River estimator around a learner (``_learner``), which is created with the first row."""

    method: str
    loss: str

    _learner: Any
    _names: FeatureNames
    _fast: FastPath

    def _start(self) -> None:
        self._learner = None
        self._names = FeatureNames()
        self._fast = FastPath()

    def _rounds(self) -> int:
        """Return the number of rows learned so far."""
        return 0 if self._learner is None else int(self._learner.rounds)

    def _options(self) -> dict[str, Any]:
        parameters = vars(self)
        return {**learner_options(parameters), "seed": parameters["seed"]}

    @property
    def weights(self) -> dict[Any, Any]:
        """Weight of each feature seen; with several classes, an array with one weight for each."""
        if self._learner is None:
            return {}
        weights = self._learner.weights.T
        return {name: weights[number] for name, number in self._names.of.items() if number < len(weights)}

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if state["_learner"] is not None:
            state["_learner"] = described(state["_learner"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if state["_learner"] is not None:
            state["_learner"] = revived(*state["_learner"])
        vars(self).update({"_fast": FastPath()} | state)  # older pickles have no fast path

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a model file, without pickle; :func:`onsketch.load` restores it."""
        from onsketch.adapters.river.saving import save_estimator

        save_estimator(self, path)
