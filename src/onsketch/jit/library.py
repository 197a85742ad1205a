"""Precompiled kernels: shared libraries next to the package, with a list of their contents."""

from __future__ import annotations

import ctypes
import json
import os
import platform
from functools import cache
from pathlib import Path

from onsketch.jit.calling import MachineCode

LIST = "kernels.json"
"""For each library file its kernels: name, symbol and the form of the results; the processor they are made for; and
digests of what they computed when they were built (kernels/check.py)."""

LEVEL = "x86-64-v3"
"""Default processor level of machine code."""

NEEDED: dict[str, tuple[str, ...]] = {LEVEL: ("avx2", "bmi2", "fma", "f16c", "movbe"), "generic": ()}
"""Processor flags (from /proc/cpuinfo) that machine code of each level needs."""


class Library:
    """The kernels in a folder."""

    def __init__(self, folder: Path) -> None:
        from onsketch import __version__

        listed = json.loads((folder / LIST).read_text())
        self.path, self.processor = folder, str(listed["processor"])
        self.digests: dict[str, str] = listed["digests"]
        self.fits = (
            listed.get("version") == __version__ and platform.machine() == listed["machine"] and can_run(self.processor)
        )
        self._where = {
            name: (file, *place) for file, kernels in listed["files"].items() for name, place in kernels.items()
        }
        self._open: dict[str, ctypes.CDLL] = {}

    def __len__(self) -> int:
        return len(self._where)

    def get(self, name: str) -> MachineCode | None:
        """A kernel by its name (see ``machine_code.name_of``), or None."""
        if name not in self._where:
            return None
        file, symbol, results = self._where[name]
        if file not in self._open:
            self._open[file] = ctypes.CDLL(str(self.path / file))
        function = self._open[file][symbol]
        function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_void_p]
        return MachineCode(function, results)


def can_run(processor: str) -> bool:
    """Return True if this machine can run machine code made for a processor level."""
    if processor not in NEEDED:  # built for one machine: others may lack its features
        return False
    needed = NEEDED[processor]
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return not needed
    return set(needed) <= set(flags)


def folder() -> Path:
    """Where libraries are looked for."""
    return Path(os.environ.get("ONSKETCH_KERNEL_FOLDER") or Path(__file__).parents[1] / "compiled")


@cache
def opened() -> Library | None:
    """The library of this installation, if there is one and this machine can run it."""
    if not (folder() / LIST).exists():
        return None
    library = Library(folder())
    return library if library.fits else None
