"""Margins as answers: probabilities, labels, or the margins themselves, a line for each row."""

from __future__ import annotations

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
    """What is said where nothing was asked for: margins of two classes, else the class or the number predicted."""
    return "margin" if task.signs else "label"


def answers(margins: Array, task: Task, loss: str, kind: str) -> list[str]:
    """What to say of each row; ``margins`` is (rows,), or (rows, K) for many classes.

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


def class_losses(margins: Array, codes: NDArray[np.int64], loss: str) -> Array:
    """−log of the probability of each row's class; for losses without probabilities, of that of a softmax."""
    p = probabilities(margins, loss if loss == "logistic" else "softmax")
    return np.asarray(-np.log(np.maximum(p[np.arange(len(codes)), codes], 1e-300)))


def _plain(name: str) -> str:
    """A class in a line of several: blanks and colons would part it."""
    return "_".join(name.replace(":", "_").split()) or "_"
