"""The untuned learner for many classes: one output for each, calibrated together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays, require
from onsketch.core.errors import OptionError, UpdateError
from onsketch.core.losses import LOSSES
from onsketch.learners.base import _chunks
from onsketch.learners.methods import METHODS, Method
from onsketch.learners.multiclass.base import ManyClasses, as_codes
from onsketch.learners.options import own_loss, refuse_own_size, resolve
from onsketch.learners.rows import Rows, as_rows, as_weights, finite, refuse_endless
from onsketch.learners.untuned.learner import Core
from onsketch.learners.untuned.state import RUN, Setup

Floats = NDArray[np.float64]

CONCERNS = frozenset({"n_features", "sketch_size", "fit_intercept", "dtype", "seed", "loss", "clip", "forget"})
"""Options of the core learner that mean something here."""

MOST = 4
"""A sketch for classes has 3·K directions, at most this many times those for one output."""


class UntunedClasses(ManyClasses):
    """Multinomial logistic regression in one pass, whatever the features' units or the classes.

    ``learn`` and ``predict`` return log-probabilities, (rows, K). A class may be added at any time.
    """

    def __init__(self, method: str = "untuned", n_classes: int = 0, *, open_ended: bool = True, **options: Any) -> None:
        if own_loss(options.get("loss", "softmax")) not in ("softmax", "logistic"):
            raise OptionError(f"loss={options['loss']!r}: many classes have softmax alone.")
        refuse_own_size(options.get("sketch_size"))
        self._made_with: dict[str, Any] = {"method": method, "options": {**options, "open_ended": open_ended}}
        self.open_ended = open_ended
        given = {"fit_intercept": True, **options, "loss": "logistic"}
        self.options = resolve("untuned for many classes", CONCERNS, {"sketch_size": 20}, {**given, "clip": None})
        setup = Setup(
            loss=LOSSES["logistic"].form, signs=False, real=False, counts=False, intercept=self.options.fit_intercept,
            bounded=False, clip=math.inf, forget=float(self.options.forget), largest=1e100,
        )  # fmt: skip
        self._core = Core(setup, (), self._directions(n_classes), n_classes, self.options.dtype)
        self._width = self.options.n_features or 0

    @property
    def method(self) -> Method:
        """Its entry among the methods."""
        return METHODS["untuned"]

    @property
    def loss(self) -> str:
        """The log loss of all classes at once."""
        return "softmax"

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self._core.state.running[RUN.classes])

    @property
    def n_features(self) -> int:
        """Width of the widest row met, or as given."""
        return self._width

    @property
    def rounds(self) -> int:
        """Rows learned."""
        return self._core.rounds

    def learn(self, X: Any, codes: Any, sample_weight: Any = None) -> Floats:
        """Learn from these rows in one pass; returns the log-probabilities predicted before each label was seen."""
        rows = as_rows(X, self.options.n_features)
        labels = as_codes(codes, rows.count, self.n_classes)
        return self.learn_checked(rows, labels, as_weights(sample_weight, rows.count))

    def learn_checked(self, rows: Rows, labels: NDArray[np.int64], weights: Floats) -> Floats:
        """As ``learn``, for input that ``as_rows``, ``as_codes`` and ``as_weights`` have let through already."""
        refuse_endless(self.rounds, rows.count)
        core, out = self._core, np.empty((rows.count, self.n_classes))
        codes, weights = np.ascontiguousarray(labels, np.float64), np.ascontiguousarray(weights, np.float64)
        width, self._width = self._width, max(self._width, rows.n_features)
        for start, stop in _chunks(rows):
            part = slice(start, stop)
            try:
                slotted = core.map.translate(rows.part(start, stop), learn=True)
                done = start + core.learn(slotted, codes[part], weights[part], out[part])
            finally:
                core.map.forget(int(core.state.running[RUN.seen]))
            if done < stop:
                if done == 0:
                    self._width = width
                raise UpdateError("untuned, many classes", done, out[:done])
        return out

    def predict(self, X: Any) -> Floats:
        """The log-probabilities (rows, K); the state does not change."""
        rows = as_rows(X, self.options.n_features)
        out = np.empty((rows.count, self.n_classes))
        for start, stop in _chunks(rows):
            self._core.predict(self._core.map.translate(rows.part(start, stop), learn=False), out[start:stop])
        return finite(out)

    def predict_proba(self, X: Any) -> Floats:
        """The probabilities (rows, K)."""
        return np.asarray(np.exp(self.predict(X)))

    @property
    def weights(self) -> Floats:
        """There are none: the probabilities are a pool of several softmaxes of rows of one length."""
        raise OptionError("untuned with many classes has no single weight for a feature; use multiclass='one-vs-rest'.")

    @property
    def intercept(self) -> Floats:
        """There is none, as there are no weights."""
        return self.weights

    def add_class(self) -> int:
        """Make room for a class not met so far, which starts from zero weights; returns its code."""
        if not self.open_ended:
            raise OptionError("this model knows its classes; make it with open_ended=True for more to appear.")
        code = self.n_classes
        self._core.set_classes(code + 1, self._directions(code + 1))
        return code

    def drop_class(self) -> None:
        """Forget the class that was added last, of which no row has been learned."""
        self._core.state.running[RUN.classes] -= 1

    def merge(self, other: Any, base: Any = None) -> Any:
        """Refused: the pools of two learners have no common calibration."""
        raise OptionError("merge: untuned learners of many classes cannot be merged; learn the stream in one place.")

    def _directions(self, classes: int) -> int:
        m = self.options.sketch_size
        return max(m, min(3 * classes, MOST * m), 1)

    def state_bytes(self) -> dict[str, int]:
        """Memory: what is kept for the features seen; and everything."""
        return self._core.nbytes()

    def _header(self) -> dict[str, Any]:
        return {"class": "UntunedClasses", "n_classes": self.n_classes, "width": self.n_features, **self._made_with}

    def _arrays(self) -> Arrays:
        return self._core.arrays()

    def _restore(self, arrays: Arrays, header: Mapping[str, Any]) -> None:
        self._width = int(header["width"])
        self._core.restore(arrays, self._width)
        require(self.n_classes == header["n_classes"], "it counts other classes than its header", "running")
