"""Compile every kernel of the package into a shared library, for a wheel that needs no compiler.

    python kernels/build.py FOLDER

goes the walk of ``walk.py`` in two processes, for a processor named by ``ONSKETCH_PROCESSOR`` (x86-64-v3 on x86-64, so
that a wheel computes the same bits everywhere), links the object files with ``cc``, and leaves ``kernels.so`` and the
list of what is in it in the folder; ``native`` means this machine's own. Object files are kept in the folder given by
``NUMBA_CACHE_DIR``, or ``.kernels`` of the checkout, under a stamp of all they are made of: only what has changed is
compiled.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import platform
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))
PROCESSES = 2
WALKED = HERE / "walked.txt"
"""The kernels that the walk calls, a name a line: a test compares it with the package, without compiling anything."""


def _environment() -> dict[str, str]:
    """For the processes that compile: the processor, and no library."""
    from onsketch.jit.library import LEVEL, can_run

    return os.environ | {
        "ONSKETCH_PROCESSOR": os.environ.get("ONSKETCH_PROCESSOR") or (LEVEL if can_run(LEVEL) else "generic"),
        "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR") or str(HERE.parent / ".kernels"),
        "ONSKETCH_KERNELS": "jit",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _go(folder: Path, part: int, parts: int, names: list[str]) -> None:
    """One process: its part of the walk, and an object file and a line in a list for every kernel met."""
    import walk
    from check import digest

    from onsketch.jit.calling import known
    from onsketch.jit.machine_code import name_of, object_file

    steps, digests = walk.steps(), {}
    mine = list(names or steps)[part::parts]
    for name in mine:
        try:
            digests[name] = digest(steps[name]())
        except Exception:  # the others can be gone nevertheless, and what they compile is kept
            print(f"{name}: failed", traceback.format_exc(), sep="\n", flush=True)
    if len(digests) < len(mine):
        raise SystemExit(1)
    listed = {}
    for kernel, forms in known():
        symbol, results, machine_code = object_file(kernel, forms)
        (folder / f"{symbol}.o").write_bytes(machine_code)
        listed[name_of(kernel, forms)] = (symbol, results)
    found = {"kernels": listed, "digests": digests, "every": sorted(every_kernel())}
    (folder / f"{part}.json").write_text(json.dumps(found))


def every_kernel() -> set[str]:
    """The names of all kernels that the package defines."""
    import onsketch
    from onsketch.jit.decorators import Kernel

    found = set()
    for module in pkgutil.walk_packages(onsketch.__path__, "onsketch."):
        if not module.name.startswith(("onsketch.torch", "onsketch.cli", "onsketch.adapters", "onsketch.experiments")):
            with suppress(ImportError):
                things = vars(importlib.import_module(module.name)).values()
                found |= {f"{thing.__module__}.{thing.__qualname__}" for thing in things if isinstance(thing, Kernel)}
    return found


def _compare(walked: set[str], every: set[str]) -> None:
    """Refuse a walk that leaves kernels out, and write down what it calls."""
    if every - walked:
        raise SystemExit(f"kernels: the walk calls none of {', '.join(sorted(every - walked))}.")
    text = "".join(f"{name}\n" for name in sorted(walked))
    if not WALKED.exists() or WALKED.read_text() != text:
        WALKED.write_text(text)
        print(f"{WALKED.name} is written anew: commit it")


def build(folder: Path, names: list[str]) -> None:
    """Leave the library and its list in a folder."""
    import onsketch

    folder.mkdir(parents=True, exist_ok=True)
    objects = folder / "objects"
    objects.mkdir(exist_ok=True)
    environment, start = _environment(), time.perf_counter()
    processes = [
        subprocess.Popen([sys.executable, __file__, str(objects), str(part), *names], env=environment)
        for part in range(PROCESSES)
    ]
    if sum(process.wait() for process in processes):
        raise SystemExit("kernels: a step of the walk failed, see above.")
    found = [json.loads((objects / f"{part}.json").read_text()) for part in range(PROCESSES)]
    kernels = {name: place for part in found for name, place in part["kernels"].items()}
    if not names:
        _compare({name.partition("(")[0] for name in kernels}, set(found[0]["every"]))
    files = [str(objects / f"{symbol}.o") for symbol, _ in kernels.values()]
    arguments = objects / "arguments"
    arguments.write_text("\n".join(sorted(set(files))))
    cc = os.environ.get("CC", "cc")
    subprocess.run([cc, "-shared", "-s", "-o", str(folder / "kernels.so"), f"@{arguments}", "-lm"], check=True)
    listed = {
        "version": onsketch.__version__,
        "machine": platform.machine(),
        "processor": environment["ONSKETCH_PROCESSOR"],
        "files": {"kernels.so": dict(sorted(kernels.items()))},
        "digests": {name: digest for part in found for name, digest in part["digests"].items()},
    }
    (folder / "kernels.json").write_text(json.dumps(listed, indent=0))
    for file in objects.iterdir():
        file.unlink()
    objects.rmdir()
    size = (folder / "kernels.so").stat().st_size
    print(f"{len(kernels)} kernels, {size / 1e6:.1f} MB, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    place, rest = Path(sys.argv[1]).resolve(), sys.argv[2:]
    if rest and rest[0].isdigit():
        _go(place, int(rest[0]), PROCESSES, rest[1:])
    else:
        build(place, rest)
