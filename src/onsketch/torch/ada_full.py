"""Full-matrix AdaGrad itself, for small layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from onsketch.torch import exact
from onsketch.torch.base import SketchedOptimizer
from onsketch.torch.options import StepOptions
from onsketch.torch.plan import Layer
from onsketch.torch.rows import State


def ada_full(grads: list[Tensor], states: list[State], **options: Unpack[StepOptions]) -> list[Tensor]:
    """Return ``(δI + (Σ ggᵀ)^{1/2})⁻¹ g``."""
    return exact.precondition(grads, states, **options)


class AdaFull(SketchedOptimizer):
    """Full-matrix AdaGrad: d² numbers and O(d³) work a step for a layer (or block) of d numbers.

    The reference for the sketches on small layers. Layers above ``diagonal_above`` (2,048 here) fall back to the
    diagonal. Other options: see :class:`SketchedOptimizer`; ``sketch_size`` has no effect. On a CUDA device every
    sketched layer synchronises with the host.

    John Duchi, Elad Hazan, Yoram Singer: "Adaptive subgradient methods for online learning and stochastic
    optimization", JMLR 2011.
    """

    unconcerned = ("seed", "sketch_size")

    def __init__(self, params: ParamsT, lr: float | Tensor = 3e-3, *args: Any, **options: Any) -> None:
        super().__init__(params, lr, *args, **{"diagonal_above": 2048, **options})

    def _empty(self, layer: Layer, group: Mapping[str, Any], like: Tensor) -> State:
        return {"matrix": like.new_zeros(layer.blocks, layer.width, layer.width, dtype=torch.float64)}

    def _precondition(self, grads: list[Tensor], states: list[State], **settings: Any) -> list[Tensor]:
        return exact.precondition(grads, states, **settings)
