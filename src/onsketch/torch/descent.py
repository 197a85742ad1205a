"""The end of a step: from updates to weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from onsketch.torch import diagonal
from onsketch.torch.diagonal import Fine, nothing_else, settle
from onsketch.torch.rows import State


def usable(lr: float | Tensor) -> float | Tensor:
    """Return a number if reading it does not synchronise, else the Tensor itself, with no axes."""
    return float(lr) if not isinstance(lr, Tensor) or lr.is_cpu else lr.view(())


def momentum_of(group: Mapping[str, Any]) -> float:
    """Return the coefficient of the momentum: heavy ball in the papers' form, β₁ in the scale-free form."""
    momentum: float = group["momentum"]
    return momentum or (group["betas"][0] if group["scale_free"] else 0.0)


def decay_weights(weights: Sequence[Tensor], group: Mapping[str, Any], fine: Fine) -> None:
    """Apply decoupled weight decay."""
    factor = 1.0 - usable(group["lr"]) * group["weight_decay"]
    if fine is None:
        torch._foreach_mul_(list(weights), factor)
    else:
        settle(weights, torch._foreach_mul(list(weights), factor), fine)


def descend(
    weights: Sequence[Tensor],
    updates: list[Tensor],
    states: Sequence[State],
    steps: Sequence[int],
    group: Mapping[str, Any],
    fine: Fine,
) -> None:
    """Apply ``w ← w − lr·m``; m is the update, its heavy ball, or its bias-corrected average."""
    momentum = momentum_of(group)
    lr = usable(group["lr"])
    if momentum:
        buffers = [state["momentum_buffer"] for state in states]
        made = buffers if fine is None else [buffer.clone() for buffer in buffers]
        torch._foreach_mul_(made, momentum)
        torch._foreach_add_(made, updates, alpha=1.0 - momentum if group["scale_free"] else 1.0)
        if fine is not None:
            settle(buffers, made, fine)
        updates = buffers
        if group["scale_free"]:
            updates = list(torch._foreach_div(buffers, [1.0 - momentum**t for t in steps]))
    updates = nothing_else(updates, fine)
    if isinstance(lr, Tensor):
        updates, lr = [update * lr for update in updates], 1.0
    torch._foreach_add_(list(weights), updates, alpha=-lr)


def diagonal_step(
    weights: list[Tensor],
    grads: list[Tensor],
    states: list[State],
    steps: list[int],
    group: Mapping[str, Any],
    fine: Fine,
) -> None:
    """Apply ``w ← w − lr·g/(√(Σ g²) + ε)``, with the group's momentum and decay."""
    lr = usable(group["lr"])
    grads = nothing_else(grads, fine)
    plain = not group["momentum"] and group["decay"] == 1.0 and not isinstance(lr, Tensor)
    if plain and diagonal.can_descend(weights, grads, states):
        diagonal.descend(weights, grads, states, float(lr))
        return
    roots = diagonal.denominators(grads, states, group["decay"], steps, diagonal.EPSILON, fine)
    descend(weights, list(torch._foreach_div(grads, roots)), states, steps, group, fine)


def sparse_step(weight: Tensor, g: Tensor, state: State, t: int, group: Mapping[str, Any]) -> None:
    """Take a scale-free step of the rows in a sparse gradient; other rows and their state are unchanged."""
    g = g.coalesce()
    rows, values = g.indices()[0], g.values()
    if not len(rows):
        return
    values = -values if group["maximize"] else values
    part: State = {name: state[name][rows] for name in ("sum", "momentum_buffer") if name in state}
    moved = weight[rows]
    if group["weight_decay"] and group["decoupled_weight_decay"]:
        decay_weights([moved], group, None)
    elif group["weight_decay"]:
        values = values + group["weight_decay"] * moved
    x = diagonal.normalised([values], [part], [t], group, None)
    descend([moved], x, [part], [t], group, None)
    for name, value in part.items():
        state[name][rows] = value
    weight[rows] = moved
