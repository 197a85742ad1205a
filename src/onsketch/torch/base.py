"""What every optimizer here does around its sketch: groups, options, state, and the step itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.optim.optimizer import ParamsT

from onsketch.core.errors import OptionError
from onsketch.torch import diagonal, fused
from onsketch.torch.careful import CarefulOptimizer
from onsketch.torch.descent import descend, diagonal_step, usable
from onsketch.torch.gather import gather
from onsketch.torch.options import check
from onsketch.torch.plan import Layer, memory_table, words
from onsketch.torch.rows import State
from onsketch.torch.state import asked, complete, fresh, out_of_range


class SketchedOptimizer(CarefulOptimizer):
    """An optimizer that steps along ``P g``, P the inverse of a metric sketched from the gradients of each layer.

    Args:
        params: parameters, named parameters or groups of either.
        lr: the learning rate; a number, or a Tensor of one number, which is never changed here.
        sketch_size: m, rows of the sketch; 0 keeps none, and the step is plain or, with ``graft``, diagonal AdaGrad.
        ridge: δ or α, the metric where the sketch knows nothing; left out, what suits the method (``default_ridge``).
        weight_decay: L2 penalty, added to the gradient, or with ``decoupled_weight_decay`` taken off the weights.
        momentum: heavy ball on the steps.
        decay: 1 sums the gradients' outer products up, as the papers do; below 1 they are averaged with this decay,
            and the average is freed of its start from zero.
        graft: give each step the length of the diagonal AdaGrad step (with the same decay), keep its direction.
        block_size: cut layers into blocks of at most this many numbers, each with a sketch of its own.
        diagonal_above: layers of more numbers fall back to diagonal AdaGrad, as the papers' dense layers do; None
            sketches everything. ``print(optimizer.memory_plan())`` shows what that means.
        sketch_dtype: the type of what is as large as the layer; left out, that of the weights, float32 at least.
        update_every: absorb the gradient in every so many-th step only.
        maximize: ascend.
        seed: of the random methods' draws.
        error_if_nonfinite: raise at a gradient that is not finite, before anything is stepped.

    The gradient of a complex parameter counts as that of its real and imaginary parts. A parameter whose gradient is
    not finite skips the step, which is counted (``skipped_steps``) and warned of once. On a CUDA device, where nothing
    waits to find out, it takes that step as one of zero gradient, uncounted; so does one whose eigenproblem fails.
    """

    default_ridge: ClassVar[float] = 0.01
    """The best of the papers' grid over three data sets, with the method as the papers have it (docs/torch.md)."""
    least_ridge_is_zero: ClassVar[bool] = False
    """Whether ridge 0 has a meaning."""
    unconcerned: ClassVar[tuple[str, ...]] = ("seed",)
    """Options of this list that mean nothing to the method."""

    recommended_setting: ClassVar[dict[str, Any]] = {"lr": 1e-3, "ridge": 0.01, "graft": True, "decay": 0.999}
    """Where the ablation of docs/torch.md ended."""

    @classmethod
    def recommended(cls, params: ParamsT, **changes: Any) -> Self:
        """The optimizer at the setting that did best in the ablation: grafted, and most with a fading sketch.

        The constructor's own defaults are the papers' methods as they stand, at the rate and ridge that suit them
        best; this is where to start on a network.

        >>> SketchedOptimizer.recommended_setting
        {'lr': 0.001, 'ridge': 0.01, 'graft': True, 'decay': 0.999}
        """
        return cls(params, **{**cls.recommended_setting, **changes})

    @classmethod
    def paper(cls, params: ParamsT, lr: float | Tensor = 0.01, **options: Any) -> Self:
        """The method as the papers have it: outer products summed up, steps as long as they come out.

        >>> optimizer = SketchedOptimizer.paper  # of each class: AdaFD.paper(model.parameters(), lr=0.1)
        """
        return cls(params, lr, **{"decay": 1.0, "graft": False, "momentum": 0.0, **options})

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 0.01,
        *,
        sketch_size: int | None = None,
        ridge: float | None = None,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        momentum: float = 0.0,
        decay: float = 1.0,
        graft: bool = False,
        block_size: int | None = None,
        diagonal_above: int | None = 1_000_000,
        sketch_dtype: torch.dtype | None = None,
        update_every: int = 1,
        maximize: bool = False,
        seed: int | None = None,
        error_if_nonfinite: bool = False,
    ) -> None:
        for name, value in (("sketch_size", sketch_size), ("seed", seed)):
            if value is not None and name in self.unconcerned:
                raise OptionError(f"{type(self).__name__}: {name} does not concern it.")
        defaults = {
            "lr": lr,
            "sketch_size": 20 if sketch_size is None else sketch_size,
            "ridge": self.default_ridge if ridge is None else ridge,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "momentum": momentum,
            "decay": decay,
            "graft": graft,
            "block_size": block_size,
            "diagonal_above": diagonal_above,
            "sketch_dtype": sketch_dtype,
            "update_every": update_every,
            "maximize": maximize,
            "seed": 0 if seed is None else seed,
            "error_if_nonfinite": error_if_nonfinite,
        }
        self._settled: dict[Tensor, Any] = {}
        super().__init__(params, defaults)

    def _check(self, group: Mapping[str, Any]) -> None:
        name = type(self).__name__
        check(name, group)
        if group["ridge"] == 0.0 and not self.least_ridge_is_zero:
            raise OptionError(f"{name}: ridge=0 leaves directions without a metric; give a positive one.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._settled = {}

    # What a method says of itself ------------------------------------------------------------------------------

    @abstractmethod
    def _empty(self, layer: Layer, group: Mapping[str, Any], like: Tensor) -> State:
        """The sketch of a layer before its first step, in the type and on the device of ``like``."""

    @abstractmethod
    def _precondition(
        self, grads: list[Tensor], states: list[State], steps: list[int], group: dict[str, Any], absorb: bool
    ) -> list[Tensor]:
        """``P g`` of gradients cut into blocks, (B, b)."""

    def _without_sketch(self, group: dict[str, Any]) -> float:
        """p(0), the factor of a step where nothing was sketched."""
        return 1.0 / group["ridge"] if group["ridge"] else 0.0

    # The step --------------------------------------------------------------------------------------------------

    def _refuse(self, params: Sequence[Tensor], group: Mapping[str, Any]) -> None:
        """Say what cannot be done before anything is."""
        name = type(self).__name__
        for p in params:
            assert p.grad is not None
            if p.grad.layout != torch.strided:
                raise RuntimeError(
                    f"{name} does not take sparse gradients (parameter of shape {tuple(p.shape)}). "
                    "Give it a dense gradient (Embedding(sparse=False)), or put it under torch.optim.SparseAdam."
                )
        if any(p.is_cuda for p in params) and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                f"{name}.step() cannot be captured in a CUDA graph: the host counts steps and rows. "
                "Capture the forward and backward pass, and step outside of the graph."
            )

        if group["error_if_nonfinite"] and params:
            self._raise_if_not_finite(params)

    def _refuse_sharded(self, p: Tensor) -> None:
        if hasattr(p, "to_local"):  # a DTensor
            raise RuntimeError(
                f"{type(self).__name__} does not take sharded parameters (a DTensor of shape {tuple(p.shape)}, as of "
                "FSDP2): a sketch is of the whole gradient. Use DistributedDataParallel."
            )

    @_disable_dynamo  # its kernels work on addresses, and what they are told is cached
    def _step_group(self, params: list[Tensor], group: dict[str, Any]) -> None:
        here = {id(p) for p in self._sound([p for p in params if not p.is_cuda])}
        params = [p for p in params if p.is_cuda or id(p) in here]
        if not params:
            return
        weights = [torch.view_as_real(p) if p.is_complex() else p for p in params]
        grads: list[Tensor] = []
        for p in params:
            assert p.grad is not None
            grads.append(torch.view_as_real(p.grad.resolve_conj()) if p.is_complex() else p.grad)
        layers = [Layer.of(w, group) for w in weights]
        states = []
        for p, g, layer in zip(params, grads, layers, strict=True):
            state = self.state[p]
            setting = (layer, group["sketch_size"], group["graft"], group["momentum"] > 0.0)
            if not state:
                self._refuse_sharded(p)
                state.update(fresh(self, layer, group, p.device))
            elif self._settled.get(p) != setting:
                complete(self, state, layer, group, g)
            self._settled[p] = setting
            states.append(state)

        if group["maximize"]:
            grads = list(torch._foreach_neg(grads))
        if group["weight_decay"]:
            if group["decoupled_weight_decay"]:
                torch._foreach_mul_(weights, 1.0 - usable(group["lr"]) * group["weight_decay"])
            else:
                grads = list(torch._foreach_add(grads, weights, alpha=group["weight_decay"]))

        torch._foreach_add_([state["step"] for state in states], 1.0)
        steps = [int(state["step"]) for state in states]

        flat = [i for i, layer in enumerate(layers) if layer.kind == "diagonal"]
        rest = [i for i, layer in enumerate(layers) if layer.kind != "diagonal"]
        if rest:
            some = [grads[i] for i in rest]
            chosen = ([layers[i] for i in rest], [states[i] for i in rest], [steps[i] for i in rest])
            updates = self._sketched_updates(some, *chosen, group)
            descend([weights[i] for i in rest], updates, chosen[1], group)
        if flat:
            diagonal_step(
                [weights[i] for i in flat],
                [grads[i] for i in flat],
                [states[i] for i in flat],
                [steps[i] for i in flat],
                group,
            )

    def _sketched_updates(
        self, grads: list[Tensor], layers: list[Layer], states: list[State], steps: list[int], group: dict[str, Any]
    ) -> list[Tensor]:
        """``P g`` in the shape of each weight, grafted if asked for."""
        fuses = [layer.kind == "sketch" and fused.serves(state) for layer, state in zip(layers, states, strict=True)]
        blocks = gather(grads, layers, fuses)
        if layers[0].kind == "plain":
            updates = [g * self._without_sketch(group) for g in blocks]
        else:
            updates = list(blocks)
            # every so many-th step absorbs; parameters that missed steps keep their own count
            due = [(t - 1) % group["update_every"] == 0 for t in steps]
            for absorb in (True, False):
                chosen = [i for i, is_due in enumerate(due) if is_due == absorb]
                if chosen:
                    stepped = self._precondition(
                        [blocks[i] for i in chosen],
                        [states[i] for i in chosen],
                        [steps[i] for i in chosen],
                        group,
                        absorb,
                    )
                    for i, update in zip(chosen, stepped, strict=True):
                        updates[i] = update
        if group["graft"] and not all(fuses):  # the kernels have done it for theirs
            for i, done in enumerate(fuses):
                if not done:
                    updates[i] = diagonal.graft(updates[i], blocks[i], layers[i], states[i], steps[i], group["decay"])
        return [layer.join(update) for layer, update in zip(layers, updates, strict=True)]

    # State -----------------------------------------------------------------------------------------------------

    def _fresh(self, weight: Tensor, group: Mapping[str, Any], device: torch.device | str) -> State:
        return fresh(self, Layer.of(weight, group), group, device)

    def _late(self, wanted: State) -> Collection[str]:
        return ("momentum_buffer", "sum") if wanted.keys() & {"rows", "matrix"} else ("momentum_buffer",)

    def _asked(self, group: Mapping[str, Any]) -> str:
        return asked(group)

    def _out_of_range(self, state: Mapping[str, Any]) -> str:
        return out_of_range(state)

    def memory_plan(self) -> str:
        """A table of what each parameter keeps, sketched or not, and how many bytes that takes; nothing is made."""

        def kept(weight: Tensor, group: Mapping[str, Any]) -> tuple[str, int]:
            layer = Layer.of(weight, group)
            size = torch.promote_types(layer.dtype, torch.float32).itemsize
            return words(layer), 2 * layer.blocks * layer.width * size

        return memory_table(self, kept)
