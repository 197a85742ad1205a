"""Full matrix ``G = Σ ggᵀ`` of a layer: the reference that the sketches approximate (Duchi et al. 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onsketch.torch.rows import Round, State
from onsketch.torch.spectrum import absorptions, cutoff, eigh, inverse_metric


def precondition(
    grads: Sequence[Tensor],
    states: Sequence[State],
    *,
    steps: Sequence[int],
    **settings: Any,
) -> list[Tensor]:
    """Return ``(ridge·I + G^{1/2})⁻¹ g`` for each gradient, (B, b); O(d³) a step."""
    updates, now = [], Round(**settings)
    decay = now.decay
    for g, state, t in zip(grads, states, steps, strict=True):
        matrix, wide = state["matrix"], g.double()
        if now.absorb:
            matrix.mul_(decay).add_(wide[:, :, None] * wide[:, None, :], alpha=now.weight)
        values, V = eigh(matrix)
        failed = ~torch.isfinite(values).all(1, keepdim=True)
        values = torch.where(values > cutoff(torch.float64) * values[:, :1], values, 0.0)
        values = values if decay == 1.0 else values / (1.0 - decay ** absorptions(t, now.every))
        p = inverse_metric("adagrad", values, now.ridge, values[:, :1])
        update = (V @ (p[:, :, None] * (V.mT @ wide[:, :, None])))[:, :, 0]
        updates.append(torch.where(failed, 0.0, update).to(g.dtype))
    return updates
