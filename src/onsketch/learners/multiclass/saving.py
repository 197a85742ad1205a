"""Learners of many classes as model files."""

from __future__ import annotations

from typing import Any

from onsketch.core.errors import ModelFileError, OnsketchError
from onsketch.files.model_file import Content
from onsketch.learners import multiclass


def from_file(content: Content) -> multiclass.ManyClasses:
    """The learner that a model file describes."""
    header = content.header
    try:
        if header["class"] not in ("OneVersusRest", "SharedSketch"):
            raise ModelFileError(f"it holds classes as {header['class']!r}, which this version does not know.")
        made_by = getattr(multiclass, header["class"])
        options = {name: _thawed(value) for name, value in header["options"].items()}
        model: multiclass.ManyClasses = made_by(str(header["method"]), int(header["n_classes"]), **options)
    except (KeyError, TypeError, ValueError, AttributeError, OnsketchError) as error:
        raise ModelFileError(f"its header does not describe a learner of classes of this version ({error}).") from None
    model._restore(content.arrays, header)
    return model


def _thawed(value: Any) -> Any:
    """JSON has lists where options have tuples."""
    return tuple(value) if isinstance(value, list) else value
