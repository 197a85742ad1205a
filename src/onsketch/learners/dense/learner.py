"""Learners that can only be dense: an explicit weight for every feature, and a summary to match.

Exact matrices, random maps of all coordinates, and composite terms in a metric that is not diagonal.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import Arrays, require, take
from onsketch.core.errors import OptionError
from onsketch.core.losses import in_unit
from onsketch.core.memory import refuse_beyond_memory
from onsketch.jit.decorators import kernel
from onsketch.learners.base import Learner
from onsketch.learners.dense.exact_newton import ExactNewton
from onsketch.learners.dense.iterate import Array, Engine, Iterate, new_iterate, widened
from onsketch.learners.dense.spectral_rounds import SpectralRounds
from onsketch.learners.features import INTERCEPT
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Rows
from onsketch.learners.sketched.driver import FIRST_DIAGONAL

FREE_CONSTANT = 1e5
"""The constant feature where ``ons`` is ridge regression: the penalty of its weight is 1e-10 of the others'."""

MOST_FEATURES = 20_000
"""Methods that hold d×d numbers refuse to go beyond this d."""

MOST_COMPOSITE = 2_000
"""Sketched methods with l1, l2 or box are dense, and do not grow beyond this d by themselves."""

_PIECE = 1 << 20
"""Numbers of sparse rows made dense at a time."""


class DenseLearner(Learner):
    """A learner with dense weights, one number per feature.

    - ``ons``: the exact matrix and Newton's step (exact_newton.py), O(d²) a round;
    - ``ada-full``, ``ada-lr``, ``radagrad``: AdaGrad with dense summaries (summaries.py, fourier.py);
    - any AdaGrad method whose metric is not diagonal, with l1, l2 or box (composite.py): every weight moves in every
      round. Beyond 2,000 features such a learner needs ``n_features``.

    Rows may come sparse, but are made dense. Without ``n_features`` the learner grows with the stream, new features
    having only the ridge; the random maps of ``ada-lr`` and ``radagrad`` are then drawn again. The constant feature of
    ``fit_intercept`` is coordinate 0 inside. If ``ons`` is recursive least squares (squared loss, curvature rows, no
    clip) it is so large that the intercept is almost unpenalised: a constant added to all labels does not matter.
    Otherwise it is 1. ``dtype="float32"`` concerns the weights and the sums of weights and gradients; matrices and
    sketches stay float64.

    Merging adds the summaries and takes precision-weighted weights: see ``ExactNewton.merge``, which can be
    exact, and ``SpectralRounds.merge``. With ``diagonal`` there is no merging.
    """

    _iterate: Annotated[Iterate, state.Part()]
    _engine: Annotated[Engine, state.Part()]

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        _refuse_singular(method, options)
        if options.step == "implicit":
            raise OptionError(
                f"{method.name} is dense here (l1, l2, box, or its sketch), and dense learners have explicit steps; "
                "leave out step='implicit'.",
                step="implicit",
            )
        if options.n_features is not None:
            self._refuse_large(options.n_features)
        self._constant = int(options.fit_intercept)
        exact_newton = method.square and method.newton
        least_squares = exact_newton and options.loss == "squared" and options.summary == "curvature"
        free = least_squares and options.clip is None and options.update == "mirror" and not options.diagonal
        self._one = FREE_CONSTANT if free else 1.0
        self._engine = ExactNewton(method, options) if exact_newton else SpectralRounds(method, options)
        self._iterate = new_iterate(options)
        if options.n_features is not None:
            self._widen(options.n_features)

    @property
    def rounds(self) -> int:
        """Rounds played: rows learned."""
        return int(self._iterate.clock[0])

    @property
    def _known(self) -> int:
        """Number of features that fit."""
        return max(self._iterate.weights.size - self._constant, 0)

    def _refuse_large(self, width: int) -> None:
        if self.method.kind.instead and width > MOST_FEATURES:
            matrices = 2 if self.method.geometry != "newton" or self.options.ridge == 0.0 else 1
            raise OptionError(
                f"{self.method.name} can only be dense: for {width:,} features it would need "
                f"{8e-9 * matrices * width * width:,.1f} GB, and it stops at {MOST_FEATURES:,} features. "
                f"Use {self.method.kind.instead}, whose memory is linear in the features."
            )

    def _widen(self, width: int) -> None:
        """Grow for rows of this width, or refuse before anything is allocated."""
        try:
            self._refuse_large(width)
            refuse_beyond_memory(width * self.options.sketch_size, f"{self.method.name}: weights of {width:,} features")
        except ValueError:
            self._width = self._known  # as before the rows that are refused
            raise
        inside = max(width + self._constant, 1)
        if inside > self._iterate.weights.size:
            self._engine = self._engine.widened(inside)
            self._iterate = widened(self._iterate, inside, self.options)

    def _refuse_costly(self, width: int) -> None:
        """Refuse to grow a sketched method that composite terms made dense, and name the cost."""
        large = width > MOST_COMPOSITE and width > self._known
        if large and not self.method.square and self.options.n_features is None:
            self._width = self._known
            raise OptionError(
                f"{self.method.name} with l1, l2, box or oja_block moves every weight in every row: a row costs the "
                f"sketch size times {width:,} features, not times its non-zeros (70 times the time at 2,000 features, "
                f"395 times at 20,000). It stops at {MOST_COMPOSITE:,} features unless you ask for it with "
                f"n_features={width!r}. "
                "adagrad and ftrl take l1 and l2 at the cost of the non-zeros.",
                n_features=width,
            )

    def _shift(self, change: Array) -> None:
        change[: self._constant] /= self._one
        self._iterate.weights[: change.size] += change

    def _divide_labels(self, unit: float) -> None:
        self._engine.setup = self._engine.setup._replace(loss=in_unit.py_func(self._loss.form, unit))

    def _learn(self, rows: Rows, labels: Array, weights: Array, out: Array) -> int:
        self._refuse_costly(rows.n_features)
        played, wider, before = self.rounds, rows.n_features > self._known, (self._engine, self._iterate)
        done = 0
        try:
            self._widen(rows.n_features)
            for X in self._blocks(rows, self._iterate.weights.size):
                part = slice(done, done + len(X))
                learned = self._engine.learn(self._iterate, X, labels[part], weights[part], out[part])
                done += learned
                if learned < len(X):
                    break
        finally:
            if wider and self.rounds == played:  # no row with the new features was learned
                self._engine, self._iterate = before
        return done

    def _blocks(self, rows: Rows, width: int) -> Iterator[Array]:
        """The rows as dense blocks of this width, the constant feature in front."""
        if rows.dense and rows.n_features == width and not self._constant:
            yield rows.toarray()
            return
        step = max(1, _PIECE // max(width, 1))
        for start in range(0, rows.count, step):
            piece = rows.part(start, min(start + step, rows.count))
            block = np.zeros((piece.count, width))
            block[:, : self._constant] = self._one
            block[:, self._constant : self._constant + rows.n_features] = piece.toarray()
            yield block

    def _predict(self, rows: Rows) -> Array:
        weights = self._mean()
        clip = self.options.clip if isinstance(self.options.clip, float) else np.inf
        if self.options.projection == "after":
            clip = np.inf
        intercept = self._one * float(weights[:1].sum()) if self._constant else 0.0
        predictions = np.empty(rows.count)
        _margins(rows.indptr, rows.indices, rows.values, rows.dense, weights[self._constant :], intercept, predictions)
        return np.clip(predictions, -clip, clip)

    def _leverage(self, rows: Rows) -> Array:
        known = self._iterate.weights.size
        width = max(known, rows.n_features + self._constant)
        refuse_beyond_memory(width, f"leverage: rows of {width:,} features")
        leverages = [np.empty(0)]
        for X in self._blocks(rows, width):
            if self.options.diagonal:
                X = X / np.sqrt(FIRST_DIAGONAL + np.pad(self._iterate.diagonal, (0, width - known)))
            unseen = np.einsum("ij,ij->i", X[:, known:], X[:, known:])
            with np.errstate(divide="ignore", invalid="ignore"):
                alone = np.where(unseen > 0.0, unseen / np.float64(self.options.ridge), 0.0)
            leverages.append(self._engine.leverage(np.ascontiguousarray(X[:, :known])) + alone)
        return np.concatenate(leverages)

    def _mean(self) -> Array:
        """The weights in the original coordinates: the iterate's, or the mean of all iterates."""
        iterate = self._iterate
        weights = iterate.weights.astype(np.float64)
        if self.options.average and self.rounds:
            weights = iterate.total.astype(np.float64) / self.rounds
        if self.options.diagonal:
            weights = weights / np.sqrt(FIRST_DIAGONAL + iterate.diagonal)
        return weights

    def _coefficients(self) -> tuple[NDArray[np.int64], Array]:
        weights = self._mean()
        features = np.arange(weights.size) - self._constant
        if self._constant:
            features[:1] = INTERCEPT
            weights[:1] *= self._one
        seen = features < self.n_features
        return features[seen], weights[seen]

    def spectrum(self) -> Array:
        """The eigenvalues of the matrix or of its approximation, descending."""
        return np.sort(self._engine.spectrum(self._one))[::-1]

    def state_bytes(self) -> dict[str, int]:
        """Memory: ``packed`` for the vectors of one number per feature, ``total`` with the summary."""
        return {"packed": state.nbytes(self._iterate), "total": state.nbytes(self)}

    def _merge(self, other: Any, base: Any) -> None:
        if self.options.diagonal:
            raise OptionError(
                "merge: with diagonal=True each learner has its own coordinates, which cannot be merged.", diagonal=True
            )
        if base is None:
            base = type(self)(self.method, self.options)
        width = max(self._known, other._known, base._known)
        other, base = copy.deepcopy(other), copy.deepcopy(base)
        for learner in (self, other, base):
            learner._widen(width)
        mine, theirs, common = self._iterate, other._iterate, base._iterate
        merged = mine._replace(
            total=mine.total + theirs.total - common.total,
            gradient_sum=mine.gradient_sum + theirs.gradient_sum - common.gradient_sum,
            clock=mine.clock + theirs.clock - common.clock,
        )
        weights = self._engine.merge(merged, other._engine, theirs, base._engine, common)
        self._iterate = merged._replace(weights=weights.astype(self.options.dtype))

    @classmethod
    def room(cls, method: Method, options: Options) -> int:
        """Return the bytes of a new learner, and of one with the number of features in the file."""
        width = (options.n_features or 0) + 1
        kept = min(width, MOST_FEATURES) if method.kind.instead else 2 * options.sketch_size + 1
        return 8 * 2 * kept * width

    def _restore(self, arrays: Arrays) -> None:
        size = take(arrays, "iterate.weights", self.options.dtype, (None,)).size
        fits = size <= max(self._width + self._constant, 1)  # rows may have been wider than their non-zeros
        require(fits, "its weights are more than its features", "iterate.weights")
        if size:
            self._widen(max(size - self._constant, 0))
        super()._restore(arrays)


def _refuse_singular(method: Method, options: Options) -> None:
    """Composite terms need a metric that is positive and finite in every direction."""
    composite = options.l1 != 0.0 or options.l2 != 0.0 or options.box is not None
    if not composite:
        return
    if method.kind.no_composite:
        raise OptionError(f"{method.name}: l1, l2 and box {method.kind.no_composite}")
    if options.diagonal:
        raise OptionError(
            "diagonal=True does not combine with l1, l2 or box: the weights live in changing coordinates.",
            diagonal=True,
        )


@kernel
def _margins(indptr, indices, values, dense, weights, intercept, out):  # type: ignore[no-untyped-def]
    """w·x of each row; features beyond the weights count for nothing."""
    for k in range(indptr.size - 1):
        total = intercept
        start = indptr[k]
        for i in range(start, indptr[k + 1]):
            feature = i - start if dense else indices[i]
            if feature < weights.size:
                total += values[i] * weights[feature]
        out[k] = total
