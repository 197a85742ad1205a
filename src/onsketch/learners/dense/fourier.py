"""Ada-LR and RadaGrad: AdaGrad through a random range (Krummenacher et al. 2016).

Both look at ``G = Σ ggᵀ`` through a structured random matrix, a subsampled cosine transform with random
signs:

    Π = √(d/τ) · (τ rows, sampled without replacement) · (orthonormal DCT-II) · diag(signs),    τ×d

so that ``Πg`` costs O(d log d). It depends on the number of features d: where more come, Π is drawn for these.

Gabriel Krummenacher, Brian McWilliams, Yannic Kilcher, Joachim Buhmann, Nicolai Meinshausen: "Scalable
adaptive stochastic optimization using random projections", NIPS 2016.
"""

from __future__ import annotations

import math
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core import draws, state
from onsketch.core.arrays import LONGEST_COUNT
from onsketch.core.tolerances import CUTOFF
from onsketch.jit.decorators import kernel
from onsketch.learners.dense.summaries import SQUARED, Exact, Summary
from onsketch.learners.options import Options
from onsketch.sketches.spectral import positive_spectrum

Array = NDArray[np.float64]

_REFRESH = 256
"""Rounds after which the incremental QR's basis is orthonormalised again."""


@kernel
def _fill_coins(seed, signs, order):  # type: ignore[no-untyped-def]
    for j in range(signs.size):
        signs[j] = 1.0 if draws.uniform(seed, draws.COIN, j, 0) < 0.5 else -1.0
        order[j] = draws.uniform(seed, draws.COIN, j, 1)


def fourier_sample(seed: int, size: int, n_features: int) -> tuple[NDArray[np.int64], Array]:
    """The rows of the DCT that Π keeps, ``min(size, n_features)`` of them, ascending, and its signs.

    With ``fit_intercept`` the constant feature comes first and counts as one of the features.

    >>> rows, signs = fourier_sample(seed=0, size=3, n_features=8)
    >>> rows, signs
    (array([2, 5, 6]), array([-1., -1.,  1., -1.,  1.,  1., -1.,  1.]))
    """
    signs, order = np.empty(n_features), np.empty(n_features)
    _fill_coins(seed, signs, order)
    return np.sort(np.argsort(order)[:size]), signs


class FourierSketch:
    """Π, as a map.

    The cosine transform of d numbers is the Fourier transform F of the even ones, then the odd ones backwards,
    turned by an angle: ``Re(F_k e^{−iπk/2d})``. F of real numbers repeats its first half, conjugated, from the end.
    """

    def __init__(self, seed: int, size: int, n_features: int) -> None:
        self.rows, self.signs = fourier_sample(seed, size, n_features)
        places = np.arange(n_features)
        self._order = np.append(places[::2], places[1::2][::-1])
        second_half = 2 * self.rows > n_features
        self._found = np.where(second_half, n_features - self.rows, self.rows)
        angles = np.where(second_half, 0.5, -0.5) * np.pi * self.rows / max(n_features, 1)
        orthonormal = np.where(self.rows == 0, 1.0, math.sqrt(2.0))  # over √d, which √(d/τ) takes away
        self._turn = np.exp(1j * angles) * orthonormal / math.sqrt(max(self.rows.size, 1))

    def __call__(self, g: Array) -> Array:
        """Πg."""
        return np.asarray((np.fft.rfft((self.signs * g)[self._order])[self._found] * self._turn).real)

    def of_columns(self, matrix: Array) -> Array:
        """Π times a matrix."""
        return np.array([self(column) for column in matrix.T]).reshape(matrix.shape[1], self.rows.size).T


class LowRank(Exact):
    """Ada-LR: with ``QR = GΠᵀ`` and ``QᵀG = UΣVᵀ``, directions V with energies Σ; no step leaves them.

    O(τd²) a round and d² numbers of memory: for small d only. Merging adds G.
    """

    projected: Annotated[Array, state.Array("features rows", within=SQUARED)]
    """GΠᵀ."""
    outside = math.inf

    def __init__(self, width: int, options: Options) -> None:
        super().__init__(width, options)
        self._draw = options.seed, options.sketch_size  # no numbers of the state
        self.project = FourierSketch(*self._draw, width)
        self.projected = np.zeros((width, self.project.rows.size))

    def absorb(self, row: Array) -> None:
        """``G += ggᵀ``, and GΠᵀ with it."""
        super().absorb(row)
        self.projected += np.outer(row, self.project(row))

    def spectrum(self) -> tuple[Array, Array]:
        """V and Σ."""
        Q, triangle = np.linalg.qr(self.projected)
        left, _ = left_vectors(triangle)
        B = (Q @ left).T @ self.matrix
        # B = (W R)ᵀ: the small triangle has its spectrum, and no τ×d matrix is decomposed
        W, triangle = np.linalg.qr(B.T)
        left, values = left_vectors(triangle)
        return (W @ left).T, values

    def widen(self, width: int) -> None:
        """Zeros for the new features, and GΠᵀ for the Π of so many: as if they had been there from the start."""
        self.project = FourierSketch(*self._draw, width)
        state.resize(self, features=width)
        self.projected = np.ascontiguousarray(self.project.of_columns(self.matrix).T)

    def merge(self, other: Self, base: Self) -> None:
        """Matrices add."""
        super().merge(other, base)
        self.projected += other.projected - base.projected


class Rada(Summary):
    """RadaGrad: ``G̃ = Σ g(Πg)ᵀ = QR`` by rank-one updates; directions ``QW``, energies Σ of ``R = WΣUᵀ``.

    Outside of its directions the step is a plain gradient step (metric 1). Memory O(τd); a round costs
    O(τ²d + d log d). Merging adds G̃.
    """

    Q: Annotated[Array, state.Array("features rows")]
    R: Annotated[Array, state.Array("rows rows", within=SQUARED)]
    count: Annotated[int, state.Array("", "i8", within=(0, LONGEST_COUNT))]
    outside = 1.0

    def __init__(self, width: int, options: Options) -> None:
        super().__init__(width, options)
        self._draw = options.seed, options.sketch_size  # no numbers of the state
        self.project = FourierSketch(*self._draw, width)
        size = self.project.rows.size
        self.Q = np.eye(width, size)
        self.R = np.zeros((size, size))
        self.count = 0

    def absorb(self, row: Array) -> None:
        """``QR + g(Πg)ᵀ = [Q q]([R; 0] + [Qᵀg; |n|](Πg)ᵀ)`` with ``n = |n|q`` the part of g outside of Q."""
        self.count += 1
        length = float(np.linalg.norm(row))
        if length == 0.0 or not self.R.size:
            return
        unit = row / length
        inside = self.Q.T @ unit
        n = unit - self.Q @ inside
        again = self.Q.T @ n  # a single pass would leave rounding errors of a nearly dependent row
        n -= self.Q @ again
        inside += again
        left = float(np.linalg.norm(n))
        leaves = left * left > CUTOFF
        target = length * self.project(row)  # g(Πg)ᵀ = unit·(|g|Πg)ᵀ
        if leaves:
            tall = np.vstack([self.R, np.zeros(len(self.R))]) + np.outer(np.append(inside, left), target)
            small, self.R = np.linalg.qr(tall)
            self.Q = np.column_stack([self.Q, n / left]) @ small
        else:
            small, self.R = np.linalg.qr(self.R + np.outer(inside, target))
            self.Q = self.Q @ small
        if self.count % _REFRESH == 0:
            self.Q, turn = np.linalg.qr(self.Q)
            self.R = turn @ self.R

    def spectrum(self) -> tuple[Array, Array]:
        """V and Σ."""
        left, values = left_vectors(self.R)
        return (self.Q @ left).T, values

    def widen(self, width: int) -> None:
        """``G̃ = GΠᵀ`` for the Π of so many features, using the information on G of the old one.

        That is ``G̃(ΠG̃)⁺G̃ᵀ`` (Nyström): G itself, while its rank is at most τ.
        """
        unit = np.abs(self.R).max(initial=0.0) or 1.0  # so that nothing overflows
        scaled = self.R / unit
        small = self.project.of_columns(self.Q) @ scaled
        values, vectors = positive_spectrum((small + small.T) / 2.0)
        root = self.Q @ (scaled @ (vectors / np.sqrt(values)))  # G is this times its transpose
        self.project = FourierSketch(*self._draw, width)
        root = np.pad(root, ((0, width - len(root)), (0, 0)))
        self.Q, scaled = np.linalg.qr(root @ self.project.of_columns(root).T)
        self.R = unit * scaled

    def merge(self, other: Self, base: Self) -> None:
        """Add the matrices and factor the sum."""
        total = self.Q @ self.R + other.Q @ other.R - base.Q @ base.R
        self.Q, self.R = np.linalg.qr(total)
        self.count += other.count - base.count


def left_vectors(square: Array) -> tuple[Array, Array]:
    """Left singular vectors of a small matrix, as columns, and the values, those above the cutoff."""
    left, values, _ = np.linalg.svd(square)
    kept = values > CUTOFF * values.max(initial=0.0)
    return left[:, kept], values[kept]
