"""Errors for users. Each names the input or option and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


class OnsketchError(ValueError):
    """Base of the errors raised for input, options and states that cannot be used.

    ``options`` are those that the message names, with their values: a tuple where it names several values of one, an
    ellipsis where it leaves the value open. An interface that spells options in another form, such as the command line,
    gets its message from :meth:`spelled`.

    >>> error = OptionError("bits=40: a hashed column has 1 to 31 bits.", bits=40, names=True)
    >>> error.options, error.spelled(lambda name, value: f"--{name} {value}")
    ({'bits': 40}, '--bits 40: a hashed column has 1 to 31 bits.')
    """

    def __init__(self, message: object = "", /, **options: Any) -> None:
        super().__init__(message)
        self.options: dict[str, Any] = {}
        for name, values in options.items():
            if any(text in str(message) for _, text in _spellings(name, values)):
                self.options[name] = values

    def spelled(self, write: Callable[[str, Any], str]) -> str:
        """Return the message with each option as ``write(name, value)`` spells it."""
        message = str(self)
        for name, values in self.options.items():
            for value, text in _spellings(name, values):
                message = message.replace(text, write(name, value))
        return message


def _spellings(name: str, values: Any) -> Iterator[tuple[Any, str]]:
    """Yield each value of an option with the forms in which messages write it, the longest first."""
    for value in (values, *values) if isinstance(values, tuple) else (values,):
        forms = {f"{value!r}", f'"{value}"', f"{value}", *([f"{value:g}", f"{value:,}"] if _is_number(value) else [])}
        for form in ["..."] if value is ... else sorted(forms, key=len, reverse=True):
            yield value, f"{name}={form}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


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
    """Invalid data in a file. The rows before it have been delivered.

    ``path`` names the file, ``line`` and ``column`` (both from 1, None where they do not apply) the position,
    and ``reason`` the problem.
    """

    def __init__(self, path: str, line: int | None, column: int | None, reason: str, **options: Any) -> None:
        place = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{place}: {reason}", **options)
        self.path = path
        self.line = line
        self.column = column
        self.reason = reason

    def __reduce__(self) -> tuple[type[ReadError], tuple[str, int | None, int | None, str], dict[str, Any]]:
        return type(self), (self.path, self.line, self.column, self.reason), vars(self)


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


def suggestion(name: object, known: Iterable[str]) -> str:
    """A question to append to a message about a name that is not known; empty where nothing is close.

    >>> suggestion("rdf-son", ["rfd-son", "adagrad"]), suggestion("x", ["adagrad"])
    (" Did you mean 'rfd-son'?", '')
    """
    close = meant(name, known) if isinstance(name, str) else None
    return f" Did you mean {close!r}?" if close else ""


def meant(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that was probably meant: one in another case, or else a similar one."""
    from difflib import get_close_matches

    known = list(known)
    same = [one for one in known if one.casefold() == name.casefold()]
    return next(iter(same or get_close_matches(name, known, 1, cutoff)), None)
