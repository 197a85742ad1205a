"""State as a flat dictionary of arrays, and back: what model files hold.

``packed(thing)`` walks through arrays, numbers, sets of whole numbers, named tuples and objects with attributes;
``restored(thing, arrays)`` walks the same way through a *freshly built* thing and fills it, so that a file can only
supply numbers for places that exist, of their type and shape. What is neither (names, functions, options) must come
from building the thing; and so must numbers named in a class's ``fixed``, which a file may only repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import ModelFileError

Arrays = dict[str, NDArray[Any]]


def packed(thing: Any, prefix: str = "") -> Arrays:
    """The numbers in a thing, by dotted name.

    >>> from onsketch.sketch import Diagonal
    >>> packed(Diagonal(2).update([[1.0, 2.0]]))
    {'n_features': array(2), 'n_rows': array(1), '_energy': array([1., 4.])}
    """
    if isinstance(thing, np.ndarray):
        return {prefix: thing}
    if isinstance(thing, (bool, int, float)):
        return {prefix: np.asarray(thing)}
    if isinstance(thing, set):
        return {prefix: np.array(sorted(thing), dtype=np.int64)}
    return {name: array for part, value in _parts(thing) for name, array in packed(value, _join(prefix, part)).items()}


def restored(thing: Any, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Any:
    """The thing with the numbers of ``arrays`` in it: objects are filled in place, the rest is made anew.

    An axis on which the fresh array has no entries yet may come with any length; the others must fit.
    """
    if isinstance(thing, np.ndarray):
        return _fitting(prefix, arrays, thing.dtype, thing.shape)
    if isinstance(thing, (bool, int, float)):
        return type(thing)(_fitting(prefix, arrays, np.asarray(thing).dtype, ()))
    if isinstance(thing, set):
        return {int(number) for number in _fitting(prefix, arrays, np.dtype(np.int64), (0,))}
    fixed = getattr(thing, "fixed", ())
    for part, value in _parts(thing):
        if part in fixed:
            _check_same(packed(value, _join(prefix, part)), arrays)
    values = {part: restored(value, arrays, _join(prefix, part)) for part, value in _parts(thing) if part not in fixed}
    if isinstance(thing, tuple):
        return thing._replace(**values)  # type: ignore[attr-defined]
    vars(thing).update(values)
    return thing


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays whose names begin with ``prefix.``, without it."""
    return {name.removeprefix(prefix + "."): array for name, array in arrays.items() if name.startswith(prefix + ".")}


def named(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """The arrays with ``prefix.`` before their names."""
    return {_join(prefix, name): array for name, array in arrays.items()}


def take(arrays: Mapping[str, NDArray[Any]], name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """The array of this name, which must have this type and shape (None: any length)."""
    free = tuple(0 if length is None else length for length in shape)
    array: NDArray[Any] = _fitting(name, arrays, np.dtype(dtype), free)
    return array


def require(fits: Any, what: str, field: str | None = None) -> None:
    """Refuse a file whose numbers contradict each other: what is wrong, and with which array."""
    if not fits:
        named = "" if field is None or field in what else f" ({field})"
        raise ModelFileError(f"the model file is damaged: {what}{named}.", field)


def require_within(array: Any, low: float, high: float, field: str) -> None:
    """Refuse numbers outside of low … high."""
    numbers = np.asarray(array)
    if numbers.size and not (numbers.min() >= low and numbers.max() <= high):  # NaN is not
        require(False, f"{field} has a number outside of {low:g} to {high:g}", field)


def require_lengths(rows: NDArray[Any], longest: float, field: str) -> None:
    """Refuse rows that are longer: the square of a length is summed up wherever rows meet."""
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rows / longest, axis=1)
    require_within(lengths, 0.0, 1.0, field)


def require_room(wanted: int, arrays: Mapping[str, NDArray[Any]], field: str) -> None:
    """Refuse to build what takes far more memory than the file has content: nothing so large was ever saved in it."""
    held = sum(array.nbytes for array in arrays.values())
    require(
        wanted <= 8 * held + _ALWAYS_GRANTED,
        f"its {field} asks for {wanted / 1e6:,.0f} MB of memory, and the file holds {held / 1e6:,.3g} MB",
        field,
    )


LONGEST_COUNT = 1 << 53
"""Rounds, and whatever else is counted: as far as float64 counts without a gap."""

_ALWAYS_GRANTED = 1 << 25
"""Bytes that building something may take, whatever the file."""


def _check_same(fresh: Arrays, arrays: Mapping[str, NDArray[Any]]) -> None:
    for name, array in fresh.items():
        require(name in arrays and np.array_equal(arrays[name], array), f"{name} is not what the header says", name)


def _parts(thing: Any) -> list[tuple[str, Any]]:
    items = thing._asdict() if hasattr(thing, "_asdict") else vars(thing)
    scratch = getattr(thing, "scratch", ()) if isinstance(thing, tuple) else ()
    return [(name, value) for name, value in items.items() if _has_numbers(value) and name not in scratch]


def _has_numbers(value: Any) -> bool:
    if isinstance(value, (np.ndarray, bool, int, float, set)):
        return True
    is_named_tuple = isinstance(value, tuple) and hasattr(value, "_asdict")
    return is_named_tuple or (hasattr(value, "__dict__") and not callable(value))


def _fitting(name: str, arrays: Mapping[str, NDArray[Any]], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    require(name in arrays, f"it has no {name}", name)
    array = arrays[name]
    require(array.dtype == dtype, f"{name} is {array.dtype} and should be {dtype}", name)
    same = array.ndim == len(shape) and all(want in (0, have) for want, have in zip(shape, array.shape, strict=False))
    require(same, f"{name} has shape {array.shape} and should have {shape}", name)
    require(dtype.kind != "f" or np.isfinite(array).all(), f"{name} is not finite", name)
    return array.copy()


def _join(prefix: str, part: str) -> str:
    return f"{prefix}.{part}" if prefix else part
