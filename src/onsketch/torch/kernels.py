"""The CUDA kernels of folder ``cuda``: compiled by NVRTC, which comes with PyTorch, at their first use.

A step is bound by launches, not by arithmetic: with a few launches for each layer, the host is slower than the
device by far. The kernels here work on the layers of a network all at once, and none of them makes the host wait.
Where they cannot be had (no NVRTC) the same is done by PyTorch's own operations, after a warning that says why.
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
"""Columns that one thread block works on."""
SHARED_BYTES = 32 * 1024
"""Of a block's shared memory, for what is sized at the launch."""
RANKS = 64
"""Directions of an axis up to which the kernels of Sketchy turn; they refresh half as many."""
SWEEPS = 30
"""Of Jacobi rotations at most; it converges quadratically, and 6 to 10 are usual."""

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
}
"""What a kernel is compiled with."""


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
        """Tensors are passed by address, whole numbers as int, others as double."""
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
    """The kernel for this device."""
    with torch.cuda.device(device):
        return Kernel(nvrtc.function(source(kernel), kernel, torch.cuda.get_device_capability(device)))


def stream_of(device: torch.device) -> int:
    """The current stream of a device.

    What is sent to a device once and kept there is kept for each stream: another need not find it arrived, and might
    still read it when it is given up.
    """
    return torch._C._cuda_getCurrentRawStream(device.index) if device.type == "cuda" else 0


def launch(kernel: str, blocks: int, threads: int, args: list[Any], shared: int = 0) -> None:
    """Start a kernel on the current stream of its first argument's device, which is a Tensor."""
    device = args[0].device.index
    if device == torch.cuda.current_device():
        compiled(kernel, device)(device, blocks, threads, args, shared)
        return
    with torch.cuda.device(device):
        compiled(kernel, device)(device, blocks, threads, args, shared)


STEP = (
    *("inspect", "moments", "turn_left", "turn_right", "descend"),
    *("energies", "normalise", "across", "down", "grams", "shrink", "redirect"),
)
"""The kernels of Sketchy."""


@cache
def ready(device: torch.device) -> bool:
    """True if the kernels of Sketchy can be had; compiles them at the first call, which takes a few seconds."""
    if not available(device):
        return False
    index = torch.cuda.current_device() if device.index is None else device.index
    try:
        for kernel in STEP:
            compiled(kernel, index)
    except Exception as error:  # whatever it is, there is another way
        _say(error)
        return False
    return True


@cache
def available(device: torch.device) -> bool:
    """Whether kernels can be had on this device: one is compiled and seen to work."""
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
    """Why there are no kernels, once."""
    reason = f"{type(error).__name__}: {error}"
    if reason not in _said:
        _said.add(reason)
        warnings.warn(
            f"onsketch.torch: its CUDA kernels could not be compiled, steps will be slower and wait ({reason}).",
            RuntimeWarning,
            stacklevel=3,
        )


def eigh(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, (N, n), and eigenvectors as columns, (N, n, n), of float64 CUDA matrices; n ≤ 512.

    ``torch.linalg.eigh`` asks the device whether it converged, which makes the host wait in every step, and its
    batched form is fast only up to 32 rows. Here one thread block turns each matrix by Jacobi rotations; what is not
    finite gives NaN.
    """
    count, n = matrices.shape[:2]
    work = matrices.clone(memory_format=torch.contiguous_format)
    turn, vectors = torch.empty_like(work), torch.empty_like(work)
    values = work.new_empty(count, n)
    if n and count:
        args = [work, turn, values, vectors, n, torch.nan]
        launch("eigh", count, THREADS, args, min(16 * n * n, SHARED_BYTES))
    return values, vectors
