"""A training run on a cluster: rounds of learning and merging, and a ledger of what has been merged.

The state of a run is the last merged learner and the ledger, and both are in the checkpoint. The ledger records the
merged part of each shard, and the next tasks follow from it alone. A round is merged as a whole or not at all, so that
every row is counted once, whichever process dies.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import onsketch
from onsketch.core.errors import ModelFileError, OptionError
from onsketch.data.task import Task
from onsketch.data.usable import refuse_nothing
from onsketch.files.model_file import PathLike, build
from onsketch.jobs.cluster.engine import Engine, using
from onsketch.jobs.cluster.plan import Plan, manifest
from onsketch.jobs.cluster.storage import Parts, Storage
from onsketch.jobs.cluster.tasks import Learned, learn_shard, merge_learners, snapshot, task_of
from onsketch.jobs.cluster.tree import Clock, Watch, unwatched
from onsketch.jobs.evaluation import new_progress
from onsketch.jobs.models import loss_of
from onsketch.jobs.notes import Cluster, Entry, Pass, Trained, check_fit, noted
from onsketch.jobs.plans import same_plan
from onsketch.jobs.tally import Progress, Record
from onsketch.learners.base import Learner
from onsketch.learners.recommended import fitting_loss
from onsketch.learners.scaled.learner import ScaledLearner


class Run:
    """A run. ``go`` completes it; every attribute can be read at any time."""

    held_out = judge = None
    positives = started_at = 0
    stopped_early = False
    passes: tuple[Pass, ...] = ()
    notes = unmet = giveaways = counters = ()
    """As a job on one machine has them; on a cluster they are not counted, and no rows are held out."""

    def __init__(self, plan: Plan) -> None:
        plan.check()
        self.plan = plan
        self.task: Task | None = None
        self.learner: Any = None
        """The last merged one."""
        self.progress: Progress | None = None
        self.records: list[Record] = []
        """One for each merged round that had rows; label, prediction and features mean nothing there."""
        self.rounds = 0
        """Rounds merged."""
        self.forks = 0
        """Tasks merged, which number the random streams."""
        self.ledger = [Entry(path) for path in plan.sources]
        self.resumed_rows = 0
        """Rows that an earlier life had merged."""
        self.refused = 0
        self.skipped = 0
        self.names: dict[int, str] = {}
        self.schema: dict[str, Any] | None = None
        """Schema of the columns of a table, decided by the first file."""
        self.format: str | None = None

    @property
    def reading(self) -> dict[str, Any]:
        """Options of reading."""
        return self.plan.reading

    @property
    def rows(self) -> int:
        """Rows read and merged, in all passes."""
        return sum(entry.rows for entry in self.ledger)

    def due(self) -> list[int]:
        """The shards of the next round: the unfinished ones of the first wave that has any; empty at the end."""
        turn = min(entry.passes for entry in self.ledger)
        if turn == self.plan.passes:
            return []
        wave = next(wave for wave in self.plan.waves if any(self.ledger[k].passes == turn for k in wave))
        return [k for k in wave if self.ledger[k].passes == turn]

    def go(self, engine: Engine, storage: Storage | None = None, every: float = 60.0, watch: Watch = unwatched) -> None:
        """Learn and merge round after round until all is done.

        Args:
            engine: what runs the tasks.
            storage: where checkpoints go.
            every: seconds between two savings of the unmerged parts of a round.
            watch: called after each shard and each round.
        """
        if self.learner is None:
            self._begin(engine)
        clock = Clock(engine, watch, self.rows)
        while shards := self.due():
            self._round(engine, shards, storage, every, clock)
        if self.rows == self.refused:
            refuse_nothing(self.plan.sources[:3], self.skipped)

    def _begin(self, engine: Engine) -> None:
        """Make the learner when the first labels have been seen."""
        task = engine.call(task_of, self.plan.sources, self.plan.reading, self.plan.task)
        self.task, self.schema, self.format = engine.report(task)
        # With diagonal=True each learner would have coordinates of its own.
        loss = fitting_loss(self.plan.method, self.task.default_loss)
        self.learner = onsketch.learner(self.plan.method, **{"loss": loss, "diagonal": False, **self.plan.options})
        if isinstance(self.learner, ScaledLearner):  # the first block decides the scales of the whole run
            plan, seed = replace(self.plan, sync=1), self.learner.options.seed
            measured = engine.call(learn_shard, snapshot(self.learner), plan, self.task, 0, None, seed)
            content = engine.state(measured.state)
            self.learner.hold_scales(self.learner if content is None else build(content))
        self.progress = new_progress(self.learner, self.task.signs)
        # Fail now, not after an hour, if learners of this kind cannot be merged.
        self.learner.fork(seed=1).merge(self.learner.fork(seed=2), base=self.learner)

    def _round(self, engine: Engine, shards: list[int], storage: Storage | None, every: float, clock: Clock) -> None:
        base = engine.put(snapshot(self.learner))
        seed = self.learner.options.seed + 1 + self.forks
        plan = engine.put(self.plan)
        leaves = [
            (learn_shard, base, plan, self.task, shard, self.ledger[shard].position, seed + place)
            for place, shard in enumerate(shards)
        ]
        parts = Parts(storage, self.plan.state(), self.rounds, Learned, every, shards)
        merge = merge_learners, base
        record = self._take_in(*parts.gather(engine, leaves, merge, clock, self.rounds + 1, self.rows, self.skipped))
        if storage is not None:
            self.checkpoint(storage)
            parts.drop()
        clock.report(self.rounds, len(shards), len(shards), self.rows, self.skipped, record)

    def _take_in(self, reports: list[Learned], merged: Any) -> Record | None:
        """The round is complete: take over its learner, and enter its shards into the ledger."""
        assert self.progress is not None
        if merged is not None:
            learner: Learner = build(merged)
            seed = self.learner.options.seed
            # Restore the run's seed, from which no shard has drawn: later draws are independent again.
            self.learner = learner if learner.options.seed == seed else learner.fork(seed=seed)
        self.rounds += 1
        self.forks += len(reports)
        before = self.progress.loss_sum, self.progress.weight
        for report in reports:
            entry = self.ledger[report.shard]
            entry.rows += report.rows
            entry.rounds += 1
            entry.position = report.position
            entry.passes += report.position is None
            self.refused += report.refused
            self.skipped += report.skipped
            self.names |= report.names
            self.progress.merge(report.progress)
        weight = self.progress.weight - before[1]
        if weight == 0.0:  # shards that ended just where the round before did
            return None
        recent, error = (self.progress.loss_sum - before[0]) / weight, self.progress.error
        self.records.append(Record(self.progress.rows, self.progress.mean_loss, recent, error, 0.0, 0.0, 0))
        return self.records[-1]

    # Saving and resuming ----------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Write the model: an ordinary model file, with the same bytes even after failures."""
        self.learner.save(path, {"training": Trained.of(self).state()})

    def checkpoint(self, storage: Storage) -> None:
        """Write the merged model with the ledger."""
        going = Cluster.of(self, plan=self.plan.state())
        storage.write(snapshot(self.learner), {"training": Trained.of(self).state(), "cluster": going.state()})

    def resume(self, storage: Storage) -> None:
        """Take up where a checkpoint of the same plan left off."""
        content = storage.read()
        notes = noted(content.notes)
        going, trained = notes.cluster, notes.training
        if going is None or trained is None:
            raise ModelFileError(f"{storage.address}: a model, but not a checkpoint of a run on a cluster.")
        same_plan(self.plan.state(), going.plan, storage.address)
        if [entry.path for entry in going.ledger] != self.plan.sources:
            raise ModelFileError("its ledger is of other files.", "notes.cluster.ledger", storage.address)
        self.learner = build(content)
        check_fit(trained, self.learner, loss_of(self.learner))
        trained.hand(self, "task", "progress", "names", "schema", "format")
        going.hand(self, "ledger", "records", "rounds", "forks", "refused", "skipped")
        self.resumed_rows = self.rows


def fit(
    learner: str | dict[str, Any],
    files: Any,
    *,
    reading: dict[str, Any] | None = None,
    task: str | None = None,
    passes: int = 1,
    sync: int | None = None,
    together: int | None = None,
    cluster: str | Engine = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 60.0,
    resume: bool = False,
    watch: Watch = unwatched,
) -> Run:
    """Train one learner on many files, on many machines.

    Each shard (file) learns from the last merged model on its own, and the learners are merged by the rule of their
    family: see ``onsketch.Learner.merge``. The result is a function of the arguments alone:
    the same bits on one worker or a thousand, with or without failures of workers.

    Args:
        learner: the arguments of :func:`onsketch.learner` with the method under "method"; or the method alone. With
            "defaults": "recommended" the first block of the first shard decides the scales of all shards.
        files: the shards: names, patterns, addresses. Their order affects the result.
        reading: options of :func:`onsketch.data.stream`.
        task: "classification" or "regression"; by the first labels when left out.
        passes: times over the data.
        sync: blocks (``block_rows`` of ``reading``, 16,384 rows) that a shard learns between two merges; left
            out, whole shards. Smaller is closer to one stream, and costs a merge each time.
        together: shards that start from the same model; the next ones start from their merged result. Default:
            all. It should be at least the number of workers.
        cluster: see :func:`onsketch.cluster.open_engine`.
        checkpoint: a file or address for the merged model and the ledger, after each round; unmerged parts of the
            current round are stored next to it.
        every: seconds between two savings of those parts.
        resume: continue from the checkpoint, if it exists.
        watch: called with a :class:`Status` after each shard and each merge.

    Cost of a merge: a shard sends its state once, m·d numbers (d features seen, sketch size m). The depth of
    the merges is log₂ of the number of shards, each O(m²·d).

    >>> import numpy as np, onsketch.cluster, tempfile
    >>> rng = np.random.default_rng(0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> for shard in range(4):
    ...     X = rng.normal(size=(100, 3))
    ...     np.savetxt(f"{folder.name}/{shard}.csv", np.column_stack([X @ [1, 2, 3], X]), "%.17g", ",",
    ...                header="label,a,b,c", comments="")
    >>> options = {"method": "ons", "summary": "curvature", "clip": None, "ridge": 1e-9}
    >>> run = onsketch.cluster.fit(options, f"{folder.name}/*.csv", task="regression", cluster="none")
    >>> run.learner.weights.round(6)
    array([1., 2., 3.])
    >>> run.rows
    400
    >>> folder.cleanup()
    """
    options = {"method": learner} if isinstance(learner, str) else dict(learner)
    if "method" not in options:
        raise OptionError('learner: expected the name of a method, or a dictionary with one under "method".')
    method = options.pop("method")
    run = Run(Plan(manifest(files), method, options, dict(reading or {}), task, passes, sync, together))
    storage = Storage.at(checkpoint, resume)
    if storage is not None and resume and storage.exists():
        run.resume(storage)
    if run.due():
        with using(cluster) as engine:
            run.go(engine, storage, every, watch)
    return run
