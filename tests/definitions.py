"""Every linear method, written out with explicit d×d matrices: what the library must agree with.

One algorithm serves all methods but three. A round predicts ``z = w·x``, forms ``g = c ℓ'(z) x``, lets a
*sketch* absorb one row and steps ``w ← w − step·P g``. Here a sketch is the d×d matrix ``SᵀS`` it stands
for, and a *geometry* is a scalar function ``h`` of that matrix's spectrum: with ``SᵀS = V diag(λ) Vᵀ``,

    H = V diag(h(λ)) Vᵀ    and    P = H⁻¹    (the pseudo-inverse where h = 0)

Nothing is fast, nothing is incremental where a definition will do, and nothing comes from the library but
its random numbers. The only numerical decision is ``CUTOFF``. Adam, FTRL-proximal and AROW stand apart.

    run("rfd-son", X, y, sketch_size=5, ridge=1.0)
    compose_definition(X, y, sketch="rfd", geometry="adagrad", update="dual", summary="curvature")
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onsketch.core import draws

Array = NDArray[np.float64]

CUTOFF = 1e-12
"""Eigenvalues below ``CUTOFF·λ_max`` are zero in every root, rank and pseudo-inverse; a residual is zero
when its square is at most ``CUTOFF`` times that of the vector it is left from."""

LARGEST_STRETCH = 1e4
"""Oja's step is capped so that ``γ|ĝ|²`` never exceeds this."""
LONG = 100.0
"""Where no ridge was given, rows of a larger mean squared length make Oja's steps smaller in proportion."""

FIRST_SCALE = 0.1
"""``D_1 = 0.1·I`` of the diagonal adaptation (Luo et al. 2016, §5.2)."""

CURVATURE_FLOOR = 0.05
"""The least ``ℓ''`` of a curvature row, for the losses whose second derivative may vanish."""


class Result(NamedTuple):
    """The clipped margins predicted before each update, and the unprojected weights after the last round."""

    predictions: Array
    weights: Array


@dataclass(frozen=True)
class Options:
    """What a run may be told, with the library's names; ``None`` and "default" mean as in the library."""

    sketch: str = "none"
    geometry: str = "ogd"
    loss: str = "squared"
    quantile: float = 0.5
    sketch_size: int = 20
    ridge: float = 1.0
    ridge_share: float = 0.0
    step_size: float = 1.0
    clip: float | str | None = "default"
    projection: str | None = None
    curvature: float | None = None
    curvature_schedule: str | None = None
    summary: str = "gradient"
    update: str = "mirror"
    doubling: bool = True
    diagonal: bool = False
    diagonal_first: bool = False
    oja_step: float | None = None
    oja_block: int = 1
    shrink_fraction: float = 0.2
    l1: float = 0.0
    l2: float = 0.0
    box: tuple[float, float] | None = None
    average: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    seed: int = 0
    sample_weight: ArrayLike | None = None
    Pi: Array | None = None

    @property
    def bound(self) -> float:
        """C: by default 1 for Newton methods, none (infinity) for the others."""
        if self.clip == "default":
            return 1.0 if self.geometry == "newton" else math.inf
        return math.inf if self.clip is None else float(self.clip)

    @property
    def projects_before(self) -> bool:
        """Whether the clip is heeded before a prediction; without a ridge RFD heeds it after a step."""
        robust = self.sketch == "rfd" and self.ridge == 0 and self.update == "mirror" and not self.diagonal_first
        return self.projection == "before" or (self.projection is None and not robust)

    @property
    def composite(self) -> bool:
        """Whether a step ends with a proximal map."""
        return self.l1 != 0 or self.l2 != 0 or self.box is not None


# Losses ---------------------------------------------------------------------------------------------------


class Loss(NamedTuple):
    """``ℓ(z, y)``, its derivative in z (0 at a kink), and the second derivative of curvature rows."""

    value: Callable[[float, float], float]
    slope: Callable[[float, float], float]
    curvature: Callable[[float, float], float] | None


def _sigmoid(z: float) -> float:
    return float(np.exp(-np.logaddexp(0.0, -z)))


LOSSES = {
    "squared": Loss(
        value=lambda z, y: (z - y) ** 2,
        slope=lambda z, y: 2.0 * (z - y),
        curvature=lambda z, y: 2.0,
    ),
    "absolute": Loss(
        value=lambda z, y: abs(z - y),
        slope=lambda z, y: float(np.sign(z - y)),
        curvature=None,
    ),
    "logistic": Loss(
        value=lambda z, y: float(np.logaddexp(0.0, -y * z)),
        slope=lambda z, y: -y * _sigmoid(-y * z),
        curvature=lambda z, y: max(_sigmoid(z) * _sigmoid(-z), CURVATURE_FLOOR),
    ),
    "hinge": Loss(
        value=lambda z, y: max(0.0, 1.0 - y * z),
        slope=lambda z, y: -y if y * z < 1.0 else 0.0,
        curvature=None,
    ),
    "squared_hinge": Loss(
        value=lambda z, y: max(0.0, 1.0 - y * z) ** 2,
        slope=lambda z, y: -2.0 * y * max(0.0, 1.0 - y * z),
        curvature=lambda z, y: 2.0 if y * z < 1.0 else CURVATURE_FLOOR,
    ),
    "poisson": Loss(
        value=lambda z, y: math.exp(z) - y * z,
        slope=lambda z, y: math.exp(z) - y,
        curvature=lambda z, y: max(math.exp(z), CURVATURE_FLOOR),
    ),
}


def pinball(level: float) -> Loss:
    """The quantile loss of this level."""
    return Loss(
        value=lambda z, y: level * (y - z) if y >= z else (1.0 - level) * (z - y),
        slope=lambda z, y: -level if z < y else 1.0 - level if z > y else 0.0,
        curvature=None,
    )


def loss_of(o: Options) -> Loss:
    """The loss that the options ask for."""
    return pinball(o.quantile) if o.loss == "quantile" else LOSSES[o.loss]


def exp_concavity(loss: str, bound: float) -> float:
    """σ on ``|z| ≤ C``: squared 1/(8C²), logistic e^{−C}, squared hinge (3C − 1)/(8C²(1 + C)) for C ≥ 1, losses with
    straight pieces 0; C = 1 where there is no bound (Luo et al. 2016, Assumption 2).
    """
    C = bound if math.isfinite(bound) else 1.0
    hinge = (3 * C - 1) / (8 * C**2 * (1 + C)) if C >= 1 else 1 / (2 * (1 + C) ** 2)
    poisson = math.exp(-C) * min((2 * C - 1 + math.exp(-2 * C)) / (2 * C**2), 1 / (2 * math.sinh(C)) ** 2)
    table = {"squared": 1 / (8 * C**2), "logistic": math.exp(-C), "squared_hinge": hinge, "poisson": poisson}
    return table.get(loss, 0.0)


def schedule(o: Options, t: int) -> float:
    """``η_t``: 0, 1/t or 1/√t; by default 1/√t for a loss without curvature, 1/t at ridge 0, else 0."""
    name = o.curvature_schedule
    if name is None:
        name = "1/sqrt(t)" if o.loss in ("absolute", "hinge", "quantile") else "1/t" if o.ridge == 0 else "none"
    return {"none": 0.0, "1/t": 1 / t, "1/sqrt(t)": 1 / math.sqrt(t)}[name]


# Sketches: what remains of the rows -----------------------------------------------------------------------


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


# Geometries: what the spectrum means ----------------------------------------------------------------------


def spectral_function(name: str, sketch: Sketch, t: int) -> tuple[Array, Array]:
    """``h(λ)`` and the eigenvectors, ``H = V diag(h) Vᵀ``.

    - "newton": ridge + λ
    - "adagrad": ridge + √λ, the ridge outside the root (Duchi et al. 2011; Wan and Zhang 2021)
    - "s-adagrad": √(ridge + Σρ + λ), ridge and escaped mass inside (Feinberg et al. 2023)
    - "low-rank": ridge + √λ, and infinite where λ = 0: no step leaves the sketch (Ada-LR)
    - "rada": ridge + √λ, and 1 where λ = 0 (RadaGrad)
    - "ogd": √t, whatever λ (Zinkevich 2003)
    """
    values, clean, vectors = sketch.eigenpairs()
    root = np.sqrt(clean)
    if name == "newton":
        h = sketch.ridge + (values if sketch.ridge > 0 else clean)
    elif name == "adagrad":
        h = sketch.ridge + root
    elif name == "s-adagrad":
        h = np.sqrt(sketch.first_ridge + sketch.escaped + clean)
    elif name == "low-rank":
        h = np.where(clean > 0, sketch.ridge + root, math.inf)
    elif name == "rada":
        h = np.where(clean > 0, sketch.ridge + root, 1.0)
    elif name == "ogd":
        h = np.full(sketch.d, math.sqrt(t))
    else:
        raise ValueError(f"unknown geometry {name!r}")
    return h, vectors


def preconditioner(geometry: str, sketch: Sketch, t: int) -> Array:
    """``P``, the (pseudo-)inverse of H, d×d."""
    h, V = spectral_function(geometry, sketch, t)
    return (V * np.divide(1.0, h, out=np.zeros_like(h), where=h > 0)) @ V.T


def metric(geometry: str, sketch: Sketch, t: int) -> Array:
    """``H``, d×d."""
    h, V = spectral_function(geometry, sketch, t)
    if not (np.isfinite(h) & (h > 0)).all():
        raise ValueError("a proximal step needs a positive definite metric")
    return (V * h) @ V.T


def free_directions(geometry: str, sketch: Sketch, t: int) -> Array:
    """The orthogonal projector, d×d, onto the directions in which a move costs nothing: the kernel of H."""
    h, V = spectral_function(geometry, sketch, t)
    return (V * (h == 0)) @ V.T


# One round ------------------------------------------------------------------------------------------------


def clamp(z: float, bound: float) -> float:
    """z, brought into [−C, C]."""
    return min(max(float(z), -bound), bound)


def project(u: Array, x: Array, P: Array, free: Array, bound: float) -> Array:
    """The point w nearest to u in the metric of P with ``|w·x| ≤ C`` (Luo et al. 2016, Lemma 1; at ridge 0
    along ``n``, the part of x that costs nothing, where there is one).
    """
    excess = u @ x - clamp(u @ x, bound)
    n = free @ x
    direction = n if n @ n > CUTOFF * (x @ x) else P @ x
    if excess == 0 or x @ direction <= 0:
        return u
    return u - excess / (x @ direction) * direction


def summary_row(o: Options, x: Array, z: float, y: float, c: float, t: int) -> Array:
    """The row absorbed in round t: x; ``√(c ℓ''(z))·x``; the gradient g; under Newton ``√(σ/c + η_t)·g``."""
    loss = loss_of(o)
    if o.summary == "data":
        return x
    if o.summary == "curvature":
        if loss.curvature is None:
            raise ValueError(f"the {o.loss} loss has no curvature rows")
        return math.sqrt(c * loss.curvature(z, y)) * x
    g = c * loss.slope(z, y) * x
    if o.geometry != "newton" or c == 0:
        return g
    sigma = exp_concavity(o.loss, o.bound) if o.curvature is None else o.curvature
    if sigma + schedule(o, 1) == 0:
        raise ValueError("sigma + eta_t is zero in every round: nothing would be absorbed")
    return math.sqrt(sigma / c + schedule(o, t)) * g


def proximal(v: Array, H: Array, s: float, o: Options) -> Array:
    """``argmin_w ½(w−v)ᵀH(w−v) + s(l1|w|₁ + (l2/2)|w|²)`` over the box.

    Sweeps of exact coordinate minimisation. After each, the smooth problem left by its signs and active
    bounds is solved exactly; the answer is returned when another sweep does not move it.
    """
    lo, hi = o.box or (-math.inf, math.inf)

    def sweep(w: Array) -> Array:
        w = w.copy()
        for j in range(w.size):
            pull = H[j] @ (v - w) + H[j, j] * w[j]
            pull = np.sign(pull) * max(abs(pull) - s * o.l1, 0.0)
            w[j] = min(max(pull / (H[j, j] + s * o.l2), lo), hi)
        return w

    def solve_pattern(w: Array) -> Array:
        free = (w > lo) & (w < hi) & ((w != 0) | (o.l1 == 0))
        w = w.copy()
        right = H[free] @ np.where(free, v, v - w) - s * o.l1 * np.sign(w[free])
        w[free] = np.linalg.solve(H[np.ix_(free, free)] + s * o.l2 * np.eye(free.sum()), right)
        return w

    w = v
    for _ in range(10_000):
        w = sweep(w)
        exact = solve_pattern(w)
        tolerance = 1e-13 * np.abs(H).max() * max(np.abs(v).max(), np.abs(exact).max())
        if np.max(np.diag(H) * np.abs(sweep(exact) - exact)) <= tolerance:
            return exact
    raise RuntimeError("the proximal step did not converge")


def rounds(X: ArrayLike, y: ArrayLike, o: Options) -> Iterator[tuple[int, Array, float, float]]:
    """(t, x_t, y_t, sample weight), t from 1."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    weight = np.ones(len(y)) if o.sample_weight is None else np.asarray(o.sample_weight, dtype=float)
    for t in range(1, len(y) + 1):
        yield t, X[t - 1], float(y[t - 1]), float(weight[t - 1])


def result(predictions: list[float], iterates: list[Array], o: Options) -> Result:
    """The last iterate, or the mean of ``u_2 .. u_{T+1}``; ``iterates`` starts with ``u_1``."""
    average = o.average and len(iterates) > 1
    return Result(np.array(predictions), np.mean(iterates[1:], axis=0) if average else iterates[-1])


# The methods ----------------------------------------------------------------------------------------------


def compose_definition(X: ArrayLike, y: ArrayLike, *, sketch: str, geometry: str, **options: object) -> Result:
    """Any sketch under any geometry.

    Mirror descent: ``u_{t+1} = prox(w_t − step·P_t g_t)`` with weight ``step`` on φ, ``w_t`` the projection
    of ``u_t`` in the metric as it is before round t; with ``projection="after"``, ``w_t = u_t`` and the step ends with
    the projection, in the metric as it is after round t. Dual averaging: ``w_{t+1} = prox(−step·P_t ḡ_t)``,
    ``ḡ_t = Σ g``, with weight ``step·t``; only the prediction is clamped.
    """
    return second_order(X, y, Options(sketch=sketch, geometry=geometry, **options))  # type: ignore[arg-type]


def second_order(X: ArrayLike, y: ArrayLike, o: Options) -> Result:
    """The one algorithm; see ``compose_definition``."""
    if o.diagonal and o.composite:
        raise ValueError("composite terms are not defined in adapted coordinates")
    if o.update not in ("mirror", "dual"):
        raise ValueError(f"unknown update {o.update!r}")
    d = np.shape(X)[1]
    sketch = make_sketch(d, o)
    D = np.full(d, FIRST_SCALE)
    u, gradient_sum = np.zeros(d), np.zeros(d)
    predictions, iterates, lengths = [], [u], 0.0
    for t, raw, target, c in rounds(X, y, o):
        x = raw / np.sqrt(D) if o.diagonal else raw
        sketch.see(x)
        if not o.diagonal_first:
            lengths += x @ x
            sketch.keep_up(lengths / t, o.ridge_share)
        w = u
        before = o.projects_before
        if o.update == "mirror" and before and abs(u @ x) > o.bound and not o.diagonal_first:
            P, free = preconditioner(o.geometry, sketch, t), free_directions(o.geometry, sketch, t)
            w = project(u, x, P, free, o.bound)
        z = clamp(w @ x, o.bound) if before else float(w @ x)
        slope = c * loss_of(o).slope(z, target)
        D = D + (slope * raw) ** 2
        if o.diagonal_first:  # what Vowpal Wabbit's OjaNewton does; the footnote of Luo et al. 2016 does not
            x = raw / np.sqrt(D)
            lengths += x @ x
            sketch.keep_up(lengths / t, o.ridge_share)
        g = slope * x
        gradient_sum = gradient_sum + g
        row = summary_row(o, x, z, target, c, t)
        if not before and not row.any():  # nothing to absorb and no step: the projection alone
            P, free = preconditioner(o.geometry, sketch, t), free_directions(o.geometry, sketch, t)
            w = project(u, x, P, free, o.bound)
        sketch.absorb(row, t)
        P = preconditioner(o.geometry, sketch, t)
        if o.update == "mirror":
            u, s = w - o.step_size * P @ g, o.step_size
            if not before and row.any():  # Luo et al. 2019, Algorithm 6, line 17: the metric has the row in it
                u = project(u, x, P, free_directions(o.geometry, sketch, t), o.bound)
        else:
            u, s = -o.step_size * P @ gradient_sum, o.step_size * t
        if o.composite:
            u = proximal(u, metric(o.geometry, sketch, t), s, o)
        sketch.settle()
        predictions.append(z)
        iterates.append(u)
    weights = result(predictions, iterates, o).weights
    return Result(np.array(predictions), weights / np.sqrt(D) if o.diagonal else weights)


def adam(X: ArrayLike, y: ArrayLike, o: Options) -> Result:
    """``w −= η m̂/(√v̂ + ε)``, bias-corrected, ε = ridge (Kingma and Ba 2015, Alg. 1). Every coordinate moves
    in every round. A clip clamps the prediction.
    """
    w, m, v = np.zeros((3, np.shape(X)[1]))
    b1, b2 = o.betas
    predictions, iterates = [], [w]
    for t, x, target, c in rounds(X, y, o):
        z = clamp(w @ x, o.bound)
        g = c * loss_of(o).slope(z, target) * x
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        m_hat, v_hat = m / (1 - b1**t), v / (1 - b2**t)
        w = w - o.step_size * m_hat / (np.sqrt(v_hat) + o.ridge)
        predictions.append(z)
        iterates.append(w)
    return result(predictions, iterates, o)


def ftrl(X: ArrayLike, y: ArrayLike, o: Options) -> Result:
    """FTRL-proximal, per coordinate, α = step_size, β = ridge (McMahan et al. 2013, Alg. 1):

    ``σ = (√(n + g²) − √n)/α``, ``z += g − σw``, ``n += g²``,
    ``w = −(z − sign(z) l1) / ((β + √n)/α + l2)`` where ``|z| > l1``, else 0. A clip clamps the prediction.
    """
    w, z, n = np.zeros((3, np.shape(X)[1]))
    predictions, iterates = [], [w]
    for _, x, target, c in rounds(X, y, o):
        margin = clamp(w @ x, o.bound)
        g = c * loss_of(o).slope(margin, target) * x
        sigma = (np.sqrt(n + g**2) - np.sqrt(n)) / o.step_size
        z = z + g - sigma * w
        n = n + g**2
        w = np.zeros_like(z)
        on = np.abs(z) > o.l1
        w[on] = -(z - np.sign(z) * o.l1)[on] / ((o.ridge + np.sqrt(n)) / o.step_size + o.l2)[on]
        predictions.append(margin)
        iterates.append(w)
    return result(predictions, iterates, o)


def arow(X: ArrayLike, y: ArrayLike, o: Options) -> Result:
    """AROW with a diagonal Σ, r = ridge over the sample weight (Crammer et al. 2009), on rounds with a slope:

    ``w += −(ℓ'/2)/(xᵀΣx + r) Σx``, then ``Σ⁻¹ += diag(x²)/r``. A clip clamps the prediction.
    """
    if o.loss not in ("squared", "squared_hinge"):
        raise ValueError(f"AROW is not defined for the {o.loss} loss")
    d = np.shape(X)[1]
    w, inverse = np.zeros(d), np.ones(d)
    predictions, iterates = [], [w]
    for _, x, target, c in rounds(X, y, o):
        z = clamp(w @ x, o.bound)
        slope = loss_of(o).slope(z, target)
        if slope != 0 and c > 0:
            r = o.ridge / c
            w = w - slope / 2 / (x @ (x / inverse) + r) * x / inverse
            inverse = inverse + x**2 / r
        predictions.append(z)
        iterates.append(w)
    return result(predictions, iterates, o)


def _parts(sketch: str, geometry: str, **options: object) -> dict[str, object]:
    return {"sketch": sketch, "geometry": geometry, **options}


METHODS: dict[str, dict[str, object]] = {
    "ogd": _parts("none", "ogd"),
    "adagrad": _parts("diagonal", "adagrad"),
    "ada-full": _parts("exact", "adagrad"),
    "ons": _parts("exact", "newton"),
    "rp-son": _parts("rp", "newton"),
    "fd-son": _parts("fd", "newton"),
    "rfd-son": _parts("rfd", "newton"),
    "pfd-son": _parts("pfd", "newton"),
    "cfd-son": _parts("cfd", "newton"),
    "oja-son": _parts("oja", "newton"),
    "ada-lr": _parts("low-rank", "low-rank"),
    "radagrad": _parts("rada", "rada"),
    "ada-gp": _parts("rp", "adagrad"),
    "ada-dp": _parts("rp", "adagrad", summary="data"),
    "ada-fd": _parts("fd", "adagrad", doubling=False),
    "ada-ffd": _parts("ffd", "adagrad"),
    "s-adagrad": _parts("fd", "s-adagrad", doubling=False),
}
"""The methods that are a sketch under a geometry, each with the defaults that are its own."""

FIRST_ORDER: dict[str, tuple[Callable[[ArrayLike, ArrayLike, Options], Result], dict[str, object]]] = {
    "adam": (adam, {"ridge": 1e-8}),
    "ftrl": (ftrl, {}),
    "arow": (arow, {}),
}
"""The others, each with the defaults that are its own."""


def run(method: str, X: ArrayLike, y: ArrayLike, **options: object) -> Result:
    """One pass of a named method; ``options`` are the fields of ``Options``, the method's own defaults first.

    A field that does not concern the method is ignored.
    """
    if method in FIRST_ORDER:
        learn, defaults = FIRST_ORDER[method]
        return learn(X, y, Options(**(defaults | options)))  # type: ignore[arg-type]
    return second_order(X, y, Options(**(METHODS[method] | options)))  # type: ignore[arg-type]
