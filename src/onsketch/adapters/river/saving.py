"""River estimators as model files: parameters, names and classes in the header, the learner's numbers as arrays."""

from __future__ import annotations

import inspect
import os
from typing import Any

from onsketch.adapters.options import described, revived
from onsketch.core.arrays import require
from onsketch.core.errors import OptionError
from onsketch.files import model_file
from onsketch.learners.options import from_json


def save_estimator(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator, fitted or not."""
    header, arrays = described(estimator._learner) if estimator._learner is not None else (None, {})
    names, classes = list(estimator._names.of), list(estimator._codes)
    for what, things in (("feature names", names), ("classes", classes)):
        if not all(isinstance(thing, (str, int, float)) for thing in things):
            raise OptionError(f"save: a model file holds {what} that are words or numbers; some of these are neither.")
    parameters = {name: getattr(estimator, name) for name in inspect.signature(type(estimator)).parameters}
    whole = {
        "class": type(estimator).__name__,
        "parameters": parameters,
        "learner": header,
        "names": names,
        "classes": classes,
    }
    model_file.write(path, "river", whole, arrays)


def from_file(content: model_file.Content) -> Any:
    """Return the estimator that a model file describes."""
    from onsketch.adapters.river import OnlineClassifier, OnlineMultiTargetRegressor, OnlineRegressor

    header = content.header
    with model_file.describing("an estimator"):
        kinds = (OnlineClassifier, OnlineMultiTargetRegressor, OnlineRegressor)
        made_by: Any = {kind.__name__: kind for kind in kinds}[header["class"]]
        estimator: Any = made_by(**from_json(header["parameters"]))
        estimator._names.enter(header["names"])
        estimator._codes = {label: code for code, label in enumerate(header["classes"])}
        learner = header["learner"]
    if learner is not None:
        made = estimator._learner = revived(learner, content.arrays)
        require(made.n_features <= len(header["names"]), "it has features without a name", "names")
        many = getattr(made, "n_classes", None)
        expected = 0 if made_by is OnlineRegressor else 2 if many is None else many
        require(len(header["classes"]) == expected, "its classes are others", "classes")
        if made_by is OnlineClassifier:
            estimator._first_rows = None  # they are not in the file
    require(learner is not None or not header["classes"], "it has classes and no learner", "classes")
    for name in ("names", "classes"):
        known = isinstance(header[name], list) and all(isinstance(one, (str, int, float)) for one in header[name])
        require(known, f"{name} are neither words nor numbers", name)
    require(len(set(header["names"])) == len(header["names"]), "a name comes twice", "names")
    require(len(set(header["classes"])) == len(header["classes"]), "a class comes twice", "classes")
    return estimator
