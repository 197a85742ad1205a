"""Margins as answers: prediction, probability, margin, and what each feature contributed."""

from __future__ import annotations

import math
from typing import Any

from onsketch.core.losses import in_units_of_labels
from onsketch.core.probabilities import logistic, of_two
from onsketch.jobs.explaining import Reasons
from onsketch.jobs.serve.batch import Floats, Rows
from onsketch.jobs.serve.model import Model

_FEW = 8
"""Rows up to which probabilities are computed one by one, which takes less time then."""


def answers(model: Model, margins: Floats) -> list[dict[str, Any]]:
    """An answer for each margin.

    ``prediction`` is the label or number predicted; ``probability`` that of the positive label or of the class
    predicted, where the loss gives one.
    """
    task, loss = model.task, model.loss
    if task.many:
        return _classes(model, margins)
    if task.kind == "regression":
        said = in_units_of_labels(loss, margins)
        return [{"prediction": s, "margin": margin} for s, margin in zip(said.tolist(), margins.tolist(), strict=True)]
    negative, positive = model.two_labels
    numbers = margins.tolist()
    found = [{"prediction": positive if margin > 0.0 else negative, "margin": margin} for margin in numbers]
    if loss == "logistic":
        likely = [of_two(margin)[1] for margin in numbers] if len(numbers) < _FEW else logistic(margins).tolist()
        for answer, probability in zip(found, likely, strict=True):
            answer["probability"] = probability
    return found


def _classes(model: Model, margins: Floats) -> list[dict[str, Any]]:
    if not margins.shape[1]:
        return [{"prediction": None, "probabilities": {}} for _ in range(len(margins))]
    probabilities = model.probabilities(margins)
    names = model.classes[: margins.shape[1]]
    found = []
    for row, best in enumerate(probabilities.argmax(axis=1).tolist()):
        answer: dict[str, Any] = {"prediction": names[best], "probability": float(probabilities[row, best])}
        answer["probabilities"] = dict(zip(names, probabilities[row].tolist(), strict=True))
        answer["margins"] = {name: m for name, m in zip(names, margins[row].tolist(), strict=True) if math.isfinite(m)}
        found.append(answer)
    return found


def contributions(model: Model, rows: Rows, margins: Floats, names: dict[int, str]) -> list[Any]:
    """Return for each row the contributions of at most 100 features to the margin, the largest first.

    With the intercept they add up to the margin before a clip. If a model has no weights, ``left_out`` is true, and
    each contribution is the loss of margin without the feature.
    """
    found: list[Any] = []
    for reason in Reasons(model.learner, model.task.many).behind(rows, margins, most=100):
        share = {"left_out": True} if reason.intercept is None else {"intercept": reason.intercept}
        found.append({**share, "features": reason.named(names)})
    return found
