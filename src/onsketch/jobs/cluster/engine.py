"""Interface of engines, which run tasks: five methods.

The rest of the package uses tasks only. A task is a pure module-level function that returns a pair: a small *report*
for the driver of the run, and a *state*, perhaps large, which stays where it was made until a later task or the driver
needs it. To add an engine, write one more subclass.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from types import TracebackType
from typing import Any, NamedTuple, Self

from onsketch.core.errors import OnsketchError, OptionError

Handle = Any
"""Handle of a state, wherever it is; only its engine can resolve it."""


class ClusterError(OnsketchError):
    """The engine gave up on a task: its worker died repeatedly, or its result was lost."""


class Task(NamedTuple):
    """A running task: handles of its report and its state."""

    report: Handle
    state: Handle


class Engine(ABC):
    """An engine runs pure tasks. A task that is lost is run again, and the engine counts these retries."""

    retries: int = 0
    """Tasks that had to be run again, as far as the engine can count them."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """Tasks that can run at the same time, now. It decides the pace and never the result."""

    @abstractmethod
    def put(self, value: Any) -> Handle:
        """Share a value with all tasks; sent once to each machine rather than once to each task."""

    @abstractmethod
    def submit(self, function: Callable[..., tuple[Any, Any]], *arguments: Any) -> Task:
        """Run ``function(*arguments)`` somewhere; handles among the arguments are replaced by their objects."""

    @abstractmethod
    def finished(self, tasks: Sequence[Task]) -> list[Task]:
        """Wait until at least one of these has finished; returns those that have."""

    @abstractmethod
    def report(self, task: Task) -> Any:
        """The report of a finished task; raises what the task raised."""

    @abstractmethod
    def state(self, handle: Handle) -> Any:
        """Bring a state here."""

    def call(self, function: Callable[..., tuple[Any, Any]], *arguments: Any) -> Task:
        """Run a task alone, and wait for it."""
        task = self.submit(function, *arguments)
        self.finished([task])
        return task

    @abstractmethod
    def close(self) -> None:
        """Let go of what the engine holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def in_one_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call it with linear algebra in one thread.

    More threads would add up long products in other portions: the last bits of a merge would depend on the number
    of processors. Needs threadpoolctl, which ``onsketch[ray]`` brings; without it the threads are what they are.
    """
    try:
        pools = _pools(len(sys.modules))
    except ImportError:
        return function(*arguments)
    with pools.limit(limits=1):
        return function(*arguments)


@lru_cache(maxsize=1)
def _pools(modules: int) -> Any:
    """Libraries with their own threads. Finding them takes milliseconds; later imports may add some."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class LocalEngine(Engine):
    """Run every task immediately in this process, for tests and as what a cluster is measured against.

    A handle is the object itself.

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


def open_engine(cluster: str | Engine) -> Engine:
    """Return the engine for a name or an address.

    Args:
        cluster: "none" runs the tasks in this process; "local" starts Ray on this machine, for loopback only; "auto"
            joins the Ray cluster that is running here, or starts one as "local" does; anything else is the
            address of a Ray cluster (``host:6379``). An engine is returned as it is.
    """
    if isinstance(cluster, Engine):
        return cluster
    if not isinstance(cluster, str) or not cluster:
        raise OptionError(f"cluster={cluster!r}: expected auto, local, none or the address of a Ray cluster.")
    if cluster == "none":
        return LocalEngine()
    from onsketch.jobs.cluster.ray_engine import RayEngine

    return RayEngine(cluster)


def using(cluster: str | Engine) -> AbstractContextManager[Engine]:
    """Open an engine, and close it afterwards unless it was given."""
    return nullcontext(cluster) if isinstance(cluster, Engine) else open_engine(cluster)
