"""Small spectra: eigendecompositions batched over layers, and the metric of each geometry.

Arrays as small as a sketch are float64, whatever the type of the weights. So no eigendecomposition needs a retry in
higher precision. Nothing here reads a CUDA value on the host.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from onsketch.torch import kernels

Geometry = Literal["newton", "adagrad", "s-adagrad"]

LARGEST_FOR_JACOBI = 128
"""Rows up to which the Jacobi kernel is the faster one; only AdaFull has larger matrices."""


def absorptions(t: int, every: int) -> int:
    """Return the number of gradients absorbed after step t, one in ``every``; it corrects the bias of the average.

    >>> [absorptions(t, 10) for t in (1, 2, 10, 11)]
    [1, 1, 1, 2]
    """
    return (t - 1) // every + 1


def cutoff(dtype: torch.dtype) -> float:
    """Return the relative energy below which a direction is rounding error, for rows of this type in their eigenbasis.

    A row that should vanish keeps a length of about eps times that of the longest, so that its energy is eps².
    """
    return max(1e-12, (8.0 * torch.finfo(dtype).eps) ** 2)


def gram_cutoff(dtype: torch.dtype) -> float:
    """Return :func:`cutoff` for eigenvalues of a Gram matrix summed from products of such rows, whose error is eps."""
    return max(1e-12, 32.0 * torch.finfo(dtype).eps)


def eigh(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, descending, (N, n), and eigenvectors as columns, (N, n, n), of symmetric float64 matrices.

    A failed decomposition gives NaN and raises nothing: on a device, raising needs synchronisation. The matrices of a
    failed batch are decomposed one by one, so that the others get their spectrum.

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
    """Return p(λ), the inverse of the metric in a direction of this energy (see onsketch.core.geometry).

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
    """Return ``numerator/denominator``, 0 where the denominator is not positive."""
    return torch.where(denominator > 0.0, numerator / denominator, 0.0)
