"""A step as one operation of PyTorch's, which ``torch.compile`` keeps whole: no break in its graph, and none inside.

A step is decided by counts, addresses and what is due, which a graph would take for constants. So the graph has one
node, which is told the weights that it changes and their gradients, and takes the step as it is taken outside. Where a
compiler hands over copies of the weights and copies them back, these are what is stepped.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import torch
from torch import Tensor

if TYPE_CHECKING:
    from onsketch.torch.careful import CarefulOptimizer

_numbers = count()
_known: WeakValueDictionary[int, CarefulOptimizer] = WeakValueDictionary()

# what it does must not be replayed: a graph of the device's is made of it only where the user asks for that
_unsafe = getattr(torch.Tag, "cudagraph_unsafe", None)
torch.library.define(
    "onsketch::step",
    "(int number, Tensor(a!)[] weights, Tensor[] grads) -> ()",
    tags=() if _unsafe is None else (_unsafe,),
)


def number_of(optimizer: CarefulOptimizer) -> int:
    """A number by which the operation finds an optimizer, as long as there is one."""
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
        optimizer.list_params()  # where a group got another list, the next step is compiled for it


@torch.library.register_fake("onsketch::step")
def _nothing(number: int, weights: list[Tensor], grads: list[Tensor]) -> None:
    return None
