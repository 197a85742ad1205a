"""The front door of sketching on a cluster."""

from __future__ import annotations

import os
from typing import Any

from onsketch.cluster.engine import Engine, open_engine
from onsketch.cluster.plan import check_reading, manifest
from onsketch.cluster.snapshot import rebuilt
from onsketch.cluster.storage import Parts, Storage
from onsketch.cluster.tasks import Seen, measure_shard, merge_sketches, sketch_shard
from onsketch.cluster.tree import Gathering
from onsketch.cluster.watching import Clock, Status, Watch, unwatched
from onsketch.errors import InputError, OptionError
from onsketch.sketch.base import Sketch
from onsketch.sketch.study import make


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
        files: the shards: names, patterns, addresses. Their order is part of the outcome.
        kind: fd, fast-fd, rfd, fast-rfd, cfd, pfd, rp or oja.
        size: rows of the sketch.
        n_features: width of the rows; left out, the files are read once more to find it.
        reading: options of :func:`onsketch.data.stream`.
        cluster: see :func:`onsketch.cluster.open_engine`.
        checkpoint: a file or address beside which the unmerged parts are kept, and where the sketch goes in the end.
        every: seconds between two savings of the parts.
        resume: go on from the parts that are there.
        watch: called with a :class:`Status` after each shard.
    """
    shards, options = manifest(files), dict(reading or {})
    check_reading(options)
    make(kind, n_features or 1, size)  # refuses what there is not
    if resume and checkpoint is None:
        raise OptionError("resume needs a checkpoint to go on from.")
    storage = None if checkpoint is None else Storage(checkpoint)
    if storage is not None and not resume:
        storage.remove(storage.parts())
    engine = open_engine(cluster)
    try:
        width = n_features or _width(engine, shards, options, watch)
        leaves = [(sketch_shard, shards, options, shard, kind, size, width) for shard in range(len(shards))]
        plan = {"files": shards, "reading": options, "kind": kind, "size": size, "n_features": width}
        parts = Parts(storage, plan, 0, Seen, every)
        merged = engine.state(_gather(engine, leaves, (merge_sketches,), parts, watch, 1 if n_features else 2))
    finally:
        if engine is not cluster:
            engine.close()
    if merged is None:
        raise InputError(f"{', '.join(shards[:3])}{', …' if len(shards) > 3 else ''}: there is not a single row.")
    if storage is not None:
        storage.write(merged, {"cluster": {"plan": plan}})
        parts.drop()
    made: Sketch = rebuilt(merged)
    return made


def _width(engine: Engine, shards: list[str], reading: dict[str, Any], watch: Watch) -> int:
    """Features of the widest row."""
    leaves = [(measure_shard, shards, reading, shard) for shard in range(len(shards))]
    seen: list[int] = []
    _gather(engine, leaves, None, None, watch, 1, seen)
    return max([1, *seen])


def _gather(
    engine: Engine,
    leaves: list[Any],
    merge: Any,
    parts: Parts | None,
    watch: Watch,
    number: int,
    widths: list[int] | None = None,
) -> Any:
    gathering, clock = Gathering(engine, leaves, merge), Clock(0)

    def told(report: Seen) -> None:
        rows = sum(known.rows for known in gathering.reports.values())
        if widths is not None:
            widths.append(report.width)
        if parts is not None:
            parts.keep(gathering)
        watch(Status(number, len(gathering.reports), len(leaves), rows, clock.rate(rows), engine.retries))

    return gathering.run(parts.saved() if parts is not None else {}, told)
