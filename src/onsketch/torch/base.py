"""Base of all sketched optimizers: parameter groups, options, state, and the step around the sketch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from onsketch.core.errors import OptionError
from onsketch.torch import diagonal
from onsketch.torch.checked import CheckedOptimizer, squarable
from onsketch.torch.checkpoint import gradient, local, real
from onsketch.torch.descent import decay_weights, descend, diagonal_step, momentum_of, sparse_step
from onsketch.torch.diagonal import Fine, graft, nothing_else
from onsketch.torch.options import check, chosen_options
from onsketch.torch.plan import Layer, memory_table, words
from onsketch.torch.rows import State
from onsketch.torch.state import asked, complete, fresh, late, out_of_range

ENERGY = 10.0
"""Length to which the scale-free form scales the sketched rows: 100 squared, so a ridge of 1 is a hundredth."""


class SketchedOptimizer(CheckedOptimizer):
    """An optimizer that steps along ``P g``, P the inverse of a metric sketched from the gradients of each layer.

    There are two forms. The **scale-free** one is what the constructors make. It is a diagonal plus a sketch: gradients
    are divided by the root of Adam's average of their squares, ``x = g/(√v̂ + ε)``, and x is what is sketched, with a
    decay, and stepped along. It is sketched with a squared length of 100, whatever the layer, so that a ridge of 1 is a
    hundredth of all energy. Outside of the sketch the metric is the diagonal's. The step ``P x`` gets the
    length of x, and is averaged with β₁. Multiplying the loss by a number changes nothing, and rates are of
    the size of Adam's. **The papers' form**, :meth:`paper`, sketches the gradients without scaling, sums them, and
    does not rescale the step; its ridge has the gradients' unit.

    Args:
        params: parameters, named parameters or groups of either.
        lr: the learning rate; a number, or a Tensor of one number, which is never changed here.
        betas: of the scale-free form: the decay of the average of its steps, and of v.
        eps: added to the root of v̂; far smaller than Adam's, so that the scale of the loss does not matter.
        weight_decay: L2 penalty, added to the gradient, or with ``decoupled_weight_decay`` taken off the weights.
        sketch_size: m, rows of the sketch; 0 keeps none, and the step is plain or, with ``graft``, the diagonal one.
        ridge: δ or α, the metric outside of the sketch. Default: 1 in the scale-free form (10 for the Newton methods,
            whose metric has no root), and ``default_ridge`` of the method in the papers' form.
        scale_free: the form; False is the papers'.
        decay: 1 sums the outer products up, as the papers do; below 1 they are averaged with this decay,
            and the average is freed of its start from zero.
        graft: give each step the length of x or, in the papers' form, of the diagonal AdaGrad step with the same decay.
        momentum: heavy-ball momentum in the papers' form; in the scale-free form it replaces β₁.
        block_size: cut layers into blocks of at most this many numbers, each with a sketch of its own.
        diagonal_above: layers of more numbers keep the diagonal alone; None sketches everything.
            ``print(optimizer.memory_plan())`` shows the memory of each layer.
        sketch_dtype: the type of the sketch's rows; left out, that of the weights, float32 at least.
        update_every: absorb only the gradient of every n-th step.
        maximize: ascend.
        seed: of the random methods' draws.
        error_if_nonfinite: raise at a gradient that is not finite, before anything is stepped.
        foreach: accepted; layers are batched in any case.
        capturable: refused: hosts count steps and rows; :class:`Sketchy` can be captured.
        differentiable: refused.
        fused: refused.

    A complex parameter is treated as its real and imaginary parts. Each process steps its local part of a DTensor, with
    a sketch of its own. A parameter whose gradient is not finite skips the step: weights and state are unchanged, the
    skip is counted in ``skipped_steps``, and the first one raises a warning. (Without a sketch, on a CUDA device, the
    host does not synchronise to check, and the step counts as one of the parameter's.)
    """

    default_ridge: ClassVar[float] = 0.01
    """Default ridge of the papers' form: the best of their grid over three data sets (docs/howto/pytorch.md)."""
    scale_free_ridge: ClassVar[float] = 1.0
    """Default ridge of the scale-free form."""
    least_ridge_is_zero: ClassVar[bool] = False
    """True if the method accepts ridge 0."""
    unconcerned: ClassVar[tuple[str, ...]] = ("seed",)
    """Options of this list that the method ignores."""

    @classmethod
    def paper(cls, params: ParamsT, lr: float | Tensor = 0.01, **options: Any) -> Self:
        """Return the optimizer in the papers' form: sums of outer products of gradients, steps not rescaled.

        >>> optimizer = SketchedOptimizer.paper  # of each class: AdaFD.paper(model.parameters(), lr=0.1)
        """
        return cls(params, lr, scale_free=False, **{"decay": 1.0, "graft": False, **options})

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 3e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-16,
        weight_decay: float = 0.0,
        *,
        sketch_size: int | None = None,
        ridge: float | None = None,
        scale_free: bool = True,
        decay: float = 0.99,
        graft: bool = True,
        momentum: float = 0.0,
        decoupled_weight_decay: bool = False,
        block_size: int | None = None,
        diagonal_above: int | None = 1_000_000,
        sketch_dtype: torch.dtype | None = None,
        update_every: int = 1,
        maximize: bool = False,
        seed: int | None = None,
        error_if_nonfinite: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults, name = chosen_options(locals()), type(self).__name__
        for option in self.unconcerned:
            if defaults.get(option) is not None:
                raise OptionError(f"{name}: {option} does not concern it.")
        if capturable:
            raise RuntimeError(f"{name}: `capturable` is not supported: hosts count steps and rows. Sketchy has it.")
        suits = {"sketch_size": 20, "ridge": self.scale_free_ridge if scale_free else self.default_ridge, "seed": 0}
        defaults |= {option: value for option, value in suits.items() if defaults[option] is None}
        self._settled: dict[Tensor, Any] = {}
        self._forms: dict[Tensor, bool] = {}
        super().__init__(params, defaults)

    def _check(self, group: Mapping[str, Any]) -> None:
        name = type(self).__name__
        check(name, group)
        if group["ridge"] == 0.0 and not self.least_ridge_is_zero:
            raise OptionError(f"{name}: ridge=0 leaves directions without a metric; give a positive one.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._settled = {}
        self._forms = {p: group["scale_free"] for group in self.param_groups for p in group["params"]}

    # Hooks of a method ----------------------------------------------------------------------------------------

    @abstractmethod
    def _empty(self, layer: Layer, group: Mapping[str, Any], like: Tensor) -> State:
        """Return the sketch of a layer before its first step, in the type and on the device of ``like``."""

    @abstractmethod
    def _precondition(self, grads: list[Tensor], states: list[State], **settings: Any) -> list[Tensor]:
        """Return ``P g`` for gradients cut into blocks, (B, b); settings: ``steps`` and fields of ``Round``."""

    def _without_sketch(self, group: dict[str, Any]) -> float:
        """Return p(0), the factor of a step where nothing was sketched."""
        return 1.0 / group["ridge"] if group["ridge"] else 0.0

    # The step --------------------------------------------------------------------------------------------------

    def _refuse(self, params: Sequence[Tensor], group: Mapping[str, Any]) -> None:
        """Raise an error for unsupported parameters before anything is changed."""
        name = type(self).__name__
        for p in params:
            assert p.grad is not None
            if self.state.get(p) and self._forms.get(p, group["scale_free"]) != group["scale_free"]:
                raise OptionError(
                    f"{name}: scale_free={group['scale_free']}, but a parameter of shape {tuple(p.shape)} has a state "
                    "of the other form. Use the form it was made with, or start without a state."
                )
            if p.grad.layout != torch.strided and (
                p.grad.sparse_dim() != 1
                or not group["scale_free"]
                or Layer.of(real(local(p)), group).kind != "diagonal"
            ):
                raise RuntimeError(
                    f"{name} does not take sparse gradients (parameter of shape {tuple(p.shape)}), but those of "
                    "torch.nn.Embedding(sparse=True) in a group with diagonal_above=0, and in the scale-free form. "
                    "Give it a dense gradient, or such a group, or put it under torch.optim.SparseAdam."
                )
        if any(p.is_cuda for p in params) and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                f"{name}.step() cannot be captured in a CUDA graph: the host counts steps and rows. "
                "Capture the forward and backward pass, and step outside of the graph, or train with Sketchy."
            )
        if group["error_if_nonfinite"] and params:
            self._raise_if_not_finite(params, group["sketch_dtype"])

    def _step_group(self, params: list[Tensor], group: dict[str, Any]) -> None:
        waiting: list[Tensor] = []
        placed: dict[torch.device, list[Tensor]] = {}
        for p in params:
            unsketched = Layer.of(real(local(p)), group).kind != "sketch"
            if p.is_cuda and p.grad is not None and p.grad.layout == torch.strided and unsketched:
                placed.setdefault(p.device, []).append(p)
            else:
                waiting.append(p)
        sound = self._sound(waiting, group["sketch_dtype"])
        if sound:
            self._step_some(sound, group, None)
        for device, some in placed.items():
            norms = torch._foreach_norm([gradient(p) for p in some], torch.inf)
            fine = squarable(norms, group["sketch_dtype"])
            self._skipped.on(device).add_((~fine).sum())
            self._step_some(some, group, list(fine.unbind()))

    def _state_of(self, p: Tensor, g: Tensor, layer: Layer, group: Mapping[str, Any]) -> State:
        state: State = self.state[p]
        setting = (layer, group["sketch_size"], group["graft"], group["scale_free"], momentum_of(group) > 0.0)
        if not state:
            state.update(fresh(self, layer, group, g.device))
        elif self._settled.get(p) != setting:
            complete(self, state, layer, group, g)
        self._settled[p] = setting
        self._forms[p] = group["scale_free"]
        return state

    def _step_some(self, params: list[Tensor], group: dict[str, Any], fine: Fine) -> None:
        """Step parameters whose gradients are finite; on a device, those that ``fine`` marks as finite."""
        weights = [real(local(p)) for p in params]
        grads = [gradient(p) for p in params]
        layers = [Layer.of(w, group) for w in weights]
        states = [self._state_of(*each, group) for each in zip(params, grads, layers, strict=True)]
        torch._foreach_add_([state["step"] for state in states], 1.0)
        steps = [int(state["step"]) for state in states]
        kinds: dict[str, list[int]] = {}
        for i, (g, layer) in enumerate(zip(grads, layers, strict=True)):
            kinds.setdefault(layer.kind if g.layout == torch.strided else "sparse", []).append(i)
        for i in kinds.pop("sparse", []):
            sparse_step(weights[i], grads[i], states[i], steps[i], group)
        for kind, chosen in kinds.items():
            lists = weights, grads, layers, states, steps
            some: list[Any] = [[these[i] for i in chosen] for these in lists]
            some += [group, None if fine is None else [fine[i] for i in chosen]]
            self._step_alike(kind, *some)

    def _step_alike(
        self,
        kind: str,
        weights: list[Tensor],
        grads: list[Tensor],
        layers: list[Layer],
        states: list[State],
        steps: list[int],
        group: dict[str, Any],
        fine: Fine,
    ) -> None:
        """Step layers of one kind together."""
        if group["maximize"]:
            grads = list(torch._foreach_neg(grads))
        if group["weight_decay"]:
            if group["decoupled_weight_decay"]:
                decay_weights(weights, group, fine)
            else:
                grads = list(torch._foreach_add(grads, weights, alpha=group["weight_decay"]))
        if group["scale_free"]:
            grads = diagonal.normalised(grads, states, steps, group, fine)
        elif kind == "diagonal":
            diagonal_step(weights, grads, states, steps, group, fine)
            return
        updates = grads
        if kind == "plain":
            updates = [g * self._without_sketch(group) for g in nothing_else(grads, fine)]
        elif kind == "sketch":
            updates = self._sketched_updates(grads, layers, states, steps, group)
        else:
            updates = nothing_else(grads, fine)
        descend(weights, updates, states, steps, group, fine)

    def _sketched_updates(
        self, grads: list[Tensor], layers: list[Layer], states: list[State], steps: list[int], group: dict[str, Any]
    ) -> list[Tensor]:
        """Return ``P g`` in the shape of each weight, with grafted length if the group asks for it."""
        wanted = grads
        scales = [ENERGY / layer.width**0.5 for layer in layers]
        if group["scale_free"]:
            grads = list(torch._foreach_mul(grads, scales))
        blocks = [layer.cut(g) for g, layer in zip(grads, layers, strict=True)]
        updates = list(blocks)
        # every n-th step absorbs; parameters that missed steps keep their own count
        due = [(t - 1) % group["update_every"] == 0 for t in steps]
        settings = {"size": group["sketch_size"], "every": group["update_every"]}
        settings |= {name: group[name] for name in ("ridge", "decay", "seed")}
        for absorb in (True, False):
            chosen = [i for i, is_due in enumerate(due) if is_due == absorb]
            if chosen:
                settings |= {"steps": [steps[i] for i in chosen], "absorb": absorb}
                made = self._precondition([blocks[i] for i in chosen], [states[i] for i in chosen], **settings)
                for i, update in zip(chosen, made, strict=True):
                    updates[i] = update
        updates = [layer.join(update) for layer, update in zip(layers, updates, strict=True)]
        if group["scale_free"]:
            if group["graft"]:
                return [graft(*each) for each in zip(updates, wanted, layers, strict=True)]
            return list(torch._foreach_div(updates, scales))
        if group["graft"]:
            wanted = [g.to(layer.dtype) for g, layer in zip(grads, layers, strict=True)]
            roots = diagonal.denominators(wanted, states, group["decay"], steps, diagonal.EPSILON)
            wanted = list(torch._foreach_div(wanted, roots))
            return [graft(*each) for each in zip(updates, wanted, layers, strict=True)]
        return updates

    # State -----------------------------------------------------------------------------------------------------

    def _fresh(self, weight: Tensor, group: Mapping[str, Any], device: torch.device | str) -> State:
        return fresh(self, Layer.of(weight, group), group, device)

    _late = staticmethod(late)
    _asked = staticmethod(asked)
    _out_of_range = staticmethod(out_of_range)

    def memory_plan(self) -> str:
        """Return a table of the state of each parameter and its bytes; allocates nothing."""

        def kept(weight: Tensor, group: Mapping[str, Any]) -> tuple[str, int]:
            layer = Layer.of(weight, group)
            size = torch.promote_types(layer.dtype, torch.float32).itemsize
            copies = 4 if group["scale_free"] else 2  # x as it is and scaled, a root, the update; or g and the update
            signs = layer.numbers if getattr(self, "fourier", False) else 0  # of RadaGrad's map
            return words(layer), copies * layer.blocks * layer.width * size + signs

        return memory_table(self, kept)
