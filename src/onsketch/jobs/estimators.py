"""Files of estimators as models of the program: what they learned, with the columns and labels they know.

An estimator numbers the features of a data frame with words, or of dictionaries, in their order of appearance. The
program hashes them. So the features that such a learner has seen get the hashes of their names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from onsketch.core.errors import ModelFileError, OptionError
from onsketch.data.task import Task, name_of
from onsketch.files import model_file
from onsketch.files.model_file import Content
from onsketch.jobs.models import loss_of
from onsketch.jobs.notes import Trained, read_noted
from onsketch.jobs.tally import Progress
from onsketch.rows.hashing import hash_name
from onsketch.rows.schema import Field, Schema

BITS = 31
"""Bits of the hashes of features."""

MOST_NAMED = 4096
"""Columns of an array without names up to which they are x0, x1 and so on; others are numbered as in LIBSVM files."""


def read_trained(path: model_file.PathLike) -> Content:
    """Read the file of a trained learner or an estimator, with notes that jobs can follow.

    Raises:
        ModelFileError: as :func:`onsketch.load`; ``field`` names the note.
    """
    content = read_noted(path)
    try:
        return as_trained(content)
    except OptionError as error:
        raise OptionError(f"{os.fspath(path)}: {error}") from None
    except ModelFileError as error:
        raise ModelFileError(error.reason, error.field, os.fspath(path)) from None
    except model_file.MISFITS as error:
        why = f"its header does not describe an estimator of this version ({error!r})."
        raise ModelFileError(why, None, os.fspath(path)) from None


def as_trained(content: Content) -> Content:
    """Return the content of an estimator's file as that of a trained learner; any other content as it is.

    Raises:
        OptionError: the program has no such models, as of several targets.
    """
    if content.kind not in ("scikit-learn", "river") or "learner" not in content.header:
        return content
    header, estimator = content.header, content.header.get("class")
    if header.get("fitted", {}).get("multilabel_") or header["learner"] is None:
        raise OptionError(f"a model of several labels to a row, or of none, is for {estimator} alone.")
    columns, names, schema, reading = (_of_frames if content.kind == "scikit-learn" else _of_rows)(header)
    written = {name: header[name] for name in ("format", "version")}
    learned = Content(header["learner"]["kind"], {**header["learner"], **written}, content.arrays, {})
    learner = model_file.build(learned)
    labels = header["classes"]["labels"] if content.kind == "scikit-learn" and "classes" in header else None
    labels = header["classes"] if content.kind == "river" and estimator == "OnlineClassifier" else labels
    if labels is None and hasattr(learner, "n_classes"):
        raise OptionError(f"a model of several targets is for {estimator} alone.")
    task = _task(labels, hasattr(learner, "n_classes"))
    named = columns is not None or "feature_names" in header
    if columns is not None:
        width = 1 << BITS if schema.hashed else 2 * len(schema.fields)
        learned, learner = _renumbered(learned, learner, columns, width)
    described = schema.fields or columns is not None
    trained = Trained(
        task=task,
        reading=reading,
        progress=Progress(loss_of(learner), task.signs or task.many),
        names=names,
        schema=replace(schema, word_labels=task.words).state() if described else None,
        format="json" if content.kind == "river" else "csv" if named else None if described else "libsvm",
    )
    return learned._replace(notes={"training": trained.state()})


Columns = tuple[NDArray[np.int64] | None, dict[int, str], Schema, dict[str, Any]]
"""The column of X for each number of a feature, if it is another; names of columns; schema; options of reading."""


def _of_frames(header: Mapping[str, Any]) -> Columns:
    """Return the columns of an estimator of scikit-learn."""
    if "frames" in header:
        frames = header["frames"]
        columns, names = np.array(frames["columns"], dtype=np.int64), [str(name) for name in frames["names"]]
        gaps = any(name.endswith(" is missing") for name in names)
        missing = "zero" if header["parameters"]["missing"] == "zero" else "indicate"
        strict = header["parameters"]["missing"] == "error" and not gaps
        reading = {"missing": "error" if strict else missing, "bits": BITS}
        return columns, dict(zip(columns.tolist(), names, strict=True)), Schema.from_state(frames["schema"]), reading
    width = int(header["fitted"]["n_features_in_"])
    known = header.get("feature_names") or ([f"x{k}" for k in range(width)] if width <= MOST_NAMED else [])
    names = [str(name) for name in known]
    reading = {"missing": "error"} if "feature_names" in header else {}  # numbered features have no such option
    return None, dict(enumerate(names)), Schema(tuple(Field(name, "number") for name in names)), reading


def _of_rows(header: Mapping[str, Any]) -> Columns:
    """Return the columns of an estimator of River, whose rows are objects."""
    names = [str(name) for name in header["names"]]
    columns = np.array([hash_name(name, bits=BITS) for name in names], dtype=np.int64)
    reading = {"missing": "zero", "bits": BITS}
    return columns, dict(zip(columns.tolist(), names, strict=True)), Schema(extra="learn"), reading


def _task(labels: Sequence[Any] | None, many: bool) -> Task:
    """Return the task of these classes, or of numbers."""
    if labels is None:
        return Task("regression")
    words = any(isinstance(label, str) for label in labels)
    names = [label if isinstance(label, str) else name_of(float(label), None) for label in labels]
    if many:
        return Task("multiclass", names=names, words=words)
    if words:
        return Task("classification", 0.0, 1.0, names=names, words=True)
    return Task("classification", float(labels[0]), float(labels[1]))


def _renumbered(content: Content, learner: Any, columns: NDArray[np.int64], width: int) -> tuple[Content, Any]:
    """Return a learner whose feature k has become ``columns[k]`` of rows of this width, and its content."""
    arrays = {
        name: np.where(array >= 0, columns[array], array) if name.rpartition(".")[2] == "features" else array
        for name, array in content.arrays.items()
    }
    header = content.header | {name: width for name in ("n_features", "width") if content.header.get(name) is not None}
    try:
        changed = content._replace(header=header, arrays=arrays)
        found = model_file.build(changed)
        count, ends = len(columns), np.arange(len(columns) + 1)
        old = csr_array((np.ones(count), ends[:-1], ends), shape=(count, count))
        new = csr_array((np.ones(count), columns, ends), shape=(count, width))
        same = np.allclose(learner.predict(old), found.predict(new), rtol=1e-9, atol=1e-12)
    except (ModelFileError, ValueError):
        same = False
    if not same:  # a matrix or points over numbered features
        name = content.header["method"]
        raise OptionError(
            f"{name['name'] if isinstance(name, dict) else name}: this learner keeps its features by number, and the "
            "program hashes those of words. Load the model in Python (onsketch.load)."
        )
    return changed, found
