"""One learner without tuning, for two classes and numbers: a linear learner like any other."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import scaling
from onsketch.core import state as states
from onsketch.core.arrays import Arrays, named, require, require_within, take
from onsketch.core.errors import OptionError
from onsketch.core.interrupts import uninterrupted
from onsketch.jit.calling import Prepared
from onsketch.jit.chain import Step
from onsketch.jit.vectors import padded
from onsketch.learners.auto import upkeep
from onsketch.learners.auto.columns import IN_BUFFER
from onsketch.learners.auto.labels import bounds_of
from onsketch.learners.auto.merging import merge
from onsketch.learners.auto.metric import worth_exact
from onsketch.learners.auto.pool import PRIOR, Pool
from onsketch.learners.auto.round import learn_rows, leverage_rows, predict_rows
from onsketch.learners.auto.state import (
    BOLD,
    DONE,
    EXPERT_NAMES,
    FIRST,
    LONG,
    NEWTON,
    OUTPUTS,
    PLACES,
    RIDGES,
    RUN,
    SQUARE,
    WIDE,
    Mixture,
    PoolScratch,
    Scratch,
    Setup,
    State,
    new_scratch,
    start,
)
from onsketch.learners.base import Learner
from onsketch.learners.features import INTERCEPT, FeatureMap
from onsketch.learners.merging import spectrum
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Linear, Rows, Slotted
from onsketch.learners.single import OneRow, RowPlan
from onsketch.learners.sketched.packed import CLOCK, further_heads, new_table, roomy

Floats = NDArray[np.float64]

ONE = (0,)
"""The lanes of one output."""


class Core:
    """The state of one learner without tuning and what is done with it, for one output or several classes."""

    def __init__(self, setup: Setup, lanes: tuple[int, ...], directions: int, classes: int, dtype: str) -> None:
        self.setup, self.lanes, self.directions = setup, lanes, max(directions, 1)
        self.state = states.new(
            State, slots=1, centred=0, classes=max(classes, 1), places=1, width=0, square=0, buffered=0, since=0,
            table=new_table(0, 0, np.dtype(dtype)), real=np.dtype(dtype),
        )  # fmt: skip
        start(self.state)
        self.state.running[RUN.classes] = classes
        self.mixture = states.new(Mixture)
        self.pool = Pool.empty(OUTPUTS, max(classes, 1))
        self.map = FeatureMap()
        self._spare: list[tuple[State, int, tuple[PoolScratch, Scratch]]] = []
        """Scratch of earlier calls, with the state that it fits and the entries of a row that it has space for."""

    @property
    def rounds(self) -> int:
        """Rows learned."""
        return int(self.state.running[RUN.rounds])

    @property
    def exact(self) -> bool:
        """True while each output has an exact metric."""
        return bool(self.state.gram.shape[0] == 0)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_spare": []}

    def scratch(self, entries: int) -> tuple[PoolScratch, Scratch]:
        """Return arrays for one round of a row with so many entries."""
        made = new_scratch(self.state, entries)
        classes = 1 if self.lanes else self.state.weights.shape[2]
        f, parts = np.zeros((OUTPUTS + 1, classes)), np.zeros((5, classes))
        more = [
            np.zeros(classes),
            parts,
            np.zeros(classes),
            np.zeros(OUTPUTS + 1),
            np.zeros((OUTPUTS + 1, OUTPUTS + 1)),
        ]
        return PoolScratch(made.before, f, *more), made

    def _taken_scratch(self, entries: int) -> tuple[State, int, tuple[PoolScratch, Scratch]]:
        """Return scratch of an earlier call if it fits, else a new one; give it back by appending it to ``_spare``."""
        with contextlib.suppress(IndexError):  # threads may predict at once
            kept = self._spare.pop()
            if kept[0] is self.state and kept[1] >= entries:
                return kept
        entries = max(entries, 16)
        return self.state, entries, self.scratch(entries)

    def learn(self, slotted: Slotted, labels: Floats, weights: Floats, out: Floats) -> int:
        """Learn rows that the map has translated; returns how many."""
        indptr, slots, values = slotted
        if self.map.room >= len(self.state.places):
            self.state = states.grow(self.state, slots=self.map.room + 1)
        longest = int(np.diff(indptr).max(initial=0))
        done, count = 0, len(labels)
        self.keep_up()  # what an interrupted call has left
        while done < count:
            listed = int(self.state.running[RUN.listed])
            room = min(2 * longest + 2 * listed, longest + len(self.state.places)) + 2
            if listed + longest > len(self.state.listed):
                self.state = states.resize(self.state, centred=padded(listed + longest + listed // 8, 8))
            self._prepare(slots[indptr[done] : indptr[done + 1]], room)
            kept = self._taken_scratch(room)
            block = (indptr[done:], slots, values), labels[done:], weights[done:], out[done:]
            done += int(learn_rows(self.lanes, self.setup, self.state, self.mixture, self.pool, *kept[2], *block))
            self._spare.append(kept)
            if not self.keep_up() and self.state.running[RUN.status] == DONE:
                break
        return done

    def keep_up(self) -> bool:
        """Do what the loop has asked for after a row, and return True if it has asked for something.

        The arrays stay, for prepared calls refer to them.
        """
        if self.state.running[RUN.status] < RIDGES:
            return False
        after = upkeep.kept_up(self.state)
        after.running[RUN.status] = DONE
        with uninterrupted:
            for held, new in zip(self.state, after, strict=True):
                if new is not held:
                    held[...] = new
        return True

    def _prepare(self, row: NDArray[np.int32], room: int) -> None:
        """Do what the loop has asked for before it can learn the next row, whose slots are given."""
        status = int(self.state.running[RUN.status])
        if status == SQUARE:
            self._widen(max(int(row.max(initial=-1)) + 1, int(self.state.running[RUN.seen])) + 1)
        elif status == LONG:
            clock = self.state.table.clock
            places, buffered = (min(int(clock[at]) + room + 1, PLACES) for at in (CLOCK.seen, CLOCK.touched))
            self.state = states.grow(self.state, places=places, buffered=buffered)
            self.state = self.state._replace(table=roomy(self.state.table, places))
        self.state.running[RUN.status] = DONE

    def _widen(self, size: int) -> None:
        """Make room for exact metrics of this size, or go on with a sketch."""
        if self.fits(size):
            have = self.state.metrics.shape[2]
            self.state = states.grow(self.state, square=padded(max(size, have + have // states.GROWTH), 8))
        else:
            self.state = upkeep.sketched(self.state, self.directions)

    def set_classes(self, classes: int) -> None:
        """Make room for this many classes, whose weights start from 0."""
        seen = int(self.state.running[RUN.seen]) + 1
        if self.exact and seen > 1 and not self.fits(seen, classes):
            self.state = upkeep.sketched(self.state, self.directions)
        self.state.running[RUN.classes] = classes
        have = self.state.weights.shape[2]
        if classes > have:
            self.state = states.grow(self.state, classes=classes)
            biases, firmness = np.zeros(self.state.weights.shape[2]), np.full(self.state.weights.shape[2], PRIOR)
            biases[:have], firmness[:have] = self.pool.biases, self.pool.firmness
            self.pool = self.pool._replace(biases=biases, firmness=firmness)
        if self.exact and self.state.running[RUN.used] > 0.0:
            for e, ridge in enumerate(upkeep.ridges(self.state)):
                self.state.metrics[e, classes - 1, range(seen), range(seen)] = 1.0 / ridge
        if not self.exact:
            self.state = upkeep.with_heads(self.state)

    def fits(self, size: int, classes: int | None = None) -> bool:
        """Return True where exact metrics of this size are worth their cost, for so many classes."""
        classes = max(int(self.state.running[RUN.classes]) if classes is None else classes, 1)
        return bool(worth_exact.py_func(classes, size))

    def predict(self, slotted: Slotted, out: Floats) -> None:
        """Fill margins (rows, 1) or log-probabilities (rows, K)."""
        kept = self._taken_scratch(self._longest(slotted))
        predict_rows(self.lanes, self.setup, self.state, self.mixture, self.pool, *kept[2], slotted, out)
        self._spare.append(kept)

    def leverage(self, slotted: Slotted, out: Floats) -> None:
        """Fill the leverages of rows."""
        _, scratch = self.scratch(self._longest(slotted))
        leverage_rows(self.setup, self.state, self.mixture, scratch, slotted, out)

    def _longest(self, slotted: Slotted) -> int:
        """Return an upper bound of the entries that a loop visits for one of these rows."""
        return int(np.diff(slotted[0]).max(initial=0)) + int(self.state.running[RUN.listed]) + 2

    def linear(self) -> tuple[Floats, Floats]:
        """Return the experts' weights (features, OUTPUTS, K) in the units of the data, and constants (OUTPUTS, K)."""
        state, run = self.state, self.state.running
        seen = self.map.count + 1
        weights = upkeep.written(state)[:seen]
        constant = weights[0].copy()
        constant[FIRST:] *= math.sqrt(run[RUN.used])
        if not self.setup.intercept:
            constant[:] = 0.0
        figures = upkeep.statistics(state)[:seen]
        weights *= upkeep.units(figures, run)[:, :, None]
        own = weights * ~np.isin(np.arange(OUTPUTS), (WIDE, BOLD))[:, None]
        constant -= np.einsum("jok,j->ok", own, figures[:, scaling.CENTRE])
        return weights[1:], constant

    def bounds(self) -> tuple[float, float]:
        """Return the bounds of the predictions of one output."""
        limits: tuple[float, float] = bounds_of.py_func(self.setup, self.state.running)
        return limits

    def nbytes(self) -> dict[str, int]:
        """Memory: what is kept for the features seen; and everything."""
        used = self.arrays()
        packed = sum(used[f"state.{name}"].nbytes for name in ("figures", "weights", "energies", "places"))
        rows, own = used["table.rows"].nbytes, states.nbytes(self.mixture) + sum(part.nbytes for part in self.pool)
        return {
            "packed": packed + rows + 16 * self.map.count,
            "total": states.nbytes(self.state) + states.nbytes(self.state.table) + own + self.map.nbytes,
        }

    def arrays(self) -> Arrays:
        """Return the arrays of a model file."""
        run, table = self.state.running, self.state.table
        used = {"slots": self.map.count + 1, "centred": int(run[RUN.listed]),
                "places": max(int(table.clock[CLOCK.seen]), 1),
                "buffered": int(table.clock[CLOCK.touched])}  # fmt: skip
        if self.exact:
            used["square"] = int(run[RUN.seen]) + 1 if self.state.metrics.shape[2] else 0
        packed = {"features": self.map.features, **states.pack(self.state, "state", **used)}
        packed |= states.pack(table, "table")
        return packed | (states.pack(self.mixture, "mixture") if self.lanes else named("pool", self.pool._asdict()))

    def restore(self, arrays: Arrays, width: int) -> None:
        """Fill a fresh learner from what ``arrays`` returned, or refuse with a ModelFileError."""
        features = take(arrays, "features", np.int64, (None,))
        self.map.refill(features, width, False)
        free = ("slots", "centred", "places", "width", "square", "classes", "buffered", "since")
        self.state = states.unpack(self.state, arrays, "state", free=free)
        width, since = len(arrays["state.gram"]), arrays["state.buffer"].shape[1]
        classes, centred = max(arrays["state.weights"].shape[2], 1), len(arrays["state.listed"])
        spare = {"width": width, "since": since, "classes": classes, "centred": centred}
        self.state = states.resize(self.state, **spare)  # no spare ones
        _, k, entry = take(arrays, "table.running", np.float64, (None, None, None)).shape
        empty = new_table(k, k, self.state.weights.dtype, further_heads.py_func(k, entry))
        table = states.unpack(empty, arrays, "table", free=("slots", "log"))
        self.state = self.state._replace(table=roomy(table, len(self.state.slot_of)) if width else table)
        if self.lanes:
            self.mixture = states.unpack(self.mixture, arrays, "mixture")
        else:
            self.pool = Pool(**{
                name: take(arrays, f"pool.{name}", np.float64, shape.shape)
                for name, shape in Pool.empty(OUTPUTS, classes)._asdict().items()
            })  # fmt: skip
        self._check(features.size)
        square = self.state.metrics.shape[2]
        self.state = states.resize(self.state, square=padded(square, 8), centred=padded(centred, 8))

    def _check(self, seen: int) -> None:
        """Refuse a state in which a compiled loop would read what is not there, or what no rows can have led to."""
        state, run, have = self.state, self.state.running, states.sizes(self.state)
        counts = run[[RUN.rounds, RUN.seen, RUN.listed, RUN.rows, RUN.classes]]
        require(bool((counts == np.floor(counts)).all() and (counts >= 0).all()), "its counts are impossible")
        require(run[RUN.classes] <= have["classes"], "it counts more classes than it has", "running")
        require(run[RUN.seen] == seen and have["slots"] > seen, "features are not as many as it counts", "running")
        width, table = have["width"], state.table
        require(run[RUN.status] < RIDGES or not width, "its sketch waits for what exact metrics need", "running")
        places, touched = (int(table.clock[at]) for at in (CLOCK.seen, CLOCK.touched))
        require(width in (0, 2 * self.directions), "its sketch has another size")
        require(0 <= run[RUN.rows] < max(width, 1), "its sketch has impossible counts")
        listed = state.listed
        require(run[RUN.listed] == len(listed), "its list has another length")
        require_within(listed, 1, seen, "state.listed")
        require(np.unique(listed).size == len(listed), "its list has a feature twice")
        order = np.zeros(have["slots"])
        order[listed] = np.arange(1, len(listed) + 1)
        require(np.array_equal(state.figures[:, scaling.PLACE], order), "its list is of other features")
        require_within(run[[RUN.fade, RUN.thin]], 1e-13, 1.0, "state.running")
        require_within(run[RUN.heaviest], 1.0, 1e51, "state.running")
        require_within(run[RUN.common], -750.0, 750.0, "state.running")  # the logarithm of a number
        require_within(run[[RUN.norm, RUN.used, RUN.wide]], 0.0, 1e100, "state.running")
        counts = [scaling.MAGNITUDE, scaling.VALUES, scaling.SQUARE, scaling.VISITS, scaling.CHANGES]
        require_within(state.centred[counts], 0.0, 1e301, "state.centred")
        if width:
            require(1 <= places <= have["places"] and have["square"] == 0, "its sketch has impossible counts")
            _, kept, entry = table.running.shape
            require(kept == width // 2 - 1, "its sketch has another size")
            heads = further_heads.py_func(kept, entry) // NEWTON
            require(run[RUN.classes] <= max(heads, 1) <= have["classes"] + 1, "its sketch is of other classes")
            require(have["since"] == padded(width // 2 + 1, 8), "its buffer has another size")
            in_buffer = table.rows[:places, IN_BUFFER].astype(np.int64)
            filled = np.flatnonzero(in_buffer)
            require(np.array_equal(np.sort(in_buffer[filled]), np.arange(1, touched + 1)), "its buffer is another's")
            require(have["buffered"] >= touched, "its buffer is too small")
            table.touched[in_buffer[filled] - 1] = filled
            require_within(state.places, -1, places - 1, "state.places")
            require_within(state.slot_of[:places], 0, seen, "state.slot_of")
        else:
            require(have["square"] > seen or seen == 0, "its metrics are too small")
            require(places == touched == table.running.shape[1] == 0, "it has columns without a sketch")


class AutoLearner(Learner):
    """Two Newton experts over one metric, two AdaGrads and their mixture; see the package's page.

    Cost of a round: O(d²) with at most 259 features, O(m) per non-zero plus O(m²) beyond.

    >>> import numpy as np, onsketch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5)) * [1e-6, 1e6, 1.0, 3.0, 100.0]
    >>> y = np.sign(X @ [1e6, 1e-6, -1.0, 0.3, 0.0] + 1.0)
    >>> model = onsketch.learner("auto", loss="logistic")
    >>> bool(np.mean(np.sign(model.learn(X, y)) != y) < 0.03)
    True
    """

    share_names = EXPERT_NAMES

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        clip = options.clip
        setup = Setup(
            loss=self._loss.form,
            signs=self._loss.labels == "sign",
            real=self._loss.labels == "real",
            counts=self._loss.labels == "count",
            intercept=bool(options.fit_intercept),
            bounded=clip == "labels",
            clip=clip if isinstance(clip, float) else math.inf,
            forget=float(options.forget),
            largest=1e100 if options.dtype == "float64" else 1e15,
        )
        self._core = Core(setup, ONE, options.sketch_size, 1, options.dtype)

    @property
    def rounds(self) -> int:
        """Rounds played."""
        return self._core.rounds

    @property
    def shares(self) -> Floats:
        """The coefficients of the experts in the mixture, in the order of ``EXPERT_NAMES``."""
        return np.array(self._core.mixture.mix[:OUTPUTS])

    def shared(self, rows: Rows, *, learn: bool) -> Rows:
        """The rows with their slots."""
        return self._core.map.shared(rows, learn=learn)

    def learning_row(self, row: OneRow) -> RowPlan:
        """As ``_learn``, for a prepared row."""
        return self._row_plan(row, learn=True)

    def predicting_row(self, row: OneRow) -> RowPlan:
        """As ``_predict``, for a prepared row."""
        return self._row_plan(row, learn=False)

    def _row_plan(self, row: OneRow, *, learn: bool) -> RowPlan:
        core, state, run = self._core, self._core.state, self._core.state.running
        slots = len(state.places)
        slotted, steps, same = row.translated(core.map, False, slots - 1 if learn else None)
        listed = min(2 * int(run[RUN.listed]) + 64, slots)
        pooled, scratch = core.scratch(slotted[1].size + listed + 2)
        parts = core.lanes, core.setup, state, core.mixture, core.pool, pooled, scratch, slotted
        out = row.out.reshape(1, 1)
        if learn:
            steps.append(Step(Prepared(learn_rows, *parts, row.label, row.weight, out), 1))
        else:
            steps.append(Step(Prepared(predict_rows, *parts, out)))
        return RowPlan(
            steps,
            lambda: core.state is state and run[RUN.listed] <= listed and same(),
            settle=core.keep_up,
        )

    def _learn(self, rows: Rows, labels: Floats, weights: Floats, out: Floats) -> int:
        core = self._core
        try:
            return core.learn(core.map.translate(rows, learn=True), labels, weights, out.reshape(-1, 1))
        finally:  # features of rows that were not learned have not been seen
            core.map.forget(int(core.state.running[RUN.seen]))

    def _predict(self, rows: Rows) -> Floats:
        out = np.empty((rows.count, 1))
        self._core.predict(self._core.map.translate(rows, learn=False), out)
        return out[:, 0]

    def _linear(self) -> Linear:
        return Linear(*self._coefficients(), *self._core.bounds())

    def _leverage(self, rows: Rows) -> Floats:
        if self.rounds == 0:
            raise OptionError("auto: leverage needs a learned row, since features have no scale before.")
        out = np.empty(rows.count)
        self._core.leverage(self._core.map.translate(rows, learn=False), out)
        return out

    def deviation(self, X: Any) -> Floats:
        """The standard deviation of what the labels of these rows may be: noise, and what the learner does not know.

        ``√(σ²·(1 + 2·leverage))`` with σ² the mean squared error of the predictions made so far: what Bayesian linear
        regression says where the noise is Gaussian and of one size. For the squared loss only.
        """
        if self.loss != "squared":
            raise OptionError(f"auto: a standard deviation is known for the squared loss, not for {self.loss}.")
        leverages = self.leverage(X)
        with self.lock.reading:
            run = self._core.state.running
            noise = float(run[RUN.squares]) / max(float(run[RUN.weight]), 1e-290)
        return np.asarray(np.sqrt(noise * (1.0 + 2.0 * leverages)))

    @property
    def ridge(self) -> float:
        """The ridge of the first Newton expert, for rows in scales of their own."""
        return upkeep.ridges(self._core.state)[0]

    @property
    def escaped(self) -> float:
        """Σρ: what the sketch has shrunk away so far."""
        return float(self._core.state.running[RUN.lost])

    def spectrum(self) -> Floats:
        """The eigenvalues of the sum of curvature rows in scales of their own, or of its sketch, descending."""
        return self.directions()[0]

    def directions(self) -> tuple[Floats, NDArray[np.int64], Floats]:
        """The main directions of the sum of curvature rows, at most ``sketch_size``; see ``Learner.directions``."""
        core, run = self._core, self._core.state.running
        values, vectors = spectrum(upkeep.curvature_rows(core.state))
        kept = self.options.sketch_size
        features = np.append(INTERCEPT, core.map.features)
        return values[:kept] * float(run[RUN.fade]), features, vectors[:kept]

    def _coefficients(self) -> tuple[NDArray[np.int64], Floats]:
        core = self._core
        weights, constant = core.linear()
        mix, run = core.mixture.mix, core.state.running
        unit = float(run[RUN.unit]) if core.setup.real else 1.0
        values = weights[:, :, 0] @ mix[:OUTPUTS]
        if not core.setup.intercept:
            return core.map.features.copy(), values
        bias = float(run[RUN.centre] + mix[OUTPUTS] * unit + mix[:OUTPUTS] @ constant[:, 0])
        return np.append(core.map.features, INTERCEPT), np.append(values, bias)

    def state_bytes(self) -> dict[str, int]:
        """Memory: what is kept for the features seen; and everything."""
        return self._core.nbytes()

    def _merge(self, other: Any, base: Any) -> None:
        start = type(self)(self.method, self.options) if base is None else base
        if other.rounds == start.rounds:
            return
        if self.rounds == start.rounds:
            self._core = other.fork()._core
        else:
            merge(self._core, other._core, start._core)

    @classmethod
    def room(cls, method: Method, options: Options) -> int:
        """Bytes that a fresh one takes."""
        return 8 * 64 * options.sketch_size**2

    def _arrays(self) -> Arrays:
        return self._core.arrays()

    def _restore(self, arrays: Arrays) -> None:
        self._core.restore(arrays, self._width)
