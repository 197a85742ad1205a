"""RadaGrad's map Π: a few rows of the orthonormal cosine transform of a gradient with its signs changed.

Row k of the transform has ``cos(π(2e + 1)k/2d)`` at number e. Written into a rectangle, e = s·a + b, the angle of a
number is one that depends on a plus one that depends on b. So the sums over a are a product with a small table of
cosines and sines, which all columns share, and the angles of b come in at the end: 4md operations for m rows. That is
about what a fast transform of all d takes, but in one matrix product. The kernel of the same name does the same.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from onsketch.torch.draws import fourier_sample
from onsketch.torch.kernels import stream_of


def project(g: Tensor, size: int, seed: int) -> Tensor:
    """``Πg`` of each block, (B, size), ``Π = √(d/τ)``·(τ sampled rows)·(orthonormal DCT-II)·diag(signs).

    τ is ``size``, or d where that is smaller; the rest is zero.
    """
    width = g.shape[1]
    _, signs = fourier_sample(seed, size, width, g.device)
    along, across = _tables(seed, size, width, g.device, stream_of(g.device))
    square = torch.nn.functional.pad(g.double() * signs, (0, len(along) * len(across) - width))
    square = square.view(len(g), len(along), len(across))
    rows = across.shape[1] // 2
    sums = (square.mT @ along) * across
    return torch.nn.functional.pad((sums[..., :rows] - sums[..., rows:]).sum(1), (0, size - rows))


@lru_cache(maxsize=256)
def _tables(seed: int, size: int, width: int, device: torch.device, stream: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines, side by side, of the angles of a, (A, 2τ), and of b, scaled, (s, 2τ); s² is about d."""
    chosen = fourier_sample(seed, size, width, device)[0]
    side = 1 << (max(1, width - 1).bit_length() + 1) // 2
    scale = torch.where(chosen == 0, 1.0, 2.0).double().div_(len(chosen)).sqrt_()
    along = _directions(2 * side * torch.arange(-(-width // side), device=device), chosen, width)
    across = _directions(2 * torch.arange(side, device=device) + 1, chosen, width)
    return along, across * scale.repeat(2)


def _directions(steps: Tensor, chosen: Tensor, width: int) -> Tensor:
    """Return cosines and sines of these half steps per row; full periods (4d) are removed in integer arithmetic."""
    angles = (steps[:, None] * chosen % (4 * width)).double() * (torch.pi / (2 * width))
    return torch.cat([angles.cos(), angles.sin()], 1)
