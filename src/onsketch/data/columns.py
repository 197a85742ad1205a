"""What each column of a table is: label, weight, tag, number, category, or nothing. For CSV, Parquet and Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError
from onsketch.data.hashing import column_mask, hash_name
from onsketch.data.separated import CATEGORICAL, IGNORED, LABEL, NUMERIC, TAG, WEIGHT

Column = str | int

LABEL_NAMES = ("label", "target", "y", "class")
"""Columns taken for the label where none is named, whatever their case."""


@dataclass(frozen=True)
class Roles:
    """The options that say what columns are."""

    label: Column | None = "auto"
    weight: Column | None = None
    tag: Column | None = None
    ignore: tuple[Column, ...] = ()
    categorical: str | tuple[Column, ...] = "auto"
    positive: str | None = None
    missing: str = "error"
    unlabelled: bool = False
    """Whether the columns of label, weight and tag may be absent, and labels missing: to predict."""

    def __post_init__(self) -> None:
        if self.missing not in ("error", "zero"):
            raise OptionError(f'missing={self.missing!r}: it is "error" or "zero".')


@dataclass(frozen=True)
class Columns:
    """The columns of a table, once its first line (or schema) is known."""

    names: tuple[str, ...]
    kinds: NDArray[np.uint8]
    slots: NDArray[np.int64]
    """The column of X for each number: its place among the features, or its hash."""
    dense: bool
    """No categories: X is dense, with the features in the order of the file."""
    width: int

    @property
    def features(self) -> dict[int, str]:
        """Names of the columns of X that are known beforehand."""
        numbers = np.flatnonzero(self.kinds == NUMERIC)
        return {int(self.slots[k]): self.names[k] for k in numbers}


def find_columns(path: str, names: Sequence[str], wordy: Sequence[bool], roles: Roles, bits: int) -> Columns:
    """Decide what each column is; ``wordy`` tells those that hold words."""
    kinds = np.full(len(names), NUMERIC, dtype=np.uint8)
    if roles.categorical == "auto":
        kinds[np.flatnonzero(wordy)] = CATEGORICAL
    else:
        kinds[[_place(path, names, name, "categorical") for name in roles.categorical]] = CATEGORICAL
    kinds[[_place(path, names, name, "ignore") for name in roles.ignore]] = IGNORED
    for option, kind, column in (("weight", WEIGHT, roles.weight), ("tag", TAG, roles.tag)):
        if column is not None and not (roles.unlabelled and _absent(column, names)):
            kinds[_place(path, names, column, option)] = kind
    label = roles.label
    if label == "none" and "none" not in names:  # what a command line can give
        label = None
    if roles.unlabelled and label is not None and _absent(label, names):
        label = label if label == "auto" and any(name.lower() in LABEL_NAMES for name in names) else None
    if label == "auto":
        found = [
            k for k, name in enumerate(names) if name.lower() in LABEL_NAMES and kinds[k] in (NUMERIC, CATEGORICAL)
        ]
        if len(found) != 1:
            shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            which = "no column is" if not found else "several columns are"
            raise InputError(
                f"{path}: {which} named {', '.join(LABEL_NAMES[:-1])} or {LABEL_NAMES[-1]}. Give the label's name or "
                f"place: label=... (-1 for the last column, none for no label). The columns are: {shown}."
            )
        label = found[0]
    if label is not None:
        place = _place(path, names, label, "label")
        if kinds[place] in (WEIGHT, TAG, IGNORED):
            raise OptionError(f"{path}: column {names[place]!r} cannot be the label and something else too.")
        kinds[place] = LABEL
    dense = not (kinds == CATEGORICAL).any()
    numbers = np.flatnonzero(kinds == NUMERIC)
    if not numbers.size and dense:
        raise InputError(f"{path}: no column is left for features.")
    slots = np.zeros(len(names), dtype=np.int64)
    slots[numbers] = np.arange(numbers.size) if dense else [hash_name(names[int(k)], bits=bits) for k in numbers]
    width = numbers.size if dense else column_mask(bits) + 1
    return Columns(tuple(names), kinds, slots, dense, int(width))


def as_columns(columns: Column | Iterable[Column]) -> tuple[Column, ...]:
    """One column or several, as a tuple."""
    return (columns,) if isinstance(columns, str | int) else tuple(columns)


def _absent(column: Column, names: Sequence[str]) -> bool:
    """Whether there is no column of this name; a place is always meant."""
    return isinstance(column, str) and column not in names and not _is_place(column)


def _is_place(column: str) -> bool:
    """Whether this is a number, which is all a command line can give."""
    return column.lstrip("-").isdigit()


def _place(path: str, names: Sequence[str], column: Column, option: str) -> int:
    """The place of a column given by name or by place, from the end where negative."""
    if isinstance(column, str):
        found = [k for k, name in enumerate(names) if name == column]
        if len(found) > 1:
            raise InputError(f"{path}: {option}={column!r}: {len(found)} columns have this name; give its place.")
        if found:
            return found[0]
        if _is_place(column):
            return _place(path, names, int(column), option)
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise InputError(f"{path}: {option}={column!r}: there is no such column. The columns are: {shown}.")
    if not -len(names) <= column < len(names):
        hint = " If there is no label, say so: label='none' (--label none)." if option == "label" else ""
        raise InputError(f"{path}: {option}={column}: the file has {len(names)} columns, counted from 0.{hint}")
    return column % len(names)
