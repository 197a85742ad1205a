"""Learners whose summary is a sketch with a sparse form: a packed table, a small sketch, and the driver over both."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import Arrays
from onsketch.core.errors import OptionError
from onsketch.jit.calling import Bound, Prepared
from onsketch.jit.chain import Step
from onsketch.learners.first_order.steps import row_products
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Rows, unseen_squares
from onsketch.learners.setup import make_setup
from onsketch.learners.single import OneRow, RowPlan
from onsketch.learners.sketched.driver import FIRST_DIAGONAL, learn_rows
from onsketch.learners.sketched.packed import CLOCK, COLUMN, Table, new_table, roomy
from onsketch.learners.sketched.random_projection import Projection
from onsketch.learners.sketched.reading import fill_rows, fill_weights, leverage_rows, predict_rows
from onsketch.learners.sketched.state import COUNT, NUMBER, State
from onsketch.learners.sparse import SparseLearner


class SketchedLearner(SparseLearner):
    """w = base·head + Sᵀa, with head and S packed per feature; see driver.py for a round and packed.py for the table.

    Cost of a round: O(m) per non-zero, plus O(m²) (Newton) or O(m³) (AdaGrad) for the small algebra, independent of d.
    """

    _table: Annotated[Table, state.Part(free=("slots", "log"))]
    _sketch: Annotated[State, state.Part()]

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        self._begin(options.sketch_size)

    def _begin(self, size: int) -> None:
        """Set the state of no rows, with a sketch of this size."""
        options, form = replace(self.options, sketch_size=size), self.method.kind.packed_form()
        kept, capacity = form.shape(size, options.doubling) if size else (0, 0)
        self._setup = make_setup(self.method, options, capacity=capacity)
        self._sketch = (form if size else Projection).start(capacity, kept, self._setup.ridge)
        if options.update == "dual":
            self._sketch.numbers[NUMBER.base] = 0.0  # no gradients yet
        self._spare = state.copy(self._sketch)
        if not form.bounded:
            self._setup = self._setup._replace(safe=0.0)
        self._logs = self._sketch.logs
        self._table = new_table(capacity, kept if self._logs else 0, np.dtype(options.dtype))
        self._learn_rows, self._predict_rows = Bound(learn_rows), Bound(predict_rows)

    @property
    def _rows(self) -> NDArray[Any]:
        return self._table.rows

    @property
    def rounds(self) -> int:
        """Rounds played."""
        return int(self._table.clock[CLOCK.rounds])

    @property
    def ridge(self) -> float:
        """The ridge as it is now: as given or raised with the rows, and grown under RFD."""
        return float(self._sketch.numbers[NUMBER.ridge])

    @property
    def escaped(self) -> float:
        """Σρ: what the sketch has shrunk away so far."""
        return float(self._sketch.numbers[NUMBER.escaped])

    def _learn(
        self, rows: Rows, labels: NDArray[np.float64], weights: NDArray[np.float64], out: NDArray[np.float64]
    ) -> int:
        intercept = self.options.fit_intercept
        indptr, slots, values = self._map.admit(rows, self._make_room, intercept=intercept, once=True)
        parts = self._setup, self._table, self._sketch, self._spare
        x = np.empty_like(values) if self.options.diagonal else values
        done = int(self._learn_rows(parts, indptr, slots, values, x, labels, weights, out))
        if done < rows.count:  # the features of rows that were not learned have not been seen
            self._map.forget(int(self._table.clock[CLOCK.seen]))
        return done

    def _make_room(self) -> None:
        """A packed row for each feature of the map, whose list of them the table borrows."""
        features = self._map.parts[2]
        if self._map.count > len(self._table.rows) or self._table.features is not features:
            self._table = roomy(self._table, self._map.room)._replace(features=features)
            self._predict_rows.forget()

    def _shift(self, change: NDArray[np.float64]) -> None:
        if self.options.diagonal:
            change = change * np.sqrt(FIRST_DIAGONAL + self._rows[: self._map.count, COLUMN.diagonal])
        super()._shift(change)

    def learning_row(self, row: OneRow) -> RowPlan:
        """As ``_learn``, for a prepared row."""
        table, state = self._table, (self._setup, self._table, self._sketch, self._spare)
        slotted, steps, same = row.translated(self._map, self.options.fit_intercept, len(table.rows))
        x = np.zeros_like(slotted[2]) if self.options.diagonal else slotted[2]
        learn = Prepared(learn_rows, *state, *slotted, x, row.label, row.weight, row.out)
        return RowPlan([*steps, Step(learn, 1)], lambda: self._table is table and same())

    def predicting_row(self, row: OneRow) -> RowPlan:
        """As ``_predict``, for a prepared row."""
        table, state = self._table, (self._setup, self._table, self._sketch)
        slotted, steps, same = row.translated(self._map, self.options.fit_intercept)
        predict = Prepared(predict_rows, *state, *slotted, self.options.average, row.out)
        return RowPlan([*steps, Step(predict)], lambda: self._table is table and same())

    def _predict(self, rows: Rows) -> NDArray[np.float64]:
        indptr, slots, values = self._translated(rows)
        out = np.empty(rows.count)
        if values.size > self._map.count:  # cheaper to write every weight out once than to read one per non-zero
            row_products(indptr, self._coefficients()[1][slots], values, out)
            clipped: NDArray[np.float64] = np.clip(out, -self._setup.clip, self._setup.clip)
            return clipped
        state = self._setup, self._table, self._sketch
        self._predict_rows(state, indptr, slots, values, self.options.average, out)
        return out

    def _leverage(self, rows: Rows) -> NDArray[np.float64]:
        indptr, slots, values = self._translated(rows)
        out = np.empty(rows.count)
        extra = np.empty(rows.count)  # features never seen count with the ridge alone
        unseen_squares(rows.indptr, rows.values, indptr, values, extra)
        if self.options.fit_intercept and not self._map.count:
            extra += 1.0
        if self.options.diagonal:
            extra /= FIRST_DIAGONAL
        sketch = state.copy(self._sketch)  # with its own scratch, for concurrent threads
        leverage_rows(self._setup, self._table, sketch, indptr, slots, values, extra, out)
        return out

    def _coefficients(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        weights = np.empty(self._map.count)
        fill_weights(self._setup, self._table, self._sketch, self.options.average, weights)
        return self._map.features.copy(), weights

    def spectrum(self) -> NDArray[np.float64]:
        """The eigenvalues of the sketch SᵀS (Oja's and Ada-FFD's own estimates), descending."""
        return np.sort(np.maximum(self._sketch.energies(), 0.0))[::-1]

    def directions(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        """The main directions of the sketch; see ``Learner.directions``."""
        from onsketch.learners.merging import spectrum

        whole = np.empty((self._map.count, self._table.rows.shape[1]))
        fill_rows(self._table, whole)
        n = int(self._sketch.counts[COUNT.rows])
        rows = np.ascontiguousarray(whole[:, COLUMN.sketch : COLUMN.sketch + n].T)
        values, vectors = spectrum(self._sketch.true_rows(rows))
        return values, self._map.features.copy(), vectors

    def _merge(self, other: Any, base: Any) -> None:
        from onsketch.learners.sketched.merging import merge_sketched

        if self.options.diagonal:
            raise OptionError(
                "merge: with diagonal=True the two learners live in different coordinates.", diagonal=True
            )
        merge_sketched(self, other, type(self)(self.method, self.options) if base is None else base)

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self._make_room()
        self._sketch.check_sketch(self._spare, self._setup)

    @classmethod
    def room(cls, method: Method, options: Options) -> int:
        """Return the bytes of a new learner."""
        logged = 224 if options.sketch_size and method.kind.packed_form().logs else 0
        return 8 * options.sketch_size**2 * (logged + 64)
