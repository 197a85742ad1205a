"""How a layer is cut into blocks, what is kept for it, and the table of the bytes that takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from onsketch.torch.base import SketchedOptimizer


@dataclass(frozen=True)
class Layer:
    """A parameter as its sketch sees it: B blocks of b numbers, the last filled up with zeros."""

    shape: tuple[int, ...]
    kind: Literal["sketch", "diagonal", "plain"]
    blocks: int
    width: int
    dtype: torch.dtype

    @staticmethod
    def of(weight: Tensor, group: dict[str, Any]) -> Layer:
        """The layer of a (real) weight under a group's options."""
        numbers, width = weight.numel(), weight.numel()
        if group["block_size"] is not None:
            width = min(width, group["block_size"])
        if group["diagonal_above"] is not None and numbers > group["diagonal_above"]:
            kind: Literal["sketch", "diagonal", "plain"] = "diagonal"
        elif group["sketch_size"] == 0:
            kind = "diagonal" if group["graft"] else "plain"
        else:
            kind = "sketch"
        narrow = weight.dtype in (torch.bfloat16, torch.float16)
        default = torch.float32 if narrow else weight.dtype
        dtype = group["sketch_dtype"] or default if kind == "sketch" else default
        return Layer(tuple(weight.shape), kind, -(-numbers // max(1, width)), width, dtype)

    @property
    def numbers(self) -> int:
        """d, without the filling."""
        return int(torch.Size(self.shape).numel())

    def cut(self, gradient: Tensor) -> Tensor:
        """(B, b), in the sketch's type."""
        flat = gradient.reshape(-1).to(self.dtype)
        missing = self.blocks * self.width - flat.numel()
        if missing:
            flat = torch.nn.functional.pad(flat, (0, missing))
        return flat.view(self.blocks, self.width)

    def join(self, blocks: Tensor) -> Tensor:
        """The opposite of :meth:`cut`."""
        return blocks.reshape(-1)[: self.numbers].view(self.shape)


def memory_plan(optimizer: SketchedOptimizer) -> str:
    """The table behind :meth:`SketchedOptimizer.memory_plan`."""
    lines = [f"{'parameter':<28} {'shape':<20} {'kept':<26} {'bytes':>14} {'per number':>10}"]
    total = numbers = 0
    for k, group in enumerate(optimizer.param_groups):
        names = group.get("param_names") or [f"{k}.{i}" for i in range(len(group["params"]))]
        for name, p in zip(names, group["params"], strict=True):
            weight = torch.view_as_real(p) if p.is_complex() else p
            if not weight.numel():
                continue
            layer = Layer.of(weight, group)
            size = state_bytes(optimizer, layer, group)
            total, numbers = total + size, numbers + weight.numel()
            shape = "×".join(map(str, p.shape)) or "scalar"
            kept = _kept(layer)
            lines.append(f"{name:<28} {shape:<20} {kept:<26} {size:>14,} {size / weight.numel():>10.1f}")
    share = total / numbers if numbers else 0.0
    lines.append(f"{'total':<28} {'':<20} {'':<26} {total:>14,} {share:>10.1f}")
    return "\n".join(lines)


def _kept(layer: Layer) -> str:
    if layer.kind != "sketch":
        return {"diagonal": "diagonal AdaGrad", "plain": "nothing"}[layer.kind]
    return f"sketch of {layer.blocks}×{layer.width:,}" if layer.blocks > 1 else "sketch"


def state_bytes(optimizer: SketchedOptimizer, layer: Layer, group: dict[str, Any]) -> int:
    """Bytes of the state of a layer, worked out without making it."""
    state: dict[str, Tensor] = {}
    optimizer._start(state, layer, group, torch.empty(0, device="meta"))
    return sum(value.numel() * value.element_size() for value in state.values())
