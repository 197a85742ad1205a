"""One learner over one stream, the job behind ``onsketch train``; what must survive a crash is in ``checkpoints.py``.

A job is a plan (what to read, what to learn) and a state (the learner, the tallies, the position in the stream). A
checkpoint is a model file whose notes hold the plan and the state, written atomically between two blocks; a job that
resumes from it does exactly what the job that was killed would have done, down to the bytes of the final model. A model
holds all of the state except the position: a job that continues from it with other files does what one job over all of
them would have done.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, UpdateError
from onsketch.data.task import Task, find_task
from onsketch.data.usable import labelled_rows, labels, refuse_nothing
from onsketch.jobs.checkpoints import Resumable
from onsketch.jobs.evaluation import determining, new_progress
from onsketch.jobs.judging import Judge
from onsketch.jobs.models import asked_task, make_learner
from onsketch.jobs.plans import Plan, check_format
from onsketch.jobs.predictions import answers, check_kind, default_kind, words
from onsketch.jobs.tally import Course, Judged, Progress, Record
from onsketch.rows.sparse import Sparse

if TYPE_CHECKING:
    from onsketch.data import Block

__all__ = ["Plan", "Training"]

Array = NDArray[np.float64]

READ_BY_THE_PROGRAM = {"everyday": True}
"""Default options with which jobs read."""


class Training(Resumable):
    """A training job. Iterate over ``run``; every attribute can be read at any time."""

    on_judged: Callable[[Judged], None] | None = None
    """Called with each block that was counted."""

    def watch(self) -> None:
        """Draw the course and count the scales of features from here on, for a page; nothing learned depends on it."""
        from onsketch.jobs.weights import Scales

        self.scales, self.course, self.held_out_course = Scales(), Course(), Course()

    def start_from(self, learner: Any, task: Task, position: Any) -> None:
        """Go on with a given learner from a given place, with fresh tallies: one shard of a larger job."""
        self.learner, self.task, self._position, self._whole = learner, task, position, False
        self.progress = new_progress(learner, task.signs)
        self.judge = Judge(task, self.loss)

    def run(self) -> Iterator[tuple[Block, list[Record]]]:
        """Learn block after block; yields each with the records that fell due. Stop between two to stop cleanly."""
        from onsketch.data import stream

        if self.plan.start is not None and self.learner is None:
            self.go_on_from(self.plan.start)
        self._predictions.open()
        try:
            while self.finished_passes < self.plan.passes and not self.stopped_early:
                self.waiting = True  # a pipe may bring too few lines to detect its format
                reading = {**READ_BY_THE_PROGRAM, **self.reading, "schema": self.schema}
                with stream(self.plan.sources, resume=self._position, **reading) as blocks:
                    check_format(self.format, blocks.format, str(self.plan.sources[0]))
                    self._blocks = blocks
                    for block in self._awaited(blocks):
                        records = self._learn(block)
                        self._position = block.position
                        self.records += records
                        yield block, records
                    self._end_of_pass(blocks)
            if self.learner is None or (self._whole and self.rows == self.refused):
                refuse_nothing(self.plan.sources, self.skipped)
            if self._whole and self.task is not None and self.task.named is not None and self.positives == 0:
                raise InputError(
                    f"positive={self.task.named!r}: not one of the {self.rows - self.refused:,} rows has this label; "
                    "is it spelt right?",
                    positive=self.task.named,
                )
        finally:
            self._gather_names()
            self._predictions.close()

    def _awaited(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Yield the blocks; ``waiting`` is true while the next one is read and nothing is half done."""
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
        self.unmet, self.notes = blocks.unmet, blocks.notes
        self.first_bad = self.first_bad or str(blocks.first_skipped or "")
        self.skipped_before += blocks.skipped
        self._end, self._position = blocks.position, None
        self.finished_passes += 1
        self.rows_before = self.rows
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

    def _learn(self, block: Block) -> list[Record]:
        kept = labelled_rows(block, self._skipping)
        words_met = self._blocks.classes if self._blocks is not None else None
        if self.task is None:
            self._begin(kept.y, words_met)
        assert self.task is not None
        y, weights = labels(block, kept, self.task, words_met), kept.sample_weight
        before = self.rows - self.rows_before
        if self.rows == 0 and self._blocks is not None and self._blocks.schema is not None and not self.task.many:
            self.giveaways = determining(kept.rows, y).tolist()
            self.counters = determining(kept.rows, np.arange(len(y), dtype=np.float64)).tolist()
        self.refused += kept.passed_over
        self.unusable += kept.passed_over
        if self.scales is not None:
            self.scales.add(kept.rows)
        if self.plan.holdout:
            assert self.held_out is not None
            X = kept.X
            learned = (before + 1 + np.arange(len(y))) % self.plan.holdout != 0
            some, taken_some, records = self._absorb(X[learned], y[learned], _chosen(weights, learned))
            aside = ~learned
            self._make_room(y[aside])
            rest: Array = self.learner.predict(X[aside])
            self._count(self.held_out, self.held_out_judge, X[aside], y[aside], rest, _chosen(weights, aside))
            taken = np.ones(len(y), dtype=bool)
            taken[learned] = taken_some
            predictions = _joined([(learned, some), (aside, rest)], len(y), self._class_count)
        else:
            predictions, taken, records = self._absorb(kept.rows, y, weights)
        if self.task.signs:
            self.positives += int(np.count_nonzero(y[taken] > 0.0))
        if self._predictions.wanted:
            tags = kept.tags if taken.all() else kept.tags and list(compress(kept.tags, taken))
            kind = self._kind or default_kind(self.task)
            self._predictions.write(words(answers(predictions[taken], self.task, self.loss, kind), tags))
        return records

    @property
    def _class_count(self) -> int | None:
        """The number of classes that the learner has; None where there are only margins."""
        return self.learner.n_classes if self.task is not None and self.task.many else None

    @property
    def _shared(self) -> bool:
        """True if the weights of experts are to be shown on a page."""
        return self.course is not None and hasattr(self.learner, "shares")

    @property
    def _skipping(self) -> bool:
        return self.reading.get("on_error") == "skip"

    def _begin(self, y: Array, words_met: list[str] | None) -> None:
        """Make the learner when the first labels have been seen."""
        kind = asked_task(self.plan.task, self.plan.options.get("loss"))
        self.task = find_task(y, kind, self.reading.get("positive"), words_met)
        self.learner = make_learner(self.task, self.plan.method, **self.plan.options)
        if self._kind is not None:
            check_kind(self._kind, self.task, self.loss)
        counted = self.task.signs or self.task.many
        self.progress, self.judge = Progress(self.loss, counted), Judge(self.task, self.loss)
        if self.plan.holdout:
            self.held_out, self.held_out_judge = Progress(self.loss, counted), Judge(self.task, self.loss)

    def _count(
        self, tally: Progress, judge: Judge | None, X: Any, y: Array, predictions: Array, weights: Array | None
    ) -> list[Record]:
        assert self.task is not None
        if judge is None and tally is self.progress:
            judge = self.judge = Judge(self.task, self.loss)
        block = tally.judged(y, predictions, weights)
        if judge is not None and self.finished_passes == 0:
            judge.add(block)
        if self.on_judged is not None:
            self.on_judged(block)
        return tally.add(
            block, X, self.task.shown_names, self.course if tally is self.progress else self.held_out_course
        )

    def _make_room(self, y: Array) -> None:
        """Add classes to the learner up to those of these rows."""
        while self.task is not None and self.task.many and self.learner.n_classes <= y.max(initial=-1.0):
            self.learner.add_class()

    def _next_part(self, y: Array, start: int) -> int:
        """Return the end of the rows to learn next: before a new class, or at a row at which a page is updated."""
        stop = len(y)
        if self._shared:  # cuts do not change the results
            stop = min(stop, start + max(32, self.rows // 50))
        if self.task is None or not self.task.many or start == len(y):
            return stop
        self._make_room(y[start : start + 1])
        new = np.flatnonzero(y[start:stop] >= self.learner.n_classes)
        return start + int(new[0]) if new.size else stop

    def _absorb(self, X: Any, y: Array, weights: Array | None) -> tuple[Array, NDArray[np.bool_], list[Record]]:
        """Learn the rows and count them; refused rows are skipped if on_error is "skip".

        Returns the predictions, a mask of the rows learned (the others have no prediction), and the records.
        """
        assert self.progress is not None
        assert self.task is not None
        many = self.task.many
        parts: list[tuple[Any, Array]] = []
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
            if self._shared:
                self.shares.append((self.progress.rows, self.learner.shares))
        return _joined(parts, len(y), self._class_count), taken, records


def _chosen(weights: Array | None, chosen: Any) -> Array | None:
    return None if weights is None else weights[chosen]


def _joined(parts: Sequence[tuple[Any, Array]], count: int, classes: int | None) -> Array:
    """Join the margins of all parts of some rows; classes that a part did not have yet get −∞."""
    if len(parts) == 1 and len(parts[0][1]) == count:
        return parts[0][1]
    whole = np.zeros(count) if classes is None else np.full((count, classes), -np.inf)
    for place, margins in parts:
        if classes is None:
            whole[place] = margins
        else:
            whole[place, : margins.shape[1]] = margins
    return whole
