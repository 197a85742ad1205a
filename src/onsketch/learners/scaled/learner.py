"""A learner before which rows and labels are put in scales of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import OptionError
from onsketch.files.arrays import Arrays, named, require, take, under
from onsketch.learners.base import Learner
from onsketch.learners.features import INTERCEPT, FeatureMap
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Rows
from onsketch.learners.scaled.scales import COUNT, LABEL, ROW, USED, scale_known, scale_rows, take_back

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
        linear = method.newton and options.loss == "squared" and options.summary != "gradient"  # in the labels
        self._real = self._loss.labels == "real" and not linear
        clip = None if self._real else options.clip  # a bound in the units of the labels, not of their scale
        self._inner = build_plain(method, replace(options, scaling="none", clip=clip))
        self._clip = float(options.clip) if self._real and isinstance(options.clip, float) else np.inf
        self._map = FeatureMap()
        self._features = np.zeros((0, 3))
        self._others = np.zeros((2, 3))

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
        inner = self._inner.state_bytes()
        return {
            "packed": inner["packed"] + self._map.count * (self._features.strides[0] + 8 + 4),
            "total": inner["total"] + self._features.nbytes + self._map.nbytes,
        }

    def spectrum(self) -> Floats:
        """The eigenvalues of what the learner of scaled rows has absorbed."""
        return self._inner.spectrum()

    # Learning ---------------------------------------------------------------------------------------------

    def _learn(self, rows: Rows, labels: Floats, weights: Floats, out: Floats) -> int:
        known, self._inner._width = self._map.count, self._width
        indptr, slots, values = self._map.translate(rows, learn=True)
        self._grow()
        count, entries = rows.count, values.size
        x, y, lengths = np.empty(entries), np.empty(count), np.empty(count)
        units = np.empty(count if self._real else 0)
        undo, undo_others = np.empty((entries, 3)), np.empty((count, 2, 3))
        state = self._features, self._others, indptr, slots
        scale_rows(*state, values, labels, x, y, lengths, units, undo, undo_others)
        scaled = self._rows(indptr, slots, x, rows.n_features)
        done = 0
        try:
            done = self._teach(scaled, y, weights, lengths, out)
        finally:
            if done < count:
                take_back(*state, done, undo, undo_others)
                self._map.forget(max(known, int(slots[: indptr[done]].max(initial=-1)) + 1))
        if self._real:
            out[:done] *= units[:done]
            np.clip(out[:done], -self._clip, self._clip, out=out[:done])
        return done

    def _teach(self, rows: Rows, y: Floats, weights: Floats, lengths: Floats, out: Floats) -> int:
        """Learn scaled rows; those that were shortened are predicted as long as they are."""
        shortened = np.flatnonzero(lengths < 1.0)
        edges = sorted({0, rows.count, *shortened.tolist(), *(shortened + 1).tolist()})
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            part = rows.part(start, stop) if stop - start < rows.count else rows
            length = lengths[start]
            before = self._inner._predict(_longer(part, 1.0 / length)) if length < 1.0 else None
            done = self._inner._learn(part, y[start:stop], weights[start:stop], out[start:stop])
            if before is not None:
                out[start:stop] = before
            if done < stop - start:
                return start + done
        return rows.count

    def _rows(self, indptr: NDArray[np.int64], slots: NDArray[np.int32], x: Floats, width: int) -> Rows:
        return Rows(indptr, self._map.features[slots], x, width, dense=False, zeros=False)

    def _grow(self) -> None:
        have = len(self._features)
        if self._map.count > have:
            fresh = np.zeros((max(self._map.count, have + have // 8, 16), 3))
            fresh[:have] = self._features
            self._features = fresh

    # Reading ----------------------------------------------------------------------------------------------

    @property
    def _norm(self) -> float:
        return float(self._others[ROW, USED]) if self._others[ROW, COUNT] else 1.0

    @property
    def _unit(self) -> float:
        return float(self._others[LABEL, USED]) if self._others[LABEL, COUNT] else 1.0

    def _scaled(self, rows: Rows) -> Rows:
        """The rows as the learner inside sees them; features not seen so far are left out."""
        indptr, slots, values = self._map.translate(rows, learn=False)
        x = np.empty(values.size)
        scale_known(self._features, self._norm, slots, values, x)
        return self._rows(indptr, slots, x, rows.n_features)

    def _predict(self, rows: Rows) -> Floats:
        margins = self._inner._predict(self._scaled(rows))
        return np.clip(margins * self._unit, -self._clip, self._clip) if self._real else margins

    def _leverage(self, rows: Rows) -> Floats:
        return self._inner._leverage(self._scaled(rows))

    def _coefficients(self) -> tuple[NDArray[np.int64], Floats]:
        features, values = self._inner._coefficients()
        seen = np.flatnonzero(features != INTERCEPT)
        values = values * self._unit
        values[seen] /= self._features[self._map.add(features[seen]), USED] * np.sqrt(self._norm)
        return features, values

    # Merging and saving -----------------------------------------------------------------------------------

    def _merge(self, other: Any, base: Any) -> None:
        raise OptionError(f"merge: {self.method.name} with scaling={self.options.scaling!r} has units of its own; "
                          "learners to be merged need scaling='none'.")  # fmt: skip

    def _arrays(self) -> Arrays:
        scales = {"features": self._map.features, "scales": self._features[: self._map.count], "others": self._others}
        return named("scaling", scales) | named("learner", self._inner._arrays())

    @classmethod
    def room(cls, method: Method, options: Options) -> int:
        """Bytes that a fresh one takes: those of the learner within."""
        from onsketch.learners.build import plain_class_of

        return plain_class_of(method, options).room(method, options)

    def _restore(self, arrays: Arrays) -> None:
        kept = under("scaling", arrays)
        self._map.refill(take(kept, "features", np.int64, (None,)))
        scales = take(kept, "scales", np.float64, (self._map.count, 3))
        others = take(kept, "others", np.float64, (2, 3))
        sound = bool((scales > 0.0).all() and (others >= 0.0).all())
        sound = sound and bool(np.isfinite(scales).all() and np.isfinite(others).all())
        require(sound and bool((others[others[:, COUNT] > 0.0, USED] > 0.0).all()), "its scales are impossible")
        self._features, self._others = scales, others
        self._inner._width = self._width
        self._inner._restore(under("learner", arrays))


def _longer(rows: Rows, factor: float) -> Rows:
    """One row, as many times as long."""
    first, last = rows.indptr[0], rows.indptr[-1]
    values = rows.values[first:last] * factor
    return rows._replace(indptr=rows.indptr - first, indices=rows.indices[first:last], values=values)
