"""Show a run on a cluster: a live line on a terminal, a line for each merged round elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onsketch.cli.console import err

if TYPE_CHECKING:
    from rich.console import Console

    from onsketch.jobs.cluster import Status


@contextmanager
def watching(console: Console, quiet: bool) -> Iterator[Callable[[Status], None]]:
    """Yield a function that shows each status: shards done, rows a second and retries, live on a terminal."""
    if quiet:
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

    if spinner is None:
        yield show
    else:
        with spinner:
            yield show
