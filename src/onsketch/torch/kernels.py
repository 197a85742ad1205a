"""CUDA kernels of folder ``cuda``, compiled at their first use by NVRTC, which comes with PyTorch.

A step is bound by launches, not by arithmetic: with a few launches for each layer, the host is slower than the
device by far. The kernels here process all layers of a network at once, and none of them synchronises with the host.
If they are unavailable (no NVRTC), PyTorch's own operations replace them, after a warning that gives the reason.
"""

from __future__ import annotations

import ctypes
import warnings
from functools import cache
from importlib import resources
from typing import Any

import torch
from torch import Tensor

from onsketch.torch import nvrtc

THREADS = 256
CHUNK = 4096
"""Columns that one thread block processes."""
SHARED_BYTES = 32 * 1024
"""Shared memory of a block for arrays sized at launch."""
RANKS = 64
"""Largest rank of an axis that the kernels of Sketchy apply; they refresh up to half as many."""
SWEEPS = 30
"""Largest number of Jacobi sweeps; convergence is quadratic, and 6 to 10 are usual."""

_SHARED = {
    "eigh": ("jacobi",),
    "inspect": ("layers",),
    "moments": ("layers", "numbers"),
    "descend": ("layers", "numbers"),
    "turn_left": ("layers", "products"),
    "turn_right": ("layers", "products"),
    "energies": ("layers",),
    "normalise": ("layers", "sides"),
    "across": ("layers", "products"),
    "down": ("layers", "products"),
    "grams": ("sides",),
    "shrink": ("sides", "numbers", "jacobi"),
    "redirect": ("sides",),
    "batch": ("layers",),
    "gains": ("layers",),
    "spans": ("layers", "numbers"),
}
"""Sources that a kernel is compiled with."""


def source(kernel: str) -> str:
    """Return the program text of a kernel."""
    constants = {
        "THREADS": THREADS,
        "CHUNK": CHUNK,
        "RANKS": RANKS,
        "SHARED_BYTES": SHARED_BYTES,
        "SWEEPS": SWEEPS,
    }
    folder = resources.files("onsketch.torch") / "cuda"
    names = [*_SHARED[kernel], kernel]
    parts = [(folder / f"{name}.cu").read_text("utf-8") for name in names]
    return "\n".join([*(f"#define {name} {value}" for name, value in constants.items()), *parts])


class Kernel:
    """A compiled kernel of one device."""

    def __init__(self, function: ctypes.c_void_p) -> None:
        self.function = function
        self.launch = nvrtc.driver().cuLaunchKernel

    def __call__(self, device: int, blocks: int, threads: int, args: list[Any], shared: int) -> None:
        """Launch the kernel; Tensors are passed by address, whole numbers as int, others as double."""
        held = [
            ctypes.c_void_p(arg.data_ptr())
            if isinstance(arg, Tensor)
            else ctypes.c_double(arg)
            if isinstance(arg, float)
            else ctypes.c_int(arg)
            for arg in args
        ]
        addresses = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
        stream = ctypes.c_void_p(torch._C._cuda_getCurrentRawStream(device))
        failed = self.launch(self.function, blocks, 1, 1, threads, 1, 1, shared, stream, addresses, None)
        if failed:
            raise RuntimeError(f"A kernel could not be launched: CUDA error {failed}.")


@cache
def compiled(kernel: str, device: int) -> Kernel:
    """Return the kernel compiled for this device."""
    with torch.cuda.device(device):
        return Kernel(nvrtc.function(source(kernel), kernel, torch.cuda.get_device_capability(device)))


def stream_of(device: torch.device) -> int:
    """Return the current stream of a device.

    Arrays cached on a device are cached per stream: another stream might use one before it arrives, or after it is
    released.
    """
    return torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0


def launch(kernel: str, blocks: int, threads: int, args: list[Any], shared: int = 0) -> None:
    """Launch a kernel on the current stream of the device of its first argument, which is a Tensor."""
    device = args[0].device.index
    if device == torch.cuda.current_device():
        compiled(kernel, device)(device, blocks, threads, args, shared)
        return
    with torch.cuda.device(device):
        compiled(kernel, device)(device, blocks, threads, args, shared)


STEP = (
    *("inspect", "moments", "turn_left", "turn_right", "batch", "gains", "spans", "descend"),
    *("energies", "normalise", "across", "down", "grams", "shrink", "redirect"),
)
"""Kernels of Sketchy."""


@cache
def ready(device: torch.device) -> bool:
    """Return True if the kernels of Sketchy are available; the first call compiles them, which takes a few seconds."""
    if not available(device):
        return False
    index = torch.cuda.current_device() if device.index is None else device.index
    try:
        for kernel in STEP:
            compiled(kernel, index)
    except Exception as error:  # whatever the reason, PyTorch's operations replace them
        _say(error)
        return False
    return True


@cache
def available(device: torch.device) -> bool:
    """Return True if kernels are available on this device: one is compiled and tested."""
    if device.type != "cuda" or torch.version.hip:
        return False
    try:
        probe = torch.tensor([[[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 2.0]], [[torch.nan] * 3] * 3])
        values, _ = eigh(probe.double().to(device))
        expected = torch.tensor([[3.0, 2.0, 1.0], [torch.nan] * 3]).double()
        if not torch.allclose(values.cpu(), expected, equal_nan=True):
            raise RuntimeError("a kernel gave wrong numbers")
    except Exception as error:
        _say(error)
        return False
    return True


_said: set[str] = set()


def _say(error: Exception) -> None:
    """Warn once that there are no kernels, with the reason."""
    reason = f"{type(error).__name__}: {error}"
    if reason not in _said:
        _said.add(reason)
        warnings.warn(
            f"onsketch.torch: its CUDA kernels could not be compiled, steps will be slower and wait ({reason}).",
            RuntimeWarning,
            stacklevel=3,
        )


def eigh(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, descending, (N, n), and eigenvectors as columns, (N, n, n), of float64 CUDA arrays, n ≤ 512.

    ``torch.linalg.eigh`` synchronises with the device in every step to check convergence, and its batched form is fast
    only up to 32 rows. Here one thread block diagonalises each matrix by Jacobi rotations. A matrix that is not finite
    gives NaN.
    """
    count, n = matrices.shape[:2]
    work = matrices.clone(memory_format=torch.contiguous_format)
    turn, vectors = torch.empty_like(work), torch.empty_like(work)
    values = work.new_empty(count, n)
    if n and count:
        args = [work, turn, values, vectors, n, torch.nan]
        launch("eigh", count, THREADS, args, min(16 * n * n, SHARED_BYTES))
    return values, vectors
