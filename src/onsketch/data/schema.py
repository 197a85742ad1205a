"""The schema of a table: what each column is, decided once, kept in the model, found again in later files by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, ModelFileError, some
from onsketch.data.hashing import column_mask, hash_name
from onsketch.data.separated import CATEGORICAL, IGNORED, LABEL, NUMERIC, TAG, WEIGHT

KINDS = {"number": NUMERIC, "category": CATEGORICAL, "label": LABEL, "weight": WEIGHT, "tag": TAG, "ignored": IGNORED}
"""What a column may be, and how the compiled parser calls it."""

_FEATURES = ("number", "category")
_ABSENT_WHEN_PREDICTING = ("label", "weight", "tag", "ignored")


@dataclass(frozen=True)
class Field:
    """One column."""

    name: str
    kind: str
    why: str = ""
    """How its kind was decided, where that is worth telling."""
    words: bool = False
    """Whether most of its values were words."""


@dataclass(frozen=True)
class Schema:
    """The columns of a table in the order of the first file, and how its text is to be read."""

    fields: tuple[Field, ...]
    header: bool = True
    delimiter: str = ","
    decimal: str = "."
    word_labels: bool = False
    """Whether labels are words (classes by name), not numbers."""
    gaps: bool = False
    """Whether numbers were missing in the first rows, so that rows are sparse from the start."""

    @property
    def dense(self) -> bool:
        """No categories and no gaps: X is dense, with the numbers in the order of the first file."""
        return not self.gaps and not self.hashed

    @property
    def hashed(self) -> bool:
        """With categories all columns are hashed."""
        return any(field.kind == "category" for field in self.fields)

    def state(self) -> dict[str, Any]:
        """As JSON can hold it; ``Schema.from_state(state)`` is the same schema."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Schema:
        """The schema that ``state`` described.

        >>> one = Schema((Field("age", "number"), Field("y", "label")))
        >>> Schema.from_state(one.state()) == one
        True
        """
        try:
            fields = tuple(Field(**field) for field in state["fields"])
            schema = cls(**{**state, "fields": fields})
        except (KeyError, TypeError) as error:
            raise ModelFileError(f"its schema of columns cannot be read ({error}).", "schema") from None
        words = [word for one in fields for word in (one.name, one.kind, one.why)] + [schema.delimiter, schema.decimal]
        flags = [one.words for one in fields] + [schema.header, schema.word_labels, schema.gaps]
        fits = all(type(word) is str for word in words) and all(type(flag) is bool for flag in flags)
        if not fits or len(schema.delimiter.encode()) != 1 or schema.decimal not in (".", ","):
            raise ModelFileError("its schema of columns is not one.", "schema")
        if any(field.kind not in KINDS for field in fields):
            raise ModelFileError("its schema names a kind of column that this version does not know.", "schema")
        return schema

    def of(self, kind: str) -> list[Field]:
        """The columns of a kind."""
        return [field for field in self.fields if field.kind == kind]


@dataclass(frozen=True)
class Columns:
    """A schema as it applies to one file, whose columns may come in another order."""

    names: tuple[str, ...]
    kinds: NDArray[np.uint8]
    slots: NDArray[np.int64]
    """The column of X for each number: its place among the features, or its hash."""
    absent: NDArray[np.int64]
    """The column of X that says that a value is missing."""
    dense: bool
    """X is dense, with the features in the order of the schema."""
    width: int
    extra: tuple[str, ...] = ()
    """Columns that the schema does not know; they are left out."""

    @property
    def features(self) -> dict[int, str]:
        """Names of the columns of X that are known beforehand."""
        numbers = np.flatnonzero(self.kinds == NUMERIC)
        return {int(self.slots[k]): self.names[k] for k in numbers}

    @property
    def gap_names(self) -> dict[int, str]:
        """Names of the columns of X that stand for missing values."""
        features = np.flatnonzero((self.kinds == NUMERIC) | (self.kinds == CATEGORICAL))
        return {int(self.absent[k]): f"{self.names[k]} is missing" for k in features}


def fitted(schema: Schema, path: str, names: Sequence[str], bits: int, unlabelled: bool) -> Columns:
    """The columns of a file with these names, each found in the schema.

    A column of features that is not there is an error, one that the schema does not know is left out. Where files
    have no header, columns are known by their places.
    """
    wanted: dict[str, list[Field]] = {}
    for field in schema.fields:
        wanted.setdefault(field.name, []).append(field)
    if not schema.header:
        names = _places(schema, path, names, unlabelled)
    place = {(field.name, id(field)): k for k, field in enumerate(schema.of("number"))}
    numbers, kinds, slots, absent, extra = len(place), [], [], [], []
    mask, hashed = column_mask(bits), schema.hashed
    for name in names:
        here = wanted[name].pop(0) if wanted.get(name) else None
        if here is None:
            extra.append(name)
        kinds.append(IGNORED if here is None else KINDS[here.kind])
        is_feature = here is not None and here.kind in _FEATURES
        if hashed:
            slots.append(hash_name(name, bits=bits) if is_feature else 0)
            absent.append(hash_name(f"{name}=", bits=bits) if is_feature else 0)
        else:
            slots.append(place[name, id(here)] if is_feature else 0)
            absent.append(numbers + slots[-1])
    gone = [field for fields in wanted.values() for field in fields]
    optional = _ABSENT_WHEN_PREDICTING if unlabelled else ("ignored",)
    needed = [field.name for field in gone if field.kind not in optional]
    if needed:
        columns, are, were = ("columns", "are", "were") if len(needed) > 1 else ("column", "is", "was")
        raise InputError(
            f"{path}: the {columns} {some([*map(repr, needed)], 5)} {are} not there, but {were} in the first file or "
            f"when the model was trained. Its columns are {some(names)}."
        )
    return Columns(
        tuple(names),
        np.array(kinds, dtype=np.uint8),
        np.array(slots, dtype=np.int64),
        np.array(absent, dtype=np.int64),
        schema.dense,
        mask + 1 if hashed else numbers if schema.dense else 2 * numbers,
        tuple(extra),
    )


def _places(schema: Schema, path: str, names: Sequence[str], unlabelled: bool) -> list[str]:
    """The names of the schema for a file without a header, whose label may be missing when predicting."""
    fields = list(schema.fields)
    if unlabelled and len(names) < len(fields):
        fields = [field for field in fields if field.kind != "label"]
    if len(names) != len(fields):
        raise InputError(
            f"{path}: {len(names)} columns, where the first file, or that of the training, had {len(schema.fields)}."
        )
    return [field.name for field in fields]


def without_label(schema: Schema) -> Schema:
    """The same schema for a file said to have no label: its column is unknown then."""
    kept = tuple(replace(field, kind="ignored") if field.kind == "label" else field for field in schema.fields)
    return replace(schema, fields=kept)
