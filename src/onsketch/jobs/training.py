"""One learner over one stream, with everything that must survive a crash: the job behind ``onsketch train``.

A job is a plan (what to read, what to learn) and a state (the learner, the tallies, the place in the stream). A
checkpoint is a model file whose notes hold the plan and the state, written atomically between two blocks; a job that
resumes from it does exactly what the job that was killed would have done, down to the bytes of the final model. A
model holds all of the state but the place: a job that goes on from it with other files does what one job over all of
them would have done.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, ModelFileError, OptionError, UpdateError
from onsketch.data.block import Sparse
from onsketch.data.task import Task, understood
from onsketch.data.usable import labels, learnable, refuse_nothing
from onsketch.files import model_file
from onsketch.jobs.answers import answers, check_kind, default_kind
from onsketch.jobs.evaluation import Course, Progress, Record, new_progress
from onsketch.jobs.judging import Judge
from onsketch.jobs.models import asked_task, loss_of, make_learner
from onsketch.jobs.notes import check_fit, read_noted
from onsketch.jobs.predictions import Predictions, lines, words
from onsketch.jobs.weights import Scales

if TYPE_CHECKING:
    from onsketch.data import Block

__all__ = ["Plan", "Training", "lines", "rereadable", "words"]

Array = NDArray[np.float64]

READ_BY_THE_PROGRAM = {"everyday": True}
"""How jobs read, unless told otherwise."""


@dataclass(frozen=True)
class Plan:
    """What to do: decides every byte of the outcome."""

    sources: list[str]
    """Files, globs, addresses, or ``-`` for standard input."""
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    """Of the learner; without a loss it is chosen by the task."""
    reading: dict[str, Any] = field(default_factory=dict)
    """Options of :func:`onsketch.data.stream`."""
    task: str | None = None
    passes: int = 1
    holdout: int = 0
    """One row in so many is never learned, but predicted by the model as of the end of its block; 0 for none."""
    patience: int = 0
    """Stop after so many passes in which the held-out loss did not fall, and keep the best model; 0 never stops."""
    start: str | None = None
    """A model to go on from."""

    def check(self) -> None:
        """Refuse what cannot be done, before anything is read."""
        if self.passes < 1:
            raise OptionError(f"passes={self.passes}: expected at least 1.")
        if self.passes > 1 and not rereadable(self.sources):
            raise OptionError("standard input and pipes can be read once only; --passes needs a file.")
        if self.holdout < 0 or self.holdout == 1:
            raise OptionError(f"holdout={self.holdout}: one row in this many is held out: give 0 (none), or 2 or more.")
        if self.patience and not (self.holdout and self.passes > 1):
            raise OptionError("--early-stop looks at the held-out loss of each pass: it needs --holdout and --passes.")


class Training:
    """A job under way. Iterate over :meth:`run`; everything it knows can be read at any time."""

    def __init__(self, plan: Plan, predictions: str | None = None, kind: str | None = None) -> None:
        plan.check()
        self.plan = plan
        self.task: Task | None = None
        self.learner: Any = None
        self.progress: Progress | None = None
        self.held_out: Progress | None = None
        self.judge: Judge | None = None
        """Over the rows of the first pass, each predicted before it was learned."""
        self.held_out_judge: Judge | None = None
        self.records: list[Record] = []
        self.finished_passes = 0
        self.passes: list[dict[str, float | None]] = []
        """Of each pass finished: its mean loss, and that of its held-out rows."""
        self.stopped_early = False
        self.positives = 0
        """Rows of the class to be found."""
        self.refused = 0
        """Rows whose update would not be finite, passed over with on_error="skip"."""
        self.names: dict[int, str] = {}
        """Names of features, as far as the stream has told."""
        self.schema: dict[str, Any] | None = None
        """What the columns of a table are."""
        self.format: str | None = None
        """Of the first file, where it has a schema."""
        self.started_at = 0
        """Rows that the model had read which this job goes on from."""
        self.unmet: set[str] = set()
        """Letters of namespaces that products were asked of and that never came."""
        self.scales: Scales | None = None
        """The scales of features, where a page is to show them; see :meth:`watch`."""
        self.shares: list[tuple[int, Array]] = []
        """Where a page is to show them: rows, and how much each expert counts."""
        self.first_bad = ""
        """Of the lines skipped, what was wrong with the first."""
        self.unusable = 0
        """Rows passed over for want of a label, or for their length."""
        self._watched = False
        self.waiting = False
        """Whether the job waits for a block: an exception raised then loses nothing that was learned."""
        self._position: Any = None
        self._end: Any = None
        """Where the last pass ended: more files may follow."""
        self._blocks: Any = None
        self._best: tuple[float, Any] | None = None
        """The least held-out loss of a pass, and the learner of that time."""
        self._skipped_before = 0
        """Bad lines of the passes finished."""
        self._rows_before = 0
        """Rows of the passes finished."""
        self._predictions = Predictions(predictions)
        self._kind = kind
        self._whole = True
        """Whether this is all of the job, so that there must be rows; a shard may have none."""

    @property
    def rows(self) -> int:
        """Rows read, in all passes."""
        held = self.held_out.rows if self.held_out else 0
        return self.refused + held + (self.progress.rows if self.progress else 0)

    @property
    def skipped(self) -> int:
        """Bad lines and rows passed over."""
        return self.refused + self._skipped_before + (self._position.skipped if self._position else 0)

    @property
    def position(self) -> Any:
        """Where the stream stands; None at the beginning and at the end of a pass."""
        return self._position

    @property
    def loss(self) -> str:
        """The loss of the learner."""
        return loss_of(self.learner)

    @property
    def columns(self) -> dict[str, Any] | None:
        """What the columns of the table at hand are, as far as they are known."""
        return self.schema or (None if self._blocks is None else self._blocks.schema)

    def watch(self) -> None:
        """Draw the course and count the scales of features from here on, for a page; nothing learned depends on it."""
        self._watched, self.scales = True, Scales()

    def start_from(self, learner: Any, task: Task, position: Any) -> None:
        """Go on with a given learner from a given place, with fresh tallies: one shard of a larger job."""
        self.learner, self.task, self._position, self._whole = learner, task, position, False
        self.progress = new_progress(learner, task.signs)
        self.judge = Judge(task, self.loss)

    # Running ----------------------------------------------------------------------------------------------

    def run(self) -> Iterator[tuple[Block, list[Record]]]:
        """Learn block after block; yields each with the records that fell due. Stop between two to stop cleanly."""
        from onsketch.data import stream

        if self.plan.start is not None and self.learner is None:
            self.go_on_from(self.plan.start)
        self._predictions.open()
        try:
            while self.finished_passes < self.plan.passes and not self.stopped_early:
                self.waiting = True  # a pipe may bring nothing even to tell its format by
                reading = {**READ_BY_THE_PROGRAM, **self.plan.reading, "schema": self.schema}
                with stream(self.plan.sources, resume=self._position, **reading) as blocks:
                    self._blocks = blocks
                    for block in self._awaited(blocks):
                        records = self._learn(block)
                        self._position = block.position
                        self.records += records
                        yield block, records
                    self._end_of_pass(blocks)
            if self.learner is None or (self._whole and self.rows == self.refused):
                refuse_nothing(self.plan.sources, self.skipped)
            self._check_positive()
        finally:
            self._gather_names()
            self._predictions.close()

    def _awaited(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """The blocks; ``waiting`` tells whoever wants to interrupt that nothing is half done."""
        while True:
            self.waiting = True
            block = next(blocks, None)
            self.waiting = False
            if block is None:
                return
            yield block

    def _end_of_pass(self, blocks: Any) -> None:
        self._gather_names()
        self.schema = blocks.schema
        self.unmet = blocks.unmet
        self.first_bad = self.first_bad or str(blocks.first_skipped or "")
        self._skipped_before += blocks.skipped
        self._end, self._position = blocks.position, None
        self.finished_passes += 1
        self._rows_before = self.rows
        if self.progress is None or self.plan.passes == 1:
            return
        losses = [None if tally is None else tally.since_mark() for tally in (self.progress, self.held_out)]
        self.passes.append({"loss": losses[0], "held_out_loss": losses[1]})
        if self.plan.patience and losses[1] is not None:
            self._consider_stopping(losses[1])

    def _consider_stopping(self, loss: float) -> None:
        """Keep the best model; stop when it has stayed the best for a while, and at the end go back to it."""
        if self._best is None or loss < self._best[0]:
            self._best = loss, copy.deepcopy(self.learner)
        best = min(range(len(self.passes)), key=lambda k: self.passes[k]["held_out_loss"] or 0.0)
        self.stopped_early = len(self.passes) - 1 - best >= self.plan.patience
        if self.stopped_early or self.finished_passes == self.plan.passes:
            self.learner = self._best[1]

    def _check_positive(self) -> None:
        if self._whole and self.task is not None and self.task.named is not None and self.positives == 0:
            known = self.rows - self.refused
            raise InputError(
                f"positive={self.task.named!r}: not one of the {known:,} rows has this label; is it spelt right?"
            )

    def _learn(self, block: Block) -> list[Record]:
        kept = learnable(block, self._skipping)
        words_met = self._blocks.classes if self._blocks is not None else None
        if self.task is None:
            self._begin(kept.y, words_met)
        assert self.task is not None
        y, weights = labels(block, kept, self.task, words_met), kept.sample_weight
        before = self.rows - self._rows_before
        self.refused += kept.passed_over
        self.unusable += kept.passed_over
        if self._watched and self.progress is not None and self.scales is not None:
            for tally in (self.progress, self.held_out):
                if tally is not None:
                    tally.curve = tally.curve or Course()
            self.scales.add(kept.rows)
        if self.plan.holdout:
            X = kept.X
            learned = (before + 1 + np.arange(len(y))) % self.plan.holdout != 0
            some, taken_some, records = self._absorb(X[learned], y[learned], _chosen(weights, learned))
            rest = self._hold_out(X[~learned], y[~learned], _chosen(weights, ~learned))
            taken = np.ones(len(y), dtype=bool)
            taken[learned] = taken_some
            predictions = _woven(some, rest, learned)
        else:
            predictions, taken, records = self._absorb(kept.rows, y, weights)
        if self.task.signs:
            self.positives += int(np.count_nonzero(y[taken] > 0.0))
        if self._predictions.wanted:
            tags = kept.tags if taken.all() else kept.tags and list(compress(kept.tags, taken))
            self._predictions.write(words(answers(predictions[taken], self.task, self.loss, self._answer), tags))
        return records

    @property
    def _answer(self) -> str:
        """The kind of answer that predictions are."""
        assert self.task is not None
        return self._kind or default_kind(self.task)

    @property
    def _skipping(self) -> bool:
        return self.plan.reading.get("on_error") == "skip"

    def _begin(self, y: Array, words_met: list[str] | None) -> None:
        """Make the learner when the first labels have been seen."""
        kind = asked_task(self.plan.task, self.plan.options.get("loss"))
        self.task = understood(y, kind, self.plan.reading.get("positive"), words_met)
        self.learner = make_learner(self.task, self.plan.method, **self.plan.options)
        if self._kind is not None:
            check_kind(self._kind, self.task, self.loss)
        counted = self.task.signs or self.task.many
        self.progress, self.judge = Progress(self.loss, counted), Judge(self.task, self.loss)
        if self.plan.holdout:
            self.held_out, self.held_out_judge = Progress(self.loss, counted), Judge(self.task, self.loss)

    def _hold_out(self, X: Any, y: Array, weights: Array | None) -> Array:
        assert self.held_out is not None
        self._make_room(y)
        predictions: Array = self.learner.predict(X)
        self._count(self.held_out, self.held_out_judge, X, y, predictions, weights)
        return predictions

    def _count(
        self, tally: Progress, judge: Judge | None, X: Any, y: Array, predictions: Array, weights: Array | None
    ) -> list[Record]:
        assert self.task is not None
        if judge is None and tally is self.progress:
            judge = self.judge = Judge(self.task, self.loss)
        if judge is not None and self.finished_passes == 0:
            said = predictions
            if self.task.many:
                said = predictions.argmax(axis=1) if len(predictions) else np.zeros(0)
            judge.add(y, said, weights)
        return tally.add(X, y, predictions, weights, self.task.names)

    def _make_room(self, y: Array) -> None:
        """Let the learner know of classes up to those of these rows."""
        while self.task is not None and self.task.many and self.learner.n_classes <= y.max(initial=-1.0):
            self.learner.add_class()

    def _next_part(self, y: Array, start: int) -> int:
        """Where the rows end that can be learned before a class is met for the first time, or a page wants a look."""
        stop = len(y)
        if self._watched and hasattr(self.learner, "shares"):  # no cut changes a bit of what is learned
            stop = min(stop, start + max(32, self.rows // 50))
        if self.task is None or not self.task.many or start == len(y):
            return stop
        self._make_room(y[start : start + 1])
        new = np.flatnonzero(y[start:stop] >= self.learner.n_classes)
        return start + int(new[0]) if new.size else stop

    def _absorb(self, X: Any, y: Array, weights: Array | None) -> tuple[Array, NDArray[np.bool_], list[Record]]:
        """Learn the rows, counting each; a row that is refused is passed over where that was asked for.

        Returns the predictions, which rows were learned (the others have no prediction), and the records.
        """
        assert self.progress is not None
        assert self.task is not None
        many = self.task.many
        parts: list[tuple[slice, Array]] = []
        taken, records, start = np.ones(len(y), dtype=bool), [], 0
        while start < len(y):
            goal = self._next_part(y, start)
            if start > 0 or goal < len(y):
                X = X.matrix() if isinstance(X, Sparse) else X
            part = X if start == 0 and goal == len(y) else X[start:goal]
            stop, targets = goal, y[start:goal].astype(np.int64) if many else y[start:goal]
            try:
                margins = self.learner.learn(part, targets, _chosen(weights, slice(start, goal)))
            except UpdateError as error:
                if not self._skipping:
                    raise
                X = X.matrix() if isinstance(X, Sparse) else X
                stop = start + error.row
                part, margins = X[start:stop], np.asarray(error.predictions)
                self.refused += 1
                taken[stop] = False
            done = slice(start, stop)
            parts.append((done, margins))
            records += self._count(self.progress, self.judge, part, y[done], margins, _chosen(weights, done))
            start = stop if stop == goal else stop + 1
            if self._watched and hasattr(self.learner, "shares"):
                self.shares.append((self.progress.rows, self.learner.shares))
        return _joined(parts, len(y), self.learner.n_classes if many else None), taken, records

    # Saving and resuming ----------------------------------------------------------------------------------

    def save(self, path: model_file.PathLike) -> None:
        """Write the model, with what ``predict``, ``inspect`` and ``--from`` need to know beside it."""
        self.learner.save(path, {"training": self._told()})

    def checkpoint(self, path: model_file.PathLike) -> None:
        """Write everything needed to go on from here."""
        self._predictions.flush()
        going = {
            "plan": asdict(self.plan),
            "files": self._files(),
            "position": None if self._position is None else self._position.to_json(),
            "end": None if self._end is None else self._end.to_json(),
            "finished_passes": self.finished_passes,
            "passes": self.passes,
            "rows_before": self._rows_before,
            "skipped_before": self._skipped_before,
            "started_at": self.started_at,
            "due_records": [list(record) for record in self.records],
            "predictions_written": self._predictions.written,
            "predictions": self._predictions.path,
        }
        self.learner.save(path, {"training": self._told(), "checkpoint": going})

    def _files(self) -> list[str]:
        from onsketch.data.sources import expand

        return [str(source) for source in expand(self.plan.sources)]

    def _gather_names(self) -> None:
        """Take over what the stream has told of names and columns so far."""
        if self._blocks is not None:
            for feature, name in list(self._blocks.names.items()):
                self.names.setdefault(feature, name)
            self.schema = self._blocks.schema or self.schema
            if self.schema is not None:
                self.format = self.format or self._blocks.format

    def _told(self) -> dict[str, Any]:
        assert self.task is not None
        assert self.progress is not None
        self._gather_names()
        return {
            "task": self.task.state(),
            "reading": self.plan.reading,
            "schema": self.schema,
            "format": self.format,
            "holdout": self.plan.holdout,
            "progress": self.progress.state(),
            "judge": None if self.judge is None else self.judge.state(),
            "held_out": None if self.held_out is None else self.held_out.state(),
            "held_out_judge": None if self.held_out_judge is None else self.held_out_judge.state(),
            "refused": self.refused,
            "unusable": self.unusable,
            "skipped": self.skipped,
            "positives": self.positives,
            "names": {str(feature): name for feature, name in sorted(self.names.items())},
        }

    def _take_up(self, content: model_file.Content, told: dict[str, Any]) -> None:
        """The state that models and checkpoints both hold."""
        self.learner = model_file.build(content)
        check_fit(told, self.learner, self.loss)
        self.task = Task(**told["task"])
        self.progress = Progress(**told["progress"])
        self.held_out = None if told["held_out"] is None else Progress(**told["held_out"])
        judges = [told.get(name) for name in ("judge", "held_out_judge")]
        self.judge, self.held_out_judge = (None if one is None else Judge.from_state(self.task, one) for one in judges)
        self.refused, self.positives = told["refused"], told["positives"]
        self.unusable = told.get("unusable", self.refused)  # what it mostly is, where a file does not say
        self.schema, self.format = told["schema"], told["format"]
        self.names = {int(feature): name for feature, name in told["names"].items()}

    def go_on_from(self, path: model_file.PathLike) -> None:
        """Go on from a model that was saved, as if its rows and these were one stream."""
        content = read_noted(path)
        told = content.notes.get("training")
        if told is None or not {"schema", "refused", "skipped", "positives", "format"} <= told.keys():
            raise ModelFileError(f"{os.fspath(path)}: not a model that 'onsketch train --save' of this version wrote.")
        self._take_up(content, told)
        self._skipped_before = told["skipped"] - self.refused
        self.started_at = self.rows

    def resume(self, path: model_file.PathLike) -> None:
        """Take up where a checkpoint of the same plan left off; files may have been added after those it knew."""
        from onsketch.data import Position

        content = read_noted(path)
        going, told = content.notes.get("checkpoint"), content.notes.get("training")
        if going is None or told is None:
            raise ModelFileError(f"{os.fspath(path)}: a model, but not a checkpoint; --checkpoint writes those.")
        longer = self._longer(going, os.fspath(path))
        self._take_up(content, told)
        self.records = [Record(*record) for record in going["due_records"]]
        self.finished_passes = going["finished_passes"]
        self.passes = going["passes"]
        self.started_at = going["started_at"]
        self._skipped_before = going["skipped_before"]
        self._rows_before = going["rows_before"]
        self._position, self._end = (
            None if going[name] is None else Position.from_json(going[name]) for name in ("position", "end")
        )
        if longer and self.finished_passes == 1 and self._end is not None:  # the end was not the end
            self.finished_passes, self._rows_before = 0, 0
            self._position, self._end = self._end, None
            self._skipped_before -= self._position.skipped
        if self._predictions.path != going["predictions"]:
            raise OptionError(
                f"{os.fspath(path)}: its predictions went to {going['predictions']}; give the same --predictions."
            )
        self._predictions.written = going["predictions_written"]

    def _longer(self, going: dict[str, Any], path: str) -> bool:
        """Whether files have come after those of a checkpoint, all else being the same; else it is another job."""
        now, then = asdict(self.plan), dict(going["plan"])
        known, files = going.get("files") or [], self._files()
        longer = len(files) > len(known) > 0 and files[: len(known)] == known and self.plan.passes == 1
        if longer:
            then["sources"] = now["sources"]
        _same_plan(now, then, path)
        return longer


def _chosen(weights: Array | None, chosen: Any) -> Array | None:
    return None if weights is None else weights[chosen]


def _joined(parts: list[tuple[slice, Array]], count: int, classes: int | None) -> Array:
    """The margins of all parts; classes that a part did not know yet have none (−∞)."""
    if len(parts) == 1 and len(parts[0][1]) == count:
        return parts[0][1]
    whole = np.zeros(count) if classes is None else np.full((count, classes), -np.inf)
    for place, margins in parts:
        if classes is None:
            whole[place] = margins
        else:
            whole[place, : margins.shape[1]] = margins
    return whole


def _woven(some: Array, rest: Array, learned: NDArray[np.bool_]) -> Array:
    """The margins of learned and of held-out rows in the order of the rows."""
    if some.ndim == 1:
        whole = np.zeros(len(learned))
        whole[learned], whole[~learned] = some, rest
        return whole
    whole = np.full((len(learned), max(some.shape[1], rest.shape[1])), -np.inf)
    whole[learned, : some.shape[1]] = some
    whole[~learned, : rest.shape[1]] = rest
    return whole


def rereadable(sources: list[str]) -> bool:
    """Whether all sources can be read a second time."""
    from onsketch.data.sources import can_be_read_again, expand

    return all(can_be_read_again(source) for source in expand(sources))


def _same_plan(now: dict[str, Any], then: dict[str, Any], path: str) -> None:
    for name, value in now.items():
        before = then.get(name)
        if before != value and list_of(before) != list_of(value):
            raise OptionError(
                f"{path} is a checkpoint of another job ({name}: {before!r} then, {value!r} now). "
                "Resume with the same command, or start anew without --resume."
            )


def list_of(value: Any) -> Any:
    """JSON has lists where plans may have tuples."""
    if isinstance(value, dict):
        return {name: list_of(item) for name, item in value.items()}
    return [list_of(item) for item in value] if isinstance(value, (list, tuple)) else value
