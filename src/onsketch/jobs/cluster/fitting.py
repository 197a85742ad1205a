"""Train a learner on a cluster: the public function."""

from __future__ import annotations

import os
from typing import Any

from onsketch.core.errors import OptionError
from onsketch.jobs.cluster.engine import Engine, open_engine
from onsketch.jobs.cluster.plan import Plan, manifest
from onsketch.jobs.cluster.run import Run
from onsketch.jobs.cluster.storage import Storage
from onsketch.jobs.cluster.watching import Watch, unwatched


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
    if resume and checkpoint is None:
        raise OptionError("resume needs a checkpoint to resume from.")
    run = Run(Plan(manifest(files), method, options, dict(reading or {}), task, passes, sync, together))
    storage = None if checkpoint is None else Storage(checkpoint)
    if storage is not None:
        if not resume:
            storage.remove(storage.parts())
        elif storage.exists():
            run.resume(storage)
    if not run.due():
        return run
    engine = open_engine(cluster)
    try:
        run.go(engine, storage, every, watch)
    finally:
        if engine is not cluster:
            engine.close()
    return run
