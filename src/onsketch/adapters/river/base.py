"""Base class of the River estimators: names of features, and model files."""

from __future__ import annotations

import copy
import os
from inspect import signature
from typing import Any, Self

import numpy as np

from onsketch.adapters.options import described, learner_options, merged, revived
from onsketch.adapters.river.features import FeatureNames
from onsketch.core.errors import OptionError


class OnlineEstimator:
    """River estimator around a learner (``_learner``), which is created with the first row."""

    method: str
    loss: str

    _learner: Any
    _names: FeatureNames
    _codes: dict[Any, int]
    """The code of each class; empty where labels are numbers."""

    def _start(self) -> None:
        self._learner = None
        self._codes = {}
        self._names = FeatureNames()

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

    def merge(self, other: Self) -> Self:
        """Take in what another estimator has learned from other rows; in place, the other is left as it was.

        Both need the same parameters; features and classes may have appeared in any order. Named methods need
        ``scaling="none"``, and many classes ``multiclass="one-vs-rest"``.
        """
        differing = [name for name in signature(type(self)).parameters if getattr(self, name) != getattr(other, name)]
        if type(self) is not type(other) or differing:
            raise OptionError(f"merge: the other has another {', '.join(differing) or 'type'}.")
        if other._learner is None:
            return self
        if self._learner is None:
            vars(self).update(vars(copy.deepcopy(other)))
            return self
        codes = dict(self._codes)
        for label in other._codes:
            codes.setdefault(label, len(codes))
        with self._names.learning(self._rounds):
            self._names.enter(other._names.of)
            numbers = np.array([self._names.of[name] for name in other._names.of], dtype=np.int64)
            places = [codes[label] for label in other._codes]
            self._learner, self._codes = merged(self._learner, other._learner, numbers, places), codes
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if state["_learner"] is not None:
            state["_learner"] = described(state["_learner"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if state["_learner"] is not None:
            state["_learner"] = revived(*state["_learner"])
        vars(self).update(state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a model file, without pickle; :func:`onsketch.load` restores it."""
        from onsketch.adapters.river.saving import save_estimator

        save_estimator(self, path)
