"""Large part of a sketch, and the two passes over it in each step.

A parameter of d numbers, cut into blocks of b (one block of d unless ``block_size`` says otherwise), keeps for
every block a few rows R of b numbers. The sketch itself is ``S = T R`` with a small float64 matrix T: rotating a
sketch, shrinking it, and adding rows up with random weights change T alone. New gradients are appended to R. Only when
R has no free row left is it rotated itself, ``R ← T R``. So a step costs one product ``R g``, one
``Rᵀ a``, and matrices as small as the sketch, which are batched over all layers in step with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from onsketch.torch.spectrum import absorptions

State = dict[str, Any]
"""State of one parameter. Large: ``rows`` (B, slots, b). Small, float64: see the module of each sketch.
``counts`` (B, 2), int64, on the host: the number of filled slots and of rows in the sketch."""

_SLAB_BYTES = 64 << 20
"""Working memory of a rotation."""


class Round(NamedTuple):
    """Arguments of a step."""

    ridge: float
    decay: float
    absorb: bool
    """True to absorb the gradient."""
    size: int = 0
    every: int = 1
    """Interval: one gradient in ``every`` is absorbed."""
    seed: int = 0
    t: int = 0
    """Steps the parameters have taken, including this one."""

    @property
    def weight(self) -> float:
        """Weight of the new gradient in the sum or average."""
        return 1.0 if self.decay == 1.0 else 1.0 - self.decay

    @property
    def freed(self) -> float:
        """Factor that corrects the bias of an average started at zero."""
        return 1.0 if self.decay == 1.0 else 1.0 / (1.0 - self.decay ** absorptions(self.t, self.every))


Step = Callable[[list[Tensor], list[State], Round], list[Tensor]]


def lockstep(
    grads: Sequence[Tensor],
    states: Sequence[State],
    steps: Sequence[int],
    shape: Callable[[State], tuple[int, ...]],
    settings: Round,
    step: Step,
) -> list[Tensor]:
    """Apply ``step`` to all states with equal ``shape`` and count together, with their small matrices stacked."""
    groups: dict[Any, list[int]] = {}
    for i, (state, t) in enumerate(zip(states, steps, strict=True)):
        groups.setdefault((t, state["rows"].device, state["rows"].dtype, shape(state)), []).append(i)
    updates = list(grads)
    for (t, *_), group in groups.items():
        stepped = step([grads[i] for i in group], [states[i] for i in group], settings._replace(t=t))
        for i, update in zip(group, stepped, strict=True):
            updates[i] = update
    return updates


def place(states: Sequence[State], slot: int, grads: Sequence[Tensor]) -> None:
    """Write each gradient, (B, b), into this row of R."""
    torch._foreach_copy_([state["rows"].select(1, slot) for state in states], list(grads))


def products(states: Sequence[State], filled: int, grads: Sequence[Tensor]) -> Tensor:
    """Return ``R g`` for the filled rows, float64, (N, filled); N counts all blocks of all states."""
    parts = []
    for state, g in zip(states, grads, strict=True):
        rows = computable(state["rows"].narrow(1, 0, filled))
        g = g.to(rows.dtype)
        if g.shape[0] == 1:
            parts.append(torch.mv(rows.squeeze(0), g.view(-1)))
        else:
            parts.append(torch.bmm(rows, g.unsqueeze(2)).view(-1))
    return torch.cat(parts).view(-1, filled).double()


def combinations(states: Sequence[State], coefficients: Tensor) -> list[Tensor]:
    """Return ``Rᵀ a`` for coefficients a of the first rows, (N, filled); one (B, b) for each state."""
    updates = []
    coefficients = coefficients.to(computable(states[0]["rows"][:0]).dtype)
    for state, a in zip(states, split(states, coefficients), strict=True):
        rows = computable(state["rows"].narrow(1, 0, a.shape[1]))
        if a.shape[0] == 1:
            updates.append(torch.mv(rows.squeeze(0).t(), a.view(-1)).unsqueeze(0))
        else:
            updates.append(torch.bmm(a.unsqueeze(1), rows).squeeze(1))
    return updates


def rotate(states: Sequence[State], transforms: Tensor) -> None:
    """Apply ``R ← T R`` for T (N, kept, filled); the other rows stay, to be overwritten."""
    kept, filled = transforms.shape[1:]
    for state, T in zip(states, split(states, transforms), strict=True):
        rows = state["rows"]
        width = rows.shape[2]
        stride = max(1, _SLAB_BYTES // (rows.element_size() * max(1, kept * len(rows))))
        for start in range(0, width, stride):
            slab = computable(rows[:, :filled, start : start + stride])
            rows[:, :kept, start : start + stride] = torch.bmm(T.to(slab.dtype), slab)


def gram(states: Sequence[State], filled: int) -> Tensor:
    """Return ``R Rᵀ`` of the first rows, float64, (N, filled, filled).

    A block where it is not finite has rows too large for their type: it restarts from zeros.
    """
    parts = []
    for state in states:
        rows = computable(state["rows"][:, :filled])
        parts.append(torch.bmm(rows, rows.mT).double())
    whole = torch.cat(parts)
    if not bool(torch.isfinite(whole).all()):
        broken = ~torch.isfinite(whole).flatten(1).all(1)
        whole[broken] = 0.0
        for state, its in zip(states, split(states, broken), strict=True):
            state["rows"][its] = 0.0
    return whole


def computable(rows: Tensor) -> Tensor:
    """Return the rows in a type with enough precision for products: half-precision storage computes in float32."""
    return rows if rows.dtype in (torch.float32, torch.float64) else rows.float()


def stack(states: Sequence[State], name: str, *index: slice) -> Tensor:
    """Stack the small arrays of this name, (N, …), cut to these slices."""
    stacked = torch.cat([state[name] for state in states])
    return stacked[(slice(None), *index)] if index else stacked


def split(states: Sequence[State], stacked: Tensor) -> tuple[Tensor, ...]:
    """Invert :func:`stack`."""
    return torch.split_with_sizes(stacked, [state["rows"].shape[0] for state in states])


def store(states: Sequence[State], name: str, stacked: Tensor) -> None:
    """Write stacked small arrays back, into the leading corner of each; the rest becomes zero."""
    whole = [state[name] for state in states]
    missing = [most - size for most, size in zip(whole[0].shape[1:], stacked.shape[1:], strict=True)]
    if any(missing):  # one launch here saves a view of each
        padding = [number for size in reversed(missing) for number in (0, size)]
        stacked = torch.nn.functional.pad(stacked, padding)
    torch._foreach_copy_(whole, list(split(states, stacked)))


def counts(state: State) -> tuple[int, int]:
    """Return the number of filled slots and of rows in the sketch, of the block with most.

    A block with fewer has zeros in T at these slots, and energies of zero.
    """
    found: Tensor = state["counts"]
    filled, held = (found[0] if found.is_cpu and len(found) == 1 else found.view(-1, 2).amax(0)).tolist()
    return filled, held


def set_counts(states: Sequence[State], filled: int, held: int) -> None:
    """Store the number of filled slots and of rows in the sketch, on the host."""
    pair = torch.tensor([[filled, held]])
    for state in states:  # each has its own: a distributed checkpoint writes into them
        if state["counts"].is_cpu:
            state["counts"].copy_(pair)
        else:
            state["counts"] = pair.repeat(len(state["rows"]), 1)
