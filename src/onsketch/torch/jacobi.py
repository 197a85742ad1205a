"""Eigenvectors of many small symmetric matrices on a CUDA device, without a word to the host.

``torch.linalg.eigh`` asks the device whether it converged, which makes the host wait in every step, and its
batched form is fast only up to 32 rows. Here one thread block turns each matrix by Jacobi rotations, as many
disjoint pairs at a time as there are (Brent and Luk 1985), until nothing is left off the diagonal: float64, any
size, one launch. The kernel is compiled by NVRTC, which comes with PyTorch, at its first use.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

THREADS = 256
SHARED_BYTES = 40 * 1024
"""Of a block's shared memory, for the matrix and its eigenvectors; larger ones stay in global memory."""
MOST_SWEEPS = 30
"""Jacobi converges quadratically: 6 to 10 sweeps are usual."""

SOURCE = r"""
extern __shared__ double room[];

extern "C" __global__ void jacobi_eigh(
    double* work, double* turn, double* values, double* vectors, int n, int sweeps, int fits)
{
    __shared__ double cosine[THREADS], sine[THREADS], scale;
    __shared__ int first[THREADS], second[THREADS];
    const int here = threadIdx.x, threads = blockDim.x;
    const long long offset = (long long)blockIdx.x * n * n;
    double *A = work + offset, *V = turn + offset;
    if (fits) { A = room; V = room + n * n; }

    double sum = 0.0;
    for (int e = here; e < n * n; e += threads) {
        const double value = work[offset + e];
        A[e] = value;
        V[e] = (e / n == e % n) ? 1.0 : 0.0;
        sum += value * value;
    }
    cosine[here] = sum;
    __syncthreads();
    if (here == 0) {
        for (int e = 1; e < threads; ++e) sum += cosine[e];
        scale = 1e-15 * sqrt(sum);
    }
    __syncthreads();

    const int players = n + (n & 1), pairs = players / 2;
    for (int sweep = 0; sweep < sweeps; ++sweep) {
        int turned = 0;
        for (int round = 0; round < players - 1; ++round) {
            for (int k = here; k < pairs; k += threads) {
                int p = (k == 0) ? 0 : 1 + (k - 1 + round) % (players - 1);
                int q = 1 + (players - 2 - k + round) % (players - 1);
                if (p > q) { int swap = p; p = q; q = swap; }
                double c = 1.0, s = 0.0;
                if (q < n) {
                    const double across = A[p * n + q];
                    if (fabs(across) > scale) {
                        const double theta = (A[q * n + q] - A[p * n + p]) / (2.0 * across);
                        const double t = (theta >= 0.0 ? 1.0 : -1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
                        c = 1.0 / sqrt(t * t + 1.0);
                        s = t * c;
                        turned = 1;
                    }
                }
                cosine[k] = c; sine[k] = s; first[k] = p; second[k] = q;
            }
            __syncthreads();
            for (int e = here; e < pairs * n; e += threads) {
                const int k = e / n, j = e % n, p = first[k], q = second[k];
                const double c = cosine[k], s = sine[k];
                if (s != 0.0) {
                    const double x = A[p * n + j], y = A[q * n + j];
                    A[p * n + j] = c * x - s * y;
                    A[q * n + j] = s * x + c * y;
                }
            }
            __syncthreads();
            for (int e = here; e < pairs * n; e += threads) {
                const int i = e / pairs, k = e % pairs, p = first[k], q = second[k];
                const double c = cosine[k], s = sine[k];
                if (s != 0.0) {
                    double x = A[i * n + p], y = A[i * n + q];
                    A[i * n + p] = (i == q) ? 0.0 : c * x - s * y;
                    A[i * n + q] = (i == p) ? 0.0 : s * x + c * y;
                    x = V[i * n + p]; y = V[i * n + q];
                    V[i * n + p] = c * x - s * y;
                    V[i * n + q] = s * x + c * y;
                }
            }
            __syncthreads();
        }
        if (!__syncthreads_or(turned)) break;
    }

    for (int i = here; i < n; i += threads) {  /* descending */
        const double value = A[i * n + i];
        int rank = 0;
        for (int j = 0; j < n; ++j) {
            const double other = A[j * n + j];
            rank += (other > value || (other == value && j < i)) ? 1 : 0;
        }
        values[blockIdx.x * n + rank] = value;
        for (int k = 0; k < n; ++k) vectors[offset + k * n + rank] = V[k * n + i];
    }
}
"""


@cache
def _kernel(device: int) -> Any:
    """The kernel compiled for this device and seen to work there, or None where it cannot be had."""
    compile_kernel = getattr(torch.cuda, "_compile_kernel", None)
    if compile_kernel is None:
        return None
    try:
        with torch.cuda.device(device):
            kernel = _without_toolkit(compile_kernel, SOURCE.replace("THREADS", str(THREADS)), "jacobi_eigh")
            probe = torch.tensor([[[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 2.0]]], dtype=torch.float64)
            values, _ = _launch(kernel, probe.cuda())
            works = torch.allclose(values.cpu(), torch.tensor([[3.0, 2.0, 1.0]], dtype=torch.float64))
    except (RuntimeError, OSError, ImportError, TypeError, AttributeError):
        return None  # another PyTorch, no NVRTC: the interface is PyTorch's own and may change
    return kernel if works else None


def _without_toolkit(compile_kernel: Any, *arguments: str) -> Any:
    """Compile though no CUDA toolkit is installed: PyTorch asks for its headers, which the kernel does not need."""
    from torch.utils import cpp_extension

    home = cpp_extension.CUDA_HOME
    try:
        if home is None:
            cpp_extension.CUDA_HOME = "/nowhere"
        return compile_kernel(*arguments)
    finally:
        cpp_extension.CUDA_HOME = home


def available(device: torch.device) -> bool:
    """Whether the kernel can be had; without it ``torch.linalg.eigh`` serves, and the host waits for it."""
    return _kernel(_index(device)) is not None


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def jacobi_eigh(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, descending, (N, n), and eigenvectors as columns, (N, n, n), of float64 CUDA matrices; n ≤ 512."""
    with torch.cuda.device(matrices.device):
        return _launch(_kernel(_index(matrices.device)), matrices)


def _launch(kernel: Any, matrices: Tensor) -> tuple[Tensor, Tensor]:
    count, n = matrices.shape[:2]
    work = matrices.clone(memory_format=torch.contiguous_format)
    turn, vectors = torch.empty_like(work), torch.empty_like(work)
    values = work.new_empty(count, n)
    if n and count:
        room = 2 * 8 * n * n
        fits = int(room <= SHARED_BYTES)
        block = (min(THREADS, 32 * max(1, n * n // 64)), 1, 1)
        args = [work, turn, values, vectors, n, MOST_SWEEPS, fits]
        kernel(grid=(count, 1, 1), block=block, args=args, shared_mem=room * fits)
    return values, vectors
