"""Calls of machine code from Python: the arguments are a row of 8-byte slots.

A slot holds a number, or the address of an array as a Python object. Compiled code reads the address and size of its
data, and refuses an array of another type than it was compiled for, so that a call costs almost nothing in Python.
A *form* describes the types of arguments: a word for a number (``i8``) or an array (``f8:1``), and for a tuple a tuple
that starts with its class.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from operator import is_
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

if TYPE_CHECKING:
    from onsketch.jit.decorators import Kernel

Form = Any

PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""True to run kernels as plain Python: slow, but every index is checked."""

RESULTS = 4
"""Slots in which results are found after a call. One follows with the size of the head of Python's objects, then the
arguments."""

MISMATCH, NO_MEMORY = 1, 2
"""Status codes of compiled code: an array of another type or layout than compiled for, and a failed allocation."""

_HEAD = object.__basicsize__
_arrays: dict[tuple[str, bool, int, bool], str] = {}
"""Forms of arrays met so far, by type code, byte order, dimensions and layout."""
_NUMBERS = {"i8": "q", "i4": "q", "i2": "q", "i1": "q", "u8": "Q", "u4": "Q", "u2": "Q", "u1": "Q", "b1": "q",
            "f8": "d", "f4": "d"}  # fmt: skip


CHECKED = os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")
"""True if compiled code checks every index, for tests."""


class MachineCode(NamedTuple):
    """A kernel compiled for arguments of one form."""

    function: Callable[[Any], int]
    """Takes the address of the slots."""
    results: str
    """The form of what it returns: words separated by blanks, in brackets if a tuple, empty for None."""


def form_of(value: Any) -> Form:
    """The form of a value.

    >>> form_of((1, 2.0, np.zeros(3), np.zeros((2, 2), dtype=np.float32)))
    (<class 'tuple'>, 'i8', 'f8', 'f8:1', 'f4:2')
    """
    kind = type(value)
    if kind is np.ndarray or isinstance(value, np.ndarray):
        dtype, order = value.dtype, value.flags.c_contiguous
        key = dtype.char, dtype.isnative, value.ndim, order
        if key not in _arrays:
            if dtype.str[0] == ">" or dtype.str[1:] not in _NUMBERS:
                raise TypeError(f"compiled code takes no arrays of {dtype}.")
            _arrays[key] = f"{dtype.str[1:]}:{value.ndim}{'' if order else '*'}"
        return _arrays[key]
    if kind is bool:
        return "b1"
    if kind is int:
        return "i8" if -(1 << 63) <= value < 1 << 63 else "u8"
    if kind is float:
        return "f8"
    if isinstance(value, np.generic):
        return value.dtype.str[1:]
    if isinstance(value, tuple):
        return (kind, *map(form_of, value))
    raise TypeError(f"compiled code takes no {kind.__name__}: {value!r}.")


def text_of(form: Form) -> str:
    """The form in words, the same in every process."""
    if isinstance(form, str):
        return form
    kind, *parts = form
    name = "" if kind is tuple else f"{kind.__module__}.{kind.__qualname__}"
    return f"{name}({' '.join(map(text_of, parts))})"


def expressions(form: Form, name: str) -> list[tuple[str, str]]:
    """For each slot of an argument, the code that ``struct`` writes it with and the expression for what it holds."""
    if not isinstance(form, str):
        return [slot for place, part in enumerate(form[1:]) for slot in expressions(part, f"{name}[{place}]")]
    if form == "b1":
        return [("q", f"1 if {name} else 0")]
    return [("q", f"id({name})")] if ":" in form else [(_NUMBERS[form], name)]


def _classes(value: Any) -> Any:
    """The class of a value; of a plain tuple, a tuple of the classes of its parts."""
    return tuple(map(_classes, value)) if type(value) is tuple else type(value)


class _Packer:
    """Writes arguments of one form and of these classes into slots."""

    def __init__(self, forms: tuple[Form, ...], classes: tuple[Any, ...]) -> None:
        names = [f"a{place}" for place in range(len(forms))]
        slots = [slot for form, name in zip(forms, names, strict=True) for slot in expressions(form, name)]
        codes = struct.Struct("=" + "".join(code for code, _ in slots))
        known: dict[str, Any] = {"id": id, "type": type, "len": len, "tuple": tuple, "pack": codes.pack_into}
        checks = [check for name, kind in zip(names, classes, strict=True) for check in _checks(name, kind, known)]
        source = f"lambda slots, at, {', '.join(names)}: {' or '.join(checks)} or pack(slots, at, %s)"
        self.write: Any = eval(source % ", ".join(expression for _, expression in slots), known)
        """Answers with True, and writes nothing, where a class is another."""
        self.size = codes.size


_packer = lru_cache(maxsize=1024)(_Packer)  # every learner calls the same few kernels with arguments of the same forms


def _checks(name: str, kind: Any, known: dict[str, Any]) -> Iterator[str]:
    """Yield conditions that hold if an argument, or a part of a plain tuple, is not of the expected class.

    Compiled code cannot check this. The classes are added to the names that the conditions use.
    """
    if isinstance(kind, tuple):
        yield f"type({name}) is not tuple or len({name}) != {len(kind)}"
        for place, part in enumerate(kind):
            yield from _checks(f"{name}[{place}]", part, known)
    else:
        word = f"kind{len(known)}"
        known[word] = kind
        yield f"type({name}) is not {word}"


@cache
def _reading(results: str) -> Callable[[bytearray], Any]:
    """Reads results of this form out of the slots."""
    words = results.strip("()").split()
    if not words:
        return lambda slots: None
    unpack = struct.Struct("<" + "".join("?7x" if word == "b1" else _NUMBERS[word] for word in words)).unpack_from
    return unpack if results.startswith("(") else lambda slots: unpack(slots)[0]


_FIRST = 8 * (RESULTS + 1)
_codes: dict[tuple[Any, tuple[Form, ...]], MachineCode] = {}
_finding: dict[tuple[Any, tuple[Form, ...]], RLock] = {}


def known() -> list[tuple[Kernel, tuple[Form, ...]]]:
    """Every kernel called so far in this process, and the forms of the arguments."""
    return list(_codes)


def _code(kernel: Kernel, forms: tuple[Form, ...]) -> MachineCode:
    """The machine code of a kernel for arguments of these forms."""
    which = kernel, forms
    if which in _codes:
        return _codes[which]
    with _finding.setdefault(which, RLock()):  # threads may need the same kernel at once
        if which not in _codes:
            from onsketch.jit.machine_code import find

            _codes[which] = find(kernel, forms)
        return _codes[which]


def refuse() -> NoReturn:
    """Raise the error of a kernel that failed although its arguments had the right types."""
    if CHECKED:
        raise IndexError("a compiled loop went beyond the end of an array.")
    raise MemoryError("a compiled loop found no memory left.")


class _Ready:
    """A kernel and slots for arguments of one form; the first arguments may be in the slots already, as a state."""

    def __init__(self, kernel: Kernel, state: tuple[Any, ...], rest: tuple[Any, ...]) -> None:
        self.state = state
        forms, following = tuple(map(form_of, state)), tuple(map(form_of, rest))
        self.function, results = _code(kernel, forms + following)
        self.read = _reading(results)
        self._first = _packer(forms, _classes(state)) if state else None
        packer = _packer(following, _classes(rest))
        self._at = _FIRST + (self._first.size if self._first else 0)
        self._write, self._size = packer.write, self._at + packer.size
        self._free: list[tuple[bytearray, int, Any]] = []

    def _slots(self) -> tuple[bytearray, int, Any]:
        """Slots with the state in them, their address, and what keeps them there."""
        slots = bytearray(self._size)
        struct.pack_into("=q", slots, 8 * RESULTS, _HEAD)
        if self._first is not None and self._first.write(slots, _FIRST, *self.state):
            raise TypeError("a state's parts have changed their classes.")  # compiled code would find no arrays there
        held = ctypes.c_char.from_buffer(slots)
        return slots, ctypes.addressof(held), held

    def call(self, rest: tuple[Any, ...]) -> Any:
        """Call the kernel; return ``_ANOTHER`` if the arguments have other types."""
        try:
            place = self._free.pop()  # threads may call at once
        except IndexError:
            place = self._slots()
        slots, address, _ = place
        try:
            if self._write(slots, self._at, *rest):
                return _ANOTHER
        except struct.error:
            return _ANOTHER
        if status := self.function(address):
            if status == MISMATCH:
                return _ANOTHER
            refuse()
        result = self.read(slots)
        self._free.append(place)
        return result


_ANOTHER: Any = object()


def call(kernel: Kernel, arguments: tuple[Any, ...]) -> Any:
    """Call the kernel with these arguments and return its result."""
    for ready in kernel.ready:
        result = ready.call(arguments)
        if result is not _ANOTHER:
            return result
    ready = _Ready(kernel, (), arguments)
    kernel.ready = (ready, *kernel.ready[: _TRIED - 1])
    return _known(kernel, ready.call(arguments))


def _known(kernel: Kernel, result: Any) -> Any:
    """A result; that arguments are of another form than the one they were just looked up by is an error."""
    if result is _ANOTHER:
        raise TypeError(f"{kernel.__qualname__}: NumPy describes arrays in a way that compiled code does not know.")
    return result


_TRIED = 16
"""Number of forms to try before the arguments are inspected in Python."""


class Bound:
    """Call a kernel whose first arguments are a state; it is packed again only if it is another object."""

    __slots__ = ("_kernel", "_ready")  # what counts an object's memory by its attributes must not count the kernel's

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._ready: _Ready | None = None

    def __reduce__(self) -> Any:
        return Bound, (self._kernel,)

    def forget(self) -> None:
        """Keep no state: the next call brings another."""
        self._ready = None

    def __call__(self, state: tuple[Any, ...], *rest: Any) -> Any:
        """Call the kernel with this state and the other arguments, and return its result."""
        if PLAIN:
            return self._kernel(*state, *rest)
        ready = self._ready
        if ready is not None and all(map(is_, ready.state, state)):
            result = ready.call(rest)
            if result is not _ANOTHER:
                return result
        self._ready = ready = _Ready(self._kernel, state, rest)
        return _known(self._kernel, ready.call(rest))


class Prepared:
    """A kernel with all of its arguments in the slots: to call it is to call the machine code.

    What may change between calls are the numbers in arrays, not the arrays. For one thread at a time.
    """

    def __init__(self, kernel: Kernel, *arguments: Any) -> None:
        self._arguments = arguments  # kept alive
        forms = tuple(map(form_of, arguments))
        self._function, results = _code(kernel, forms)
        packer = _packer(forms, tuple(map(_classes, arguments)))
        self._slots = bytearray(_FIRST + packer.size)
        struct.pack_into("=q", self._slots, 8 * RESULTS, _HEAD)
        if packer.write(self._slots, _FIRST, *arguments):  # compiled code would find no arrays there
            raise TypeError(f"{kernel.__qualname__}: arguments of other classes than they are.")
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._slots))
        self._read = _reading(results)

    @property
    def address(self) -> tuple[int, int]:
        """Where the machine code and the slots are."""
        return ctypes.cast(self._function, ctypes.c_void_p).value or 0, self._address  # type: ignore[arg-type]

    def __call__(self) -> Any:
        """Call the kernel and return its result."""
        if self._function(self._address):
            refuse()
        return self._read(self._slots)
