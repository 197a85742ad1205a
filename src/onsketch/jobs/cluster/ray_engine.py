"""Tasks on Ray: on this machine, or unchanged on a cluster.

Ray itself runs a task again when its worker or its machine dies, and recomputes lost states from their tasks. As all
tasks are pure, the results are the same to the bit. Each task has one processor and one thread.
"""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from onsketch.jobs.cluster.engine import ClusterError, Engine, Handle, Task, in_one_thread

RETRIES = 10
"""Times that a task is run again after the death of its worker before the run gives up."""

LOOPBACK = "127.0.0.1"

ALLOWED = "ONSKETCH_RAY_ALL_INTERFACES"
"""Environment variable: 1 accepts a Ray that listens beyond loopback."""


def exposed_addresses(process: int) -> list[str]:
    """Return the addresses beyond loopback on which a process and its descendants listen."""
    import psutil

    root = psutil.Process(process)
    found = set()
    for one in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            local = [socket.laddr for socket in one.net_connections("tcp") if socket.status == psutil.CONN_LISTEN]
            found |= {f"{a.ip}:{a.port}" if "." in a.ip else f"[{a.ip}]:{a.port}" for a in local if not _loopback(a.ip)}
    return sorted(found)


def _loopback(host: str) -> bool:
    address = ipaddress.ip_address(host)
    return bool((getattr(address, "ipv4_mapped", None) or address).is_loopback)


class RayEngine(Engine):
    """Runs tasks on a Ray cluster.

    Args:
        address: "local", "auto" or the address of a cluster; see :func:`onsketch.cluster.open_engine`. A program
            that has called ``ray.init`` already keeps its cluster, and this argument is ignored.
        workers: with "local", the number of tasks at the same time; all processors when left out.
    """

    def __init__(self, address: str = "auto", workers: int | None = None) -> None:
        self._ray = import_ray()
        self._started = not self._ray.is_initialized()
        if self._started:
            self._connect(address, workers)
        self._call = self._ray.remote(num_returns=2, num_cpus=1, max_retries=RETRIES)(_call)

    def _connect(self, address: str, workers: int | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address == "auto":
            try:
                self._ray.init("auto", **quiet)
                return
            except ConnectionError:
                address = "local"
        if address == "local":
            before = exposed_addresses(os.getpid())
            with _on_loopback():
                self._ray.init("local", num_cpus=workers, include_dashboard=False, _node_ip_address=LOOPBACK, **quiet)
            self._refuse_exposure(before)
            return
        try:
            self._ray.init(address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ClusterError(
                f"cannot join the Ray cluster at {address}: {error}. Is it running, can it be reached from here, and "
                "has this machine its token (RAY_AUTH_TOKEN)?"
            ) from None

    def _refuse_exposure(self, before: list[str]) -> None:
        """End the cluster started here if other machines could reach it: every client of Ray can run code."""
        exposed = [address for address in exposed_addresses(os.getpid()) if address not in before]
        if exposed and os.environ.get(ALLOWED) != "1":
            self._ray.shutdown()
            raise ClusterError(
                f"the Ray started here listens on {', '.join(exposed[:4])}, beyond this machine, and "
                f"whoever reaches Ray can run code. Behind a firewall, {ALLOWED}=1 in the environment allows it."
            )

    @property
    def workers(self) -> int:
        """The processors of the cluster, at least one."""
        return max(int(self._ray.cluster_resources().get("CPU", 1)), 1)

    def put(self, value: Any) -> Handle:
        """Into Ray's object store."""
        return self._ray.put(value)

    def submit(self, function: Callable[..., tuple[Any, Any]], *arguments: Any) -> Task:
        """Hand the task to Ray, under the function's name."""
        return Task(*self._call.options(name=function.__name__).remote(function, *arguments))

    def finished(self, tasks: Sequence[Task]) -> list[Task]:
        """Those whose report is there."""
        by_report = {task.report: task for task in tasks}
        done, _ = self._ray.wait(list(by_report), num_returns=1)
        if len(by_report) > 1:  # whatever else is there already
            done, _ = self._ray.wait(list(by_report), num_returns=len(by_report), timeout=0)
        return [by_report[handle] for handle in done]

    def report(self, task: Task) -> Any:
        """The report; counts the attempts that the task took."""
        attempt, report = self._get(task.report)
        self.retries += attempt
        return report

    def state(self, handle: Handle) -> Any:
        """Fetch it to this machine."""
        return self._get(handle)

    def _get(self, handle: Handle) -> Any:
        try:
            return self._ray.get(handle)
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from None
        except self._ray.exceptions.RayError as error:
            said = str(error).strip().splitlines()
            raise ClusterError(
                f"a task failed {RETRIES + 1} times ({said[0] if said else type(error).__name__}). What was merged "
                "before is in the checkpoint, if there is one; resume once the cause is mended."
            ) from error

    def close(self) -> None:
        """Leave the cluster, if it was joined here; one that was started here ends."""
        if self._started:
            self._ray.shutdown()


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Make Ray use the address 127.0.0.1 of this machine, so that it binds all its ports there.

    On Linux it would use an address that other machines can reach, and listen on all interfaces. Ray itself disables
    this switch on macOS and Windows. A version of Ray without the switch is detected by its open ports.
    """
    from ray._private import ray_constants

    before = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _call(function: Callable[..., tuple[Any, Any]], *arguments: Any) -> tuple[tuple[int, Any], Any]:
    """Runs on the worker."""
    report, state = in_one_thread(function, *arguments)
    return (_attempt(), report), state


def _attempt() -> int:
    """Return the number of earlier attempts of this task; 0 if this version of Ray does not report it."""
    from ray._private import worker

    core = getattr(worker.global_worker, "core_worker", None)
    tell = getattr(core, "get_current_task_attempt_number", None)
    return int(tell()) if tell is not None else 0


def import_ray() -> Any:
    """Import Ray, or raise an error that names the extra to install."""
    try:
        import ray
    except ImportError:
        raise ImportError("training on a cluster needs Ray: pip install 'onsketch[ray]'") from None
    return ray
