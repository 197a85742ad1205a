"""The model of a service: a training job without a file, for two labels, many classes or numbers."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError, shown
from onsketch.core.probabilities import probabilities
from onsketch.core.tolerances import LARGEST
from onsketch.data.task import TASKS, Task
from onsketch.files import model_file
from onsketch.jobs.estimators import read_trained
from onsketch.jobs.judging import Judge
from onsketch.jobs.model import products_of
from onsketch.jobs.models import asked_task, make_learner
from onsketch.jobs.predictions import classes_of
from onsketch.jobs.serve.batch import Batch, Floats, Rows, part_of
from onsketch.jobs.serve.watch import Watch
from onsketch.jobs.tally import Progress
from onsketch.jobs.training import Plan, Training
from onsketch.rows.hashing import DEFAULT_BITS
from onsketch.rows.schema import Schema

STEP_SECONDS = 0.001
"""Target duration of one learning step: the longest that a prediction should wait."""
_TRIALS = 4
"""Steps of one length, of which the fastest counts: on a busy machine the others are long for no fault of their own."""

_TOGETHER = 128
"""Blocks of rows that are counted together; a block of as many rows is counted at once."""

UNLISTED = Schema(extra="learn").state()
"""The schema of rows whose columns are known only as they come."""

MOST_CLASSES = 1000
"""Most classes of a service; labels that differ in each row are not classes."""

_MISSING = "it has no label."


class Learned(NamedTuple):
    """Outcome of learning some rows."""

    margins: Floats
    """Predicted before each row was learned; (rows,) or (rows, classes)."""
    taken: NDArray[np.bool_]
    """Mask (rows,) of the learned rows: an update that is not finite is refused, and the row has no margin."""


NOTHING = Learned(np.empty(0), np.empty(0, dtype=bool))
"""The outcome of no rows."""


class CheckedLabels(NamedTuple):
    """Labels as numbers, and what was wrong with those that have none."""

    codes: Floats
    refused: dict[int, str]
    """Reasons of refusal, by row; the codes of these rows are NaN."""
    classes: list[str]
    """Classes met for the first time."""


class Model(Training):
    """A training job that is given its rows: learner, task and tallies. One thread learns; any may predict.

    Rows whose update would not be finite are skipped and reported.
    """

    task: Task
    progress: Progress
    _skipping = True

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._uncounted: list[tuple[Floats, Floats, Floats | None]] = []
        """Labels, margins and weights of rows that were learned and are not in the tallies yet."""
        self._counting = threading.Lock()
        self._labels: tuple[Task, list[Any]] | None = None
        """A task, and its two labels."""
        self._step = 64
        self._seconds: list[float] = []
        """Of the last steps of this many rows."""

    def ready(self) -> Model:
        """Count what is learned from now on, too, and return the model."""
        self.quality = Watch(self.task, self.loss)
        self.on_judged = self.quality.add
        return self

    @property
    def classes(self) -> list[str]:
        """Classes met so far, where there are many."""
        return self.task.names if self.task.many and self.task.names is not None else []

    @property
    def kind(self) -> str:
        """The task: binary, multiclass or regression."""
        return "binary" if self.task.signs else self.task.kind

    @property
    def two_labels(self) -> list[Any]:
        """The labels of two classes as answers have them, the negative one first."""
        if self._labels is None or self._labels[0] is not self.task:
            self._labels = self.task, classes_of(self.task).tolist()
        return self._labels[1]

    @property
    def meaning(self) -> tuple[Any, ...]:
        """Meaning of the labels, for comparison with another model; the negative label may still be unknown."""
        return self.task.kind, self.task.positive, self.task.named, self.task.names

    @property
    def encoding(self) -> tuple[Any, ...]:
        """All that decides the columns of a row, for comparison with another model."""
        read = self.reading
        filters = [sorted(read.get(name) or ()) for name in ("ignore", "keep")]
        others = read.get("bits") or DEFAULT_BITS, read.get("missing") or "indicate", read.get("zero_based", True)
        return self.schema or UNLISTED, products_of(read), filters, others

    @property
    def rows(self) -> int:
        """Rows learned since the model began."""
        return self.counted().progress.rows

    def _count(self, tally: Progress, judge: Any, X: Any, y: Floats, predictions: Floats, weights: Any) -> list[Any]:
        """Note rows to be counted together: counting them one by one would cost more than learning them."""
        self.quality.arrive(len(y))
        with self._counting:
            self._uncounted.append((y, predictions, weights))
        if max(len(self._uncounted), len(y)) >= _TOGETHER:
            self.counted()
        return []

    def counted(self) -> Model:
        """Bring the tallies up to date, and return the model."""
        with self._counting:
            noted, self._uncounted = self._uncounted, []
            for _, group in groupby(noted, key=lambda part: part[1].shape[1:]):  # a new class adds a margin
                y, margins, weights = zip(*group, strict=True)
                shares = [np.ones(len(part)) if c is None else c for part, c in zip(y, weights, strict=True)]
                parts = map(np.concatenate, (y, margins, shares))
                super()._count(self.progress, self.judge, None, *parts)
        return self

    def save(self, path: model_file.PathLike, notes: Mapping[str, Any] | None = None) -> None:
        """Write the model."""
        super(Model, self.counted()).save(path, notes)

    # Labels -----------------------------------------------------------------------------------------------

    def admit(self, labels: Sequence[Any] | Floats) -> CheckedLabels:
        """Labels as numbers. Nothing is changed: ``begin`` does that."""
        known = {name: code for code, name in enumerate(self.task.names or ())}
        refused: dict[int, str] = {}
        if isinstance(labels, np.ndarray) and self.task.named is None and self.task.names is None:
            codes = labels.copy()
        else:
            codes = np.full(len(labels), np.nan)
            for row, label in enumerate(labels):
                try:
                    codes[row] = self._code(label, known)
                except InputError as error:
                    refused[row] = str(error)
        if self.task.kind == "regression":
            least = 0.0 if self.learner.loss == "poisson" else -LARGEST
            unfit = ~((codes >= least) & (codes <= LARGEST))
        else:
            unfit = (codes != 1.0) & (codes != 0.0) & (codes != -1.0) if self._usual else self.task.strange(codes)
        for row in np.flatnonzero(unfit).tolist():
            why = _MISSING if np.isnan(codes[row]) else f"label: {codes[row]:g}: {self._expected()}"
            refused.setdefault(row, why)
            codes[row] = np.nan
        return CheckedLabels(codes, refused, list(known)[len(self.classes) :] if self.task.many else [])

    def _code(self, label: Any, known: dict[str, int]) -> float:
        """A label as the task has it before it becomes a sign; a new class of many is added to ``known``."""
        if label is None or label == "" or label != label:
            raise InputError(_MISSING)
        if isinstance(label, (bool, int, float, str)):
            if self.task.named is not None:
                return 1.0 if class_name(label) == class_name(_parsed(self.task.named)) else -1.0
            if self.task.names is not None:
                name = class_name(label)
                if self.task.many and name not in known:
                    if len(known) >= MOST_CLASSES or len(name) > 200:
                        raise InputError(
                            f"label: {shown(name)} would be one class more than {MOST_CLASSES:,}, the limit."
                        )
                    known[name] = len(known)
                if name in known:
                    return float(known[name])
            elif not isinstance(label, str):
                return _as_float(label)
        raise InputError(f"label: {shown(label)}: {self._expected()}")

    @property
    def _usual(self) -> bool:
        """True if labels are {0, 1} or {−1, 1}: then 0 and −1 mean the same."""
        return self.task.positive == 1.0 and self.task.negative in (None, 0.0, -1.0) and self.task.names is None

    def _expected(self) -> str:
        if self.task.kind == "regression" and self.learner.loss == "poisson":
            return "this model learns counts, 0 or more."
        if self.task.kind == "regression":
            return f"this model learns numbers, finite and within ±{LARGEST:g}."
        if self.task.named is not None or self.task.many:
            return "expected a word or a number."
        if self._usual:
            return (
                "labels of two classes are 1 and 0, 1 and -1, or true and false; for others start the service with "
                "--positive LABEL, --task multiclass or --task regression."
            )
        negative, positive = self.task.two_names
        return f"this model tells {positive} from {negative}."

    def signs(self, labels: Floats) -> Floats:
        """Labels as the learner takes them."""
        return np.where(labels == self.task.positive, 1.0, -1.0) if self.task.signs else labels

    # Learning ---------------------------------------------------------------------------------------------

    def begin(self, batch: Batch) -> None:
        """Take over new labels of a batch: the label of the other class, or new classes."""
        if self.task.signs and self.task.negative is None:
            others = batch.labels[batch.labels != 1.0]
            if others.size:
                self.task = replace(self.task, negative=float(others[0]))
        for name in batch.notes.get("classes", ()):
            if name not in self.classes:
                self.classes.append(name)

    def learn(self, batch: Batch, pause: Callable[[], None] = lambda: None) -> Learned:
        """Learn a batch in short steps, with a pause after each, in which others look."""
        self.begin(batch)
        count, start = len(batch), 0
        parts = []
        while start < count:
            stop = min(start + self._step, count)
            began = time.perf_counter()
            weights = None if batch.weights is None else batch.weights[start:stop]
            y = self.signs(batch.labels[start:stop])
            margins, taken, _ = self._absorb(part_of(batch.rows, start, stop), y, weights)
            if self.task.signs:
                self.positives += int(np.count_nonzero(y[taken] > 0.0))
            if self.task.many:  # classes that were not met by then have no margin
                new = len(self.classes) - margins.shape[1]
                margins = np.pad(margins, ((0, 0), (0, new)), constant_values=-np.inf) if new else margins
            parts.append(Learned(margins, taken))
            self._pace(stop - start, time.perf_counter() - began)
            start = stop
            pause()
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return NOTHING
        return Learned(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _pace(self, rows: int, seconds: float) -> None:
        """Rows of the next step. Where steps are cut changes no bit of a learner."""
        if rows != self._step:
            return
        self._seconds.append(seconds)
        if seconds < STEP_SECONDS / 2:
            step = min(self._step * 2, 1 << 14)
        elif len(self._seconds) < _TRIALS or min(self._seconds) < STEP_SECONDS * 2:
            step = self._step
        else:
            step = max(self._step // 2, 1)
        if step != self._step or len(self._seconds) == _TRIALS:
            self._step, self._seconds = step, []

    def predict(self, rows: Rows) -> Floats:
        """Margins: (rows,), or (rows, classes)."""
        margins: Floats = self.learner.predict(rows)
        return margins

    def probabilities(self, margins: Floats) -> Floats:
        """(rows, classes); a class without a margin has none, and where no class has one all are alike."""
        known = np.isfinite(margins)
        found = np.zeros(margins.shape)
        for count in np.unique(known.sum(axis=1)).tolist():  # classes are met one after the other
            rows = known.sum(axis=1) == count
            if count == 0:
                found[rows] = 1.0 / max(margins.shape[1], 1)
            else:
                found[rows, :count] = probabilities(margins[rows, :count], self.loss) if count > 1 else 1.0
        return found

    def copy(self) -> Model:
        """Return a copy of the present model, to be written while this one continues to learn."""
        twin = copy.copy(self.counted())
        twin._uncounted, twin._counting = [], threading.Lock()
        twin.on_judged = None  # rows that the copy learns are not rows of this model
        twin.learner = self.learner.fork() if hasattr(self.learner, "fork") else copy.deepcopy(self.learner)
        twin.task, twin.progress, twin.judge = copy.deepcopy((self.task, self.progress, self.judge))
        twin.names = dict(self.names)
        return twin


def class_name(label: Any) -> str:
    """A label as a name: true and 1 are both "1", as in the files that have no other way to write them.

    >>> class_name(True), class_name(2.0), class_name("2"), class_name("red")
    ('1', '2', '2', 'red')
    """
    return label if isinstance(label, str) else f"{_as_float(label):g}"


def _as_float(label: float) -> float:
    """A number as a float: an integer beyond them all is infinite."""
    try:
        return float(label)
    except OverflowError:
        return np.inf


def _parsed(named: str) -> Any:
    try:
        return float(named)
    except ValueError:
        return named


def new_model(method: str, options: dict[str, Any], task: str, reading: dict[str, Any]) -> Model:
    """An empty model for a task."""
    if task not in TASKS:
        raise OptionError(f"task={task!r}: expected {', '.join(TASKS)}.", task=task)
    many, real = task == "multiclass", task == "regression"
    named, loss = reading.get("positive"), options.get("loss")
    if not real and asked_task(None, loss) == "regression":
        raise OptionError(f"--loss {loss} is for numbers: it goes with --task regression.")
    if (many or real) and named is not None:
        raise OptionError(f"--positive names a class; it does not go with --task {task}.")
    if many or real:
        meaning = Task("multiclass", names=[]) if many else Task("regression")
    else:
        meaning = Task("classification", None if named is None else -1.0, 1.0, named and str(named))
    model = Model(Plan([], method, options, reading))
    model.schema = None if reading.get("format") == "libsvm" else UNLISTED
    return _empty(model, meaning)


def shadow_of(model: Model, method: str) -> Model:
    """An empty model of another method for the same labels and columns as ``model``."""
    other = Model(Plan([], method, {}, model.reading))
    other.schema, other.format, other.names = model.schema, model.format, dict(model.names)
    return _empty(other, copy.deepcopy(model.task))


def _empty(model: Model, meaning: Task) -> Model:
    model.task, model.learner = meaning, make_learner(meaning, model.plan.method, **model.plan.options)
    model.progress, model.judge = Progress(model.loss, meaning.signs or meaning.many), Judge(meaning, model.loss)
    return model.ready()


def load_model(path: model_file.PathLike) -> tuple[Model, dict[str, Any]]:
    """Load the model and the notes of a file that the program or the service wrote."""
    content = read_trained(path)
    metadata = content.notes.get("training")
    if content.kind not in ("learner", "classes") or metadata is None:
        raise OptionError(
            f"{path}: holds a {content.kind} without what its labels and features are; serve takes a model that "
            "'onsketch train --save' wrote, or none to start empty."
        )
    method = content.header["method"]
    model = Model(Plan([], method["name"] if isinstance(method, dict) else method, {}, metadata["reading"]))
    model.go_on_from(path)
    return model.ready(), content.notes
