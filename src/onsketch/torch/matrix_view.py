"""Step of Sketchy: layers as matrices, a direction of each, preconditioned by the sketches of its axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from onsketch.torch import adaptive, axes, orthogonal
from onsketch.torch.adaptive import Pace, Scratch
from onsketch.torch.axes import PARTS, Axis, Metric
from onsketch.torch.checked import State
from onsketch.torch.checkpoint import local
from onsketch.torch.descent import usable

_TOGETHER = 1 << 19
"""Numbers stepped together: as many as fit into a CPU's cache along with their moments."""


@dataclass(frozen=True)
class MatrixView:
    """Matrix layout of a parameter, (rows, columns), each axis cut into equal blocks; rank 0 if it is diagonal."""

    rows: int
    columns: int
    row_blocks: int
    column_blocks: int
    rank: int
    orthogonal: bool
    """True if its direction is orthogonal: it then has one second moment for each entry of the longer axis."""

    @property
    def is_whole(self) -> bool:
        """True if neither axis is cut into blocks."""
        return self.row_blocks == self.column_blocks == 1

    @cached_property
    def sides(self) -> dict[str, tuple[int, int, int]]:
        """Names of the axes in a state, and the shapes of their directions; empty for a diagonal layer."""
        if not self.rank:
            return {}
        left = self.row_blocks, self.rows // self.row_blocks, self.rank
        return {"left": left, "right": (self.column_blocks, self.columns // self.column_blocks, self.rank)}

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all entries of the axes in a state."""
        made: dict[str, tuple[int, ...]] = dict(self.sides)
        if self.orthogonal:
            made["exp_avg_sq"] = (max(self.rows, self.columns),)
        for name, (blocks, _, rank) in self.sides.items():
            made |= {f"{name}_energy": (blocks, rank), f"{name}_escaped": (blocks,), f"{name}_total": (blocks,)}
        return made

    @staticmethod
    def of(weight: Tensor, group: Mapping[str, Any]) -> MatrixView:
        """Return the matrix shape of a weight: the first axis against all others; axes of length 1 are dropped."""
        names = "diagonal", "rank", "block_size", "diagonal_above", "direction"
        return _view_of(weight.shape, *[group[name] for name in names])


SHAPING = ("rank", "block_size", "diagonal", "diagonal_above", "graft", "direction")
"""Options that determine the state."""


def misfit(state: State, weight: Tensor, group: Mapping[str, Any]) -> str:
    """Describe why a state does not fit these options; empty if it does. Kernels do not check sizes."""
    shapes, place = dict(MatrixView.of(weight, group).shapes), weight.device
    if group["graft"] != "sgd":
        shapes.setdefault("exp_avg_sq", tuple(weight.shape))
    if local(state["exp_avg"]).numel() != weight.numel():
        return f"is of {state['exp_avg'].numel()} numbers"
    for name in ("left", "right", "exp_avg_sq", *shapes):
        found, wanted = local(state[name]).shape if name in state else None, shapes.get(name)
        if found != wanted:
            return f"has {name!r} of shape {found and tuple(found)} where {wanted} is needed"
    if "left" in shapes and "refreshes" not in state:
        return "has no 'refreshes'"
    for name in ("step", "refreshes", "exp_avg", *shapes):
        if name in state and state[name].device != place:
            found = state[name].device
            return f"has {name!r} on {found} where it is on {place} itself (after a move, load a state_dict)"
    return ""


@lru_cache(maxsize=4096)
def _view_of(
    shape: torch.Size, diagonal: bool, rank: int, block_size: int | None, above: int | None, direction: str
) -> MatrixView:
    lengths = [length for length in shape if length > 1]
    if diagonal or not rank or len(lengths) < 2 or (above is not None and max(lengths) > above):
        return MatrixView(1, shape.numel(), 1, 1, 0, False)
    rows = lengths[0]
    columns = shape.numel() // rows
    blocks = axes.blocks_of(rows, block_size), axes.blocks_of(columns, block_size)
    rank = min(rank, rows // blocks[0], columns // blocks[1])
    return MatrixView(rows, columns, *blocks, rank, direction == "orthogonal")


class Stepped(NamedTuple):
    """Parameter that takes a step."""

    weight: Tensor
    g: Tensor
    state: State
    view: MatrixView
    t: int = 0
    """Its step count,"""
    age: int = 0
    """and its refresh count, where a host has requested them."""


def counted(layers: Sequence[Stepped]) -> list[Stepped]:
    """Return the layers with their step and refresh counts; synchronises once with each device."""
    by_device: dict[torch.device, list[int]] = {}
    for i, layer in enumerate(layers):
        by_device.setdefault(layer.state["step"].device, []).append(i)
    found = list(layers)
    for chosen in by_device.values():
        states = [layers[i].state for i in chosen]
        asked = [*(s["step"] for s in states), *(s.get("refreshes", s["step"]) for s in states)]
        numbers = torch.stack([x.view(()) for x in asked]).tolist()
        for i, t, age in zip(chosen, numbers, numbers[len(chosen) :], strict=False):
            found[i] = layers[i]._replace(t=int(t), age=int(age))
    return found


def take_steps(layers: Sequence[Stepped], group: Mapping[str, Any], scratch: Scratch) -> None:
    """Take one step of each layer, whose count is already incremented."""
    rate = float(usable(group["lr"]))
    layers = counted(layers)
    if group["maximize"]:
        layers = [layer._replace(g=-layer.g) for layer in layers]
    alike: dict[tuple[Any, ...], list[Stepped]] = {}
    decayed = [layer.weight for layer in layers if layer.g.layout == torch.strided]
    if group["weight_decay"] and decayed:
        torch._foreach_mul_(decayed, 1.0 - rate * group["weight_decay"])
    for layer in layers:
        dense = layer.g.layout == torch.strided
        kind = "sparse" if not dense else "matrix" if layer.view.rank else "diagonal"
        alike.setdefault((kind, layer.weight.device, layer.weight.dtype, layer.t), []).append(layer)
    for (kind, *_, t), some in alike.items():
        pace = Pace(t, group["betas"], group["eps"], group["nesterov"])
        if kind == "matrix":
            _refresh_and_step(some, pace, group, rate, scratch)
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


def _refresh_and_step(
    layers: Sequence[Stepped], pace: Pace, group: Mapping[str, Any], rate: float, scratch: Scratch
) -> None:
    """Refresh and step matrices: layers of one shape together, on a CPU as many at a time as fit into its cache."""
    shapes: dict[MatrixView, list[Stepped]] = {}
    for layer in layers:
        shapes.setdefault(layer.view, []).append(layer)
    waiting: list[Stepped] = []
    numbers = 0
    for number, some in enumerate(shapes.values()):
        refresh(due(some, number, group), group)
        for layer in some:
            if waiting and layer.g.is_cpu and numbers + layer.g.numel() > _TOGETHER:
                _matrix_steps(waiting, pace, group, rate, scratch)
                waiting, numbers = [], 0
            waiting.append(layer)
            numbers += layer.g.numel()
    _matrix_steps(waiting, pace, group, rate, scratch)


def due(layers: Sequence[Stepped], number: int, group: Mapping[str, Any]) -> list[Stepped]:
    """Return layers due for a refresh: all at their first step, later those of different shapes in turn."""
    all_of_them = (group["calls"] - 1 + number) % group["refresh_every"] == 0
    return [layer for layer in layers if all_of_them or not layer.age]


def _matrix_steps(
    layers: Sequence[Stepped], pace: Pace, group: Mapping[str, Any], rate: float, scratch: Scratch
) -> None:
    """Compute the directions together, and precondition those of equal, adjacent shapes in one batch."""
    kind = torch.promote_types(layers[0].state["exp_avg"].dtype, torch.float32)
    sizes = [layer.g.numel() for layer in layers]
    D = scratch.of(sum(sizes), kind, layers[0].weight.device)
    pieces = list(torch.split(D, sizes))
    states = [layer.state for layer in layers]
    is_orthogonal = group["direction"] == "orthogonal"
    squares = [None if is_orthogonal else state.get("exp_avg_sq") for state in states]
    moments = [state["exp_avg"] for state in states], squares
    adaptive.directions([layer.g for layer in layers], *moments, pace, D, pieces)
    wanted, factor = list(torch._foreach_norm(pieces)), pace.factor
    if is_orthogonal:
        wanted, factor = [D.new_tensor(orthogonal.LENGTH * size**0.5) for size in sizes], 1.0
    elif group["graft"] == "rmsprop":
        wanted, factor = [_rmsprop_length(layer, pace, kind) for layer in layers], 1.0
    at = first = 0
    for view, some in groupby(layers, lambda layer: layer.view):
        count = len(list(some))
        left, right = (side_by_side(states[first : first + count], name).to(kind) for name in ("left", "right"))
        size = count * view.rows * view.columns
        M = D[at : at + size].view(count, view.rows, view.columns)
        axes.whiten(M, left, right)
        if is_orthogonal:
            sums = [state["exp_avg_sq"] for state in states[first : first + count]]
            orthogonal.orthogonalise(M, left, right, sums, group["sketch_decay"])
        at, first = at + size, first + count
    lengths = torch.stack([*wanted, *torch._foreach_norm(pieces)]).tolist()
    for layer, update, asked, length in zip(layers, pieces, lengths, lengths[len(layers) :], strict=False):
        if length > 0.0:
            layer.weight.add_(update.view(layer.weight.shape), alpha=-rate * factor * asked / length)


def _rmsprop_length(layer: Stepped, pace: Pace, kind: torch.dtype) -> Tensor:
    root: Tensor = (layer.state["exp_avg_sq"].to(kind) / (1.0 - pace.betas[1] ** pace.t)).sqrt_().add_(pace.eps)
    length: Tensor = torch.linalg.vector_norm(layer.g.to(kind) / root)
    return length


def refresh(layers: Sequence[Stepped], group: Mapping[str, Any]) -> None:
    """Absorb the gradients of layers of one shape, counted, into their sketches; equal refresh counts are batched."""
    ages: dict[tuple[int, int], list[Stepped]] = {}
    for i, layer in enumerate(layers):
        alone = i if layer.g.is_cpu and layer.g.numel() > 1 << 16 else -1  # copying large ones together costs more
        ages.setdefault((layer.age, alone), []).append(layer)
    for (n, _), some in ages.items():
        states, view = [layer.state for layer in some], some[0].view
        kind = torch.promote_types(states[0]["left"].dtype, torch.float32)
        matrices = [layer.g.reshape(1, view.rows, view.columns).to(kind) for layer in some]
        G = matrices[0] if len(matrices) == 1 else torch.cat(matrices)
        left, right = (axis_of(states, name, kind) for name in ("left", "right"))
        decay = fading(n, group["sketch_decay"])
        keep_sketches(states, *axes.refresh([(G, left, right, decay)], metric_of(group))[0])
        count_refreshes(states, G)


def count_refreshes(states: Sequence[State], G: Tensor) -> None:
    """Count the refresh of each layer whose gradient and its square are finite.

    On a CPU the other layers skip the whole step; on a device the host does not synchronise to find out.
    """
    largest = torch.linalg.vector_norm(G.flatten(1), torch.inf, dim=1)
    fine = torch.isfinite(largest * largest).to(torch.float32)
    torch._foreach_add_([state["refreshes"].view(()) for state in states], list(fine.unbind()))


def fading(n: Any, beta: Any) -> Any:
    """Return the decay of the refresh after n others (numbers or Tensors): that of a bias-corrected average."""
    return beta * (1.0 - beta**n) / (1.0 - beta ** (n + 1))


def metric_of(group: Mapping[str, Any]) -> Metric:
    """Return the metric that steps derive from the sketches."""
    return Metric(group["ridge"], group["damping"], power_of(group), group["outside"])


def power_of(group: Mapping[str, Any]) -> float:
    """Return the power of the metric, by default the best one on networks."""
    return group["power"] or (0.25 if group["direction"] == "orthogonal" else 0.375)


def keep_sketches(states: Sequence[State], left: Axis, right: Axis) -> None:
    """Store the sketches of layers of one shape in their states."""
    names = [side + part for side in ("left", "right") for part in PARTS]
    into = [state[name] for name in names for state in states]
    torch._foreach_copy_(into, [one for made in (*left, *right) for one in made.unbind()])


def axis_of(states: Sequence[State], name: str, kind: torch.dtype) -> Axis:
    """Return an axis of layers of one shape, stacked."""
    W, energy, *rest = (side_by_side(states, name + part) for part in PARTS)
    return Axis(axes.started(W.to(kind), energy), energy, *rest)


def side_by_side(states: Sequence[State], name: str) -> Tensor:
    """Stack an entry of states of equal shape, (n, …)."""
    return states[0][name][None] if len(states) == 1 else torch.stack([state[name] for state in states])
