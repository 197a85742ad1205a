"""Step of Sketchy on a CUDA device: five kernel launches, whatever the number of layers and their shapes.

1. ``inspect``: finds layers with a gradient that is not finite; these are skipped without synchronising,
2. ``moments``: Adam's moments and directions; layers without sketches step at once,
3. ``turn_left`` and ``turn_right``: the directions preconditioned by the sketches of both axes (axes.py),
4. ``descend``: the steps, as long as Adam's.

With ``direction="orthogonal"`` there are five more, and products in batches, between 3 and 4 (orthogonal_cuda.py). A
refresh is nine launches more (axes_cuda.py). PyTorch's products of so few columns would take several times as long.
Steps and refreshes are counted on the device. Launching all this takes a host longer than running it takes a device. So
from the third step on, the step is a CUDA graph, and so is a refresh. The values that change from step to step, numeric
options and gradient addresses, are copied to fixed addresses. All layers are refreshed in the same step.

A graph captured by the user contains a refresh in every step, and the device decides if it is due. The same holds for
steps between replays, which the host cannot count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import is_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from onsketch.torch import axes, kernels, orthogonal
from onsketch.torch.adaptive import Cache, Scratch
from onsketch.torch.axes import Metric
from onsketch.torch.axes_cuda import LANES, TALL, WIDE, Axes, refreshes, row_bytes
from onsketch.torch.checked import State
from onsketch.torch.kernels import CHUNK, RANKS, THREADS, launch
from onsketch.torch.matrix_view import (
    SHAPING,
    MatrixView,
    Stepped,
    axis_of,
    count_refreshes,
    counted,
    fading,
    keep_sketches,
    power_of,
    refresh,
)
from onsketch.torch.orthogonal_cuda import Orthogonal

LAYER_FIELDS = 26
"""Fields of a layer in the table, as in cuda/layers.cu."""
_PLANS = 8
"""Plans kept for sets of parameters that step together, at least two for each group."""
_EAGER = 2
"""Steps and refreshes before they are captured in a graph."""


class DeviceCache(Cache):
    """State of an optimizer on a device from step to step, besides its parameters' state."""

    def __init__(self) -> None:
        self.scratch = Scratch()
        self.groups = 1
        self.plans: dict[tuple[Any, ...], Plan] = {}
        """One plan for each set of addresses."""
        self.captured: list[Plan] = []
        """Plans that a graph of the user still uses."""
        self.known: dict[int, Known] = {}
        """Last step of each group."""
        self.next: dict[int, Known | None] = {}
        """Last step of each group, where the next step repeats it."""

    def knows(self, group: Mapping[str, Any]) -> bool:
        """Return True if this group's last step was taken with these options."""
        known = self.known.get(id(group))
        return known is not None and known.options == [group[name] for name in OPTIONS]

    def forget(self, keys: Sequence[tuple[Any, ...]]) -> None:
        """Discard plans, except those that the user captured."""
        gone = [self.plans.pop(key) for key in keys]
        self.captured += [plan for plan in gone if plan.sent]
        self.known = {k: known for k, known in self.known.items() if not any(known.plan is plan for plan in gone)}


def serves(layer: Stepped, group: Mapping[str, Any]) -> bool:
    """Return True if the kernels support this layer."""
    w, g, state = layer.weight, layer.g, layer.state
    return (
        w.is_cuda
        and group["graft"] == "adam"
        and g.layout == torch.strided
        and g.device == w.device
        and layer.view.rank <= RANKS
        and all(x.dtype == torch.float32 and x.is_contiguous() for x in (w, g, state["exp_avg"]))
        and kernels.ready(w.device)
    )


OPTIONS = ("nesterov", "maximize", "outside", *SHAPING)
"""Options that a plan is made for; if one of them changes, a new plan is made."""
NUMBERS = ("eps", "weight_decay", "sketch_decay", "ridge", "damping")
"""Further numbers of a step, after the rate and the betas and before the power, as in cuda/numbers.cu."""


def take_steps(
    layers: Sequence[Stepped],
    group: Mapping[str, Any],
    cache: DeviceCache,
    skipped: Tensor,
    params: Sequence[Tensor] = (),
) -> None:
    """Take one step of each layer, all on one device; ``skipped`` counts those whose gradient is not finite.

    ``params``, where given, are all parameters of the group that step: as long as they, their states and the options
    are the same, :func:`known_step` finds the plan of the next ones.
    """
    weights, states = [layer.weight for layer in layers], [layer.state for layer in layers]
    lie = [x.data_ptr() for x in (*weights, *(value for state in states for value in state.values()))]
    options = [group[name] for name in OPTIONS]
    key = (*lie, weights[0].device)
    plan = cache.plans.get(key)
    if plan is None or plan.made_for != options:
        if plan is not None:
            cache.forget([key])
        elif len(cache.plans) >= max(_PLANS, 2 * cache.groups):  # parameters that no longer exist
            cache.forget(list(cache.plans))
        del plan  # before another allocates as much memory
        plan = cache.plans[key] = Plan(layers, group, skipped)
    if params:
        cache.known[id(group)] = Known.of(params, layers, options, plan)
    plan.take(layers, [layer.g for layer in layers], group)


class Known(NamedTuple):
    """Previous step of parameters that are plain Tensors: what must be unchanged for its plan to be used again."""

    params: list[Tensor]
    layers: list[Stepped]
    """Layers without their gradients, which would stay alive; the weights stand in for them."""
    states: list[State]
    entries: list[Any]
    """Tensors of the states, kept alive so that their ids are not reused."""
    pointers: list[Callable[[], int]]
    """Functions that return the current addresses of parameters and momenta: a state is moved as a whole,"""
    lie: list[int]
    """and their previous addresses."""
    options: list[Any]
    plan: Plan

    @staticmethod
    def of(params: Sequence[Tensor], layers: Sequence[Stepped], options: list[Any], plan: Plan) -> Known:
        """Record the step that these parameters take now."""
        states = [layer.state for layer in layers]
        entries = [value for state in states for value in state.values()]
        pointers = [x.data_ptr for x in (*params, *(state["exp_avg"] for state in states))]
        lie = [at() for at in pointers]
        kept = [layer._replace(g=layer.weight) for layer in layers]
        return Known(list(params), kept, states, entries, pointers, lie, options, plan)


def known_step(
    params: Sequence[Tensor], group: Mapping[str, Any], cache: DeviceCache, state: Mapping[Tensor, State]
) -> Known | None:
    """Return the previous step if only gradients and numbers changed: this halves the host's time."""
    known = cache.known.get(id(group))
    if known is None or len(params) != len(known.params) or not all(map(is_, params, known.params)):
        return None
    if not all(map(is_, map(state.get, params), known.states)):
        return None
    entries = list(chain.from_iterable([s.values() for s in known.states]))
    if len(entries) != len(known.entries) or not all(map(is_, entries, known.entries)):
        return None
    for p in params:
        g = p.grad
        if type(g) is not Tensor or g.dtype != torch.float32 or g.layout != torch.strided or not g.is_contiguous():
            return None
    if [at() for at in known.pointers] != known.lie or known.options != [group[name] for name in OPTIONS]:
        return None
    return known


class Plan:
    """Step of certain layers: the addresses of all arrays, and the graphs."""

    def __init__(self, layers: Sequence[Stepped], group: Mapping[str, Any], skipped: Tensor) -> None:
        self.device = layers[0].weight.device
        self.skipped = skipped
        self.made_for = [group[name] for name in OPTIONS]
        self.flags = [int(group["nesterov"]), int(group["maximize"]), int(group["direction"] == "orthogonal")]
        self.numbers = self._scratch(4 + len(NUMBERS), torch.float64)
        ridge, damping, power = self.numbers[-3:].unbind()
        self.metric = Metric(ridge, damping, power, group["outside"])
        self.states = [layer.state for layer in layers]
        sketched = [i for i, layer in enumerate(layers) if layer.view.rank]
        self.views = [layers[i].view for i in sketched]
        self.order = sketched + [i for i, layer in enumerate(layers) if not layer.view.rank]
        self.D = self._scratch(sum(layers[i].weight.numel() for i in sketched))
        self.axes = Axes(self, [k for k, view in enumerate(self.views) if refreshes(view)])
        self.others: dict[MatrixView, list[int]] = {}
        """Layers whose sketches PyTorch's operations refresh, those of one shape together."""
        for k, view in enumerate(self.views):
            if k not in self.axes.offsets:
                self.others.setdefault(view, []).append(sketched[k])
        self.orthogonal: Orthogonal | None = None
        if any(view.orthogonal for view in self.views):
            self.orthogonal = Orthogonal(self, torch.bfloat16 if self.device.type == "cuda" else torch.float32)
        self._lay_out(layers)
        self.gradients = torch.empty(len(self.order), dtype=torch.int64, device=self.device)
        self.bad = torch.empty(len(self.order), dtype=torch.int32, device=self.device)
        self.settings: tuple[Any, Any] = (None, None)
        self.sent: list[Tensor] = []
        """Host arrays that a graph of the user sends again."""
        self.due = torch.zeros((), device=self.device)
        """Input of the kernels: 0 if a refresh is due. After the user has captured a step: the step count modulo the
        interval between refreshes."""
        self.G: dict[MatrixView, Tensor] = {}
        ages = [layers[i].state["refreshes"] for i in sketched]
        self.waits = bool(ages) and not bool(torch.stack(ages).all())
        """True if a layer awaits its first refresh."""
        self.counts = {"step": 0, "refresh": 0}
        self.graphs: dict[str, torch.cuda.CUDAGraph] = {}
        if self.orthogonal:
            self.orthogonal.refreshed(self)

    def _scratch(self, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(size, dtype=dtype, device=self.device)

    def there(self, rows: Sequence[Any], dtype: torch.dtype) -> Tensor:
        """Copy numbers to the device."""
        return torch.tensor(rows, dtype=dtype).to(self.device, non_blocking=True)

    def _lay_out(self, layers: Sequence[Stepped]) -> None:
        """Fill the table's row of each layer (cuda/layers.cu), and assign work to the thread blocks of each launch."""
        fields: list[list[int]] = []
        owners: list[int] = []
        lefts: list[list[int]] = []
        rights: list[list[int]] = []
        at = 0
        for k, i in enumerate(self.order):
            layer, state, view = layers[i], layers[i].state, layers[i].view
            size = layer.weight.numel()
            chunks = -(-size // CHUNK)
            moments = state["exp_avg"].data_ptr(), state["exp_avg_sq"].data_ptr()
            direction = self.D.data_ptr() + 4 * at if view.rank else 0
            own = [layer.weight.data_ptr(), *moments, direction, state["step"].data_ptr(), size, len(owners), chunks]
            owners += [k] * chunks
            if view.rank:
                at += size
                own += [view.rows, view.columns, view.row_blocks, view.column_blocks, view.rank]
                strips = -(-view.rows // TALL)
                own += [state["left"].data_ptr(), state["right"].data_ptr(), len(rights), strips]
                own += self.axes.offsets.get(k, [0, 0])
                own += self.orthogonal.fields[k] if self.orthogonal else []
                rights += [[k, strip] for strip in range(strips)]
                across = range(-(-view.columns // WIDE))
                lefts += [[k, block, strip] for block in range(view.row_blocks) for strip in across]
            fields.append([*own, *[0] * (LAYER_FIELDS - len(own))])
        self.table = self.there(fields, torch.int64)
        self.owners = self.there(owners, torch.int32)
        self.lefts, self.rights = self.there(lefts, torch.int32), self.there(rights, torch.int32)
        self.wanted, self.lengths = (self._scratch(n, torch.float64) for n in (len(owners), len(rights)))

    def take(self, layers: Sequence[Stepped], grads: Sequence[Tensor], group: Mapping[str, Any]) -> None:
        """Take a step of the plan's layers along these gradients, after the refresh if one is due."""
        device_decides = not self.others or group["refresh_every"] == 1
        if self._captured() and not device_decides:
            raise RuntimeError(
                "Sketchy: in a CUDA graph layers are refreshed every few steps where kernels do that, with rank up to "
                f"{RANKS // 2} and no block_size; others with refresh_every=1 (not {group['refresh_every']})."
            )
        self._tell(grads, group)
        if self.views and self.sent and device_decides:  # the number of replays is unknown here
            step = self.states[self.order[0]]["step"]
            torch.remainder(step, float(group["refresh_every"]), out=self.due)
            self._refresh_where_due(grads)
        elif self.views and (self.waits or (group["calls"] - 1) % group["refresh_every"] == 0):
            self.refresh(layers, grads, group)
        self._run("step", self._step)

    def _tell(self, grads: Sequence[Tensor], group: Mapping[str, Any]) -> None:
        """Send the gradient addresses and the numbers."""
        lr = group["lr"]
        there = isinstance(lr, Tensor) and lr.device == self.device and self.device.type == "cuda"
        numbers = [-1.0 if there else float(lr), *group["betas"], *(group[name] for name in NUMBERS), power_of(group)]
        now = [grads[i].data_ptr() for i in self.order], numbers
        for what, before, into in zip(now, self.settings, (self.gradients, self.numbers), strict=True):
            if what != before or self.sent or self._captured():  # a graph captured by the user has sent others since
                self._send(what, into)
        self.settings = now
        if there:
            self.numbers[:1].copy_(lr.view(1))

    def _send(self, what: Sequence[float], into: Tensor) -> None:
        here = torch.tensor(what, dtype=into.dtype)
        if self._captured():
            here = here.pin_memory()
            self.sent.append(here)
        into.copy_(here, non_blocking=True)  # pageable memory is staged: no synchronisation

    def _captured(self) -> bool:
        return self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()

    def _run(self, name: str, work: Callable[[], None]) -> None:
        """Run work eagerly at first and within a user's graph, and as a captured graph from then on."""
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

    def _step(self) -> None:
        where = [self.table, self.owners]
        chunks = len(self.owners)
        self.bad.zero_()
        launch("inspect", chunks, THREADS, [*where, self.gradients, self.bad])
        own = [*where, self.gradients, self.bad, self.wanted, self.numbers, *self.flags]
        launch("moments", chunks, THREADS, own)
        if self.views:
            self.whiten(0)
        size, lengths = 0.0, self.lengths
        if self.orthogonal:
            self.orthogonal.turn(self)
            size, lengths = orthogonal.LENGTH, self.orthogonal.lengths
        own = [*where, self.bad, self.wanted, lengths, self.skipped, self.numbers, len(self.order), size]
        launch("descend", chunks, THREADS, own)

    def whiten(self, rooted: int) -> None:
        """Precondition the directions by the sketches of both axes, with half the power if ``rooted``."""
        rank = max(view.rank for view in self.views)
        launch("turn_left", len(self.lefts), THREADS, [self.table, self.lefts, rooted], 4 * WIDE * rank)
        own = [self.table, self.rights, self.lengths, rooted]
        launch("turn_right", len(self.rights), LANES, own, row_bytes(rank))

    def refresh(self, layers: Sequence[Stepped], grads: Sequence[Tensor], group: Mapping[str, Any]) -> None:
        """Absorb the gradients into the sketches of all layers; if a layer awaits its first refresh, by shapes."""
        if self.waits:
            shapes: dict[MatrixView, list[Stepped]] = {}
            for i in self.order[: len(self.views)]:
                shapes.setdefault(layers[i].view, []).append(layers[i]._replace(g=grads[i]))
            for some in shapes.values():
                refresh(counted(some), group)
            self.waits = False
            if self.orthogonal:
                self.orthogonal.refreshed(self)
            return
        self._refresh_where_due(grads)

    def _refresh_where_due(self, grads: Sequence[Tensor]) -> None:
        """Copy gradients of layers that PyTorch refreshes to their fixed buffers, and refresh."""
        for view, which in self.others.items():
            if view not in self.G:
                size = len(which) * view.rows * view.columns
                self.G[view] = self._scratch(size).view(len(which), view.rows, view.columns)
            chosen = [grads[i].view(view.rows, view.columns) for i in which]
            torch._foreach_copy_(list(self.G[view].unbind()), chosen)
        self._run("refresh", self._refresh)

    def _refresh(self) -> None:
        self.axes.refresh(self, self.due)
        some = [[self.states[i] for i in which] for which in self.others.values()]
        items = []
        for view, states in zip(self.others, some, strict=True):
            left, right = (axis_of(states, name, torch.float32) for name in ("left", "right"))
            ages = torch.stack([state["refreshes"] for state in states]).double()
            items.append((self.G[view], left, right, fading(ages, self.numbers[3 + NUMBERS.index("sketch_decay")])))
        for states, (G, *_), made in zip(some, items, axes.refresh(items, self.metric), strict=True):
            keep_sketches(states, *made)
            count_refreshes(states, G)
        if self.orthogonal:
            self.orthogonal.refreshed(self)
