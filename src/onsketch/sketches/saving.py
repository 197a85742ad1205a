"""Sketches as model files: the arguments that made the sketch in the header, its numbers as arrays."""

from __future__ import annotations

import inspect
import operator
import os
from typing import Any

from onsketch.core import state
from onsketch.core.arrays import require_room
from onsketch.core.errors import ModelFileError
from onsketch.files import model_file
from onsketch.sketches.base import Sketch
from onsketch.sketches.named import class_named


def save_sketch(thing: Sketch, path: str | os.PathLike[str]) -> None:
    """Write a sketch to a file."""
    model_file.write(path, "sketch", {"class": type(thing).__name__, "arguments": arguments(thing)}, state.pack(thing))


def from_file(content: model_file.Content) -> Sketch:
    """Return the sketch that a model file describes."""
    with model_file.describing("a sketch"):
        name, given = content.header["class"], content.header["arguments"]
        made_by = class_named(name)
        if made_by is None:
            raise ModelFileError(f"it holds a sketch {name!r}, which this version does not know.")
        sizes = {key: operator.index(given[key]) for key in ("n_features", "size", "block") if key in given}
        require_room(8 * made_by.room(**sizes), content.arrays, "size or n_features")
        fresh = made_by(**given)
    return state.unpack(fresh, content.arrays)


def arguments(thing: Sketch) -> dict[str, Any]:
    """Return the arguments that made this sketch."""
    known = {**vars(thing), **thing._settings()}
    return {name: known[name] for name in inspect.signature(type(thing)).parameters}
