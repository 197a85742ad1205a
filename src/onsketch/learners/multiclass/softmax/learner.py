"""``SoftmaxAuto``: many classes without tuning, as a learner of classes like any other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays
from onsketch.core.errors import OptionError, UpdateError
from onsketch.jit.decorators import exact_kernel
from onsketch.learners.auto.pool import PRIOR, Pool
from onsketch.learners.base import _chunks
from onsketch.learners.features import FeatureMap
from onsketch.learners.methods import METHODS, Method
from onsketch.learners.multiclass.base import ManyClasses, as_codes
from onsketch.learners.multiclass.softmax import changes
from onsketch.learners.multiclass.softmax.dense_rounds import learn_dense, predict_dense
from onsketch.learners.multiclass.softmax.directions import ESCAPED, RIDGES, directions_for, fold
from onsketch.learners.multiclass.softmax.pairs import EXPERTS, Wide
from onsketch.learners.multiclass.softmax.saving import arrays_of, restored_state
from onsketch.learners.multiclass.softmax.state import OUTPUTS, RUNNING, STOP, TALLY, Common, Dense, Scratch
from onsketch.learners.multiclass.softmax.ways import FEW
from onsketch.learners.multiclass.softmax.wide_rounds import learn_wide, predict_wide
from onsketch.learners.options import own_loss, refuse_own_size, resolve
from onsketch.learners.rows import Rows, Slotted, as_rows, as_weights, finite, refuse_endless, unseen_squares

Floats = NDArray[np.float64]

CONCERNS = frozenset({"n_features", "sketch_size", "fit_intercept", "dtype", "seed", "loss", "clip"})
"""Options of the core learner that mean something here."""

_LARGEST = {"float64": 1e100, "float32": 1e15}
"""Bound of margins and of squared lengths of scaled rows."""

_fold = exact_kernel(fold.py_func)


class SoftmaxAuto(ManyClasses):
    """Multinomial logistic regression in one pass, whatever the features' units, the classes, or the width.

    Four experts learn side by side; what they are depends on the rows (``ways.py``): a metric for each class where
    features are few, one sketch for all where rows are dense, first-order experts for wide text. Their margins become
    calibrated probabilities (``auto/pool.py``). Steps are implicit in all classes at once (``core/softmax.py``).

    ``learn`` and ``predict`` return **log-probabilities**, (rows, K). A class may be added at any time.

    Cost of a row: O(K·(non-zeros + m²)) and for few features O(d²) for each class that has something to say; for wide
    rows O(pairs of its features with classes they have met). Memory: such pairs for wide rows, O(d·(K + m)) otherwise,
    O(K·d²) for few features.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> classes = rng.integers(4, size=2000)
    >>> X = (rng.normal(size=(4, 6))[classes] + 0.5 * rng.normal(size=(2000, 6))) * [1e-6, 1e6, 1.0, 3.0, 9.0, 1.0]
    >>> model = SoftmaxAuto("auto", 4)
    >>> log_p = model.learn(X, classes)
    >>> bool(np.mean(log_p[1000:].argmax(axis=1) == classes[1000:]) > 0.9)
    True
    >>> bool(np.allclose(model.predict_proba(X).sum(axis=1), 1.0))
    True
    """

    def __init__(self, method: str = "auto", n_classes: int = 0, *, open_ended: bool = True, **options: Any) -> None:
        if method != "auto":
            raise OptionError(f"multiclass='softmax': is a form of auto; method={method!r} needs 'one-vs-rest'.")
        loss = own_loss(options.get("loss", "softmax"))
        if loss not in ("softmax", "logistic"):
            raise OptionError(
                f"loss={loss!r}: auto for many classes has softmax alone; use multiclass='one-vs-rest'.", loss=loss
            )
        if options.get("clip") is not None:
            raise OptionError("multiclass='softmax': probabilities are not clipped; leave clip out or give None.")
        refuse_own_size(options.get("sketch_size"))
        self._made_with: dict[str, Any] = {"method": method, "options": {**options, "open_ended": open_ended}}
        given = {"fit_intercept": True, **options, "loss": "logistic"}
        self.options = resolve("auto for many classes", CONCERNS, {"sketch_size": 20}, {**given, "clip": None})
        self.open_ended = open_ended
        self._dtype = np.dtype(self.options.dtype)
        self._largest = _LARGEST[self.options.dtype]
        self._width = self.options.n_features or 0
        self._map = FeatureMap()
        self._common = Common.empty(n_classes)
        self._pool = Pool.empty(OUTPUTS, max(n_classes, 1))
        self._table: Dense | Wide = Dense.empty(1, max(n_classes, 1), 0, self._dtype)
        self._room = max(n_classes, 1)

    @property
    def method(self) -> Method:
        """It is a form of ``auto``."""
        return METHODS["auto"]

    @property
    def loss(self) -> str:
        """The log loss of all classes at once."""
        return "softmax"

    @property
    def features_seen(self) -> int:
        """How many features have come so far."""
        return self._map.count

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self._common.tally[TALLY.classes])

    @property
    def n_features(self) -> int:
        """Width of the widest row met, or as given."""
        return self._width

    @property
    def rounds(self) -> int:
        """Rows learned."""
        return int(self._common.tally[TALLY.rounds])

    @property
    def way(self) -> str:
        """How it learns at present: "few", "dense" or "wide" (see ``ways.py``)."""
        if isinstance(self._table, Wide):
            return "wide"
        return "dense" if self._table.capacity else "few"

    @property
    def _directions(self) -> int:
        return directions_for(self.options.sketch_size, self.n_classes)

    def add_class(self) -> int:
        """Make room for a class not met so far, which starts from zero weights; returns its code."""
        if not self.open_ended:
            raise OptionError("this model knows its classes; make it with open_ended=True for more to appear.")
        code = self.n_classes
        if code == self._room:
            self._room = 2 * self._room
            more = self._room - len(self._pool.biases)
            self._pool = self._pool._replace(
                biases=np.append(self._pool.biases, np.zeros(more)),
                firmness=np.append(self._pool.firmness, np.full(more, PRIOR)),
            )
            if isinstance(self._table, Dense):
                if self.way == "few" and (code + 1) * (self._common.tally[TALLY.seen] + 1.0) ** 2 > FEW:
                    self._change()  # before there are metrics for so many classes
                self._table = self._table.resized(len(self._table.energies), self._room)
        self._common.tally[TALLY.classes] = code + 1
        return code

    def drop_class(self) -> None:
        """Forget the class that was added last, of which no row has been learned."""
        self._common.tally[TALLY.classes] -= 1

    def learn(self, X: Any, codes: Any, sample_weight: Any = None) -> Floats:
        """Learn from these rows in one pass; returns the log-probabilities predicted before each label was seen."""
        rows = as_rows(X, self.options.n_features)
        labels = as_codes(codes, rows.count, self.n_classes)
        return self.learn_checked(rows, labels, as_weights(sample_weight, rows.count))

    def learn_checked(self, rows: Rows, labels: NDArray[np.int64], weights: Floats) -> Floats:
        """As ``learn``, for input that ``as_rows``, ``as_codes`` and ``as_weights`` have let through already."""
        refuse_endless(self.rounds, rows.count)
        labels, weights = np.ascontiguousarray(labels, np.int64), np.ascontiguousarray(weights, np.float64)
        out = np.empty((rows.count, self.n_classes))
        width, self._width = self._width, max(self._width, rows.n_features)
        for start, stop in _chunks(rows):
            part = slice(start, stop)
            done = start + self._learn(rows.part(start, stop), labels[part], weights[part], out[part])
            if done < stop:
                if done == 0:
                    self._width = width
                raise UpdateError("auto, many classes", done, out[:done])
        return out

    def _learn(self, rows: Rows, labels: NDArray[np.int64], weights: Floats, out: Floats) -> int:
        try:
            return self._learn_translated(self._map.translate(rows, learn=True), labels, weights, out)
        finally:  # the features of rows that were not learned have not been seen, even if there was no memory for them
            self._common.tally[TALLY.why] = 0
            self._map.forget(int(self._common.tally[TALLY.seen]))

    def _learn_translated(self, slotted: Slotted, labels: NDArray[np.int64], weights: Floats, out: Floats) -> int:
        indptr, slots, values = slotted
        longest = int(np.diff(indptr).max(initial=0))
        done = 0
        needs = _features_needed(indptr, slots)
        if isinstance(self._table, Dense) and 0 < self._table.capacity < 2 * self._directions:  # classes have come
            self._table = self._table.resized(len(self._table.energies), self._room, 2 * self._directions)
        while done < len(labels):
            stop = self._grow(needs, done)
            room = self._rooms(longest)
            state = self._common, self._table, self._pool, *room
            given = indptr[done : stop + 1], slots, values, labels[done:stop], weights[done:stop], out[done:stop]
            play = learn_wide if isinstance(self._table, Wide) else learn_dense
            done += int(play(*state, self.options.fit_intercept, self._largest, *given))
            why = int(self._common.tally[TALLY.why])
            if why == STOP.outgrown:
                self._change()
            elif why == STOP.full:
                assert isinstance(self._table, Wide)
                size = len(self._table.classes)
                self._table = self._table.with_pairs(size + size // 4 + 4 * self._room * (longest + 1))
            elif done < stop:
                break
        return done

    def _grow(self, needs: NDArray[np.int64], done: int) -> int:
        """Make room for the next rows; returns the end of those that there is room for.

        Tables of weights for all classes grow a few rows at a time: the rows to come may call for another way.
        """
        have = len(self._table.energies)
        most = int(needs[-1])
        if isinstance(self._table, Dense):
            most = min(most, max(2 * have, 1024, int(needs[done])))
            if not self._table.capacity:
                most = min(most, int(math.sqrt(FEW / max(self.n_classes, 1))) + 1)
        if most > have:
            size = max(most, have + have // 4) if self.way != "few" else most
            if isinstance(self._table, Wide):
                self._table = self._table.with_features(size)
            else:
                self._table = self._table.resized(size, self._room)

        more = max(most, int(needs[done])) - len(self._common.figures)
        if more > 0:
            more += len(self._common.figures) // 4
            self._common = self._common._replace(figures=np.append(self._common.figures, np.zeros((more, 3)), axis=0))
        return max(int(np.searchsorted(needs, most, side="right")), done + 1)

    def _rooms(self, longest: int) -> tuple[Any, ...]:
        """Room to work in, for rows with so many entries at most; each call has its own, for several may predict."""
        if isinstance(self._table, Wide):
            n, k = longest + 1, self._room
            lists = np.empty((k, EXPERTS)), np.empty((k, EXPERTS)), np.empty(2 * EXPERTS), np.zeros(k, np.int8)
            row = np.empty((n, 3)), np.empty(n, np.int64), np.empty((n, EXPERTS)), np.empty(n, np.int64)
            return Scratch.empty(EXPERTS, k, 0, 0), row, (*lists, np.empty(k, np.int64), np.empty(EXPERTS))
        size = len(self._table.energies)
        scratch = Scratch.empty(OUTPUTS, self._room, size, self._table.capacity)
        return scratch, (
            np.empty((longest, 3)),
            np.zeros(size, np.int8),
            np.empty(size + 1, np.int64),
            np.empty(size + 1),
        )

    def _change(self) -> None:
        """Go over to the next way of learning."""
        assert isinstance(self._table, Dense)
        if not self._table.capacity:
            self._table = changes.sketched(self._common, self._table, self._directions)
        else:
            _fold(self._common, self._table, int(self._common.tally[TALLY.seen]) + 1)
            self._table = changes.widened(self._common, self._table)
            self._pool = Pool.empty(EXPERTS, self._room)

    def predict(self, X: Any) -> Floats:
        """The log-probabilities (rows, K); the state does not change."""
        rows = as_rows(X, self.options.n_features)
        out = np.empty((rows.count, self.n_classes))
        for start, stop in _chunks(rows):
            self._predict(rows.part(start, stop), out[start:stop])
        return finite(out)

    def _predict(self, rows: Rows, out: Floats) -> None:
        indptr, slots, values = self._map.translate(rows, learn=False)
        room = self._rooms(int(np.diff(indptr).max(initial=0)))
        state = self._common, self._table, self._pool, *room, self.options.fit_intercept
        if isinstance(self._table, Wide):
            unseen = np.zeros(rows.count)
            unseen_squares(rows.indptr, rows.values, indptr, values, unseen)
            predict_wide(*state, indptr, slots, values, unseen, out)
        else:
            predict_dense(*state, indptr, slots, values, out)

    def predict_proba(self, X: Any) -> Floats:
        """The probabilities (rows, K)."""
        return np.asarray(np.exp(self.predict(X)))

    @property
    def weights(self) -> Floats:
        """There are none: the probabilities are a pool of several softmaxes, some of them of rows of unit length."""
        raise OptionError("auto with many classes has no single weight for a feature; use multiclass='one-vs-rest'.")

    @property
    def intercept(self) -> Floats:
        """There is none, as there are no weights."""
        return self.weights

    def merge(self, other: Any, base: Any = None) -> Any:
        """Refused: every learner measures features in scales of its own."""
        raise OptionError(
            "merge: auto learners of many classes cannot be merged. "
            "Learn the stream in one place, or merge rfd-son learners on features scaled beforehand."
        )

    def state_bytes(self) -> dict[str, int]:
        """Memory: ``packed`` for the features seen, ``total`` for everything held."""
        held = (*self._common, *self._pool, *self._table)
        total = sum(array.nbytes for array in held) + self._map.nbytes
        return {"packed": sum(array.nbytes for array in self._table), "total": total}

    def _header(self) -> dict[str, Any]:
        header = {"class": "SoftmaxAuto", "n_classes": self.n_classes, "width": self.n_features, "way": self.way}
        return {**header, "ridges": [*RIDGES, *ESCAPED], **self._made_with}

    def _arrays(self) -> Arrays:
        return arrays_of(self._map.features, self._common, self._pool, self._table)

    def _restore(self, arrays: Arrays, header: Mapping[str, Any]) -> None:
        state = restored_state(arrays, str(header["way"]), self.n_classes, self.options.sketch_size, self._dtype)
        features, self._common, self._pool, self._table = state
        self._map.refill(features)
        self._width = int(header["width"])
        if header.get("ridges") != [*RIDGES, *ESCAPED]:  # the inverses are made anew before the next row
            self._common.running[RUNNING.used] = 0.0


def _features_needed(indptr: NDArray[np.int64], slots: NDArray[np.int32]) -> NDArray[np.int64]:
    """Rows of a table that each row and those before it need, the constant feature's included."""
    tops = np.zeros(len(slots) + 1, np.int64)
    np.maximum.accumulate(slots + 1, out=tops[1:])
    needed: NDArray[np.int64] = tops[indptr[1:]] + 1
    return needed
