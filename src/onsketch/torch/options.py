"""Options that all optimizers share, their checks, and the typed arguments of a step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from onsketch.core.errors import OptionError

SKETCH_DTYPES = (None, torch.float32, torch.float64, torch.bfloat16, torch.float16)
FLAG = (True, False)


class StepOptions(TypedDict):
    """Arguments of a step that all methods take."""

    ridge: float
    decay: float
    steps: Sequence[int]
    """Steps each parameter has taken, including this one."""
    absorb: bool
    """True to absorb the gradient."""


class SketchOptions(StepOptions):
    """Arguments of the methods with a sketch."""

    size: int


class ProjectionOptions(SketchOptions):
    """Arguments of the methods that draw random numbers."""

    seed: int


def chosen_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among the ``locals()`` of a constructor."""
    return {name: value for name, value in given.items() if name not in ("self", "params", "__class__")}


def plain_numbers(group: dict[str, Any]) -> None:
    """Convert NumPy scalars to plain numbers, in place."""
    for name, value in group.items():
        if isinstance(value, np.generic):
            group[name] = value.item()
        elif name == "betas" and isinstance(value, (tuple, list)):
            group[name] = tuple(beta.item() if isinstance(beta, np.generic) else beta for beta in value)


def check(method: str, group: Mapping[str, Any]) -> None:
    """Refuse invalid values, naming the option."""
    check_numbers(method, group, ("ridge", "weight_decay"), {"sketch_size": 0, "update_every": 1, "seed": 0})
    check_betas(method, group["betas"])
    check_number(method, group, "momentum", 0.0, below=1.0)
    if not 0.0 < group["decay"] <= 1.0:
        raise OptionError(f"{method}: decay={group['decay']!r}; expected a number in (0, 1], 1 for a plain sum.")
    for name in ("block_size", "diagonal_above"):
        if group[name] is not None:
            _whole(method, group, name, 1 if name == "block_size" else 0)
    flags = "graft", "maximize", "decoupled_weight_decay", "error_if_nonfinite", "scale_free"
    check_choices(method, group, {"sketch_dtype": SKETCH_DTYPES, **dict.fromkeys(flags, FLAG)})


def check_choices(method: str, group: Mapping[str, Any], choices: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse values other than those allowed; 1 is not True."""
    for name, allowed in choices.items():
        if not any(type(group[name]) is type(value) and group[name] == value for value in allowed):
            raise OptionError(f"{method}: {name}={group[name]!r}; expected one of {', '.join(map(str, allowed))}.")


def check_numbers(method: str, group: Mapping[str, Any], names: Sequence[str], whole: Mapping[str, int]) -> None:
    """Refuse a rate, an eps that float32 rounds to zero, numbers below zero, and whole ones below their least."""
    if isinstance(group["lr"], Tensor):
        if group["lr"].numel() != 1:
            raise OptionError(f"{method}: Tensor lr must be 1-element, not of {group['lr'].numel()} numbers.")
    else:
        check_number(method, group, "lr", 0.0)
    check_number(method, group, "eps", 1e-37)  # where a gradient is 0, a root of 0 would make NaN of it
    for name in names:
        check_number(method, group, name, 0.0)
    for name, least in whole.items():
        _whole(method, group, name, least)


def check_betas(method: str, betas: Any) -> None:
    """Refuse anything but two numbers in [0, 1)."""
    if not (isinstance(betas, (tuple, list)) and len(betas) == 2):
        raise OptionError(f"{method}: betas={betas!r}; expected two numbers in [0, 1).")
    for i, beta in enumerate(betas):
        if isinstance(beta, Tensor) or not 0.0 <= beta < 1.0:
            raise OptionError(f"{method}: Invalid beta parameter at index {i}: betas={betas!r}; expected [0, 1).")


def check_torch_flags(method: str, options: Mapping[str, Any]) -> None:
    """Check torch.optim's choices of implementation: here there is one, and it is not differentiable."""
    if options["fused"]:
        raise RuntimeError(f"{method}: `fused` is not supported; leave it out.")
    if options["differentiable"]:
        raise RuntimeError(f"{method}: `differentiable` is not supported: its step is made of decompositions.")
    check_choices(method, options, {"foreach": (None, *FLAG)})


def check_number(method: str, group: Mapping[str, Any], name: str, low: float, below: float = math.inf) -> None:
    """Refuse anything but a number in [low, below)."""
    value = group[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value < below:
        raise OptionError(f"{method}: {name}={value!r}; expected a number in [{low:g}, {below:g}).")


def _whole(method: str, group: Mapping[str, Any], name: str, low: int) -> None:
    value = group[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise OptionError(f"{method}: {name}={value!r}; expected a whole number from {low} on.")
