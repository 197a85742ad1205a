"""``onsketch.learner("auto")``: the mixture as a learner like any other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import OptionError
from onsketch.core.tolerances import LARGEST, STEEPEST
from onsketch.files.arrays import Arrays, named, packed, require, restored, take, under
from onsketch.jit.cache import Direct, kind_of
from onsketch.learners.auto.reading import fill_weights, predict_rows
from onsketch.learners.auto.round import learn_rows
from onsketch.learners.auto.state import EXTRA, Settings, Small
from onsketch.learners.base import Learner
from onsketch.learners.features import INTERCEPT, FeatureMap
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Rows
from onsketch.learners.sketched.packed import CLOCK
from onsketch.learners.sketched.tables import filled, grown, new_table, saved

Floats = NDArray[np.float64]

RIDGES = (0.03, 0.003)
"""Ridges of the Newton experts, for rows of mean squared length 1: a margin is expected to be of size 1/√ridge."""

STEPS = (1.0, 3.0)
"""Steps of the AdaGrad experts, for such rows and labels of size 1."""

RATE = 0.5
"""How fast the mixture believes in an expert that does better; 1 is Bayes' rule for the logistic loss."""

_learn_rows, _predict_rows = Direct(learn_rows), Direct(predict_rows)


class AutoLearner(Learner):
    """Four experts and their mixture; see the package's page for what they do, and ``docs/auto.md`` for why.

    Cost of a round: O(m) per non-zero plus O(m²), whatever d; about twice a single rfd-son.

    >>> import numpy as np, onsketch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5)) * [1e-6, 1e6, 1.0, 3.0, 100.0]
    >>> y = np.sign(X @ [1e6, 1e-6, -1.0, 0.3, 0.0] + 1.0)
    >>> model = onsketch.learner("auto", loss="logistic")
    >>> bool(np.mean(np.sign(model.learn(X, y)) != y) < 0.03)
    True
    """

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        size = max(options.sketch_size, 1)  # a sketch of size 1 keeps no direction, only the growing ridge
        clip = options.clip if isinstance(options.clip, float) else math.inf
        real = self._loss.labels == "real"
        self._settings = Settings(
            loss=self._loss.code,
            size=size,
            capacity=2 * size,
            first_ridge=RIDGES[0],
            second_ridge=RIDGES[1],
            first_step=STEPS[0],
            second_step=STEPS[1],
            rate=RATE,
            real=real,
            ranged=real and options.clip == "default",
            clip=clip,
            forget=options.forget,
            largest=LARGEST if options.dtype == "float64" else 1e30,
            steepest=STEEPEST[options.dtype],
        )
        self._small = Small.empty(2 * size, size - 1)
        self._table = new_table(2 * size + EXTRA, size - 1, np.dtype(options.dtype))
        self._map = FeatureMap()
        self._kind = kind_of(self._settings, self._small, self._table)

    @property
    def rounds(self) -> int:
        """Rounds played."""
        return int(self._table.clock[CLOCK.rounds])

    @property
    def shares(self) -> Floats:
        """How much each expert counts: Newton with the larger and the smaller ridge, AdaGrad with either step."""
        return self._small.shares.copy()

    def _translated(self, rows: Rows, *, learn: bool) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        return self._map.translate(rows, learn=learn, intercept=self.options.fit_intercept)

    def shared(self, rows: Rows, *, learn: bool) -> Rows:
        """The rows with their slots."""
        return self._map.shared(rows, learn=learn, intercept=self.options.fit_intercept)

    def _learn(self, rows: Rows, labels: Floats, weights: Floats, out: Floats) -> int:
        indptr, slots, values = self._translated(rows, learn=True)
        if self._table.features.size != self._map.count:
            self._table = grown(self._table, self._map.features, True)
        state = self._settings, self._table, self._small
        done = int(_learn_rows(self._kind, *state, indptr, slots, values, labels, weights, out))
        if done < rows.count:  # the features of rows that were not learned have not been seen
            self._map.forget(int(self._table.clock[CLOCK.seen]))
            self._table = self._table._replace(features=self._map.features)
        return done

    def _predict(self, rows: Rows) -> Floats:
        indptr, slots, values = self._translated(rows, learn=False)
        out = np.empty(rows.count)
        state = self._settings, self._table, self._small
        _predict_rows(self._kind, *state, indptr, slots, values, out)
        return out

    def _leverage(self, rows: Rows) -> Floats:
        raise OptionError("auto: a mixture has no single metric, hence no leverage; use rfd-son or ons for it.")

    def _coefficients(self) -> tuple[NDArray[np.int64], Floats]:
        weights = np.empty(self._map.count)
        fill_weights(self._settings, self._table, self._small, weights)
        return self._map.features.copy(), weights

    def state_bytes(self) -> dict[str, int]:
        """Memory: packed rows and index of the features seen; and everything."""
        table = self._table
        held = (table.rows, table.touched, table.running, table.past, *self._small)
        packed = self._map.count * (table.rows.strides[0] + 8 + 4)
        return {"packed": packed, "total": sum(array.nbytes for array in held) + self._map.nbytes}

    def _merge(self, other: Any, base: Any) -> None:
        raise OptionError(
            "merge: auto learners measure features in scales of their own and cannot be merged. "
            "Learn the stream in one place, or merge rfd-son learners on features scaled beforehand."
        )

    @classmethod
    def room(cls, method: Method, options: Options) -> int:
        """Bytes that a fresh one takes."""
        return 8 * 288 * options.sketch_size**2

    def _arrays(self) -> Arrays:
        return {"features": self._map.features} | named("table", saved(self._table)) | packed(self._small, "small")

    def _restore(self, arrays: Arrays) -> None:
        features = take(arrays, "features", np.int64, (None,))
        self._map.refill(features, self._width, self.options.fit_intercept)
        self._table = filled(self._table, under("table", arrays), self._map.features, True)
        self._small = restored(self._small, arrays, "small")
        rows, constant = self._small.counts
        require(0 <= rows < max(self._settings.capacity, 1), "its sketch has impossible counts")
        places = np.flatnonzero(self._map.features == INTERCEPT)
        require(constant == (places[0] if places.size else -1), "its constant feature is not where it should be")
