"""Compiled functions that start fast: what is on disk is loaded without getting ready to compile.

Before Numba loads a function from its cache it imports all it might need to compile one (every NumPy function it
knows, SciPy's linear algebra): half a second, and nothing of it is used when the cache has what is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
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
