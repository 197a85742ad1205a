"""How loops are compiled."""

from __future__ import annotations

from typing import Any

from numba import njit

from onsketch.jit.cache import cached
from onsketch.jit.link_only import IngredientCompiler

FASTMATH = {"contract", "reassoc", "nsz"}
"""Lets loops be vectorised, while NaN and infinity keep their meaning."""

INNER: dict[str, Any] = {
    "fastmath": FASTMATH,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
    "pipeline_class": IngredientCompiler,
}
"""How functions called only from compiled code are compiled: they allocate nothing, so that nothing need be counted
(references to arrays, counted by every function they pass through, cost as much as the arithmetic)."""

_KERNEL: dict[str, Any] = {
    "nogil": True,
    "fastmath": FASTMATH,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}

kernel = cached(**_KERNEL)
"""Compiles a function called from Python: without the GIL, cached on disk."""

exact_kernel = cached(**{**_KERNEL, "fastmath": False})
"""As ``kernel``, for arithmetic that must be done in the order in which it is written."""

bare_kernel = cached(**_KERNEL, _nrt=False)
"""Compiles a function called from Python that allocates nothing."""

inner = njit(**INNER)
"""Compiles a function called only from compiled code; leaving the wrappers out halves the time that takes."""

exact = njit(**{**INNER, "fastmath": False})
"""As ``inner``, for such arithmetic."""

exact_inlined = njit(**{**INNER, "fastmath": False}, forceinline=True)
"""As ``exact``, compiled into its callers."""

inlined = njit(**INNER, forceinline=True)
"""Compiles a small function into its callers: passing arrays to a call costs as much as a short loop."""
