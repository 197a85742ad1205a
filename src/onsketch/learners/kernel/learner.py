"""Base class of the kernel learners: a function f(x) = Σ a_s k(x_s, x) over the rows kept."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import LONGEST_COUNT, Arrays, require, require_within, take
from onsketch.core.errors import OptionError
from onsketch.core.kernels import OWN, Kernel
from onsketch.core.tolerances import LARGEST
from onsketch.files.model_file import PathLike
from onsketch.learners.base import Learner
from onsketch.learners.features import INTERCEPT
from onsketch.learners.kernel.points import KeptRows, SparseRows, for_width, kept_rows, refilled
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Rows
from onsketch.learners.setup import make_setup
from onsketch.sketches.growing_factor import Array
from onsketch.sketches.leverage import INDEFINITE, NotPositiveError

_LEARNED_AT_ONCE = 1024
"""Rows made ready for comparison at a time; they are learned one by one."""
_TRIED_OUT = 64
"""Rows on which a user's function is tried out."""
_SCALED_BY = 1000
"""Rows, the first ones given at once, whose variance decides γ (``gamma="scale"``)."""
_HISTORY = ("rounds", "rows_kept", "dictionary_size", "online_effective_dimension", "p_min")
"""Names of the figures in ``history``."""
_COMPARED_AT_ONCE = 1 << 22
"""Kernel values computed at a time when predicting."""


class Round:
    """One round: the row's place in its query, its kernel values with the rows kept and with itself, its label."""

    __slots__ = ("i", "label", "own", "query", "values", "weight")

    def __init__(self, query: Any, i: int, values: Array, own: float, label: float, weight: float) -> None:
        self.query = query
        self.i = i
        self.values = values
        self.own = own
        self.label = label
        self.weight = weight


class KernelLearner(Learner):
    """An online learner whose weights are a function in the space of a kernel.

    Subclasses implement a round and return the coefficients a. Learning compares each row with the kept rows in order,
    so that one call over n rows equals n calls over one row, bit for bit; predicting compares blocks by BLAS.
    """

    _rounds: Annotated[int, state.Array("", "i8", within=(0, LONGEST_COUNT))]

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        self._setup = make_setup(method, options)
        constant = 1.0 if options.fit_intercept else 0.0
        gamma = options.gamma if isinstance(options.gamma, float) else None
        self._kernel = Kernel(options.kernel, gamma, options.degree, options.coef0, constant)
        self._trusted = self._kernel.form != OWN
        self._kept: KeptRows = kept_rows(self._kernel, self._width)
        self._rounds = 0
        self._history: list[tuple[float, ...]] = []

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self._kept.count} rows kept>"

    @property
    def rounds(self) -> int:
        """Rounds played: rows learned."""
        return self._rounds

    @property
    def kernel(self) -> Kernel:
        """The kernel, its γ decided once rows have been seen."""
        return self._kernel

    def expansion(self) -> tuple[Any, Array]:
        """The rows kept (dense, or CSR where they are wide) and their coefficients a: f(x) = Σ a_s k(x_s, x)."""
        indptr, features, values = self._kept.entries()
        from scipy.sparse import csr_array

        rows = csr_array((values, features, indptr), shape=(self._kept.count, self.n_features))
        return rows if isinstance(self._kept, SparseRows) else rows.toarray(), self._expansion()

    def in_scales(self, X: Any, y: Any) -> tuple[KernelLearner, Any, Any]:
        """Return this learner, and the rows and labels as they are: it has no scales."""
        return self, X, y

    def diagnostics(self) -> dict[str, float]:
        """Return figures about the state, by name. Some cost O(n³) for a factor of n rows."""
        gamma = {} if self._kernel.gamma is None or self._kernel.function == "linear" else {"gamma": self._kernel.gamma}
        return {**gamma, "rows_kept": self._kept.count, "bytes": self.state_bytes()["total"]}

    def history(self) -> dict[str, Array]:
        """How it came about: a few numbers as they were after 1, 2, 4, 8, … rounds, and as they are now.

        ``rounds``, ``rows_kept``, and of Newton methods ``dictionary_size``, ``online_effective_dimension``, ``p_min``.
        """
        rows = [*self._history]
        if self._rounds and (not rows or rows[-1][0] != self._rounds):
            rows.append(self._standing())
        table = np.array(rows).reshape(len(rows), len(_HISTORY))
        return {name: column for name, column in zip(_HISTORY, table.T, strict=True) if (column >= 0.0).all()}

    def state_bytes(self) -> dict[str, int]:
        """Memory: ``packed`` for the rows kept, ``total`` with coefficients and factors."""
        return {"packed": self._kept.nbytes, "total": self._kept.nbytes + state.nbytes(self)}

    def _standing(self) -> tuple[float, ...]:
        return self._rounds, self._kept.count, *self._measures()

    def _measures(self) -> tuple[float, float, float]:
        """Dictionary size, online effective dimension and p_min, in O(1); −1 if the method has none."""
        return -1.0, -1.0, -1.0

    # Learning ---------------------------------------------------------------------------------------------

    def _learn(self, rows: Rows, labels: Array, weights: Array, out: Array) -> int:
        rounds, kernel, kept = self._rounds, self._kernel, self._kept
        try:
            return self._learn_each(rows, labels, weights, out)
        finally:
            if self._rounds == rounds:  # nothing was learned: neither γ nor the width is set
                self._kernel, self._kept = kernel, kept
                self._kept.kernel = kernel

    def _learn_each(self, rows: Rows, labels: Array, weights: Array, out: Array) -> int:
        self._settle(rows)
        if self._kernel.form == OWN and not self._rounds:
            self._try_out(rows.part(0, min(rows.count, _TRIED_OUT)))
        # 1 Gather: the kernel values of each row with the rows kept. Stages 2 to 6 are in ``_play``, and 7 counts here.
        for start in range(0, rows.count, _LEARNED_AT_ONCE):
            stop = min(start + _LEARNED_AT_ONCE, rows.count)
            known = self._kept.features_known
            query = self._kept.query(rows.part(start, stop), learn=True)
            for i in range(stop - start):
                at = start + i
                try:
                    values, own = self._kept.row(query, i)
                    self._check(values, own)
                    fits = own <= LARGEST and bool(np.isfinite(values).all())
                    margin = (
                        self._play(Round(query, i, values, own, float(labels[at]), float(weights[at])))
                        if fits
                        else None
                    )
                except NotPositiveError:
                    raise OptionError(
                        f"kernel {self._kernel.name}: it is not positive semi-definite, as round {self._rounds + 1} "
                        "shows: no inner products have its values. Use another kernel. The rows before it have been "
                        "learned."
                    ) from None
                if margin is None:
                    self._kept.forget(query, i, known)
                    return at
                out[at] = margin
                self._rounds += 1
                if self._rounds & (self._rounds - 1) == 0:
                    self._history.append(self._standing())
        return rows.count

    def _settle(self, rows: Rows) -> None:
        """Choose γ from the first rows, and allocate for rows of this width."""
        if self._kernel.gamma is None:
            variance = _variance(rows.part(0, min(rows.count, _SCALED_BY))) if self.options.gamma == "scale" else 1.0
            self._kernel = self._kernel.for_width(rows.n_features, variance)
            self._kept.kernel = self._kernel
        self._kept = for_width(self._kept, rows.n_features)

    def _try_out(self, rows: Rows) -> None:
        """Refuse a user's function that is no kernel on the first rows given at once, before anything is learned."""
        X = self._kept.query(rows, learn=False)
        K = self._kernel.between(X, X)
        slack = INDEFINITE * max(float(np.trace(np.abs(K))), float(np.abs(K).max(initial=0.0)))
        if np.abs(K - K.T).max(initial=0.0) > slack:
            raise OptionError(f"kernel {self._kernel.name}: it is not symmetric; k(x, y) must be k(y, x).")
        if rows.count and np.linalg.eigvalsh(K)[0] < -slack:
            raise OptionError(f"kernel {self._kernel.name}: it is not positive semi-definite. Nothing was learned.")

    def _check(self, values: Array, own: float) -> None:
        """Hold a user's function to Cauchy and Schwarz, which no named kernel violates."""
        if self._kernel.form == OWN:
            bound = (1.0 + INDEFINITE) * own * self._kept.owns[: self._kept.count]
            if own < 0.0 or (values * values > bound).any():
                raise NotPositiveError

    @abstractmethod
    def _play(self, now: Round) -> float | None:
        """Play a round; returns its prediction, or None for a round that is refused and leaves no trace."""

    # Reading ----------------------------------------------------------------------------------------------

    @abstractmethod
    def _expansion(self) -> Array:
        """The coefficients a of the rows kept."""

    def _predict(self, rows: Rows) -> Array:
        coefficients, clip = self._expansion(), self._setup.clip
        return np.concatenate([
            np.clip(values @ coefficients, -clip, clip) for values, _ in self._compared(rows)
        ] or [np.empty(0)])  # fmt: skip

    def _leverage(self, rows: Rows) -> Array:
        found = [
            self._leverage_of(values[i], owns[i]) for values, owns in self._compared(rows) for i in range(len(owns))
        ]
        return np.array(found)

    def _leverage_of(self, values: Array, own: float) -> float:
        """φᵀA⁻¹φ of a row with these kernel values, and this one with itself; without a metric A is the identity."""
        return own

    def _compared(self, rows: Rows) -> Any:
        """Kernel values of stretches of rows with the rows kept, and with themselves."""
        unused = kept_rows(self._kernel.for_width(rows.n_features), rows.n_features)
        kept = for_width(self._kept, rows.n_features) if self._kept.count else unused
        step = max(1, min(_COMPARED_AT_ONCE // max(kept.count, 1), 1 << 14))
        for start in range(0, rows.count, step):
            yield kept.values(kept.query(rows.part(start, min(start + step, rows.count)), learn=False))

    def _coefficients(self) -> tuple[NDArray[np.int64], Array]:
        if self._kernel.function != "linear":
            raise OptionError(
                f"{self.method.name}: with kernel={self._kernel.name!r} there is no weight per feature, but a function "
                "f(x) = Σ a_s k(x_s, x); expansion() has its rows and coefficients. kernel='linear' has weights.",
                kernel=(self._kernel.name, "linear"),
            )
        indptr, features, values = self._kept.entries()
        a = self._expansion()
        seen, place = np.unique(features, return_inverse=True)
        weights = np.zeros(seen.size)
        np.add.at(weights, place, values * np.repeat(a, np.diff(indptr)))
        if self._kernel.constant:
            seen, weights = np.append(seen, INTERCEPT), np.append(weights, a.sum())
        return seen, weights

    def _merge(self, other: Any, base: Any) -> None:
        raise OptionError(
            f"merge: {self.method.name} learners do not merge: their matrices live on different rows. "
            "Merge RowSampling sketches, or linear learners on RandomFourierFeatures."
        )

    # Saving -----------------------------------------------------------------------------------------------

    def used(self) -> dict[str, int]:
        """Return the number of rows kept."""
        return {"kept": self._kept.count}

    def check(self, prefix: str, **sizes: int) -> None:
        """Raise ModelFileError for a state that does not fit the rows kept."""
        count = self._kept.count
        require(sizes.get("kept", count) == count, "its coefficients are not as many as its rows", "kept.owns")
        require(count <= self._rounds, "it kept more rows than it learned", "kept.owns")
        require(self._kernel.gamma is not None or not self._rounds, "its gamma is impossible", "gamma")

    def save(self, path: PathLike, notes: Mapping[str, Any] | None = None) -> None:
        """Write a model file, as every learner does. A user's own kernel function cannot be saved."""
        if not isinstance(self._kernel.function, str):
            raise OptionError(f"save: the kernel {self._kernel.name} is a function, which a file cannot hold.")
        super().save(path, notes)

    def _arrays(self) -> Arrays:
        indptr, features, values = self._kept.entries()
        gamma = {"gamma": np.array(self._kernel.gamma or 0.0)}
        owns = self._kept.owns[: self._kept.count]
        rows = {"kept.indptr": indptr, "kept.features": features, "kept.values": values, "kept.owns": owns}
        history = {"history": np.array(self._history).reshape(len(self._history), len(_HISTORY))}
        return gamma | rows | history | super()._arrays()

    def _restore(self, arrays: Arrays) -> None:
        gamma = float(take(arrays, "gamma", np.float64, ()))
        require(0.0 <= gamma <= LARGEST, "its gamma is impossible", "gamma")
        if gamma > 0.0:
            self._kernel = replace(self._kernel, gamma=gamma)
        indptr = take(arrays, "kept.indptr", np.int64, (None,))
        features = take(arrays, "kept.features", np.int64, (None,))
        values = take(arrays, "kept.values", np.float64, (len(features),))
        owns = take(arrays, "kept.owns", np.float64, (None,))
        self._check_rows(indptr, features, values, owns)
        self._kept = kept_rows(self._kernel, self._width)
        refilled(self._kept, indptr, features, values, owns)
        super()._restore(arrays)
        history = take(arrays, "history", np.float64, (None, len(_HISTORY)))
        whole = history[:, 0].tolist() == [2.0**k for k in range(self._rounds.bit_length())]
        require(whole, "its history has gaps", "history")
        self._history = [tuple(row) for row in history.tolist()]

    def _check_rows(self, indptr: NDArray[np.int64], features: NDArray[np.int64], values: Array, owns: Array) -> None:
        """Refuse rows kept that are no matrix of this width, or that could not have been learned."""
        require(len(indptr) == len(owns) + 1 and indptr[0] == 0, "its rows are others than it says", "kept.indptr")
        require((np.diff(indptr) >= 0).all() and indptr[-1] == len(features), "its rows overlap", "kept.indptr")
        require_within(features, 0, self._width - 1, "kept.features")
        owner = np.repeat(np.arange(len(owns)), np.diff(indptr))
        once = np.unique(np.stack([owner, features]), axis=1).shape[1] == len(features)
        require(once, "a row has a feature twice", "kept.features")
        with np.errstate(over="ignore"):
            lengths: Array = np.bincount(owner, (values / LARGEST) ** 2, len(owns)).astype(np.float64)
            require_within(lengths, 0.0, 1.0, "kept.values")
            if self._kernel.form != OWN:
                alike = self._kernel.of_self(lengths * LARGEST**2)
                require(np.allclose(owns, alike, rtol=1e-6, atol=0.0), "its rows are of other lengths", "kept.owns")


def _variance(rows: Rows) -> float:
    """Return the variance of all values, zeros included; 1 if they are all the same."""
    values, count = rows.values[rows.indptr[0] : rows.indptr[-1]], rows.count * rows.n_features
    mean = values.sum() / max(count, 1)
    variance = float((((values - mean) ** 2).sum() + (count - values.size) * mean**2) / max(count, 1))
    return min(max(variance, 1.0 / LARGEST), LARGEST) if variance > 0.0 else 1.0
