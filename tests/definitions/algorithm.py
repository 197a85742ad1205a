"""One round of a sketch under a geometry, and the one algorithm made of such rounds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from definitions.geometry import free_directions, metric, preconditioner
from definitions.losses import exp_concavity, loss_of
from definitions.options import Array, Options, Result, result, rounds, schedule
from definitions.sketches import CUTOFF, make_sketch

FIRST_SCALE = 0.1
"""``D_1 = 0.1·I`` of the diagonal adaptation (Luo et al. 2016, §5.2)."""


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
