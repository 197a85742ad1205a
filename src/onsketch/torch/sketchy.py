"""Sketchy: one frequent-directions sketch for each axis of a layer, on top of Adam or of orthogonal momentum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

from onsketch.core.errors import OptionError
from onsketch.torch import axes_cuda, matrix_view_cuda
from onsketch.torch.axes import PARTS
from onsketch.torch.checked import CheckedOptimizer, State
from onsketch.torch.checkpoint import gradient, is_plain, local, real
from onsketch.torch.matrix_view import SHAPING, MatrixView, Stepped, misfit, take_steps
from onsketch.torch.options import FLAG, check_betas, check_choices, check_number, check_numbers, chosen_options
from onsketch.torch.plan import memory_table

CHOICES: dict[str, tuple[Any, ...]] = {
    "graft": ("adam", "rmsprop", "sgd"),
    "outside": ("mean", "escaped"),
    "direction": ("adam", "orthogonal"),
    "state_dtype": (None, torch.float32, torch.float64, torch.bfloat16),
}


class Sketchy(CheckedOptimizer):
    """Adam, or orthogonal momentum, preconditioned by a sketch of the gradients along each axis of a layer.

    For a parameter of rows and columns (a convolution's filters against the rest) with gradient G_t it keeps Adam's
    moments m and v, and for each axis r directions V with energies λ: the frequent directions of ``L = E GGᵀ`` and
    ``R = E GᵀG``, with decay β. With ``D = m̂/(√v̂ + ε)``, Adam's own direction (Nesterov's m̂), the step is

        U = A_L^{-p} · D · A_R^{-p},    A = V diag(max(λ + Σρ, e)) Vᵀ + e·(I − VVᵀ) + damping·(tr L/d)·I,
        w ← w − lr·(‖D‖/‖U‖)·U

    where Σρ is the mass removed by shrinks. The energy outside, e, is the mean of what the sketch does not hold,
    ``e = (tr L − Σ(λ + Σρ))/(d − r)``. It nearly vanishes if the sketch holds almost all of an axis of length d;
    ``damping`` therefore adds a share of the mean energy, tr L/d. A step has Adam's length, and rates are of the size
    of Adam's. Outside of the sketch its direction is also Adam's. Scaling the loss changes nothing (as long as ``eps``
    does not matter).

    With ``direction="orthogonal"`` matrices have no v. With Nesterov's momentum M, and A scaled to 1 outside of the
    sketch, a matrix of a rows and b columns takes the step

        X = A_L^{-p} · M · A_R^{-p},    O = NewtonSchulz(X),    Y = A_L^{-p/2} · O · A_R^{-p/2},
        c ← β·c + (1 − β)·mean(Y²),    Z = Y/√c,    w ← w − lr·(0.2·√(ab)/‖Z‖)·Z

    NewtonSchulz moves singular values towards 1, by two steps of Muon's polynomial where Muon takes five (see
    :mod:`onsketch.torch.orthogonal`). The mean is over the shorter axis. Each index of the longer one has a c, as in
    NorMuon. This is for hidden layers: embeddings, the first convolution and the last layer belong to a group with
    ``diagonal=True``, as :meth:`for_model` makes it. Vectors take Adam's steps.

    The sketches absorb one gradient of ``refresh_every``. On a CPU, layers of different shapes take different steps.
    A refresh is one step of power iteration (see :mod:`onsketch.torch.axes`): no matrix of an axis' length squared is
    ever made.

    Vladimir Feinberg, Xinyi Chen, Y. Jennifer Sun, Rohan Anil, Elad Hazan: "Sketchy: memory-efficient adaptive
    regularization with frequent directions", NeurIPS 2023. The paper decomposes each sketch in full and whitens the
    gradient, with ``outside="escaped"`` and p = 1/4. This library whitens Adam's direction, uses the mean, and
    updates by Nyström's approximation. L and R come from Shampoo: Vineet Gupta, Tomer Koren, Yoram Singer, ICML 2018.
    Orthogonal steps come from Muon (Keller Jordan and others, 2024), c from NorMuon (Li and others, 2025,
    arXiv:2510.05491).

    Cost of a step for n numbers: Adam's, 8·r·n operations for U, and 12·r·n/refresh_every for the refresh. State:
    Adam's 8 bytes a number, 4·r·(rows + columns) bytes and 16·r + 40 more, at most twice Adam's where the longer axis
    has 21 numbers or more. With ``direction="orthogonal"``: 4 bytes a number in place of 8, and 8·a·b·min(a, b)
    operations more for each of NewtonSchulz's two steps.

    Args:
        params: parameters, named parameters or groups of either; :meth:`for_model` makes groups of a model.
        lr: the learning rate, in Adam's range.
        betas: decay of m and of v.
        eps: added to Adam's root. Far smaller than Adam's, so that the scale of the loss does not matter.
        weight_decay: subtracted from the weights, ``w ← w − lr·weight_decay·w`` (decoupled, as AdamW's).
        rank: r, directions kept for each axis, at most the shorter one; 0 is Adam.
        sketch_decay: β, for each refresh; of c, for each step.
        ridge: a share of the largest energy, max(λ₁ + Σρ, e), that is added to A as well.
        damping: the share of the mean energy that is added to A.
        power: p; by default 3/8, and 1/4 with orthogonal directions, the best on networks. Shampoo's is 1/4.
        direction: ``"adam"`` or ``"orthogonal"``.
        outside: e: ``"mean"``, or the paper's ``"escaped"``, Σρ alone, a bound far above the mean.
        refresh_every: interval, in steps, between gradients that enter the sketches.
        graft: source of the step length: ``"adam"``; ``"rmsprop"``, the gradient's without momentum; ``"sgd"``, that of
            the momentum, with no v kept and no diagonal: the method of the paper.
        nesterov: look ahead with the momentum.
        block_size: axes longer than this are cut into equal blocks, each with a sketch of its own.
        diagonal: treat all parameters of a group as Adam does (biases, norms, embeddings; vectors always are).
        diagonal_above: parameters with a longer axis, such as word embeddings, are diagonal.
        state_dtype: type of m and the directions: float32 (at least) or bfloat16; v is float32 at least.
        maximize: ascend.
        error_if_nonfinite: raise at a gradient that is not finite; else its parameter skips the step, which is
            counted (``skipped_steps``) and warned of once.
        foreach: accepted; layers are batched in any case.
        capturable: let a step be captured in a CUDA graph, after one outside of it.
        differentiable: refused.
        fused: refused.

    >>> import torch
    >>> from onsketch.torch import Sketchy
    >>> torch.manual_seed(0)  # doctest: +SKIP
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    >>> optimizer = Sketchy(model.parameters(), lr=1e-2)
    >>> loss = model(torch.ones(2, 4)).square().mean()
    >>> loss.backward()
    >>> optimizer.step()
    >>> bool(model(torch.ones(2, 4)).square().mean() < loss)
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-16,
        weight_decay: float = 0.0,
        *,
        rank: int = 16,
        sketch_decay: float = 0.95,
        ridge: float = 0.0,
        damping: float = 0.1,
        power: float | None = None,
        outside: str = "mean",
        direction: str = "adam",
        refresh_every: int = 5,
        graft: str = "adam",
        nesterov: bool = True,
        block_size: int | None = None,
        diagonal: bool = False,
        diagonal_above: int | None = 16_384,
        state_dtype: torch.dtype | None = None,
        maximize: bool = False,
        error_if_nonfinite: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        options = {**chosen_options(locals()), "calls": 0}
        self._cache = matrix_view_cuda.DeviceCache()
        super().__init__(params, options)

    @classmethod
    def for_model(cls, model: nn.Module, **options: Any) -> Self:
        """Return the optimizer of a model: embeddings diagonal, weight decay on matrices alone.

        With ``direction="orthogonal"`` the first convolution and the last linear layer are diagonal, too.

        >>> model = nn.Sequential(nn.Embedding(10, 4), nn.LayerNorm(4), nn.Linear(4, 3))
        >>> optimizer = Sketchy.for_model(model, weight_decay=0.1)
        >>> [(len(g["params"]), g["diagonal"], g["weight_decay"]) for g in optimizer.param_groups]
        [(1, False, 0.1), (1, True, 0.1), (3, True, 0.0)]
        """

        def weights(*kinds: type[nn.Module]) -> list[int]:
            return [id(m.weight) for m in model.modules() if isinstance(m, kinds)]

        tables = set(weights(nn.Embedding, nn.EmbeddingBag))
        if options.get("direction") == "orthogonal":
            tables.update(weights(nn.Conv1d, nn.Conv2d, nn.Conv3d)[:1], weights(nn.Linear)[-1:])
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        kinds: dict[str, list[tuple[str, Tensor]]] = {"matrices": [], "tables": [], "vectors": []}
        for name, p in named:
            kinds["tables" if id(p) in tables else "matrices" if p.dim() > 1 else "vectors"].append((name, p))
        groups: list[dict[str, Any]] = [
            {"params": kinds["matrices"]},
            {"params": kinds["tables"], "diagonal": True},
            {"params": kinds["vectors"], "diagonal": True, "weight_decay": 0.0},
        ]
        return cls([group for group in groups if group["params"]], **options)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._cache = matrix_view_cuda.DeviceCache()

    def __getstate__(self) -> dict[str, Any]:
        self._count_replays()
        return super().__getstate__()

    def state_dict(self) -> dict[str, Any]:
        """Return the state as torch.optim does; after capture in a CUDA graph, waits for the number of its replays."""
        self._count_replays()
        return super().state_dict()

    def _count_replays(self) -> None:
        """Count replays, which the host does not see, so that a resumed run refreshes on schedule."""
        for group in self.param_groups:
            known = self._cache.known.get(id(group))
            if known is not None and known.plan.sent:
                group["calls"] = int(known.plan.states[known.plan.order[0]]["step"])

    def _check(self, group: Mapping[str, Any]) -> None:
        name = type(self).__name__
        check_numbers(name, group, ("weight_decay", "ridge", "damping"), whole={"rank": 0, "refresh_every": 1})
        check_betas(name, group["betas"])
        check_number(name, group, "sketch_decay", 0.0, below=1.0)
        if group["power"] is not None and not 0.0 < group["power"] <= 1.0:
            raise OptionError(f"{name}: power={group['power']!r}; expected a number in (0, 1]; Shampoo's is 0.25.")
        for option in ("block_size", "diagonal_above"):
            if group[option] is not None:
                check_numbers(name, group, (), whole={option: 1})
        flags = "nesterov", "diagonal", "maximize", "error_if_nonfinite", "capturable"
        check_choices(name, group, CHOICES | dict.fromkeys(flags, FLAG))
        if group["direction"] == "orthogonal" and group["graft"] != "adam":
            raise OptionError(
                f"{name}: graft={group['graft']!r} does not concern direction='orthogonal', whose steps have a length "
                "of their own."
            )

    # State -----------------------------------------------------------------------------------------------------

    def _fresh(self, weight: Tensor, group: Mapping[str, Any], device: torch.device | str) -> State:
        kind = group["state_dtype"] or torch.promote_types(weight.dtype, torch.float32)
        like = torch.empty(0, dtype=kind, device=device)
        counted_at = device if torch.device(device).type == "cuda" else "cpu"
        state: State = {"step": torch.zeros((), device=counted_at)}
        state["exp_avg"] = like.new_zeros(weight.shape)
        view = MatrixView.of(weight, group)
        if group["graft"] != "sgd":
            # in half precision an average with so slow a decay would never decrease
            shape = view.shapes.get("exp_avg_sq", weight.shape)
            state["exp_avg_sq"] = like.new_zeros(shape, dtype=torch.promote_types(kind, torch.float32))
        if view.rank:
            state["refreshes"] = torch.zeros((), device=counted_at)
            for name, (blocks, width, rank) in view.sides.items():
                state[name] = like.new_zeros(blocks, width, rank)
                state[f"{name}_energy"] = like.new_zeros(blocks, rank, dtype=torch.float64)
                for part in ("_escaped", "_total"):
                    state[name + part] = like.new_zeros(blocks, dtype=torch.float64)
        return state

    def _out_of_range(self, state: Mapping[str, Any]) -> str:
        for name in ("exp_avg_sq", *(side + part for side in ("left", "right") for part in PARTS[1:])):
            if name in state and bool((local(state[name]) < 0).any()):
                return f"has {name!r} below zero"
        return ""

    def _asked(self, group: Mapping[str, Any]) -> str:
        chosen = ", ".join(f"{name}={group[name]}" for name in SHAPING)
        return f"with {chosen}. Use the options it was made with, or start without a state."

    def memory_plan(self) -> str:
        """Return a table of the state of each parameter, its bytes, and the scratch memory of a step."""
        most = {
            id(group): axes_cuda.most_of([MatrixView.of(real(local(p)), group) for p in group["params"]])
            for group in self.param_groups
        }

        def kept(weight: Tensor, group: Mapping[str, Any]) -> tuple[str, int]:
            view = MatrixView.of(weight, group)
            if not view.rank:
                return "Adam" if group["graft"] != "sgd" else "momentum", 0
            copies = 3 if view.orthogonal else 1  # of Newton and Schulz's steps
            scratch = copies * weight.numel() * torch.promote_types(weight.dtype, torch.float32).itemsize
            if weight.is_cuda and weight.dtype == torch.float32 and group["graft"] == "adam":
                scratch += axes_cuda.refresh_bytes(view, most[id(group)])
            return f"{view.rows}×{view.columns}, rank {view.rank}", scratch

        return memory_table(self, kept)

    # The step --------------------------------------------------------------------------------------------------

    def _place(self, name: str, p: Tensor) -> torch.device | str:
        return p.device

    def _refuse(self, params: Sequence[Tensor], group: Mapping[str, Any]) -> None:
        name = type(self).__name__
        on_device = bool(params) and params[0].is_cuda
        known = matrix_view_cuda.known_step(params, group, self._cache, self.state) if on_device else None
        self._cache.next[id(group)] = known
        for p in params if known is None else ():
            assert p.grad is not None
            if p.grad.layout != torch.strided and (
                p.grad.sparse_dim() != 1 or group["graft"] == "sgd" or MatrixView.of(real(local(p)), group).orthogonal
            ):
                chosen = f"graft={group['graft']!r}, direction={group['direction']!r}"
                raise RuntimeError(
                    f"{name}: a sparse gradient of shape {tuple(p.shape)}, {chosen}; "
                    "it takes those of torch.nn.Embedding(sparse=True), and with Adam's moments."
                )
        captures = known is not None and group["capturable"] and not group["error_if_nonfinite"]
        if not captures and any(p.is_cuda for p in params) and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                f"{name}.step() is captured in a CUDA graph with capturable=True, without error_if_nonfinite, and "
                "after a step of the same parameters and options outside of it, all of them float32, with gradients, "
                "on one device, and graft='adam'."
            )
        if known is None and not (on_device and self._cache.knows(group)):
            for p in params:
                self._refuse_misfit(p, group)
        if group["error_if_nonfinite"] and params:
            self._raise_if_not_finite(params, group["state_dtype"])

    def _refuse_misfit(self, p: Tensor, group: Mapping[str, Any]) -> None:
        """Refuse a state of other options, or one that was inserted by hand."""
        state = self.state.get(p)
        wrong = misfit(state, real(local(p)), group) if state else ""
        if wrong:
            name = type(self).__name__
            raise OptionError(
                f"{name}: the state of a parameter of shape {tuple(p.shape)} {wrong}, {self._asked(group)}"
            )

    def _step_group(self, params: list[Tensor], group: dict[str, Any]) -> None:
        group["calls"] += 1  # stored in the group: the schedule must not depend on skipped steps
        known = self._cache.next.pop(id(group), None)
        if known is not None:
            self._skipped.on(params[0].device)
            known.plan.take(known.layers, [p.grad for p in params if p.grad is not None], group)
            return
        served: dict[torch.device, list[Stepped]] = {}
        rest = []
        for p in params:
            weight = real(local(p))
            if weight.is_cuda:  # no cached step: the state may be unfit
                self._refuse_misfit(p, group)
            layer = Stepped(weight, gradient(p), self.state[p], MatrixView.of(weight, group))
            if weight.is_cuda and not layer.state:
                layer.state.update(self._fresh(weight, group, weight.device))
            if weight.is_cuda and matrix_view_cuda.serves(layer, group):
                served.setdefault(weight.device, []).append(layer)
            else:
                rest.append((p, layer))
        sound = {id(p) for p in self._sound([p for p, _ in rest], group["state_dtype"])}
        others = [layer for p, layer in rest if id(p) in sound]
        for layer in others:
            if not layer.state:
                layer.state.update(self._fresh(layer.weight, group, layer.weight.device))
        if others:
            torch._foreach_add_([layer.state["step"] for layer in others], 1.0)
            take_steps(others, group, self._cache.scratch)
        self._cache.groups = len(self.param_groups)
        alike = len(served) == 1 and not rest and all(is_plain(p) for p in params)
        for device, some in served.items():
            matrix_view_cuda.take_steps(some, group, self._cache, self._skipped.on(device), params if alike else ())
