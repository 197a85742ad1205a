"""Orthogonal directions of Sketchy: the whitened momentum after two of Newton and Schulz's steps.

``X (aI + b·XᵀX + c·(XᵀX)²)`` moves the singular values of X towards 1 (Muon). They start closer to each other because
the sketches have shrunk the largest, so that two such steps do as well as Muon's five.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from onsketch.torch import axes

QUINTIC = (3.4445, -4.7750, 2.0315)
LENGTH = 0.2
"""Root mean square of a step before the rate: that of Adam's steps, so that its rates carry over."""
LEAST = 1e-16
"""Least mean square by which an entry of the longer axis is divided."""
_TINY = 1e-30


def orthogonalise(M: Tensor, left: Tensor, right: Tensor, squares: Sequence[Tensor], decay: float) -> None:
    """Turn whitened matrices, (n, p, q), into directions, given W of both axes; updates ``squares`` of each matrix.

    All in place: Newton and Schulz's steps, half as much whitening once more, and equal mean squares along the longer
    axis (NorMuon), averaged with ``decay`` from step to step.
    """
    shorter = 1 if M.shape[1] <= M.shape[2] else 2
    M.div_(torch.linalg.vector_norm(M, dim=(1, 2), keepdim=True).clamp_(min=_TINY))
    sizes = M.new_empty(len(M), 1, 1)
    newton_schulz(M if shorter == 1 else M.mT, sizes)
    axes.whiten(M.mul_(sizes.rsqrt_()), axes.rooted(left), axes.rooted(right))
    for each, mean in zip(squares, M.square().mean(shorter), strict=True):
        each.lerp_(mean.to(each.dtype), 1.0 - decay)
    M.mul_(torch.stack(list(squares)).clamp_(min=LEAST).rsqrt_().unsqueeze(shorter))


def newton_schulz(X: Tensor, sizes: Tensor) -> None:
    """Move matrices of length 1, (n, p, q) with p ≤ q, towards their polar factors, times √sizes, in place.

    The polynomial wants singular values of at most 1. ``sizes``, ‖XXᵀ‖, (n, 1, 1), is a closer bound of the square of
    the largest one than 1 is. Only products of p×p are divided by it.
    """
    a, b, c = QUINTIC
    A = X @ X.mT
    torch.linalg.vector_norm(A, dim=(1, 2), keepdim=True, dtype=sizes.dtype, out=sizes).clamp_(min=_TINY)
    A.div_(sizes)
    Y = torch.baddbmm(X, torch.baddbmm(A, A, A, beta=b, alpha=c), X, beta=a)
    A = (Y @ Y.mT).div_(sizes)
    torch.baddbmm(Y, torch.baddbmm(A, A, A, beta=b, alpha=c), Y, beta=a, out=X)
