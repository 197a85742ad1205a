"""Tasks of the workers: pure functions of their arguments. Each returns a report and a state.

A shard is read together with the first one of the manifest, which decides the format and the inferred schema. So all
shards are read alike, as if they were one stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from onsketch.core import state
from onsketch.core.errors import InputError, OnsketchError
from onsketch.data import Position, stream
from onsketch.data.task import Task, find_task
from onsketch.data.usable import labelled_rows, usable
from onsketch.files.model_file import Content, build
from onsketch.files.records import Count, Note
from onsketch.jobs.cluster.plan import Plan
from onsketch.jobs.evaluation import new_progress
from onsketch.jobs.plans import Plan as JobPlan
from onsketch.jobs.tally import Progress
from onsketch.jobs.training import READ_BY_THE_PROGRAM, Training
from onsketch.learners.base import Learner


def snapshot(thing: Any) -> Content:
    """Return the state of a learner or a sketch as plain data: what a model file holds, without the file.

    >>> import onsketch
    >>> build(snapshot(onsketch.learner("adagrad")))
    <onsketch learner adagrad, 0 rounds, 0 features>
    """
    if isinstance(thing, Learner):
        return Content("learner", thing._header(), thing._arrays(), {})
    from onsketch.sketches.saving import arguments

    return Content("sketch", {"class": type(thing).__name__, "arguments": arguments(thing)}, state.pack(thing), {})


class Learned(Note):
    """Report of a shard on one round."""

    shard: Count
    rows: Count
    """Rows read: learned or refused."""
    refused: Count
    skipped: Count
    """Bad lines and refused rows passed over."""
    progress: Progress
    """The tally of the rows learned, each predicted first."""
    position: str | None
    """Position from which the next round continues; None at the end of the shard."""
    names: dict[int, str]


Known = tuple[Task, dict[str, Any] | None, str | None]


def task_of(files: list[str], reading: dict[str, Any], kind: str | None) -> tuple[Known, None]:
    """Return the task by the first rows of the first shard that has any, the schema, and the format.

    The schema is None where columns have no names.
    """
    with stream(files, **{**READ_BY_THE_PROGRAM, **_inline(reading)}) as blocks:
        for block in blocks:
            kept = labelled_rows(block, reading.get("on_error") == "skip")
            task = find_task(kept.y, kind, reading.get("positive"), blocks.classes)
            if task.many:
                raise InputError(
                    f"this is a {task}; on a cluster, two classes or numbers are learned (see --positive)."
                )
            return (task, blocks.schema, blocks.format), None
    raise InputError(f"{', '.join(files[:3])}{', …' if len(files) > 3 else ''}: there is not a single row.")


def learn_shard(
    base: Content, plan: Plan, task: Task, shard: int, position: str | None, seed: int
) -> tuple[Learned, Content | None]:
    """Predict and learn the next blocks of a shard, starting from the base.

    Return the report and the learner; None instead of a learner that has learned nothing.
    """
    learner = build(base)
    if learner.method.kind.independent:  # projections that are to be added must be independent
        learner = learner.fork(seed=seed)
    files = _sources(plan.sources, shard)
    start = _beginning(plan.sources, plan.reading, shard) if position is None else Position.from_json(position)
    job = Training(JobPlan(files, plan.method, plan.options, _inline(plan.reading)))
    job.start_from(learner, task, start)
    with _naming(shard, plan.sources[shard]):
        blocks = job.run()
        try:
            for _ in islice(blocks, plan.sync):
                pass
        finally:
            blocks.close()  # type: ignore[attr-defined]
    after = job.position
    report = Learned(
        shard,
        job.rows,
        job.refused,
        job.skipped - (0 if start is None else start.skipped),
        job.progress or new_progress(learner, task.signs),
        None if after is None else after.to_json(),
        job.names,
    )
    return report, snapshot(learner) if report.rows > report.refused else None


def merge_learners(base: Content, one: Content | None, two: Content | None) -> tuple[None, Content | None]:
    """Two learners that started from the base, as one; a shard that learned nothing changes nothing."""
    if one is None or two is None:
        return None, one or two
    return None, snapshot(build(one).merge(build(two), base=build(base)))


class Seen(Note):
    """Report of a shard that was sketched or measured."""

    shard: Count
    rows: Count
    width: Count
    skipped: Count
    """Bad lines, and rows too long to be squared."""


def measure_shard(files: list[str], reading: dict[str, Any], shard: int) -> tuple[Seen, None]:
    """Count the rows of a shard and the features of the widest."""
    rows = width = 0
    with _naming(shard, files[shard]), _shard(files, reading, shard) as blocks:
        for block in blocks:
            rows, width = rows + len(block), max(width, block.rows.shape[1])
        return Seen(shard, rows, width, blocks.skipped), None


def sketch_shard(
    files: list[str], reading: dict[str, Any], shard: int, kind: str, size: int, width: int
) -> tuple[Seen, Content | None]:
    """Sketch the rows of a shard; those too long to be squared are passed over, or an error, as bad lines are."""
    from onsketch.sketches.named import make
    from onsketch.sketches.rows import widened

    summary = make(kind, width, size, shard)
    passed_over = 0
    with _naming(shard, files[shard]), _shard(files, reading, shard) as blocks:
        for block in blocks:
            kept = usable(block, reading.get("on_error") == "skip")
            passed_over += kept.passed_over
            summary.update(widened(kept.X, width))
        report = Seen(shard, summary.n_rows, width, blocks.skipped + passed_over)
    return report, snapshot(summary) if summary.n_rows else None


def merge_sketches(one: Content | None, two: Content | None) -> tuple[None, Content | None]:
    """Two sketches as one."""
    if one is None or two is None:
        return None, one or two
    return None, snapshot(build(one).merge(build(two)))


def _shard(files: list[str], reading: dict[str, Any], shard: int) -> Any:
    """The stream of a shard's blocks."""
    return stream(_sources(files, shard), resume=_beginning(files, reading, shard), **_inline(reading))


def _sources(files: list[str], shard: int) -> list[str]:
    """The shard, after the first one if it is another."""
    return files[:1] if shard == 0 else [files[0], files[shard]]


def _beginning(files: list[str], reading: dict[str, Any], shard: int) -> Position | None:
    """The place where the shard begins among its sources."""
    if shard == 0:
        return None
    with stream(_sources(files, shard), **_inline(reading)) as blocks:
        return blocks.beginning(1)


def _inline(reading: dict[str, Any]) -> dict[str, Any]:
    """A worker has one processor: reading ahead in a second thread would only take it from its neighbour."""
    return {"prefetch": 0, **reading}


@contextmanager
def _naming(shard: int, path: str) -> Iterator[None]:
    """Name the shard in an error, and make the error one that can be pickled."""
    try:
        yield
    except OnsketchError as error:
        said = str(error)
        where = f"shard {shard}" if path in said else f"shard {shard}, {path}"
        raise InputError(f"{where}: {said}", **error.options) from None
