"""Random numbers of onsketch.core.draws, in NumPy alone: the optimizers import neither Numba nor SciPy.

A draw depends on ``(seed, kind, index, k)`` and nothing else. All layers and blocks share the draws of a round:
each is sketched on its own, so that nothing is gained by drawing twice.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onsketch.core.quantile import quantile
from onsketch.torch.kernels import stream_of

_ROUND, _COIN = 1, 3
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_CHUNK = 256
"""Rounds whose vectors are drawn, and copied to the device, at once."""


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed: int, kind: int, index: Any, k: Any) -> NDArray[np.float64]:
    """Return the k-th uniform number in (0, 1) of each key; ``index`` and ``k`` may be arrays."""
    index, k = np.asarray(index, dtype=np.uint64), np.asarray(k, dtype=np.uint64)
    with np.errstate(over="ignore"):  # SplitMix64 counts modulo 2⁶⁴
        z = _mix(np.asarray(seed, dtype=np.uint64) + _GOLDEN)
        z = _mix(z ^ (np.uint64(kind) * _GOLDEN))
        z = _mix(z + index * _GOLDEN)
        z = _mix(z + (k + np.uint64(1)) * _GOLDEN)
    return np.asarray(((z >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)


def round_vectors(seed: int, rounds: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Return the random-projection vectors of these rounds, (rounds, size): Gaussian of variance 1/size."""
    return np.asarray(quantile(uniform(seed, _ROUND, rounds[:, np.newaxis], np.arange(size))) / np.sqrt(size))


@lru_cache(maxsize=16)
def _chunk(seed: int, number: int, size: int, device: torch.device, stream: int) -> Tensor:
    rounds = np.arange(number * _CHUNK, (number + 1) * _CHUNK)
    # Pageable memory is staged before the call returns, so the copy needs no synchronisation.
    return torch.from_numpy(round_vectors(seed, rounds, size)).to(device, non_blocking=True)


def round_vector(seed: int, t: int, size: int, device: torch.device) -> Tensor:
    """Return the random-projection vector of round t (from 1), float64."""
    return _chunk(seed, t // _CHUNK, size, device, stream_of(device))[t % _CHUNK]


def fourier_sample(seed: int, size: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return RadaGrad's map: the sampled rows of the cosine transform, ascending, int64, and the signs, int8."""
    return _fourier_sample(seed, size, width, device, stream_of(device))


@lru_cache(maxsize=256)
def _fourier_sample(seed: int, size: int, width: int, device: torch.device, stream: int) -> tuple[Tensor, Tensor]:
    coordinates = np.arange(width)
    signs = np.where(uniform(seed, _COIN, coordinates, 0) < 0.5, 1.0, -1.0)
    rows = np.sort(np.argsort(uniform(seed, _COIN, coordinates, 1))[:size])
    return (
        torch.from_numpy(rows).to(device, non_blocking=True),
        torch.from_numpy(signs.astype(np.int8)).to(device, non_blocking=True),
    )
