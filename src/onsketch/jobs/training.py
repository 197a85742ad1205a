"""One learner over one stream, with everything that must survive a crash: the job behind ``onsketch train``.

A job is a plan (what to read, what to learn) and a state (the learner, the tallies, the place in the stream). A
checkpoint is a model file whose notes hold the plan and the state, written atomically between two blocks; a job that
resumes from it does exactly what the job that was killed would have done, down to the bytes of the final model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

import onsketch
from onsketch.core.errors import InputError, ModelFileError, OptionError, UpdateError
from onsketch.data.block import Sparse
from onsketch.data.task import Task, understood
from onsketch.data.usable import labels, learnable, refuse_nothing
from onsketch.files import model_file
from onsketch.jobs.evaluation import Progress, Record, new_progress

if TYPE_CHECKING:
    from onsketch.data import Block

Array = NDArray[np.float64]


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
    """Every so-manieth row is never learned, and predicted by the model as of the end of its block; 0 for none."""

    def check(self) -> None:
        """Refuse what cannot be done, before anything is read."""
        if self.passes < 1:
            raise OptionError(f"passes={self.passes}: expected at least 1.")
        if self.passes > 1 and not rereadable(self.sources):
            raise OptionError("standard input and pipes can be read once only; --passes needs a file.")
        if self.holdout < 0 or self.holdout == 1:
            raise OptionError(f"holdout={self.holdout}: every so-manieth row is held out, so 0 (none), 2 or more.")


class Training:
    """A job under way. Iterate over :meth:`run`; everything it knows can be read at any time."""

    def __init__(self, plan: Plan, predictions: str | None = None) -> None:
        plan.check()
        self.plan = plan
        self.task: Task | None = None
        self.learner: Any = None
        self.progress: Progress | None = None
        self.held_out: Progress | None = None
        self.records: list[Record] = []
        self.finished_passes = 0
        self.positives = 0
        """Rows of the class to be found."""
        self.refused = 0
        """Rows whose update would not be finite, passed over with on_error="skip"."""
        self.names: dict[int, str] = {}
        """Names of features, as far as the stream has told."""
        self.waiting = False
        """Whether the job waits for a block: an exception raised then loses nothing that was learned."""
        self._position: Any = None
        self._skipped_before = 0
        """Bad lines of the passes finished."""
        self._rows_before = 0
        """Rows of the passes finished."""
        self._predictions = Predictions(predictions)
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

    def start_from(self, learner: Any, task: Task, position: Any) -> None:
        """Go on with a given learner from a given place, with fresh tallies: one shard of a larger job."""
        self.learner, self.task, self._position, self._whole = learner, task, position, False
        self.progress = new_progress(learner, task.signs)

    # Running ----------------------------------------------------------------------------------------------

    def run(self) -> Iterator[tuple[Block, list[Record]]]:
        """Learn block after block; yields each with the records that fell due. Stop between two to stop cleanly."""
        from onsketch.data import stream

        self._predictions.open()
        try:
            while self.finished_passes < self.plan.passes:
                self.waiting = True  # a pipe may bring nothing even to tell its format by
                with stream(self.plan.sources, resume=self._position, **self.plan.reading) as blocks:
                    for block in self._awaited(blocks):
                        records = self._learn(block)
                        self._position = block.position
                        self.records += records
                        for feature, name in blocks.names.items():
                            self.names.setdefault(feature, name)
                        yield block, records
                    self._skipped_before += blocks.skipped
                self.finished_passes += 1
                self._position = None
                self._rows_before = self.rows
            if self.learner is None or (self._whole and self.rows == self.refused):
                refuse_nothing(self.plan.sources, self.skipped)
        finally:
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

    def _learn(self, block: Block) -> list[Record]:
        kept = learnable(block, self._skipping)
        if self.task is None:
            self._begin(kept.y)
        assert self.task is not None
        y, weights = labels(block, kept, self.task), kept.sample_weight
        before = self.rows - self._rows_before
        self.refused += kept.passed_over
        predictions, taken = np.empty(len(y)), np.ones(len(y), dtype=bool)
        if self.plan.holdout:
            X = kept.X
            learned = (before + 1 + np.arange(len(y))) % self.plan.holdout != 0
            outcome = self._absorb(X[learned], y[learned], _chosen(weights, learned))
            predictions[learned], taken[learned], records = outcome
            predictions[~learned] = self._hold_out(X[~learned], y[~learned], _chosen(weights, ~learned))
        else:
            predictions, taken, records = self._absorb(kept.rows, y, weights)
        self.positives += int(np.count_nonzero(y[taken] > 0.0))
        if taken.all():
            self._predictions.write(predictions, kept.tags)
        else:
            self._predictions.write(predictions[taken], kept.tags and list(compress(kept.tags, taken)))
        return records

    @property
    def _skipping(self) -> bool:
        return self.plan.reading.get("on_error") == "skip"

    def _begin(self, y: Array) -> None:
        """Make the learner when the first labels have been seen."""
        self.task = understood(y, self.plan.task, self.plan.reading.get("positive"))
        options = {"loss": self.task.default_loss, **self.plan.options}
        self.learner = onsketch.learner(self.plan.method, **options)
        self.progress = new_progress(self.learner, self.task.signs)
        self.held_out = new_progress(self.learner, self.task.signs) if self.plan.holdout else None

    def _hold_out(self, X: Any, y: Array, weights: Array | None) -> Array:
        assert self.held_out is not None
        predictions: Array = self.learner.predict(X)
        self.held_out.add(X, y, predictions, weights)
        return predictions

    def _absorb(self, X: Any, y: Array, weights: Array | None) -> tuple[Array, NDArray[np.bool_], list[Record]]:
        """Learn the rows, counting each; a row that is refused is passed over where that was asked for.

        Returns the predictions, which rows were learned (the others have no prediction), and the records.
        """
        assert self.progress is not None
        predictions, taken, records, start = np.zeros(len(y)), np.ones(len(y), dtype=bool), [], 0
        while start < len(y):
            rest = slice(start, None)
            part = X if start == 0 else X[rest]
            stop = len(y)
            try:
                margins = self.learner.learn(part, y[rest], _chosen(weights, rest))
            except UpdateError as error:
                if not self._skipping:
                    raise
                X = X.matrix() if isinstance(X, Sparse) else X
                part, margins, stop = X[start : start + error.row], error.predictions, start + error.row
                self.refused += 1
                taken[stop] = False
            done = slice(start, stop)
            predictions[done] = margins
            records += self.progress.add(part, y[done], predictions[done], _chosen(weights, done))
            start = stop if stop == len(y) else stop + 1
        return predictions, taken, records

    # Saving and resuming ----------------------------------------------------------------------------------

    def save(self, path: model_file.PathLike) -> None:
        """Write the model, with what ``predict`` and ``inspect`` need to know beside it."""
        self.learner.save(path, {"training": self._told()})

    def checkpoint(self, path: model_file.PathLike) -> None:
        """Write everything needed to go on from here."""
        self._predictions.flush()
        place = None if self._position is None else self._position.to_json()
        going = {
            "plan": asdict(self.plan),
            "position": place,
            "finished_passes": self.finished_passes,
            "refused": self.refused,
            "positives": self.positives,
            "skipped_before": self._skipped_before,
            "rows_before": self._rows_before,
            "due_records": [list(record) for record in self.records],
            "predictions_written": self._predictions.written,
            "predictions": self._predictions.path,
        }
        self.learner.save(path, {"training": self._told(), "checkpoint": going})

    def _told(self) -> dict[str, Any]:
        assert self.task is not None
        assert self.progress is not None
        return {
            "task": self.task.state(),
            "reading": self.plan.reading,
            "progress": self.progress.state(),
            "held_out": None if self.held_out is None else self.held_out.state(),
            "names": {str(feature): name for feature, name in sorted(self.names.items())},
        }

    def resume(self, path: model_file.PathLike) -> None:
        """Take up where a checkpoint of the same plan left off."""
        from onsketch.data import Position

        content = model_file.read(path)
        going, told = content.notes.get("checkpoint"), content.notes.get("training")
        if going is None or told is None:
            raise ModelFileError(f"{os.fspath(path)}: a model, but not a checkpoint; --checkpoint writes those.")
        _same_plan(asdict(self.plan), going["plan"], os.fspath(path))
        self.learner = model_file.build(content)
        self.task = Task(**told["task"])
        self.progress = Progress(**told["progress"])
        self.held_out = None if told["held_out"] is None else Progress(**told["held_out"])
        self.records = [Record(*record) for record in going["due_records"]]
        self.finished_passes = going["finished_passes"]
        self.refused = going["refused"]
        self.positives = going["positives"]
        self._skipped_before = going["skipped_before"]
        self._rows_before = going["rows_before"]
        self.names = {int(feature): name for feature, name in told["names"].items()}
        self._position = None if going["position"] is None else Position.from_json(going["position"])
        if self._predictions.path != going["predictions"]:
            raise OptionError(
                f"{os.fspath(path)}: its predictions went to {going['predictions']}; give the same --predictions."
            )
        self._predictions.written = going["predictions_written"]


def _chosen(weights: Array | None, chosen: Any) -> Array | None:
    return None if weights is None else weights[chosen]


def rereadable(sources: list[str]) -> bool:
    """Whether all sources can be read a second time."""
    from onsketch.data.sources import can_be_read_again, expand

    return all(can_be_read_again(source) for source in expand(sources))


def _same_plan(now: dict[str, Any], then: dict[str, Any], path: str) -> None:
    for name, value in now.items():
        before = then.get(name)
        if before != value and list_of(before) != list_of(value):
            raise OptionError(
                f"{path} is a checkpoint of another job: its {name} was {before!r} and is {value!r} now. "
                "Resume with the same command, or start anew without --resume."
            )


def list_of(value: Any) -> Any:
    """JSON has lists where plans may have tuples."""
    if isinstance(value, dict):
        return {name: list_of(item) for name, item in value.items()}
    return [list_of(item) for item in value] if isinstance(value, (list, tuple)) else value


class Predictions:
    """A file with one prediction a line, followed by the row's tag if it has one."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self.written = 0
        """Bytes that belong to the rows counted so far; what lies beyond was written after the last checkpoint."""

    def open(self) -> None:
        """Begin, or go on after the bytes already written."""
        if self.path is None:
            return
        target = Path(self.path)
        if self.written and (not target.exists() or target.stat().st_size < self.written):
            raise InputError(f"{target}: shorter than when the checkpoint was written; it cannot be continued.")
        self._file = target.open("r+b" if self.written else "wb")
        self._file.truncate(self.written)
        self._file.seek(self.written)

    def write(self, predictions: Array, tags: list[str] | None) -> None:
        """One line for each prediction."""
        if self._file is None:
            return
        text = lines(predictions, tags)
        self.written += self._file.write(text.encode())

    def flush(self) -> None:
        """Put everything on the disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """End the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def lines(predictions: Array, tags: list[str] | None = None) -> str:
    """Predictions as text, one a line.

    >>> print(lines(np.array([0.5, -1.25]), ["a", ""]), end="")
    0.5 a
    -1.25
    """
    return words([f"{value:.9g}" for value in predictions.tolist()], tags)


def words(predictions: list[str], tags: list[str] | None = None) -> str:
    """Predictions one a line, each followed by its tag if it has one."""
    if tags is None:
        return "".join([f"{word}\n" for word in predictions])
    return "".join([f"{word} {tag}\n" if tag else f"{word}\n" for word, tag in zip(predictions, tags, strict=True)])
