"""Orthogonal directions of Sketchy: the whitened momentum after a few of Newton and Schulz's steps.

``X (aI + b·XᵀX + c·(XᵀX)²)`` moves the singular values of X towards 1 (Muon). They start closer to each other because
the sketches have shrunk the largest, so that two such steps do as well as Muon's five.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from onsketch.torch import axes

QUINTIC = (3.4445, -4.7750, 2.0315)
STEPS = 2
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
    newton_schulz(M if shorter == 1 else M.mT)
    axes.whiten(M, axes.rooted(left), axes.rooted(right))
    for each, mean in zip(squares, M.square().mean(shorter), strict=True):
        each.lerp_(mean.to(each.dtype), 1.0 - decay)
    M.mul_(torch.stack(list(squares)).clamp_(min=LEAST).rsqrt_().unsqueeze(shorter))


def newton_schulz(X: Tensor) -> None:
    """Move matrices, (n, p, q) with p ≤ q, towards their polar factors, in place; float32 on a device in bfloat16."""
    kind = torch.bfloat16 if X.is_cuda and X.dtype == torch.float32 else X.dtype
    a, b, c = QUINTIC
    Y = X.div_(torch.linalg.vector_norm(X, dim=(1, 2), keepdim=True).clamp_(min=_TINY)).to(kind)
    for step in range(STEPS):
        A = Y @ Y.mT
        if step == 0:  # a closer bound of the largest singular value than the norm of Y
            size = torch.linalg.vector_norm(A, dim=(1, 2), keepdim=True, dtype=X.dtype).clamp_(min=_TINY)
            Y.mul_(size.rsqrt())
            A.div_(size)
        Y = torch.baddbmm(Y, torch.baddbmm(A, A, A, beta=b, alpha=c), Y, beta=a)
    X.copy_(Y)
