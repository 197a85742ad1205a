"""What is kept for a parameter: how it starts, and whether what is there already will do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from onsketch.core.errors import ModelFileError, OptionError
from onsketch.torch.plan import Layer
from onsketch.torch.rows import State

if TYPE_CHECKING:
    from onsketch.torch.base import SketchedOptimizer

_DECIDING = ("sketch_size", "block_size", "diagonal_above")
"""The options that say what is kept."""


def fresh(optimizer: SketchedOptimizer, layer: Layer, group: Mapping[str, Any], device: torch.device | str) -> State:
    """The state of a parameter before its first step."""
    like = torch.empty(0, dtype=layer.dtype, device=device)
    wide = torch.promote_types(layer.dtype, torch.float32)  # a half-precision sum would soon stand still
    state: State = {"step": torch.tensor(0.0)}
    if layer.kind == "sketch":
        state.update(optimizer._empty(layer, group, like))
    if layer.kind == "diagonal" or group["graft"]:
        state["sum"] = like.new_zeros(layer.shape, dtype=wide)
    if group["momentum"]:
        state["momentum_buffer"] = like.new_zeros(layer.shape, dtype=wide)
    return state


def complete(optimizer: SketchedOptimizer, state: State, layer: Layer, group: Mapping[str, Any], g: Tensor) -> None:
    """See that a state which was there before, of a checkpoint or of other options, has all it needs.

    A momentum begins at rest. A diagonal sum to graft from begins as if all gradients so far had been this one: from
    zero, its steps would be far too long.
    """
    wanted = fresh(optimizer, layer, group, "meta")
    lacking = _lacking(state, wanted, layer)
    if lacking:
        name = type(optimizer).__name__
        raise OptionError(f"{name}: the state of a parameter of shape {layer.shape} {lacking}, {_asked(group)}")
    # A checkpoint's sketch may be of another type than the options say.
    wide = torch.promote_types(state["rows"].dtype, torch.float32) if "rows" in state else None
    for name in wanted.keys() - state.keys():
        state[name] = torch.zeros_like(wanted[name], dtype=wide, device=g.device)
        if name == "sum":
            steps, decay = int(state["step"]), group["decay"]
            weight = float(steps) if decay == 1.0 else 1.0 - decay**steps
            state[name].copy_(g.nan_to_num(0.0, 0.0, 0.0)).square_().mul_(weight)


def check_checkpoint(optimizer: SketchedOptimizer, saved: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that could not be gone on from, before anything of it is taken over."""
    name = type(optimizer).__name__
    for group, given in zip(optimizer.param_groups, saved["param_groups"], strict=False):  # PyTorch counts them
        options = {**optimizer.defaults, **given}
        optimizer._check(options)
        for p, number in zip(group["params"], given["params"], strict=False):
            state = saved["state"].get(number)
            if not state or not p.numel():
                continue
            layer = Layer.of(torch.view_as_real(p) if p.is_complex() else p, options)
            lacking = _lacking(state, fresh(optimizer, layer, options, "meta"), layer)
            if lacking:
                raise ModelFileError(
                    f"{name}: in this checkpoint parameter {number} (shape {tuple(p.shape)}) {lacking}, "
                    f"{_asked(options)} Was it written by another optimizer, or for another network?"
                )


def keep_types(optimizer: SketchedOptimizer, saved: Mapping[str, Any]) -> None:
    """Give the state of a loaded checkpoint its own types back: PyTorch casts it to that of the weights."""
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for number, p in zip(numbers, params, strict=True):
        for name, value in saved["state"].get(number, {}).items():
            if name == "step":  # a plain number in some checkpoints
                value = torch.as_tensor(value, dtype=torch.float32)
            if isinstance(value, Tensor):
                device = "cpu" if name in ("step", "counts") else p.device
                optimizer.state[p][name] = value.to(device=device, copy=True)


def _lacking(state: Mapping[str, Any], wanted: Mapping[str, Tensor], layer: Layer) -> str:
    """What is wrong with a state, or nothing."""
    late = ("momentum_buffer", "sum") if layer.kind == "sketch" else ("momentum_buffer",)
    for name, value in wanted.items():
        if name not in state:
            if name not in late:
                return f"has no {name!r}"
        elif name != "step" and tuple(state[name].shape) != tuple(value.shape):
            return f"has {name!r} of shape {tuple(state[name].shape)} where {tuple(value.shape)} is needed"
    return ""


def _asked(group: Mapping[str, Any]) -> str:
    chosen = ", ".join(f"{name}={group[name]}" for name in _DECIDING)
    return f"with {chosen}. Use the options it was made with, or start without a state."
