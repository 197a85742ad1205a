"""Status reports of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from onsketch.jobs.tally import Record


class Status(NamedTuple):
    """Progress of a run, passed to ``watch`` after each shard and after each merged round."""

    round: int
    """The current round, from 1."""
    shards_done: int
    shards: int
    """Of this round."""
    rows: int
    """Rows read so far, those of an earlier life included."""
    rows_per_second: float
    """In this life."""
    retries: int
    """Tasks run again because a worker or a machine died."""
    skipped: int = 0
    """Bad lines and rows passed over so far."""
    record: Record | None = None
    """After a merge: how the predictions have done so far."""

    def __str__(self) -> str:
        again = f", {self.retries} retried" if self.retries else ""
        return (
            f"round {self.round}: {self.shards_done}/{self.shards} shards, {self.rows:,} rows, "
            f"{self.rows_per_second:,.0f} a second{again}"
        )


Watch = Callable[[Status], object]


class Clock:
    """Rows against time, from now on."""

    def __init__(self, rows: int) -> None:
        self._rows, self._began = rows, time.perf_counter()

    def rate(self, rows: int) -> float:
        """Rows a second since the beginning."""
        return (rows - self._rows) / max(time.perf_counter() - self._began, 1e-9)


def unwatched(status: Status) -> None:
    """Ignore the status: the default watcher."""
