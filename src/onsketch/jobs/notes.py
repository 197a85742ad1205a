"""Notes of jobs in model files: declared as records, and checked by msgspec before use.

A record refuses unknown fields, other types than declared, and numbers out of bounds. Sums of losses may
have overflowed, so that they have no bounds; all other numbers are finite.
"""

from __future__ import annotations

import os
import sys
from inspect import signature
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from onsketch.core.arrays import LONGEST_COUNT, require
from onsketch.core.errors import ModelFileError
from onsketch.core.losses import LOSSES
from onsketch.data import stream
from onsketch.data.sniff import FORMATS
from onsketch.files import model_file
from onsketch.jobs.judging import CELLS, KEPT, SAMPLED

T = TypeVar("T")


def _one_of(words: Any, more: str = "") -> Meta:
    return Meta(pattern=rf"^({'|'.join(words)}){more}\Z")


_MOST = sys.float_info.max
Count = Annotated[int, Meta(ge=0, le=LONGEST_COUNT)]
Number = Annotated[float, Meta(ge=-_MOST, le=_MOST)]
Weight = Annotated[float, Meta(ge=0.0, le=_MOST)]
Loss = Annotated[str, _one_of((*LOSSES, "softmax"), "( [0-9.e-]{1,25})?")]
Names = dict[Annotated[str, Meta(pattern=r"^-?[0-9]{1,19}\Z")], str]
Record = tuple[Count, float, float, float | None, float | str, float | str, Count]


class Note(msgspec.Struct, forbid_unknown_fields=True):
    """A record of notes."""


class Tally(Note, kw_only=True):
    """A ``Progress``."""

    loss: Loss
    signs: bool
    rows: Count
    weight: Weight
    loss_sum: float
    mistakes: Weight
    last_weight: Weight
    last_loss: float
    due: Annotated[int, Meta(ge=1, le=LONGEST_COUNT)]
    mark_weight: Weight = 0.0
    mark_loss: float = 0.0


class Judged(Note, kw_only=True):
    """A ``Judge``."""

    loss: Loss
    rows: Count
    changes: Count
    last: Number | None
    cells: list[tuple[Annotated[int, Meta(ge=0, lt=CELLS)], Weight, Weight]]
    confusion: list[tuple[Count, Annotated[int, Meta(ge=-1, le=LONGEST_COUNT)], Weight]]
    sums: tuple[float, float, float, float, float]
    own: tuple[float, float] = (0.0, 0.0)
    first: Number
    sample: list[Number]


class Labels(Note, kw_only=True):
    """A ``Task``."""

    kind: Annotated[str, _one_of(("classification", "multiclass", "regression"))]
    negative: Number | None = None
    positive: Number | None = None
    named: str | None = None
    names: list[str] | None = None
    words: bool = False


class Training(Note, kw_only=True):
    """Description of a model's training."""

    task: Labels
    reading: dict[str, Any]
    progress: Tally
    held_out: Tally | None
    names: Names
    schema: dict[str, Any] | None = None
    format: Annotated[str, _one_of(FORMATS)] | None = None
    holdout: Count = 0
    judge: Judged | None = None
    held_out_judge: Judged | None = None
    refused: Count = 0
    unusable: Count = 0
    skipped: Count = 0
    positives: Count = 0


class Pass(Note, kw_only=True):
    """A pass over the data."""

    loss: float | None
    held_out_loss: float | None


class Checkpoint(Note, kw_only=True):
    """Progress of a job."""

    plan: dict[str, Any]
    files: list[str] | None = None
    position: str | None
    end: str | None
    finished_passes: Count
    passes: list[Pass]
    rows_before: Count
    skipped_before: Count
    started_at: Count
    due_records: list[Record]
    predictions_written: Count
    predictions: str | None


class Shard(Note, kw_only=True):
    """Progress of a shard of a cluster."""

    path: str
    rows: Count
    rounds: Count
    passes: Count
    position: str | None


class Report(Note, kw_only=True):
    """Report of a task on a cluster on its shard."""

    shard: Count = 0
    rows: Count
    refused: Count = 0
    skipped: Count
    progress: Tally | None = None
    position: str | None = None
    names: Names = {}
    width: Count = 0


class Cluster(Note, kw_only=True):
    """Progress of a run on a cluster."""

    plan: dict[str, Any]
    ledger: list[Shard] = []
    rounds: Count = 0
    forks: Count = 0
    refused: Count = 0
    skipped: Count = 0
    due_records: list[Record] = []
    reports: list[Report] = []


class Notes(msgspec.Struct):
    """All notes of jobs; other writers may add their own keys."""

    training: Training | None = None
    checkpoint: Checkpoint | None = None
    cluster: Cluster | None = None
    plan: dict[str, Any] | None = None
    reports: list[Report] | None = None


def read_noted(path: model_file.PathLike) -> model_file.Content:
    """Read a model file with notes that jobs can follow.

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
    """Refuse notes of another form than jobs write."""
    training = converted(notes, Notes).training
    if training is not None:
        _check_training(training)


def converted(notes: Any, kind: type[T], field: str = "notes", path: str | None = None) -> T:
    """Return a note as an object of this type; a ModelFileError names missing or malformed entries."""
    try:
        return msgspec.convert(notes, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `")
        field += place.rstrip("`").removeprefix("$")
        raise ModelFileError(f"{field}: {reason}", field, path) from None


_SET_BY_JOBS = ("path", "resume", "schema")


def _check_training(metadata: Training) -> None:
    """Check the parts of a training's notes against each other."""
    known = set(signature(stream).parameters) - set(_SET_BY_JOBS)
    require(
        metadata.reading.keys() <= known, "notes.training.reading has an option that no reader has", "notes.reading"
    )
    kind, names = metadata.task.kind, metadata.task.names
    field = "notes.training.task"
    if kind == "classification":
        require(metadata.task.positive is not None, f"{field} has no positive label", field)
        require(names is None or len(names) == 2, f"{field} has not two names", field)
    else:
        require((kind == "multiclass") == (names is not None), f"{field} and its names contradict each other", field)
    require(names is None or len(set(names)) == len(names), f"{field} has a name twice", field)
    for name in ("judge", "held_out_judge"):
        judge = getattr(metadata, name)
        if judge is not None:
            most = max((max(code, said) for code, said, _ in judge.confusion), default=-1)
            require(most < len(names or []), f"notes.training.{name} has a class without a name", f"notes.{name}")
            sampled = kind == "regression" and judge.loss.split(" ")[0] in SAMPLED
            kept = min(judge.rows, KEPT) if sampled else 0
            require(len(judge.sample) == kept, f"notes.training.{name} has another sample", f"notes.{name}")
    counted = kind != "regression"
    for name in ("progress", "held_out"):
        tally = getattr(metadata, name)
        fits = tally is None or (tally.signs is counted and tally.due > tally.rows)
        require(fits, f"notes.training.{name} contradicts itself", f"notes.{name}")


def check_fit(metadata: dict[str, Any], learner: Any, loss: str) -> None:
    """Refuse notes of a training of another kind of learner."""
    many = hasattr(learner, "n_classes")
    names = metadata["task"].get("names") or []
    fits = (metadata["task"]["kind"] == "multiclass") is many and (not many or learner.n_classes <= len(names))
    require(fits, "its notes are of another kind of model", "notes.training.task")
    for name in ("progress", "held_out", "judge", "held_out_judge"):
        part = metadata.get(name)
        require(part is None or part["loss"] == loss, f"notes.training.{name} is of another loss", f"notes.{name}")
