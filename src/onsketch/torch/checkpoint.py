"""Compatibility checks of a checkpoint, all of them before any state is replaced.

On a CUDA device kernels use counts of a state as indices: a count out of range would write out of bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from onsketch.core.errors import ModelFileError

if TYPE_CHECKING:
    from onsketch.torch.checked import CheckedOptimizer

ON_THE_HOST = ("step", "counts", "refreshes")
"""Entries that the host reads in every step (a device that counts steps keeps its own there)."""


def check_checkpoint(optimizer: CheckedOptimizer, saved: Mapping[str, Any]) -> None:
    """Refuse an incompatible checkpoint, naming the reason."""
    name = type(optimizer).__name__
    for group, given in zip(optimizer.param_groups, saved["param_groups"], strict=False):  # PyTorch counts them
        options = {**optimizer.defaults, **given}
        optimizer._check(options)
        for p, number in zip(group["params"], given["params"], strict=False):
            state = saved["state"].get(number)
            if not state or not local(p).numel():
                continue
            wrong = whats_wrong(optimizer, state, p, options)
            if wrong:
                raise ModelFileError(
                    f"{name}: in this checkpoint parameter {number} (shape {tuple(p.shape)}) {wrong}, "
                    f"{optimizer._asked(options)} Was it written by another optimizer or version, or for "
                    "another network?"
                )


def whats_wrong(optimizer: CheckedOptimizer, state: Mapping[str, Any], p: Tensor, group: Mapping[str, Any]) -> str:
    """Describe the first problem of a state; empty if there is none."""
    wanted = optimizer._fresh(real(local(p)), group, "meta")
    for name, value in wanted.items():
        if name not in state:
            if name not in optimizer._late(wanted):
                return f"has no {name!r}"
            continue
        wrong = _entry(name, state[name], value)
        if wrong:
            return wrong
    return optimizer._out_of_range(state)


def _entry(name: str, found: Any, wanted: Tensor) -> str:
    """Describe the problem of one entry; empty if there is none."""
    if isinstance(found, (int, float)):
        found = torch.tensor(float(found))
    if not isinstance(found, Tensor):
        return f"has {name!r} of type {type(found).__name__} where a Tensor is needed"
    found = local(found)
    if tuple(found.shape) != tuple(wanted.shape) and not (found.numel() == wanted.numel() == 1):
        return f"has {name!r} of shape {tuple(found.shape)} where {tuple(wanted.shape)} is needed"
    if found.dtype == torch.bool or found.is_complex():
        return f"has {name!r} of type {found.dtype} where real numbers are needed"
    if found.is_meta:
        return ""
    if not bool(torch.isfinite(found).all()):
        return f"has numbers in {name!r} that are not finite"
    counts = not wanted.is_floating_point() or name in ON_THE_HOST
    if counts and found.is_floating_point() and not bool((found == found.round()).all()):
        return f"has {name!r} that are no whole numbers"
    if counts and bool((found < 0).any()):
        return f"has {name!r} below zero"
    return ""


def keep_types(optimizer: CheckedOptimizer, saved: Mapping[str, Any]) -> None:
    """Restore the types of a loaded state: PyTorch casts it to the type of the weights.

    Entries that are always float64 or integers get that type again: a checkpoint may have gone through ``.float()``.
    """
    entries = [(group, p) for group in optimizer.param_groups for p in group["params"]]
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    for number, (group, p) in zip(numbers, entries, strict=True):
        state = saved["state"].get(number)
        if not state or not local(p).numel():
            continue
        wanted = optimizer._fresh(real(local(p)), group, "meta")
        for name, value in state.items():
            if isinstance(value, (int, float)) and name in wanted:  # a plain number in some checkpoints
                value = torch.tensor(value, dtype=wanted[name].dtype)
            if isinstance(value, Tensor):
                exact = name in wanted and (
                    not wanted[name].is_floating_point() or name in ON_THE_HOST or wanted[name].dtype == torch.float64
                )
                dtype = wanted[name].dtype if exact else value.dtype
                optimizer.state[p][name] = value.to(optimizer._place(name, p), dtype=dtype, copy=True)


def is_plain(p: Tensor) -> bool:
    """Return True for a plain Tensor of real numbers (no subclass); a fast test."""
    return type(p) in (Tensor, torch.nn.Parameter) and not p.is_complex()


def local(p: Tensor) -> Tensor:
    """Return the local part of a sharded parameter; any other is returned unchanged."""
    if type(p) in (Tensor, torch.nn.Parameter):
        return p
    return p.to_local() if hasattr(p, "to_local") else p


def real(p: Tensor) -> Tensor:
    """Return a complex parameter as its real and imaginary parts."""
    return torch.view_as_real(p) if p.is_complex() else p


def place_gradient(p: Any) -> None:
    """Redistribute the gradient of a DTensor as its parameter is; partial sums are added up."""
    placements = getattr(p.grad, "placements", None)
    if placements and hasattr(p, "placements") and placements != p.placements:
        p.grad = p.grad.redistribute(placements=p.placements)


def gradient(p: Tensor) -> Tensor:
    """Return the gradient of a parameter, or of its local part, as real numbers."""
    assert p.grad is not None
    g = local(p.grad)
    return torch.view_as_real(g.resolve_conj()) if g.is_complex() else g
