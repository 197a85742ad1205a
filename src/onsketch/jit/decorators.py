"""Decorators of compiled functions: kernels, called from Python, and functions compiled into kernels.

Decorating a function compiles nothing and imports no compiler. It marks the function and stores how to compile it.
A `Kernel` is called from Python; its machine code comes from a library built beforehand, from the disk, or from Numba
(machine_code.py). An `InnerFunction` is only ever compiled into kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from typing import Any

from onsketch.jit.calling import PLAIN, call

FASTMATH = {"contract", "reassoc", "nsz"}
"""Lets loops be vectorised, while NaN and infinity keep their meaning."""

INNER: dict[str, Any] = {"fastmath": FASTMATH, "error_model": "numpy", "_nrt": False}
"""How functions called only from compiled code are compiled: they allocate nothing, so that nothing need be counted
(references to arrays, counted by every function they pass through, cost as much as the arithmetic)."""


class InnerFunction:
    """A function that is compiled into those that call it; from Python its own lines run, where they can."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.targetoptions = options

    def __call__(self, *arguments: Any) -> Any:
        """Run the function as plain Python."""
        return self.py_func(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """Return the Numba type of the function, for calls from compiled code."""
        from onsketch.jit.compiling import type_of

        return type_of(self)

    def __reduce__(self) -> str:
        return self.__qualname__  # found in its module again

    __qualname__: str


class Kernel(InnerFunction):
    """A function called from Python that runs as machine code, without the GIL."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, options)
        self.ready: tuple[Any, ...] = ()

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function and return its result."""
        return self.py_func(*arguments) if PLAIN else call(self, arguments)


class Intrinsic:
    """Name of instructions for compiled code only; ``instructions.py`` defines them."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *arguments: Any) -> Any:
        """Raise an error: intrinsics exist in compiled code only."""
        raise TypeError(f"{self.__name__} can only be called by compiled code.")

    @cached_property
    def _numba_type_(self) -> Any:
        from onsketch.jit.compiling import intrinsic_type

        return intrinsic_type(self.__name__)


def inner_function(**options: Any) -> Callable[[Any], Any]:
    """Marks a function as compiled into its callers, with these options of ``numba.njit``."""
    return lambda function: InnerFunction(function, options)


_KERNEL: dict[str, Any] = {"fastmath": FASTMATH, "error_model": "numpy"}

kernel = partial(Kernel, options={**_KERNEL, "_nrt": False})
"""Compiles a function called from Python that allocates nothing."""

exact_kernel = partial(Kernel, options={**_KERNEL, "_nrt": False, "fastmath": False})
"""As ``kernel``, for arithmetic that must be done in the order in which it is written."""

allocating_kernel = partial(Kernel, options=_KERNEL)
"""As ``kernel``, for a function that makes arrays for its own use: it counts references, and so should not be a loop
over rows where a row is short."""

inner = inner_function(**INNER)
"""Compiles a function called only from compiled code."""

exact = inner_function(**{**INNER, "fastmath": False})
"""As ``inner``, for such arithmetic."""

exact_inlined = inner_function(**{**INNER, "fastmath": False}, forceinline=True)
"""As ``exact``, compiled into its callers."""

inlined = inner_function(**INNER, forceinline=True)
"""Compiles a small function into its callers: passing arrays to a call costs as much as a short loop."""
