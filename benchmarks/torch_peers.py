"""Peers of benchmarks/torch_training.py that PyTorch has not, written from their papers, in the plainest way.

Each sees a parameter of several axes as a matrix, the first axis against the others, as Sketchy does; the rest goes by
Adam. Axes longer than ``longest`` are left alone by SOAP and Shampoo.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Peer(torch.optim.Optimizer):
    """Adam for vectors, ``_matrix`` for the rest."""

    def __init__(self, params: Iterable[Tensor], lr: float, betas: tuple[float, float] = (0.9, 0.999), **options: Any):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": 1e-8, **options})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            some = [p for p in group["params"] if p.grad is not None]
            for p in some:
                state = self.state[p]
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
            vectors = [p for p in some if min(self._matrix_of(p).shape) < 2]
            if vectors:
                self._adam(vectors, group)
            for p in some:
                if min(self._matrix_of(p).shape) >= 2:
                    update = self._matrix(self._matrix_of(p.grad), self.state[p], group)
                    if group.get("weight_decay"):
                        p.mul_(1.0 - group["lr"] * group["weight_decay"])
                    p.add_(update.reshape(p.shape), alpha=-group["lr"])

    def _adam(self, params: list[Tensor], group: dict[str, Any]) -> None:
        first, second = group["betas"]
        grads, ms, vs = (
            [p.grad for p in params],
            [self.state[p]["m"] for p in params],
            [self.state[p]["v"] for p in params],
        )
        t = self.state[params[0]]["t"]
        torch._foreach_lerp_(ms, grads, 1.0 - first)
        torch._foreach_mul_(vs, second)
        torch._foreach_addcmul_(vs, grads, grads, 1.0 - second)
        roots = torch._foreach_div(vs, 1.0 - second**t)
        torch._foreach_sqrt_(roots)
        torch._foreach_add_(roots, group["eps"])
        torch._foreach_addcdiv_(params, ms, roots, -group["lr"] / (1.0 - first**t))

    @staticmethod
    def _matrix_of(p: Tensor) -> Tensor:
        return p.reshape(p.shape[0], -1) if p.dim() > 1 else p.reshape(-1, 1)

    def _matrix(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        raise NotImplementedError


class Muon(Peer):
    """Momentum made orthogonal by five Newton-Schulz steps (Jordan et al. 2024), with Adam's length (Liu 2025)."""

    def _matrix(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        m = state["m"].view_as(G).lerp_(G, 0.05)
        X = G.lerp(m, 0.95)
        flipped = X.shape[0] > X.shape[1]
        X = X.mT if flipped else X
        X = (X / (X.norm() + 1e-7)).bfloat16()
        for _ in range(5):
            A = X @ X.mT
            X = 3.4445 * X + (-4.775 * A + 2.0315 * A @ A) @ X
        X = (X.mT if flipped else X).to(G.dtype)
        return X * (0.2 * max(G.shape) ** 0.5)


class _Kronecker(Peer):
    def _moments(self, G: Tensor, state: dict[str, Any], group: dict[str, Any], beta: float) -> None:
        """``E GGᵀ`` and ``E GᵀG``, of axes that are not too long."""
        for side, A in (("L", G), ("R", G.mT)):
            if len(A) <= group["longest"]:
                product = A @ A.mT
                state[side] = product if side not in state else state[side].lerp_(product, 1.0 - beta)


class SOAP(_Kronecker):
    """Adam in the eigenbasis of Shampoo's matrices (Vyas et al. 2024), which one QR step every ten follows."""

    def __init__(self, params: Iterable[Tensor], lr: float, betas: tuple[float, float] = (0.95, 0.95), **options: Any):
        super().__init__(params, lr, betas, **{"longest": 2048, "every": 10, **options})

    def _matrix(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        first, second = group["betas"]
        t, m, v = state["t"], state["m"].view_as(G), state["v"].view_as(G)
        if t == 1:
            self._moments(G, state, group, second)
            for side in ("L", "R"):
                if side in state:
                    state["Q" + side] = torch.linalg.eigh(state[side])[1].flip(1)
        m.lerp_(G, 1.0 - first)
        turned = self._turn(G, state)
        v.mul_(second).addcmul_(turned, turned, value=1.0 - second)
        step = self._turn(m, state) / (1.0 - first**t) / ((v / (1.0 - second**t)).sqrt() + group["eps"])
        step = self._turn(step, state, back=True)
        self._moments(G, state, group, second)
        if t % group["every"] == 0:
            for side, dim in (("L", 0), ("R", 1)):
                if side in state:
                    Q = state["Q" + side]
                    order = ((Q.mT @ state[side]) * Q.mT).sum(1).argsort(descending=True)
                    v.copy_(v.index_select(dim, order))
                    state["Q" + side] = torch.linalg.qr(state[side] @ Q[:, order])[0]
        return step

    @staticmethod
    def _turn(X: Tensor, state: dict[str, Any], back: bool = False) -> Tensor:
        if "QL" in state:
            X = (state["QL"] if back else state["QL"].mT) @ X
        if "QR" in state:
            X = X @ (state["QR"].mT if back else state["QR"])
        return X


class Shampoo(_Kronecker):
    """``L^{-1/4} M R^{-1/4}`` (Gupta et al. 2018) with Adam's length, roots taken every ten steps."""

    def __init__(self, params: Iterable[Tensor], lr: float, **options: Any):
        super().__init__(params, lr, **{"longest": 2048, "every": 10, **options})

    def _matrix(self, G: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
        first, second = group["betas"]
        t, m, v = state["t"], state["m"].view_as(G), state["v"].view_as(G)
        m.lerp_(G, 1.0 - first)
        v.mul_(second).addcmul_(G, G, value=1.0 - second)
        self._moments(G, state, group, 0.95)
        if t % group["every"] == 1:
            for side in ("L", "R"):
                if side in state:
                    values, V = torch.linalg.eigh(state[side])
                    values = values.clamp(min=0.0) + 1e-6 * values[-1] + 1e-30
                    state["P" + side] = (V * values**-0.25) @ V.mT
        step = m
        if "PL" in state:
            step = state["PL"] @ step
        if "PR" in state:
            step = step @ state["PR"]
        adam = m / (1.0 - first**t) / ((v / (1.0 - second**t)).sqrt() + group["eps"])
        return step * (adam.norm() / (step.norm() + 1e-30))
