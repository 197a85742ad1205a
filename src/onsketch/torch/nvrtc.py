"""CUDA's run-time compiler, which comes with PyTorch, and the driver, by ctypes; compiled kernels are kept on disk.

PyTorch's own interface (``torch.cuda._compile_kernel``) is private, needs a toolkit's headers and recompiles in every
process. Kernels are cached in ``$ONSKETCH_CUDA_KERNELS``, or in the user's cache folder. The key is a hash of their
source, the device's architecture and the compiler's version. A file that does not load is compiled again.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch


@cache
def driver() -> ctypes.CDLL:
    """Load CUDA's driver."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


@cache
def compiler() -> ctypes.CDLL:
    """Load NVRTC, of the version that PyTorch was built with."""
    major = str(torch.version.cuda).split(".", maxsplit=1)[0]
    windows = [f"nvrtc64_{major}0_0.dll"]
    for name in windows if sys.platform == "win32" else [f"libnvrtc.so.{major}", "libnvrtc.so"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError(f"no NVRTC of CUDA {major} was found")


def folder() -> Path | None:
    """Return the folder of compiled kernels; None for a user without a home."""
    chosen = os.environ.get("ONSKETCH_CUDA_KERNELS")
    if chosen:
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onsketch" / "kernels"
    except RuntimeError:
        return None


def function(source: str, name: str, capability: tuple[int, int]) -> ctypes.c_void_p:
    """Return the named kernel of a program, loaded into the current device."""
    path = kept_at(source, name, capability)
    if path is not None:
        with suppress(OSError, RuntimeError):  # absent or unusable
            return _loaded(path.read_bytes(), name)
    binary = _compiled(source, name, capability)
    if path is not None:
        keep(path, binary)
    return _loaded(binary, name)


def kept_at(source: str, name: str, capability: tuple[int, int]) -> Path | None:
    """Return the cache file of a compiled kernel, or None without a cache."""
    text = f"{torch.version.cuda}\n{capability}\n{source}"
    where = folder()
    return where and where / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:32]}.cubin"


def keep(path: Path, binary: bytes) -> None:
    """Write a file atomically; a failure is ignored, since it only costs time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                file.write(binary)
                file.close()  # close it before it is moved: Windows requires that
                Path(file.name).replace(path)
            except OSError:
                file.close()
                Path(file.name).unlink()
    except OSError:
        return


def _loaded(binary: bytes, name: str) -> ctypes.c_void_p:
    module, found = ctypes.c_void_p(), ctypes.c_void_p()
    failed = driver().cuModuleLoadData(ctypes.byref(module), binary)
    failed = failed or driver().cuModuleGetFunction(ctypes.byref(found), module, name.encode())
    if failed:
        raise RuntimeError(f"kernel {name!r} could not be loaded: CUDA error {failed}")
    return found


def _compiled(source: str, name: str, capability: tuple[int, int]) -> bytes:
    library, program, size = compiler(), ctypes.c_void_p(), ctypes.c_size_t()
    options = [f"--gpu-architecture=sm_{capability[0]}{capability[1]}".encode()]
    asked = library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), f"{name}.cu".encode(), 0, None, None)
    if asked:
        raise RuntimeError(f"NVRTC could not begin: error {asked}")
    try:
        failed = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        what = "ProgramLog" if failed else "CUBIN"
        getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{what}")(program, text)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise RuntimeError(f"kernel {name!r}: {text.value.decode(errors='replace').strip()[:2000]}")
    return text.raw
