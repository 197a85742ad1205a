"""Full-matrix AdaGrad by random projections: AdaGP and RadaGrad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

from torch import Tensor

from onsketch.torch import random_rows
from onsketch.torch.base import SketchedOptimizer
from onsketch.torch.options import ProjectionOptions
from onsketch.torch.plan import Layer
from onsketch.torch.rows import State


def ada_gp(grads: list[Tensor], states: list[State], **options: Unpack[ProjectionOptions]) -> list[Tensor]:
    """Return ``(δI + (SᵀS)^{1/2})⁻¹ g``, ``S = Σ r_t g_tᵀ`` with Gaussian r_t."""
    return random_rows.precondition(grads, states, fourier=False, **options)


def radagrad(grads: list[Tensor], states: list[State], **options: Unpack[ProjectionOptions]) -> list[Tensor]:
    """Return ``V(δI + Σ^{1/2})⁻¹Vᵀg + (g − VVᵀg)``, ``VΣUᵀ = Σ g(Πg)ᵀ``, Π a subsampled cosine transform."""
    return random_rows.precondition(grads, states, fourier=True, **options)


class RandomProjectionOptimizer(SketchedOptimizer):
    """Base class of the optimizers by random projection."""

    unconcerned = ()
    fourier: ClassVar[bool]

    def _empty(self, layer: Layer, group: Mapping[str, Any], like: Tensor) -> State:
        return random_rows.empty(layer.blocks, layer.width, group["sketch_size"], like)

    def _precondition(self, grads: list[Tensor], states: list[State], **settings: Any) -> list[Tensor]:
        return random_rows.precondition(grads, states, fourier=self.fourier, **settings)


class AdaGP(RandomProjectionOptimizer):
    """AdaGrad by Gaussian random projection of the gradients.

    Options: see :class:`SketchedOptimizer`. Cost for a layer of d numbers: reading about 1.25·m·d numbers twice, and
    an m×m eigendecomposition, batched over layers.

    Yuanyu Wan and Lijun Zhang: "Accelerating Adaptive Online Learning by Matrix Approximation", PAKDD 2018.
    """

    fourier = False


class RadaGrad(RandomProjectionOptimizer):
    """AdaGrad by a randomised low-rank factorisation; outside of it the step is a plain gradient step.

    Options: see :class:`SketchedOptimizer`. Cost as AdaGP's, and 4·m·d operations of its cosines.

    Gabriel Krummenacher, Brian McWilliams, Yannic Kilcher, Joachim Buhmann, Nicolai Meinshausen: "Scalable Adaptive
    Stochastic Optimization Using Random Projections", NIPS 2016.
    """

    fourier = True
    default_ridge = 1e-4

    def _without_sketch(self, group: dict[str, Any]) -> float:
        return 1.0
