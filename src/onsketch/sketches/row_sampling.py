"""Online row sampling by ridge leverage scores: a dictionary of weighted rows (KORS)."""

from __future__ import annotations

import math
import os
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import LONGEST_COUNT, require, require_within
from onsketch.core.errors import InputError, OptionError
from onsketch.core.kernels import Kernel
from onsketch.core.tolerances import LARGEST
from onsketch.sketches.base import SQUARED, Sketch, real_number, whole_number
from onsketch.sketches.leverage import Candidate, LeverageSampler, NotPositiveError
from onsketch.sketches.rows import Array, checked, dense_chunks


class RowSampling(Sketch):
    r"""KORS: sample rows by their ridge leverage score given the rows kept so far, weighted by 1/probability.

    Row t has the ridge leverage score ``τ_t = φ_tᵀ(A_t + αI)⁻¹φ_t`` with ``A_t = Σ_{s≤t} φ_sφ_sᵀ``. Its over-estimate
    τ̃ from the dictionary of rows kept (see `LeverageSampler`) gives the probability ``p̃_t = min(β τ̃_t, 1)`` with
    which it is kept. With ``β ≥ 3 log(T/δ)/ε²``, with probability 1 − δ and for all t at once,

        ``(1 − ε)(A_t + αI) ⪯ Ã_t + αI ⪯ (1 + ε)(A_t + αI)``,   ``Ã = Σ φ_iφ_iᵀ/p̃_i`` over the dictionary,

    and no more than ``3β·d_onl(α)`` rows are kept (``d_onl = Σ τ_t``, the online effective dimension). That β
    (`theoretical_budget`) helps on long streams of small effective dimension. The default is a practical 1: on 5,000
    rows of cod-rna (the one set tried) PROS-N-KONS erred as often as with 4, with about 40 % of the rows kept.

    Unlike the other sketches it works in the space of any kernel. With the linear kernel, `matrix` has the weighted
    rows, and ``matrixᵀ·matrix`` approximates ``AᵀA``. The argument ``ridge`` is α, the smallest scale that
    counts. It is not part of the approximation (the property `ridge` is 0).

    Merging stacks the weighted rows of both, an approximation of the sum with 2α in place of α.

    Cost per row: O(Jd + J²) for J rows kept. Memory: J(J+1)/2 + Jd numbers.

    Daniele Calandriello, Alessandro Lazaric, Michal Valko: "Second-Order Kernel Online Convex Optimization with
    Adaptive Sketching", ICML 2017, algorithm 2.

    >>> import numpy as np
    >>> from onsketch.sketch import RowSampling
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(3000, 2)) @ rng.normal(size=(2, 50))
    >>> sketch = RowSampling(50, ridge=1.0, budget=20.0).update(rows)
    >>> sketch.size < 400
    True
    >>> error = np.linalg.norm(sketch.covariance() - rows.T @ rows, 2) / np.linalg.norm(rows, 2) ** 2
    >>> bool(error < 0.2)
    True
    """

    _rows: Annotated[Array, state.Array("kept n_features", within=SQUARED)]
    _indices: Annotated[NDArray[np.int64], state.Array("kept", "i8", within=(0, LONGEST_COUNT))]
    _weights: Annotated[Array, state.Array("kept", within=(1.0, LARGEST))]
    _sampler: Annotated[LeverageSampler, state.Part()]
    widens = False
    free = ("kept",)

    def __init__(
        self,
        n_features: int,
        ridge: float = 1.0,
        accuracy: float = 0.5,
        budget: float | None = None,
        floor: float = 0.0,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(n_features)
        self.alpha = real_number("ridge", ridge, above=0.0, at_most=1e150, closed=False)
        self.accuracy = real_number("accuracy", accuracy, above=0.0, at_most=1.0, closed=False)
        self.budget = budget if budget is None else real_number("budget", budget, 0.0, math.inf, closed=False)
        self.floor = real_number("floor", floor, above=0.0, at_most=1.0, closed=True)
        self.seed = whole_number("seed", seed, at_least=0, below=2**63)
        if gamma is not None:
            real_number("gamma", gamma, above=0.0, at_most=1e150, closed=False)
        degree = whole_number("degree", degree, at_least=1)
        coef0 = real_number("coef0", coef0, above=0.0, at_most=1e150, closed=True)
        self._kernel = Kernel(kernel, gamma, degree, coef0)
        self._sampler = LeverageSampler(
            self.alpha, self.accuracy, self.budget, self.floor, trusted=not callable(kernel)
        )
        self._rows = np.zeros((0, self.n_features))
        self._indices = np.zeros(0, dtype=np.int64)
        self._weights = np.zeros(0)

    @staticmethod
    def theoretical_budget(rows: int, accuracy: float = 0.5, failure: float = 0.1) -> float:
        """Return ``β = 3 log(T/δ)/ε²``, at which the guarantee holds for T rows with probability 1 − δ.

        >>> round(RowSampling.theoretical_budget(10_000))
        138
        """
        whole_number("rows", rows, at_least=1)
        real_number("accuracy", accuracy, above=0.0, at_most=1.0, closed=False)
        real_number("failure", failure, above=0.0, at_most=1.0, closed=False)
        return 3.0 * math.log(rows / failure) / accuracy**2

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sketch to a model file; a sketch with a user-defined kernel cannot be saved."""
        if callable(self._kernel.function):
            raise OptionError(f"save: the kernel {self._kernel.name} is a function, which a file cannot hold.")
        super().save(path)

    def used(self) -> dict[str, int]:
        """Return the number of rows kept."""
        return {"kept": self.size}

    def check(self, prefix: str, **sizes: int) -> None:
        """Raise ModelFileError unless there are as many rows as the sampler has kept, all from the stream."""
        require(self.size == len(self._rows), "it kept fewer rows than it says", "rows")
        require_within(self.indices, 0, max(self.n_rows - 1, 0), "indices")

    @classmethod
    def room(cls, n_features: int, size: int = 0, block: int = 1) -> int:
        """Return 0: the sketch stores nothing before a row has been kept."""
        return 0

    @property
    def size(self) -> int:
        """Number of rows kept."""
        return self._sampler.size

    @property
    def rows(self) -> Array:
        """Rows kept."""
        return self._rows[: self.size].copy()

    @property
    def indices(self) -> NDArray[np.int64]:
        """Indices of the rows kept in the stream, from 0."""
        return self._indices[: self.size].copy()

    @property
    def weights(self) -> Array:
        """Weight 1/p̃ of each row kept."""
        return self._weights[: self.size].copy()

    @property
    def matrix(self) -> Array:
        """Rows kept times the roots of their weights; for the linear kernel only."""
        if self._kernel.function != "linear":
            raise OptionError(
                f"matrix: the rows of kernel={self._kernel.name!r} live in another space; use rows and weights."
            )
        return np.sqrt(self.weights)[:, np.newaxis] * self._rows[: self.size]

    def leverage(self, rows: Any) -> Array:
        """Return the estimate τ̃ of each row if it were the next one; the state does not change."""
        kernel = self._kernel.for_width(self.n_features)
        scores = []
        for chunk in dense_chunks(checked(rows, self.n_features)):
            for x in chunk:
                scores.append(self._weighed(kernel, x).score)
        return np.array(scores)

    def diagnostics(self) -> dict[str, Any]:
        """Return sizes and effective dimensions: ``online_effective_dimension`` is Σ τ̃, an over-estimate."""
        return {
            "dictionary_size": self.size,
            "effective_dimension": self._sampler.effective_dimension(),
            "online_effective_dimension": self._sampler.total,
            "p_min": self._sampler.p_min,
        }

    def _weighed(self, kernel: Kernel, x: Array) -> Candidate:
        own = float(kernel.diagonal(x[np.newaxis])[0])
        try:
            return self._sampler.weigh(kernel.of_row(x, self._rows[: self.size]), own)
        except NotPositiveError:
            raise InputError(f"kernel {kernel.name}: it is not positive semi-definite on these rows.") from None

    def _absorb(self, block: Any) -> None:
        from onsketch.core import draws  # imports numba, which only random sketches need

        kernel, before, seen = self._kernel.for_width(self.n_features), self._sampler, self.n_rows
        sampler = self._sampler = before.fork()
        try:
            for chunk in dense_chunks(block):
                for x in chunk:
                    candidate = self._weighed(kernel, x)
                    sampler.note(candidate)
                    seen += 1
                    if draws.uniform(self.seed, draws.DICTIONARY, seen, 0) < candidate.probability:
                        self._keep(x, seen - 1, 1.0 / candidate.probability)
                        sampler.admit(candidate)
        except BaseException:  # of the user's kernel, or an interrupt: no row of the block is kept
            self._sampler = before
            raise

    def _keep(self, x: Array, index: int, weight: float) -> None:
        at = self.size
        if at >= len(self._rows):
            state.grow(self, kept=at + 1)
        self._rows[at], self._indices[at], self._weights[at] = x, index, weight

    def _merge(self, other: Self) -> None:
        kernel = self._kernel.for_width(self.n_features)
        for x, index, weight in zip(other.rows, other.indices, other.weights, strict=True):
            candidate = self._weighed(kernel, x)._replace(probability=1.0 / weight)
            self._keep(x, self.n_rows + int(index), float(weight))
            self._sampler.admit(candidate)
        self._sampler.p_min = min(self._sampler.p_min, other._sampler.p_min)
        self._sampler.total += other._sampler.total

    def _settings(self) -> dict[str, object]:
        return {
            **super()._settings(),
            "ridge": self.alpha,
            "accuracy": self.accuracy,
            "budget": self.budget,
            "floor": self.floor,
            "kernel": self._kernel.function,
            "gamma": self._kernel.gamma,
            "degree": self._kernel.degree,
            "coef0": self._kernel.coef0,
        }
