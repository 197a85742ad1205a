"""What jobs note beside a model, looked at before anything follows it: the shape of every note, field by field."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from inspect import signature
from typing import Any

from onsketch.core.arrays import LONGEST_COUNT, require
from onsketch.core.errors import ModelFileError
from onsketch.core.losses import LOSSES
from onsketch.data import stream
from onsketch.data.sniff import FORMATS
from onsketch.files import model_file
from onsketch.jobs.judging import CELLS, KEPT

Shape = Any
"""A check of a value; a dictionary or a list of shapes; or a list of one shape, for a list of any length."""


def read_noted(path: model_file.PathLike) -> model_file.Content:
    """A model file with notes that jobs can follow.

    Raises:
        ModelFileError: as :func:`onsketch.load`; ``field`` names the note.
    """
    content = model_file.read(path)
    try:
        check(content.notes)
    except ModelFileError as error:
        raise ModelFileError(error.reason, error.field, os.fspath(path)) from None
    return content


def check(notes: dict[str, Any]) -> None:
    """Refuse notes of another shape than jobs write."""
    require(isinstance(notes, dict), "its notes are no notes", "notes")
    for name, shape in _NOTES.items():
        if notes.get(name) is not None:
            _check(notes[name], shape, f"notes.{name}")
    if notes.get("training") is not None:
        _check_task(notes["training"])


def _check(value: Any, shape: Shape, field: str) -> None:
    if callable(shape):
        require(shape(value), f"{field} is {str(value)[:60]!r}", field)
    elif isinstance(shape, dict):
        require(isinstance(value, dict), f"{field} is no table of names", field)
        for name, part in shape.items():
            if name.endswith("?"):
                if name[:-1] in value:
                    _check(value[name[:-1]], part, f"{field}.{name[:-1]}")
                continue
            require(name in value, f"it has no {field}.{name}", field)
            _check(value[name], part, f"{field}.{name}")
        known = {name.removesuffix("?") for name in shape}
        require(set(value) <= known, f"{field} has a name that this version does not know", field)
    else:
        require(isinstance(value, list), f"{field} is no list", field)
        shapes = shape * len(value) if len(shape) == 1 else shape
        require(len(value) == len(shapes), f"{field} has {len(value)} entries", field)
        for one, part in zip(value, shapes, strict=True):
            _check(one, part, field)


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _sum(value: Any) -> bool:
    """A sum of losses, which may have overflowed."""
    return type(value) in (int, float)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LONGEST_COUNT


def _weight(value: Any) -> bool:
    return _number(value) and value >= 0.0


def _flag(value: Any) -> bool:
    return type(value) is bool


def _word(value: Any) -> bool:
    return isinstance(value, str)


def _table(value: Any) -> bool:
    return isinstance(value, dict)


def _either(*shapes: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: any(shape(value) for shape in shapes)


def _maybe(shape: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or shape(value)


def _one_of(*words: Any) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in words


def _shaped(shape: Shape) -> Callable[[Any], bool]:
    """A shape as a check."""

    def fits(value: Any) -> bool:
        try:
            _check(value, shape, "")
        except ModelFileError:
            return False
        return True

    return fits


def _names(value: Any) -> bool:
    """Names of features."""
    return isinstance(value, dict) and all(
        key.removeprefix("-").isdecimal() and len(key) < 20 and isinstance(name, str) for key, name in value.items()
    )


def _loss(value: Any) -> bool:
    """The name of a loss, and the level after it where it has one."""
    name, _, level = value.partition(" ") if isinstance(value, str) else ("", "", "")
    return name in (*LOSSES, "softmax") and (not level or re.fullmatch(r"[0-9.e-]{1,25}", level) is not None)


def _reading(value: Any) -> bool:
    known = signature(stream).parameters
    return isinstance(value, dict) and all(name in known and name not in _SET_BY_JOBS for name in value)


_SET_BY_JOBS = ("path", "resume", "schema")
_RECORD = [_count, _sum, _sum, _maybe(_sum), _either(_sum, _word), _either(_sum, _word), _count]
_PROGRESS = {
    "loss": _loss, "signs": _flag, "rows": _count, "weight": _weight, "loss_sum": _sum,
    "mistakes": _weight, "last_weight": _weight, "last_loss": _sum, "due": lambda due: _count(due) and due > 0,
    "mark_weight?": _weight, "mark_loss?": _sum,
}  # fmt: skip
_JUDGE = {
    "loss": _loss, "rows": _count, "changes": _count, "last": _maybe(_number),
    "cells": [_shaped([lambda cell: _count(cell) and cell < CELLS, _weight, _weight])],
    "confusion": [_shaped([_count, lambda said: said == -1 or _count(said), _weight])],
    "sums": [_sum] * 5, "own?": [_sum] * 2, "first": _number, "sample": [_number],
}  # fmt: skip
_TASK = {
    "kind": _one_of("classification", "multiclass", "regression"), "negative?": _maybe(_number),
    "positive?": _maybe(_number), "named?": _maybe(_word), "names?": _maybe(_shaped([_word])), "words?": _flag,
}  # fmt: skip
_TRAINING = {
    "task": _TASK, "reading": _reading, "progress": _PROGRESS, "held_out": _maybe(_shaped(_PROGRESS)),
    "names": _names, "schema?": _maybe(_table), "format?": _maybe(_one_of(*FORMATS)), "holdout?": _count,
    "judge?": _maybe(_shaped(_JUDGE)), "held_out_judge?": _maybe(_shaped(_JUDGE)),
    "refused?": _count, "unusable?": _count, "skipped?": _count, "positives?": _count,
}  # fmt: skip
_CHECKPOINT = {
    "plan": _table, "files?": _maybe(_shaped([_word])), "position": _maybe(_word), "end": _maybe(_word),
    "finished_passes": _count, "passes": [{"loss": _maybe(_sum), "held_out_loss": _maybe(_sum)}],
    "rows_before": _count, "skipped_before": _count, "started_at": _count, "due_records": [_shaped(_RECORD)],
    "predictions_written": _count, "predictions": _maybe(_word),
}  # fmt: skip
_SHARD = {"path": _word, "rows": _count, "rounds": _count, "passes": _count, "position": _maybe(_word)}
_REPORT = {
    "shard?": _count, "rows": _count, "refused?": _count, "skipped": _count, "progress?": _PROGRESS,
    "position?": _maybe(_word), "names?": _names, "width?": _count,
}  # fmt: skip
_CLUSTER = {
    "plan": _table, "ledger?": [_SHARD], "rounds?": _count, "forks?": _count, "refused?": _count, "skipped?": _count,
    "due_records?": [_shaped(_RECORD)], "reports?": [_REPORT],
}  # fmt: skip
_NOTES: dict[str, Shape] = {
    "training": _TRAINING,
    "checkpoint": _CHECKPOINT,
    "cluster": _CLUSTER,
    "plan": _table,
    "reports": [_REPORT],
}


def _check_task(told: dict[str, Any]) -> None:
    """The parts of a training's notes against each other."""
    task = told["task"]
    kind, names = task["kind"], task.get("names")
    field = "notes.training.task"
    if kind == "classification":
        require(task.get("positive") is not None, f"{field} has no positive label", field)
        require(names is None or len(names) == 2, f"{field} has not two names", field)
    else:
        require((kind == "multiclass") == (names is not None), f"{field} and its names contradict each other", field)
    require(names is None or len(set(names)) == len(names), f"{field} has a name twice", field)
    for name in ("judge", "held_out_judge"):
        judge = told.get(name)
        if judge is not None:
            most = max((max(code, said) for code, said, _ in judge["confusion"]), default=-1)
            require(most < len(names or []), f"notes.training.{name} has a class without a name", f"notes.{name}")
            sampled = kind == "regression" and judge["loss"].split(" ")[0] in ("absolute", "quantile")
            kept = min(judge["rows"], KEPT) if sampled else 0
            require(len(judge["sample"]) == kept, f"notes.training.{name} has another sample", f"notes.{name}")
    counted = kind != "regression"
    for name in ("progress", "held_out"):
        tally = told[name]
        fits = tally is None or (tally["signs"] is counted and tally["due"] > tally["rows"])
        require(fits, f"notes.training.{name} contradicts itself", f"notes.{name}")


def check_fit(told: dict[str, Any], learner: Any, loss: str) -> None:
    """Refuse notes of a training of another kind of learner."""
    many = hasattr(learner, "n_classes")
    names = told["task"].get("names") or []
    fits = (told["task"]["kind"] == "multiclass") is many and (not many or learner.n_classes <= len(names))
    require(fits, "its notes are of another kind of model", "notes.training.task")
    for name in ("progress", "held_out", "judge", "held_out_judge"):
        part = told.get(name)
        require(part is None or part["loss"] == loss, f"notes.training.{name} is of another loss", f"notes.{name}")
