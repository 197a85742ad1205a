"""Predictions of a saved model for a stream of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import OptionError
from onsketch.data.usable import refuse_initial, usable
from onsketch.files import model_file
from onsketch.jobs.estimators import read_trained
from onsketch.jobs.explaining import Reason, Reasons
from onsketch.jobs.judging import Judge
from onsketch.jobs.models import loss_of
from onsketch.jobs.notes import Trained, check_fit, noted, unknown_training
from onsketch.jobs.plans import check_format
from onsketch.jobs.predictions import answers, check_kind, columns_of, default_kind, words
from onsketch.jobs.tally import Progress

Array = NDArray[np.float64]


class Outcome(NamedTuple):
    """Outcome of predicting a stream."""

    tally: Progress
    """Tally over the rows whose labels occurred in training."""
    judge: Judge
    rows: int
    """Rows predicted."""
    skipped: int
    """Bad lines and rows too long to be squared, passed over: they have no prediction."""
    text: str | None
    """The predictions of the last block, a line each; None before the first."""
    unknown: int = 0
    """Rows whose label the model has not seen."""
    notes: tuple[str, ...] = ()
    """Remarks on columns that files lack, and on columns that the model does not know."""
    table: dict[str, Any] | None = None
    """Predictions of the last block as columns by name, if a table is wanted."""


def open_model(path: model_file.PathLike) -> tuple[Any, Trained]:
    """Return the learner of a file that 'onsketch train' wrote, and its training."""
    content = read_trained(path)
    if content.kind not in ("learner", "classes"):
        raise OptionError(f"{path}: holds a {content.kind}, not a model that 'onsketch train' wrote.")
    learner, trained = model_file.build(content), noted(content.notes).training
    if trained is not None:
        check_fit(trained, learner, loss_of(learner))
    elif content.kind == "classes":
        raise OptionError(f"{path}: classes without their names; save it with 'onsketch train'.")
    return learner, trained or unknown_training(learner)


def predict_stream(
    model: model_file.PathLike,
    sources: list[str],
    kind: str | None,
    reading: dict[str, Any],
    explain: int = 0,
    tabular: bool = False,
) -> Iterator[Outcome]:
    """Predict each row; yield the outcome so far when the model has been read and after each block.

    Args:
        model: a file that ``onsketch train --save`` wrote.
        sources: files and addresses to read.
        kind: margin, probability (logistic loss) or label; left out, the margin of two classes, else the label.
        reading: options of the reader that differ from those of the training.
        explain: number of contributions to write after each prediction.
        tabular: predictions are columns of a table, not lines of text.
    """
    from onsketch.data import stream

    learner, trained = open_model(model)
    task, loss = trained.task, loss_of(learner)
    asked, kind = kind, kind or default_kind(task)
    check_kind(kind, task, loss)
    options = {**trained.read, "everyday": True, "unlabelled": True, **reading}
    if sources == ["-"] and "format" not in options:  # a pipe may bring too few lines to detect its format
        options["format"] = trained.format
    tally, judge = Progress(loss, task.signs or task.many), Judge(task, loss)
    reasons = Reasons(learner, task.many) if explain else None
    rows = passed_over = unknown = 0
    yield Outcome(tally, judge, 0, 0, None)
    with stream(sources, **{**options, "schema": trained.schema}) as blocks:
        check_format(trained.format, blocks.format, str(sources[0]))
        for block in blocks:
            refuse_initial(block)
            kept = usable(block, options.get("on_error") == "skip")
            margins = learner.predict(kept.rows)
            explained = [] if reasons is None else list(reasons.behind(kept.rows, margins, explain))
            named = [reason.named({**blocks.names, **trained.names}) for reason in explained]
            text, table = "", None
            if tabular:
                table = {} if kept.tags is None else {"tag": kept.tags}
                table |= columns_of(margins, task, loss, asked) | _as_columns(explained, named, explain)
                if twice := min(table.keys() & (kept.columns or {}).keys(), default=""):
                    raise OptionError(
                        f"columns={twice!r}: the predictions have a column of this name; rename one.", columns=...
                    )
                table = (kept.columns or {}) | table
            else:
                said = answers(margins, task, loss, kind)
                if reasons is not None:
                    lines = map(_in_a_line, explained, named)
                    said = [f"{answer}  # {line}" for answer, line in zip(said, lines, strict=True)]
                text = words(said, kept.tags)
            y = task.encode(kept.y, blocks.classes)
            labelled = ~np.isnan(kept.y) & ~task.strange(y)
            unknown += int(np.count_nonzero(~np.isnan(kept.y))) - int(np.count_nonzero(labelled))
            if labelled.any():
                weights = None if kept.sample_weight is None else kept.sample_weight[labelled]
                targets = np.where(y == task.positive, 1.0, -1.0) if task.signs else y
                counted = tally.judged(targets[labelled], margins[labelled], weights)
                tally.add(counted, kept.X[labelled], task.shown_names)
                judge.add(counted)
            rows += len(margins)
            passed_over += kept.passed_over
            yield Outcome(tally, judge, rows, blocks.skipped + passed_over, text, unknown, tuple(blocks.notes), table)
    yield Outcome(tally, judge, rows, blocks.skipped + passed_over, "", unknown, tuple(blocks.notes))


def _as_columns(reasons: list[Reason], named: list[dict[str, float]], most: int) -> dict[str, Any]:
    """The reasons behind some answers as columns: the name and the part of each of the largest ones."""
    found: dict[str, Any] = {}
    for k in range(most):
        pairs = [[*row.items()][k] if len(row) > k else (None, None) for row in named]
        found[f"reason_{k + 1}"], found[f"part_{k + 1}"] = ([pair[side] for pair in pairs] for side in (0, 1))
    if any(reason.intercept is not None for reason in reasons):
        found["intercept"] = [reason.intercept for reason in reasons]
    return found


def _in_a_line(reason: Reason, named: dict[str, float]) -> str:
    """The reasons behind an answer, in a line."""
    shown = {**named, **({"(intercept)": reason.intercept} if reason.intercept else {})}
    return ", ".join(f"{name}={part:+.4g}" for name, part in shown.items())
