"""Records in the notes of model files: declared by type, and checked by msgspec when a file is read."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Self, TypeVar

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from onsketch.core.arrays import LONGEST_COUNT
from onsketch.core.errors import ModelFileError

T = TypeVar("T")

_MOST = sys.float_info.max
Count = Annotated[int, Meta(ge=0, le=LONGEST_COUNT)]
Number = Annotated[float, Meta(ge=-_MOST, le=_MOST)]
Weight = Annotated[float, Meta(ge=0.0, le=_MOST)]


class Note(Struct, forbid_unknown_fields=True):
    """A record in the notes of a model file.

    It refuses unknown fields, other types than declared, and numbers out of bounds.
    Sums of losses may have overflowed, so that they have no bounds; all other numbers are finite.
    """

    @classmethod
    def of(cls, thing: Any, **given: Any) -> Self:
        """Take the fields from the attributes of an object, except those given."""
        names = (name for name in cls.__struct_fields__ if name not in given and hasattr(thing, name))
        return cls(**{name: getattr(thing, name) for name in names}, **given)

    def hand(self, thing: Any, *names: str) -> None:
        """Set the attributes of these names of an object."""
        for name in names:
            setattr(thing, name, getattr(self, name))

    def state(self) -> dict[str, Any]:
        """Return values that JSON can hold; a part that is no record is asked for its own state."""
        found: dict[str, Any] = to_builtins(self, str_keys=True, enc_hook=lambda part: part.state())
        return found


def converted(state: Any, kind: type[T], field: str = "notes", path: str | None = None) -> T:
    """Return JSON values as an object of this type; a ModelFileError names missing or malformed entries."""
    try:
        return convert(state, kind, str_keys=True)
    except ValidationError as error:
        reason, _, place = str(error).partition(" - at `")
        field += place.rstrip("`").removeprefix("$")
        raise ModelFileError(f"{field}: {reason}", field, path) from None
