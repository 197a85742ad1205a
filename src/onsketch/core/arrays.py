"""Arrays of model files by dotted names, and the checks that refuse what no learner or sketch has written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import ModelFileError

Arrays = dict[str, NDArray[Any]]


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the arrays whose names begin with ``prefix.``, without the prefix."""
    return {name.removeprefix(prefix + "."): array for name, array in arrays.items() if name.startswith(prefix + ".")}


def named(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the arrays with ``prefix.`` before their names."""
    return {f"{prefix}.{name}" if prefix else name: array for name, array in arrays.items()}


def take(arrays: Mapping[str, NDArray[Any]], name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return a copy of the array of this name, which must have this type and shape (None: any length) and be finite."""
    require(name in arrays, f"it has no {name}", name)
    array, wanted = arrays[name], np.dtype(dtype)
    require(array.dtype == wanted, f"{name} is {array.dtype} and should be {wanted}", name)
    same = array.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
    require(same, f"{name} has shape {array.shape} and should have {_words(shape)}", name)
    require(wanted.kind != "f" or np.isfinite(array).all(), f"{name} is not finite", name)
    return array.copy()


def _words(shape: tuple[int | None, ...]) -> str:
    return f"({', '.join('any' if length is None else str(length) for length in shape)})"


def require(fits: Any, what: str, field: str | None = None) -> None:
    """Raise ModelFileError unless the condition holds, saying what is wrong and with which array."""
    if not fits:
        named = "" if field is None or field in what else f" ({field})"
        raise ModelFileError(f"the model file is damaged: {what}{named}.", field)


def require_within(array: Any, low: float, high: float, field: str) -> None:
    """Raise ModelFileError for numbers outside of low … high."""
    numbers = np.asarray(array)
    if numbers.size and not (numbers.min() >= low and numbers.max() <= high):  # NaN is not
        require(False, f"{field} has a number outside of {low:g} to {high:g}", field)


def require_lengths(rows: NDArray[Any], longest: float, field: str) -> None:
    """Raise ModelFileError for rows longer than ``longest``: inner products of rows sum their squares."""
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rows / longest, axis=1)
    require_within(lengths, 0.0, 1.0, field)


def require_room(wanted: int, arrays: Mapping[str, NDArray[Any]], field: str) -> None:
    """Raise ModelFileError for sizes that take far more memory than the file has content."""
    held = sum(array.nbytes for array in arrays.values())
    require(
        wanted <= 8 * held + _ALWAYS_GRANTED,
        f"its {field} asks for {wanted / 1e6:,.0f} MB of memory, and the file holds {held / 1e6:,.3g} MB",
        field,
    )


LONGEST_COUNT = 1 << 53
"""Upper bound of rounds and other counts: the largest float64 without gaps between integers."""

_ALWAYS_GRANTED = 1 << 25
"""Bytes that building a learner from any file may allocate."""
