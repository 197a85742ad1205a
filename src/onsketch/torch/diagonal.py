"""Diagonal AdaGrad: what large layers fall back to, and what a step's length can be grafted from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from onsketch.torch.plan import Layer
from onsketch.torch.rows import State

EPSILON = 1e-10
"""Added to the root, as in torch.optim.Adagrad."""

_SLAB = 1 << 16
"""Numbers worked on at a time on a CPU, so that the passes of a step find them in the cache."""


def denominators(grads: Sequence[Tensor], states: Sequence[State], decay: float, steps: Sequence[int]) -> list[Tensor]:
    """``√(Σ g²) + ε`` with this gradient counted in; with decay < 1 of a moving average freed of its start."""
    sums = [state["sum"] for state in states]
    _accumulate(sums, grads, decay)
    if decay < 1.0:
        sums = [total / (1.0 - decay**t) for total, t in zip(sums, steps, strict=True)]
    roots = torch._foreach_sqrt(sums)
    torch._foreach_add_(roots, EPSILON)
    return list(roots)


def _accumulate(sums: list[Tensor], grads: Sequence[Tensor], decay: float) -> None:
    grads = [g.to(total.dtype) for g, total in zip(grads, sums, strict=True)]
    if decay < 1.0:
        torch._foreach_mul_(sums, decay)
    torch._foreach_addcmul_(sums, grads, grads, value=1.0 - decay if decay < 1.0 else 1.0)


def graft(update: Tensor, blocks: Tensor, layer: Layer, state: State, t: int, decay: float) -> Tensor:
    """The update, each of its blocks, (B, b), with the length of the diagonal step of its gradient."""
    g = layer.join(blocks)
    (root,) = denominators([g], [state], decay, [t])
    wanted = layer.cut(g / root).norm(dim=1, keepdim=True)
    length = update.norm(dim=1, keepdim=True)
    return update * torch.where(length > 0.0, wanted / length, 0.0)


def descend(params: Sequence[Tensor], grads: Sequence[Tensor], states: Sequence[State], lr: float) -> None:
    """``w ← w − lr·g/(√(Σ g²) + ε)`` in place, the papers' sum, weights and sums of one type."""
    sums = [state["sum"] for state in states]
    if params[0].is_cpu:
        params, grads, sums = (_slabs(tensors) for tensors in (params, grads, sums))
        for w, g, total in zip(params, grads, sums, strict=True):
            total.addcmul_(g, g)
            w.addcdiv_(g, total.sqrt().add_(EPSILON), value=-lr)
        return
    torch._foreach_addcmul_(sums, list(grads), list(grads))
    roots = torch._foreach_sqrt(sums)
    torch._foreach_add_(roots, EPSILON)
    torch._foreach_addcdiv_(list(params), list(grads), list(roots), value=-lr)


def can_descend(params: Sequence[Tensor], grads: Sequence[Tensor], states: Sequence[State]) -> bool:
    """Whether :func:`descend` may walk over these as flat arrays."""
    return all(
        p.device == params[0].device
        and p.dtype == g.dtype == state["sum"].dtype
        and p.is_contiguous()
        and g.is_contiguous()
        for p, g, state in zip(params, grads, states, strict=True)
    )


def _slabs(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [slab for tensor in tensors for slab in torch.split(tensor.view(-1), _SLAB)]
