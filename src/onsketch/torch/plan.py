"""Layout of a layer in blocks, its state, and the table of its bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from onsketch.torch.checkpoint import local, real

if TYPE_CHECKING:
    from onsketch.torch.checked import CheckedOptimizer


@dataclass(frozen=True)
class Layer:
    """Layout of a parameter as its sketch sees it: B blocks of b numbers, the last padded with zeros."""

    shape: tuple[int, ...]
    kind: Literal["sketch", "diagonal", "plain"]
    blocks: int
    width: int
    dtype: torch.dtype

    numbers: int
    """d, without the padding."""

    @staticmethod
    def of(weight: Tensor, group: Mapping[str, Any]) -> Layer:
        """Return the layer of a (real) weight under a group's options."""
        names = ("block_size", "diagonal_above", "sketch_size", "graft", "sketch_dtype")
        return _layer(weight.shape, weight.dtype, *[group[name] for name in names])

    def cut(self, gradient: Tensor) -> Tensor:
        """Return the gradient as blocks, (B, b), in the sketch's type."""
        flat = gradient.reshape(-1)
        if flat.is_cpu and torch.finfo(flat.dtype).max > torch.finfo(self.dtype).max:
            most = torch.finfo(self.dtype).max  # finite values stay finite
            flat = flat.clamp(-most, most)
        flat = flat.to(self.dtype)
        missing = self.blocks * self.width - self.numbers
        if missing:
            flat = torch.nn.functional.pad(flat, (0, missing))
        return flat.view(self.blocks, self.width)

    def join(self, blocks: Tensor) -> Tensor:
        """Invert :meth:`cut`; an array that already has the layer's shape is returned unchanged."""
        if blocks.shape == self.shape:
            return blocks
        if self.blocks * self.width != self.numbers:
            blocks = blocks.view(-1)[: self.numbers]
        return blocks.view(self.shape)


@lru_cache(maxsize=4096)
def _layer(
    shape: torch.Size,
    dtype: torch.dtype,
    block_size: int | None,
    diagonal_above: int | None,
    sketch_size: int,
    graft: bool,
    sketch_dtype: torch.dtype | None,
) -> Layer:
    numbers = shape.numel()
    width = numbers if block_size is None else min(numbers, block_size)
    kind: Literal["sketch", "diagonal", "plain"] = "sketch"
    if diagonal_above is not None and numbers > diagonal_above:
        kind = "diagonal"
    elif sketch_size == 0:
        kind = "diagonal" if graft else "plain"
    wide = torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype
    if kind == "sketch" and sketch_dtype is not None:
        wide = sketch_dtype
    return Layer(tuple(shape), kind, -(-numbers // max(1, width)), width, wide, numbers)


def words(layer: Layer) -> str:
    """Describe the state of a layer in words."""
    if layer.kind != "sketch":
        return {"diagonal": "diagonal", "plain": "nothing"}[layer.kind]
    return f"sketch of {layer.blocks}×{layer.width:,}" if layer.blocks > 1 else "sketch"


def memory_table(optimizer: CheckedOptimizer, kept: Callable[[Tensor, Mapping[str, Any]], tuple[str, int]]) -> str:
    """Return a table with a line for each parameter (its state in words and bytes), then the scratch memory of a step.

    ``kept`` returns these words and the scratch bytes of a parameter, which all layers may need at once.
    """
    lines = [f"{'parameter':<28} {'shape':<20} {'kept':<26} {'bytes':>14} {'per number':>10}"]
    total = numbers = scratch = 0
    for k, group in enumerate(optimizer.param_groups):
        names = group.get("param_names") or [f"{k}.{i}" for i in range(len(group["params"]))]
        for name, p in zip(names, group["params"], strict=True):
            weight = real(local(p))
            if not weight.numel():
                continue
            state = optimizer._fresh(weight, group, "meta")
            size = sum(value.numel() * value.element_size() for value in state.values())
            words, its_scratch = kept(weight, group)
            total, numbers, scratch = total + size, numbers + weight.numel(), scratch + its_scratch
            shape = "×".join(map(str, p.shape)) or "scalar"
            lines.append(f"{name:<28} {shape:<20} {words:<26} {size:>14,} {size / weight.numel():>10.1f}")
    share = 1.0 / max(1, numbers)
    lines.append(f"{'scratch of a step':<28} {'':<20} {'':<26} {scratch:>14,} {scratch * share:>10.1f}")
    lines.append(f"{'Adam would keep':<28} {'':<20} {'':<26} {8 * numbers:>14,} {8.0 if numbers else 0.0:>10.1f}")
    lines.append(f"{'total':<28} {'':<20} {'':<26} {total:>14,} {total * share:>10.1f}")
    return "\n".join(lines)
