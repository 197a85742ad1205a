"""A recipe under study: momentum whitened by a sketch of each axis, and then made orthogonal.

For matrices of one shape, each turned so that p ≤ q, with gradient G, momentum b and rate lr:

    m ← b m + (1 − b) G,   M = (1 − b) G + b m                             Nesterov's momentum, as in Muon
    L = E GGᵀ ≈ V diag(λ) Vᵀ,   R = E GᵀG likewise                         rank r; T is the energy of the whole axis
    A = V diag(max(λ, e)) Vᵀ + e (I − VVᵀ) + damping (T/d) I,   e = (T − Σλ)/(d − r)
    X = A_L^-power M A_R^-power                                            whitening: the largest directions shrink
    O = NewtonSchulz(X)                                                    whole, or in blocks of at most block × block
    Y = A_L^-sandwich O A_R^-sandwich                                      steepest descent in the sketch's coordinates
    c ← β c + (1 − β) mean over the short axis of Y²,   Z = Y/√c           NorMuon's normalisation
    w ← (1 − lr·decay) w − lr·0.2 √(pq) Z/‖Z‖                              Adam's root mean square

A^-p is I − WWᵀ up to a factor, with W = V √(1 − ((e + d)/(λ + d))^p), d the damping: two thin products an axis.
State: m, 4 bytes per number, and r(p + q) numbers of directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from onsketch.torch.spectrum import eigh

QUINTIC = (3.4445, -4.7750, 2.0315)
TINY = 1e-30


def newton_schulz(X: Tensor, steps: int) -> Tensor:
    """Polar factors of matrices (n, p, q) with p ≤ q, approximately, in bfloat16."""
    X = (X / X.norm(dim=(1, 2), keepdim=True).clamp(min=TINY)).bfloat16()
    a, b, c = QUINTIC
    for i in range(steps):
        A = X @ X.mT
        if i == 0:  # ‖XXᵀ‖_F^½ bounds the largest singular value more closely than ‖X‖_F
            scale = A.float().norm(dim=(1, 2), keepdim=True).clamp(min=TINY).rsqrt()
            X, A = X * scale.bfloat16(), A * scale.square().bfloat16()
        X = torch.baddbmm(X, torch.baddbmm(A, A, A, beta=b, alpha=c), X, beta=a)
    return X.float()


def orthogonal(X: Tensor, steps: int, block: int | None) -> Tensor:
    """``newton_schulz`` of whole matrices, or of each block of at most ``block`` rows and columns."""
    if block is None:
        return newton_schulz(X, steps)
    n, p, q = X.shape
    kp, kq = -(-p // block), -(-q // block)
    bp, bq = -(-p // kp), -(-q // kq)
    X = pad(X, (0, kq * bq - q, 0, kp * bp - p)).view(n, kp, bp, kq, bq).transpose(2, 3).reshape(-1, bp, bq)
    X = newton_schulz(X.mT, steps).mT if bp > bq else newton_schulz(X, steps)
    return X.reshape(n, kp, kq, bp, bq).transpose(2, 3).reshape(n, kp * bp, kq * bq)[:, :p, :q]


def whiten(X: Tensor, W: list[Tensor]) -> Tensor:
    """(I − W₀W₀ᵀ) X (I − W₁W₁ᵀ)."""
    X = torch.baddbmm(X, W[0], W[0].mT @ X, alpha=-1)
    return torch.baddbmm(X, X @ W[1], W[1].mT, alpha=-1)


class Layers:
    """n matrices of one shape (p × q, p ≤ q), stacked, with their momentum and the sketches of both axes."""

    def __init__(self, params: list[Tensor], rank: int) -> None:
        self.params = params
        shapes = [(p.shape[0], p[0].numel()) for p in params]
        self.turned = [rows > columns for rows, columns in shapes]
        n, p, q = len(params), min(shapes[0]), max(shapes[0])
        device, r = params[0].device, min(rank, *shapes[0])
        self.size = 0.2 * math.sqrt(p * q)
        self.G, self.m = (torch.zeros(n, p, q, device=device) for _ in range(2))
        self.columns = torch.zeros(n, 1, q, device=device)
        draws = torch.Generator().manual_seed(0)
        self.V = [torch.randn(n, d, r, generator=draws).to(device) / math.sqrt(d) for d in (p, q)]
        self.energy = [torch.zeros(n, r, device=device, dtype=torch.float64) for _ in range(2)]
        self.total = torch.zeros(n, device=device, dtype=torch.float64)
        self.before, self.after = ([torch.zeros(n, d, r, device=device) for d in (p, q)] for _ in range(2))

    def take(self) -> None:
        """Copy the gradients."""
        flat = [p.grad.reshape(p.shape[0], -1) for p in self.params if p.grad is not None]
        torch.stack([g.mT if turned else g for g, turned in zip(flat, self.turned, strict=True)], out=self.G)

    def refresh(self, beta: float, damping: float, power: float, sandwich: float) -> None:
        """Add the present gradients to the sketches of both axes: one Rayleigh-Ritz step of rank r."""
        size = self.G.norm(dim=(1, 2)).double()
        unit, weight = self.G / size.float().clamp(min=TINY)[:, None, None], (1 - beta) * size.square()
        self.total.mul_(beta).add_(weight)
        directions = list(self.V)
        for side, A in enumerate((unit, unit.mT)):
            V, energy = directions[side], self.energy[side]
            image = beta * V * energy[:, None, :].float() + weight.float()[:, None, None] * (A @ (A.mT @ V))
            span = torch.cat([image, A @ directions[1 - side]], 2)
            span = (span / span.norm(dim=1, keepdim=True).clamp(min=TINY)).double()
            values, vectors = eigh(span.mT @ span)
            inverse = torch.where(values > 1e-5 * values[:, :1], values.clamp(min=TINY).rsqrt(), 0.0)
            Q = span @ (vectors * inverse[:, None, :])
            seen, across = (A.mT @ Q.float()).double(), Q.mT @ V.double()
            core = beta * (across * energy[:, None, :]) @ across.mT + weight[:, None, None] * (seen.mT @ seen)
            values, vectors = eigh((core + core.mT) / 2)
            r, d = V.shape[2], V.shape[1]
            self.V[side] = (Q @ vectors[:, :, :r]).float()
            energy.copy_(values[:, :r].clamp(min=0.0))
            outside = ((self.total - energy.sum(1)) / max(1, d - r)).clamp(min=0.0)
            floor = (outside + damping * self.total / d).clamp(min=1e-300)
            above = (energy - outside[:, None]).clamp(min=0.0) / floor[:, None]
            for W, exponent in ((self.before, power), (self.after, sandwich)):
                shrunk = (1 - (1 + above) ** -exponent).clamp(min=0.0).sqrt()
                W[side] = self.V[side] * shrunk[:, None, :].float()


class SketchMuon(torch.optim.Optimizer):
    """The recipe of this module. A: ``power=.25, ns_steps=2``; B: ``power=.125, ns_steps=3, block=128``."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 4e-3,
        weight_decay: float = 0.01,
        *,
        momentum: float = 0.9,
        rank: int = 16,
        power: float = 0.25,
        sandwich: float = 0.125,
        ns_steps: int = 2,
        block: int | None = None,
        refresh_every: int = 5,
    ) -> None:
        options: dict[str, Any] = {"momentum": momentum, "ns_steps": ns_steps, "block": block}
        options |= {"power": power, "sandwich": sandwich, "refresh_every": refresh_every}
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, **options})
        shapes: dict[tuple[int, ...], list[Tensor]] = {}
        for p in self.param_groups[0]["params"]:
            shapes.setdefault(tuple(sorted((p.shape[0], p[0].numel()))), []).append(p)
        self.layers = [Layers(some, rank) for some in shapes.values()]
        for some in self.layers:  # the gradients and W, which follow from these, are no state
            self.state[some.params[0]] = {"m": some.m, "columns": some.columns, "left": some.V[0], "right": some.V[1]}
        self.steps = 0

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        (group,) = self.param_groups
        for some in self.layers:
            some.take()
            if self.steps % group["refresh_every"] == 0:
                some.refresh(0.95, 0.1, group["power"], group["sandwich"])
            some.m.lerp_(some.G, 1 - group["momentum"])
            X = whiten(some.G.lerp(some.m, group["momentum"]), some.before)
            X = whiten(orthogonal(X, group["ns_steps"], group["block"]), some.after)
            some.columns.lerp_(X.square().mean(1, keepdim=True), 0.05)
            X = X * some.columns.clamp(min=1e-16).rsqrt()
            X = X * (group["lr"] * some.size / X.norm(dim=(1, 2), keepdim=True).clamp(min=TINY))
            for p, turned, part in zip(some.params, some.turned, X.unbind(0), strict=True):
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_((part.mT if turned else part).reshape(p.shape))
        self.steps += 1
