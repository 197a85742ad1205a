"""Estimators as model files: parameters, classes and names in the header, the learner's numbers as arrays."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from onsketch.adapters.options import described, revived
from onsketch.adapters.sklearn.frames import FrameRows
from onsketch.core.arrays import require
from onsketch.core.errors import ModelFileError, OptionError
from onsketch.files import model_file

_NAMES = ("n_features_in_", "n_iter_")


def save_estimator(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator."""
    header, arrays = described(estimator.learner_)
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], (int, np.integer, type(None))):
        raise OptionError("save: random_state is a generator, which a model file cannot hold; give a whole number.")
    whole: dict[str, Any] = {
        "class": type(estimator).__name__,
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "fitted": {name: _plain(getattr(estimator, name)) for name in _NAMES},
        "learner": header,
    }
    if hasattr(estimator, "classes_"):
        whole["classes"] = {"labels": estimator.classes_.tolist(), "dtype": estimator.classes_.dtype.str}
        if not all(isinstance(label, (str, int, float)) for label in whole["classes"]["labels"]):
            raise OptionError("save: a model file holds classes that are words or numbers; these are neither.")
    if hasattr(estimator, "feature_names_in_"):
        whole["feature_names"] = estimator.feature_names_in_.tolist()
    if hasattr(estimator, "_frames"):
        whole["frames"] = estimator._frames.state()
    if getattr(estimator, "multilabel_", False):
        whole["multilabel"] = True
    model_file.write(path, "scikit-learn", whole, arrays)


def save_transformer(transformer: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted streaming PCA."""
    whole: dict[str, Any] = {
        "class": type(transformer).__name__,
        "parameters": {name: _plain(value) for name, value in transformer.get_params(deep=False).items()},
        "n_features": int(transformer.n_features_in_),
        "sparse": any(hasattr(block, "tocsr") for block in transformer.stream_.waiting),
    }
    if hasattr(transformer, "feature_names_in_"):
        whole["feature_names"] = transformer.feature_names_in_.tolist()
    model_file.write(path, "scikit-learn", whole, transformer.stream_.arrays())


def _transformer(made_by: Any, content: model_file.Content) -> Any:
    header = content.header
    try:
        transformer = made_by(**header["parameters"])
        width = transformer.n_features_in_ = int(header["n_features"])
        if "feature_names" in header:
            transformer.feature_names_in_ = np.array(header["feature_names"], dtype=object)
        transformer.stream_ = transformer._new_stream(width, bool(header["sparse"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"its header does not describe a transformer of this version ({error!r}).") from None
    transformer.stream_.restore(content.arrays)
    return transformer


def from_file(content: model_file.Content) -> Any:
    """Return the estimator that a model file describes."""
    from onsketch.adapters.sklearn import FrequentDirections, OnlineClassifier, OnlineRegressor, SketchedPCA

    header = content.header
    transformers = {"FrequentDirections": FrequentDirections, "SketchedPCA": SketchedPCA}
    if header.get("class") in transformers:
        return _transformer(transformers[header["class"]], content)
    try:
        made_by = {"OnlineClassifier": OnlineClassifier, "OnlineRegressor": OnlineRegressor}[header["class"]]
        estimator: Any = made_by(**{name: _restored(value) for name, value in header["parameters"].items()})
        if made_by is OnlineClassifier:
            kept = header["classes"]
            estimator.classes_ = np.array(kept["labels"], dtype=np.dtype(kept["dtype"]))
            estimator.multilabel_ = bool(header.get("multilabel", False))
        for name in _NAMES:
            setattr(estimator, name, int(header["fitted"][name]))
        if "feature_names" in header:
            estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
        if "frames" in header:
            estimator._frames = FrameRows.from_state(header["frames"])
        learner = header["learner"]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"its header does not describe an estimator of this version ({error!r}).") from None
    estimator.learner_, estimator._parameters = revived(learner, content.arrays), estimator._made_with()
    _check(estimator)
    return estimator


def _check(estimator: Any) -> None:
    """Refuse an estimator that does not fit its learner."""
    learner, width = estimator.learner_, estimator.n_features_in_
    require(estimator.n_iter_ >= 1, "it has never learned", "fitted.n_iter_")
    inside = learner.n_features if not hasattr(estimator, "_frames") else width  # words change the width
    require(width == inside >= 1, "its learner has another width", "fitted.n_features_in_")
    names = getattr(estimator, "feature_names_in_", None)
    require(
        names is None or (len(names) == width and {*map(type, names)} == {str}), "its names are odd", "feature_names"
    )
    if not hasattr(estimator, "classes_"):
        return
    many, classes = getattr(learner, "n_classes", None), estimator.classes_
    plain = classes.dtype != object or {*map(type, classes.tolist())} == {str}  # pandas stores words as objects
    whole = plain and classes.ndim == 1 and np.array_equal(np.unique(classes), classes)
    require(whole and len(classes) == (many or 2), "its classes are not those of its learner", "classes")


def _plain(value: Any) -> Any:
    """Return a parameter as JSON values; a dictionary as pairs, so that its keys keep their type."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {"pairs": [[_plain(key), _plain(weight)] for key, weight in value.items()]}
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(value["pairs"])
    return tuple(value) if isinstance(value, list) else value
