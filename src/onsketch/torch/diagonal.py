"""Diagonal statistics: AdaGrad's sums of squares, or Adam's averages of them.

Large layers fall back to them, and a step's length can be grafted from them. The scale-free form divides gradients by
their roots before sketching. ``fine``, where given, marks on the device which gradients are finite. The others change
nothing, without synchronising.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from onsketch.torch.plan import Layer
from onsketch.torch.rows import State

Fine = Sequence[Tensor] | None

EPSILON = 1e-10
"""Added to the root of the papers' sum, as in torch.optim.Adagrad."""

_SLAB = 1 << 16
"""Numbers processed at a time on a CPU, so that the passes of a step find them in the cache."""


def settle(olds: Sequence[Tensor], news: Sequence[Tensor], fine: Sequence[Tensor]) -> None:
    """Assign each new value whose gradient is finite."""
    for old, new, is_fine in zip(olds, news, fine, strict=True):
        torch.where(is_fine, new, old, out=old)


def nothing_else(values: Sequence[Tensor], fine: Fine) -> list[Tensor]:
    """Return the values of finite gradients, and zeros elsewhere."""
    if fine is None:
        return list(values)
    return [torch.where(is_fine, value, 0.0) for value, is_fine in zip(values, fine, strict=True)]


def marks(fine: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return addends that make kernels skip the sketch: NaN where a gradient or its square is not finite, else 0."""
    return torch.where(torch.stack(list(fine)), 0.0, torch.nan).unbind()


def average_of_squares(sums: Sequence[Tensor], grads: Sequence[Tensor], decay: float, fine: Fine) -> None:
    """Update ``v ← decay·v + (1 − decay)·g²``, or with decay 1 ``v + g²``, in place."""
    grads = [g.to(total.dtype) for g, total in zip(grads, sums, strict=True)]
    news = list(sums) if fine is None else [total.clone() for total in sums]
    if decay < 1.0:
        torch._foreach_mul_(news, decay)
    torch._foreach_addcmul_(news, grads, grads, value=1.0 - decay if decay < 1.0 else 1.0)
    if fine is not None:
        settle(sums, news, fine)


def denominators(
    grads: Sequence[Tensor], states: Sequence[State], decay: float, steps: Sequence[int], eps: float, fine: Fine = None
) -> list[Tensor]:
    """Return ``√(Σ g²) + ε``, this gradient included; with decay < 1 of a bias-corrected moving average."""
    sums = [state["sum"] for state in states]
    average_of_squares(sums, grads, decay, fine)
    if decay < 1.0:
        sums = [total / (1.0 - decay**t) for total, t in zip(sums, steps, strict=True)]
    roots = torch._foreach_sqrt(sums)
    torch._foreach_add_(roots, eps)
    return list(roots)


def normalised(
    grads: Sequence[Tensor], states: Sequence[State], steps: Sequence[int], group: Mapping[str, Any], fine: Fine
) -> list[Tensor]:
    """Return ``x = g/(√v̂ + ε)``, v Adam's average of squares: the gradient of the scale-free form."""
    roots = denominators(grads, states, group["betas"][1], steps, group["eps"], fine)
    if fine is None:
        return [g / root for g, root in zip(grads, roots, strict=True)]
    return [torch.addcdiv(mark, g, root) for mark, g, root in zip(marks(fine), grads, roots, strict=True)]


def graft(update: Tensor, wanted: Tensor, layer: Layer) -> Tensor:
    """Return the update with each block scaled to the length of the same block of ``wanted``."""
    blocks, like = layer.cut(update), layer.cut(wanted)
    length = torch.linalg.vector_norm(blocks, dim=1, keepdim=True)
    scale = torch.linalg.vector_norm(like, dim=1, keepdim=True) / length
    return layer.join(blocks * torch.where(length > 0.0, scale, 0.0))


def descend(params: Sequence[Tensor], grads: Sequence[Tensor], states: Sequence[State], lr: float) -> None:
    """Apply ``w ← w − lr·g/(√(Σ g²) + ε)`` in place: the papers' sum; weights and sums have one type."""
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
    """Return True if :func:`descend` may treat these as flat arrays."""
    return all(
        p.device == params[0].device
        and p.dtype == g.dtype == state["sum"].dtype
        and p.is_contiguous()
        and g.is_contiguous()
        for p, g, state in zip(params, grads, states, strict=True)
    )


def _slabs(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [slab for tensor in tensors for slab in torch.split(tensor.view(-1), _SLAB)]
