"""Base class of the River estimators: names of features, and model files."""

from __future__ import annotations

import copy
import os
from contextlib import nullcontext
from inspect import signature
from typing import Any, Self, Unpack

import numpy as np

from onsketch.adapters.options import (
    DEFAULT_METHOD,
    Held,
    keep_parameters,
    learner_options,
    merged,
    refuse_other,
    takes_learner_options,
)
from onsketch.adapters.river.features import FeatureNames
from onsketch.core.interrupts import uninterrupted
from onsketch.learners.keywords import EstimatorOptions


class OnlineEstimator(Held):
    """River estimator around a learner (``_learner``), which is created with the first row."""

    method: str
    loss: str
    _held = "_learner"

    _learner: Any
    _names: FeatureNames
    _codes: dict[Any, int]
    """The code of each class; empty where labels are numbers."""

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
        ``scaling="none"``, and many classes the method "auto" or ``multiclass="one-vs-rest"``.
        """
        names = signature(type(self)).parameters
        mine, theirs = ({name: vars(one).get(name) for name in names} for one in (self, other))
        refuse_other(self, other, mine, theirs)
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a model file, without pickle; :func:`onsketch.load` restores it."""
        from onsketch.adapters.river.saving import save_estimator

        with uninterrupted, self._names.entering, self._learner.lock.reading if self._learner else nullcontext():
            save_estimator(self, path)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        with uninterrupted, self._names.entering:
            twin: Self = super().__deepcopy__(memo)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        with uninterrupted, self._names.entering:
            return super().__getstate__()
