"""Adam's two moments and the direction they give, computed in one pass by PyTorch's fused kernel.

The kernel moves weights by ``lr·m̂/(√v̂ + ε)``. We pass zeros as weights, so that they become the direction.
On a CPU it processes one slab at a time, so that the operations before and after it find the slab in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

_SLAB = 1 << 18
"""Numbers processed at a time."""


class Cache:
    """Base of what an optimizer keeps between steps besides its state: copies and pickles are empty."""

    def __deepcopy__(self, memo: object) -> Self:
        return type(self)()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


class Scratch(Cache):
    """Scratch memory that is reused from step to step: allocating as much takes longer than filling it."""

    def __init__(self) -> None:
        self.held: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def of(self, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return an uninitialised array of ``size`` numbers; it is valid until the next call."""
        found = self.held.get((dtype, device))
        if found is None or found.numel() < size:
            found = self.held[dtype, device] = torch.empty(size, dtype=dtype, device=device)
        return found[:size]


class Pace(NamedTuple):
    """Step count and coefficients of the moments.

    The direction is ``m̂/(√v̂ + ε)`` with ``m̂ = m/(1 − β₁ᵗ)`` and ``v̂ = v/(1 − β₂ᵗ)``. Nesterov's looks one step
    ahead: in place of m it uses ``β₁m + (1 − β₁)g``, whose weights sum up to ``1 − β₁ᵗ⁺¹``.
    """

    t: int
    """Steps that the parameter has taken, including this one."""
    betas: tuple[float, float]
    eps: float
    nesterov: bool

    @property
    def looks_ahead(self) -> bool:
        """Return True if Nesterov's momentum has an effect."""
        return self.nesterov and self.betas[0] > 0.0

    @property
    def factor(self) -> float:
        """Factor of the direction: the kernel corrects the bias as if m had been averaged with β₁²."""
        first = self.betas[0]
        return (1.0 - first ** (2 * self.t)) / (1.0 - first ** (self.t + 1)) if self.looks_ahead else 1.0


def direction(g: Tensor, m: Tensor, v: Tensor | None, pace: Pace, into: Tensor | None = None) -> Tensor:
    """Update the moments with a gradient, in place; return the direction, flat, without the factor of ``pace``.

    Without v (no diagonal), the direction is m̂. It is written to ``into`` if that is given.
    """
    kind = torch.promote_types(m.dtype, torch.float32)
    if m.dtype != kind:  # stored in half precision, computed in float32
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
    """Write the flat directions of many parameters to pieces of one tensor, as many per call as a cache holds."""
    alike = all(g.dtype == m.dtype == whole.dtype and g.is_contiguous() for g, m in zip(grads, ms, strict=True))
    squares = [v.view(-1) for v in vs if v is not None]
    if alike and whole.numel() <= 2 * _SLAB and len(squares) == len(pieces):
        whole.zero_()
        adam(pieces, [g.view(-1) for g in grads], [m.view(-1) for m in ms], squares, pace, -1.0)
        return
    for g, m, v, into in zip(grads, ms, vs, pieces, strict=True):
        direction(g, m, v, pace, into)


def _momentum(out: Tensor, g: Tensor, m: Tensor, pace: Pace) -> None:
    """Write the bias-corrected momentum m̂, with this gradient, as the kernel would."""
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
    """Take an Adam step of parameters with equal step counts and types; Nesterov's without the factor of ``pace``.

    ``β₁m_t + (1 − β₁)g`` is ``β₁²m_{t−1} + (1 − β₁²)g``: the kernel gets β₁², and its result
    is converted back to m_t.
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
    """Take an Adam step, with weight decay, of parameters with equal step counts."""
    rate = lr * pace.factor
    alike = all(w.dtype == g.dtype == m.dtype for w, g, m in zip(weights, grads, ms, strict=True))
    if alike and ms[0].dtype in (torch.float32, torch.float64) and all(w.is_contiguous() for w in weights):
        adam(weights, [g.contiguous() for g in grads], ms, vs, pace, rate)
        return
    for w, g, m, v in zip(weights, grads, ms, vs, strict=True):
        w.add_(direction(g, m, v, pace).view(w.shape), alpha=-rate)


def sparse_step(weight: Tensor, g: Tensor, m: Tensor, v: Tensor, pace: Pace, lr: float, shrink: float) -> None:
    """Take an Adam step of the rows in a sparse gradient; other rows and their moments are unchanged."""
    g = g.coalesce()
    rows, values = g.indices()[0], g.values()
    if not len(rows):
        return
    part_m, part_v = m[rows], v[rows]
    step = direction(values, part_m, part_v, pace).view(values.shape).to(weight.dtype)
    m[rows], v[rows] = part_m, part_v
    weight[rows] = weight[rows] * shrink - (lr * pace.factor) * step
