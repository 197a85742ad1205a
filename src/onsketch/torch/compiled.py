"""A step as one operation of PyTorch's, which ``torch.compile`` keeps whole: no break in its graph, and none inside.

A step depends on counts, addresses and schedules, which a graph would treat as constants. So the graph has one node. It
gets the weights that it changes and their gradients, and takes the step as in eager mode. If a compiler passes copies
of the weights and copies them back, the copies are stepped.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import torch
from torch import Tensor

if TYPE_CHECKING:
    from onsketch.torch.checked import CheckedOptimizer

_numbers = count()
_known: WeakValueDictionary[int, CheckedOptimizer] = WeakValueDictionary()

# a CUDA graph must not replay it, unless the user captures the step
_unsafe = getattr(torch.Tag, "cudagraph_unsafe", None)
torch.library.define(
    "onsketch::step",
    "(int number, Tensor(a!)[] weights, Tensor[] grads) -> ()",
    tags=() if _unsafe is None else (_unsafe,),
)


def number_of(optimizer: CheckedOptimizer) -> int:
    """Return a number that identifies an optimizer for the operation while it exists."""
    number = next(_numbers)
    _known[number] = optimizer
    return number


@torch.library.impl("onsketch::step", "CompositeExplicitAutograd")
def _step(number: int, weights: list[Tensor], grads: list[Tensor]) -> None:
    optimizer = _known[number]
    params = [p for some in optimizer.params_of_groups for p in some if p.grad is not None]
    before = [(p, p.data, p.grad) for p in params]
    try:
        for p, weight, g in zip(params, weights, grads, strict=True):
            if p is not weight:
                p.data = weight.detach()
            p.grad = g
        with torch.no_grad():
            optimizer.take_steps()
    finally:
        for p, data, own in before:
            if p.data.data_ptr() != data.data_ptr():
                p.data = data
            p.grad = own
        optimizer.list_params()  # after a group gets another list, the next step is recompiled


@torch.library.register_fake("onsketch::step")
def _nothing(number: int, weights: list[Tensor], grads: list[Tensor]) -> None:
    return None
