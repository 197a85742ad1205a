"""What learns: a training job without a file, for two labels or numbers. Its model file is the program's."""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import onsketch
from onsketch.core.errors import InputError, OptionError
from onsketch.core.tolerances import LARGEST
from onsketch.data.json_rows import shown
from onsketch.data.task import Task
from onsketch.files import model_file
from onsketch.jobs.evaluation import Progress, new_progress
from onsketch.jobs.serve.batch import Batch, Floats, Rows, part_of
from onsketch.jobs.training import Plan, Training

STEP_SECONDS = 0.0005
"""Learning goes in steps of about this long: what a prediction may have to wait."""

KINDS = {
    "binary": "binary",
    "classification": "binary",
    "classes": "classes",
    "multiclass": "classes",
    "regression": "regression",
    "numbers": "regression",
}
"""What ``--task`` may say, and what it means."""


class Learned(NamedTuple):
    """What came of learning some rows."""

    margins: Floats
    """Predicted before each row was learned; (rows,) or (rows, classes)."""
    taken: NDArray[np.bool_]
    """Which rows were learned: an update that is not finite is refused, and the row has no margin."""


class Admitted(NamedTuple):
    """Labels as numbers, and what was wrong with those that have none."""

    codes: Floats
    refused: dict[int, str]
    """Why, by row; their codes are NaN."""
    classes: list[str]
    """Classes met for the first time."""


class Model(ABC):
    """A learner, what labels mean to it, and its tallies. One thread learns; any may predict."""

    kind: str
    """binary, regression or classes."""
    learner: Any
    reading: dict[str, Any]
    """Options of the reader, as a model file keeps them."""

    def __init__(self) -> None:
        self._step = 64

    @property
    @abstractmethod
    def rows(self) -> int:
        """Rows learned since the model began."""

    @property
    @abstractmethod
    def tally(self) -> dict[str, Any]:
        """Rows, mean loss and, where there are classes, error so far."""

    @abstractmethod
    def admit(self, labels: Sequence[Any] | Floats) -> Admitted:
        """Labels as numbers. Nothing is changed: ``learn`` does that."""

    @abstractmethod
    def _learn(self, rows: Rows, labels: Floats, weights: Floats | None) -> Learned:
        """Learn a few rows."""

    @abstractmethod
    def begin(self, batch: Batch) -> None:
        """Take note of what a batch says first: a label or classes not met before."""

    @abstractmethod
    def losses(self, labels: Floats, margins: Floats) -> tuple[Floats, Floats | None]:
        """The loss of each row, and whether it was mistaken, where that can be said."""

    @abstractmethod
    def save(self, path: model_file.PathLike, notes: Mapping[str, Any] | None = None) -> None:
        """Write a model file, which is the program's; ``notes`` come beside its own."""

    def learn(self, batch: Batch, pause: Callable[[], None] = lambda: None) -> Learned:
        """Learn a batch in short steps, with a pause after each, in which others predict."""
        self.begin(batch)
        count, start = len(batch), 0
        parts = []
        while start < count:
            stop = min(start + self._step, count)
            began = time.perf_counter()
            weights = None if batch.weights is None else batch.weights[start:stop]
            parts.append(self._learn(part_of(batch.rows, start, stop), batch.labels[start:stop], weights))
            self._pace(stop - start, time.perf_counter() - began)
            start = stop
            pause()
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return Learned(np.empty(0), np.empty(0, dtype=bool))
        return Learned(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _pace(self, rows: int, seconds: float) -> None:
        """Rows of the next step. Where steps are cut changes no bit of a learner."""
        if rows == self._step:
            if seconds < STEP_SECONDS / 2:
                self._step = min(self._step * 2, 1 << 14)
            elif seconds > STEP_SECONDS * 2:
                self._step = max(self._step // 2, 1)

    def predict(self, rows: Rows) -> Floats:
        """Margins."""
        margins: Floats = self.learner.predict(rows)
        return margins

    def copy(self) -> Model:
        """The model as it is now, to be written while this one goes on."""
        twin = copy.copy(self)
        twin.learner = self.learner.fork() if hasattr(self.learner, "fork") else copy.deepcopy(self.learner)
        return twin


class TrainedModel(Model):
    """Two labels or numbers: :class:`onsketch.jobs.training.Training`, fed by hand."""

    def __init__(self, job: Training) -> None:
        super().__init__()
        self.job = job
        assert job.task is not None
        self.kind = "binary" if job.task.signs else "regression"
        self.reading = job.plan.reading

    @property
    def learner(self) -> Any:
        """The learner."""
        return self.job.learner

    @property
    def task(self) -> Task:
        """What labels mean."""
        assert self.job.task is not None
        return self.job.task

    @property
    def progress(self) -> Progress:
        """The running sums."""
        assert self.job.progress is not None
        return self.job.progress

    @property
    def rows(self) -> int:
        """Rows learned since the model began."""
        return self.progress.rows

    @property
    def tally(self) -> dict[str, Any]:
        """Rows, mean loss and error so far."""
        progress = self.progress
        return {"rows": progress.rows, "loss": progress.mean_loss, "error": progress.error}

    def admit(self, labels: Sequence[Any] | Floats) -> Admitted:
        """Labels as numbers."""
        if isinstance(labels, np.ndarray) and self.task.named is None:
            codes, refused = labels, {}
            unfit = self._strange(labels)
            if unfit.any():
                codes = labels.copy()
                for row in np.flatnonzero(unfit).tolist():
                    refused[row] = self._why(float(labels[row]))
                    codes[row] = np.nan
            return Admitted(codes, refused, [])
        codes, refused = np.empty(len(labels)), {}
        for row, label in enumerate(labels):
            try:
                codes[row] = self._number(label)
            except InputError as error:
                codes[row], refused[row] = np.nan, str(error)
        if self.task.named is None:
            unfit = self._strange(codes) & ~np.isnan(codes)
            for row in np.flatnonzero(unfit).tolist():
                refused[row] = self._why(float(codes[row]))
            codes[unfit] = np.nan
        return Admitted(codes, refused, [])

    def _number(self, label: Any) -> float:
        named = self.task.named
        if named is not None:
            if label is None or isinstance(label, (dict, list)) or label != label:
                raise InputError(f"label: expected a word or a number, found {shown(label)}.")
            return 1.0 if class_name(label) == class_name(_parsed(named)) else -1.0
        if isinstance(label, (bool, int, float)):
            try:
                return float(label)
            except OverflowError:
                pass
        raise InputError(f"label: {shown(label)}: {self._expected()}")

    def _strange(self, codes: Floats) -> NDArray[np.bool_]:
        """Labels that the task does not know; NaN is one."""
        if self.kind == "regression":
            return ~(np.abs(codes) <= LARGEST)
        if self._usual:
            return ~np.isin(codes, (-1.0, 0.0, 1.0))
        return self.task.strange(codes)

    @property
    def _usual(self) -> bool:
        """Whether 1 is told from 0 or −1, which then mean the same."""
        return self.task.positive == 1.0 and self.task.negative in (None, 0.0, -1.0)

    def _why(self, label: float) -> str:
        return f"label: {label:g}: {self._expected()}"

    def _expected(self) -> str:
        if self.kind == "regression":
            return f"this model learns numbers, finite and within ±{LARGEST:g}."
        if self._usual:
            return (
                "labels of two classes are 1 and 0, 1 and -1, or true and false; for others start the service with "
                "--positive LABEL, --task classes or --task regression."
            )
        return f"this model tells {self.task.positive:g} from {self.task.negative:g}."

    def begin(self, batch: Batch) -> None:
        """Settle the label that stands for the other class when it first comes."""
        if self.kind == "binary" and self.task.negative is None:
            others = batch.labels[batch.labels != 1.0]
            if others.size:
                self.job.task = replace(self.task, negative=float(others[0]))

    def _learn(self, rows: Rows, labels: Floats, weights: Floats | None) -> Learned:
        y = self.signs(labels)
        margins, taken, _ = self.job._absorb(rows, y, weights)
        self.job.positives += int(np.count_nonzero(y[taken] > 0.0))
        return Learned(margins, taken)

    def signs(self, labels: Floats) -> Floats:
        """Labels as the learner takes them."""
        return np.where(labels == self.task.positive, 1.0, -1.0) if self.task.signs else labels

    def losses(self, labels: Floats, margins: Floats) -> tuple[Floats, Floats | None]:
        """The loss of each row, and whether its sign was mistaken."""
        from onsketch.core.losses import loss_values

        y = self.signs(labels)
        wrong = ((margins > 0.0) != (y > 0.0)).astype(np.float64) if self.task.signs else None
        return loss_values(self.progress.loss, margins, y), wrong

    def save(self, path: model_file.PathLike, notes: Mapping[str, Any] | None = None) -> None:
        """As ``onsketch train --save`` writes it."""
        if notes is not None and "serve" in notes:
            notes = {**notes, "serve": {**notes["serve"], "undecided": self.task.negative is None}}
        self.learner.save(path, {"training": self._told(), **(notes or {})})

    def _told(self) -> dict[str, Any]:
        """What the program writes beside a model; a label not met so far is taken for −1."""
        told = self.job._told()
        if self.kind == "binary" and self.task.negative is None:
            told = {**told, "task": replace(self.task, negative=-1.0).state()}
        return told

    def copy(self) -> Model:
        """The model as it is now."""
        twin = copy.copy(self)
        twin.job = copy.copy(self.job)
        twin.job.learner = self.learner.fork()
        twin.job.progress, twin.job.judge = replace(self.progress), copy.deepcopy(self.job.judge)
        twin.job.names = dict(self.job.names)
        return twin


def class_name(label: Any) -> str:
    """A label as a name: true and 1 are both "1", as in the files that have no other way to write them.

    >>> class_name(True), class_name(2.0), class_name("2"), class_name("red")
    ('1', '2', '2', 'red')
    """
    return label if isinstance(label, str) else f"{float(label):g}"


def _parsed(named: str) -> Any:
    try:
        return float(named)
    except ValueError:
        return named


def new_model(method: str, options: dict[str, Any], task: str, reading: dict[str, Any]) -> Model:
    """An empty model for a task."""
    kind = KINDS.get(task)
    if kind is None:
        raise OptionError(f"task={task!r}: expected binary, classes or regression.")
    if kind == "classes":
        from onsketch.jobs.serve.classes import new_classes

        return new_classes(method, options, reading)
    named = reading.get("positive")
    if kind == "regression" and named is not None:
        raise OptionError("--positive names a class; it does not go with --task regression.")
    job = _job(method, options, kind, reading)
    if kind == "regression":
        job.task = Task("regression")
    elif named is not None:
        job.task = Task("classification", -1.0, 1.0, str(named))
    else:
        job.task = Task("classification", None, 1.0)
    job.learner = onsketch.learner(method, **{"loss": job.task.default_loss, **options})
    job.progress = new_progress(job.learner, job.task.signs)
    return TrainedModel(job)


class _Fed(Training):
    """A training job that is given its rows; one whose update would not be finite is passed over and told of."""

    @property
    def _skipping(self) -> bool:
        return True


def _job(method: str, options: dict[str, Any], kind: str, reading: dict[str, Any]) -> Training:
    return _Fed(Plan([], method, options, reading, "regression" if kind == "regression" else "classification"))


def load_model(path: model_file.PathLike) -> tuple[Model, dict[str, Any]]:
    """The model of a file that the program or the service wrote, and the notes beside it."""
    content = model_file.read(path)
    if content.kind == "classes" and "serve_classes" in content.notes:
        from onsketch.jobs.serve.classes import load_classes

        return load_classes(content), content.notes
    told = content.notes.get("training")
    if content.kind != "learner" or told is None:
        raise OptionError(
            f"{path}: holds a {content.kind} without what its labels and features are; serve takes a model that "
            "'onsketch train --save' wrote, or none to start empty."
        )
    reading = told["reading"]
    job = _job(content.header["method"]["name"], {}, Task(**told["task"]).kind, reading)
    job._take_up(content, told)
    assert job.task is not None
    if content.notes.get("serve", {}).get("undecided"):
        job.task = replace(job.task, negative=None)
    return TrainedModel(job), content.notes
