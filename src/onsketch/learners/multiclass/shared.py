"""One sketch of the rows for all classes, or all targets: K weight vectors that step in one and the same metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import LONGEST_COUNT, Arrays, require
from onsketch.core.errors import InputError, OptionError, UpdateError
from onsketch.core.losses import loss_of
from onsketch.core.memory import refuse_beyond_memory
from onsketch.learners.methods import METHODS, Method
from onsketch.learners.multiclass.base import ManyClasses, as_codes, as_targets
from onsketch.learners.multiclass.rounds import play
from onsketch.learners.multiclass.slopes import SOFTMAX
from onsketch.learners.options import Options, own_loss, resolve
from onsketch.learners.rows import Rows, as_rows, as_weights, finite, refuse_endless
from onsketch.learners.scaled.stage import Stage
from onsketch.learners.setup import make_setup
from onsketch.learners.sketched.frequent_directions import Directions
from onsketch.learners.sketched.state import COUNT
from onsketch.learners.unclipped import with_gentle_start

Floats = NDArray[np.float64]

_FEW = 1 << 15
"""Blocks of at most this many numbers are made dense: building a sparse matrix takes longer than zero products."""


class SharedSketch(ManyClasses):
    r"""K weight vectors and one sketch: ``w_k ← w_k − step·g_k·P x`` with the same P for all k.

    The sketch is one of frequent directions (``rfd-son``, ``fd-son``, ``pfd-son``, ``cfd-son``, ``ada-fd``,
    ``s-adagrad``) and absorbs ``ρ·x``, where ρ² is the mean over the classes (see slopes.py).
    With ``summary="data"`` (ρ = 1) and a loss of one class against the rest, it *is* one-vs-rest with
    ``summary="data"``: the K sketches would be equal, so one is kept. Other cuts of a stream
    only change rounding errors.

    Cost of a row: O(d·(m + K)) in matrix products over blocks, plus O(m² + mK); one-vs-rest costs K times
    O(m·non-zeros). So this is for dense rows, and for many classes. Memory: d·(2m + K) numbers.

    Labels may be K signs or K numbers to a row as well, (rows, K): several targets with one sketch, each with its own
    loss. With ``summary="curvature"`` and the squared loss these are K recursive least squares.
    ``scaling="magnitude"`` scales features, as for any learner, and targets too, except for these recursive
    least squares, which are linear in the targets. Steps are explicit.

    ``loss="softmax"`` couples the classes: multinomial logistic regression. Margins are not clipped; see
    ``learners/unclipped.py`` for the effect on the default schedule.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> centres = rng.normal(size=(20, 5))
    >>> classes = rng.integers(20, size=3000)
    >>> X = centres[classes] + 0.2 * rng.normal(size=(3000, 5))
    >>> model = SharedSketch("rfd-son", 20, loss="softmax", sketch_size=5, fit_intercept=True)
    >>> margins = model.learn(X, classes)  # made before each row is learned
    >>> bool(np.mean(margins[2000:].argmax(axis=1) == classes[2000:]) > 0.9)
    True
    """

    _heads: Annotated[Floats, state.Array("features outputs")]
    """The heads; row 0 is the constant feature."""
    _rows: Annotated[Floats, state.Array("features capacity")]
    """Rows of the sketch, as columns."""
    _coefficients: Annotated[Floats, state.Array("capacity outputs")]
    """The weights are heads + rows·coefficients."""
    _clock: Annotated[NDArray[np.int64], state.Array("1", "i8", within=(0, LONGEST_COUNT))]
    """[rows learned]."""
    _sketch: Annotated[Directions, state.Part()]
    _stage: Annotated[Stage | None, state.Part()]

    def __init__(self, method: str, n_classes: int, **options: Any) -> None:
        self.method, self.options, loss = _checked(method, options)
        self._made_with = {"method": method, "options": options}
        self._loss = SOFTMAX if loss == "softmax" else loss_of(self.options).form
        capacity = Directions.shape(self.options.sketch_size, self.options.doubling)[1]
        self._setup = make_setup(self.method, self.options, capacity=capacity)
        self._restart(n_classes)
        linear = self.method.newton and self.options.summary != "gradient"  # in the labels, if the loss is a square
        measured = self._loss != SOFTMAX and loss_of(self.options).measured
        real = self._loss != SOFTMAX and loss_of(self.options).labels == "real" and not measured
        scaled = self.options.scaling != "none"
        if scaled and measured and not (linear and loss == "huber"):
            raise OptionError(
                f"{method}: loss={loss!r}: each target would have its own scale, but there is one epsilon; give "
                "scaling='none', loss='absolute' or one learner for each target.",
                loss=loss,
                scaling="none",
            )
        targets = n_classes if real else 0
        self._stage = Stage(bool(self.options.fit_intercept), targets, shared=False) if scaled else None

    def _restart(self, n_classes: int | None = None) -> None:
        """Set the state of no rows."""
        n_classes = self.n_classes if n_classes is None else n_classes
        kept, capacity = Directions.shape(self.options.sketch_size, self.options.doubling)
        self._sketch = Directions.start(capacity, kept, self._setup.ridge)
        self._spare = state.copy(self._sketch)
        self._clock = np.zeros(1, dtype=np.int64)
        self._heads = np.zeros((1 + (self.options.n_features or 0), n_classes))
        self._rows = np.zeros((len(self._heads), capacity))
        self._coefficients = np.zeros((capacity, n_classes))

    @property
    def n_classes(self) -> int:
        """Number of weight vectors."""
        return int(self._heads.shape[1])

    @property
    def n_features(self) -> int:
        """Width of the widest row seen, or as given."""
        return len(self._heads) - 1

    @property
    def rounds(self) -> int:
        """Rows learned."""
        return int(self._clock[0])

    def add_class(self) -> int:
        """Add a class, which starts from zero weights, and return its code."""
        self._resize_outputs(self.n_classes + 1)
        return self.n_classes - 1

    def drop_class(self) -> None:
        """Forget the class that was added last, of which no row has been learned."""
        self._resize_outputs(self.n_classes - 1)

    def _resize_outputs(self, count: int) -> None:
        state.resize(self, outputs=count)
        if self._stage is not None:
            self._stage.resize(self.n_classes)

    def learn(self, X: Any, codes: Any, sample_weight: Any = None) -> Floats:
        """Learn from these rows in one pass; returns the margins (rows, K) predicted before each was learned.

        ``codes`` are class codes, or (rows, K) signs or numbers.
        """
        rows, loss = as_rows(X, self.options.n_features), loss_of(self.options)
        if np.ndim(codes) == 2 and self._loss != SOFTMAX:
            labels: Any = as_targets(codes, (rows.count, self.n_classes), loss)
        elif loss.labels == "count":
            raise InputError(
                f"y: loss={loss.name!r} takes (rows, {self.n_classes}) counts, not class codes.", loss=loss.name
            )
        else:
            labels = as_codes(codes, rows.count, self.n_classes)
        return self.learn_checked(rows, labels, as_weights(sample_weight, rows.count))

    def learn_checked(self, rows: Rows, labels: NDArray[Any], weights: Floats) -> Floats:
        """As ``learn``, for input that ``as_rows``, ``as_codes`` and ``as_weights`` have checked already."""
        refuse_endless(self.rounds, rows.count)
        width, margins = self.n_features, np.empty((rows.count, self.n_classes))
        self._widen(rows.n_features)
        if self._stage is None:
            done = self._play(rows, labels, weights, margins)
        else:
            signs = labels if labels.ndim == 2 else self._signs(labels)
            done = self._stage.learn(self, rows, signs, weights, margins)
        if done < rows.count:
            if done == 0:
                state.resize(self, features=1 + width)
            raise UpdateError(f"method {self.method.name}, shared by the classes", done, margins[:done])
        return margins

    def _signs(self, codes: NDArray[np.int64]) -> Floats:
        return np.where(codes[:, None] == np.arange(self.n_classes), 1.0, -1.0)

    def _play(self, rows: Rows, labels: NDArray[Any], weights: Floats, margins: Floats) -> int:
        """Learn as many rows at a time as the sketch can hold; return how many were learned."""
        self._widen(rows.n_features)
        start = 0
        while start < rows.count:
            stop = min(start + self._setup.capacity - int(self._sketch.counts[COUNT.rows]), rows.count)
            part = labels[start:stop] if labels.ndim == 2 else self._signs(labels[start:stop])
            done = start + self._learn_block(rows.part(start, stop), part, weights[start:stop], margins[start:stop])
            if done < stop:
                return done
            start = stop
        return start

    _rewritable = True

    def _inside(self) -> tuple[NDArray[np.int64], Floats]:
        return np.arange(-1, self.n_features), self._current()

    def _shift(self, change: Floats) -> None:
        self._heads += change

    def _learn_block(self, rows: Rows, targets: Floats, weights: Floats, margins: Floats) -> int:
        held = int(self._sketch.counts[COUNT.rows])
        block, constant = _block(rows), float(self.options.fit_intercept)
        width = rows.n_features + 1
        heads = block @ self._heads[1:width] + constant * self._heads[0]
        gram = block @ self._rows[1:width, :held] + constant * self._rows[0, :held]
        among = _product(block) + constant
        scales = np.zeros(rows.count)
        values = (block.toarray() if hasattr(block, "tocsr") else block).T
        play_with = self._setup, self._loss, self._sketch, self._spare, self._clock
        done = int(play(*play_with, (heads, gram, among), targets, weights, self._coefficients, scales, margins))
        np.multiply(values[:, :done], scales[:done], out=self._rows[1:width, held : held + done])
        self._rows[width:, held : held + done] = 0.0
        self._rows[0, held : held + done] = constant * scales[:done]
        if held + done == self._setup.capacity:
            self._rotate()
        return done

    def _rotate(self) -> None:
        """Finish a shrink: write out the weights, and rotate the rows of the sketch."""
        kept = self._setup.size - 1
        n = int(self._sketch.counts[COUNT.closed])
        self._heads += self._rows @ self._coefficients
        self._coefficients[:] = 0.0
        self._rows[:, :kept] = self._rows @ self._sketch.transform[:n, :kept]

    def _widen(self, n_features: int) -> None:
        if n_features > self.n_features:
            numbers = n_features * (self.n_classes + self._setup.capacity)
            refuse_beyond_memory(numbers, f"{self.method.name}: weights and sketch of {n_features:,} features")
            state.resize(self, features=1 + n_features)

    def _current(self) -> Floats:
        """The weights of all classes, (1 + d, K)."""
        held = int(self._sketch.counts[COUNT.rows])
        current: Floats = self._heads + self._rows[:, :held] @ self._coefficients[:held]
        return current

    def predict(self, X: Any) -> Floats:
        """The margins (rows, K); the state does not change."""
        rows = as_rows(X, self.options.n_features)
        rows = rows if self._stage is None else self._stage.scaled(rows, shared=False)
        current, known = self._current(), self.n_features
        block = _block(rows)[:, :known] if rows.n_features > known else _block(rows)  # the others have no weight yet
        with np.errstate(over="ignore", invalid="ignore"):
            margins: Floats = block @ current[1 : 1 + block.shape[1]] + float(self.options.fit_intercept) * current[0]
            margins = margins if self._stage is None else self._stage.in_units(margins)
        return finite(margins)

    def _raw(self) -> Floats:
        """The weights of all classes in the units of the data, (1 + d, K)."""
        return self._current() if self._stage is None else self._stage.unscaled(*self._inside())

    @property
    def weights(self) -> Floats:
        """(K, d)."""
        return self._raw()[1:].T.copy()

    @property
    def intercept(self) -> Floats:
        """(K,)."""
        constants: Floats = self._raw()[0]
        return constants

    def _header(self) -> dict[str, Any]:
        return {"class": "SharedSketch", "n_classes": self.n_classes, **self._made_with}

    def _arrays(self) -> Arrays:
        return state.pack(self)

    def _restore(self, arrays: Arrays, header: Mapping[str, Any]) -> None:
        state.unpack(self, arrays, free=("features",) if self.options.n_features is None else ())
        require(len(self._heads) > 0, "it has no constant feature", "heads")
        self._sketch.check_sketch(self._spare, self._setup)
        require(self._stage is None or self._stage.rounds == self.rounds, "its scales are of other rows", "scales")


def _checked(name: str, given: dict[str, Any]) -> tuple[Method, Options, str]:
    """The method and its options, or the reason why they do not go with one sketch for all classes."""
    can = sorted(m.name for m in METHODS.values() if m.kind.shrinks and m.steps)
    if name not in can:
        raise OptionError(f"multiclass='shared': method {name!r} has no sketch to share; use one of {', '.join(can)}.")
    method = METHODS[name]
    unshared = {"update", "diagonal", "average", "forget", "l1", "l2", "box", "dtype", "step"}
    loss = own_loss(given.get("loss", "softmax"))
    known = {**given, "loss": "logistic" if loss == "softmax" else loss, "clip": given.get("clip")}
    known = with_gentle_start(method, known)
    options = resolve(f"{name} with a shared sketch", method.concerns - unshared, method.defaults, known)
    if options.clip is not None:
        raise OptionError("multiclass='shared': predictions are not clipped; leave clip out or give None.")
    if options.sketch_size == 0:
        raise OptionError(
            "multiclass='shared': sketch_size=0 leaves nothing to share; give a size of 1 or more.", sketch_size=0
        )
    return method, options, loss


def _block(rows: Rows) -> Any:
    """The rows as an array, or as a CSR matrix where they are sparse and not just a few numbers."""
    if rows.dense or rows.count * rows.n_features <= _FEW:
        return rows.toarray()
    from scipy.sparse import csr_array

    first, last = rows.indptr[0], rows.indptr[-1]
    parts = rows.values[first:last], rows.indices[first:last], rows.indptr - first
    return csr_array(parts, shape=(rows.count, rows.n_features))


def _product(block: Any) -> Floats:
    product = block @ block.T
    dense: Floats = product.toarray() if hasattr(product, "toarray") else product
    return dense
