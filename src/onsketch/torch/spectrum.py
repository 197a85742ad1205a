"""Small spectra: eigendecompositions batched over layers, and what a geometry makes of them.

Everything that is as small as a sketch is float64, whatever the weights are, so that an eigendecomposition has
nothing to be retried in. Nothing here looks at a value on the host when it lives on a CUDA device.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from onsketch.torch import kernels

Geometry = Literal["newton", "adagrad", "s-adagrad"]
GEOMETRIES: tuple[Geometry, ...] = get_args(Geometry)

LARGEST_FOR_JACOBI = 128
"""Rows up to which the Jacobi kernel is the faster one; AdaFull alone meets larger matrices."""


def absorptions(t: int, every: int) -> int:
    """How many gradients a sketch has taken in after step t, one in so many: what frees its average of its start.

    >>> [absorptions(t, 10) for t in (1, 2, 10, 11)]
    [1, 1, 1, 2]
    """
    return (t - 1) // every + 1


def cutoff(dtype: torch.dtype) -> float:
    """An energy below this share of the largest is rounding error, for rows of this type in their eigenbasis.

    A row that should vanish keeps a length of about eps times that of the longest, so that its energy is eps².
    """
    return max(1e-12, (8.0 * torch.finfo(dtype).eps) ** 2)


def gram_cutoff(dtype: torch.dtype) -> float:
    """The same for the eigenvalues of a Gram matrix added up from products of such rows, which err by eps."""
    return max(1e-12, 32.0 * torch.finfo(dtype).eps)


def eigh(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, (N, n), and eigenvectors as columns, (N, n, n), of symmetric float64 matrices.

    A decomposition that failed gives NaN and raises nothing: on a device, raising means waiting. Of a batch that
    failed each matrix is tried on its own, so that the others have their spectrum.

    >>> eigh(torch.tensor([[[2.0, 1.0], [1.0, 2.0]]], dtype=torch.float64))[0]
    tensor([[3., 1.]], dtype=torch.float64)
    """
    if matrices.is_cuda and matrices.shape[-1] <= LARGEST_FOR_JACOBI and kernels.available(matrices.device):
        return kernels.eigh(matrices)
    try:
        values, vectors = torch.linalg.eigh(matrices)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        if len(matrices) > 1:
            each = [eigh(matrix[None]) for matrix in matrices]
            return torch.cat([values for values, _ in each]), torch.cat([vectors for _, vectors in each])
        nan = torch.full_like(matrices, torch.nan)
        return nan[..., 0], nan
    return values.flip(-1), vectors.flip(-1)


def inverse_metric(geometry: Geometry, energy: Tensor, ridge: Tensor | float, escaped: Tensor) -> Tensor:
    """p(λ), the inverse of the metric in a direction of this energy (see onsketch.core.geometry).

    ``newton`` 1/(ridge + λ), ``adagrad`` 1/(ridge + √λ), ``s-adagrad`` 1/√(ridge + escaped + λ); 0 where the metric
    vanishes, as in a pseudo-inverse.
    """
    if geometry == "newton":
        metric = energy + ridge
    elif geometry == "adagrad":
        metric = energy.sqrt() + ridge
    else:
        metric = (energy + ridge + escaped).sqrt()
    return torch.where(metric > 0.0, metric.reciprocal(), 0.0)


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """``numerator/denominator``, 0 where the denominator is not positive."""
    return torch.where(denominator > 0.0, numerator / denominator, 0.0)
