"""A learner before which rows and labels are put in scales of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays, named, under
from onsketch.core.errors import OptionError
from onsketch.learners.base import Learner
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Linear, Rows
from onsketch.learners.scaled.rows import Passed, RowScales
from onsketch.learners.scaled.scales import FAR
from onsketch.learners.single import OneRow, RowPlan

Floats = NDArray[np.float64]


class ScaledLearner(Learner):
    """Any linear learner, with its features, rows and labels in scales of their own (see ``scales.py``).

    The learner sees rows of length 1 and labels of size 1; ``weights``, ``intercept`` and predictions are in the units
    of the data. Cost of a round: O(1) per non-zero more, and three numbers of memory per feature.

    >>> import onsketch
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) * [1e-6, 1.0, 1e6]
    >>> y = X @ [3e6, 2.0, 1e-6]
    >>> model = onsketch.learner("ons", scaling="magnitude", summary="curvature", clip=None, ridge=0.01)
    >>> bool(np.mean(np.abs(model.learn(X, y) - y)[400:]) < 0.1 * np.mean(np.abs(y)))
    True
    """

    def __init__(self, method: Method, options: Options) -> None:
        from onsketch.learners.build import build_plain

        super().__init__(method, options)
        linear = method.newton and options.loss in ("squared", "huber") and options.summary != "gradient"
        self._real = self._loss.labels == "real" and not linear  # a linear learner's weights follow the labels' unit
        self._measured = self._real and self._loss.measured
        clip = None if self._real else options.clip  # a bound in the units of the labels, not of their scale
        self._inner = build_plain(method, replace(options, scaling="none", clip=clip))
        self._clip = float(options.clip) if self._real and isinstance(options.clip, float) else np.inf
        self._scales = RowScales(self._real)

    @property
    def rounds(self) -> int:
        """Rounds played: rows learned."""
        return self._inner.rounds

    @property
    def inner(self) -> Learner:
        """The learner of scaled rows."""
        return self._inner

    def state_bytes(self) -> dict[str, int]:
        """Memory: ``packed`` for the features seen, ``total`` for everything held."""
        inner, (seen, held) = self._inner.state_bytes(), self._scales.nbytes
        return {"packed": inner["packed"] + seen, "total": inner["total"] + held}

    def spectrum(self) -> Floats:
        """The eigenvalues of what the learner of scaled rows has absorbed."""
        return self._inner.spectrum()

    def directions(self) -> tuple[Floats, NDArray[np.int64], Floats]:
        """The main directions of the learner of scaled rows."""
        return self._inner.directions()

    # Learning ---------------------------------------------------------------------------------------------

    def _learn(self, rows: Rows, labels: Floats, weights: Floats, out: Floats) -> int:
        self._inner._width = self._width
        passed, before = self._scales.enter(rows, labels), self._inner.rounds
        try:
            done = self._teach(passed, weights, out)
        finally:
            self._scales.leave(passed, self._inner.rounds - before)
        if self._real:
            out[:done] *= passed.units[:done]
            np.clip(out[:done], -self._clip, self._clip, out=out[:done])
        return done

    def _teach(self, passed: Passed, weights: Floats, out: Floats) -> int:
        """Learn scaled rows; those that were shortened are predicted as long as they are."""
        rows, y, lengths = passed.rows, passed.y, passed.lengths
        shortened = np.flatnonzero(lengths < 1.0)
        edges = {0, rows.count, *shortened.tolist(), *(shortened + 1).tolist()}
        if self._measured:
            edges |= set((np.flatnonzero(np.diff(passed.units)) + 1).tolist())
        for start, stop in pairwise(sorted(edges)):
            if self._measured:
                self._inner._divide_labels(float(passed.units[start]))
            part = rows.part(start, stop) if stop - start < rows.count else rows
            length = lengths[start]
            before = self._inner._predict(_longer(part, 1.0 / length)) if length < 1.0 else None
            done = self._inner._learn(part, y[start:stop], weights[start:stop], out[start:stop])
            if before is not None:
                out[start:stop] = before
            if done < stop - start:
                return start + done
        return rows.count

    def learning_row(self, row: OneRow) -> RowPlan | None:
        """As ``_learn``, for a prepared row."""
        scaled, plan, units = self._scales.learning_row(row)
        plain = self.options.fit_intercept and not self._measured
        inner = self._inner.learning_row(scaled) if plain else None
        return inner and plan.then(inner, self._in_units(lambda: units.item(0)))

    def predicting_row(self, row: OneRow) -> RowPlan | None:
        """As ``_predict``, for a prepared row."""
        scaled, plan = self._scales.predicting_row(row)
        inner = self._inner.predicting_row(scaled)
        return inner and plan.then(inner, self._in_units(lambda: self._scales.unit))

    def _in_units(self, unit: Callable[[], float]) -> Callable[[float], float] | None:
        """Return the function from a margin of the inner learner to one in the units of the labels, clipped."""
        clip = self._clip
        return (lambda margin: min(max(margin * unit(), -clip), clip)) if self._real else None

    # Reading ----------------------------------------------------------------------------------------------

    def _predict(self, rows: Rows) -> Floats:
        margins = self._inner._predict(self._scales.scaled(rows))
        return np.clip(margins * self._scales.unit, -self._clip, self._clip) if self._real else margins

    def _linear(self) -> Linear | None:
        inner = self._inner._linear()
        if inner is None:
            return None
        features, scales = inner.features, self._scales.of(inner.features)
        low, high = (-self._clip, self._clip) if self._real else (inner.low, inner.high)
        bounds = FAR * scales / self._scales.norm**0.5
        return Linear(features, inner.weights * self._scales.unit / scales, low, high, bounds)

    def _leverage(self, rows: Rows) -> Floats:
        return self._inner._leverage(self._scales.scaled(rows))

    def _coefficients(self) -> tuple[NDArray[np.int64], Floats]:
        features, values = self._inner._coefficients()
        return features, values * self._scales.unit / self._scales.of(features)

    # Merging and saving -----------------------------------------------------------------------------------

    def hold_scales(self, measured: ScaledLearner) -> None:
        """Take the scales of a learner that has seen some rows, and keep them: learners with the same can be merged."""
        self._scales.hold(measured._scales)

    def _merge(self, other: Any, base: Any) -> None:
        if not all(self._scales.take_in(part._scales) for part in (other, base) if part is not None):
            raise OptionError(f"merge: {self.method.name} with scaling={self.options.scaling!r} has units of its own; "
                              "learners to be merged need scaling='none', or a cluster, which decides scales once.",
                              scaling=(self.options.scaling, "none"))  # fmt: skip
        self._inner._width = max(self._width, other._width)
        self._inner._merge(other._inner, None if base is None else base._inner)

    def _arrays(self) -> Arrays:
        return named("scaling", self._scales.arrays()) | named("learner", self._inner._arrays())

    @classmethod
    def room(cls, method: Method, options: Options) -> int:
        """Bytes that a fresh one takes: those of the learner within."""
        from onsketch.learners.build import plain_class_of

        return plain_class_of(method, options).room(method, options)

    def _restore(self, arrays: Arrays) -> None:
        self._scales.restore(under("scaling", arrays))
        self._inner._width = self._width
        self._inner._restore(under("learner", arrays))


def _longer(rows: Rows, factor: float) -> Rows:
    """One row, as many times as long."""
    first, last = rows.indptr[0], rows.indptr[-1]
    values = rows.values[first:last] * factor
    return rows._replace(indptr=rows.indptr - first, indices=rows.indices[first:last], values=values)
