"""Base of all optimizers: checks of options, steps and checkpoints, each refused as a whole.

All share one policy for a gradient that is not finite: its parameter skips the step. The parameter and its state are
unchanged, also by weight decay; the skipped step is counted, and the first one raises a warning. A gradient whose
square is not finite (above 1.8e19 in float32) is treated alike: an average of squares would stay infinite for ever.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.optimizer import Optimizer, ParamsT

from onsketch.core.errors import OptionError
from onsketch.torch.checkpoint import ON_THE_HOST, check_checkpoint, keep_types, local, place_gradient
from onsketch.torch.compiled import number_of
from onsketch.torch.options import check_torch_flags, plain_numbers

State = dict[str, Any]


class CheckedOptimizer(Optimizer):
    """Base class that checks options, gradients and checkpoints around the step of a subclass (see the module)."""

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        check_torch_flags(type(self).__name__, defaults)
        plain_numbers(defaults)
        self._check(defaults)
        self._skipped = Skipped()
        self._number = number_of(self)
        self.params_of_groups: list[list[Tensor]] = []
        """Parameters without options: a compiler that reads the groups would recompile whenever a number changes."""
        super().__init__(params, defaults)

    # Hooks of a method ----------------------------------------------------------------------------------------

    @abstractmethod
    def _check(self, group: Mapping[str, Any]) -> None:
        """Refuse invalid options, naming them."""

    @abstractmethod
    def _fresh(self, weight: Tensor, group: Mapping[str, Any], device: torch.device | str) -> State:
        """Return the state of a (real) parameter before its first step, on this device."""

    @abstractmethod
    def _step_group(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """Step parameters that all have a gradient."""

    def _late(self, wanted: State) -> Collection[str]:
        """Return entries that a state may lack, because the option that needs them was switched on later."""
        return ()

    def _out_of_range(self, state: Mapping[str, Any]) -> str:
        """Describe values out of range in a state with entries of the right size; empty if there are none."""
        return ""

    def _asked(self, group: Mapping[str, Any]) -> str:
        """Return, for an error message, the options that determine the state."""
        return "start without a state."

    def _place(self, name: str, p: Tensor) -> torch.device | str:
        """Return the device of an entry of a state."""
        return "cpu" if name in ON_THE_HOST else p.device

    # The step --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step, after evaluating the closure if there is one; return the closure's loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if torch.compiler.is_compiling():
            params = [p for some in self.params_of_groups for p in some if p.grad is not None]
            torch.ops.onsketch.step(self._number, params, [p.grad for p in params])
        else:
            self.take_steps()
        return loss

    def take_steps(self) -> None:
        """Step every parameter that has a gradient: :meth:`step` without hooks and closure."""
        chosen = [self._with_gradient(group["params"]) for group in self.param_groups]
        for params, group in zip(chosen, self.param_groups, strict=True):
            self._refuse_devices(params)
            self._refuse(params, group)
        for params, group in zip(chosen, self.param_groups, strict=True):
            if params:
                self._step_group(params, group)
        self._skipped.listen()

    def _with_gradient(self, params: Sequence[Tensor]) -> list[Tensor]:
        """Return parameters with a local, non-empty gradient; all processes of a DTensor synchronise first."""
        params = [p for p in params if p.grad is not None]
        for p in params:
            if type(p.grad) is not Tensor:
                place_gradient(p)
        return [p for p in params if (p if type(p) is Parameter else local(p)).numel()]

    def _refuse_devices(self, params: Sequence[Tensor]) -> None:
        for p in params:
            if not (p.is_cuda or p.is_cpu):
                raise RuntimeError(
                    f"{type(self).__name__}: a parameter of shape {tuple(p.shape)} on device {str(p.device)!r}. What "
                    "is as small as a sketch is kept in float64, which MPS has not, and other devices were never "
                    "tried: use a CPU or a CUDA device, or torch.optim's Adam."
                )

    def _refuse(self, params: Sequence[Tensor], group: Mapping[str, Any]) -> None:
        """Raise an error for unsupported parameters before anything is changed."""

    def _raise_if_not_finite(self, params: Sequence[Tensor], kept: torch.dtype | None) -> None:
        """Refuse gradients that are not finite; synchronises with a device."""
        fine = finite([_numbers(p) for p in params], kept)
        bad = [str(tuple(p.shape)) for p, is_fine in zip(params, fine, strict=True) if not is_fine]
        if bad:
            name = type(self).__name__
            raise RuntimeError(f"{name}: gradients that are not finite, of parameters of shape {', '.join(bad)}.")

    def _sound(self, params: Sequence[Tensor], kept: torch.dtype | None) -> list[Tensor]:
        """Return parameters with finite gradients and count the others as skipped; synchronises with a device."""
        fine = finite([_numbers(p) for p in params], kept)
        if not all(fine):
            self._skipped.add(params[0].device, fine.count(False))
        return [p for p, is_fine in zip(params, fine, strict=True) if is_fine]

    @property
    def skipped_steps(self) -> int:
        """Number of steps skipped because a gradient was not finite, one for each parameter and step.

        On a CUDA device, reading it waits for the pending steps.
        """
        return self._skipped.count()

    # Groups and checkpoints ------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, checking its options as the constructor does; a misspelt option is refused.

        Other keys are the user's own, as in torch.optim.
        """
        for name in param_group.keys() - self.defaults.keys() - {"params", "param_names"}:
            meant = get_close_matches(name, self.defaults, 1, cutoff=0.8)
            if meant:
                raise OptionError(f"{type(self).__name__}: {name!r} is no option of a group. Is {meant[0]!r} meant?")
        plain_numbers(param_group)
        super().add_param_group(param_group)
        try:
            self._check(self.param_groups[-1])
        except OptionError:
            self.param_groups.pop()
            raise
        self.list_params()

    def list_params(self) -> None:
        """List the parameters of all groups for compilers."""
        self.params_of_groups = [group["params"] for group in self.param_groups]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._skipped = Skipped()
        if "_number" not in self.__dict__:  # kept when a checkpoint is loaded: compiled code refers to it
            self._number = number_of(self)
        for group in self.param_groups:  # options missing from a checkpoint
            for name, value in self.defaults.items():
                if name != "differentiable":  # PyTorch's own options, which only its constructors put into groups
                    group.setdefault(name, value)
        self.list_params()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state as torch.optim does, but keep the saved type of a state, such as a float32 sketch.

        An option missing from a checkpoint takes the value of this optimizer's constructor. Missing diagonal sums or
        momentum start anew.
        An incompatible checkpoint, for instance of another sketch size, is refused, and nothing is changed.
        """
        seen: list[dict[str, Any]] = []

        def check(_: Optimizer, given: dict[str, Any]) -> None:
            check_checkpoint(self, given)
            seen.append(given)

        handle = self.register_load_state_dict_pre_hook(check)  # after the user's hooks
        try:
            super().load_state_dict(state_dict)
        finally:
            handle.remove()
        keep_types(self, seen[-1])


class Skipped:
    """Counter of skipped steps, on the host and on the devices."""

    def __init__(self) -> None:
        self.here = 0
        self.warned = False
        self.there: dict[torch.device, tuple[Tensor, Tensor]] = {}
        """For each CUDA device: the counter there, and the host's copy of its last value."""

    def on(self, device: torch.device) -> Tensor:
        """Return the counter of a device, int32, that kernels increment; warn of new skips without synchronising."""
        if device not in self.there:
            count = torch.zeros(1, dtype=torch.int32, device=device)
            self.there[device] = (count, torch.zeros(1, dtype=torch.int32).pin_memory())
        count, heard = self.there[device]
        if not self.warned and int(heard) > 0:
            self._warn(device)
        return count

    def listen(self) -> None:
        """Request the counts of the devices; they arrive asynchronously."""
        for count, heard in () if self.warned else self.there.values():
            heard.copy_(count, non_blocking=True)

    def add(self, device: torch.device, count: int = 1) -> None:
        """Count skipped steps that the host detected."""
        self.here += count
        self._warn(device)

    def _warn(self, device: torch.device) -> None:
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"onsketch.torch: a gradient on {device} is not finite; its parameter skips the step. "
                "optimizer.skipped_steps counts them, error_if_nonfinite=True raises instead.",
                RuntimeWarning,
                stacklevel=4,
            )

    def count(self) -> int:
        """Return the total count."""
        return self.here + sum(int(count) for count, _ in self.there.values())


def _numbers(p: Tensor) -> Tensor:
    """Return the values of a gradient, or of its local part; it may be sparse."""
    assert p.grad is not None
    g = local(p.grad)
    g = g if g.layout == torch.strided else g._values()
    return torch.view_as_real(g.resolve_conj()) if g.is_complex() else g


def squarable(norms: Sequence[Tensor], kept: torch.dtype | None) -> Tensor:
    """Mark norms with a finite square, in their type or, if narrower, in ``kept``; float32 at least."""
    narrow = kept not in (None, torch.float64)
    wide = [x.to(torch.float32 if narrow else torch.promote_types(x.dtype, torch.float32)) for x in norms]
    return torch.isfinite(torch.stack(torch._foreach_mul(wide, wide)))


def finite(grads: Sequence[Tensor], kept: torch.dtype | None = None) -> list[bool]:
    """Mark gradients that are finite, squares included; synchronises with a device.

    >>> finite([torch.ones(3), torch.tensor([1.0, torch.nan]), torch.tensor([1e25])])
    [True, False, False]
    """
    found = [True] * len(grads)
    places: dict[torch.device, list[int]] = {}
    for i, g in enumerate(grads):
        places.setdefault(g.device, []).append(i)
    for mine in places.values():
        lengths = torch._foreach_norm([grads[i] for i in mine])
        for i, fine in zip(mine, squarable(lengths, kept).tolist(), strict=True):  # a sum of squares may overflow
            found[i] = fine or bool(squarable([torch.linalg.vector_norm(grads[i], torch.inf)], kept))
    return found
