"""PROS-N-KONS: the online Newton step in the span of a small dictionary, at a cost that does not grow with t.

A KORS dictionary of the rows φ_t themselves spans a small subspace. With I the rows kept that span it and ``K_II =
LLᵀ``, ``φ̃(x) = L⁻¹k_I(x)`` are the coordinates of a row there (in an orthonormal basis; the paper's
``K_II^{-1/2}k_I(x)`` are the same up to a rotation, under which Newton steps are invariant), and the learner is ``ons``
on them: clipped, O(J²) a round for J rows kept. A row may enter the dictionary before it is predicted. Then there are
two rules:

- carry over: the coordinates of old rows gain a zero, so w gains a zero and A a row and a column of αI. (The
  projection ``Q = K_II^{-1/2}K_II'K_I'I'^{-1/2}`` between the subspaces is just this with triangular roots.) With the
  whole stream in the dictionary the predictions are those of KONS.
- ``restart``, as in the paper: w = 0 and A = αI again.

``kons`` with ``max_points`` is this learner, too: every row outside of the span enters, until there are so many. Up to
then its predictions are those of ``kons``.

A row whose residual ``k(x, x) − |φ̃(x)|²`` is below the cutoff adds no dimension: it may have a weight in the
dictionary, but no coordinate, so that repeated rows cannot break L.

Daniele Calandriello, Alessandro Lazaric, Michal Valko: "Efficient Second-Order Online Kernel Learning with Adaptive
Embedding", NIPS 2017.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from onsketch.core import draws, state
from onsketch.core.arrays import LONGEST_COUNT, Arrays, require, require_within, take
from onsketch.learners.dense.exact_newton import ExactNewton
from onsketch.learners.dense.iterate import Iterate, new_iterate, widened
from onsketch.learners.kernel.learner import KernelLearner, Round
from onsketch.learners.kernel.newton import Places, check_places
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.sketches.growing_factor import Array, GrowingFactor
from onsketch.sketches.leverage import LeverageSampler, remainder


class ProjectedNewton(KernelLearner):
    """``pros-n-kons``, and ``kons`` with ``max_points``: only the rows of the dictionary are kept."""

    _basis: Annotated[Places, state.Array("basis", "i8")]
    """I: which of the rows kept span the subspace."""
    _restarts: Annotated[int, state.Array("", "i8", within=(0, LONGEST_COUNT))]
    _root: Annotated[GrowingFactor, state.Part()]
    """L."""
    _sampler: Annotated[LeverageSampler, state.Part()]
    _iterate: Annotated[Iterate, state.Part()]
    _newton: Annotated[ExactNewton, state.Part()]
    free = ("basis",)

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        floor = options.floor if method.moves.samples else 1.0
        self._sampler = LeverageSampler(self._setup.ridge, options.accuracy, options.budget, floor, self._trusted)
        self._basis = np.zeros(0, dtype=np.int64)
        self._root = GrowingFactor()
        self._restarts = 0
        self._begin()

    def _begin(self) -> None:
        """W = 0 and A = αI, in the subspace as it is (of one dimension at least: the compiled rounds need one)."""
        self._newton = ExactNewton(self.method, self.options)
        self._iterate = new_iterate(self.options)
        self._widen(max(self._root.size, 1))

    def _widen(self, width: int) -> None:
        if width > self._iterate.weights.size:
            self._newton = self._newton.widened(width)
            self._iterate = widened(self._iterate, width, self.options)

    def _embedded(self, values: Array, own: float) -> tuple[Array, float]:
        """Return φ̃(x), and the squared length of the part outside of the subspace."""
        inside = self._root.solve(values[self._basis[: self._root.size]])
        return inside, remainder(own, inside, 0.0, self._trusted)

    def _play(self, now: Round) -> float | None:
        # The dictionary may grow before the prediction. Stages 2 to 5 are a round of ``ons`` on the coordinates.
        t, rank = self._rounds + 1, self._root.size
        candidate = self._sampler.weigh(now.values, now.own)
        inside, residual = self._embedded(now.values, now.own)
        full = self.options.max_points is not None and self._kept.count >= self.options.max_points
        full |= residual == 0.0 and not self.method.moves.samples  # no weights of sampled rows to add to
        enters = not full and draws.uniform(self._setup.seed, draws.DICTIONARY, t, 0) < candidate.probability
        grows = enters and residual > 0.0
        before = self._newton, self._iterate
        x = np.zeros((1, max(rank + grows, 1)))
        x[0, :rank] = inside
        if grows:
            x[0, rank] = math.sqrt(residual)
            if self.options.restart:
                self._begin()
            self._widen(rank + 1)
        self._iterate.clock[0] = self._rounds
        prediction = np.empty(1)
        if not self._newton.learn(self._iterate, x, np.array([now.label]), np.array([now.weight]), prediction):
            self._newton, self._iterate = before
            return None
        # 6 Write the subspace, the dictionary and the rows kept.
        self._sampler.note(candidate)
        if enters:
            if grows:
                if rank >= len(self._basis):
                    state.grow(self, basis=rank + 1)
                self._basis[rank] = self._kept.count
                self._root.append(inside, math.sqrt(residual))
                self._restarts += self.options.restart
            self._sampler.admit(candidate)
            self._kept.append(now.query, now.i, now.own)
        return float(prediction[0])

    def _expansion(self) -> Array:
        a = np.zeros(self._kept.count)
        rank = self._root.size
        a[self._basis[:rank]] = self._root.solve_transposed(self._iterate.weights[:rank].astype(np.float64))
        return a

    def _leverage_of(self, values: Array, own: float) -> float:
        """Return x·A⁻¹x, from A in the subspace and the ridge outside of it."""
        inside, residual = self._embedded(values, own)
        x = np.zeros((1, self._iterate.weights.size))
        x[0, : len(inside)] = inside
        return float(self._newton.leverage(x)[0]) + residual / self._setup.ridge

    def spectrum(self) -> Array:
        """The eigenvalues of Σ ρ²φ̃φ̃ᵀ, descending; O(J³)."""
        return self._newton.spectrum()[::-1][: self._root.size]

    def _measures(self) -> tuple[float, float, float]:
        return self._sampler.size, self._sampler.total, self._sampler.p_min

    def diagnostics(self) -> dict[str, float]:
        """Return figures of the rows φ in the weighted dictionary; ``newton_dimension`` is of ρφ̃ in A."""
        F, width = self._newton.factor.rows, self._iterate.weights.size
        return {
            **super().diagnostics(),
            "dictionary_size": self._sampler.size,
            "subspace_dimension": self._root.size,
            "restarts": self._restarts,
            "effective_dimension": self._sampler.effective_dimension(),
            "online_effective_dimension": self._sampler.total,
            "newton_dimension": width - float((F * F).sum()),
            "p_min": self._sampler.p_min,
        }

    def used(self) -> dict[str, int]:
        """Return the number of rows kept, all of them in the dictionary, and of those that span the subspace."""
        return {**super().used(), "basis": self._root.size}

    def check(self, prefix: str, **sizes: int) -> None:
        """Raise ModelFileError for factors of other sizes, and for places where no rows are."""
        super().check(prefix, **sizes)
        check_places(self._basis, self._kept.count, "basis")
        fits = self._root.size == len(self._basis) and self._sampler.size == self._kept.count
        require(fits, "its dictionary is not as large as its factor")
        require_within(self._iterate.clock, 0, self._rounds, "iterate.clock")

    def _restore(self, arrays: Arrays) -> None:
        self._widen(len(take(arrays, "basis", np.int64, (None,))))
        super()._restore(arrays)
