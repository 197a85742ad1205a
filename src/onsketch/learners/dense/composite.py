"""Composite terms in a metric that is not diagonal: the proximal step of AdaGrad's family.

If P is diagonal, the step is a soft threshold and a clip, feature by feature. Here it is

    argmin_w  ½(w − v)ᵀH(w − v) + s·(l1·|w|₁ + l2/2·|w|²)   over   lower ≤ w ≤ upper

with v the plain step's result, ``s = η`` in mirror descent, ``s = ηt`` in dual averaging (Duchi, Hazan and
Singer 2011; Wan and Zhang 2021), and ``H = h₀I + Vᵀdiag(h − h₀)V``, a scalar except in k directions.

The square joins the metric: H becomes ``H + s·l2·I`` and v becomes ``(H + s·l2·I)⁻¹Hv``; with l2 alone that
is the solution. Otherwise write ``H = c·I + M`` with M positive. The problem under c·I separates by feature,
``T(β) = clip(soft(v − β/c, s·l1/c))``, and the solution is T(β) at the minimum, over the range of M, of

    ψ(β) = ½βᵀM⁻¹β − min_w [ β·(w − v) + c/2·|w − v|² + s·l1·|w|₁ ],    ∇ψ = M⁻¹β − (T(β) − v).

ψ is strictly convex and its gradient is piecewise linear, so that Newton's method with a line search converges
from any point, and is exact once no feature changes its piece. The matrix of a Newton step is
``M⁻¹ + diag(a)/c``, a = 1 for the features that T leaves free, 0 for those at zero or at a bound.

- Most methods have ``h > h₀``. Then ``c = h₀``, M has rank k, and ``β = Vᵀb`` for k numbers b: three to five
  steps of O(kd + k³), plus k² for each free or each fixed feature, whichever are fewer.
- RadaGrad fixes ``h₀ = 1``, and h may be smaller. Then c is half of the least h, β has d numbers, and
  Woodbury's identity solves for the step, at the same cost, in more steps: ten to twenty.

Stephen Becker, Jalal Fadili, Peter Ochs: "On quasi-Newton forward-backward splitting: proximal calculus and
convergence", SIAM J. Optimization 29, 2019. Liqun Qi, Jie Sun: "A nonsmooth version of Newton's method",
Mathematical Programming 58, 1993.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.tolerances import CUTOFF
from onsketch.learners.dense.metric import Metric
from onsketch.learners.options import Options

Array = NDArray[np.float64]

_STEPS = 200
"""Newton steps at most; far more than have been seen."""
_TOLERANCE = 1e-14
"""Stop when the gradient of ψ is below this, the weights being of size 1."""

FREE = 1
"""The piece of T a feature is on: ±FREE where T moves with β, by sign; 0 at zero, ±2 at a bound."""

Pieces = NDArray[np.int8]


class Terms(NamedTuple):
    """φ(w) = l1·|w|₁ + l2/2·|w|², and infinity outside of the box."""

    l1: float
    l2: float
    lower: float
    upper: float

    @classmethod
    def of(cls, options: Options) -> Terms | None:
        """The composite terms of these options, if there are any."""
        if options.l1 == 0.0 and options.l2 == 0.0 and options.box is None:
            return None
        lower, upper = options.box or (-math.inf, math.inf)
        return cls(options.l1, options.l2, lower, upper)

    def clip(self, w: Array) -> Array:
        """The nearest point of the box, feature by feature."""
        return np.clip(w, self.lower, self.upper)


def proximal(metric: Metric, v: Array, terms: Terms, s: float) -> Array:
    """``argmin_w ½|w − v|²_H + s·φ(w)``."""
    square = s * terms.l2
    if square > 0.0:
        h, h0 = metric.inside, metric.outside
        v = metric.apply(h / (h + square), h0 / (h0 + square), v)
        metric = metric.plus(square)
    if terms.l1 == 0.0 and math.isinf(terms.lower) and math.isinf(terms.upper):
        return v
    if terms.lower == terms.upper:
        return np.full_like(v, terms.lower)
    threshold = s * terms.l1
    if terms.lower <= 0.0 <= terms.upper and np.abs(metric.times(v)).max(initial=0.0) <= threshold:
        return np.zeros_like(v)
    # in units (a power of two: exact) in which the weights are of size 1, so that nothing overflows
    unit = 2.0 ** min(math.frexp(max(float(np.abs(v).max()), -terms.upper, terms.lower))[1], 1023)
    terms = terms._replace(lower=terms.lower / unit, upper=terms.upper / unit)
    low_rank = float(metric.inside.min(initial=math.inf)) >= metric.outside
    dual = _LowRankDual if low_rank else _FullDual
    return unit * dual(metric, v / unit, terms, threshold / unit).minimise()


class _Dual(ABC):
    """ψ as a function of b, which represents β, and its minimum by Newton's method."""

    def __init__(self, metric: Metric, v: Array, terms: Terms, threshold: float) -> None:
        self.metric, self.v, self.terms, self.threshold = metric, v, terms, threshold
        self.c = self.scalar()

    @abstractmethod
    def scalar(self) -> float:
        """The scalar c."""

    @abstractmethod
    def start(self) -> Array:
        """The b of β = 0."""

    @abstractmethod
    def beta(self, b: Array) -> Array:
        """β."""

    @abstractmethod
    def transposed(self, x: Array) -> Array:
        """The transpose of ``beta``."""

    @abstractmethod
    def solve(self, b: Array) -> Array:
        """M⁻¹, from b to b."""

    @abstractmethod
    def newton_step(self, gradient: Array, moves: NDArray[np.bool_]) -> Array:
        """``−(M⁻¹ + diag(a)/c)⁻¹ gradient`` in terms of b."""

    def minimise(self) -> Array:
        """T(β) at the minimum."""
        b = self.start()
        w, pieces = self.point(b)
        for _ in range(_STEPS):
            gradient = self.solve(b) - self.transposed(w - self.v)
            if np.abs(gradient).max(initial=0.0) <= _TOLERANCE:
                break
            try:
                step = self.newton_step(gradient, np.abs(pieces) == FREE)
            except np.linalg.LinAlgError:  # a metric that float64 cannot distinguish from a singular one
                break
            length = self.line_search(b, w, step, float(gradient @ step))
            if length == 0.0:
                break
            b = b + length * step
            before, (w, pieces) = pieces, self.point(b)
            if length == 1.0 and np.array_equal(before, pieces):
                break  # a whole step within one linear piece has hit the minimum
        return w

    def point(self, b: Array) -> tuple[Array, Pieces]:
        """T(β), and the piece each feature is on."""
        pulled = self.v - self.beta(b) / self.c
        soft = np.copysign(np.maximum(np.abs(pulled) - self.threshold / self.c, 0.0), pulled)
        pieces = np.where(pulled < 0.0, -FREE, FREE)
        if self.threshold > 0.0:
            pieces[soft == 0.0] = 0
        pieces[soft < self.terms.lower] = -2
        pieces[soft > self.terms.upper] = 2
        return self.terms.clip(soft), pieces.astype(np.int8)

    def line_search(self, b: Array, w: Array, step: Array, slope: float) -> float:
        """Return the largest of 1, ½, ¼, … that satisfies Armijo's condition, up to rounding; 0 for none."""
        now, noise = self.value(b, w)
        length = 1.0
        while length > 1e-12:
            trial = b + length * step
            value, more = self.value(trial, self.point(trial)[0])
            if value <= now + 1e-4 * length * slope + 1e-15 * max(noise, more):
                return length
            length *= 0.5
        return 0.0

    def value(self, b: Array, w: Array) -> tuple[float, float]:
        """ψ(β), and the size of its terms, of which rounding is a fraction."""
        u = w - self.v
        terms = (
            0.5 * float(b @ self.solve(b)),
            -float(self.beta(b) @ u),
            -0.5 * self.c * float(u @ u),
            -self.threshold * float(np.abs(w).sum()),
        )
        return math.fsum(terms), max(map(abs, terms))

    def gram(self, moves: NDArray[np.bool_]) -> Array:
        """``V diag(a) Vᵀ`` from the fewer columns, since ``VVᵀ = I``."""
        V = self.metric.directions
        if 2 * np.count_nonzero(moves) <= moves.size:
            few = V[:, moves]
            return np.asarray(few @ few.T)
        few = V[:, ~moves]
        return np.eye(len(V)) - few @ few.T


class _LowRankDual(_Dual):
    """``M = Vᵀdiag(h − h₀)V``: b has k numbers, ``β = Vᵀb``."""

    def __init__(self, metric: Metric, v: Array, terms: Terms, threshold: float) -> None:
        matters = metric.inside - metric.outside > CUTOFF * metric.outside
        metric = metric._replace(directions=metric.directions[matters], inside=metric.inside[matters])
        super().__init__(metric, v, terms, threshold)
        self.inverse = 1.0 / (metric.inside - metric.outside)

    def scalar(self) -> float:
        return self.metric.outside

    def start(self) -> Array:
        return np.zeros(len(self.inverse))

    def beta(self, b: Array) -> Array:
        return np.asarray(b @ self.metric.directions)

    def transposed(self, x: Array) -> Array:
        return np.asarray(self.metric.directions @ x)

    def solve(self, b: Array) -> Array:
        return self.inverse * b

    def newton_step(self, gradient: Array, moves: NDArray[np.bool_]) -> Array:
        return np.asarray(np.linalg.solve(np.diag(self.inverse) + self.gram(moves) / self.c, -gradient))


class _FullDual(_Dual):
    """``M = H − c·I`` of full rank: b is β itself."""

    def scalar(self) -> float:
        return 0.5 * min(self.metric.outside, float(self.metric.inside.min()))

    def start(self) -> Array:
        return np.zeros_like(self.v)

    def beta(self, b: Array) -> Array:
        return b

    def transposed(self, x: Array) -> Array:
        return x

    def solve(self, b: Array) -> Array:
        return self.metric.plus(-self.c).solve(b)

    def newton_step(self, gradient: Array, moves: NDArray[np.bool_]) -> Array:
        """With ``y = M·gradient`` and z zero but for the free features, where ``H z = y``: ``−c·z`` on those,
        ``M(z − gradient)`` on the others. By Woodbury, as H is a scalar plus k directions.
        """
        V, h0 = self.metric.directions, self.metric.outside
        rest = self.metric.plus(-self.c)
        y = np.where(moves, rest.times(gradient), 0.0)
        excess = self.metric.inside - h0
        small = np.eye(len(V)) + excess[:, np.newaxis] / h0 * self.gram(moves)
        z = np.where(moves, y - np.linalg.solve(small, excess / h0 * (V @ y)) @ V, 0.0) / h0
        return np.where(moves, -self.c * z, rest.times(z - gradient))
