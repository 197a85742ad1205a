"""The step of Sketchy on a CUDA device: four launches of kernels for all layers, and four products for each shape.

1. ``inspect``: which layers have a gradient that is not finite; these are left alone, and nobody waits to know,
2. ``moments``: Adam's moments and directions; layers without sketches step at once,
3. the directions of layers of one shape, which lie side by side, are turned together (axes.py),
4. ``measure`` and ``descend``: the steps, as long as Adam's.

Steps are counted on the device. A host needs longer to ask for all that than a device to do it, so that from the third
step on it is a CUDA graph, as is a refresh: what changes from step to step, the rate and where the gradients lie, is
sent to places that the graph knows. Here all layers are refreshed in the same step, their eigenproblems in one launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from onsketch.torch import axes, kernels
from onsketch.torch.adaptive import Room
from onsketch.torch.folded import Folded, Stepped, axis_of, fading, keep_sketches, metric_of, refresh
from onsketch.torch.kernels import CHUNK, THREADS, launch

_PLANS = 8
"""Sets of parameters that step together whose plans are kept."""
_EAGER = 2
"""Steps and refreshes before a graph is made of them."""


class Places:
    """What an optimizer keeps on a device from step to step, beside its state."""

    def __init__(self) -> None:
        self.room = Room()
        self.plans: dict[tuple[Any, ...], Plan] = {}

    def __deepcopy__(self, memo: object) -> Places:
        return Places()

    def __reduce__(self) -> tuple[type[Places], tuple[()]]:
        return Places, ()


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
    names = ("betas", "eps", "weight_decay", "nesterov", "maximize", "ridge", "power", "outside")
    lie = [layer.weight.data_ptr() for layer in layers]
    for name in ("exp_avg", "exp_avg_sq", "step", "left", "right"):
        lie += [layer.state[name].data_ptr() for layer in layers if name in layer.state]
    key = (tuple(lie), *(group[name] for name in names), device)
    plan = places.plans.get(key)
    if plan is None:
        if len(places.plans) >= _PLANS:  # parameters that came and went
            places.plans.clear()
        plan = places.plans[key] = Plan(layers, group, skipped)
    plan.tell(layers, group["lr"])
    if plan.shapes:
        waiting = [layer for layer in plan.sketched(layers) if not layer.state["refreshes"]]
        if (group["calls"] - 1) % group["refresh_every"] == 0 or waiting:
            plan.refresh(layers, group, waiting)
    plan.step()


class Plan:
    """A step of certain layers: where everything lies, and the graphs of it."""

    def __init__(self, layers: Sequence[Stepped], group: Mapping[str, Any], skipped: Tensor) -> None:
        self.device = layers[0].weight.device
        self.skipped = skipped
        self.options = {name: group[name] for name in ("betas", "eps", "weight_decay", "nesterov", "maximize")}
        self.shapes: dict[Folded, list[int]] = {}
        for i, layer in enumerate(layers):
            if layer.folded.rank:
                self.shapes.setdefault(layer.folded, []).append(i)
        sketched = [i for chosen in self.shapes.values() for i in chosen]
        self.order = sketched + [i for i, layer in enumerate(layers) if not layer.folded.rank]
        numbers = sum(layers[i].weight.numel() for i in sketched)
        self.D = torch.empty(numbers, dtype=torch.float32, device=self.device)
        fields, owners = self._lay_out(layers)
        self.table = torch.tensor(fields, dtype=torch.int64).to(self.device, non_blocking=True)
        self.owners = torch.tensor(owners, dtype=torch.int32).to(self.device, non_blocking=True)
        self.chunks = len(owners)
        self.gradients = torch.empty(len(self.order), dtype=torch.int64, device=self.device)
        self.rate = torch.empty(1, dtype=torch.float32, device=self.device)
        self.bad = torch.empty(len(self.order), dtype=torch.int32, device=self.device)
        self.lengths = torch.empty(2, self.chunks, dtype=torch.float64, device=self.device)
        self.told: tuple[Any, Any] = (None, None)
        self.sent: list[Tensor] = []
        """What a graph of the user's sends again."""
        self.stacks = {
            folded: [torch.stack([layers[i].state[name] for i in chosen]) for name in ("left", "right")]
            for folded, chosen in self.shapes.items()
        }
        self.decay = torch.zeros((), dtype=torch.float64, device=self.device)
        self.G: dict[Folded, Tensor] = {}
        self.states = [layer.state for layer in layers]
        self.metric = metric_of(group)
        self.counts = {"step": 0, "refresh": 0}
        self.graphs: dict[str, torch.cuda.CUDAGraph] = {}

    def _lay_out(self, layers: Sequence[Stepped]) -> tuple[list[list[int]], list[int]]:
        """The table's row of each layer, as cuda/layers.cu has it, and which layer a chunk belongs to."""
        fields: list[list[int]] = []
        owners: list[int] = []
        at = 0
        for k, i in enumerate(self.order):
            layer, state = layers[i], layers[i].state
            size = layer.weight.numel()
            chunks = -(-size // CHUNK)
            direction = self.D.data_ptr() + 4 * at if layer.folded.rank else 0
            at += size if layer.folded.rank else 0
            moments = state["exp_avg"].data_ptr(), state["exp_avg_sq"].data_ptr()
            own = [layer.weight.data_ptr(), *moments, direction, state["step"].data_ptr(), size, len(owners), chunks]
            fields.append(own)
            owners += [k] * chunks
        return fields, owners

    def sketched(self, layers: Sequence[Stepped]) -> list[Stepped]:
        """Those with sketches."""
        return [layers[i] for chosen in self.shapes.values() for i in chosen]

    def tell(self, layers: Sequence[Stepped], lr: float | Tensor) -> None:
        """Where the gradients lie, and the rate."""
        where = tuple([layers[i].g.data_ptr() for i in self.order])
        capturing = self._captured()
        if where != self.told[0] or capturing:
            here = torch.tensor(where, dtype=torch.int64)
            here = here.pin_memory() if self.device.type == "cuda" else here
            self.gradients.copy_(here, non_blocking=True)
            if capturing:
                self.sent.append(here)
        if isinstance(lr, Tensor) and lr.device == self.device:
            self.rate.copy_(lr.view(1))
            lr = -1.0
        elif float(lr) != self.told[1] or capturing:
            self.rate.fill_(float(lr))
        self.told = (where, float(lr))

    def _captured(self) -> bool:
        return self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()

    def _run(self, name: str, work: Callable[[], None]) -> None:
        """As it is at first and within a graph of the user's, as a graph from then on."""
        self.counts[name] += 1
        if self.device.type != "cuda" or self.counts[name] <= _EAGER or self._captured():
            work()
            return
        if name not in self.graphs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.device(self.device), torch.cuda.graph(graph, capture_error_mode="thread_local"):
                work()
            self.graphs[name] = graph
        self.graphs[name].replay()

    def step(self) -> None:
        """Of all layers."""
        self._run("step", self._step)

    def _step(self) -> None:
        where = [self.table, self.owners]
        decay = float(self.options["weight_decay"])
        first, second = map(float, self.options["betas"])
        flags = [int(self.options["nesterov"] and first > 0.0), int(self.options["maximize"])]
        self.bad.zero_()
        launch("inspect", torch.float32, self.chunks, THREADS, [*where, self.gradients, self.bad])
        own = [*where, self.gradients, self.bad, self.lengths[0], self.rate, *flags]
        own += [first, second, float(self.options["eps"]), decay]
        launch("moments", torch.float32, self.chunks, THREADS, own)
        at = 0
        for folded, chosen in self.shapes.items():
            size = folded.rows * folded.columns * len(chosen)
            _turn(self.D[at : at + size].view(-1, folded.rows, folded.columns), *self.stacks[folded])
            at += size
        if self.shapes:
            launch("measure", torch.float32, self.chunks, THREADS, [*where, self.lengths[1]])
        own = [*where, self.bad, self.lengths[0], self.lengths[1], self.skipped, self.rate, len(self.order), decay]
        launch("descend", torch.float32, self.chunks, THREADS, own)

    def refresh(self, layers: Sequence[Stepped], group: Mapping[str, Any], waiting: Sequence[Stepped]) -> None:
        """Take the gradients into the sketches of all layers; where some wait for their first, of each for itself."""
        ages = {int(layer.state["refreshes"]) for layer in self.sketched(layers)}
        if len(ages) > 1 or waiting:
            for chosen in self.shapes.values():
                refresh([layers[i] for i in chosen], group)
            self._stack()
            return
        self.decay.fill_(group["sketch_decay"] if self._captured() else fading(ages.pop(), group))
        for folded, chosen in self.shapes.items():
            if folded not in self.G:
                self.G[folded] = torch.empty(
                    len(chosen), folded.rows, folded.columns, dtype=torch.float32, device=self.device
                )
            grads = [layers[i].g.view(folded.rows, folded.columns) for i in chosen]
            torch._foreach_copy_(list(self.G[folded].unbind()), grads)
        self._run("refresh", self._refresh)
        for layer in self.sketched(layers):
            layer.state["refreshes"] += 1.0

    def _refresh(self) -> None:
        items = []
        for folded, chosen in self.shapes.items():
            sides = [axis_of([self.states[i] for i in chosen], name, torch.float32) for name in ("left", "right")]
            items.append((self.G[folded], sides[0], sides[1]))
        for chosen, made in zip(self.shapes.values(), axes.refresh(items, self.decay, self.metric), strict=True):
            keep_sketches([self.states[i] for i in chosen], *made)
        self._stack()

    def _stack(self) -> None:
        """W of layers of one shape, side by side."""
        for folded, chosen in self.shapes.items():
            for stack, name in zip(self.stacks[folded], ("left", "right"), strict=True):
                torch._foreach_copy_(list(stack.unbind()), [self.states[i][name] for i in chosen])


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
