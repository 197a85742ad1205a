"""The options that all optimizers share, and their checks; what a step is told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor

from onsketch.core.errors import OptionError

SKETCH_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class StepOptions(TypedDict):
    """What every method's function is told of a step."""

    ridge: float
    decay: float
    steps: Sequence[int]
    """Steps each parameter has taken, this one counted."""
    absorb: bool
    """Whether the gradient is taken in."""


class SketchOptions(StepOptions):
    """What those with a sketch are told."""

    size: int


class ProjectionOptions(SketchOptions):
    """What those that draw are told."""

    seed: int


def check(method: str, group: Mapping[str, Any]) -> None:
    """Refuse values that mean nothing, naming the option."""
    if isinstance(group["lr"], Tensor):
        if group["lr"].numel() != 1:
            raise OptionError(f"{method}: Tensor lr must be 1-element, not of {group['lr'].numel()} numbers.")
    else:
        _number(method, group, "lr", 0.0)
    _number(method, group, "ridge", 0.0)
    _number(method, group, "weight_decay", 0.0)
    _number(method, group, "momentum", 0.0, below=1.0)
    if not 0.0 < group["decay"] <= 1.0:
        raise OptionError(f"{method}: decay={group['decay']!r}; expected a number in (0, 1], 1 for a plain sum.")
    _whole(method, group, "sketch_size", 0)
    _whole(method, group, "update_every", 1)
    _whole(method, group, "seed", 0)
    for name in ("block_size", "diagonal_above"):
        if group[name] is not None:
            _whole(method, group, name, 1 if name == "block_size" else 0)
    if group["sketch_dtype"] is not None and group["sketch_dtype"] not in SKETCH_DTYPES:
        allowed = ", ".join(map(str, SKETCH_DTYPES))
        raise OptionError(f"{method}: sketch_dtype={group['sketch_dtype']!r}; expected one of {allowed}, or None.")
    for name in ("graft", "maximize", "decoupled_weight_decay"):
        if not isinstance(group[name], bool):
            raise OptionError(f"{method}: {name}={group[name]!r}; expected True or False.")


def _number(method: str, group: Mapping[str, Any], name: str, low: float, below: float = math.inf) -> None:
    value = group[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value < below:
        raise OptionError(f"{method}: {name}={value!r}; expected a number in [{low:g}, {below:g}).")


def _whole(method: str, group: Mapping[str, Any], name: str, low: int) -> None:
    value = group[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise OptionError(f"{method}: {name}={value!r}; expected a whole number from {low} on.")
