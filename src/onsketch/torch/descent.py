"""The end of a step: from updates to weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onsketch.torch import diagonal
from onsketch.torch.rows import State


def usable(lr: float | Tensor) -> float | Tensor:
    """A number where reading it makes nobody wait, else the Tensor itself, without axes."""
    return float(lr) if not isinstance(lr, Tensor) or lr.is_cpu else lr.view(())


def descend(weights: Sequence[Tensor], updates: list[Tensor], states: Sequence[State], group: dict[str, Any]) -> None:
    """``w ← w − lr·(update + momentum·buffer)``."""
    if group["momentum"]:
        buffers = [state["momentum_buffer"] for state in states]
        torch._foreach_mul_(buffers, group["momentum"])
        torch._foreach_add_(buffers, updates)
        updates = buffers
    lr = usable(group["lr"])
    if isinstance(lr, Tensor):
        updates, lr = [update * lr for update in updates], 1.0
    torch._foreach_add_(list(weights), updates, alpha=-lr)


def diagonal_step(
    weights: list[Tensor], grads: list[Tensor], states: list[State], steps: list[int], group: dict[str, Any]
) -> None:
    """``w ← w − lr·g/(√(Σ g²) + ε)``, with the group's momentum and decay."""
    lr = usable(group["lr"])
    plain = not group["momentum"] and group["decay"] == 1.0 and not isinstance(lr, Tensor)
    if plain and diagonal.can_descend(weights, grads, states):
        diagonal.descend(weights, grads, states, float(lr))
        return
    roots = diagonal.denominators(grads, states, group["decay"], steps)
    descend(weights, list(torch._foreach_div(grads, roots)), states, group)
