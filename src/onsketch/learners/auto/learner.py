"""``onsketch.learner("auto")``: the mixture as a learner like any other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import Arrays, require, take
from onsketch.core.errors import OptionError
from onsketch.core.tolerances import LARGEST, RESOLUTION, STEEPEST
from onsketch.jit.calling import Bound, Prepared
from onsketch.jit.chain import Step
from onsketch.jit.vectors import padded
from onsketch.learners.auto.directions import ridge_with
from onsketch.learners.auto.merging import merge_auto, sketch_of_learner
from onsketch.learners.auto.mixing import EXPERTS
from onsketch.learners.auto.reading import fill_weights, leverage_rows, new_room, predict_rows
from onsketch.learners.auto.round import learn_rows, new_working_room
from onsketch.learners.auto.scaling import APART
from onsketch.learners.auto.state import (
    FIGURE,
    FIRST_ROW,
    IN_BUFFER,
    TALLY,
    Light,
    Mixture,
    Settings,
)
from onsketch.learners.base import Learner
from onsketch.learners.features import INTERCEPT, FeatureMap
from onsketch.learners.merging import spectrum
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Rows, Slotted
from onsketch.learners.single import OneRow, RowPlan
from onsketch.learners.sketched.packed import CLOCK, Table, new_table, roomy, used

Floats = NDArray[np.float64]

RIDGES, GROWTHS = (0.03, 0.003, 0.03), (0.5, 0.05, 0.05)
"""Ridges of the experts with a sketch, for rows of mean squared length 1 (a margin is expected to be of size 1/√ridge),
and the parts of what the sketch loses that are added to them."""

ROOT_STEP, OWN_STEP, STEP, BOLD_STEP = 10.0, 1.5, 10.0, 3.0
"""Steps of the third expert and of the AdaGrads, for such rows and labels of size 1."""

PRECISION = 0.1
"""The first precision of the diagonal Laplace expert, for such rows."""

TOLD = 0.25
"""Curvature times leverage of a row that is worth its place in the sketch."""

FREE, PATIENCE = 1024, 10
"""So many features have sketch columns from the start, the others when they have come so many times; until then they
are kept in float32."""

_LONGEST_KEPT = 4096
"""Entries of a row for which the arrays of a round are kept from call to call: 300 bytes each."""

_MORE = [TALLY.more_warm, TALLY.more_cold, TALLY.more_buffer]

EXPERT_NAMES = ("Newton", "second Newton", "root", "AdaGrad in own scales", "Laplace", "AdaGrad", "bold AdaGrad")


class AutoLearner(Learner):
    """Seven experts and their mixture; ``docs/explanation/auto.md`` explains them.

    Cost of a round: O(m) per non-zero plus O(m²), whatever d.

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
        size = options.sketch_size
        kept, capacity = (size - 1, 2 * size) if size >= 2 else (0, 1)
        real = self._loss.labels == "real"
        self._settings = Settings(
            loss=self._loss.form,
            size=size,
            capacity=capacity,
            ridges=RIDGES,
            growths=GROWTHS,
            root_step=ROOT_STEP,
            own_step=OWN_STEP,
            step=STEP,
            bold_step=BOLD_STEP,
            precision=PRECISION,
            real=real,
            signs=self._loss.labels == "sign",
            intercept=options.fit_intercept,
            ranged=self._loss.labels != "sign" and options.clip == "labels",
            clip=options.clip if isinstance(options.clip, float) else math.inf,
            forget=float(options.forget),
            told=TOLD,
            free=FREE,
            patience=PATIENCE,
            largest=LARGEST if options.dtype == "float64" else 1e30,
            steepest=STEEPEST[options.dtype],
            resolution=RESOLUTION[options.dtype],
        )
        self._small = Mixture.empty(capacity, kept)
        self._table = self._new_table(16)
        self._light = self._new_light()
        self._map = FeatureMap()
        self._learn_rows, self._predict_rows = Bound(learn_rows), Bound(predict_rows)

    @property
    def rounds(self) -> int:
        """Rounds played."""
        return int(self._table.clock[CLOCK.rounds])

    share_names = EXPERT_NAMES

    _room: tuple[Any, ...] | None = None
    """Scratch of rounds, see ``_working_room``; no part of the state."""

    def _copied(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "_room"}

    @property
    def shares(self) -> Floats:
        """The coefficients of the experts in the mixture, in the order of ``EXPERT_NAMES``."""
        return self._small.mix[:EXPERTS].copy()

    def _new_table(self, room: int) -> Table:
        """An empty heavy table with room for so many features."""
        kept = max(self._settings.size - 1, 0)
        table = roomy(new_table(kept + 1, kept + 1, self.options.dtype), room)
        table.clock[CLOCK.seen] = 1  # place 0 means: none
        return table

    def _new_light(self) -> Light:
        """Light rows of no feature."""
        since = padded(self._settings.capacity - max(self._settings.size - 1, 0), 8)
        made: Light = state.new(Light, warm=1, cold=1, slots=0, buffered=0, since=since, real=self.options.dtype)
        return made

    def _translated(self, rows: Rows, *, learn: bool) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        return self._map.translate(rows, learn=learn, intercept=self.options.fit_intercept)

    def shared(self, rows: Rows, *, learn: bool) -> Rows:
        """The rows with their slots."""
        return self._map.shared(rows, learn=learn, intercept=self.options.fit_intercept)

    def _learn(self, rows: Rows, labels: Floats, weights: Floats, out: Floats) -> int:
        try:
            done = self._learn_translated(self._translated(rows, learn=True), labels, weights, out)
        finally:  # the features of rows that were not learned have not been seen, even if there was no memory for them
            self._small.counts[TALLY.full] = 0
            self._map.forget(int(self._small.counts[TALLY.seen]))
        return done

    def _learn_translated(self, slotted: Slotted, labels: Floats, weights: Floats, out: Floats) -> int:
        indptr, slots, values = slotted
        if self._map.count > len(self._light.places):
            self._light = state.grow(self._light, slots=self._map.room)
        done = 0
        while True:
            parts = self._settings, self._light, self._table, self._small, self._working_room(0)
            self._small.counts[_MORE] = 0  # asked for by the loop, unless a row is only longer than its room
            block = indptr[done:], slots, values, labels[done:], weights[done:], out[done:]
            done += int(self._learn_rows(parts, *block))
            if not self._small.counts[TALLY.full]:
                break
            self._working_room(int(np.diff(indptr).max()))
            warm, cold, buffered = (int(count) for count in self._small.counts[_MORE])
            if self._settings.size >= 2:
                self._table = roomy(self._table, warm)
                warm = max(warm, self._table.rows.shape[0])  # the same places in both
            self._light = state.grow(self._light, warm=warm, cold=cold, buffered=buffered)
            self._predict_rows.forget()
        if parts[-1][0][0].size > 6 * _LONGEST_KEPT:
            self._room = None
            self._learn_rows.forget()
        return done

    def _working_room(self, longest: int) -> tuple[Any, ...]:
        """Arrays for rounds with rows of so many entries; they stay, for to make them takes longer than a short row."""
        have = 0 if self._room is None else len(self._room[0][3])
        if self._room is None or longest >= have:
            self._room = new_working_room(self._settings, self._light, self._table, max(longest, 2 * have, 64))
        return self._room

    def learning_row(self, row: OneRow) -> RowPlan:
        """As ``_learn``, for a prepared row."""
        light, table = self._light, self._table
        slotted, steps, same = row.translated(self._map, self.options.fit_intercept, len(light.places))
        state = self._settings, light, table, self._small, self._working_room(slotted[1].size)
        learn = Prepared(learn_rows, *state, *slotted, row.label, row.weight, row.out)
        return RowPlan([*steps, Step(learn, 1)], lambda: self._light is light and self._table is table and same())

    def predicting_row(self, row: OneRow) -> RowPlan:
        """As ``_predict``, for a prepared row."""
        light, table = self._light, self._table
        slotted, steps, same = row.translated(self._map, self.options.fit_intercept)
        state = self._settings, light, table, self._small, new_room(table, self._small)
        predict = Prepared(predict_rows, *state, *slotted, row.out)
        return RowPlan([*steps, Step(predict)], lambda: self._light is light and self._table is table and same())

    def _predict(self, rows: Rows) -> Floats:
        indptr, slots, values = self._translated(rows, learn=False)
        out = np.empty(rows.count)
        state = self._settings, self._light, self._table, self._small
        self._predict_rows(state, new_room(self._table, self._small), indptr, slots, values, out)
        return out

    def _leverage(self, rows: Rows) -> Floats:
        indptr, slots, values = self._translated(rows, learn=False)
        out = np.empty(rows.count)
        if self.rounds == 0:
            raise OptionError("auto: leverage is known once a row has been learned, for features have no scale before.")
        room = new_room(self._table, self._small)
        leverage_rows(self._settings, self._light, self._table, self._small, room, indptr, slots, values, out)
        return out

    @property
    def ridge(self) -> float:
        """The ridge of the first Newton expert, for rows in scales of their own."""
        return float(ridge_with.py_func(self._settings, self._small.numbers, 0, self.escaped))

    @property
    def escaped(self) -> float:
        """Σρ: what the sketch has shrunk away so far."""
        return float(self._small.numbers[FIGURE.escaped])

    def spectrum(self) -> Floats:
        """The eigenvalues of the sketch of curvature rows, descending."""
        return self.directions()[0]

    def directions(self) -> tuple[Floats, NDArray[np.int64], Floats]:
        """The main directions of the sketch; see ``Learner.directions``."""
        places, n = np.maximum(self._light.places[: self._map.count], 0), int(self._small.counts[TALLY.rows])
        rows = sketch_of_learner(self)[places, FIRST_ROW : FIRST_ROW + n].T
        values, vectors = spectrum(np.ascontiguousarray(rows))
        return values * float(self._small.numbers[FIGURE.fade]), self._map.features.copy(), vectors

    def deviation(self, X: Any) -> Floats:
        """The standard deviation of what the labels of these rows may be: noise, and what the learner does not know.

        ``√(σ²·(1 + 2·leverage))`` with σ² the mean squared error of the predictions made so far: what Bayesian linear
        regression says where the noise is Gaussian and of one size. For the squared loss only.
        """
        if self.loss != "squared":
            raise OptionError(f"auto: a standard deviation is known for the squared loss, not for {self.loss}.")
        leverages = self.leverage(X)
        with self.lock.reading:
            noise = self._small.sums[2, :3].min() / max(self._small.numbers[FIGURE.weight], 1e-290)
        return np.asarray(np.sqrt(noise * (1.0 + 2.0 * leverages)))

    def _coefficients(self) -> tuple[NDArray[np.int64], Floats]:
        weights = np.empty(self._map.count)
        fill_weights(self._light, self._table, self._small, weights, new_room(self._table, self._small))
        return self._map.features.copy(), weights

    def state_bytes(self) -> dict[str, int]:
        """Memory: packed rows and index of the features seen; and everything."""
        counts = self._used()
        light = state.nbytes(
            self._light, warm=counts["warm"] - 1, cold=counts["cold"] - 1, slots=self._map.count, buffered=0
        )
        heavy = int(self._table.clock[CLOCK.seen]) * (self._table.rows.strides[0] + 4)
        total = sum(map(state.nbytes, (self._light, self._table, self._small)))
        return {"packed": self._map.count * (8 + 4) + light + heavy, "total": total + self._map.nbytes}

    def _merge(self, other: Any, base: Any) -> None:
        start = type(self)(self.method, self.options) if base is None else base
        if other.rounds == start.rounds:
            return
        if self.rounds == start.rounds:
            twin = other.fork()
            self._small, self._light, self._table, self._map = twin._small, twin._light, twin._table, twin._map
        else:
            merge_auto(self, other, start)
        for bound in (self._learn_rows, self._predict_rows):
            bound.forget()  # the state of before

    @classmethod
    def room(cls, method: Method, options: Options) -> int:
        """Bytes that a fresh one takes."""
        return 8 * 288 * options.sketch_size**2

    def _used(self) -> dict[str, int]:
        """How much of the light tables is in use."""
        warm, cold = (int(count) + 1 for count in self._small.counts[[TALLY.warm, TALLY.cold]])
        buffered = int(self._table.clock[CLOCK.touched])
        return {"warm": warm, "cold": cold, "slots": self._map.count, "buffered": buffered}

    def _arrays(self) -> Arrays:
        light = state.pack(self._light, "light", **self._used())
        heavy = state.pack(self._table, "table", **used(self._table))
        return {"features": self._map.features} | light | heavy | state.pack(self._small, "small")

    def _restore(self, arrays: Arrays) -> None:
        features = take(arrays, "features", np.int64, (None,))
        self._map.refill(features, self._width, self.options.fit_intercept)
        self._small = state.unpack(self._small, arrays, "small")
        self._table = roomy(state.unpack(self._new_table(0), arrays, "table", free=("slots", "log")), 16)
        axes = ("warm", "cold", "slots", "buffered")
        self._light = state.unpack(self._new_light(), arrays, "light", free=axes)
        self._light = state.grow(self._light, warm=len(self._table.rows))
        warm, cold = (int(count) for count in self._small.counts[[TALLY.warm, TALLY.cold]])
        seen, counted = features.size, {name: arrays[f"light.{name}"].shape[0] for name in Light._fields}
        buffered = int(self._table.clock[CLOCK.touched])
        fits = counted == {"rows": warm + 1, "cold": cold + 1, "places": seen, "buffer": buffered}
        require(fits and min(warm, cold) >= 0, "its counts are impossible", "small.counts")
        self._check()
        in_buffer = self._table.rows[: self._table.clock[CLOCK.seen], IN_BUFFER].astype(np.int64)
        listed = np.flatnonzero(in_buffer)
        require(np.array_equal(np.sort(in_buffer[listed]), np.arange(1, buffered + 1)), "its buffer is another's")
        self._table.touched[in_buffer[listed] - 1] = listed
        taken = np.zeros(cold + 1, dtype=bool)
        taken[-self._light.places[:seen][self._light.places[:seen] < 0]] = True
        free = 0
        for place in np.flatnonzero(~taken[1:]) + 1:
            self._light.cold[place, :2] = divmod(free, 65536)
            free = int(place)
        self._small.counts[TALLY.freed] = free

    def _check(self) -> None:
        """Refuse a state in which a compiled loop would read what is not there."""
        rows, constant, seen, regime, turned, full = (int(count) for count in self._small.counts[:6])
        capacity, known = self._settings.capacity, self._light.places[: self._map.count]
        require(0 <= turned <= rows < max(capacity, 1), "its sketch has impossible counts")
        require(seen == self._map.count and 0 <= regime <= APART and full == 0, "its counts are impossible")
        places = np.flatnonzero(self._map.features == INTERCEPT)
        require(constant == (places[0] if places.size else -1), "its constant feature is not where it should be")
        warm, cold = self._small.counts[[TALLY.warm, TALLY.cold]]
        require(bool(((known >= -cold) & (known <= warm) & (known != 0)).all()), "a feature's row is not there")
        require(np.unique(known).size == known.size, "two features share a row")
        require(constant < 0 or known[constant] > 0, "its constant feature is not where it should be")
        require(self._settings.size < 2 or warm + 1 == self._table.clock[CLOCK.seen], "a feature's sketch is not there")
