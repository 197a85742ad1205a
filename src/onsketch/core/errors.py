"""The errors a user may meet, each saying which input or option, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class OnsketchError(ValueError):
    """Base of the errors raised for input, options and states that cannot be used."""


class InputError(OnsketchError):
    """The data cannot be learned from: not finite, wrong shape, a label the loss cannot take."""


class OptionError(OnsketchError):
    """An option that does not exist, has an impossible value, or does not concern the method."""


class UpdateError(OnsketchError):
    """A round whose update would not be finite. The rows before it have been learned, it has not.

    ``row`` is its position in the block, ``predictions`` are those of the rows before it, ``where`` names the learner.
    """

    def __init__(self, where: str, row: int, predictions: object = None) -> None:
        super().__init__(
            f"row {row}: its update would not be finite ({where}). Rescale the features, raise ridge or lower "
            f"step_size. The {row} rows before it have been learned, this one has not."
        )
        self.where = where
        self.row = row
        self.predictions = predictions

    def __reduce__(self) -> tuple[type[UpdateError], tuple[str, int, object]]:
        return type(self), (self.where, self.row, self.predictions)


class ModelFileError(OnsketchError):
    """A model file that cannot be used: foreign, truncated, altered, or written by a newer version.

    ``path`` names the file and ``field`` what in it is at fault, as far as that is known.
    """

    def __init__(self, reason: str, field: str | None = None, path: str | None = None) -> None:
        super().__init__(reason if path is None else f"{path}: {reason}")
        self.reason = reason
        self.field = field
        self.path = path

    def __reduce__(self) -> tuple[type[ModelFileError], tuple[str, str | None, str | None]]:
        return type(self), (self.reason, self.field, self.path)


class ReadError(InputError):
    """Something in a file that cannot be read. The rows before it have been delivered, it has not.

    ``path`` names the file, ``line`` and ``column`` (both from 1, None where they mean nothing) the place,
    and ``reason`` says what is wrong.
    """

    def __init__(self, path: str, line: int | None, column: int | None, reason: str) -> None:
        place = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{place}: {reason}")
        self.path = path
        self.line = line
        self.column = column
        self.reason = reason

    def __reduce__(self) -> tuple[type[ReadError], tuple[str, int | None, int | None, str]]:
        return type(self), (self.path, self.line, self.column, self.reason)


def some(names: Sequence[str], most: int = 8) -> str:
    """The first of the names, for a message.

    >>> some("abc", 2)
    'a, b, ...'
    """
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def shown(value: object) -> str:
    """A value as a message shows it, at most 40 characters long."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def meant(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Which of the names known was probably meant."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, 1, cutoff)), None)
