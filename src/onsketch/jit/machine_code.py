"""Sources of machine code: a precompiled library, the disk cache, or the compiler.

``ONSKETCH_KERNELS`` selects among them: ``library`` (nothing is ever compiled), ``jit`` (no library), or ``auto``, the
default: the library if it has the kernel and fits this machine, else the compiler.

Compiled code is cached on disk as an object file. Its name contains a stamp of all code that it depends on (stamp.py),
so that a changed constant or callee causes a recompilation, and two versions of the package can share a folder
(``NUMBA_CACHE_DIR``). Loading needs LLVM; only compiling needs Numba.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from onsketch.core.errors import OnsketchError
from onsketch.core.interrupts import uninterrupted
from onsketch.jit.calling import CHECKED, Form, MachineCode, text_of
from onsketch.jit.library import LEVEL, LIST, can_run, folder, opened

if TYPE_CHECKING:
    from onsketch.jit.decorators import Kernel

_KEPT = 128
"""Object files of a kernel that stay on disk: some versions of the code, each for some types."""


class NoKernel(OnsketchError, ImportError):
    """A kernel is in no library, and there is no compiler."""


def chosen() -> str:
    """Return the value of ``ONSKETCH_KERNELS``: auto, library or jit."""
    word = os.environ.get("ONSKETCH_KERNELS", "auto")
    if word not in ("auto", "library", "jit"):
        raise ValueError(f"ONSKETCH_KERNELS={word!r}: expected auto, library or jit.")
    return word


def described() -> list[tuple[str, str]]:
    """Describe the source of machine code on this machine."""
    library = opened() if chosen() != "jit" else None
    if library is not None:
        kernels = f"{len(library)} compiled for {library.processor}, in {library.path}"
    elif (folder() / LIST).exists() and chosen() != "jit":
        kernels = f"the library in {folder()} is for another processor: compiled when first used"
    else:
        kernels = "compiled when first used"
    kept = next((str(place) for place in _folders() if place.is_dir() and os.access(place, os.W_OK)), "nowhere yet")
    return [("kernels", kernels), ("compilation cache", kept), ("ONSKETCH_KERNELS", chosen())]


def name_of(kernel: Kernel, forms: tuple[Form, ...]) -> str:
    """Return the name of a kernel for arguments of these forms in libraries."""
    return f"{kernel.__module__}.{kernel.__qualname__}({' '.join(map(text_of, forms))})"


def find(kernel: Kernel, forms: tuple[Form, ...]) -> MachineCode:
    """The machine code of a kernel for arguments of these forms."""
    name, way = name_of(kernel, forms), chosen()
    if way != "jit" and not CHECKED:  # libraries look at no index
        library = opened()
        code = None if library is None else library.get(name)
        if code is not None:
            return code
        if way == "library":
            where = "there is no library for this machine" if library is None else f"{library.path} does not have it"
            raise NoKernel(f"ONSKETCH_KERNELS=library: {name} is needed, and {where}. With auto it is compiled.")
    symbol, results, machine_code = object_file(kernel, forms)
    return MachineCode(_loaded(symbol, machine_code), results)


def object_file(kernel: Kernel, forms: tuple[Form, ...]) -> tuple[str, str, bytes]:
    """A kernel's symbol, the form of its results and its object file: from the disk, or compiled and kept there."""
    import hashlib

    from onsketch.jit.stamp import stamp_of

    name = name_of(kernel, forms)
    try:
        stamp = f"{stamp_of(kernel, forms)} {processor()}{' with indices checked' if CHECKED else ''}"
    except ImportError:
        raise NoKernel(f"{name} must be compiled, and Numba is not there: pip install 'onsketch[jit]'.") from None
    symbol = "onsketch_" + hashlib.sha256((name + stamp).encode()).hexdigest()[:32]
    title = f"{kernel.__module__}.{kernel.__qualname__}".replace("<locals>", "_")
    for place in _folders():
        with suppress(OSError, ValueError):
            first, _, machine_code = _read_trusted(place / f"{title}-{symbol[9:]}.o").partition(b"\n")
            digest, _, results = first.decode().partition(" ")
            if hashlib.sha256(machine_code).hexdigest() == digest:  # not cut short
                return symbol, results, machine_code
    _announce()
    results, machine_code = _compiled(kernel, forms, symbol)
    for place in _folders():
        with suppress(OSError):
            _keep(place, title, f"{title}-{symbol[9:]}.o", results, machine_code)
            break
    return symbol, results, machine_code


_compiling, _loading = RLock(), RLock()


def _compiled(kernel: Kernel, forms: tuple[Form, ...], symbol: str) -> tuple[str, bytes]:
    with _compiling:
        with uninterrupted:  # a compiler that was imported in part cannot be used by this process any more
            from onsketch.jit.compiling import _tell_numba, compile_kernel

            _tell_numba()
        collecting = gc.isenabled()
        gc.disable()  # the compiler makes millions of objects, and looking for garbage among them finds little
        try:
            return compile_kernel(kernel, forms, symbol)
        finally:
            if collecting:
                gc.enable()


def _keep(place: Path, title: str, name: str, results: str, machine_code: bytes) -> None:
    """Write an object file, whole or not at all, and forget what only earlier versions of the code could use."""
    import hashlib
    import tempfile

    for above in reversed([place, *place.parents]):
        if not above.exists():
            above.mkdir(mode=0o755, exist_ok=True)
    _require_trusted(place.stat(), place)
    handle, path = tempfile.mkstemp(dir=place)
    with os.fdopen(handle, "wb") as file:
        file.write(f"{hashlib.sha256(machine_code).hexdigest()} {results}\n".encode() + machine_code)
    os.chmod(path, 0o644)
    os.replace(path, place / name)
    kept = sorted(place.glob(f"{title}-*.o"), key=lambda path: -path.stat().st_mtime)
    for old in kept[_KEPT:]:
        old.unlink(missing_ok=True)


def _require_trusted(status: os.stat_result, path: Path) -> None:
    """Refuse what belongs to another user than this one and root, and what others may change: it could be any code."""
    global _warned
    if os.name != "posix" or (status.st_uid in (0, os.getuid()) and not status.st_mode & 0o022):
        return
    if not _warned:
        _warned = True
        warnings.warn(
            f"{path}: other users can change it, so compiled kernels are neither read from it nor kept in it. Remove "
            "it, take away their rights (chmod go-w), or name another folder by NUMBA_CACHE_DIR.",
            RuntimeWarning,
            stacklevel=2,
        )
    raise PermissionError(f"{path}: other users can change it")


def _read_trusted(path: Path) -> bytes:
    """The content of a file that only this user and root can change, in a folder of which the same holds."""
    _require_trusted(path.parent.stat(), path.parent)
    with open(path, "rb") as file:
        _require_trusted(os.fstat(file.fileno()), path)
        return file.read()


def _folders() -> Iterator[Path]:
    """Where object files may be kept, the first that can be written to."""
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(given) / "onsketch"
        return
    yield Path(__file__).parents[1] / "__pycache__" / "kernels"
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onsketch"


@cache
def processor() -> tuple[str, str, str]:
    """Return the system, the processor and its additional features that machine code is compiled for.

    ``ONSKETCH_PROCESSOR`` names one, or ``native`` for this machine's. The default is the level that wheels are built
    for, if this machine supports it, so that all such machines compute the same bits.
    """
    import llvmlite.binding as llvm

    name = os.environ.get("ONSKETCH_PROCESSOR") or (LEVEL if can_run(LEVEL) else "native")
    own = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return llvm.get_process_triple(), *(own if name == "native" else (name, ""))


@cache
def _engine() -> Any:
    import llvmlite.binding as llvm

    with suppress(RuntimeError):  # newer versions do this themselves, and warn about the call
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    # llvmlite's own memory manager keeps the parts of an object file together. LLVM's may put them more than two
    # gigabytes apart in a large process, where one cannot reach the other, and then ends the process.
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True)


def _loaded(symbol: str, machine_code: bytes) -> Any:
    """A function out of an object file."""
    import llvmlite.binding as llvm

    with _loading:
        engine = _engine()
        engine.add_object_file(llvm.ObjectFileRef.from_data(machine_code))
        engine.finalize_object()
        return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(engine.get_function_address(symbol))


_said = _warned = False


def _announce() -> None:
    """Tell people at a terminal, once, why the first learner of its kind takes a few seconds."""
    global _said
    if not _said and sys.stderr.isatty():
        _said = True
        print("onsketch: compiling for this machine (once; kept on disk) …", file=sys.stderr)
