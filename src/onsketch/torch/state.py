"""What is kept for a parameter: how it starts, and whether what is there already will do."""

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
"""The options that say what is kept."""


def fresh(optimizer: SketchedOptimizer, layer: Layer, group: Mapping[str, Any], device: torch.device | str) -> State:
    """The state of a parameter before its first step."""
    like = torch.empty(0, dtype=layer.dtype, device=device)
    wide = torch.promote_types(layer.dtype, torch.float32)  # a half-precision sum would soon stand still
    state: State = {"step": torch.tensor(0.0)}
    if layer.kind == "sketch":
        state.update(optimizer._empty(layer, group, like))
    if layer.kind == "diagonal" or group["graft"] or group["scale_free"]:
        state["sum"] = like.new_zeros(layer.shape, dtype=wide)
    if momentum_of(group):
        state["momentum_buffer"] = like.new_zeros(layer.shape, dtype=wide)
    return state


def complete(optimizer: SketchedOptimizer, state: State, layer: Layer, group: Mapping[str, Any], g: Tensor) -> None:
    """See that a state which was there before, of a checkpoint or of other options, has all it needs.

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
    """What is out of range in a state: kernels take the counts for indices."""
    if "counts" in state and "rows" in state:
        counts, slots = state["counts"].view(-1, 2), state["rows"].shape[1]
        if bool((counts[:, 0] >= max(1, slots)).any()) or bool((counts[:, 1] > slots).any()):
            return f"has 'counts' beyond its {slots} rows"
    for name in ("energy", "escaped", "sum"):
        if name in state and bool((state[name] < 0.0).any()):
            return f"has {name!r} below zero"
    return ""


def late(wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Entries that a state may lack, because an option that needs them was switched on later."""
    return ("momentum_buffer", "sum") if wanted.keys() & {"rows", "matrix"} else ("momentum_buffer",)


def _lacking(state: Mapping[str, Any], wanted: Mapping[str, Tensor]) -> str:
    """What is wrong with a state, or nothing."""
    for name, value in wanted.items():
        if name not in state:
            if name not in late(wanted):
                return f"has no {name!r}"
        elif name != "step" and tuple(state[name].shape) != tuple(value.shape):
            return f"has {name!r} of shape {tuple(state[name].shape)} where {tuple(value.shape)} is needed"
    return ""


def asked(group: Mapping[str, Any]) -> str:
    """The options that say what is kept, for an error's words."""
    chosen = ", ".join(f"{name}={group[name]}" for name in _DECIDING)
    return f"with {chosen}. Use the options it was made with, or start without a state."
