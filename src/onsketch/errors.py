"""The errors a user may meet; they live in ``onsketch.core.errors``."""

from onsketch.core.errors import InputError, ModelFileError, OnsketchError, OptionError, ReadError, UpdateError

__all__ = ["InputError", "ModelFileError", "OnsketchError", "OptionError", "ReadError", "UpdateError"]
