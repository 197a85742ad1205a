"""Estimators as model files: parameters, classes and names in the header, the learner's numbers as arrays."""

from __future__ import annotations

import os
from operator import index
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from onsketch.adapters.options import described, revived
from onsketch.adapters.sklearn.frames import FrameRows
from onsketch.core.arrays import Arrays, require, require_room
from onsketch.core.errors import OptionError
from onsketch.core.rwlock import Locked
from onsketch.files import model_file


class Saved(Locked):
    """An estimator or transformer that can be written to a model file."""

    reads: ClassVar[tuple[str, ...]] = ("save",)
    _kept: tuple[str, ...] = ("n_features_in_", "n_iter_")
    """Fitted attributes that are whole numbers."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a model file, without pickle; :func:`onsketch.load` restores it."""
        check_is_fitted(self)
        model_file.write(path, "scikit-learn", *_parts(self))


def _parts(estimator: Any) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a model file."""
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters.get("random_state"), (int, np.integer, type(None))):
        raise OptionError("save: random_state is a generator, which a model file cannot hold; give a whole number.")
    whole: dict[str, Any] = {
        "class": type(estimator).__name__,
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "fitted": {name: _plain(getattr(estimator, name)) for name in estimator._kept},
    }
    if hasattr(estimator, "feature_names_in_"):
        whole["feature_names"] = estimator.feature_names_in_.tolist()
    if hasattr(estimator, "stream_"):
        whole["sparse"] = any(hasattr(block, "tocsr") for block in estimator.stream_.waiting)
        return whole, estimator.stream_.arrays()
    if hasattr(estimator, "classes_"):
        whole["classes"] = {"labels": estimator.classes_.tolist(), "dtype": estimator.classes_.dtype.str}
        if not all(isinstance(label, (str, int, float)) for label in whole["classes"]["labels"]):
            raise OptionError("save: a model file holds classes that are words or numbers; these are neither.")
    if hasattr(estimator, "_frames"):
        whole["frames"] = estimator._frames.state()
    whole["learner"], arrays = described(estimator.learner_)
    return whole, arrays


def from_file(content: model_file.Content) -> Any:
    """Return the estimator or transformer that a model file describes."""
    from onsketch.adapters.sklearn import FrequentDirections, OnlineClassifier, OnlineRegressor, SketchedPCA

    header, kinds = content.header, (FrequentDirections, OnlineClassifier, OnlineRegressor, SketchedPCA)
    with model_file.describing("an estimator"):
        made_by = {kind.__name__: kind for kind in kinds}[header["class"]]
        estimator: Any = made_by(**{name: _restored(value) for name, value in header["parameters"].items()})
        for name in estimator._kept:
            setattr(estimator, name, index(header["fitted"][name]))
        if "feature_names" in header:
            estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
        if issubclass(made_by, FrequentDirections):
            estimator.stream_ = estimator._new_stream(estimator.n_features_in_, bool(header["sparse"]))
        elif made_by is OnlineClassifier:
            kept = header["classes"]
            require_room(np.dtype(kept["dtype"]).itemsize * len(kept["labels"]), content.arrays, "classes")
            estimator.classes_ = np.array(kept["labels"], dtype=np.dtype(kept["dtype"]))
        if "frames" in header:
            estimator._frames = FrameRows.from_state(header["frames"])
        learner = header.get("learner", {})
    if hasattr(estimator, "stream_"):
        estimator.stream_.restore(content.arrays)
        return estimator
    estimator.learner_, estimator._parameters = revived(learner, content.arrays), estimator._made_with()
    _check(estimator)
    return estimator


def _check(estimator: Any) -> None:
    """Refuse an estimator that does not fit its learner."""
    learner, width = estimator.learner_, estimator.n_features_in_
    require(isinstance(estimator.random_state, int | None), "its random_state is no seed", "parameters.random_state")
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
