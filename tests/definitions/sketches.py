"""Sketches: what remains of the rows, as the d×d matrix it stands for."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from definitions.options import Array, Options
from onsketch.core import draws

CUTOFF = 1e-12
"""Eigenvalues below ``CUTOFF·λ_max`` are zero in every root, rank and pseudo-inverse; a residual is zero
when its square is at most ``CUTOFF`` times that of the vector it is left from."""

LARGEST_STRETCH = 1e4
"""Oja's step is capped so that ``γ|ĝ|²`` never exceeds this."""
LONG = 100.0
"""Where no ridge was given, rows of a larger mean squared length make Oja's steps smaller in proportion."""


def cut(eigenvalues: Array) -> Array:
    """The eigenvalues, those below ``CUTOFF·λ_max`` set to zero."""
    return np.where(eigenvalues > CUTOFF * max(eigenvalues.max(initial=0.0), 0.0), eigenvalues, 0.0)


def descending(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues from the largest on, cut, and their eigenvectors as columns."""
    values, vectors = np.linalg.eigh(matrix)
    return cut(values[::-1]), vectors[:, ::-1]


class Sketch:
    """No sketch: ``SᵀS = 0``. The base of the others.

    ``matrix`` is the d×d matrix the sketch stands for, ``ridge`` the multiple of I beside it (RFD lets it
    grow from ``first_ridge``) and ``escaped`` is Σρ, the mass subtracted by all shrinks so far.
    """

    def __init__(self, d: int, ridge: float = 0.0) -> None:
        self.d = d
        self.first_ridge = self.ridge = ridge
        self.mean_length = 0.0
        self.escaped = 0.0
        self.rows = np.zeros((d, d))

    @property
    def matrix(self) -> Array:
        """``SᵀS``."""
        return self.rows

    def eigenpairs(self) -> tuple[Array, Array, Array]:
        """λ, λ cut, and the eigenvectors as columns."""
        values, vectors = np.linalg.eigh(self.matrix)
        return np.maximum(values, 0.0), cut(values), vectors

    def keep_up(self, mean_length: float, share: float) -> None:
        """A ridge that nobody gave keeps up with the rows, and so does Oja's step."""
        if share > 0:
            self.mean_length = mean_length
            if share * mean_length > self.ridge:
                self.ridge = 2 * share * mean_length

    def see(self, x: Array) -> None:
        """Learn which features exist, before the prediction of the round."""

    def absorb(self, row: Array, t: int) -> None:
        """Take in the row of round t, before the step of the round."""

    def settle(self) -> None:
        """What is left to do after the step of the round."""


class Exact(Sketch):
    """``SᵀS = Σ g gᵀ``."""

    def absorb(self, row: Array, t: int) -> None:
        self.rows = self.rows + np.outer(row, row)


class Diagonal(Sketch):
    """``SᵀS = diag(Σ g²)``; its spectrum is exact, so nothing is cut (Duchi et al. 2011)."""

    def absorb(self, row: Array, t: int) -> None:
        self.rows = self.rows + np.diag(row**2)

    def eigenpairs(self) -> tuple[Array, Array, Array]:
        values = np.diag(self.rows)
        return values, values, np.eye(self.d)


class FrequentDirections(Sketch):
    """Rows gather until a shrink takes ``ρ = λ_m`` off the m−1 largest eigenvalues and drops the others.

    Every row shrinks once m are there, or with ``doubling`` every 2m-th row does (fast FD). By ``kind``:

    - "fd": ``λ' = λ − ρ`` (Liberty 2013; Luo et al. 2016, Alg. 2; Luo et al. 2019, Alg. 4)
    - "rfd": and the ridge grows by ρ/2 (Luo et al. 2019, Alg. 3 and 6)
    - "pfd": only the last ⌊βm⌋ of the m values are reduced, the m-th among them (Desai et al. 2016)
    - "cfd": fd, and Σρ is added to the eigenvalue of each kept direction in what is read, not in what is
      kept; rows that came after the last shrink are read as they are (Desai et al. 2016)
    - "greedy": nothing is subtracted (Brand 2002; Luo et al. 2019, App. F)
    """

    def __init__(self, d: int, size: int, ridge: float, kind: str, doubling: bool, shrink_fraction: float) -> None:
        super().__init__(d, ridge)
        self.m, self.kind = size, kind
        self.limit = 2 * size if doubling else size
        self.affected = {"pfd": max(1, math.floor(shrink_fraction * size)), "greedy": 0}.get(kind, size)
        self.count = 0
        self.compensation = np.zeros((d, d))

    @property
    def matrix(self) -> Array:
        """``SᵀS``, for "cfd" with the compensation."""
        return self.rows + self.compensation

    def absorb(self, row: Array, t: int) -> None:
        self.rows = self.rows + np.outer(row, row)
        self.count += 1
        if self.count >= self.limit:
            self.shrink()

    def shrink(self) -> None:
        """Back to m−1 rows."""
        values, vectors = descending(self.rows)
        values = np.pad(values, (0, max(0, self.m - self.d)))[: self.m]
        shrunk = values - values[-1] * (np.arange(self.m) >= self.m - self.affected)
        kept = np.where(shrunk > CUTOFF * values[0], shrunk, 0.0)[: min(self.m - 1, self.d)]
        vectors = vectors[:, : kept.size]
        self.rows = (vectors * kept) @ vectors.T
        self.count = self.m - 1
        if self.kind != "greedy":
            self.escaped += values[-1]
        if self.kind == "rfd":
            self.ridge += values[-1] / 2
        if self.kind == "cfd":
            self.compensation = self.escaped * (vectors * (kept > 0)) @ vectors.T


class FastFrequentDirectionsByRank(Sketch):
    """The sketch of Ada-FFD (Wan and Zhang 2021, Alg. 3 and 4): a basis V grows by the residual of each row
    that leaves it, ``SᵀS += (VVᵀg)(VVᵀg)ᵀ``, and once V holds 2m vectors, *after* the step, ``ρ = λ_m`` is
    subtracted and the m−1 leading eigenvectors become the basis.
    """

    def __init__(self, d: int, size: int, ridge: float) -> None:
        super().__init__(d, ridge)
        self.m = size
        self.basis = np.zeros((d, 0))

    def absorb(self, row: Array, t: int) -> None:
        residual = row - self.basis @ (self.basis.T @ row)
        residual = residual - self.basis @ (self.basis.T @ residual)
        if residual @ residual > CUTOFF * (row @ row):
            self.basis = np.column_stack([self.basis, residual / np.linalg.norm(residual)])
        inside = self.basis @ (self.basis.T @ row)
        self.rows = self.rows + np.outer(inside, inside)

    def settle(self) -> None:
        if self.basis.shape[1] < 2 * self.m:
            return
        values, vectors = descending(self.rows)
        rho = values[self.m - 1]
        self.basis = vectors[:, : self.m - 1]
        self.rows = (self.basis * (values[: self.m - 1] - rho)) @ self.basis.T
        self.escaped += rho


class RandomProjection(Sketch):
    """``S += r_t gᵀ``, the entries of ``r_t`` Gaussian of variance 1/m (Luo et al. 2016; Wan et al. 2018)."""

    def __init__(self, d: int, size: int, ridge: float, seed: int) -> None:
        super().__init__(d, ridge)
        self.seed = seed
        self.S = np.zeros((size, d))

    @property
    def matrix(self) -> Array:
        return self.S.T @ self.S

    def absorb(self, row: Array, t: int) -> None:
        self.S = self.S + np.outer(draws.round_vector(self.seed, t, self.S.shape[0]), row)


class Oja(Sketch):
    """``SᵀS = Vᵀ diag(λ) V`` with ``λ += (V_{t−1}ĝ)²`` and ``V ← orthonormalise(V + γ_t Vĝĝᵀ)``, Gram-Schmidt
    in row order, ``γ_t = min(1/t, 1e4/|ĝ|²)`` (Luo et al. 2016, Alg. 3).

    V starts as a Gaussian matrix Z, orthonormalised over the features seen. A later feature brings its raw
    column of Z, which has missed the row operations ``V = F Z`` done so far: hence F. A row that depends on
    those above it, as when fewer than m features were seen, is zero in V until new features set it free.
    """

    def __init__(self, d: int, size: int, o: Options) -> None:
        super().__init__(d, o.ridge)
        self.seed, self.step, self.block = o.seed, o.oja_step, o.oja_block
        self.turn, self.waiting = np.zeros((d, d)), 0
        self.V = np.zeros((size, d))
        self.F = np.eye(size)
        self.energy = np.zeros(size)
        self.seen = np.zeros(d, dtype=bool)

    @property
    def matrix(self) -> Array:
        return (self.V.T * self.energy) @ self.V

    def see(self, x: Array) -> None:
        new = np.flatnonzero((x != 0) & ~self.seen)
        if new.size:
            self.V[:, new] = self.F @ draws.feature_columns(self.seed, new, self.energy.size)
            self.seen[new] = True
            self.orthonormalise()

    def absorb(self, row: Array, t: int) -> None:
        inside = self.V @ row
        self.energy = self.energy + inside**2
        gamma = (self.step or 1 / t) / max(1.0, self.mean_length / LONG)
        longest = LARGEST_STRETCH / self.block
        gamma = gamma if gamma * (row @ row) <= longest else longest / (row @ row)
        self.turn = self.turn + gamma * np.outer(row, row)
        self.waiting += 1
        if self.waiting == self.block:
            self.V = self.V + self.V @ self.turn
            self.turn, self.waiting = 0 * self.turn, 0
            self.orthonormalise()

    def orthonormalise(self) -> None:
        """Gram-Schmidt of the rows of V, in order, the same row operations done to F."""
        V, F = self.V, self.F
        for i in range(len(V)):
            before = V[i] @ V[i]
            for k in [*range(i), *range(i)]:  # twice is enough
                share = V[i] @ V[k]
                V[i] -= share * V[k]
                F[i] -= share * F[k]
            after = V[i] @ V[i]
            if after > CUTOFF * before:
                V[i] /= math.sqrt(after)
                F[i] /= math.sqrt(after)
            else:
                V[i] = 0.0


class LowRank(Exact):
    """``G = Σ g gᵀ`` seen through the range Q of ``GΠᵀ``: ``QᵀG = UΣVᵀ``, ``SᵀS = VΣVᵀ`` (Ada-LR of
    Krummenacher et al. 2016; Π is τ×d).
    """

    def __init__(self, d: int, ridge: float, Pi: Array) -> None:
        super().__init__(d, ridge)
        self.Pi = Pi

    @property
    def matrix(self) -> Array:
        left, values, _ = np.linalg.svd(self.rows @ self.Pi.T, full_matrices=False)
        Q = left[:, cut(values) > 0]
        _, values, V = np.linalg.svd(Q.T @ self.rows, full_matrices=False)
        return (V.T * values) @ V


class Rada(LowRank):
    """``G̃ = Σ g(Πg)ᵀ = VΣUᵀ``, ``SᵀS = VΣVᵀ``: the V = QW and Σ of RadaGrad, whose ``G̃ᵀQ = UΣWᵀ``
    (Krummenacher et al. 2016).
    """

    @property
    def matrix(self) -> Array:
        V, values, _ = np.linalg.svd(self.rows @ self.Pi.T, full_matrices=False)
        return (V * values) @ V.T


def subsampled_dct(rows: ArrayLike, signs: ArrayLike) -> Array:
    """``Π = √(d/τ)``·(these τ rows of)·(orthonormal DCT-II)·diag(signs), τ×d."""
    rows, signs = np.asarray(rows), np.asarray(signs, dtype=float)
    d, tau = signs.size, rows.size
    k, j = np.arange(d)[:, None], np.arange(d)[None, :]
    dct = math.sqrt(2 / d) * np.cos(math.pi * (2 * j + 1) * k / (2 * d))
    dct[0] /= math.sqrt(2)
    return math.sqrt(d / tau) * dct[rows] * signs


def make_sketch(d: int, o: Options) -> Sketch:
    """The empty sketch of these options."""
    m = o.sketch_size
    if o.sketch == "exact":
        return Exact(d, o.ridge)
    if o.sketch == "diagonal":
        return Diagonal(d, o.ridge)
    if o.sketch == "none" or m == 0:
        return Sketch(d, o.ridge)
    if o.sketch in ("fd", "rfd", "pfd", "cfd", "greedy"):
        return FrequentDirections(d, m, o.ridge, o.sketch, o.doubling, o.shrink_fraction)
    if o.sketch == "ffd":
        return FastFrequentDirectionsByRank(d, m, o.ridge)
    if o.sketch == "rp":
        return RandomProjection(d, m, o.ridge, o.seed)
    if o.sketch == "oja":
        return Oja(d, m, o)
    if o.sketch in ("low-rank", "rada"):
        if o.Pi is None:
            raise ValueError(f"the sketch {o.sketch!r} needs its matrix Pi")
        return {"low-rank": LowRank, "rada": Rada}[o.sketch](d, o.ridge, o.Pi)
    raise ValueError(f"unknown sketch {o.sketch!r}")
