"""The interface of all linear learners: learn, predict, weights, leverage, merge."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from operator import index
from typing import TYPE_CHECKING, Any, Self
from weakref import proxy

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import Arrays
from onsketch.core.errors import InputError, OnsketchError, OptionError, UpdateError
from onsketch.core.interrupts import uninterrupted
from onsketch.core.losses import loss_of
from onsketch.core.memory import refuse_beyond_memory
from onsketch.core.rwlock import Locked, reading, together
from onsketch.core.tolerances import LARGEST
from onsketch.files import model_file
from onsketch.learners.features import INTERCEPT
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Linear, Rows, as_labels, as_rows, as_weights, finite, refuse_endless
from onsketch.learners.single import MOST, OneRow, RowPlan, SingleRows
from onsketch.rows.sparse import Sparse

if TYPE_CHECKING:
    from onsketch.learners.certificate import Certificate

_CHUNK = 1 << 18
"""Values passed to a compiled loop at a time. This bounds the working memory and does not change results."""
_MANY = 256
"""Number of dense rows from which writing out all weights before predicting them is faster."""


class Learner(Locked, ABC):
    """An online linear learner. Made by :func:`onsketch.learner` or :func:`onsketch.compose`.

    It may be used from several threads: one learns at a time, and any number predict meanwhile (``core/rwlock.py``).

    Subclasses hold the state and implement the underscored methods, which are called while the lock is held.
    """

    reads = (
        "spectrum", "directions", "state_bytes", "shared", "certificate", "shares", "expansion", "diagnostics",
        "history",
    )  # fmt: skip

    def __init__(self, method: Method, options: Options) -> None:
        self.method = method
        self.options = options
        self._loss = loss_of(options)
        self._width = options.n_features or 0

    def __repr__(self) -> str:
        return f"<onsketch learner {self.method.name}, {self.rounds} rounds, {self.n_features} features>"

    @property
    @abstractmethod
    def rounds(self) -> int:
        """Rounds played: rows learned."""

    @property
    def n_features(self) -> int:
        """Width of the widest row seen, or as given."""
        return self._width

    @property
    def loss(self) -> str:
        """The loss this learner minimises, with its level where it has one."""
        return self._loss.key

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> NDArray[np.float64]:
        """Learn from these rows, one after the other, in one pass.

        Args:
            X: (rows, features), an array or a SciPy sparse matrix.
            y: the labels; −1 and +1 for logistic, hinge and squared hinge, numbers from 0 on for Poisson.
            sample_weight: c ≥ 0 per row; the gradient becomes c·ℓ'(z)·x.

        Returns:
            the (clipped) margin predicted for each row *before* it was learned.

        Raises:
            InputError: something in the input is not finite, of the wrong shape or no label; nothing was learned.
            UpdateError: a row's update would not be finite; the rows before it have been learned, it has not.
        """
        if type(X) is Sparse and X.shape[0] == len(y) == 1:  # of the encoder, for example of a request
            weight = 1.0 if sample_weight is None else sample_weight[0]
            margin = self._learn_alone(X.indices.tolist(), X.data.tolist(), y[0], weight, X.shape[1])
            if margin is not None:
                return np.array([margin])
        rows = as_rows(X, self.options.n_features)
        labels = as_labels(y, rows.count, self._loss)
        return self.learn_checked(rows, labels, as_weights(sample_weight, rows.count))

    def learn_checked(
        self, rows: Rows, labels: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """As ``learn``, for input that ``as_rows``, ``as_labels`` and ``as_weights`` have checked already."""
        count = rows.count
        # compiled loops rely on type and layout, and would read out of bounds
        labels, weights = np.ascontiguousarray(labels, np.float64), np.ascontiguousarray(weights, np.float64)
        if not labels.shape == weights.shape == (count,):
            raise InputError(f"y, sample_weight: shapes {labels.shape}, {weights.shape} for {count} rows.")
        if _is_single(rows):
            margin = self._learn_alone(*rows.entries(), labels.item(), weights.item(), rows.n_features)
            if margin is not None:
                return np.array([margin])
        predictions = np.empty(count)
        lock = self.lock
        with lock.writer:
            played, width = self.rounds, self._width
            refuse_endless(played, count)
            for start, stop in _chunks(rows):
                with lock.writing:  # readers, and Ctrl-C, have their chance between two blocks
                    self._width = max(width, rows.n_features)
                    try:
                        if stop - start == count:
                            done = self._learn(rows, labels, weights, predictions)
                        else:
                            part = slice(start, stop)
                            block = rows.part(start, stop), labels[part], weights[part], predictions[part]
                            done = start + self._learn(*block)
                    except BaseException:
                        if start == 0 and self.rounds == played:
                            self._width = width
                        raise
                    if done == 0 < stop:
                        self._width = width
                if done < stop:
                    raise UpdateError(f"method {self.method.name}, loss {self.loss}", done, predictions[:done])
        return predictions

    @property
    def single(self) -> SingleRows:
        """Prepared calls for single rows; no part of the state."""
        try:
            found: SingleRows = self._single
        except AttributeError:
            found = self._single = SingleRows(proxy(self))  # a reference would keep the learner in memory
        return found

    def learn_one(
        self, features: Sequence[int], values: Sequence[float], label: float, sample_weight: float = 1.0
    ) -> float:
        """Learn one row, given by its features and their values; all others are 0.

        The result is that of ``learn`` on a sparse row, in a tenth of the time. A learner without this fast path
        (dense matrices, kernels) uses ``learn``.

        Returns:
            the (clipped) margin predicted before the row was learned.

        >>> import onsketch
        >>> model = onsketch.learner("adagrad", loss="logistic")
        >>> for _ in range(20):
        ...     margin = model.learn_one([2, 5], [1.0, 0.5], 1.0)
        >>> model.predict_one([2, 5], [1.0, 0.5]) > margin > 0.0
        True
        """
        width = self._width_of(features)
        margin = self._learn_alone(features, values, label, sample_weight, width) if width else None
        if margin is None:
            margin = float(self.learn(_as_sparse(features, values, width), [label], [sample_weight])[0])
        return margin

    def predict_one(self, features: Sequence[int], values: Sequence[float]) -> float:
        """The clipped margin of one row, given as for ``learn_one``; the state does not change."""
        width = self._width_of(features)
        margin = self.single.predict(features, values, sort=False) if width else None
        return float(self.predict(_as_sparse(features, values, width))[0]) if margin is None else margin

    def _learn_alone(
        self, features: Sequence[int], values: Sequence[float], label: float, weight: float, width: int
    ) -> float | None:
        """Learn a row by prepared calls; None if it needs the general path."""
        fits = self._loss.takes(label) and 0.0 <= weight <= LARGEST and self._is_wide(width)
        return self.single.learn(features, values, label, weight, width, sort=False) if fits else None

    def _is_wide(self, width: int) -> bool:
        """Return True if rows may have this width."""
        return self.options.n_features in (None, width)

    def _width_of(self, features: Sequence[int]) -> int:
        """The width of a row with these features; 0 if there is none, or one that is out of range."""
        low, high = min(features, default=-1), max(features, default=-1)
        width = self.options.n_features or high + 1
        return width if 0 <= low <= high < width else 0

    def shared(self, rows: Rows, *, learn: bool) -> Rows:
        """The rows as learners can share them that have seen the same rows as this one; see ``FeatureMap.shared``."""
        return rows

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The clipped margins of these rows; the state does not change."""
        if type(X) is Sparse and X.shape[0] == 1 and self._is_wide(X.shape[1]):
            margin = self.single.predict(X.indices.tolist(), X.data.tolist(), sort=False)
            if margin is not None:
                return np.array([margin])
        rows = as_rows(X, self.options.n_features)
        if _is_single(rows):
            margin = self.single.predict(*rows.entries(), sort=False)
            if margin is not None:
                return np.array([margin])
        chunks = _chunks(rows)
        with self.lock.reading:
            linear = self._linear() if rows.dense and rows.count >= _MANY else None
            predict = self._predict if linear is None else linear.margins
            if len(chunks) == 1:
                return finite(predict(rows))
            predictions = np.empty(rows.count)
            for start, stop in chunks:
                uninterrupted.check()
                predictions[start:stop] = predict(rows.part(start, stop))
        return finite(predictions)

    def leverage(self, X: Any) -> NDArray[np.float64]:
        """Return x·A⁻¹x of each row under the learner's current metric A; it is large for rows unlike those seen."""
        if self.method.geometry not in ("newton", "mixture"):
            raise OptionError(f"{self.method.name}: leverage is for methods of Newton geometry.")
        rows = as_rows(X, self.options.n_features)
        leverages = np.empty(rows.count)
        with self.lock.reading:
            for start, stop in _chunks(rows):
                uninterrupted.check()
                try:
                    leverages[start:stop] = self._leverage(rows.part(start, stop))
                except np.linalg.LinAlgError as error:
                    raise OnsketchError(f"leverage: {self.method.name}: the metric is singular ({error}).") from None
        return leverages

    @property
    def ridge(self) -> float:
        """The ridge of the metric as it is now; 0 where the method has none."""
        return self.options.ridge or 0.0

    @property
    def escaped(self) -> float:
        """Σρ: what the sketch has shrunk away so far."""
        return 0.0

    def certificate(self, comparator: Any = None, X: Any = None, y: Any = None, margins: Any = None) -> Certificate:
        """Return the regret bound proved for the rows seen so far, and the bound of the sketch's error.

        Args:
            comparator: weights w to compare with; left out, the bound is for the norm of the learner's own weights.
            X: the rows learned, for the regret against the comparator, with
            y: their labels and
            margins: what ``learn`` returned for them.

        >>> import numpy as np, onsketch
        >>> X, y = onsketch.data.ill_conditioned(200, 20, condition=3, seed=0)
        >>> model = onsketch.learner("fd-son", sketch_size=3, ridge=1.0)
        >>> margins = model.learn(X, y)
        >>> proof = model.certificate(np.full(20, 0.01), X, y, margins)
        >>> proof.theorem
        'Luo et al. 2016, Theorem 3'
        >>> proof.regret <= proof.regret_bound
        True
        """
        from onsketch.learners.certificate import certify

        with self.lock.reading:
            return certify(self, comparator, X, y, margins)

    def spectrum(self) -> NDArray[np.float64]:
        """Return the eigenvalues of the absorbed matrix, as far as the summary keeps them, in descending order."""
        raise OptionError(f"{self.method.name} keeps no summary with a spectrum.")

    def directions(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        """Return the main directions of the absorbed matrix: energies, features, vectors.

        Energies (k,) are descending. Features (n,) are those seen (−1: the constant), and vectors (k, n) have a unit
        vector over them in each row. They are in the coordinates of the sketch, that is, of scaled features if the
        learner scales features.
        """
        raise OptionError(f"{self.method.name} keeps no sketch with directions.")

    @property
    @reading
    def weights(self) -> NDArray[np.float64]:
        """The weights of all features, dense; the unprojected iterate, or the mean of iterates with ``average``."""
        features, values = self._finite_coefficients()
        refuse_beyond_memory(
            self.n_features, f"weights of {self.n_features:,} features (coefficients() gives those seen)"
        )
        weights = np.zeros(self.n_features)
        seen = features != INTERCEPT
        weights[features[seen]] = values[seen]
        return weights

    @property
    @reading
    def intercept(self) -> float:
        """The weight of the constant feature of ``fit_intercept``."""
        features, values = self._finite_coefficients()
        return float(values[features == INTERCEPT].sum())

    @reading
    def coefficients(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The features seen, ascending, and their weights: what ``weights`` holds, without the zeros between."""
        features, values = self._finite_coefficients()
        order = np.argsort(features)
        order = order[features[order] != INTERCEPT]
        return features[order], values[order]

    def _finite_coefficients(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        features, values = self._coefficients()
        if not np.isfinite(values).all():
            raise OnsketchError(f"{self.method.name}: a weight is beyond what float64 can hold.")
        return features, values

    def merge(self, other: Learner, base: Learner | None = None) -> Self:
        """Take in what another learner has learned from other rows; in place, the other is left as it was.

        Args:
            other: a learner of the same method and options.
            base: the learner both started from; left out, both started from nothing.
        """
        if self is other:
            raise OptionError("merge: a learner cannot take in itself.")
        for role, learner in (("other", other), ("base", base)):
            if learner is None and role == "base":
                continue
            if not isinstance(learner, type(self)) or self.method != learner.method:
                raise OptionError(f"merge: a {self.method.name} learner cannot take in {learner!r} ({role}).")
            if replace(self.options, seed=0) != replace(learner.options, seed=0):
                raise OptionError(f"merge: {role} must have the same options (except for the seed).")
        if self.options.forget != 1.0:
            raise OptionError("merge: learners that forget cannot be merged, for neither stream came first.")
        with together(self, other, *([] if base is None else [base])):
            if base is not None and base.rounds > min(self.rounds, other.rounds):
                raise OptionError("merge: the base has learned more rows than a learner said to start from it.")
            merged = copy.deepcopy(self)  # first, so that the state is unchanged if memory runs out
            try:
                merged._merge(other, base)
            except np.linalg.LinAlgError as error:
                raise OnsketchError(f"merge: {self.method.name}: a metric is singular ({error}).") from None
            merged._width = max(self._width, other._width)
            vars(self).update(vars(merged))
        return self

    @reading
    def fork(self, seed: int | None = None) -> Self:
        """Return an independent copy that continues from here, to be merged with this one as the ``base``.

        Args:
            seed: for random sketches (``rp-son``, ``ada-gp``, ``ada-dp``), whose forks must draw independently.
        """
        options = self.options if seed is None else replace(self.options, seed=seed)
        twin = type(self)(self.method, options)
        twin._width = self._width
        twin._restore(self._arrays())
        return twin

    @reading
    def save(self, path: model_file.PathLike, notes: Mapping[str, Any] | None = None) -> None:
        """Write the learner to a model file, atomically; ``onsketch.load`` restores it bit for bit.

        Args:
            path: the file, replaced if it exists.
            notes: JSON data to store with it, such as the origin of the data.
        """
        model_file.write(path, "learner", self._header(), self._arrays(), notes)

    def _header(self) -> dict[str, Any]:
        parts = {"name": self.method.name, "sketch": self.method.sketch, "geometry": self.method.geometry}
        concerned = {name: value for name, value in asdict(self.options).items() if name in self.method.concerns}
        return {"method": parts, "options": concerned, "n_features": self._width, "rounds": self.rounds}

    @abstractmethod
    def state_bytes(self) -> dict[str, int]:
        """Memory: ``packed`` for the features seen, ``total`` for everything held."""

    @abstractmethod
    def _learn(
        self, rows: Rows, labels: NDArray[np.float64], weights: NDArray[np.float64], out: NDArray[np.float64]
    ) -> int:
        """Learn checked rows, filling the predictions; returns how many were learned."""

    @abstractmethod
    def _predict(self, rows: Rows) -> NDArray[np.float64]: ...

    def _linear(self) -> Linear | None:
        """Return the weights by which many dense rows are predicted; None if ``_predict`` has to."""
        return None

    @abstractmethod
    def _leverage(self, rows: Rows) -> NDArray[np.float64]: ...

    def _shift(self, change: NDArray[np.float64]) -> None:
        """Add to the weights, in the order of ``_coefficients``."""
        raise NotImplementedError

    def _divide_labels(self, unit: float) -> None:
        """Learn labels that come divided by ``unit`` from now on: an ε of the loss is divided by it, too."""
        raise NotImplementedError

    def learning_row(self, row: OneRow) -> RowPlan | None:
        """The stages that learn a prepared row; None if rows of this learner always take the general path."""
        return None

    def predicting_row(self, row: OneRow) -> RowPlan | None:
        """The stages that predict a prepared row."""
        return None

    @abstractmethod
    def _coefficients(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Features seen (INTERCEPT for the constant one) and their weights."""

    @abstractmethod
    def _merge(self, other: Any, base: Any) -> None: ...

    def _arrays(self) -> Arrays:
        """Return the declared state: everything that the method, the options and the width do not give."""
        return state.pack(self)

    def _restore(self, arrays: Arrays) -> None:
        """Fill a new learner, or raise a ModelFileError for a state that no sequence of rows can produce.

        Compiled loops have no bounds checks: every index, count and epoch that they use must be checked before one of
        them runs.
        """
        state.unpack(self, arrays)

    @classmethod
    def room(cls, method: Method, options: Options) -> int:
        """Return the bytes needed to build a learner, checked before a file's options are used."""
        return 0


def _as_sparse(features: Sequence[int], values: Sequence[float], width: int) -> Sparse:
    """One row as a sparse matrix."""
    width = width or max(features, default=-1) + 1
    try:
        indices = np.array([index(feature) for feature in features], np.int64)
        return Sparse(np.array(values, float), indices, np.array([0, len(indices)]), (1, width))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"a row of features and their values: {error}.") from None


def _is_single(rows: Rows) -> bool:
    """Return True for a single row that prepared calls may take."""
    return rows.count == 1 and int(rows.indptr[1] - rows.indptr[0]) <= MOST


def _chunks(rows: Rows) -> list[tuple[int, int]]:
    """Stretches of rows of about _CHUNK values."""
    count = rows.count
    if count > 0 and rows.indptr[count] - rows.indptr[0] <= _CHUNK:
        return [(0, count)]
    edges = [0]
    while edges[-1] < rows.count:
        goal = rows.indptr[edges[-1]] + _CHUNK
        stop = int(np.searchsorted(rows.indptr, goal, side="right")) - 1
        edges.append(min(max(stop, edges[-1] + 1), rows.count))
    return list(zip(edges[:-1], edges[1:], strict=True))
