"""The bodies of requests, decoded and checked by their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from onsketch.core.errors import InputError
from onsketch.jobs.serve.limits import LONGEST_TAG

Tag = Annotated[str, msgspec.Meta(max_length=LONGEST_TAG)]
Features = dict[str, Any] | list[Any] | str


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """A row to predict or to learn."""

    features: Features
    """Names to numbers or words, objects as namespaces; a list of numbers; or a VW line without a label."""
    label: Any = None
    weight: float | None = None
    id: str | int | None = None
    tag: Tag | None = None


class Label(msgspec.Struct, forbid_unknown_fields=True):
    """A label that arrives after its row was predicted."""

    id: str | int
    label: Any
    weight: float | None = None


_ROWS = msgspec.json.Decoder(Row | list[Row])
_ROW = msgspec.json.Decoder(Row)
_LABELS = msgspec.json.Decoder(Label | list[Label])
_UNREADABLE = msgspec.DecodeError, UnicodeDecodeError, RecursionError


class Bad(InputError):
    """A body that cannot be understood."""


def rows_of_body(body: bytes, ndjson: bool) -> tuple[list[Row], bool]:
    """Return the rows of a body, and True if it is one row and not a list."""
    try:
        return _decoded(_ROW.decode_lines if ndjson else _ROWS.decode, body)
    except Bad as error:
        raise Bad(f"{error}{_remedy(body, ndjson)}") from None


def labels_of_body(body: bytes) -> tuple[list[Label], bool]:
    """Return the labels of a body with the ids of their rows, and True if it is one label and not a list."""
    return _decoded(_LABELS.decode, body)


def _decoded(decode: Callable[[bytes], Any], body: bytes) -> tuple[list[Any], bool]:
    try:
        found = decode(body)
    except _UNREADABLE as error:  # msgspec names the place as ``$[2].features``
        raise Bad(f"not a body of this kind: {str(error) or type(error).__name__}") from None
    return (found, False) if isinstance(found, list) else ([found], True)


def _remedy(body: bytes, ndjson: bool) -> str:
    """Return the body to send in place of one whose first row has its features at the top; empty for other bodies.

    >>> _remedy(b'{"age": 31, "label": 1}', False)
    '. Features go into "features": send {"features":{"age":31},"label":1}'
    """
    try:
        found = msgspec.json.decode(body.split(b"\n", 1)[0] if ndjson else body)
    except _UNREADABLE:
        return ""
    row = found[0] if isinstance(found, list) and found else found
    if not isinstance(row, dict) or "features" in row or not row:
        return ""
    own = {name: row.pop(name) for name in Row.__struct_fields__ if name in row}
    text = msgspec.json.encode({"features": row, **own}).decode()
    return f'. Features go into "features": send {text if len(text) <= _LONGEST else text[:_LONGEST] + "…"}'


_LONGEST = 300
"""Characters of a body that an answer shows."""
