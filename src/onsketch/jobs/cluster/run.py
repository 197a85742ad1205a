"""A training run on a cluster: rounds of learning and merging, and a ledger of what has been merged.

The state of a run is the last merged learner and the ledger, and both are in the checkpoint. The ledger records the
merged part of each shard, and the next tasks follow from it alone. A round is merged as a whole or not at all, so that
every row is counted once, whichever process dies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import onsketch
from onsketch.core.errors import ModelFileError
from onsketch.data.task import Task
from onsketch.data.usable import refuse_nothing
from onsketch.files import model_file
from onsketch.jobs.cluster.engine import Engine
from onsketch.jobs.cluster.plan import Plan
from onsketch.jobs.cluster.snapshot import rebuilt, snapshot
from onsketch.jobs.cluster.storage import Parts, Storage
from onsketch.jobs.cluster.tasks import Learned, learn_shard, merge_learners, task_of
from onsketch.jobs.cluster.tree import Gathering
from onsketch.jobs.cluster.watching import Clock, Status, Watch, unwatched
from onsketch.jobs.evaluation import new_progress
from onsketch.jobs.models import loss_of
from onsketch.jobs.notes import Cluster, Entry, Trained, check_fit, noted
from onsketch.jobs.plans import same_plan
from onsketch.jobs.tally import Progress, Record
from onsketch.learners.base import Learner
from onsketch.learners.recommended import fitting_loss
from onsketch.learners.scaled.learner import ScaledLearner


class Run:
    """A run. ``go`` completes it; every attribute can be read at any time."""

    held_out = None
    """As a job on one machine would have; on a cluster no rows are held out."""

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
        self.ledger = [Entry(path) for path in plan.files]
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
        clock = Clock(self.rows)
        while shards := self.due():
            self._round(engine, shards, storage, every, watch, clock)
        if self.rows == self.refused:
            refuse_nothing(self.plan.files[:3], self.skipped)

    def _begin(self, engine: Engine) -> None:
        """Make the learner when the first labels have been seen."""
        task = engine.submit(task_of, self.plan.files, self.plan.reading, self.plan.task)
        engine.finished([task])
        self.task, self.schema, self.format = engine.report(task)
        # With diagonal=True each learner would have coordinates of its own.
        loss = fitting_loss(self.plan.method, self.task.default_loss)
        self.learner = onsketch.learner(self.plan.method, **{"loss": loss, "diagonal": False, **self.plan.options})
        if isinstance(self.learner, ScaledLearner):
            self._measure(engine, self.learner)
        self.progress = new_progress(self.learner, self.task.signs)
        # Fail now, not after an hour, if learners of this kind cannot be merged.
        self.learner.fork(seed=1).merge(self.learner.fork(seed=2), base=self.learner)

    def _measure(self, engine: Engine, learner: ScaledLearner) -> None:
        """Decide the scales of features, rows and labels by the first block of the first shard, for the whole run."""
        plan = replace(self.plan, sync=1)
        task = engine.submit(learn_shard, snapshot(learner), plan, self.task, 0, None, learner.options.seed)
        engine.finished([task])
        measured = engine.state(task.state)
        learner.hold_scales(learner if measured is None else rebuilt(measured))

    def _round(
        self, engine: Engine, shards: list[int], storage: Storage | None, every: float, watch: Watch, clock: Clock
    ) -> None:
        base = engine.put(snapshot(self.learner))
        seed = self.learner.options.seed + 1 + self.forks
        plan = engine.put(self.plan)
        leaves = [
            (learn_shard, base, plan, self.task, shard, self.ledger[shard].position, seed + place)
            for place, shard in enumerate(shards)
        ]
        gathering = Gathering(engine, leaves, (merge_learners, base))
        parts = Parts(storage, self.plan.state(), self.rounds, Learned, every, shards)

        def reported(report: Learned) -> None:
            known = gathering.reports.values()
            rows = self.rows + sum(other.rows for other in known)
            skipped = self.skipped + sum(other.skipped for other in known)
            parts.keep(gathering)  # save before reporting
            watch(Status(self.rounds + 1, len(known), len(shards), rows, clock.rate(rows), engine.retries, skipped))

        merged = engine.state(gathering.run(parts.saved(), reported))
        record = self._take_in([gathering.reports[place] for place in range(len(shards))], merged)
        if storage is not None:
            self.checkpoint(storage)
            parts.drop()
        n, rows = len(shards), self.rows
        watch(Status(self.rounds, n, n, rows, clock.rate(rows), engine.retries, self.skipped, record))

    def _take_in(self, reports: list[Learned], merged: Any) -> Record | None:
        """The round is complete: take over its learner, and enter its shards into the ledger."""
        assert self.progress is not None
        if merged is not None:
            learner: Learner = rebuilt(merged)
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
            add_progress(self.progress, report.progress)
        weight = self.progress.weight - before[1]
        if weight == 0.0:  # shards that ended just where the round before did
            return None
        recent, error = (self.progress.loss_sum - before[0]) / weight, self.progress.error
        self.records.append(Record(self.progress.rows, self.progress.mean_loss, recent, error, 0.0, 0.0, 0))
        return self.records[-1]

    # Saving and resuming ----------------------------------------------------------------------------------

    def save(self, path: model_file.PathLike) -> None:
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
        if [entry.path for entry in going.ledger] != self.plan.files:
            raise ModelFileError("its ledger is of other files.", "notes.cluster.ledger", storage.address)
        self.learner = model_file.build(content)
        check_fit(trained, self.learner, loss_of(self.learner))
        trained.hand(self, "task", "progress", "names", "schema", "format")
        going.hand(self, "ledger", "records", "rounds", "forks", "refused", "skipped")
        self.resumed_rows = self.rows


def add_progress(total: Progress, part: Progress) -> None:
    """Tallies of different rows add.

    Every row of every shard was predicted before that shard had learned it, by a model that no other shard had shown
    it to, so the sum is a progressive loss as honest as that of one stream.
    """
    total.rows += part.rows
    total.weight += part.weight
    total.loss_sum += part.loss_sum
    total.mistakes += part.mistakes
    total.last_loss, total.last_weight = total.loss_sum, total.weight
    while total.due <= total.rows:
        total.due *= 2
