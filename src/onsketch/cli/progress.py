"""Progress on a terminal: the bar of a training, and a live line for a run on a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from onsketch.cli.console import err

if TYPE_CHECKING:
    from rich.console import Console

    from onsketch.jobs.cluster import Status
    from onsketch.jobs.training import Training


@contextmanager
def progress_bar(console: Console, job: Training) -> Iterator[Callable[[Any], None]]:
    """A bar that ``moved(block)`` advances; nothing is drawn without a terminal.

    It lives on the console that lines are printed to, which then puts them above it; where those go to a file, on the
    standard error.
    """
    where = console if console.is_terminal else err() if sys.stderr.isatty() else None
    if console.quiet or where is None or not where.is_terminal:
        yield lambda block: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    sizes = _sizes(job.plan.sources, job.plan.reading.get("format"))
    wide = where.width >= 70
    columns = [
        TextColumn("{task.fields[rows]:,} rows"), BarColumn(bar_width=None if wide else 10),
        TextColumn("loss {task.fields[loss]:.4g}"),
    ]  # fmt: skip
    columns += [TimeElapsedColumn()] if wide else []
    columns += [TextColumn("left"), TimeRemainingColumn(compact=True)] if wide and sizes else []
    with Progress(*columns, console=where, transient=True, expand=wide) as bar:
        task = bar.add_task("", total=sum(sizes) * job.plan.passes if sizes else None, rows=job.rows, loss=0.0)

        def moved(block: Any) -> None:
            assert job.progress is not None
            place = block.position
            done = sum(sizes) * job.finished_passes + sum(sizes[: place.file]) + place.offset
            bar.update(task, completed=done, rows=job.rows, loss=job.progress.mean_loss)

        yield moved


def _sizes(sources: list[str], form: str | None) -> list[int]:
    """Return the sizes of the files in the unit of a position (bytes, or rows of Parquet); [] if unknown."""
    if not all(os.path.isfile(source) for source in sources):
        return []
    if form == "parquet" or all(source.endswith((".parquet", ".pq")) for source in sources):
        from onsketch.data.arrow import count_rows

        return [count_rows(source) for source in sources]
    if form == "arrow" or any(
        source.endswith((".gz", ".xz", ".bz2", ".zst", ".arrow", ".feather")) for source in sources
    ):
        return []
    return [os.path.getsize(source) for source in sources]


@contextmanager
def watching(console: Console) -> Iterator[Callable[[Status], None]]:
    """Yield a function that shows each status: shards done, rows a second and retries, live on a terminal."""
    if console.quiet:
        yield lambda status: None
        return
    live = err()
    spinner = live.status("Waiting for the cluster") if live.is_terminal else None
    retried = 0

    def show(status: Status) -> None:
        nonlocal retried
        if spinner is not None:
            spinner.update(str(status))
        elif status.retries > retried:
            live.print(f"{status.retries - retried} tasks run again: a worker or a machine died", soft_wrap=True)
        retried = status.retries
        if status.record is not None:
            error = "" if status.record.error is None else f", error {status.record.error:.4f}"
            console.print(
                f"{status}; loss {status.record.loss:.6f}, in this round {status.record.recent_loss:.6f}{error}",
                soft_wrap=True,
            )

    with spinner or nullcontext():
        yield show
