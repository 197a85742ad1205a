"""One learner for each class, all in one pass and in parallel threads."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import onsketch
from onsketch.core.arrays import Arrays, named, require, under
from onsketch.core.errors import OptionError, UpdateError
from onsketch.core.losses import LOSSES
from onsketch.learners.base import Learner
from onsketch.learners.multiclass.base import ManyClasses, as_codes
from onsketch.learners.multiclass.undo import Block, Undo
from onsketch.learners.options import own_loss
from onsketch.learners.rows import Rows, as_rows, as_weights

Floats = NDArray[np.float64]

_WORTH_A_THREAD = 20_000
"""Values in a block from which on threads gain more than they cost."""


class OneVersusRest(ManyClasses):
    """K binary learners; the k-th has the label +1 for rows of class k and −1 for all others.

    Any method and any loss for signs. The compiled loops run without the GIL, so the learners of different
    classes run in parallel threads; each sees the rows in their order, whatever the number of threads.

    With ``open_ended`` one more learner has the label −1 for every row. A new class starts as a copy of it, and so is
    learned *exactly* as if it had been there from the start.

    A row that one class refuses is refused by all. For this, an earlier copy of the learners and the rows since then
    are kept (undo.py). A refusal costs a copy of the learners and learning these rows again.

    Cost of a row: K times that of one learner. Memory: up to three times that of K learners: the learners, a copy, and
    rows of at most as many bytes as either (or 256 KiB).

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
        options["loss"] = loss = own_loss(options.get("loss", "logistic"))
        if loss not in LOSSES or LOSSES[loss].labels != "sign":
            hint = " softmax needs multiclass='shared'." if loss == "softmax" else ""
            raise OptionError(
                f"loss={loss!r}: one class against the rest needs logistic, hinge or squared_hinge.{hint}", loss=loss
            )
        self._made_with = {"method": method, "options": {**options, "open_ended": open_ended}}
        self.threads = threads
        self.learners: list[Learner] = [onsketch.learner(method, **options) for _ in range(n_classes)]
        self.unmet: Learner | None = onsketch.learner(method, **options) if open_ended else None
        """Learner with the label −1 for every row, from which a new class starts."""
        if not self.learners and self.unmet is None:
            raise OptionError("one class at least is needed, or open_ended=True.")
        self._undo = Undo(self._taught)

    @property
    def _any(self) -> Learner:
        return self.learners[0] if self.unmet is None else self.unmet

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.learners)

    @property
    def n_features(self) -> int:
        """Width of the widest row seen, or as given."""
        return self._any.n_features

    @property
    def rounds(self) -> int:
        """Rows learned."""
        return self._any.rounds

    def add_class(self) -> int:
        """Add a class and return its code."""
        if self.unmet is None:
            raise OptionError("this model knows its classes; make it with open_ended=True for more to appear.")
        self.learners.append(copy.deepcopy(self.unmet))
        return self.n_classes - 1

    def drop_class(self) -> None:
        """Forget the class that was added last, of which no row has been learned."""
        self.learners.pop()

    def learn(self, X: Any, codes: Any, sample_weight: Any = None) -> Floats:
        """Learn from these rows in one pass; returns the margins (rows, K) predicted before each was learned.

        Raises:
            InputError: something in the input is unfit; nothing was learned.
            UpdateError: for some class a row's update would not be finite; every class has learned the rows before it,
                and none has learned it.
        """
        rows = as_rows(X, self._any.options.n_features)
        labels = as_codes(codes, rows.count, self.n_classes)
        return self.learn_checked(rows, labels, as_weights(sample_weight, rows.count))

    def learn_checked(self, rows: Rows, labels: NDArray[np.int64], weights: Floats) -> Floats:
        """As ``learn``, for input that ``as_rows``, ``as_codes`` and ``as_weights`` have checked already."""
        everyone = [*self.learners, *([] if self.unmet is None else [self.unmet])]
        self._undo.begin(everyone)
        block = rows, labels, weights
        try:
            margins = self._taught(everyone, block)
        except BaseException as error:
            everyone = self._undo.back()
            self.learners, self.unmet = everyone[: self.n_classes], None if self.unmet is None else everyone[-1]
            if isinstance(error, UpdateError):
                fit, error.predictions = error.row, np.empty((0, self.n_classes))
                if fit:
                    error.predictions = self.learn_checked(rows.part(0, fit), labels[:fit], weights[:fit])
            else:
                error.add_note("No class has learned anything of these rows.")
            raise
        self._undo.keep(everyone, block)
        return np.array(margins[: self.n_classes]).T if self.learners else np.empty((rows.count, 0))

    def _taught(self, learners: list[Learner], block: Block) -> list[Floats]:
        """Let each of them learn these rows."""
        rows, labels, weights = block
        signs = np.where(labels == np.arange(len(learners))[:, np.newaxis], 1.0, -1.0)
        small = _is_small(rows)
        if small and rows.count > 1:
            rows = learners[0].shared(rows, learn=True)
        return self._each(lambda k: learners[k].learn_checked(rows, signs[k], weights), len(learners), small)

    def predict(self, X: Any) -> Floats:
        """The margins (rows, K); the state does not change."""
        rows = as_rows(X, self._any.options.n_features)
        if not self.learners:
            return np.empty((rows.count, 0))
        learners, small = self.learners, _is_small(rows)
        if small and rows.count > 1:
            rows = self._any.shared(rows, learn=False)
        return np.array(self._each(lambda k: learners[k].predict(rows), self.n_classes, small)).T

    def merge(self, other: Any, codes: Sequence[int] | None = None) -> Self:
        """Take in what another one has learned from other rows, class by class; the other is left as it was.

        Args:
            other: a learner of the same method and options.
            codes: the code here of each class of the other; left out, the classes have the same codes. For a class
                that one of them has not met, its learner of unmet classes takes part (``open_ended``).
        """
        if not isinstance(other, OneVersusRest) or (other.unmet is None) != (self.unmet is None):
            raise OptionError("merge: the other must be one-vs-rest, and as open_ended as this one.")
        theirs = copy.deepcopy(other)
        codes = range(theirs.n_classes) if codes is None else codes
        count = max(self.n_classes, *(code + 1 for code in codes))
        if self.unmet is None and not self.n_classes == theirs.n_classes == count:
            raise OptionError("merge: both must know the same classes.")
        by_code = dict(zip(codes, theirs.learners, strict=True))
        merged = [
            copy.deepcopy(self.learners[k] if k < self.n_classes else self._any).merge(by_code.get(k, theirs._any))
            for k in range(count)
        ]
        unmet = None if self.unmet is None else copy.deepcopy(self.unmet).merge(theirs._any)
        self.learners, self.unmet = merged, unmet
        return self

    @property
    def weights(self) -> Floats:
        """(K, d)."""
        return np.stack([learner.weights for learner in self.learners])

    @property
    def intercept(self) -> Floats:
        """(K,)."""
        return np.array([learner.intercept for learner in self.learners])

    def _header(self) -> dict[str, Any]:
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
        known: list[Any] = [arrays.get(f"{name}.features") for name, _ in everyone]  # rows are translated once for all
        require(all(np.array_equal(one, known[0]) for one in known), "its classes have seen other features", "features")

    def _each(self, task: Callable[[int], Floats], count: int, small: bool) -> list[Floats]:
        """``task(k)`` for each class, in threads if that is faster; raise the error of the earliest row."""
        errors: list[Exception] = []

        def tried(k: int) -> Floats:
            try:
                return task(k)
            except Exception as error:
                errors.append(error)
                return np.empty(0)

        threads = 1 if small else min(self.threads or os.cpu_count() or 1, count)
        if threads < 2:
            found = [tried(k) for k in range(count)]
        else:
            with ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(tried, range(count)))
        try:
            if errors:
                raise min(errors, key=lambda error: error.row if isinstance(error, UpdateError) else -1)
        finally:
            errors.clear()  # an error refers to this frame and the learners: the cycle would keep them in memory
        return found


def _is_small(rows: Rows) -> bool:
    return bool(rows.indptr[-1] - rows.indptr[0] < _WORTH_A_THREAD)
