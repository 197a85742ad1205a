"""The step of Sketchy: layers as matrices, Adam's direction of each, turned by the sketches of its axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from onsketch.torch import adaptive, axes
from onsketch.torch.adaptive import Pace, Room
from onsketch.torch.axes import PARTS, Axis, Metric
from onsketch.torch.careful import State
from onsketch.torch.descent import usable

_TOGETHER = 1 << 19
"""Numbers that a CPU's cache holds beside their moments: so many are stepped together."""


@dataclass(frozen=True)
class Folded:
    """A parameter as a matrix, (rows, columns), each axis cut into equal blocks; rank 0 where it is diagonal."""

    rows: int
    columns: int
    row_blocks: int
    column_blocks: int
    rank: int

    @staticmethod
    def of(weight: Tensor, group: Mapping[str, Any]) -> Folded:
        """The first axis against all others together; axes of one number do not count."""
        return _folded(weight.shape, group["diagonal"], group["rank"], group["block_size"], group["diagonal_above"])


@lru_cache(maxsize=4096)
def _folded(shape: torch.Size, diagonal: bool, rank: int, block_size: int | None, above: int | None) -> Folded:
    lengths = [length for length in shape if length > 1]
    if diagonal or not rank or len(lengths) < 2 or (above is not None and max(lengths) > above):
        return Folded(1, shape.numel(), 1, 1, 0)
    rows = lengths[0]
    columns = shape.numel() // rows
    blocks = axes.blocks_of(rows, block_size), axes.blocks_of(columns, block_size)
    return Folded(rows, columns, *blocks, min(rank, rows // blocks[0], columns // blocks[1]))


class Stepped(NamedTuple):
    """A parameter that takes a step."""

    weight: Tensor
    g: Tensor
    state: State
    folded: Folded

    @property
    def t(self) -> int:
        """Its steps so far."""
        return int(self.state["step"])


def take_steps(layers: Sequence[Stepped], group: Mapping[str, Any], room: Room) -> None:
    """One step of each layer, whose count has gone up already."""
    lr = usable(group["lr"])
    rate = float(lr)
    if group["maximize"]:
        layers = [layer._replace(g=-layer.g) for layer in layers]
    alike: dict[tuple[Any, ...], list[Stepped]] = {}
    if group["weight_decay"]:
        decayed = [layer.weight for layer in layers if layer.g.layout == torch.strided]
        if decayed:
            torch._foreach_mul_(decayed, 1.0 - rate * group["weight_decay"])
    for layer in layers:
        dense = layer.g.layout == torch.strided
        kind = "sparse" if not dense else "matrix" if layer.folded.rank else "diagonal"
        key = (
            kind,
            layer.folded if kind == "matrix" else None,
            layer.weight.device,
            layer.weight.dtype,
            layer.t,
        )
        alike.setdefault(key, []).append(layer)
    shapes: list[Folded] = []
    for (kind, folded, *_, t), some in alike.items():
        pace = Pace(t, group["betas"], group["eps"], group["nesterov"])
        if kind == "matrix":
            if folded not in shapes:
                shapes.append(folded)
            refresh(due(some, shapes.index(folded), group), group)
            together = max(1, _TOGETHER // some[0].g.numel()) if some[0].g.is_cpu else len(some)
            for first in range(0, len(some), together):
                _matrix_steps(some[first : first + together], pace, group["graft"], rate, room)
        elif kind == "sparse":
            for layer in some:
                shrink = 1.0 - rate * group["weight_decay"]
                moments = layer.state["exp_avg"], layer.state["exp_avg_sq"]
                adaptive.sparse_step(layer.weight, layer.g, *moments, pace, rate, shrink)
        elif group["graft"] == "sgd":
            for layer in some:
                direction = adaptive.direction(layer.g, layer.state["exp_avg"], None, pace)
                layer.weight.add_(direction.view(layer.weight.shape), alpha=-rate * pace.factor)
        else:
            weights, grads = [layer.weight for layer in some], [layer.g for layer in some]
            ms, vs = ([layer.state[name] for layer in some] for name in ("exp_avg", "exp_avg_sq"))
            adaptive.diagonal_steps(weights, grads, ms, vs, pace, rate)


def due(layers: Sequence[Stepped], number: int, group: Mapping[str, Any]) -> list[Stepped]:
    """Those to be refreshed: all at their first step, then layers of different shapes, numbered, at different steps."""
    all_of_them = (group["calls"] - 1 + number) % group["refresh_every"] == 0
    return [layer for layer in layers if all_of_them or not layer.state["refreshes"]]


def _matrix_steps(layers: Sequence[Stepped], pace: Pace, graft: str, rate: float, room: Room) -> None:
    """The steps of layers of one shape: Adam's directions side by side, turned together."""
    folded, count = layers[0].folded, len(layers)
    numbers = folded.rows * folded.columns
    kind = torch.promote_types(layers[0].state["exp_avg"].dtype, torch.float32)
    D = room.of(count * numbers, kind, layers[0].weight.device).view(count, numbers)
    for layer, into in zip(layers, D.unbind(), strict=True):
        adaptive.direction(layer.g, layer.state["exp_avg"], layer.state.get("exp_avg_sq"), pace, into)
    wanted, factor = torch.linalg.vector_norm(D, dim=1), pace.factor
    if graft == "rmsprop":
        wanted, factor = torch.stack([_rmsprop_length(layer, pace, kind) for layer in layers]), 1.0
    left, right = (torch.stack([layer.state[name] for layer in layers]).to(kind) for name in ("left", "right"))
    U = axes.whiten(D.view(count, folded.rows, folded.columns), left, right)
    length = torch.linalg.vector_norm(D, dim=1)
    scale = torch.where(length > 0.0, wanted / length, 0.0) * (-rate * factor)
    for layer, update, factor in zip(layers, U.unbind(), scale.tolist(), strict=True):
        layer.weight.add_(update.view(layer.weight.shape), alpha=factor)


def _rmsprop_length(layer: Stepped, pace: Pace, kind: torch.dtype) -> Tensor:
    root: Tensor = (layer.state["exp_avg_sq"].to(kind) / (1.0 - pace.betas[1] ** pace.t)).sqrt_().add_(pace.eps)
    length: Tensor = torch.linalg.vector_norm(layer.g.to(kind) / root)
    return length


def refresh(layers: Sequence[Stepped], group: Mapping[str, Any]) -> None:
    """Take the gradients of layers of one shape into their sketches, those as often refreshed together."""
    ages: dict[tuple[int, int], list[Stepped]] = {}
    for i, layer in enumerate(layers):
        alone = i if layer.g.is_cpu and layer.g.numel() > 1 << 16 else -1  # bringing large ones together costs more
        ages.setdefault((int(layer.state["refreshes"]), alone), []).append(layer)
    for (n, _), some in ages.items():
        states, folded = [layer.state for layer in some], some[0].folded
        kind = torch.promote_types(states[0]["left"].dtype, torch.float32)
        matrices = [layer.g.reshape(1, folded.rows, folded.columns).to(kind) for layer in some]
        G = matrices[0] if len(matrices) == 1 else torch.cat(matrices)
        left, right = (axis_of(states, name, kind) for name in ("left", "right"))
        keep_sketches(states, *axes.refresh([(G, left, right)], fading(n, group), metric_of(group))[0])
        for state in states:
            state["refreshes"] += 1.0


def fading(n: int, group: Mapping[str, Any]) -> float:
    """The decay of the refresh after n others: an average freed of its start from zero."""
    beta: float = group["sketch_decay"]
    return beta * (1.0 - beta**n) / (1.0 - beta ** (n + 1))


def metric_of(group: Mapping[str, Any]) -> Metric:
    """What steps make of the sketches."""
    return Metric(group["ridge"], group["power"], group["outside"])


def keep_sketches(states: Sequence[State], left: Axis, right: Axis) -> None:
    """Write the sketches of layers of one shape into their states."""
    for name, axis in (("left", left), ("right", right)):
        for part, made in zip(PARTS, axis, strict=True):
            torch._foreach_copy_([state[name + part] for state in states], list(made.unbind()))


def axis_of(states: Sequence[State], name: str, kind: torch.dtype) -> Axis:
    """An axis of layers of one shape, side by side."""
    W, energy, *rest = (torch.stack([state[name + part] for state in states]) for part in PARTS)
    return Axis(axes.started(W.to(kind), energy), energy, *rest)
