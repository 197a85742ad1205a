"""Sketch files on a cluster: the public function."""

from __future__ import annotations

import os
from typing import Any

from onsketch.core.errors import ModelFileError
from onsketch.data.usable import refuse_nothing
from onsketch.files.model_file import build
from onsketch.files.records import Note, converted
from onsketch.jobs.cluster.engine import Engine, using
from onsketch.jobs.cluster.plan import check_reading, manifest
from onsketch.jobs.cluster.storage import Parts, Storage
from onsketch.jobs.cluster.tasks import Seen, measure_shard, merge_sketches, sketch_shard
from onsketch.jobs.cluster.tree import Clock, Status, Watch, unwatched
from onsketch.jobs.plans import same_plan
from onsketch.sketches.base import Sketch
from onsketch.sketches.named import make


class Sketched(Note):
    """Note of the rows that a sketch was made of."""

    plan: dict[str, Any]
    reports: list[Seen]


def sketch(
    files: Any,
    kind: str = "fast-fd",
    size: int = 20,
    *,
    n_features: int | None = None,
    reading: dict[str, Any] | None = None,
    cluster: str | Engine = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 60.0,
    resume: bool = False,
    watch: Watch = unwatched,
) -> Sketch:
    """Sketch the rows of many files, on many machines.

    Every shard (file) is sketched on its own, and the sketches are merged in a fixed tree: frequent directions by
    stacking and shrinking, which keeps their bound for any number of shards, random projections (of independent
    seeds) by adding.

    Args:
        files: the shards: names, patterns, addresses. Their order affects the result.
        kind: fd, fast-fd, rfd, fast-rfd, cfd, pfd, rp or oja.
        size: rows of the sketch.
        n_features: width of the rows; left out, the files are read once more to find it.
        reading: options of :func:`onsketch.data.stream`.
        cluster: see :func:`onsketch.cluster.open_engine`.
        checkpoint: a file or address for the final sketch; until then unmerged parts are stored next to it.
        every: seconds between two savings of the parts.
        resume: continue from the parts found.
        watch: called with a :class:`Status` after each shard, and at the end.

    >>> import numpy as np, onsketch.cluster, tempfile
    >>> rows = np.random.default_rng(0).normal(size=(4, 100, 3)).round(3)
    >>> folder = tempfile.TemporaryDirectory()
    >>> for shard in range(4):
    ...     np.savetxt(f"{folder.name}/{shard}.csv", rows[shard], "%.3f", ",", header="label,a,b", comments="")
    >>> whole = onsketch.cluster.sketch(f"{folder.name}/*.csv", "fd", 3, cluster="none")  # 2 features: nothing is lost
    >>> np.allclose(whole.covariance(), (rows[:, :, 1:].reshape(400, 2).T @ rows[:, :, 1:].reshape(400, 2)))
    True
    >>> folder.cleanup()
    """
    shards, options = manifest(files), dict(reading or {})
    check_reading(options)
    make(kind, n_features or 1, size)  # refuses what there is not
    storage = Storage.at(checkpoint, resume)
    plan = {"files": shards, "reading": options, "kind": kind, "size": size, "n_features": n_features}
    if storage is not None and resume and storage.exists():
        return _finished(storage, plan, watch)
    n, width = len(shards), n_features
    with using(cluster) as engine:
        if width is None:
            leaves: list[Any] = [(measure_shard, shards, options, shard) for shard in range(n)]
            measured, _ = _gathered(engine, leaves, None, Parts(None, plan, 0, Seen, every, range(n)), watch, 1)
            width = max(report.width for report in measured)
            if width == 0:
                refuse_nothing(shards[:3], sum(report.skipped for report in measured), "sketched")
        leaves = [(sketch_shard, shards, options, shard, kind, size, width) for shard in range(n)]
        parts = Parts(storage, plan, 0, Seen, every, range(n))
        seen, merged = _gathered(engine, leaves, (merge_sketches,), parts, watch, 1 if n_features else 2)
    if merged is None:
        refuse_nothing(shards[:3], sum(report.skipped for report in seen), "sketched")
    if storage is not None:
        storage.write(merged, {"sketch": Sketched(plan, seen).state()})
        parts.drop()
    made: Sketch = build(merged)
    return made


def _finished(storage: Storage, plan: dict[str, Any], watch: Watch) -> Sketch:
    """The sketch that an earlier life has finished."""
    content = storage.read()
    if content.kind != "sketch" or "sketch" not in content.notes:
        raise ModelFileError(f"{storage.address}: not a sketch that was made on a cluster.")
    noted = converted(content.notes["sketch"], Sketched, "notes.sketch", storage.address)
    same_plan(plan, noted.plan, storage.address)
    made: Sketch = build(content)
    n, skipped = len(noted.reports), sum(report.skipped for report in noted.reports)
    watch(Status(1, n, n, made.n_rows, 0.0, 0, skipped))
    return made


def _gathered(
    engine: Engine, leaves: list[Any], merge: Any, parts: Parts, watch: Watch, number: int
) -> tuple[list[Seen], Any]:
    """The reports of all shards, and the merged state."""
    clock = Clock(engine, watch)
    reports, merged = parts.gather(engine, leaves, merge, clock, number)
    rows, skipped = (sum(getattr(report, name) for report in reports) for name in ("rows", "skipped"))
    clock.report(number, len(leaves), len(leaves), rows, skipped)
    return reports, merged
