"""Predictions of a saved model for a stream of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError
from onsketch.data.task import Task
from onsketch.data.usable import refuse_initial, usable
from onsketch.files import model_file
from onsketch.jobs.evaluation import Progress, new_progress
from onsketch.jobs.training import lines, words

if TYPE_CHECKING:
    from onsketch.data import Block

Array = NDArray[np.float64]


class Outcome(NamedTuple):
    """What came of predicting a stream."""

    tally: Progress
    """Over the rows whose labels the model knows."""
    rows: int
    """Rows predicted."""
    skipped: int
    """Bad lines and rows too long to be squared, passed over: they have no prediction."""
    text: str | None
    """The predictions of the last block, a line each; None before the first."""


def predict_stream(
    model: model_file.PathLike, sources: list[str], kind: str, reading: dict[str, Any]
) -> Iterator[Outcome]:
    """Predict each row; yields what has come of it when the model has been read and after each block.

    Args:
        model: a model file; what it knows of its training says how to read and what the labels mean.
        sources: as for :func:`onsketch.data.stream`.
        kind: ``margin``, ``probability`` or ``label``.
        reading: options of the reader that differ from those of the training.
    """
    from onsketch.data import stream

    content = model_file.read(model)
    if content.kind != "learner":
        raise OptionError(f"{model}: holds a {content.kind}, not a model that 'onsketch train' wrote.")
    learner = model_file.build(content)
    told = content.notes.get("training") or {"task": {"kind": "regression"}, "reading": {}}
    task = Task(**told["task"])
    if kind == "probability" and learner.loss != "logistic":
        raise OptionError(f"probabilities need a model of logistic loss; this one has {learner.loss} loss.")
    if kind == "label" and (not task.signs or task.negative is None):
        raise OptionError("this model tells no two labels apart; ask for margins.")
    tally = new_progress(learner, task.signs)
    options = {**told["reading"], "unlabelled": True, **reading}
    rows = passed_over = 0
    yield Outcome(tally, 0, 0, None)
    with stream(sources, **options) as blocks:
        for block in blocks:
            _same_columns(told.get("names") or {}, blocks.names, block, content.header["n_features"])
            refuse_initial(block)
            kept = usable(block, options.get("on_error") == "skip")
            margins = learner.predict(kept.rows)
            if kind == "label":
                text = words(_labels(margins, task), kept.tags)
            else:
                text = lines(_probabilities(margins) if kind == "probability" else margins, kept.tags)
            labelled = ~np.isnan(kept.y) & ~task.strange(kept.y)
            if labelled.any():
                weights = None if kept.sample_weight is None else kept.sample_weight[labelled]
                tally.add(kept.X[labelled], task.labels(kept.y[labelled]), margins[labelled], weights)
            rows += margins.size
            passed_over += kept.passed_over
            yield Outcome(tally, rows, blocks.skipped + passed_over, text)
    yield Outcome(tally, rows, blocks.skipped + passed_over, "")


def _same_columns(then: dict[str, str], now: dict[int, str], block: Block, width: int) -> None:
    """Refuse a table with other columns than those of the training: each weight belongs to a name."""
    for feature, name in now.items():
        before = then.get(str(feature))
        if before is not None and before != name:
            raise InputError(
                f"column {feature} is {name!r}, and was {before!r} when the model was trained. "
                "Give the columns in the order of the training; if the file has no label, say so: --label none."
            )
    if isinstance(block.rows, np.ndarray) and then and block.rows.shape[1] != width:
        raise InputError(
            f"{block.position.path}: {block.rows.shape[1]} columns of features, but the model was trained with "
            f"{width}. If the file has no label, say so: label='none' (--label none)."
        )


def _probabilities(margins: Array) -> Array:
    from scipy.special import expit

    return np.asarray(expit(margins))


def _labels(margins: Array, task: Task) -> list[str]:
    """The labels as the files have them; with a class named, all that is known of the others is that they are other."""
    assert task.positive is not None
    assert task.negative is not None
    names = ("other", task.named) if task.named is not None else (f"{task.negative:g}", f"{task.positive:g}")
    return [names[sign] for sign in (margins > 0.0).tolist()]
