"""Learner state, declared once. Allocation, growth, files, checks, copies and memory follow from the declaration.

A state is a NamedTuple of arrays, the form that compiled loops take. Each field declares its array:

    class Table(NamedTuple):
        rows: Annotated[Floats, Array("slots width", "real", aligned=True)]
        clock: Annotated[Ints, Array("3", "i8", within=(0, 2**53))]
        work: Annotated[Floats, Array("4 width", scratch=True)]

    table = new(Table, slots=0, width=8, real="f4")
    table = grow(table, slots=1000)             # returns the same object while it fits
    arrays = pack(table, "table", slots=seen)   # {"table.rows": ..., "table.clock": ...}: for a model file
    table = unpack(new(Table, slots=0, width=8, real="f4"), arrays, "table")

A shape is a list of names and numbers. Equal names stand for equal sizes in all arrays of a state, and sizes are read
from the arrays, so nothing else needs to be stored. If an axis has spare entries, ``used`` gives the part in use.
Nothing here runs while rows are learned; ``copier`` returns a function that is compiled into the loops.

A class that is no tuple declares attributes in the same way; a number is an array of shape "". ``grow``, ``resize`` and
``unpack`` then change the object in place. Fields without a declaration are constants: they are passed to ``new`` by
name, and neither saved nor changed.

States can be nested: an attribute declared as ``Annotated[Factor, Part()]`` is saved, filled and counted with its
owner. A state may describe itself further:

    free = ("slots",)                   # axes whose size a model file gives
    def used(self): ...                 # {"slots": 7}: the sizes in use, where axes have spare entries
    def check(self, prefix, **sizes)    # refuse what concerns more than one array, with the sizes of the free axes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays, named, require_within, take, under
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import aligned_zeros, load, store

S = TypeVar("S")
Range = tuple[float, float]

GROWTH = 8
"""A table that grows gets at least an eighth more rows. At most this share of its memory is spare."""


@dataclass(frozen=True)
class Array:
    """The declaration of one array of a state."""

    shape: str
    """Axes as names and numbers, such as "slots 3"."""
    dtype: str = "f8"
    """A NumPy dtype, or a name whose dtype is passed to ``new``."""
    start: float | tuple[float, ...] = 0.0
    """Initial value; a tuple fills the last axis."""
    within: Range | Mapping[Any, Range] = (-math.inf, math.inf)
    """Bounds for values from a file: of all values, or of ``array[key]`` by key. Floats must be finite in any case."""
    scratch: bool = False
    """Holds nothing between rounds, or follows from the other arrays: not saved."""
    borrowed: bool = False
    """Belongs to another object: empty when new, and not grown, saved, copied or counted."""
    aligned: bool = False
    """Rows start on cache lines."""

    @cached_property
    def axes(self) -> tuple[str | int, ...]:
        """The axes: names, and numbers."""
        return tuple(int(word) if word.isdigit() else word for word in self.shape.split())

    def make(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return a new array with the initial values."""
        dtype = np.dtype(dtype)
        made: NDArray[Any] = aligned_zeros(shape[0], shape[1], dtype) if self.aligned else np.zeros(shape, dtype)
        if self.start != 0.0:
            made[...] = self.start
        return made

    def check(self, array: NDArray[Any], name: str) -> None:
        """Raise ModelFileError for values out of bounds."""
        bounds = self.within if isinstance(self.within, Mapping) else {...: self.within}
        for key, (low, high) in bounds.items():
            if (low, high) != (-math.inf, math.inf):
                require_within(array[key], low, high, name)


@dataclass(frozen=True)
class Part:
    """The declaration of an attribute that is a state of its own, or None.

    If its class has the methods ``arrays()`` and ``restore(arrays)``, these are used.
    """

    free: tuple[str, ...] | None = None
    """Axes whose size a model file gives; left out, those of the class."""


@cache
def _notes(kind: Any) -> dict[str, Array | Part]:
    hints = get_type_hints(kind, include_extras=True).items()
    notes = {name: note for name, hint in hints for note in getattr(hint, "__metadata__", ())}
    return {name: note for name, note in notes.items() if isinstance(note, Array | Part)}


@cache
def declared(kind: Any) -> dict[str, Array]:
    """Return the declaration of each array of a state, in order."""
    found = {name: note for name, note in _notes(kind).items() if isinstance(note, Array)}
    return {name: found[name] for name in getattr(kind, "_fields", found) if name in found}


def _parts(state: Any) -> list[tuple[str, Part, Any]]:
    kind: Any = type(state)
    parts = [(name, note, getattr(state, name)) for name, note in _notes(kind).items() if isinstance(note, Part)]
    return [found for found in parts if found[2] is not None]


def _fields(state: Any) -> list[tuple[str, Array, NDArray[Any]]]:
    kind: Any = type(state)
    return [(name, array, np.asarray(getattr(state, name))) for name, array in declared(kind).items()]


def _with(state: Any, arrays: Mapping[str, Any]) -> Any:
    """Return a tuple with these arrays, or put them into an object."""
    if isinstance(state, tuple):
        return state._replace(**arrays)  # type: ignore[attr-defined]
    for name, array in arrays.items():
        setattr(state, name, array)
    return state


def new(kind: Any, **sizes: Any) -> Any:
    """Return a new state with these sizes. Names that stand for a dtype, and constants, are passed in the same way."""
    fields: tuple[str, ...] = getattr(kind, "_fields", ())
    made = {name: sizes[name] for name in fields if name not in declared(kind)}
    for name, array in declared(kind).items():
        shape = tuple(0 if array.borrowed else sizes[axis] if isinstance(axis, str) else axis for axis in array.axes)
        made[name] = array.make(shape, sizes.get(array.dtype, array.dtype))
    return kind(**made)


def sizes(state: Any) -> dict[str, int]:
    """Return the size of each named axis."""
    return {
        axis: length
        for _, array, held in _fields(state)
        if not array.borrowed
        for axis, length in zip(array.axes, held.shape, strict=True)
        if isinstance(axis, str)
    }


def grow(state: Any, **wanted: int) -> Any:
    """Return the state with at least these sizes: the same object if it has them, else a new one.

    The old tuple is not changed. Where an axis is too short it grows by at least an eighth.
    """
    have = sizes(state)
    short = {axis: max(n, have[axis] + have[axis] // GROWTH, 16) for axis, n in wanted.items() if n > have[axis]}
    return resize(state, **short) if short else state


def resize(state: Any, **lengths: int) -> Any:
    """Return the state with exactly these sizes; new entries have the initial values, those beyond them are dropped."""
    made = {}
    for name, array, held in _fields(state):
        if array.borrowed or not lengths.keys() & set(array.axes):
            continue
        shape = tuple(lengths.get(str(axis), n) for axis, n in zip(array.axes, held.shape, strict=True))
        made[name] = array.make(shape, held.dtype)
        made[name][tuple(map(slice, held.shape))] = held[tuple(map(slice, shape))]
    return _with(state, made)


def _part(array: Array, used: Mapping[str, int]) -> tuple[slice, ...]:
    """Return the index of the part of an array that is in use."""
    return tuple(slice(used.get(axis)) if isinstance(axis, str) else slice(None) for axis in array.axes)


def pack(state: Any, prefix: str = "", **used: int) -> Arrays:
    """Return the arrays that a model file stores, as ``prefix.field`` (``field`` if the prefix is empty).

    They are views of the parts in use of the persistent arrays: those of ``state.used()``, and of ``used``, which holds
    for nested states, too.
    """
    sizes_used = {**(state.used() if hasattr(state, "used") else {}), **used}
    arrays = {
        _joined(prefix, name): held[_part(array, sizes_used)]
        for name, array, held in _fields(state)
        if not (array.scratch or array.borrowed)
    }
    for name, _, part in _parts(state):
        arrays |= named(_joined(prefix, name), part.arrays() if hasattr(part, "arrays") else pack(part, "", **used))
    return arrays


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name.lstrip('_')}" if prefix else name.lstrip("_")


def unpack(state: S, arrays: Arrays, prefix: str = "", free: tuple[str, ...] | None = None) -> S:
    """Fill a new state with the result of ``pack``. Types, shapes and bounds are checked; errors are ModelFileErrors.

    The ``free`` axes, by default those of ``state.free``, take the sizes of the file, which must agree between arrays.
    The method ``check(prefix, **sizes)`` of the state, if it has one, is called last.
    """
    filled: dict[str, NDArray[Any]] = {}
    free = getattr(state, "free", ()) if free is None else free
    known: dict[str, int | None] = {**sizes(state), **dict.fromkeys(free)}
    for name, array, held in _fields(state):
        if array.scratch or array.borrowed:
            continue
        shape = tuple(known[axis] if isinstance(axis, str) else axis for axis in array.axes)
        filled[name] = taken = take(arrays, _joined(prefix, name), held.dtype, shape)
        array.check(taken, _joined(prefix, name))
        known.update({str(axis): n for axis, n in zip(array.axes, taken.shape, strict=True) if axis in free})
    lengths = {axis: known[axis] or 0 for axis in free}
    if isinstance(state, tuple):
        state = grow(state, **lengths)
        for name, taken in filled.items():
            getattr(state, name)[tuple(map(slice, taken.shape))] = taken
    else:
        _with(state, {name: taken if taken.ndim else taken.item() for name, taken in filled.items()})
    for name, note, part in _parts(state):
        if hasattr(part, "restore"):
            part.restore(under(_joined(prefix, name), arrays))
        else:
            setattr(state, name, unpack(part, arrays, _joined(prefix, name), note.free))
    if hasattr(state, "check"):
        state.check(prefix, **lengths)
    return state


def copy(state: S) -> S:
    """Return an independent copy of a tuple."""
    made = {}
    for name, array, held in _fields(state):
        if not array.borrowed:
            made[name] = array.make(held.shape, held.dtype)
            made[name][...] = held
    return _with(state, made)  # type: ignore[no-any-return]


def nbytes(state: Any) -> int:
    """Return the memory of all arrays in bytes, with that of nested states."""
    own = sum(held.nbytes for _, array, held in _fields(state) if not array.borrowed)
    return own + sum(nbytes(part) for _, _, part in _parts(state))


def copier(kind: type, axis: str, lanes: int = 4) -> Any:
    """Return a compiled ``copy(source, target, n)`` of the persistent arrays, with the first n entries of an axis.

    It compiles to straight code, since fields and shapes are known then. Squares (…, axis, axis) are copied as far as
    n rows and columns; other arrays whole. Arrays with the axis must be padded to multiples of ``lanes`` numbers.
    """
    every: Any = inlined(_nothing)
    for place, array in enumerate(declared(kind).values()):
        if not (array.scratch or array.borrowed):
            square = array.axes.count(axis) == 2
            every = _then(every, (_square_copier if square else _flat_copier)(place, array.axes[-1] == axis, lanes))
    return every


def _nothing(source, target, n):
    pass


def _then(first: Callable[..., Any], second: Callable[..., Any]) -> Any:
    def both(source, target, n):
        first(source, target, n)
        second(source, target, n)

    return inlined(both)


def _flat_copier(place: int, by_vectors: bool, lanes: int) -> Any:
    """Return a copy function for an array that is copied whole."""

    def vectors(source, target, n):
        for at in range(0, source[place].size, lanes):
            store(target[place], at, load(source[place], at, lanes))

    def numbers(source, target, n):
        for at in range(source[place].size):
            target[place][at] = source[place][at]

    return inlined(vectors if by_vectors else numbers)


def _square_copier(place: int, by_vectors: bool, lanes: int) -> Any:
    """Return a copy function for a stack of squares (…, axis, axis): the first n rows and columns of each."""

    def squares(source, target, n):
        stride = source[place].shape[2]
        for square in range(source[place].shape[0]):
            for i in range(square * stride, square * stride + min(n, stride)):
                for at in range(i * stride, i * stride + min(n, stride), lanes):
                    store(target[place], at, load(source[place], at, lanes))

    return inner(squares)
