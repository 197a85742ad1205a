"""What the tests of the PyTorch optimizers share; needs PyTorch and NumPy alone, so that it runs on any machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onsketch import torch as sketched

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
NAMES = {
    "AdaFD": "ada-fd",
    "AdaFFD": "ada-ffd",
    "SAdaGrad": "s-adagrad",
    "AdaGP": "ada-gp",
    "RadaGrad": "radagrad",
    "FDSON": "fd-son",
    "RFDSON": "rfd-son",
    "AdaFull": "ada-full",
}
"""Every optimizer, and the linear learner of the same method."""


def make(name: str, params: Any, **options: Any) -> sketched.SketchedOptimizer:
    """An optimizer by name, in the papers' form unless ``scale_free``."""
    if name == "AdaFull":
        options.pop("sketch_size", None)
    made: type[sketched.SketchedOptimizer] = getattr(sketched, name)
    return made(params, **options) if options.pop("scale_free", False) else made.paper(params, **options)


def regression(n: int = 150, d: int = 24, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows of length about 1 with a falling spectrum, in general position, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(1.0, 0.1, d)
    X /= np.sqrt((X**2).sum(1).mean())
    return X, X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)


def linear_iterates(
    name: str,
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    device: str,
    dtype: torch.dtype = torch.float64,
    **options: Any,
) -> NDArray[np.float64]:
    """The weights of a linear model after each row, squared loss (z − y)²."""
    w = torch.zeros(X.shape[1], dtype=dtype, device=device, requires_grad=True)
    optimizer = make(name, [w], **options)
    rows, targets = torch.tensor(X, dtype=dtype, device=device), torch.tensor(y, dtype=dtype, device=device)
    iterates = []
    for x, target in zip(rows, targets, strict=True):
        optimizer.zero_grad()
        ((w @ x - target) ** 2).backward()
        optimizer.step()
        iterates.append(w.detach().double().cpu().numpy().copy())
    return np.array(iterates)


def steps(optimizer: torch.optim.Optimizer, params: list[Tensor], gradients: list[list[Tensor]]) -> None:
    """One step for each list of gradients."""
    for grads in gradients:
        for p, g in zip(params, grads, strict=True):
            p.grad = g.to(p.device, p.dtype).view_as(p).clone()
        optimizer.step()


def stream(
    shapes: list[tuple[int, ...]], count: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> list[list[Tensor]]:
    """Random gradients of a falling spectrum, for parameters of these shapes."""
    generator = torch.Generator().manual_seed(seed)
    gradients = []
    for _ in range(count):
        step = []
        for shape in shapes:
            size = int(np.prod(shape))
            scale = torch.logspace(0.0, -1.0, max(1, size), dtype=torch.float64)
            step.append((torch.randn(size, generator=generator, dtype=torch.float64) * scale).view(shape).to(dtype))
        gradients.append(step)
    return gradients


def start(shapes: list[tuple[int, ...]], device: str, dtype: torch.dtype, seed: int = 1) -> list[Tensor]:
    """Random parameters."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(device, dtype).requires_grad_() for shape in shapes]


def inverse_root(matrix: Tensor, ridge: float, geometry: str, escaped: float = 0.0) -> Tensor:
    """P as it is defined: the inverse of a scalar function of a d×d matrix."""
    values, vectors = torch.linalg.eigh(matrix)
    values = torch.where(values > 1e-12 * values[-1], values, 0.0)
    metric = {
        "newton": ridge + values,
        "adagrad": ridge + values.sqrt(),
        "s-adagrad": (ridge + escaped + values).sqrt(),
    }[geometry]
    return (vectors / metric) @ vectors.mT
