"""Full-matrix AdaGrad by frequent directions: AdaFD, AdaFFD and SAdaGrad.

All three approximate ``w ← w − lr·(δI + (Σ ggᵀ)^{1/2})⁻¹ g``, g the flattened gradient of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

from torch import Tensor

from onsketch.torch.base import SketchedOptimizer
from onsketch.torch.frequent_directions import Recipe, precondition
from onsketch.torch.options import SketchOptions
from onsketch.torch.plan import Layer
from onsketch.torch.rows import State


class FrequentDirectionsOptimizer(SketchedOptimizer):
    """Base class of the optimizers by frequent directions."""

    recipe: ClassVar[Recipe]

    def _empty(self, layer: Layer, group: Mapping[str, Any], like: Tensor) -> State:
        return self.recipe.empty(layer.blocks, layer.width, group["sketch_size"], like)

    def _precondition(self, grads: list[Tensor], states: list[State], **settings: Any) -> list[Tensor]:
        return precondition(grads, states, self.recipe, **settings)


ADA_FD = Recipe("adagrad", doubling=False)
ADA_FFD = Recipe("adagrad", doubling=True, counts_rank=True)
S_ADAGRAD = Recipe("s-adagrad", doubling=False)


def ada_fd(grads: list[Tensor], states: list[State], **options: Unpack[SketchOptions]) -> list[Tensor]:
    """Return ``(δI + (SᵀS)^{1/2})⁻¹ g``; S, the frequent directions of all gradients, is shrunk before the step."""
    return precondition(grads, states, ADA_FD, **options)


def ada_ffd(grads: list[Tensor], states: list[State], **options: Unpack[SketchOptions]) -> list[Tensor]:
    """Return ``(δI + (SᵀS)^{1/2})⁻¹ g`` with a sketch of up to 2m directions, shrunk after the step."""
    return precondition(grads, states, ADA_FFD, **options)


def s_adagrad(grads: list[Tensor], states: list[State], **options: Unpack[SketchOptions]) -> list[Tensor]:
    """Return ``((δ + Σρ)I + SᵀS)^{-1/2} g``; Σρ is the mass removed by shrinks."""
    return precondition(grads, states, S_ADAGRAD, **options)


class AdaFD(FrequentDirectionsOptimizer):
    """AdaGrad by frequent directions: m rows, every row from the m-th on shrinks, and the shrunk sketch makes the step.

    Options: see :class:`SketchedOptimizer`. Cost for a layer of d numbers: reading about 1.25·m·d numbers twice, and
    an m×m eigendecomposition, batched over layers.

    Yuanyu Wan and Lijun Zhang: "Efficient Adaptive Online Learning via Frequent Directions", IEEE TPAMI 2021.

    >>> import torch
    >>> from onsketch.torch import AdaFD
    >>> w = torch.zeros(3, requires_grad=True)
    >>> optimizer = AdaFD.paper([w], lr=1.0, ridge=1e-3)
    >>> for _ in range(50):
    ...     optimizer.zero_grad()
    ...     loss = ((w - torch.tensor([1.0, -2.0, 3.0])) ** 2).sum()
    ...     loss.backward()
    ...     optimizer.step()
    >>> w.detach().round()
    tensor([ 1., -2.,  3.])
    """

    recipe = ADA_FD


class AdaFFD(FrequentDirectionsOptimizer):
    """AdaGrad by fast frequent directions: up to 2m directions, shrunk to m − 1 after the step that fills them.

    With 2m > d it is full-matrix AdaGrad. It counts rank, as the paper does: a gradient that depends linearly on the
    rows of the sketch does not use a row.

    Options: see :class:`SketchedOptimizer`. Cost for a layer of d numbers: reading about 1.5·m·d numbers twice, and
    an eigendecomposition of up to 2m×2m, batched over layers.

    Yuanyu Wan and Lijun Zhang: "Efficient Adaptive Online Learning via Frequent Directions", IEEE TPAMI 2021,
    algorithm 4.
    """

    recipe = ADA_FFD
    default_ridge = 1e-3


class SAdaGrad(FrequentDirectionsOptimizer):
    """AdaGrad by frequent directions with the ridge and the escaped mass inside the root, which spares tuning δ.

    Options: see :class:`SketchedOptimizer`; the ridge has the unit of a squared gradient here. Cost as AdaFD's.

    Vladimir Feinberg, Xinyi Chen, Y. Jennifer Sun, Rohan Anil, Elad Hazan: "Sketchy: memory-efficient adaptive
    regularization with frequent directions", NeurIPS 2023.
    """

    recipe = S_ADAGRAD
    default_ridge = 1e-4

    def _without_sketch(self, group: dict[str, Any]) -> float:
        return float(group["ridge"] ** -0.5)
