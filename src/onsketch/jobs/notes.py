"""Notes of jobs in model files, and their check before use."""

from __future__ import annotations

import math
import os
import re
from inspect import signature
from typing import Annotated, Any, TypedDict

import msgspec

from onsketch.core.arrays import require
from onsketch.core.errors import ModelFileError
from onsketch.core.losses import LOSSES
from onsketch.data import stream
from onsketch.data.block import SAFETY
from onsketch.data.sniff import FORMATS
from onsketch.data.task import Task
from onsketch.files import model_file
from onsketch.files.records import Count, Note, converted
from onsketch.jobs.judging import KEPT, SAMPLED, Counts
from onsketch.jobs.models import loss_of
from onsketch.jobs.tally import Progress, Record


class Trained(Note, kw_only=True):
    """The data and the figures of a training."""

    task: Task
    reading: dict[str, Any]
    """Options of :func:`onsketch.data.stream`."""
    progress: Progress
    held_out: Progress | None = None
    names: dict[int, str]
    """Names of features by column, as far as the stream gave them."""
    schema: dict[str, Any] | None = None
    """Schema of a table's columns; None without a table."""
    format: Annotated[str, msgspec.Meta(pattern=rf"^({'|'.join(FORMATS)})\Z")] | None = None
    holdout: Count = 0
    judge: Counts | None = None
    held_out_judge: Counts | None = None
    refused: Count = 0
    unusable: Count = 0
    skipped: Count = 0
    positives: Count = 0

    @property
    def read(self) -> dict[str, Any]:
        """The options of reading, without limits, which are the reader's own."""
        return {name: value for name, value in self.reading.items() if name not in SAFETY}


def unknown_training(learner: Any) -> Trained:
    """Return what is known of the training of a learner that was saved alone."""
    return Trained(task=Task("regression"), reading={}, names={}, progress=Progress(loss_of(learner), True))


class Pass(TypedDict):
    """The mean losses of a pass over the data."""

    loss: float | None
    held_out_loss: float | None


class Checkpoint(Note, kw_only=True):
    """Progress of a job."""

    plan: dict[str, Any]
    files: list[str]
    position: str | None
    end: str | None
    finished_passes: Count
    passes: list[Pass]
    rows_before: Count
    skipped_before: Count
    started_at: Count
    records: list[Record]
    predictions_written: Count
    predictions: str | None


class Entry(Note):
    """A shard in the ledger of a cluster: what of it is in the merged model."""

    path: str
    rows: Count = 0
    """In all passes."""
    rounds: Count = 0
    passes: Count = 0
    """Times that the shard has been merged to its end."""
    position: str | None = None
    """Position from which its next round continues."""


class Cluster(Note, kw_only=True):
    """Progress of a run on a cluster."""

    plan: dict[str, Any]
    ledger: list[Entry]
    rounds: Count
    forks: Count
    refused: Count
    skipped: Count
    records: list[Record]


class Notes(msgspec.Struct):
    """All notes of jobs; other writers may add their own keys."""

    training: Trained | None = None
    checkpoint: Checkpoint | None = None
    cluster: Cluster | None = None


def read_noted(path: model_file.PathLike) -> model_file.Content:
    """Read a model file with notes that jobs can follow.

    Raises:
        ModelFileError: as :func:`onsketch.load`; ``field`` names the note.
    """
    content = model_file.read(path)
    try:
        noted(content.notes)
    except ModelFileError as error:
        raise ModelFileError(error.reason, error.field, os.fspath(path)) from None
    return content


def noted(notes: dict[str, Any]) -> Notes:
    """Return the notes as records; refuse those of another form than jobs write."""
    found = converted(notes, Notes)
    if found.training is not None:
        _check(found.training)
    return found


_SET_BY_JOBS = ("path", "resume", "schema")


def _check(trained: Trained) -> None:
    """Check the parts of a training's notes against each other."""
    known = set(signature(stream).parameters) - set(_SET_BY_JOBS)
    require(trained.reading.keys() <= known, "notes.training.reading has an option that no reader has", "notes.reading")
    task, field = trained.task, "notes.training.task"
    names = task.names
    require(all(math.isfinite(label or 0.0) for label in (task.positive, task.negative)), f"{field} is infinite", field)
    if task.signs:
        require(task.positive is not None, f"{field} has no positive label", field)
        require(names is None or len(names) == 2, f"{field} has not two names", field)
    else:
        require(task.many == (names is not None), f"{field} and its names contradict each other", field)
    require(names is None or len(set(names)) == len(names), f"{field} has a name twice", field)
    for name in ("progress", "held_out", "judge", "held_out_judge"):
        part = getattr(trained, name)
        known_loss = part is None or re.fullmatch(rf"({'|'.join((*LOSSES, 'softmax'))})( [0-9.e-]{{1,25}})?", part.loss)
        require(known_loss, f"notes.training.{name} is of a loss that nobody knows", f"notes.{name}")
    for name in ("judge", "held_out_judge"):
        judge = getattr(trained, name)
        if judge is not None:
            most = max((max(code, said) for code, said, _ in judge.confusion), default=-1)
            require(most < len(names or []), f"notes.training.{name} has a class without a name", f"notes.{name}")
            sampled = task.kind == "regression" and judge.loss.split(" ")[0] in SAMPLED
            kept = min(judge.rows, KEPT) if sampled else 0
            require(len(judge.sample) == kept, f"notes.training.{name} has another sample", f"notes.{name}")
    for name in ("progress", "held_out"):
        tally = getattr(trained, name)
        fits = tally is None or tally.signs == (task.kind != "regression")
        require(fits, f"notes.training.{name} contradicts itself", f"notes.{name}")


def check_fit(trained: Trained, learner: Any, loss: str) -> None:
    """Refuse notes of a training of another kind of learner."""
    many = hasattr(learner, "n_classes")
    fits = trained.task.many is many and (not many or learner.n_classes == len(trained.task.names or []))
    require(fits, "its notes are of another kind of model", "notes.training.task")
    for name in ("progress", "held_out", "judge", "held_out_judge"):
        part = getattr(trained, name)
        require(part is None or part.loss == loss, f"notes.training.{name} is of another loss", f"notes.{name}")
