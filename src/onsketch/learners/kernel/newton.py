"""Kernel online Newton: KONS, and Sketched-KONS with a matrix of fewer rows.

The online Newton step in the space of a kernel, ``A_t = αI + Σ z_s ρ_s² φ_sφ_sᵀ`` over the rows seen (ρ = √e·ġ, e = σ +
η_s), keeps ``u_{t+1} = A_t⁻¹ Σ_{s≤t} c_s φ_s``. A round:

    ȳ = φ_t·u_t,   h = τ_C(ȳ),   ŷ = ȳ − h,   ġ = ℓ'(ŷ),
    c_t = z_t ρ_t² ŷ − ġ − h/ℓ_t,   ℓ_t = φ_t·A_{t−1}⁻¹φ_t.

With R the rows inside A, ``D = diag(ρ_R)``, ``E = D K_RR D + αI = LLᵀ`` and ``w = L⁻¹ D k_R(x_t)``,

    ℓ_t = (k(x_t, x_t) − |w|²)/α,   ȳ = (Σ c_s k(x_s, x_t) − w·ν)/α,   ν = L⁻¹ D K_R c,

so that a round is one triangular solve: ν gains ``c_t w`` and, like L, one more entry when the row enters A.

KONS has z_t = 1 always: O(t²) a round, and t²/2 numbers. Sketched-KONS tosses a coin with KORS's probability p̃_t for
φ̄ = ρφ (KORS has its own coin and weights), but at least ``floor``: its factor has about floor·t rows, and a round
costs about floor² of the exact one, until the remaining O(t) kernel values dominate.

Daniele Calandriello, Alessandro Lazaric, Michal Valko: "Second-Order Kernel Online Convex Optimization with Adaptive
Sketching", ICML 2017, algorithms 1 and 3 (their b_t is this c_t divided by ρ_t, which may be 0).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from onsketch.core import draws, state
from onsketch.core.arrays import require, require_within
from onsketch.core.tolerances import CUTOFF, LARGEST
from onsketch.learners.clip import clipped, shortest_move
from onsketch.learners.kernel.learner import KernelLearner, Round
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.stages import slope_and_scale
from onsketch.sketches.growing_factor import Array, GrowingFactor
from onsketch.sketches.leverage import Candidate, LeverageSampler, remainder
from onsketch.sketches.spectral import eigenvalues

Places = NDArray[np.int64]


class KernelNewton(KernelLearner):
    """``kons`` and ``sketched-kons``; rows whose coefficient is 0 and that are in no matrix are not kept."""

    _c: Annotated[Array, state.Array("kept", within=(-LARGEST, LARGEST))]
    _inside: Annotated[Places, state.Array("inside", "i8")]
    """R: which of the rows kept are in A."""
    _rho: Annotated[Array, state.Array("inside", within=(-LARGEST, LARGEST))]
    """ρ of the rows in A."""
    _nu: Annotated[Array, state.Array("inside", within=(-LARGEST, LARGEST))]
    _dictionary: Annotated[Places, state.Array("dictionary", "i8")]
    """Which of the rows kept are in KORS's dictionary."""
    _online: Annotated[float, state.Array("", within=(0.0, LARGEST))]
    """Σ ρ²ℓ/(1 + ρ²ℓ)."""
    _factor: Annotated[GrowingFactor, state.Part()]
    _sampler: Annotated[LeverageSampler | None, state.Part()]
    free = ("kept", "inside", "dictionary")

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        exact = not method.moves.samples or options.floor >= 1.0
        self._sampler = (
            None
            if exact
            else LeverageSampler(self._setup.ridge, options.accuracy, options.budget, trusted=self._trusted)
        )
        self._c = np.zeros(0)
        self._rho, self._nu = np.zeros(0), np.zeros(0)
        self._inside, self._dictionary = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._factor = GrowingFactor()
        self._online = 0.0

    def _metric(self, values: Array, own: float) -> tuple[Array, float]:
        """L⁻¹Dk and ℓ = φ·A⁻¹φ of a row."""
        n = self._factor.size
        solved = self._factor.solve(self._rho[:n] * values[self._inside[:n]])
        # No finer than the factor's own cutoff, or the projection would amplify its rounding errors.
        return solved, remainder(own, solved, CUTOFF * own, self._trusted) / self._setup.ridge

    def _play(self, now: Round) -> float | None:
        setup, n, kept = self._setup, self._factor.size, self._kept.count
        # 2 Predict.
        solved, leverage = self._metric(now.values, now.own)
        against = float(self._c[:kept] @ now.values)
        margin = (against - float(solved @ self._nu[:n])) / self._setup.ridge
        if not (abs(margin) <= LARGEST and leverage <= LARGEST):
            return None
        prediction: float = clipped(margin, setup.clip)
        # 3 Slope and curvature of the loss.
        slope, rho = slope_and_scale(setup, prediction, now.label, now.weight, self._rounds + 1)
        if not rho * rho * max(now.own, 1.0) <= LARGEST:
            return None
        # 4 Absorb: draw whether the row enters A, and compute its coefficient c and its entries of ν and L.
        candidate, enters, sampled = self._coins(now, rho)
        c = (rho * rho * prediction if enters else 0.0) - setup.step * now.weight * slope
        if prediction != margin:
            c -= shortest_move(margin, setup.clip, leverage)
        nu = 0.0
        pivot = self._factor.pivot(
            self._setup.ridge * (1.0 + rho * rho * leverage), self._setup.ridge + rho * rho * now.own
        )
        if enters:
            after = float(solved @ self._nu[:n]) + c * float(solved @ solved)
            nu = rho * (against + c * now.own - after) / pivot
        # 5 Check: nothing has been written.
        if not max(abs(c) * max(now.own, 1.0), abs(nu), pivot) <= LARGEST:
            return None
        # 6 Write the coefficients, the factor and the dictionary.
        self._nu[:n] += c * solved
        if c != 0.0 or enters or sampled:
            self._keep(now, c)
        if enters:
            self._enter(kept, rho, solved, pivot, nu)
        self._online += rho * rho * leverage / (1.0 + rho * rho * leverage)
        if self._sampler is not None and candidate is not None:
            self._sampler.note(candidate)
            if sampled:
                if self._sampler.size >= len(self._dictionary):
                    state.grow(self, dictionary=self._sampler.size + 1)
                self._dictionary[self._sampler.size] = kept
                self._sampler.admit(candidate)
        return prediction

    def _coins(self, now: Round, rho: float) -> tuple[Candidate | None, bool, bool]:
        """KORS's word on the row, and whether it enters A and KORS's dictionary."""
        if rho == 0.0:
            return None, False, False
        if self._sampler is None:
            return None, True, False
        t, seed = self._rounds + 1, self._setup.seed
        candidate = self._sampler.weigh(now.values[self._dictionary[: self._sampler.size]], now.own, rho)
        enters = draws.uniform(seed, draws.ENTRY, t, 0) < max(candidate.probability, self.options.floor)
        return candidate, enters, draws.uniform(seed, draws.DICTIONARY, t, 0) < candidate.probability

    def _keep(self, now: Round, c: float) -> None:
        at = self._kept.count
        if at >= len(self._c):
            state.grow(self, kept=at + 1)
        self._c[at] = c
        self._kept.append(now.query, now.i, now.own)

    def _enter(self, place: int, rho: float, solved: Array, pivot: float, nu: float) -> None:
        n = self._factor.size
        if n >= len(self._inside):
            state.grow(self, inside=n + 1)
        self._inside[n], self._rho[n], self._nu[n] = place, rho, nu
        self._factor.append(rho * solved, pivot)

    def _expansion(self) -> Array:
        n = self._factor.size
        a = self._c[: self._kept.count] / self._setup.ridge
        a[self._inside[:n]] -= self._rho[:n] * self._factor.solve_transposed(self._nu[:n]) / self._setup.ridge
        return a

    def _leverage_of(self, values: Array, own: float) -> float:
        return self._metric(values, own)[1]

    def spectrum(self) -> Array:
        """The eigenvalues of Σ ρ²φφᵀ over the rows in A, descending; O(n³)."""
        L = self._factor.dense()
        return eigenvalues(L @ L.T - self._setup.ridge * np.eye(len(L)))

    def _measures(self) -> tuple[float, float, float]:
        sampler = self._sampler
        if sampler is None:
            return self._factor.size, self._online, 1.0
        return sampler.size, self._online, max(sampler.p_min, self.options.floor)

    def diagnostics(self) -> dict[str, float]:
        """Of the scaled rows ρφ: ``effective_dimension`` of those in A, and the online one as A saw the rows come.

        ``p_min`` is the smallest probability of entering A.
        """
        size, online, p_min = self._measures()
        return {
            **super().diagnostics(),
            "rows_in_matrix": self._factor.size,
            "dictionary_size": size,
            "effective_dimension": self._factor.size - self._setup.ridge * self._factor.inverse_trace(),
            "online_effective_dimension": online,
            "p_min": p_min,
        }

    def used(self) -> dict[str, int]:
        """Return the number of rows kept, of those in A, and of those in KORS's dictionary."""
        sampled = 0 if self._sampler is None else self._sampler.size
        return {**super().used(), "inside": self._factor.size, "dictionary": sampled}

    def check(self, prefix: str, **sizes: int) -> None:
        """Raise ModelFileError for factors of other sizes, and for places where no rows are."""
        super().check(prefix, **sizes)
        require({**sizes, **self.used()} == sizes, "it is not as large as its factor", "dictionary")
        check_places(self._inside, self._kept.count, "inside")
        check_places(self._dictionary, self._kept.count, "dictionary")


def check_places(places: Places, count: int, field: str) -> None:
    """Raise ModelFileError unless these are different places among ``count`` rows."""
    require_within(places, 0, count - 1, field)
    require(np.unique(places).size == places.size, "a row is in it twice", field)
