"""``onsketch.learner("auto")``: the mixture as a learner like any other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import OptionError
from onsketch.core.tolerances import LARGEST, STEEPEST
from onsketch.files.arrays import Arrays, named, packed, require, require_within, restored, take, under
from onsketch.jit.calling import Bound, Prepared
from onsketch.jit.chain import Step
from onsketch.jit.vectors import aligned_zeros, padded
from onsketch.learners.auto.directions import ridge_with
from onsketch.learners.auto.earlier_files import in_present_form, with_heaviest
from onsketch.learners.auto.merging import merge_auto, sketch_of_learner
from onsketch.learners.auto.mixing import EXPERTS
from onsketch.learners.auto.reading import fill_weights, leverage_rows, new_room, predict_rows
from onsketch.learners.auto.round import learn_rows, new_working_room
from onsketch.learners.auto.scaling import APART
from onsketch.learners.auto.state import (
    COLD_WIDTH,
    FIGURE,
    FIRST_ROW,
    IN_BUFFER,
    TALLY,
    WIDTH,
    Light,
    Mixture,
    Settings,
    with_room,
)
from onsketch.learners.base import Learner
from onsketch.learners.features import INTERCEPT, FeatureMap
from onsketch.learners.methods import Method
from onsketch.learners.one_row import OneRow, ShortWay, Translation
from onsketch.learners.options import Options
from onsketch.learners.rows import Rows, Slotted
from onsketch.learners.sketched.merged_sketches import spectrum
from onsketch.learners.sketched.packed import CLOCK, Table
from onsketch.learners.sketched.tables import filled, grown, new_table, saved

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

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "_room"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._small = self._small._replace(numbers=with_heaviest(self._small.numbers))

    @property
    def shares(self) -> Floats:
        """The coefficients of the experts in the mixture, in the order of ``EXPERT_NAMES``."""
        return self._small.mix[:EXPERTS].copy()

    def _new_table(self, room: int) -> Table:
        """An empty heavy table with room for so many features."""
        kept = max(self._settings.size - 1, 0)
        table = _with_room(new_table(kept + 1, kept + 1, np.dtype(self.options.dtype)), room)
        table.clock[CLOCK.seen] = 1  # place 0 means: none
        return table

    def _new_light(self) -> Light:
        """Light rows of no feature."""
        dtype, kept = np.dtype(self.options.dtype), max(self._settings.size - 1, 0)
        rows, cold = aligned_zeros(1, WIDTH, dtype), aligned_zeros(1, COLD_WIDTH, np.dtype(np.float32))
        buffer = aligned_zeros(0, padded(self._settings.capacity - kept, 8), dtype)
        return Light(rows, cold, np.zeros(0, np.int32), buffer)

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
        if self._map.count > self._light.places.size:
            self._light = with_room(self._light, 1, 1, self._map.count, 0)
        done = 0
        while True:
            state = self._settings, self._light, self._table, self._small, self._working_room(0)
            self._small.counts[_MORE] = 0  # asked for by the loop, unless a row is only longer than its room
            block = indptr[done:], slots, values, labels[done:], weights[done:], out[done:]
            done += int(self._learn_rows(state, *block))
            if not self._small.counts[TALLY.full]:
                break
            self._working_room(int(np.diff(indptr).max()))
            warm, cold, buffered = (int(count) for count in self._small.counts[_MORE])
            if self._settings.size >= 2:
                self._table = _with_room(self._table, warm)
                warm = max(warm, self._table.rows.shape[0])  # the same places in both
            self._light = with_room(self._light, warm, cold, 0, buffered)
            self._predict_rows.forget()
        if state[-1][0][0].size > 6 * _LONGEST_KEPT:
            self._room = None
            self._learn_rows.forget()
        return done

    def _working_room(self, longest: int) -> tuple[Any, ...]:
        """Arrays for rounds with rows of so many entries; they stay, for to make them takes longer than a short row."""
        have = 0 if self._room is None else len(self._room[0][3])
        if self._room is None or longest >= have:
            self._room = new_working_room(self._settings, self._light, self._table, max(longest, 2 * have, 64))
        return self._room

    def learning_row(self, row: OneRow) -> ShortWay:
        """As ``_learn``, for a row in arrays that stay."""
        translated = Translation(self._map, row.rows, learn=True, intercept=self.options.fit_intercept)
        light, table, block = self._light, self._table, (*translated.slotted, row.label, row.weight, row.out)
        room = self._working_room(row.rows.indices.size + 1)
        learn = Prepared(learn_rows, self._settings, light, table, self._small, room, *block)
        return translated.then([Step(learn, 1)], lambda: self._light is light and self._table is table)

    def predicting_row(self, row: OneRow) -> ShortWay:
        """As ``_predict``, for such a row."""
        translated = Translation(self._map, row.rows, learn=False, intercept=self.options.fit_intercept)
        light, table = self._light, self._table
        state = self._settings, light, table, self._small, new_room(table, self._small)
        predict = Prepared(predict_rows, *state, *translated.slotted, row.out)
        return translated.then([Step(predict)], lambda: self._light is light and self._table is table)

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
        with self.turns.reading:
            noise = self._small.sums[2, :3].min() / max(self._small.numbers[FIGURE.weight], 1e-290)
        return np.asarray(np.sqrt(noise * (1.0 + 2.0 * leverages)))

    def _coefficients(self) -> tuple[NDArray[np.int64], Floats]:
        weights = np.empty(self._map.count)
        fill_weights(self._light, self._table, self._small, weights, new_room(self._table, self._small))
        return self._map.features.copy(), weights

    def state_bytes(self) -> dict[str, int]:
        """Memory: packed rows and index of the features seen; and everything."""
        table, light = self._table, self._light
        held = (*light, table.rows, table.touched, table.running, table.past, *self._small)
        counts = self._small.counts
        heavy = int(table.clock[CLOCK.seen]) * (table.rows.strides[0] + 4)
        rows = counts[TALLY.warm] * light.rows.strides[0] + counts[TALLY.cold] * light.cold.strides[0]
        packed = self._map.count * (4 + 8 + 4) + int(rows) + heavy
        return {"packed": packed, "total": sum(array.nbytes for array in held) + self._map.nbytes}

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

    def _arrays(self) -> Arrays:
        seen = self._map.count
        counts, rows, buffered = self._small.counts, self._light, int(self._table.clock[CLOCK.touched])
        light = {
            "rows": rows.rows[: counts[TALLY.warm] + 1],
            "cold": rows.cold[: counts[TALLY.cold] + 1],
            "places": rows.places[:seen],
            "buffer": rows.buffer[:buffered],
        }
        return (
            {"features": self._map.features}
            | named("light", light)
            | named("table", saved(self._table))
            | packed(self._small, "small")
        )

    def _restore(self, arrays: Arrays) -> None:
        require("light.rows" in arrays, "it holds an auto learner of an earlier version, which had other experts")
        features = take(arrays, "features", np.int64, (None,))
        self._map.refill(features, self._width, self.options.fit_intercept)
        arrays = in_present_form(arrays, self._settings.free, self._settings.patience, self._new_light())
        self._small = restored(self._small, arrays, "small")
        warm, cold = (int(count) for count in self._small.counts[[TALLY.warm, TALLY.cold]])
        seen, dtype, light, table = (
            features.size,
            self._light.rows.dtype,
            under("light", arrays),
            under("table", arrays),
        )
        require(min(warm, cold) >= 0 and warm + cold <= 2 * seen, "its counts are impossible", "small.counts")
        places = np.zeros(len(take(table, "rows", dtype, (None, self._table.rows.shape[1]))), dtype=np.int64)
        self._table = filled(self._table, table, places, True)
        buffered = int(self._table.clock[CLOCK.touched])
        self._light = with_room(self._new_light(), max(warm + 1, self._table.rows.shape[0]), cold + 1, seen, buffered)
        self._light.rows[: warm + 1] = take(light, "rows", dtype, (warm + 1, WIDTH))
        self._light.cold[: cold + 1] = take(light, "cold", np.float32, (cold + 1, COLD_WIDTH))
        self._light.places[:seen] = take(light, "places", np.int32, (seen,))
        self._light.buffer[:buffered] = take(light, "buffer", dtype, (buffered, self._light.buffer.shape[1]))
        self._check()
        self._table.rows[:, IN_BUFFER] = 0.0
        self._table.rows[self._table.touched[:buffered], IN_BUFFER] = np.arange(1, buffered + 1)
        used = np.zeros(cold + 1, dtype=bool)
        used[-self._light.places[:seen][self._light.places[:seen] < 0]] = True
        free = 0
        for place in np.flatnonzero(~used[1:]) + 1:
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
        factor, precision = self._small.calibration
        require_within(factor, -LARGEST, LARGEST, "small.calibration")
        require_within(precision, 1.0, LARGEST * LARGEST, "small.calibration")
        require_within(self._small.shares, 0.0, 1.001, "small.shares")
        require_within(self._small.numbers[FIGURE.heaviest], 1.0, LARGEST, "small.numbers")
        require_within(self._small.sums, -LARGEST * LARGEST, LARGEST * LARGEST, "small.sums")


def _with_room(table: Table, count: int) -> Table:
    """The heavy table with room for so many features; it keeps no list of them, the light rows say where they are."""
    return grown(table, np.empty(count, np.int64), True)._replace(features=table.features)
