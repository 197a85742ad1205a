"""State of a parameter: its start, and checks of an existing one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from onsketch.core.errors import OptionError
from onsketch.torch.descent import momentum_of
from onsketch.torch.plan import Layer
from onsketch.torch.rows import State

if TYPE_CHECKING:
    from onsketch.torch.base import SketchedOptimizer

_DECIDING = ("sketch_size", "block_size", "diagonal_above", "scale_free")
"""Options that determine the state."""


def fresh(optimizer: SketchedOptimizer, layer: Layer, group: Mapping[str, Any], device: torch.device | str) -> State:
    """Return the state of a parameter before its first step."""
    like = torch.empty(0, dtype=layer.dtype, device=device)
    wide = torch.promote_types(layer.dtype, torch.float32)  # a half-precision sum would soon stop growing
    state: State = {"step": torch.tensor(0.0)}
    if layer.kind == "sketch":
        state.update(optimizer._empty(layer, group, like))
    if layer.kind == "diagonal" or group["graft"] or group["scale_free"]:
        state["sum"] = like.new_zeros(layer.shape, dtype=wide)
    if momentum_of(group):
        state["momentum_buffer"] = like.new_zeros(layer.shape, dtype=wide)
    return state


def complete(optimizer: SketchedOptimizer, state: State, layer: Layer, group: Mapping[str, Any], g: Tensor) -> None:
    """Add missing entries to an existing state, from a checkpoint or from other options.

    A momentum begins at rest. A diagonal sum to graft from begins as if all gradients so far had been this one: from
    zero, its steps would be far too long.
    """
    wanted = fresh(optimizer, layer, group, "meta")
    lacking = _lacking(state, wanted)
    if lacking:
        name = type(optimizer).__name__
        raise OptionError(f"{name}: the state of a parameter of shape {layer.shape} {lacking}, {asked(group)}")
    # A checkpoint's sketch may be of another type than the options say.
    wide = torch.promote_types(state["rows"].dtype, torch.float32) if "rows" in state else None
    for name in wanted.keys() - state.keys():
        state[name] = torch.zeros_like(wanted[name], dtype=wide, device=g.device)
        if name == "sum":
            steps, decay = int(state["step"]), group["betas"][1] if group["scale_free"] else group["decay"]
            weight = float(steps) if decay == 1.0 else 1.0 - decay**steps
            state[name].copy_(g.nan_to_num(0.0, 0.0, 0.0)).square_().mul_(weight)


def out_of_range(state: Mapping[str, Any]) -> str:
    """Describe counts of a state that are out of range, since kernels use them as indices; empty if none are."""
    if "counts" in state and "rows" in state:
        counts, slots = state["counts"].view(-1, 2), state["rows"].shape[1]
        if bool((counts[:, 0] >= max(1, slots)).any()) or bool((counts[:, 1] > slots).any()):
            return f"has 'counts' beyond its {slots} rows"
    for name in ("energy", "escaped", "sum"):
        if name in state and bool((state[name] < 0.0).any()):
            return f"has {name!r} below zero"
    return ""


def late(wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Return entries that a state may lack, because the option that needs them was switched on later."""
    return ("momentum_buffer", "sum") if wanted.keys() & {"rows", "matrix"} else ("momentum_buffer",)


def _lacking(state: Mapping[str, Any], wanted: Mapping[str, Tensor]) -> str:
    """Describe missing or unfitting entries of a state; empty if there are none."""
    for name, value in wanted.items():
        if name not in state:
            if name not in late(wanted):
                return f"has no {name!r}"
        elif name != "step" and tuple(state[name].shape) != tuple(value.shape):
            return f"has {name!r} of shape {tuple(state[name].shape)} where {tuple(value.shape)} is needed"
    return ""


def asked(group: Mapping[str, Any]) -> str:
    """Return, for an error message, the options that determine the state."""
    chosen = ", ".join(f"{name}={group[name]}" for name in _DECIDING)
    return f"with {chosen}. Use the options it was made with, or start without a state."
