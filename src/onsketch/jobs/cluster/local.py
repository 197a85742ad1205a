"""Tasks in this process, one after the other: for tests, a first look, and as what a cluster is measured against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onsketch.jobs.cluster.engine import Engine, Handle, Task, in_one_thread


class LocalEngine(Engine):
    """Run every task immediately in this process. A handle is the object itself.

    >>> engine = LocalEngine()
    >>> task = engine.submit(lambda one, two: (None, one + two), engine.put(1), 2)
    >>> engine.state(task.state)
    3
    """

    @property
    def workers(self) -> int:
        """One: this process."""
        return 1

    def put(self, value: Any) -> Handle:
        """The value."""
        return value

    def submit(self, function: Callable[..., tuple[Any, Any]], *arguments: Any) -> Task:
        """Run it now."""
        return Task(*in_one_thread(function, *arguments))

    def finished(self, tasks: Sequence[Task]) -> list[Task]:
        """All of them."""
        return list(tasks)

    def report(self, task: Task) -> Any:
        """The report."""
        return task.report

    def state(self, handle: Handle) -> Any:
        """The state."""
        return handle

    def close(self) -> None:
        """Nothing is held."""
