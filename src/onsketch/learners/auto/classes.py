"""The learner without tuning for many classes: one output for each, calibrated together."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays, named, require, take, under
from onsketch.core.errors import OnsketchError, OptionError, UpdateError
from onsketch.core.losses import LOSSES
from onsketch.core.memory import refuse_beyond_memory
from onsketch.learners.auto.drifting import RATES, DriftingLearner, mix_classes
from onsketch.learners.auto.learner import Core
from onsketch.learners.auto.merging import merge, reordered
from onsketch.learners.auto.state import EXPERT_NAMES, RUN, Setup
from onsketch.learners.base import _chunks
from onsketch.learners.methods import METHODS, Method
from onsketch.learners.multiclass.base import ManyClasses, as_codes
from onsketch.learners.options import own_loss, refuse_own_size, resolve
from onsketch.learners.rows import Rows, as_rows, as_weights, finite, refuse_endless

Floats = NDArray[np.float64]

CONCERNS = frozenset({"n_features", "sketch_size", "fit_intercept", "dtype", "seed", "loss", "clip", "forget"})
"""Options of the core learner that mean something here."""


class AutoClasses(ManyClasses):
    """Multinomial logistic regression in one pass, whatever the features' units or the classes.

    ``learn`` and ``predict`` return log-probabilities, (rows, K). A class may be added at any time.
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
        self.open_ended = open_ended
        given = {"fit_intercept": True, **options, "loss": "logistic"}
        self.options = resolve(method, CONCERNS, {"sketch_size": 20}, {**given, "clip": None})
        setup = Setup(
            loss=LOSSES["logistic"].form, signs=False, real=False, counts=False, intercept=self.options.fit_intercept,
            bounded=False, clip=math.inf, forget=1.0, largest=1e100,
        )  # fmt: skip
        rates = RATES if self.options.forget == "auto" else (float(self.options.forget),)
        directions, dtype = self.options.sketch_size, self.options.dtype
        self._cores = [Core(setup._replace(forget=rate), (), directions, n_classes, dtype) for rate in rates]
        self._shares = np.full(len(rates), 1.0 / len(rates))
        self._width = self.options.n_features or 0

    @property
    def _core(self) -> Core:
        """The learner that forgets least."""
        return self._cores[0]

    @property
    def method(self) -> Method:
        """Its entry among the methods."""
        return METHODS[self._made_with["method"]]

    @property
    def loss(self) -> str:
        """The log loss of all classes at once."""
        return "softmax"

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self._core.state.running[RUN.classes])

    @property
    def features_seen(self) -> int:
        """Number of features seen so far."""
        return self._core.map.count

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
        out = np.empty((rows.count, self.n_classes))
        codes, weights = np.ascontiguousarray(labels, np.float64), np.ascontiguousarray(weights, np.float64)
        width, self._width = self._width, max(self._width, rows.n_features)
        for start, stop in _chunks(rows):
            part = slice(start, stop)
            done = start + self._learn(rows.part(start, stop), codes[part], weights[part], out[part])
            if done < stop:
                if done == 0:
                    self._width = width
                raise UpdateError("auto, many classes", done, out[:done])
        return out

    def _learn(self, rows: Rows, codes: Floats, weights: Floats, out: Floats) -> int:
        first, *others = self._cores
        if not others:
            return _taught(first, rows, codes, weights, out)
        each = np.empty((len(self._cores), *out.shape))
        done = _taught(first, rows, codes, weights, each[0])
        part = rows.part(0, done)
        for r, core in enumerate(others, 1):
            learned = _taught(core, part, codes[:done], weights[:done], each[r, :done]) if done else 0
            if learned < done:  # what it cannot learn, it takes over from the one that forgets nothing
                each[r, learned:done] = each[0, learned:done]
                self._cores[r] = copy.deepcopy(first)
                self._cores[r].setup = core.setup
        mix_classes(each, codes[:done].astype(np.int64), weights[:done], self._shares, out[:done])
        return done

    def predict(self, X: Any) -> Floats:
        """The log-probabilities (rows, K); the state does not change."""
        rows = as_rows(X, self.options.n_features)
        out = np.empty((len(self._cores), rows.count, self.n_classes))
        for start, stop in _chunks(rows):
            part = rows.part(start, stop)
            for core, found in zip(self._cores, out, strict=True):
                core.predict(core.map.translate(part, learn=False), found[start:stop])
        if len(self._cores) == 1:
            return finite(out[0])
        return finite(np.log(np.maximum(np.einsum("r,rik->ik", self._shares, np.exp(out)), 1e-300)))

    def predict_proba(self, X: Any) -> Floats:
        """The probabilities (rows, K)."""
        return np.asarray(np.exp(self.predict(X)))

    @property
    def share_names(self) -> tuple[str, ...]:
        """Names of the shares: the rates of forgetting, or the experts."""
        return DriftingLearner.share_names if len(self._cores) > 1 else EXPERT_NAMES

    @property
    def shares(self) -> Floats:
        """How much each rate of forgetting counts, or the coefficients of the experts in the pool's stack."""
        return self._shares.copy() if len(self._cores) > 1 else self._core.pool.coefficients()

    @property
    def weights(self) -> Floats:
        """(K, d): the linear part of the margins, for rows of typical length; see ``intercept``."""
        refuse_beyond_memory(
            self.n_classes * self.n_features, f"weights of {self.n_classes} classes × {self.n_features:,} features"
        )
        weights = np.zeros((self.n_classes, self.n_features))
        for share, core in zip(self._shares, self._cores, strict=True):
            weights[:, core.map.features] += share * self._margins(core)[0].T
        return weights

    @property
    def intercept(self) -> Floats:
        """(K,): what is added to ``X @ weights.T``.

        The sum is the margin of the stack for a row of typical length. Other rows are brought to that length, values
        are cut at ten scales, and the pool makes probabilities of the margins.
        """
        return np.asarray(sum(s * self._margins(core)[1] for s, core in zip(self._shares, self._cores, strict=True)))

    def _margins(self, core: Core) -> tuple[Floats, Floats]:
        """Return the stack's coefficients of the features seen (features, K) and its constants (K,)."""
        (weights, constant), mix = core.linear(), core.pool.coefficients()
        margins = np.einsum("jok,o->jk", weights, mix), mix @ constant + core.pool.biases
        return margins[0][:, : self.n_classes], margins[1][: self.n_classes]

    def add_class(self) -> int:
        """Make room for a class not met so far, which starts from zero weights; returns its code."""
        if not self.open_ended:
            raise OptionError("this model knows its classes; make it with open_ended=True for more to appear.")
        code = self.n_classes
        for core in self._cores:
            core.set_classes(code + 1)
        return code

    def drop_class(self) -> None:
        """Forget the class that was added last, of which no row has been learned."""
        for core in self._cores:
            core.state.running[RUN.classes] -= 1

    def merge(self, other: Any, codes: Sequence[int] | None = None) -> Self:
        """Take in what another one has learned from other rows; the other is left as it was.

        Args:
            other: a learner with the same options.
            codes: the code here of each class of the other; left out, the classes have the same codes.
        """
        if not isinstance(other, AutoClasses) or replace(self.options, seed=0) != replace(other.options, seed=0):
            raise OptionError("merge: the other must be a learner of classes of the same method and options.")
        if self.options.forget != 1.0:
            raise OptionError("merge: learners that forget cannot be merged, for neither stream came first.")
        mine, theirs = copy.deepcopy(self), copy.deepcopy(other)
        known = list(range(theirs.n_classes) if codes is None else codes)
        count = max(mine.n_classes, *(code + 1 for code in known))
        for twin in (mine, theirs):
            while twin.n_classes < count:
                twin.add_class()
        places = np.argsort([*known, *(code for code in range(count) if code not in known)])
        one, two = reordered(mine._core, np.arange(count)), reordered(theirs._core, places)
        if one.rounds == 0:
            one = two
        elif two.rounds:
            try:
                merge(one, two, Core(one.setup, (), one.directions, count, self.options.dtype))
            except np.linalg.LinAlgError as error:
                raise OnsketchError(f"merge: a metric is singular ({error}).") from None
        self._cores, self._width = [one], max(self._width, other._width)
        return self

    def state_bytes(self) -> dict[str, int]:
        """Memory: what is kept for the features seen; and everything."""
        sizes = [core.nbytes() for core in self._cores]
        return {name: sum(size[name] for size in sizes) for name in sizes[0]}

    def _header(self) -> dict[str, Any]:
        return {"class": "AutoClasses", "n_classes": self.n_classes, "width": self.n_features, **self._made_with}

    def _arrays(self) -> Arrays:
        if len(self._cores) == 1:
            return self._core.arrays()
        arrays: Arrays = {"shares": self._shares}
        for r, core in enumerate(self._cores):
            arrays |= named(f"rate{r}", core.arrays())
        return arrays

    def _restore(self, arrays: Arrays, header: Mapping[str, Any]) -> None:
        self._width = int(header["width"])
        if len(self._cores) == 1:
            self._core.restore(arrays, self._width)
        else:
            self._shares = take(arrays, "shares", np.float64, (len(RATES),))
            require(bool((self._shares >= 0).all()) and 0.99 < self._shares.sum() < 1.01, "its shares are impossible")
            for r, core in enumerate(self._cores):
                core.restore(under(f"rate{r}", arrays), self._width)
                same = core.rounds == self.rounds and np.array_equal(core.map.features, self._core.map.features)
                require(same, "its rates of forgetting have not learned the same")
        for core in self._cores:
            known = core.state.running[RUN.classes] == header["n_classes"]
            require(bool(known), "it counts other classes than its header", "running")


def _taught(core: Core, rows: Rows, codes: Floats, weights: Floats, out: Floats) -> int:
    """Let a core learn rows; returns how many."""
    try:
        return core.learn(core.map.translate(rows, learn=True), codes, weights, out)
    finally:  # features of rows that were not learned have not been seen
        core.map.forget(int(core.state.running[RUN.seen]))
