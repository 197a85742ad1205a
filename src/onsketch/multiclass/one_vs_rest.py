"""One learner for each class, all in one pass and in parallel threads."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onsketch
from onsketch.arrays import Arrays, named, under
from onsketch.errors import OptionError, UpdateError
from onsketch.linear.base import Learner
from onsketch.linear.rows import as_rows, as_weights
from onsketch.losses import LOSSES
from onsketch.multiclass.base import ManyClasses, as_codes

Floats = NDArray[np.float64]

_WILD = 1e10
"""Rows with larger entries are learned with a copy of the state at hand, to go back to."""

_WORTH_A_THREAD = 20_000
"""Values in a block from which on threads gain more than they cost."""


class OneVersusRest(ManyClasses):
    """K binary learners, the k-th told +1 for rows of class k and −1 for all others.

    Any method and any loss for signs. The compiled loops run without the GIL, so the learners of different
    classes run in parallel threads; each sees the rows in their order, whatever the number of threads.

    With ``open_ended`` one learner more is told −1 for every row. A class that is met later starts as a copy of it, and
    so is learned *exactly* as if it had been known from the start.

    Cost of a row: K times that of one learner.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> classes = rng.integers(3, size=600)
    >>> X = np.eye(3)[classes] + 0.3 * rng.normal(size=(600, 3))
    >>> model = OneVersusRest("adagrad", 3, loss="logistic", fit_intercept=True)
    >>> margins = model.learn(X, classes)
    >>> bool(np.mean(margins[300:].argmax(axis=1) == classes[300:]) > 0.9)
    True
    """

    def __init__(
        self, method: str, n_classes: int, *, open_ended: bool = False, threads: int | None = None, **options: Any
    ) -> None:
        loss = options.setdefault("loss", "logistic")
        if loss not in LOSSES or LOSSES[loss].labels != "sign":
            hint = " softmax needs multiclass='shared'." if loss == "softmax" else ""
            raise OptionError(
                f"loss={loss!r}: one class against the rest needs logistic, hinge or squared_hinge.{hint}"
            )
        self._made_with = {"method": method, "options": {**options, "open_ended": open_ended}}
        self.threads = threads
        self.learners: list[Learner] = [onsketch.learner(method, **options) for _ in range(n_classes)]
        self.unmet: Learner | None = onsketch.learner(method, **options) if open_ended else None
        """Told −1 for every row: what a class not met so far starts from."""
        if not self.learners and self.unmet is None:
            raise OptionError("one class at least is needed, or open_ended=True.")
        self._spoiled = False

    @property
    def _any(self) -> Learner:
        return self.learners[0] if self.unmet is None else self.unmet

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.learners)

    @property
    def n_features(self) -> int:
        """Width of the widest row met, or as given."""
        return self._any.n_features

    @property
    def rounds(self) -> int:
        """Rows learned."""
        return self._any.rounds

    def add_class(self) -> int:
        """Make room for a class not met so far; returns its code."""
        if self.unmet is None:
            raise OptionError("this model knows its classes; make it with open_ended=True for more to appear.")
        self.learners.append(copy.deepcopy(self.unmet))
        return self.n_classes - 1

    def learn(self, X: Any, codes: Any, sample_weight: Any = None) -> Floats:
        """Learn from these rows in one pass; returns the margins (rows, K) predicted before each was learned.

        Raises:
            InputError: something in the input is unfit; nothing was learned.
            UpdateError: for some class a row's update would not be finite; no class has learned anything of these rows.
        """
        if self._spoiled:
            raise OptionError("this model stopped amid a row whose update was not finite; start it anew.")
        rows = as_rows(X, self._any.options.n_features)
        labels = as_codes(codes, rows.count, self.n_classes)
        weights = as_weights(sample_weight, rows.count)
        everyone = [*self.learners, *([] if self.unmet is None else [self.unmet])]
        wild = max(np.abs(rows.values).max(initial=0.0), weights.max(initial=0.0)) > _WILD
        before = copy.deepcopy(everyone) if wild else None

        def learn_one(k: int) -> Floats:
            return everyone[k].learn_checked(rows, np.where(labels == k, 1.0, -1.0), weights)

        try:
            margins = self._each(learn_one, len(everyone), rows.indptr[-1] - rows.indptr[0])
        except UpdateError as error:
            if before is None:
                self._spoiled = True  # some classes have learned the row and cannot forget it
                raise
            self.learners = before[: self.n_classes]
            self.unmet = before[-1] if self.unmet is not None else None
            message = str(error).partition(" The ")[0] + " Nothing of this block was learned by any class."
            raise UpdateError(message, error.row) from None
        return np.stack(margins[: self.n_classes], axis=1) if self.learners else np.empty((rows.count, 0))

    def predict(self, X: Any) -> Floats:
        """The margins (rows, K); the state does not change."""
        rows = as_rows(X, self._any.options.n_features)
        if not self.learners:
            return np.empty((rows.count, 0))
        size = rows.indptr[-1] - rows.indptr[0]
        return np.stack(self._each(lambda k: self.learners[k].predict(rows), self.n_classes, size), axis=1)

    @property
    def weights(self) -> Floats:
        """(K, d)."""
        return np.stack([learner.weights for learner in self.learners])

    @property
    def intercept(self) -> Floats:
        """(K,)."""
        return np.array([learner.intercept for learner in self.learners])

    def _header(self) -> dict[str, Any]:
        if self._spoiled:
            raise OptionError("this model stopped amid a row whose update was not finite; it is not worth saving.")
        return {"class": "OneVersusRest", "n_classes": self.n_classes, "width": self.n_features, **self._made_with}

    def _arrays(self) -> Arrays:
        arrays = {} if self.unmet is None else named("unmet", self.unmet._arrays())
        for k, learner in enumerate(self.learners):
            arrays |= named(str(k), learner._arrays())
        return arrays

    def _restore(self, arrays: Arrays, header: Mapping[str, Any]) -> None:
        everyone = [*enumerate(self.learners), *([] if self.unmet is None else [("unmet", self.unmet)])]
        for name, learner in everyone:
            learner._width = int(header["width"])
            learner._restore(under(str(name), arrays))

    def _each(self, task: Callable[[int], Floats], count: int, size: int) -> list[Floats]:
        """``task(k)`` for each class, in threads where that pays; all have ended when this returns or raises."""
        threads = min(self.threads or os.cpu_count() or 1, count)
        if threads < 2 or size < _WORTH_A_THREAD:
            return [task(k) for k in range(count)]
        with ThreadPoolExecutor(threads) as pool:
            results: Iterable[Floats] = pool.map(task, range(count))
            return list(results)
