"""Adam's two moments and the direction they give, by PyTorch's fused kernel: one pass over all of them.

The kernel wants to move weights by ``lr·m̂/(√v̂ + ε)``. It is given zeros for weights, so that they become the direction.
On a CPU that is done a slab at a time, so that what comes before and after it finds the numbers in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

_SLAB = 1 << 18
"""Numbers worked on at a time."""


class Room:
    """Memory that steps work in, kept from one to the next: to get as much anew takes longer than to fill it."""

    def __init__(self) -> None:
        self.held: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def of(self, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """So many numbers, whatever they are; good until the next call."""
        found = self.held.get((dtype, device))
        if found is None or found.numel() < size:
            found = self.held[dtype, device] = torch.empty(size, dtype=dtype, device=device)
        return found[:size]

    def __deepcopy__(self, memo: object) -> Room:
        return Room()

    def __reduce__(self) -> tuple[type[Room], tuple[()]]:
        return Room, ()


class Pace(NamedTuple):
    """What a step is told of the moments.

    The direction is ``m̂/(√v̂ + ε)`` with ``m̂ = m/(1 − β₁ᵗ)`` and ``v̂ = v/(1 − β₂ᵗ)``. Nesterov's looks one step
    ahead: in the place of m it has ``β₁m + (1 − β₁)g``, whose weights sum up to ``1 − β₁ᵗ⁺¹``.
    """

    t: int
    """Steps the parameter has taken, this one counted."""
    betas: tuple[float, float]
    eps: float
    nesterov: bool

    @property
    def looks_ahead(self) -> bool:
        """Without momentum there is nothing ahead."""
        return self.nesterov and self.betas[0] > 0.0

    @property
    def factor(self) -> float:
        """What the direction has to be multiplied by: the kernel frees it of its start as if it were m with β₁²."""
        first = self.betas[0]
        return (1.0 - first ** (2 * self.t)) / (1.0 - first ** (self.t + 1)) if self.looks_ahead else 1.0


def direction(g: Tensor, m: Tensor, v: Tensor | None, pace: Pace, into: Tensor | None = None) -> Tensor:
    """Take a gradient into the moments, in place; the direction, flat, but for the pace's factor.

    Without v, which is not kept where no diagonal is wanted, it is m̂. It is written where told, if told.
    """
    kind = torch.promote_types(m.dtype, torch.float32)
    if m.dtype != kind:  # kept in half precision, computed in whole
        wide_m, wide_v = m.to(kind), None if v is None else v.to(kind)
        found = direction(g, wide_m, wide_v, pace, into)
        m.copy_(wide_m)
        if v is not None and wide_v is not None:
            v.copy_(wide_v)
        return found
    flat = [g.reshape(-1), m.view(-1)] if v is None else [g.reshape(-1), m.view(-1), v.view(-1)]
    whole = torch.empty(m.numel(), dtype=kind, device=m.device) if into is None else into
    size = _SLAB if m.is_cpu else m.numel()
    for out, *parts in zip(*(torch.split(x, size) for x in [whole, *flat]), strict=True):
        parts[0] = parts[0].to(kind)
        out.zero_()
        if v is None:
            _momentum(out, parts[0], parts[1], pace)
        else:
            adam([out], [parts[0]], [parts[1]], [parts[2]], pace, -1.0)
    return whole


def directions(
    grads: Sequence[Tensor],
    ms: Sequence[Tensor],
    vs: Sequence[Tensor | None],
    pace: Pace,
    whole: Tensor,
    pieces: Sequence[Tensor],
) -> None:
    """The directions of many parameters, flat, into pieces of one tensor; what fits into a cache in one call."""
    alike = all(g.dtype == m.dtype == whole.dtype and g.is_contiguous() for g, m in zip(grads, ms, strict=True))
    squares = [v.view(-1) for v in vs if v is not None]
    if alike and whole.numel() <= 2 * _SLAB and len(squares) == len(pieces):
        whole.zero_()
        adam(pieces, [g.view(-1) for g in grads], [m.view(-1) for m in ms], squares, pace, -1.0)
        return
    for g, m, v, into in zip(grads, ms, vs, pieces, strict=True):
        direction(g, m, v, pace, into)


def _momentum(out: Tensor, g: Tensor, m: Tensor, pace: Pace) -> None:
    """m̂ as the kernel would have it, the gradient taken in."""
    first, t = pace.betas[0], pace.t
    m.lerp_(g, 1.0 - first)
    if pace.looks_ahead:
        torch.lerp(m, g, 1.0 - first, out=out).mul_(1.0 / (1.0 - first ** (2 * t)))
    else:
        torch.mul(m, 1.0 / (1.0 - first**t), out=out)


def adam(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    ms: Sequence[Tensor],
    vs: Sequence[Tensor],
    pace: Pace,
    lr: float,
) -> None:
    """Adam of parameters in step with each other, all of one type; Nesterov's but for the pace's factor.

    ``β₁m_t + (1 − β₁)g`` is ``β₁²m_{t−1} + (1 − β₁²)g``: the kernel is told β₁², and what it leaves
    is brought back to m_t.
    """
    first, second = pace.betas
    torch._fused_adam_(
        list(weights),
        list(grads),
        list(ms),
        list(vs),
        [],
        [torch.full((), float(pace.t), device=weights[0].device)] * len(ms),
        lr=lr,
        beta1=first**2 if pace.looks_ahead else first,
        beta2=second,
        weight_decay=0.0,
        eps=pace.eps,
        amsgrad=False,
        maximize=False,
    )
    if pace.looks_ahead:
        torch._foreach_lerp_(list(ms), list(grads), 1.0 - 1.0 / first)


def diagonal_steps(
    weights: Sequence[Tensor],
    grads: Sequence[Tensor],
    ms: Sequence[Tensor],
    vs: Sequence[Tensor],
    pace: Pace,
    lr: float,
) -> None:
    """Adam itself, of parameters in step with each other."""
    rate = lr * pace.factor
    alike = all(w.dtype == g.dtype == m.dtype for w, g, m in zip(weights, grads, ms, strict=True))
    if alike and ms[0].dtype in (torch.float32, torch.float64) and all(w.is_contiguous() for w in weights):
        adam(weights, [g.contiguous() for g in grads], ms, vs, pace, rate)
        return
    for w, g, m, v in zip(weights, grads, ms, vs, strict=True):
        w.add_(direction(g, m, v, pace).view(w.shape), alpha=-rate)


def sparse_step(weight: Tensor, g: Tensor, m: Tensor, v: Tensor, pace: Pace, lr: float, shrink: float) -> None:
    """Adam of the rows that a sparse gradient names; the others, their moments among them, stay as they are."""
    g = g.coalesce()
    rows, values = g.indices()[0], g.values()
    if not len(rows):
        return
    part_m, part_v = m[rows], v[rows]
    step = direction(values, part_m, part_v, pace).view(values.shape).to(weight.dtype)
    m[rows], v[rows] = part_m, part_v
    weight[rows] = weight[rows] * shrink - (lr * pace.factor) * step
