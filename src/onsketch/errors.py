"""The errors a user may meet, each saying which input or option, and what to do."""

from __future__ import annotations


class OnsketchError(ValueError):
    """Base of the errors raised for input, options and states that cannot be used."""


class InputError(OnsketchError):
    """The data cannot be learned from: not finite, wrong shape, a label the loss cannot take."""


class OptionError(OnsketchError):
    """An option that does not exist, has an impossible value, or does not concern the method."""


class UpdateError(OnsketchError):
    """A round whose update would not be finite. The rows before it have been learned, it has not.

    ``row`` is its position in the block, ``predictions`` are those of the rows before it.
    """

    def __init__(self, message: str, row: int, predictions: object = None) -> None:
        super().__init__(message)
        self.row = row
        self.predictions = predictions


class ModelFileError(OnsketchError):
    """A model file that cannot be used: foreign, truncated, altered, or written by a newer version."""
