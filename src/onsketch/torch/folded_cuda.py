"""The step of Sketchy on a CUDA device: four launches of kernels for all layers, and four products for each shape.

1. ``inspect``: which layers have a gradient that is not finite; these are left alone, and nobody waits to know,
2. ``moments``: Adam's moments and directions; layers without sketches step at once,
3. the directions of layers of one shape, which lie side by side, are turned together (axes.py),
4. ``measure`` and ``descend``: the steps, as long as Adam's.

Steps are counted on the device. Where things lie is told by a table of addresses, sent there when they change; what was
sent is kept by each optimizer for itself, in pinned memory as well, so that a CUDA graph can send it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from onsketch.torch import kernels
from onsketch.torch.adaptive import Room
from onsketch.torch.folded import Folded, Stepped, due, refresh
from onsketch.torch.kernels import CHUNK, THREADS, launch

_KEPT = 8
"""Tables that are kept: as many as gradients have places in turn."""


class Places:
    """What an optimizer keeps on a device from step to step, beside its state."""

    def __init__(self) -> None:
        self.room = Room()
        self.sent: dict[tuple[Any, ...], tuple[Tensor, Tensor]] = {}
        self.stacks: dict[Folded, tuple[tuple[Any, ...], Tensor, Tensor]] = {}

    def __deepcopy__(self, memo: object) -> Places:
        return Places()

    def __reduce__(self) -> tuple[type[Places], tuple[()]]:
        return Places, ()

    def send(self, name: str, numbers: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        """These numbers on the device, now or from before."""
        key = (name, numbers, device, kernels.stream_of(device))
        if key not in self.sent:
            here = torch.tensor(numbers, dtype=dtype)
            here = here.pin_memory() if device.type == "cuda" else here
            mine = [other for other in self.sent if other[0] == name]
            if len(mine) >= _KEPT:
                del self.sent[mine[0]]
            self.sent[key] = (here, here.to(device, non_blocking=True))
        return self.sent[key][1]

    def turning(self, folded: Folded, layers: Sequence[Stepped]) -> tuple[Tensor, Tensor]:
        """W of both axes for layers of one shape, side by side; made anew when one of them has changed."""
        sides = [[layer.state[name] for layer in layers] for name in ("left", "right")]
        key = tuple((W.data_ptr(), W._version) for side in sides for W in side)
        found = self.stacks.get(folded)
        if found is None or found[0] != key:
            left, right = (torch.stack(side) for side in sides)
            found = self.stacks[folded] = (key, left, right)
        return found[1], found[2]


def serves(layer: Stepped, group: Mapping[str, Any]) -> bool:
    """Whether the kernels can take this layer."""
    w, g, state = layer.weight, layer.g, layer.state
    return (
        w.is_cuda
        and group["graft"] == "adam"
        and g.layout == torch.strided
        and all(x.dtype == torch.float32 and x.is_contiguous() for x in (w, g, state["exp_avg"]))
        and kernels.ready("layers", torch.float32, w.device)
    )


def take_steps(layers: Sequence[Stepped], group: Mapping[str, Any], places: Places, skipped: Tensor) -> None:
    """One step of each layer, all on one device; ``skipped`` counts those whose gradient is not finite."""
    device = layers[0].weight.device
    shapes: dict[Folded, list[Stepped]] = {}
    for layer in layers:
        if layer.folded.rank:
            shapes.setdefault(layer.folded, []).append(layer)
    order = [layer for some in shapes.values() for layer in some]
    order += [layer for layer in layers if not layer.folded.rank]
    numbers = sum(layer.weight.numel() for some in shapes.values() for layer in some)
    D = places.room.of(numbers, torch.float32, device)
    fields: list[int] = []
    owners: list[int] = []
    at = 0
    for k, layer in enumerate(order):
        size = layer.weight.numel()
        chunks = -(-size // CHUNK)
        direction = D.data_ptr() + 4 * at if layer.folded.rank else 0
        at += size if layer.folded.rank else 0
        state = layer.state
        moments = state["exp_avg"].data_ptr(), state["exp_avg_sq"].data_ptr()
        fields += [layer.weight.data_ptr(), *moments, direction, state["step"].data_ptr(), size, len(owners), chunks]
        owners += [k] * chunks
    table = places.send("table", tuple(fields), torch.int64, device)
    whose = places.send("owners", tuple(owners), torch.int32, device)
    gradients = places.send("gradients", tuple(layer.g.data_ptr() for layer in order), torch.int64, device)

    bad = torch.zeros(len(order), dtype=torch.int32, device=device)
    lengths = torch.empty(2, len(owners), dtype=torch.float64, device=device)
    lr = group["lr"]
    there = isinstance(lr, Tensor) and lr.device == device
    rate = [lr.float() if there else lengths, int(there)]
    plain = [0.0 if there else float(lr), float(group["weight_decay"])]
    nesterov = int(group["nesterov"] and group["betas"][0] > 0.0)
    launch("inspect", torch.float32, len(owners), THREADS, [table, whose, gradients, bad])
    own = [table, whose, gradients, bad, lengths[0], *rate, nesterov, int(group["maximize"])]
    own += [*map(float, group["betas"]), float(group["eps"])]
    launch("moments", torch.float32, len(owners), THREADS, [*own, *plain])
    at = 0
    for number, (folded, some) in enumerate(shapes.items()):
        refresh(due(some, number, group), group)
        size = folded.rows * folded.columns * len(some)
        matrices = D[at : at + size].view(len(some), folded.rows, folded.columns)
        at += size
        _turn(matrices, *places.turning(folded, some))
    if shapes:
        launch("measure", torch.float32, len(owners), THREADS, [table, whose, lengths[1]])
    own = [table, whose, bad, lengths[0], lengths[1], skipped, *rate, len(order)]
    launch("descend", torch.float32, len(owners), THREADS, [*own, *plain])


def _turn(matrices: Tensor, left: Tensor, right: Tensor) -> None:
    """``(I − W_L W_Lᵀ) M (I − W_R W_Rᵀ)`` in place, in as few launches as can be; see axes.whiten."""
    for dim, W in ((2, right), (1, left)):
        width = W.shape[2]
        for i in range(W.shape[1]):
            piece, side = matrices.narrow(dim, i * width, width), W[:, i]
            if dim == 2:
                piece.baddbmm_(piece @ side, side.mT, alpha=-1)
            else:
                piece.baddbmm_(side, side.mT @ piece, alpha=-1)
