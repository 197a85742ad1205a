"""A stamp of all code that a compiled function depends on.

Numba caches compiled functions on disk under a stamp of the outermost function's file, so it does not notice a change
in a function that it calls, or in a constant of another file. The stamp here is a digest of the function's code and of
all that the code can reach: the functions it calls (compiled, inlined, intrinsic), the constants it reads, and the
parts that are chosen by the types of its arguments. It depends on code, not on files, so that comments do not matter
and functions of other packages are included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from onsketch.jit.calling import MISMATCH, NO_MEMORY, RESULTS
from onsketch.jit.decorators import Intrinsic

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...), range, slice, np.generic, np.dtype)


@cache
def _toolchain() -> str:
    """Return the versions of Numba and LLVM, with a digest of the modules that drive them."""
    own = hashlib.sha256(f"{RESULTS} {MISMATCH} {NO_MEMORY}".encode())
    for name in ("compiling", "instructions", "link_only"):
        own.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return f"numba {version('numba')} llvmlite {version('llvmlite')} {own.hexdigest()}"


def stamp_of(function: Any, form: Any = ()) -> str:
    """The stamp of a function compiled for arguments of this form (calling.py).

    >>> def one(x): return x + 1
    >>> def two(x): return x + 2
    >>> stamp_of(one) == stamp_of(one), stamp_of(one) == stamp_of(two)
    (True, False)
    """
    states = frozenset(_classes_of(form))
    walk = _Walk(states)
    walk.take(_toolchain())
    walk.take(sorted(state.__qualname__ for state in states))
    walk.take(function)
    return walk.digest.hexdigest()


def _classes_of(form: Any) -> Iterator[type]:
    """The classes of the named tuples in a form."""
    if isinstance(form, type):
        yield form
    elif isinstance(form, tuple):
        for part in form:
            yield from _classes_of(part)


class _Walk:
    """Goes through all that code can reach, once, in the order of its names."""

    def __init__(self, states: frozenset[type]) -> None:
        self.digest = hashlib.sha256()
        self._states = states
        self._seen: dict[int, int] = {}

    def take(self, value: Any) -> None:
        """Let this value count."""
        if isinstance(value, _PLAIN):
            self._write(f"{type(value).__name__} {value!r}")
        elif isinstance(value, tuple | list):
            self._write(f"{type(value).__name__} {len(value)} {getattr(value, '_fields', ())}")
            for part in value:
                self.take(part)
        elif isinstance(value, dict):
            self.take(sorted(((repr(key), part) for key, part in value.items()), key=lambda pair: pair[0]))
        elif isinstance(value, set | frozenset):
            self.take(sorted(map(repr, value)))
        elif isinstance(value, np.ndarray):
            self._write(f"array {value.dtype} {value.shape}")
            self.digest.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, ModuleType | BuiltinFunctionType | Intrinsic):
            self._write(value.__name__)
        elif isinstance(value, type):
            self._write(f"class {value.__module__}.{value.__qualname__} {getattr(value, '_fields', ())}")
        else:
            self._take_once(value)

    def _write(self, text: str) -> None:
        self.digest.update(text.encode() + b"\0")

    def _take_once(self, value: Any) -> None:
        """Functions, however they are wrapped: each counts once, so that they may call each other."""
        if id(value) in self._seen:
            self._write(f"again {self._seen[id(value)]}")
            return
        self._seen[id(value)] = len(self._seen)
        implementations = getattr(value, "implementations", None)
        if implementations is not None:  # see learners/sketched/parts.py
            for state in sorted(self._states & implementations.keys(), key=lambda state: state.__qualname__):
                self.take(implementations[state])
        self.take(getattr(value, "targetoptions", {}))
        function = getattr(value, "py_func", value)
        if isinstance(function, FunctionType):
            self._take_function(function)
        else:
            self._write(type(value).__qualname__)

    def _take_function(self, function: FunctionType) -> None:
        self._write(f"function {function.__module__}.{function.__qualname__}")  # cached code names its modules
        self.take(function.__defaults__)
        for cell in function.__closure__ or ():
            self.take(cell.cell_contents)
        self._take_code(function.__code__, function.__globals__)

    def _take_code(self, code: CodeType, names: dict[str, Any]) -> None:
        self.digest.update(code.co_code)
        for place, constant in enumerate(code.co_consts):
            if isinstance(constant, CodeType):
                self._take_code(constant, names)
            elif place or not isinstance(constant, str):  # the first string is the docstring
                self.take(constant)
        for name in code.co_names:
            self._write(name)
            if name not in names:
                continue
            found = names[name]
            self.take(found)
            if isinstance(found, ModuleType) and found.__name__.partition(".")[0] not in ("numpy", "math", "numba"):
                for attribute in code.co_names:
                    if attribute in vars(found):
                        self.take(vars(found)[attribute])
