"""Merging in a fixed tree: the indices of the shards decide which results are merged, not their order of arrival.

Level 0 holds the n shards of a round. Node i of level l merges nodes 2i and 2i+1 of the level below; a last node
without a partner moves up unchanged. So the result depends only on the shards, and merges happen as early as possible.
The number of states in memory is about that of the workers plus log₂ n.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from onsketch.jobs.cluster.engine import Engine, Handle, Task
from onsketch.jobs.tally import Record

Call = tuple[Any, ...]
"""A function and its arguments."""


class Node(NamedTuple):
    """A place in the tree.

    >>> Node(2, 1).shards(7)
    range(4, 7)
    """

    level: int
    place: int

    def shards(self, n: int) -> range:
        """The places of the shards below, of n."""
        return range(self.place << self.level, min((self.place + 1) << self.level, n))

    def holds(self, other: Node) -> bool:
        """Return True if the other node is a descendant, or the same node.

        >>> Node(2, 1).holds(Node(0, 6)), Node(2, 1).holds(Node(0, 3))
        (True, False)
        """
        return other.level <= self.level and other.place >> (self.level - other.level) == self.place

    @property
    def parent(self) -> Node:
        """One level up."""
        return Node(self.level + 1, self.place >> 1)

    @property
    def sibling(self) -> Node:
        """The one it is merged with."""
        return Node(self.level, self.place ^ 1)


class Gathering:
    """The current round: reports by index, and states of finished nodes that wait for their sibling."""

    def __init__(self, engine: Engine, leaves: Sequence[Call], merge: Call | None) -> None:
        self.engine = engine
        self.leaves = leaves
        self.reports: dict[int, Any] = {}
        self.ready: dict[Node, Handle] = {}
        self._merge = merge
        self._flying: dict[int, tuple[Task, Node]] = {}
        self._waiting: deque[int] = deque()

    def run(self, saved: dict[Node, tuple[list[Any], Any]], on_report: Callable[[Any], None]) -> Handle:
        """Run everything that is not saved; returns the state at the root.

        Args:
            saved: nodes finished in an earlier life, with the reports and the state of each.
            on_report: called after each shard.
        """
        n = len(self.leaves)
        known = {place for node in saved for place in node.shards(n)}
        self._waiting.extend(place for place in range(n) if place not in known)
        for node, (reports, state) in sorted(saved.items()):
            self.reports.update(zip(node.shards(n), reports, strict=True))
            self._settle(node, self.engine.put(state))
        while self._waiting or self._flying:
            self._take_off()
            for task in self.engine.finished([task for task, _ in self._flying.values()]):
                _, node = self._flying.pop(id(task))
                report = self.engine.report(task)
                self._settle(node, task.state)
                if node.level == 0:
                    self.reports[node.place] = report
                    self._take_off()
                    on_report(report)
        return next(iter(self.ready.values())) if self._merge is not None else None

    def _take_off(self) -> None:
        """Shards in order, a few more at a time than there are workers: what waits must not pile up."""
        while self._waiting and len(self._flying) < 2 * self.engine.workers:
            place = self._waiting.popleft()
            self._submit(Node(0, place), self.leaves[place])

    def _submit(self, node: Node, call: Call) -> None:
        task = self.engine.submit(*call)
        self._flying[id(task)] = task, node

    def _settle(self, node: Node, state: Handle) -> None:
        """A node is finished: merge it with its sibling if that is finished too."""
        if self._merge is None:
            return
        n = len(self.leaves)
        while len(node.shards(n)) < n:
            if not node.sibling.shards(n):
                node = node.parent
                continue
            if node.sibling not in self.ready:
                self.ready[node] = state
                return
            other = self.ready.pop(node.sibling)
            pair = (state, other) if node.place % 2 == 0 else (other, state)
            self._submit(node.parent, (*self._merge, *pair))
            return
        self.ready[node] = state


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


def unwatched(status: Status) -> None:
    """Ignore the status: the default watcher."""


class Clock:
    """Reports the progress of a run, with rows against time from now on."""

    def __init__(self, engine: Engine, watch: Watch, rows: int = 0) -> None:
        self._engine, self._watch, self._rows, self._began = engine, watch, rows, time.perf_counter()

    def report(
        self, number: int, done: int, shards: int, rows: int, skipped: int, record: Record | None = None
    ) -> None:
        """Report that so many shards of a round are done."""
        rate = (rows - self._rows) / max(time.perf_counter() - self._began, 1e-9)
        self._watch(Status(number, done, shards, rows, rate, self._engine.retries, skipped, record))
