"""Sketches as model files: the arguments that made the sketch in the header, its numbers as arrays."""

from __future__ import annotations

import inspect
import os
from typing import Any

from onsketch import sketches as sketch
from onsketch.core.errors import ModelFileError, OnsketchError
from onsketch.files import model_file
from onsketch.files.arrays import packed, restored
from onsketch.sketches.base import Sketch


def save_sketch(thing: Sketch, path: str | os.PathLike[str]) -> None:
    """Write a sketch to a file."""
    model_file.write(path, "sketch", {"class": type(thing).__name__, "arguments": arguments(thing)}, packed(thing))


def from_file(content: model_file.Content) -> Sketch:
    """The sketch that a model file describes."""
    try:
        name, given = content.header["class"], content.header["arguments"]
        if name not in sketch.__all__ or not issubclass(getattr(sketch, name), Sketch):
            raise ModelFileError(f"it holds a sketch {name!r}, which this version does not know.")
        fresh = getattr(sketch, name)(**given)
    except (KeyError, TypeError, OnsketchError) as error:
        raise ModelFileError(f"its header does not describe a sketch ({error}).") from None
    filled: Sketch = restored(fresh, content.arrays)
    return filled


def arguments(thing: Sketch) -> dict[str, Any]:
    """The arguments with which this sketch was made."""
    known = {**vars(thing), **thing._settings()}
    return {name: known[name] for name in inspect.signature(type(thing)).parameters}
