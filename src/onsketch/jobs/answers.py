"""Margins as answers: probabilities, labels, or the margins themselves, a line for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import OptionError
from onsketch.core.losses import in_units_of_labels
from onsketch.core.probabilities import probabilities
from onsketch.data.task import Task

Array = NDArray[np.float64]

KINDS = ("margin", "probability", "label")


def check_kind(kind: str, task: Task, loss: str) -> None:
    """Refuse an answer that the model cannot give."""
    if kind not in KINDS:
        raise OptionError(f"kind={kind!r}: expected margin, probability or label.", kind=kind)
    if kind == "probability" and (task.kind == "regression" or loss not in ("logistic", "softmax")):
        raise OptionError(f"probabilities need a model of classes with logistic loss; this one has {loss} loss.")


def default_kind(task: Task) -> str:
    """Return the default kind of prediction: margins for two classes, else the class or the number."""
    return "margin" if task.signs else "label"


def answers(margins: Array, task: Task, loss: str, kind: str) -> list[str]:
    """Format the prediction of each row; ``margins`` is (rows,), or (rows, K) for many classes.

    >>> two = Task("classification", 0.0, 1.0, names=["no", "yes"])
    >>> answers(np.array([2.0, -1.0]), two, "logistic", "label")
    ['yes', 'no']
    >>> answers(np.array([0.0]), two, "logistic", "probability")
    ['0.5']
    """
    if task.many:
        names = task.names or []
        if kind == "label":
            return [names[code] for code in margins.argmax(axis=1).tolist()]
        values = probabilities(margins, loss) if kind == "probability" else margins
        return [
            " ".join(f"{_plain(name)}:{value:.6g}" for name, value in zip(names, row, strict=False))
            for row in values.tolist()
        ]
    if kind == "label" and task.signs:
        negative, positive = task.two_names
        return [positive if sign else negative for sign in (margins > 0.0).tolist()]
    if kind == "label":
        margins = in_units_of_labels(loss, margins)
    elif kind == "probability":
        margins = probabilities(margins, loss)[:, 1]
    return [f"{value:.9g}" for value in margins.tolist()]


def columns_of(margins: Array, task: Task, loss: str, kind: str | None = None) -> dict[str, list[Any]]:
    """Return the predictions as columns of a table: prediction, probabilities and margins, or one of them.

    >>> two = Task("classification", 0.0, 1.0, names=["no", "yes"], words=True)
    >>> columns_of(np.array([0.0]), two, "logistic")
    {'prediction': ['no'], 'probability': [0.5], 'margin': [0.0]}
    """
    names = task.shown_names or []
    probable = task.kind != "regression" and loss in ("logistic", "softmax")
    found: dict[str, list[Any]] = {}
    if kind in (None, "label"):
        if task.kind == "regression":
            found["prediction"] = in_units_of_labels(loss, margins).tolist()
        else:
            labels = [label_of(name, task) for name in names]
            codes = margins.argmax(axis=1) if task.many else (margins > 0.0).astype(int)
            found["prediction"] = [labels[code] for code in codes.tolist()]
    for one in ("probability", "margin"):
        if kind != one and (kind is not None or (one == "probability" and not probable)):
            continue
        if kind is None and one == "margin" and task.kind == "regression":
            continue
        values = probabilities(margins, loss) if one == "probability" else margins
        if task.many:
            found |= {f"{one}_{name}": column for name, column in zip(names, values.T.tolist(), strict=False)}
        else:
            found[one] = values[:, 1].tolist() if one == "probability" else values.tolist()
    return found


def label_of(name: str, task: Task) -> str | int | float:
    """A label as a cell of a table: a number where labels are numbers."""
    if task.words or task.named is not None:
        return name
    value = float(name)
    return int(value) if value.is_integer() else value


def _plain(name: str) -> str:
    """A class in a line of several: blanks and colons would part it."""
    return "_".join(name.replace(":", "_").split()) or "_"
