"""Compiled functions that start fast: what is on disk is loaded without getting ready to compile.

Before Numba loads a function from its cache it imports all it might need to compile one (every NumPy function it
knows, SciPy's linear algebra): half a second, and nothing of it is used when the cache has what is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, typeof
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys


class _Cache(FunctionCache):
    """Numba's cache; a function found there needs the memory manager and nothing else of the compiler."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


def cached(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """As ``numba.njit(cache=True, **options)``."""
    compiled = njit(cache=True, **options)

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = compiled(function)
        if hasattr(dispatcher, "_cache"):  # not where NUMBA_DISABLE_JIT leaves Python functions
            dispatcher._cache = _Cache(function)  # type: ignore[no-untyped-call]
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
