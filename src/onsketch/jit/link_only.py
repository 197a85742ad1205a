"""Functions that are only ever compiled into others.

Numba optimises every function by itself, turns it into machine code, and optimises it once more wherever it is compiled
into another, level after level. For functions that are not called from anywhere else that is work for nothing: here
they are tidied up, each by itself, and stay like that until the function called from Python is optimised, once, as a
whole. That takes a third less time, and what comes out is faster. Such a function must never be called from Python.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler import Compiler


class _Inner(CPUCodeLibrary):
    """Code to be linked into other code; it never becomes machine code of its own."""

    @property
    def codegen(self) -> Any:
        """Return a stand-in for the function's environment, which only code called from Python has."""
        return SimpleNamespace(set_env=lambda name, environment: None)

    def get_pointer_to_function(self, name: str) -> int:
        """There is no such function."""
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


class InnerCompiler(Compiler):
    """Numba's compiler, for a function that is only called from compiled code."""

    def define_pipelines(self) -> Any:
        """Numba's own stages, ending in a function for kernels to call."""
        state: Any = self.state
        state.library = _Inner(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        state.library.enable_object_caching()
        return super().define_pipelines()  # type: ignore[no-untyped-call]
