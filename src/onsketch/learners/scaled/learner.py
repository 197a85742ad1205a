"""A learner before which rows and labels are put in scales of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import Arrays, named, require, under
from onsketch.core.errors import OptionError
from onsketch.core.scaling import STATISTICS
from onsketch.learners.base import Learner
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Linear, Rows
from onsketch.learners.scaled.stage import Stage
from onsketch.learners.single import OneRow, RowPlan
from onsketch.learners.sparse import SparseLearner

Floats = NDArray[np.float64]


class ScaledLearner(Learner):
    """Any linear learner, with its features, rows and labels in scales of their own (see ``law.py``).

    The learner sees rows of length 1 and labels of size 1; ``weights``, ``intercept`` and predictions are in the units
    of the data. Cost of a round: O(1) more per non-zero and centred feature. Memory: ``STATISTICS`` numbers per
    feature, and the first rows until scales have settled.

    >>> import onsketch
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) * [1e-6, 1.0, 1e6]
    >>> y = X @ [3e6, 2.0, 1e-6]
    >>> model = onsketch.learner("ons", scaling="magnitude", summary="curvature", clip=None, ridge=0.01)
    >>> bool(np.mean(np.abs(model.learn(X, y) - y)[400:]) < 0.1 * np.mean(np.abs(y)))
    True
    """

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        self._real = self._loss.labels == "real"
        self._clip = float(options.clip) if self._real and isinstance(options.clip, float) else np.inf
        self._inner = self._plain()
        self._stage = Stage(options.fit_intercept, int(self._real), shared=isinstance(self._inner, SparseLearner))
        self._join()

    def _plain(self) -> Learner:
        """Return a new learner of scaled rows."""
        from onsketch.learners.build import build_plain

        clip = None if self._real else self.options.clip  # a bound in the units of the labels, not of their scale
        return build_plain(self.method, replace(self.options, scaling="none", clip=clip))

    def _join(self) -> None:
        """Let the learner have the stage's map of features, and the unit of labels."""
        if isinstance(self._inner, SparseLearner) and self._stage.shared:
            self._inner._map = self._stage.map
            self._inner._make_room()
        if self._real and self._loss.measured:
            self._inner._divide_labels(float(self._stage.units[1][0]))

    @property
    def rounds(self) -> int:
        """Rounds played: rows learned."""
        return self._inner.rounds

    def state_bytes(self) -> dict[str, int]:
        """Memory: ``packed`` for the features seen, ``total`` for everything held."""
        inner = self._inner.state_bytes()
        return {"packed": inner["packed"] + 8 * STATISTICS * self._stage.map.count,
                "total": inner["total"] + state.nbytes(self._stage)}  # fmt: skip

    def spectrum(self) -> Floats:
        """The eigenvalues of what the learner of scaled rows has absorbed."""
        return self._inner.spectrum()

    def directions(self) -> tuple[Floats, NDArray[np.int64], Floats]:
        """The main directions of the learner of scaled rows."""
        return self._inner.directions()

    # Learning ---------------------------------------------------------------------------------------------

    def _learn(self, rows: Rows, labels: Floats, weights: Floats, out: Floats) -> int:
        done = self._stage.learn(self, rows, labels[:, None], weights, out[:, None])
        np.clip(out[:done], -self._clip, self._clip, out=out[:done])
        return done

    def _play(self, rows: Rows, y: Floats, weights: Floats, out: Floats) -> int:
        self._inner._width = self._width
        return self._inner._learn(rows, y[:, 0], weights, out[:, 0])

    def _restart(self) -> None:
        self._inner = self._plain()
        self._join()

    @property
    def _rewritable(self) -> bool:
        dense = not isinstance(self._inner, SparseLearner)
        computed = self.options.update == "dual" or self.options.average or (dense and self.options.diagonal)
        return not (self.method.kernel or computed)

    def _inside(self) -> tuple[NDArray[np.int64], Floats]:
        features, weights = self._inner._coefficients()
        return features, weights[:, None]

    def _shift(self, change: Floats) -> None:
        self._inner._shift(change[:, 0])
        self._join()

    def learning_row(self, row: OneRow) -> RowPlan | None:
        """As ``_learn``, for a prepared row."""
        return _plan(self, row, "learning_row")

    def predicting_row(self, row: OneRow) -> RowPlan | None:
        """As ``_predict``, for a prepared row."""
        return _plan(self, row, "predicting_row")

    # Reading ----------------------------------------------------------------------------------------------

    def _in_units(self, margins: Any) -> Any:
        """Return margins of the learner of scaled rows in the units of the labels, clipped."""
        return np.clip(self._stage.in_units(margins), -self._clip, self._clip)

    def _predict(self, rows: Rows) -> Floats:
        margins: Floats = self._in_units(self._inner._predict(self._stage.scaled(rows, shared=self._stage.shared)))
        return margins

    def _linear(self) -> Linear | None:
        inner = self._inner._linear()
        if inner is None:
            return None
        low, high = (-self._clip, self._clip) if self._real else (inner.low, inner.high)
        features, weights = self._coefficients()
        return Linear(features, weights, low, high, self._stage.bounds(features))

    def _leverage(self, rows: Rows) -> Floats:
        return self._inner._leverage(self._stage.scaled(rows, shared=False))

    def _coefficients(self) -> tuple[NDArray[np.int64], Floats]:
        features, weights = self._inside()
        return features, self._stage.unscaled(features, weights)[:, 0]

    # Merging and saving -----------------------------------------------------------------------------------

    def hold_scales(self, measured: ScaledLearner) -> None:
        """Take the scales of a learner that has seen some rows, and keep them: learners with the same can be merged."""
        self._stage.hold(measured._stage)
        self._width = max(self._width, measured._width)  # centred features are part of every row
        self._restart()

    def _merge(self, other: Any, base: Any) -> None:
        if not self._stage.take_in(other._stage, None if base is None else base._stage):
            raise OptionError(f"merge: {self.method.name} with scaling={self.options.scaling!r} has units of its own; "
                              "learners to be merged need scaling='none', or a cluster, which decides scales once.",
                              scaling=(self.options.scaling, "none"))  # fmt: skip
        self._inner._width = max(self._width, other._width)
        self._inner._merge(other._inner, None if base is None else base._inner)

    def _arrays(self) -> Arrays:
        inner = self._inner._arrays()
        if self._stage.shared:
            del inner["features"]
        return named("scaling", self._stage.arrays()) | named("learner", inner)

    @classmethod
    def room(cls, method: Method, options: Options) -> int:
        """Bytes that a fresh one takes: those of the learner within."""
        from onsketch.learners.build import plain_class_of

        return plain_class_of(method, options).room(method, options)

    def _restore(self, arrays: Arrays) -> None:
        self._stage.restore(under("scaling", arrays))
        self._inner._width = self._width
        self._inner._restore({"features": arrays["scaling.features"], **under("learner", arrays)})
        require(self._inner.rounds == self._stage.rounds, "its scales are of other rows", "scaling.law.clock")
        self._join()


def _plan(learner: ScaledLearner, row: OneRow, name: str) -> RowPlan | None:
    """Return the stages of a prepared row: those of the inner learner, after those that scale, and one that follows."""
    inner, stage = learner._inner, learner._stage
    if not stage.shared or (learner._real and learner._loss.measured):
        return None
    scaled, after = stage.prepared(row, learn=name == "learning_row")
    plan: RowPlan | None = getattr(inner, name)(scaled)
    if plan is None:
        return None
    finish = (lambda margin: float(learner._in_units(margin)[0])) if learner._real else plan.finish
    same = plan.same
    return RowPlan([*plan.steps, *after], lambda: learner._inner is inner and same(), finish, plan.settle)
