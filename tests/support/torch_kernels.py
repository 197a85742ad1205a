"""The CUDA kernels of the PyTorch optimizers compiled for a CPU, so that they are tested on any machine.

A thread block of one thread is a sequential program: every kernel is written so that it is right with any number
of threads, and a launch is a loop over the blocks. With more threads, two warps say, each is a thread of its own and
meets the others at barriers: slow, but what a kernel has wrong between its threads has a chance to show (and does, to
a compiler's thread sanitizer).
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from onsketch.torch import kernels

_HEADERS = "#include <cmath>\n#include <cstring>\n#include <pthread.h>\n"
"""Most of the time that a kernel takes to compile: made into a header that is compiled once."""

_SHIM = """
#include "headers.hpp"
using std::fmax; using std::fabs; using std::sqrt; using std::rint; using std::frexp; using std::ldexp;
#define __global__
#define __device__
#define __noinline__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
struct Place { int x; };
static double room[1 << 16];
#if TOGETHER_HERE == 1
static Place threadIdx{0}, blockDim{1}, blockIdx{0};
static void __syncthreads() {}
static void __syncwarp() {}
static int __syncthreads_or(int any) { return any; }
static double __shfl_down_sync(unsigned, double x, int) { return x; }
#else
static thread_local Place threadIdx{0};
static Place blockDim{TOGETHER_HERE}, blockIdx{0};
static pthread_barrier_t all, warps[TOGETHER_HERE / 32];
static int any_of_all;
static double passed[TOGETHER_HERE];
static void __syncthreads() { pthread_barrier_wait(&all); }
static void __syncwarp() { pthread_barrier_wait(&warps[threadIdx.x / 32]); }
static int __syncthreads_or(int any)
{
    if (threadIdx.x == 0) any_of_all = 0;
    __syncthreads();
    if (any) __atomic_store_n(&any_of_all, 1, __ATOMIC_RELAXED);
    __syncthreads();
    const int found = any_of_all;
    __syncthreads();
    return found;
}
static double __shfl_down_sync(unsigned, double x, int step)
{
    passed[threadIdx.x] = x;
    __syncwarp();
    const double found = threadIdx.x % 32 + step < 32 ? passed[threadIdx.x + step] : x;
    __syncwarp();
    return found;
}
extern "C" void prepare()
{
    pthread_barrier_init(&all, nullptr, TOGETHER_HERE);
    for (auto& warp : warps) pthread_barrier_init(&warp, nullptr, 32);
}
extern "C" void set_thread(int thread) { threadIdx.x = thread; }
#endif
#define approximate_reciprocal(x) (1.0 / (x))
static void sincospi(double x, double* s, double* c)
{
    *s = std::sin(3.14159265358979323846 * x);
    *c = std::cos(3.14159265358979323846 * x);
}
static void sincospif(float x, float* s, float* c) { double u, v; sincospi(x, &u, &v); *s = u; *c = v; }
struct float4 { float x, y, z, w; };
struct double2 { double x, y; };
struct uint2 { unsigned x, y; };
template <class To, class From> static To bits(From x) { To y; std::memcpy(&y, &x, sizeof y); return y; }
static float __uint_as_float(unsigned x) { return bits<float>(x); }
static unsigned __float_as_uint(float x) { return bits<unsigned>(x); }
static double __longlong_as_double(long long x) { return bits<double>(x); }
static long long __double_as_longlong(double x) { return bits<long long>(x); }
"""


def compiler() -> str | None:
    """A C++ compiler, where there is one."""
    return shutil.which("g++") or shutil.which("clang++")


class Kernels:
    """What ``kernels.launch`` does, on a CPU, with one thread or so many in each block."""

    def __init__(self, folder: Path, threads: int = 1, options: tuple[str, ...] = ("-O0",)) -> None:
        self.folder = folder
        self.threads = threads
        self.options = options
        self.libraries: dict[str, ctypes.CDLL] = {}

    @cached_property
    def in_two_warps(self) -> Kernels:
        """The same with two warps in each block."""
        folder = self.folder / "warps"
        folder.mkdir()
        return Kernels(folder, 64, self.options)

    def _library(self, text: str) -> ctypes.CDLL:
        text = text.replace("extern __shared__ __align__(16) double room[];", "")
        text = f"#define TOGETHER_HERE {self.threads}\n{_SHIM}{text}"
        text += '\nextern "C" void set_block(int block) { blockIdx.x = block; }\n'
        if text not in self.libraries:
            path = self.folder / f"{len(self.libraries)}.cpp"
            path.write_text(text)
            made = path.with_suffix(".so")
            command = [str(compiler()), *self.options, "-w", "-fPIC", "-fno-gnu-unique", "-pthread"]
            headers = self.folder / "headers.hpp"
            if not headers.exists():
                headers.write_text(_HEADERS)
                subprocess.run([*command, "-x", "c++-header", "-o", f"{headers}.gch", headers], check=True)
            subprocess.run([*command, "-shared", "-o", made, path], check=True)
            self.libraries[text] = ctypes.CDLL(str(made))
            if self.threads > 1:
                self.libraries[text].prepare()
        return self.libraries[text]

    def launch(self, kernel: str, blocks: int, threads: int, args: list[Any], shared: int = 0) -> None:
        """Run every block of a launch, one after the other."""
        library = self._library(kernels.source(kernel))
        function, set_block = getattr(library, kernel), library.set_block
        assert shared <= 47 * 1024
        assert threads & (threads - 1) == 0 < threads <= kernels.THREADS
        values: list[Any] = []
        for arg in args:
            if isinstance(arg, torch.Tensor):
                assert arg.is_contiguous()
                values.append(ctypes.c_void_p(arg.data_ptr()))
            else:
                values.append(ctypes.c_double(arg) if isinstance(arg, float) else ctypes.c_int(arg))
        for block in range(blocks):
            set_block(block)
            if self.threads == 1:
                function(*values)
                continue

            def work(thread: int) -> None:
                library.set_thread(thread)
                function(*values)

            together = [threading.Thread(target=work, args=(thread,)) for thread in range(self.threads)]
            for thread in together:
                thread.start()
            for thread in together:
                thread.join()
