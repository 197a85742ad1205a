"""Learners that keep a few numbers per feature: OGD, AdaGrad, diagonal Newton, Adam, FTRL-proximal and AROW.

Their state is one packed table with a row per feature seen, and a round costs O(non-zeros) (Adam alone is
dense, as published). What a round does is in ``steps``, ``lazy`` and
``rules``; this file chooses between them, reads weights and merges.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import Arrays, require, require_within
from onsketch.core.errors import OptionError
from onsketch.core.geometry import ADAGRAD, geometry_of
from onsketch.core.tolerances import LARGEST
from onsketch.jit.calling import Bound, Prepared
from onsketch.jit.chain import Step
from onsketch.learners.features import INTERCEPT
from onsketch.learners.first_order.lazy import learn_lazily, longest_delay, read_lazily, settle
from onsketch.learners.first_order.merge import merged
from onsketch.learners.first_order.rules import ADAM, ArowTerms, learn_adam, read_adam
from onsketch.learners.first_order.steps import CELL, TIMER, State, Terms, learn_steps, read_steps, row_products
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Rows, unseen_squares
from onsketch.learners.setup import fisher_weight, make_setup
from onsketch.learners.single import OneRow, RowPlan
from onsketch.learners.sparse import SparseLearner

Floats = NDArray[np.float64]

DENSE_LIMIT = 1_000_000
"""Most features for Adam as published, which moves all of them in every round."""


LOOPS: dict[str, Any] = {"adam": learn_adam, "lazy-adam": learn_adam, "ftrl": learn_steps, "arow": learn_steps}
"""The loops of the rules that are no mirror descent or dual averaging in a metric."""


class FirstOrderLearner(SparseLearner):
    """A learner with a few numbers per feature; see the modules imported above for the formulas.

    ====================  ======================  ============================================================
    method                numbers per feature     cost of a round
    ====================  ======================  ============================================================
    steps                 2: w (or ḡ) and E       O(non-zeros)
    … with l1, l2, box    4: and Σw, last round   O(non-zeros); O(features seen) for OGD with l1 or l2
    … with average        4: the same             the same; O(features seen) for dual averaging
    adam                  4: w, m, v, Σw          O(features seen): every feature moves in every round
    lazy-adam             4: the same             O(non-zeros)
    ftrl                  2: z, n                 O(non-zeros)
    arow                  2: w, E; 4 to average   O(non-zeros)
    ====================  ======================  ============================================================

    Composite terms cost memory under mirror descent only; dual averaging computes them when a weight is read.
    Either way the weights are those of the dense algorithm, in which every round shrinks every weight.
    """

    _state: Annotated[State, state.Part(free=("slots",))]

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        losses = method.moves.losses
        if losses and options.loss not in losses:
            raise OptionError(
                f"{method.name}: loss={options.loss!r}; it takes {' and '.join(losses)} only.", loss=options.loss
            )
        low, high = options.box or (-math.inf, math.inf)
        if not low <= 0.0 <= high:
            raise OptionError(
                f"box={options.box!r}: it must contain 0, the weight of features not seen yet.", box=options.box
            )
        self._setup = make_setup(method, options)
        geometry = method.geometry
        if method.moves.sums:  # FTRL-proximal is a form of dual averaging, see ``steps``
            self._setup, geometry = self._setup._replace(dual=True, geometry=ADAGRAD), "adagrad"
        ridge = 1.0 if options.ridge is None else options.ridge
        largest, most = (LARGEST, LARGEST**2) if options.dtype == "float64" else (1e30, 1e38)
        self._terms = (ArowTerms if method.moves.unit_metric else Terms)(
            ridge,
            *_coefficients(geometry, ridge),
            centred=method.moves.sums,
            l1=options.l1,
            l2=options.l2,
            low=low,
            high=high,
            beta1=options.betas[0],
            beta2=options.betas[1],
            largest=largest,
            most=most,
            reach=largest * min(1.0, ridge / self._setup.step),
        )
        composite = bool(options.l1 or options.l2 or options.box) and not self._setup.dual
        self._lazy = not method.moves.moments and (options.average or composite)
        wide = self._lazy or method.moves.moments
        self._state = state.new(State, slots=0, width=4 if wide else 2, real=options.dtype)
        self._learn_rows = Bound(self._loop[0])

    @property
    def rounds(self) -> int:
        """Rounds played: rows learned."""
        return int(self._state.clock[TIMER.rounds])

    @property
    def _rows(self) -> NDArray[Any]:
        return self._state.table

    # Learning ---------------------------------------------------------------------------------------------

    def _learn(self, rows: Rows, labels: Floats, weights: Floats, out: Floats) -> int:
        known = self._map.count
        slotted = self._map.admit(rows, self._make_room, intercept=self.options.fit_intercept)
        done = self._learn_rows(self._loop[1], *slotted, labels, weights, out)
        if done < rows.count:
            self._map.keep_learned(known, slotted, done)
        return int(done)

    def _shift(self, change: Floats) -> None:
        table = self._rows[: self._map.count]
        if self._lazy:  # what the rounds so far shrink is the weight before
            settle(self._setup, self._terms, self._state.clock, table)
        if self.method.moves.sums:  # the weight is −z over a metric, after z has been shrunk by l1
            weights = self._coefficients()[1] + change
            metric = (self._terms.ridge + np.sqrt(table[:, CELL.energy])) / self._setup.step + self._terms.l2
            sums = -(weights * metric + np.sign(weights) * self._terms.l1)
            change = np.where(change == 0.0, 0.0, sums - table[:, CELL.head])
        super()._shift(change)

    def _make_room(self) -> None:
        """Make a packed row for each feature of the map."""
        if self.method.moves.every_feature and self._map.count > DENSE_LIMIT:
            raise OptionError(
                f"adam moves every feature in every round, and this stream has more than {DENSE_LIMIT:,}; "
                "use lazy-adam, which moves those of the row only."
            )
        if self._map.room > len(self._state.table):
            self._state = state.grow(self._state, slots=self._map.room)

    @property
    def _loop(self) -> tuple[Any, tuple[Any, ...]]:
        """The loop that learns rows, and its first arguments."""
        kept, fixed = self._state, (self._setup, self._terms)
        if self._lazy:
            return learn_lazily, (*fixed, kept.clock, kept.table)
        if self.method.moves.moments:
            return LOOPS[self.method.rule], (*fixed, not self.method.moves.every_feature, kept.clock, kept.table)
        return LOOPS.get(self.method.rule, learn_steps), (*fixed, kept.clock, kept.fade, kept.table)

    @property
    def _reading(self) -> tuple[Any, tuple[Any, ...]]:
        """The loop that reads weights, means of iterates with ``average``, and its first arguments."""
        kept, fixed = self._state, (self._setup, self._terms)
        if self._lazy:
            return read_lazily, (*fixed, kept.clock, kept.table)
        if self.method.moves.moments:
            return read_adam, (*fixed, not self.method.moves.every_feature, kept.clock, kept.table)
        return read_steps, (*fixed, kept.clock, kept.table)

    def learning_row(self, row: OneRow) -> RowPlan:
        """As ``_learn``, for a prepared row."""
        table, (loop, state) = self._state.table, self._loop
        room = min(len(table), DENSE_LIMIT) if self.method.moves.every_feature else len(table)
        slotted, steps, same = row.translated(self._map, self.options.fit_intercept, room)
        learn = Prepared(loop, *state, *slotted, row.label, row.weight, row.out)
        return RowPlan([*steps, Step(learn, 1)], lambda: self._state.table is table and same())

    def predicting_row(self, row: OneRow) -> RowPlan:
        """As ``_predict``, for a prepared row."""
        table, (read, state), clip = self._state.table, self._reading, self._setup.clip
        (indptr, slots, values), steps, same = row.translated(self._map, self.options.fit_intercept)
        weights = np.zeros(slots.size)
        steps.append(Step(Prepared(read, *state, indptr, slots, weights)))
        steps.append(Step(Prepared(row_products, indptr, weights, values, row.out)))
        finish = None if clip == math.inf else lambda margin: min(max(margin, -clip), clip)
        return RowPlan(steps, lambda: self._state.table is table and same(), finish)

    # Reading ----------------------------------------------------------------------------------------------

    def _weights_at(self, indptr: NDArray[np.int64], slots: NDArray[np.int32]) -> Floats:
        """The weights of the slots of these rows, means of iterates with ``average``."""
        out = np.empty(slots.size)
        read, state = self._reading
        read(*state, indptr, slots, out)
        return out

    @property
    def _sums_rest(self) -> bool:
        """True if sums of iterates are kept less rounds·weight, so that those of absent features do not change."""
        moves = self.method.moves
        return self.options.average and moves.moments and not moves.every_feature

    def _predict(self, rows: Rows) -> Floats:
        indptr, slots, values = self._translated(rows)
        out = np.empty(rows.count)
        row_products(indptr, self._weights_at(indptr, slots), values, out)
        np.maximum(out, -self._setup.clip, out=out)
        return np.minimum(out, self._setup.clip, out=out)  # a fifth of the time of np.clip

    def _leverage(self, rows: Rows) -> Floats:
        """x·H⁻¹x: AROW's own x·Σx, and for diagonal Newton with H = ridge + E."""
        indptr, slots, values = self._map.translate(rows, learn=False)
        flat = 1.0 if self.method.moves.unit_metric else self._terms.ridge
        out = np.empty(rows.count)
        row_products(indptr, values / (flat + self._state.fade[0] * self._state.table[slots, CELL.energy]), values, out)
        unseen = np.empty(rows.count)
        unseen_squares(rows.indptr, rows.values, indptr, values, unseen)
        if self.options.fit_intercept:
            constant = self._state.table[np.flatnonzero(self._map.features == INTERCEPT), CELL.energy].sum()
            out += 1.0 / (flat + float(self._state.fade[0] * constant))
        return out + unseen / flat

    def _coefficients(self) -> tuple[NDArray[np.int64], Floats]:
        count = self._map.count
        return self._map.features.copy(), self._weights_at(np.array([0, count]), np.arange(count, dtype=np.int32))

    # Merging ----------------------------------------------------------------------------------------------

    def _up_to_date(self) -> Floats:
        """Return a copy of the table with all deferred updates applied and complete sums of iterates."""
        table: NDArray[Any] = self._state.table[: self._map.count].copy()
        if self._lazy:
            settle(self._setup, self._terms, self._state.clock.copy(), table)
        whole = table.astype(np.float64)
        if self._sums_rest:
            whole[:, ADAM.sum] += self.rounds * whole[:, CELL.head]
        return whole

    def _merge(self, other: Any, base: Any) -> None:
        """By precision, feature by feature; see ``merge`` for the rule of each method."""
        parts = [self, other, FirstOrderLearner(self.method, self.options) if base is None else base]
        tables = [part._up_to_date() for part in parts]
        slots = [self._map.add(part._map.features) for part in parts]
        same = np.zeros((3, self._map.count, self._state.table.shape[1]))
        for block, table, at in zip(same, tables, slots, strict=True):
            block[at] = table
        rounds = [part.rounds for part in parts]
        step = self.method.steps
        worth = [fisher_weight(self._setup, rounds[2], stop) if step else 1.0 for stop in rounds[:2]]
        table = merged(self.method, self._terms, self._setup.dual, same, rounds, worth)
        self._state.clock[[TIMER.rounds, TIMER.start]] = rounds[0] + rounds[1] - rounds[2]
        self._state.clock[TIMER.seen] = self._map.count
        if self._sums_rest:
            table[:, ADAM.sum] -= self.rounds * table[:, CELL.head]
        self._state = state.grow(self._state, slots=self._map.count)
        self._state.table[: self._map.count] = table

    # Saving -----------------------------------------------------------------------------------------------

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        count = self._map.count
        require(len(arrays["state.table"]) == count, "its features are others", "state.table")
        behind = int(self._state.clock[TIMER.rounds] - self._state.clock[TIMER.start])
        possible = self._state.clock[TIMER.seen] <= count and behind >= 0
        allowed = longest_delay.py_func(self._setup, self._terms) if self._lazy else behind + 1
        require(possible and behind < allowed, "its clock is impossible", "state.clock")
        if self._lazy:
            stamps = self._state.table[:, CELL.stamp]
            require_within(stamps, 0, float(behind), "state.table")
            require((stamps == np.floor(stamps)).all(), "a feature was last met between two rounds", "state.table")


def _coefficients(geometry: str, ridge: float) -> tuple[float, float, float, float]:
    """Code of the metric of a feature as a function of its energy; not used by registered geometries."""
    coefficients = geometry_of(geometry).coefficients
    return (ridge, 0.0, 0.0, 0.0) if coefficients is None else coefficients(ridge)
