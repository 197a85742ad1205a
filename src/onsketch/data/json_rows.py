"""Features, label, weight and tag of JSON objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from onsketch.core.errors import InputError, shown
from onsketch.data.columns import LABEL_NAMES
from onsketch.rows.encoder import Encoder
from onsketch.rows.hashing import DEFAULT_BITS
from onsketch.rows.schema import Schema
from onsketch.rows.sparse import Sparse

ENVELOPE = ("label", "weight", "tag")
"""Keys next to ``features`` in an envelope object."""
_WHOLE = {*ENVELOPE, "features"}
_COMMON = {*_WHOLE, None, "auto"}
"""Values of the options that do not ask for another key."""
_LABELS = {"".join(letters) for name in LABEL_NAMES for letters in product(*((c, c.upper()) for c in name))}
"""Usual names of labels in any case."""


class Example(NamedTuple):
    """Parts of a JSON object."""

    features: Any
    """Object, or list of numbers."""
    label: Any
    """Number or word; None if there is none."""
    weight: Any
    tag: Any


def example(row: Any, label: str | None = "auto", weight: str | None = None, tag: str | None = None) -> Example:
    """Return the features, label, weight and tag of an object.

    An object is an envelope if it has no other keys than those of ``{"features": {...}, "label": 1, "weight": 2,
    "tag": "a"}`` and no option asks for another one. Any other object is flat: each key is a feature, ``features`` too.

    Args:
        row: an envelope, as the service takes it, or a flat object, which may also have VW's keys ``_label``,
            ``_weight`` and ``_tag``.
        label: the label's name in a flat object; "auto" is ``_label``, else the one named label, target, y or class.
        weight: the name of the sample weight in a flat object.
        tag: the name of the tag in a flat object.

    >>> example({"features": {"age": 3}, "label": 1})
    Example(features={'age': 3}, label=1, weight=None, tag=None)
    >>> example({"age": 3, "target": "yes"})
    Example(features={'age': 3}, label='yes', weight=None, tag=None)
    """
    keys = roles_of(row, label, weight, tag)
    if keys is ENVELOPE:
        return Example(row["features"], *map(row.get, keys))
    features = dict(row)
    return Example(features, *[features.pop(name, None) for name in keys])


def roles_of(
    row: Any, label: str | None = "auto", weight: str | None = None, tag: str | None = None
) -> tuple[str | None, str, str]:
    """Return the keys of label, weight and tag in an object; ``ENVELOPE`` for an envelope."""
    if not isinstance(row, (dict, Mapping)):
        raise InputError(f"expected an object, found {shown(row)}.")
    plain = row.keys() <= _WHOLE and {label, weight, tag} <= _COMMON
    if plain and isinstance(row.get("features"), (dict, list, Mapping)):
        return ENVELOPE
    return _label_name(row, label), weight or "_weight", tag or "_tag"


def _label_name(row: Mapping[str, Any], label: str | None) -> str | None:
    if label != "auto":
        return label
    if "_label" in row:
        return "_label"
    found = list(row.keys() & _LABELS)
    if len(found) > 1:
        found = [name for name in row if name in found]
        raise InputError(f"{' and '.join(map(repr, found))} may both be the label; say which.")
    return found[0] if found else None


def rows_of(objects: Sequence[Any], bits: int = DEFAULT_BITS) -> Sparse:
    """Return objects as rows without a schema: each value has the kind it looks like. An error names the bad row.

    >>> rows_of([{"a": 1, "b": 0}, {"b": 2.5}]).data.tolist()
    [1.0, 2.5]
    """
    rows = Encoder(Schema(extra="learn"), bits).objects(objects)
    assert isinstance(rows, Sparse)
    return rows
