"""Learners of many classes as model files."""

from __future__ import annotations

import operator

from onsketch.core.arrays import require, require_room
from onsketch.core.errors import ModelFileError
from onsketch.files.model_file import Content, describing
from onsketch.learners.multiclass import ManyClasses, OneVersusRest, SharedSketch
from onsketch.learners.multiclass.coupled import COUPLED
from onsketch.learners.options import from_json


def from_file(content: Content) -> ManyClasses:
    """The learner that a model file describes."""
    header = content.header
    with describing("a learner of classes"):
        known = {made.__name__: made for made in (OneVersusRest, SharedSketch, *COUPLED.values())}
        if header["class"] not in known:
            raise ModelFileError(f"it holds classes as {header['class']!r}, which this version does not know.")
        made_by = known[header["class"]]
        options = from_json(header["options"])
        classes, size = operator.index(header["n_classes"]), operator.index(options.get("sketch_size") or 0)
        most = max([len(content.arrays), *(array.shape[-1] for array in content.arrays.values() if array.ndim)])
        require(classes <= most, "it has not as many classes as it says", "n_classes")
        require_room(8 * 288 * size**2 * max(classes, 1), content.arrays, "sketch_size")
        model: ManyClasses = made_by(str(header["method"]), classes, **options)
    model._restore(content.arrays, header)
    return model
