"""Save and restore the state of a job: a checkpoint holds all of it, a model all but the position in the stream."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import ModelFileError, OptionError
from onsketch.data.task import Task
from onsketch.files import model_file
from onsketch.jobs.judging import Judge
from onsketch.jobs.models import loss_of
from onsketch.jobs.plans import Plan, same_plan
from onsketch.jobs.predictions import Predictions
from onsketch.jobs.tally import Course, Progress, Record

if TYPE_CHECKING:
    from onsketch.jobs.notes import Checkpoint, Pass, Trained
    from onsketch.jobs.weights import Scales


class Resumable:
    """The state of a job; every attribute can be read at any time."""

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
        self.passes: list[Pass] = []
        """Of each pass finished: its mean loss, and that of its held-out rows."""
        self.stopped_early = False
        self.positives = 0
        """Rows of the class to be found."""
        self.refused = 0
        """Rows whose update would not be finite, passed over with on_error="skip"."""
        self.names: dict[int, str] = {}
        """Names of features by column, as far as the stream has given them."""
        self.schema: dict[str, Any] | None = None
        """Schema of the table's columns; None without a table."""
        self.format: str | None = None
        """Of the first file, where it has a schema."""
        self.started_at = 0
        """Rows read by the model that this job continues from."""
        self.unmet: set[str] = set()
        """Letters of namespaces that an interaction names and that no row had so far."""
        self.notes: list[str] = []
        """Remarks on columns that files lack or have in addition."""
        self.giveaways: list[int] = []
        """Features that alone give the label in the first rows of a table."""
        self.counters: list[int] = []
        """Features that count the first rows of a table."""
        self.scales: Scales | None = None
        """The scales of features, where a page is to show them; see :meth:`watch`."""
        self.course: Course | None = None
        self.held_out_course: Course | None = None
        """Curves of the tallies, where a page is to show them."""
        self.shares: list[tuple[int, NDArray[np.float64]]] = []
        """For a page: pairs of the row count and the weight of each expert."""
        self.first_bad = ""
        """Of the lines skipped, what was wrong with the first."""
        self.unusable = 0
        """Rows passed over for want of a label, or for their length."""
        self.waiting = False
        """True while the job waits for a block: an exception raised then loses nothing that was learned."""
        self._position: Any = None
        self._end: Any = None
        """Position at the end of the last pass: more files may follow."""
        self._blocks: Any = None
        self._best: tuple[float, Any] | None = None
        """The least held-out loss of a pass, and the learner of that time."""
        self.skipped_before = 0
        """Bad lines of the passes finished."""
        self.rows_before = 0
        """Rows of the passes finished."""
        self._predictions = Predictions(predictions)
        self._kind = kind
        self._reading_before: dict[str, Any] = {}
        """Options of reading of the model that this job continues from."""
        self._whole = True
        """True if this is the whole job, so that there must be rows; a shard may have none."""

    @property
    def reading(self) -> dict[str, Any]:
        """Options of reading: those of the model that this job continues from, updated by those of the plan."""
        return {**self._reading_before, **self.plan.reading}

    @property
    def rows(self) -> int:
        """Rows read, in all passes."""
        held = self.held_out.rows if self.held_out else 0
        return self.refused + held + (self.progress.rows if self.progress else 0)

    @property
    def skipped(self) -> int:
        """Bad lines and rows passed over."""
        return self.refused + self.skipped_before + (self._position.skipped if self._position else 0)

    @property
    def holdout(self) -> int:
        """One row in this many is held out; 0 for none."""
        return self.plan.holdout

    @property
    def position(self) -> Any:
        """Position in the stream; None at the beginning and at the end of a pass."""
        return self._position

    @property
    def loss(self) -> str:
        """The loss of the learner."""
        return loss_of(self.learner)

    @property
    def columns(self) -> dict[str, Any] | None:
        """Schema of the current table, as far as it is known."""
        return self.schema or (None if self._blocks is None else self._blocks.schema)

    def save(self, path: model_file.PathLike, notes: Mapping[str, Any] | None = None) -> None:
        """Write the model, with the notes that ``predict``, ``inspect`` and ``--from`` need; ``notes`` are added."""
        from onsketch.jobs.notes import Trained

        self._gather_names()
        task = self.task
        if task is not None and task.many:  # without classes of rows that are yet to be learned
            task = replace(task, names=(task.names or [])[: self.learner.n_classes])
        self.learner.save(path, {"training": Trained.of(self, task=task).state(), **(notes or {})})

    def checkpoint(self, path: model_file.PathLike) -> None:
        """Write everything needed to resume from here."""
        from onsketch.jobs.notes import Checkpoint

        self._predictions.flush()
        going = Checkpoint.of(
            self,
            plan=self.plan.state(),
            files=self._files(),
            position=None if self._position is None else self._position.to_json(),
            end=None if self._end is None else self._end.to_json(),
            predictions_written=self._predictions.written,
            predictions=self._predictions.path,
        )
        self.save(path, {"checkpoint": going.state()})

    def _files(self) -> list[str]:
        from onsketch.data.sources import expand

        return [str(source) for source in expand(self.plan.sources)]

    def _gather_names(self) -> None:
        """Take over the names and columns that the stream has given so far."""
        if self._blocks is not None:
            for feature, name in list(self._blocks.names.items()):
                self.names.setdefault(feature, name)
            self.schema = self._blocks.schema or self.schema
            self.format = self.format or self._blocks.format

    def take_up(self, content: model_file.Content, trained: Trained) -> None:
        """Take over what models and checkpoints both hold."""
        from onsketch.jobs.notes import check_fit

        self.learner = model_file.build(content)
        check_fit(trained, self.learner, self.loss)
        trained.hand(
            self, "task", "progress", "held_out", "names", "schema", "format", "refused", "unusable", "positives"
        )
        self.judge, self.held_out_judge = (
            None if one is None else Judge.from_state(trained.task, one)
            for one in (trained.judge, trained.held_out_judge)
        )
        self._reading_before = trained.read

    def go_on_from(self, path: model_file.PathLike) -> None:
        """Continue from a saved model, as if its rows and these were one stream."""
        from onsketch.jobs.estimators import read_trained

        self.go_on(read_trained(path), path)

    def go_on(self, content: model_file.Content, path: model_file.PathLike = "") -> None:
        """Continue from the content of a model file."""
        from onsketch.jobs.notes import noted

        trained = noted(content.notes).training
        if trained is None:
            raise ModelFileError(f"{os.fspath(path)}: not a model that 'onsketch train --save' of this version wrote.")
        self.take_up(content, trained)
        self.skipped_before = trained.skipped - self.refused
        self.started_at = self.rows

    def resume(self, path: model_file.PathLike) -> None:
        """Resume from a checkpoint of the same plan; files may have been added at the end."""
        from onsketch.data import Position
        from onsketch.jobs.notes import noted, read_noted

        content = read_noted(path)
        notes = noted(content.notes)
        going = notes.checkpoint
        if going is None or notes.training is None:
            raise ModelFileError(f"{os.fspath(path)}: a model, but not a checkpoint; --checkpoint writes those.")
        longer = self._longer(going, os.fspath(path))
        self.take_up(content, notes.training)
        going.hand(self, "records", "finished_passes", "passes", "started_at", "skipped_before", "rows_before")
        self._position, self._end = (
            None if place is None else Position.from_json(place) for place in (going.position, going.end)
        )
        if longer and self.finished_passes == 1 and self._end is not None:  # the end was not the end
            self.finished_passes, self.rows_before = 0, 0
            self._position, self._end = self._end, None
            self.skipped_before -= self._position.skipped
        if self._predictions.path != going.predictions:
            raise OptionError(
                f"{os.fspath(path)}: its predictions went to {going.predictions}; give the same --predictions."
            )
        self._predictions.written = going.predictions_written

    def _longer(self, going: Checkpoint, path: str) -> bool:
        """Return True if files were added to those of the checkpoint; refuse a plan that differs otherwise."""
        now, then, files = self.plan.state(), dict(going.plan), self._files()
        known = len(going.files)
        longer = len(files) > known > 0 and files[:known] == going.files and self.plan.passes == 1
        if longer:
            then["sources"] = now["sources"]
        same_plan(now, then, path)
        return longer
