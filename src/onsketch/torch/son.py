"""Sketched online Newton for networks: FDSON and RFDSON.

``w ← w − lr·(αI + SᵀS)⁻¹ g`` with S the frequent directions of the flattened gradients of a layer.
"""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from onsketch.torch.ada_fd import FrequentDirectionsOptimizer
from onsketch.torch.frequent_directions import Recipe, precondition
from onsketch.torch.options import SketchOptions
from onsketch.torch.rows import State

FD_SON = Recipe("newton", doubling=True)
RFD_SON = Recipe("newton", doubling=True, robust=True)


def fd_son(grads: list[Tensor], states: list[State], **options: Unpack[SketchOptions]) -> list[Tensor]:
    """Return ``(αI + SᵀS)⁻¹ g``; S are the fast frequent directions of the gradients up to this one."""
    return precondition(grads, states, FD_SON, **options)


def rfd_son(grads: list[Tensor], states: list[State], **options: Unpack[SketchOptions]) -> list[Tensor]:
    """Return ``((α + Σρ/2)I + SᵀS)⁻¹ g``."""
    return precondition(grads, states, RFD_SON, **options)


class FDSON(FrequentDirectionsOptimizer):
    """Online Newton by fast frequent directions: 2m rows, shrunk to m − 1 by the row that fills them.

    The gradients enter with weight 1 (σ = 1 in the paper); ``lr`` and ``ridge`` replace other weights.

    Options: see :class:`SketchedOptimizer`. Cost for a layer of d numbers: reading about 1.5·m·d numbers twice, and
    an eigendecomposition of up to 2m×2m, batched over layers.

    Haipeng Luo, Alekh Agarwal, Nicolò Cesa-Bianchi, John Langford: "Efficient Second Order Online Learning by
    Sketching", NIPS 2016.
    """

    recipe = FD_SON
    scale_free_ridge = 10.0


class RFDSON(FrequentDirectionsOptimizer):
    """Online Newton by robust frequent directions: as FDSON, plus half of the shrunk mass in the ridge.

    ``ridge=0`` is the parameter-free RFD₀: until something has escaped, steps stay in the span of the gradients.

    Luo Luo, Cheng Chen, Zhihua Zhang, Wu-Jun Li, Tong Zhang: "Robust Frequent Directions with Application in Online
    Learning", JMLR 2019.
    """

    recipe = RFD_SON
    scale_free_ridge = 10.0
    default_ridge = 1e-3
    least_ridge_is_zero = True
