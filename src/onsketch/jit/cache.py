"""Compiled functions on disk: a cache that cannot lie, and that starts fast.

Every entry is stamped with all the code it is made of (stamp.py), so that a changed constant or callee is compiled
anew. The stamp is part of the file's name: two versions of the package can share a folder (``NUMBA_CACHE_DIR``).

Before Numba loads a function from its own cache it imports all it might need to compile one (every NumPy function it
knows, SciPy's linear algebra): half a second, and nothing of it is used when the cache has what is asked for.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import config, njit, typeof
from numba.core import caching
from numba.core.runtime.nrt import rtsys

from onsketch.jit.stamp import stamp_of

_Implementation: Any = caching.CompileResultCacheImpl
_File: Any = caching.IndexDataCacheFile
_settings: Any = config

_KEPT = 8
"""Versions of a function that stay on disk."""


_UNREADABLE = (OSError, EOFError, ValueError, ImportError, AttributeError, KeyError, pickle.UnpicklingError)
"""What comes of a file cut short, written at the same moment, or left by code that is there no more."""


class _Cache(caching._Cache):
    """The cache of one function, made when it is first called. A folder that cannot be written to means: no cache."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._files: dict[Any, Any] = {}
        self._impl: Any = None
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """The folder, or nothing where none can be written to."""
        return self._folder()

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        for file in self._files.values():
            if file is not None:
                file.flush()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function for these types from the disk, or None; needs the memory manager and nothing of the compiler."""
        file = self._file(sig)
        if file is None:
            return None
        rtsys.initialize(target_context)
        try:
            data = file.load(self._key(sig, target_context.codegen()))
        except _UNREADABLE:
            return None
        return None if data is None else self._impl.rebuild(target_context, data)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a function compiled for these types."""
        file = self._file(sig)
        if file is None or not self._impl.check_cachable(data):
            return
        try:
            file.save(self._key(sig, data.codegen), self._impl.reduce(data))
            self._forget_old_versions()
        except _UNREADABLE:  # or a full or read-only disk: the function runs all the same
            return

    def _key(self, sig: Any, codegen: Any) -> Any:
        return sig, codegen.magic_tuple()

    def _name(self) -> str:
        function = self._function
        return f"{function.__module__}.{function.__qualname__}".replace("<locals>", "_")

    def _folder(self) -> str:
        if self._impl is None:
            try:
                self._impl = _Implementation(self._function)
            except RuntimeError:  # no folder can be written to
                self._impl = False
        if not self._impl:
            return ""
        path = _settings.CACHE_DIR
        return os.path.join(path, "onsketch") if path else str(self._impl.locator.get_cache_path())

    def _file(self, sig: Any) -> Any:
        if not self._enabled:
            return None
        if sig not in self._files:
            folder = self._folder()
            self._files[sig] = None
            if folder:
                os.makedirs(folder, exist_ok=True)
                stamp = stamp_of(self._function, sig)
                name = f"{self._name()}-{stamp[:24]}.py{sys.version_info.major}{sys.version_info.minor}"
                self._files[sig] = _File(folder, name, stamp)
        return self._files[sig]

    def _forget_old_versions(self) -> None:
        """Remove what only earlier versions of the code could use, a while after it was last written."""
        indices = sorted(Path(self._folder()).glob(f"{self._name()}-*.nbi"), key=lambda path: -path.stat().st_mtime)
        for index in indices[_KEPT * 4 :]:  # a version has an index for each set of types
            for file in index.parent.glob(index.name.removesuffix("nbi") + "*"):
                file.unlink(missing_ok=True)


def cached(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """As ``numba.njit(cache=True, **options)``, with the cache above."""
    compiled = njit(**options)

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = compiled(function)
        if hasattr(dispatcher, "_cache"):  # not where NUMBA_DISABLE_JIT leaves Python functions
            dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate


def kind_of(*arguments: Any) -> str:
    """The types of these arguments, for calling kernels with others of the same types."""
    return " ".join(str(typeof(argument)) for argument in arguments)  # type: ignore[no-untyped-call]


class Direct:
    """Calls a kernel without Numba's look at the types of its arguments, which takes as long as a short row.

    ``kind`` (see `kind_of`) must tell arguments of different types apart; arrays are contiguous and may be written to.
    Labels and weights are no part of it: ``Learner.learn_checked`` makes them float64 and contiguous.
    """

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._entries: dict[Any, Any] = {}

    def __call__(self, kind: Any, *arguments: Any) -> Any:
        """What the kernel returns for these arguments."""
        entry = self._entries.get(kind)
        if entry is not None:
            return entry(*arguments)
        result = self._compiled(*arguments)
        if hasattr(self._compiled, "overloads"):  # it has none where compilation is switched off
            known = self._compiled.overloads.get(tuple(map(typeof, arguments)))
            if known is not None:
                self._entries[kind] = known.entry_point
        return result
