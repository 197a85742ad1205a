"""The step of Sketchy on a CUDA device: five launches of kernels, whatever the number of layers and of their shapes.

1. ``inspect``: which layers have a gradient that is not finite; these are left alone, and nobody waits to know,
2. ``moments``: Adam's moments and directions; layers without sketches step at once,
3. ``turn_left`` and ``turn_right``: the directions turned by the sketches of both axes (axes.py),
4. ``descend``: the steps, as long as Adam's.

A refresh is nine launches more (:class:`Axes`). PyTorch's products of so few columns would take several times as long.
Steps are counted on the device. A host needs longer to ask for all that than a device to do it, so that from the third
step on it is a CUDA graph, as is a refresh: what changes from step to step, the rate and where the gradients lie, is
sent to places that the graph knows. Here all layers are refreshed in the same step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from onsketch.torch import axes, kernels
from onsketch.torch.adaptive import Room
from onsketch.torch.axes import PARTS
from onsketch.torch.careful import State
from onsketch.torch.folded import SHAPING, Folded, Stepped, axis_of, fading, keep_sketches, metric_of, refresh
from onsketch.torch.kernels import CHUNK, RANKS, SHARED_BYTES, THREADS, launch

LAYER_FIELDS = 19
"""Of a layer in the table, as cuda/layers.cu has them."""
WIDE, TALL, LANES, PIECE = 32, 4, 128, 16
"""Of the products, as cuda/products.cu has them."""
_PLANS = 8
"""Sets of parameters that step together whose plans are kept."""
_ALIKE = 1e-7
"""Decays of layers refreshed unequally often that float32 hardly tells apart: these are refreshed together."""
_EAGER = 2
"""Steps and refreshes before a graph is made of them."""


class Places:
    """What an optimizer keeps on a device from step to step, beside its state."""

    def __init__(self) -> None:
        self.room = Room()
        self.plans: dict[tuple[Any, ...], Plan] = {}
        """For each set of addresses, one plan."""
        self.captured: list[Plan] = []
        """Those that a graph of the user's goes on using."""
        self.known: dict[int, Known] = {}
        """Of each group, what its last step was."""

    def knows(self, group: Mapping[str, Any]) -> bool:
        """Whether this group's last step was taken with these options."""
        known = self.known.get(id(group))
        return known is not None and known.options == [group[name] for name in OPTIONS]

    def forget(self, keys: Sequence[tuple[Any, ...]]) -> None:
        """Let go of plans, but for those that the user captured."""
        gone = [self.plans.pop(key) for key in keys]
        self.captured += [plan for plan in gone if plan.sent]
        self.known = {k: known for k, known in self.known.items() if not any(known.plan is plan for plan in gone)}

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
        and layer.folded.rank <= RANKS
        and all(x.dtype == torch.float32 and x.is_contiguous() for x in (w, g, state["exp_avg"]))
        and kernels.ready("layers", torch.float32, w.device)
    )


OPTIONS = ("betas", "eps", "weight_decay", "nesterov", "maximize", "ridge", "damping", "power", "outside", *SHAPING)
"""What a plan is made for; where one of them changes, another takes its place."""


def _lie(weights: Sequence[Tensor], states: Sequence[State]) -> list[int]:
    """Where all of it lies."""
    return [w.data_ptr() for w in weights] + [value.data_ptr() for state in states for value in state.values()]


def take_steps(
    layers: Sequence[Stepped], group: Mapping[str, Any], places: Places, skipped: Tensor, params: Sequence[Tensor] = ()
) -> None:
    """One step of each layer, all on one device; ``skipped`` counts those whose gradient is not finite.

    ``params``, where given, are all parameters of the group that step: as long as they, their states and the options
    are the same, :func:`take_known_steps` does the next ones.
    """
    weights, states = [layer.weight for layer in layers], [layer.state for layer in layers]
    lie = _lie(weights, states)
    options = [group[name] for name in OPTIONS]
    key = (*lie, weights[0].device)
    plan = places.plans.get(key)
    if plan is None or plan.made_for != options:
        if plan is not None:
            places.forget([key])
        elif len(places.plans) >= _PLANS:  # parameters that came and went
            places.forget(list(places.plans))
        del plan  # before another takes as much room
        plan = places.plans[key] = Plan(layers, group, skipped)
    if params:
        places.known[id(group)] = Known(list(params), list(layers), states, lie, options, plan)
    plan.take(layers, [layer.g for layer in layers], group)


class Known(NamedTuple):
    """The step before, of parameters that are Tensors and nothing else: what must be the same now."""

    params: list[Tensor]
    layers: list[Stepped]
    states: list[State]
    lie: list[int]
    options: list[Any]
    plan: Plan


def take_known_steps(
    params: Sequence[Tensor], group: Mapping[str, Any], places: Places, state: Mapping[Tensor, State]
) -> bool:
    """The step again, where nothing but the gradients changed; whether that is so. It takes a host half of the time."""
    known = places.known.get(id(group))
    if known is None or len(params) != len(known.params):
        return False
    if any(p is not q or state[p] is not s for p, q, s in zip(params, known.params, known.states, strict=True)):
        return False
    grads: list[Any] = [p.grad for p in params]
    if any(type(g) is not Tensor or g.layout != torch.strided or not g.is_contiguous() for g in grads):
        return False
    if any(g.dtype != torch.float32 for g in grads):
        return False
    if known.lie != _lie(params, known.states) or known.options != [group[name] for name in OPTIONS]:
        return False
    known.plan.take(known.layers, grads, group)
    return True


class Plan:
    """A step of certain layers: where everything lies, and the graphs of it."""

    def __init__(self, layers: Sequence[Stepped], group: Mapping[str, Any], skipped: Tensor) -> None:
        self.device = layers[0].weight.device
        self.skipped = skipped
        self.made_for = [group[name] for name in OPTIONS]
        self.options = {name: group[name] for name in ("betas", "eps", "weight_decay", "nesterov", "maximize")}
        self.metric = metric_of(group)
        self.states = [layer.state for layer in layers]
        sketched = [i for i, layer in enumerate(layers) if layer.folded.rank]
        self.folded = [layers[i].folded for i in sketched]
        self.order = sketched + [i for i, layer in enumerate(layers) if not layer.folded.rank]
        self.D = self._room(sum(layers[i].weight.numel() for i in sketched))
        self.axes = Axes(self, [k for k, folded in enumerate(self.folded) if refreshes(folded)])
        self.others: dict[Folded, list[int]] = {}
        """Layers whose sketches PyTorch's operations refresh, those of one shape together."""
        for k, folded in enumerate(self.folded):
            if k not in self.axes.rooms:
                self.others.setdefault(folded, []).append(sketched[k])
        self._lay_out(layers)
        self.gradients = torch.empty(len(self.order), dtype=torch.int64, device=self.device)
        self.rate = self._room(1)
        self.bad = torch.empty(len(self.order), dtype=torch.int32, device=self.device)
        self.told: tuple[Any, Any] = (None, None)
        self.sent: list[Tensor] = []
        """What a graph of the user's sends again."""
        self.decay = torch.zeros((), dtype=torch.float64, device=self.device)
        self.G: dict[Folded, Tensor] = {}
        self.waits = any(not layers[i].state["refreshes"] for i in sketched)
        """Whether a layer waits for its first refresh."""
        self.counts = {"step": 0, "refresh": 0}
        self.graphs: dict[str, torch.cuda.CUDAGraph] = {}

    def _room(self, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(size, dtype=dtype, device=self.device)

    def there(self, rows: Sequence[Any], dtype: torch.dtype) -> Tensor:
        """Numbers on the device."""
        return torch.tensor(rows, dtype=dtype).to(self.device, non_blocking=True)

    def _lay_out(self, layers: Sequence[Stepped]) -> None:
        """The table's row of each layer, as cuda/layers.cu has it; what each thread block of a launch works on."""
        fields: list[list[int]] = []
        owners: list[int] = []
        lefts: list[list[int]] = []
        rights: list[list[int]] = []
        at = 0
        for k, i in enumerate(self.order):
            layer, state, folded = layers[i], layers[i].state, layers[i].folded
            size = layer.weight.numel()
            chunks = -(-size // CHUNK)
            moments = state["exp_avg"].data_ptr(), state["exp_avg_sq"].data_ptr()
            direction = self.D.data_ptr() + 4 * at if folded.rank else 0
            own = [layer.weight.data_ptr(), *moments, direction, state["step"].data_ptr(), size, len(owners), chunks]
            owners += [k] * chunks
            if folded.rank:
                at += size
                own += [folded.rows, folded.columns, folded.row_blocks, folded.column_blocks, folded.rank]
                strips = -(-folded.rows // TALL)
                own += [state["left"].data_ptr(), state["right"].data_ptr(), len(rights), strips]
                own += self.axes.rooms.get(k, [0, 0])
                rights += [[k, strip] for strip in range(strips)]
                across = range(-(-folded.columns // WIDE))
                lefts += [[k, block, strip] for block in range(folded.row_blocks) for strip in across]
            fields.append([*own, *[0] * (LAYER_FIELDS - len(own))])
        self.table = self.there(fields, torch.int64)
        self.owners = self.there(owners, torch.int32)
        self.lefts, self.rights = self.there(lefts, torch.int32), self.there(rights, torch.int32)
        self.wanted, self.lengths = (self._room(n, torch.float64) for n in (len(owners), len(rights)))

    def take(self, layers: Sequence[Stepped], grads: Sequence[Tensor], group: Mapping[str, Any]) -> None:
        """A step along these gradients, of the layers that this is the plan of, and what is due before it."""
        self._tell(grads, group["lr"])
        if self.folded and (self.waits or (group["calls"] - 1) % group["refresh_every"] == 0):
            self.refresh([layer._replace(g=g) for layer, g in zip(layers, grads, strict=True)], group)
        self._run("step", self._step)

    def _tell(self, grads: Sequence[Tensor], lr: float | Tensor) -> None:
        """Where the gradients lie, and the rate."""
        where = [grads[i].data_ptr() for i in self.order]
        capturing = self._captured()
        if where != self.told[0] or capturing:
            here = torch.tensor(where, dtype=torch.int64)
            if capturing:
                here = here.pin_memory()
                self.sent.append(here)
            self.gradients.copy_(here, non_blocking=True)  # memory that is not pinned is staged: nobody waits
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

    def _step(self) -> None:
        where = [self.table, self.owners]
        decay = float(self.options["weight_decay"])
        first, second = map(float, self.options["betas"])
        flags = [int(self.options["nesterov"] and first > 0.0), int(self.options["maximize"])]
        chunks = len(self.owners)
        self.bad.zero_()
        launch("inspect", torch.float32, chunks, THREADS, [*where, self.gradients, self.bad])
        own = [*where, self.gradients, self.bad, self.wanted, self.rate, *flags]
        own += [first, second, float(self.options["eps"]), decay]
        launch("moments", torch.float32, chunks, THREADS, own)
        if self.folded:
            rank = max(folded.rank for folded in self.folded)
            launch("turn_left", torch.float32, len(self.lefts), THREADS, [self.table, self.lefts], 4 * WIDE * rank)
            own = [self.table, self.rights, self.lengths]
            launch("turn_right", torch.float32, len(self.rights), LANES, own, row_bytes(rank))
        own = [*where, self.bad, self.wanted, self.lengths, self.skipped, self.rate, len(self.order), decay]
        launch("descend", torch.float32, chunks, THREADS, own)

    def refresh(self, layers: Sequence[Stepped], group: Mapping[str, Any]) -> None:
        """Take the gradients into the sketches of all layers; where some wait for their first, of each for itself."""
        chosen = [layers[i] for i in self.order[: len(self.folded)]]
        ages = {int(layer.state["refreshes"]) for layer in chosen}
        decays = [fading(age, group) for age in ages]
        if 0 in ages or max(decays) - min(decays) > _ALIKE:
            shapes: dict[Folded, list[Stepped]] = {}
            for layer in chosen:
                shapes.setdefault(layer.folded, []).append(layer)
            for some in shapes.values():
                refresh(some, group)
            self.waits = False
            return
        self.decay.fill_(group["sketch_decay"] if self._captured() else max(decays))
        for folded, which in self.others.items():
            if folded not in self.G:
                size = len(which) * folded.rows * folded.columns
                self.G[folded] = self._room(size).view(len(which), folded.rows, folded.columns)
            grads = [layers[i].g.view(folded.rows, folded.columns) for i in which]
            torch._foreach_copy_(list(self.G[folded].unbind()), grads)
        self._run("refresh", self._refresh)
        for layer in chosen:
            layer.state["refreshes"] += 1.0

    def _refresh(self) -> None:
        self.axes.refresh(self)
        items = []
        for folded, which in self.others.items():
            sides = [axis_of([self.states[i] for i in which], name, torch.float32) for name in ("left", "right")]
            items.append((self.G[folded], sides[0], sides[1]))
        for which, made in zip(self.others.values(), axes.refresh(items, self.decay, self.metric), strict=True):
            keep_sketches([self.states[i] for i in which], *made)


class Axes:
    """The sketches that kernels refresh: those of axes that are whole, in nine launches for all of them."""

    def __init__(self, plan: Plan, chosen: Sequence[int]) -> None:
        self.most = most_of(plan.folded)
        self.Z = plan._room(sum(4 * f.rank * (f.rows + f.columns) for f in (plan.folded[k] for k in chosen)))
        self.rooms: dict[int, list[int]] = {}
        """Where Z of the rows and of the columns of a layer lie."""
        sides: list[list[int]] = []
        owners: list[int] = []
        units: dict[str, list[list[int]]] = {"across": [], "down": []}
        at = self.Z.data_ptr()
        for k in chosen:
            folded, state, self.rooms[k] = plan.folded[k], plan.states[plan.order[k]], []
            for name, length in (("left", folded.rows), ("right", folded.columns)):
                parts = parts_of(length, folded)
                entries = [state[name + part].data_ptr() for part in PARTS]
                sides.append([k, length, folded.rank, *entries, at, len(owners), parts])
                owners += [len(sides) - 1] * parts
                self.rooms[k].append(at)
                at += 16 * folded.rank * length
            units["across"] += [[k, strip] for strip in range(-(-folded.rows // TALL))]
            units["down"] += [[k, strip] for strip in range(-(-folded.columns // WIDE))]
        self.sides, self.owners = plan.there(sides, torch.int64), plan.there(owners, torch.int32)
        self.units = {name: plan.there(some, torch.int32) for name, some in units.items()}
        self.partial = plan._room(16 * self.most**2 * len(owners), torch.float64)
        self.scratch = plan._room(44 * self.most**2 * len(sides), torch.float64)
        self.mixes = plan._room(4 * self.most**2 * len(sides), torch.float64)
        self.failed = plan.there([0] * len(sides), torch.int32)

    def refresh(self, plan: Plan) -> None:
        """Take the gradients in; see axes.py and cuda/shrink.cu."""
        if not self.rooms:
            return
        count, most = len(self.sides), self.most
        sums, sizes = plan.wanted, plan._room(len(plan.order), torch.float64)
        launch("energies", torch.float32, len(sums), THREADS, [plan.table, plan.owners, plan.gradients, sums])
        launch("normalise", torch.float32, count, THREADS, [plan.table, self.sides, sums, sizes])
        for name, begin, ranks, into in (
            ("across", 0, 1, 1),
            ("down", 0, 2, 1),
            ("across", 1, 2, 2),
            ("down", 2, 1, 3),
        ):
            own = [plan.table, self.units[name], plan.gradients, sizes, begin, ranks, into]
            shared = row_bytes(ranks * most) if name == "across" else 4 * WIDE * ranks * most
            launch(name, torch.float32, len(self.units[name]), LANES if name == "across" else THREADS, own, shared)
        own = [self.sides, self.owners, self.partial, most]
        launch("grams", torch.float32, len(self.owners), THREADS, own, 32 * 1024)
        metric, least = plan.metric, 32.0 * torch.finfo(torch.float32).eps
        own = [self.sides, self.partial, sizes, plan.decay, self.scratch, self.mixes, self.failed, most]
        own += [int(metric.outside == "mean"), *map(float, (metric.ridge, metric.damping, metric.power)), least]
        launch("shrink", torch.float32, count, THREADS, own, min(64 * most**2, SHARED_BYTES))
        own = [self.sides, self.owners, self.mixes, self.failed, most]
        launch("redirect", torch.float32, len(self.owners), THREADS, own)


def refreshes(folded: Folded) -> bool:
    """Whether the kernels refresh the sketches of such a layer."""
    return folded.is_whole and 0 < folded.rank <= RANKS // 2


def most_of(layers: Sequence[Folded]) -> int:
    """The largest rank that kernels refresh: theirs is the size of all small matrices."""
    return max([folded.rank for folded in layers if refreshes(folded)], default=0)


def parts_of(length: int, folded: Folded) -> int:
    """Into how many parts the Gram matrices of an axis are summed."""
    return -(-length // (1024 // folded.rank))


def refresh_bytes(folded: Folded, most: int) -> int:
    """What a layer's refresh keeps beside its state, ``most`` the largest rank of those that kernels refresh.

    These: Z, the Gram matrices and what is made of them, of both axes (:class:`Axes`); others that kernels step: the
    gradient; those that are left to PyTorch: nothing.
    """
    if not refreshes(folded):
        return 4 * folded.rows * folded.columns if 0 < folded.rank <= RANKS else 0
    parts = sum(parts_of(length, folded) for length in (folded.rows, folded.columns))
    return 16 * folded.rank * (folded.rows + folded.columns) + 8 * most**2 * (16 * parts + 2 * 44 + 2 * 4)


def row_bytes(columns: int) -> int:
    """Shared memory that products of rows with so many columns take; see cuda/products.cu."""
    return 4 * TALL * (PIECE * (LANES + 1) + columns)
