"""Three machines, simulated on this one: kill -9 whatever there is, and the model is the same to the bit."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkout import ROOT, SOURCES
from onsketch import cluster
from onsketch.cluster import Run, Status, fit
from onsketch.errors import InputError
from shards import shards_of

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'onsketch[ray]'")

from onsketch.jobs.cluster.ray_engine import RayEngine  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the processes to kill in /proc"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHARDS, ROWS = 7, 700
OPTIONS: dict[str, Any] = {"method": "rfd-son", "sketch_size": 3}
LOOPBACK = "127.0.0.2"  # Ray would replace 127.0.0.1 by an address that others can reach


@pytest.fixture(scope="module")
def machines(tmp_path_factory: Any) -> Iterator[Any]:
    """Three machines of one processor each, on loopback; at most one such cluster at a time."""
    from ray.cluster_utils import Cluster

    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with (shared / "one-cluster-at-a-time").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Workers see the sources of this checkout, and the tests' own helpers.
        folders = [SOURCES, ROOT / "tests" / "support", Path(__file__).parent]
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        common = {"num_cpus": 1, "node_ip_address": LOOPBACK, "object_store_memory": 80 << 20}
        made = Cluster(initialize_head=True, head_node_args={**common, "include_dashboard": False})
        try:
            for _ in range(2):
                made.add_node(**common)
            ray.init(made.address, log_to_driver=False)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


@pytest.fixture(scope="module")
def files(tmp_path_factory: Any) -> list[str]:
    """Wide enough that the states of learners lie in the machines' object stores, and die with them."""
    rng = np.random.default_rng(1)
    X = np.zeros((ROWS, 4000))
    for row in X:
        row[rng.choice(4000, 20, replace=False)] = rng.normal(size=20)
    y = np.where(X @ rng.normal(size=4000) > 0.0, 1.0, -1.0)
    return shards_of(tmp_path_factory.mktemp("shards"), X, y, SHARDS)


@pytest.fixture(scope="module")
def expected(machines: Any, files: list[str], tmp_path_factory: Any) -> bytes:
    """The model of a run on the cluster without any fault."""
    return bits(fit(OPTIONS, files, cluster="auto", sync=2, reading={"block_rows": 30}), tmp_path_factory.mktemp("x"))


def bits(run: Run, folder: Path) -> bytes:
    assert run.rows == ROWS
    assert run.learner.rounds == ROWS
    assert run.progress.rows == ROWS
    run.save(folder / "model")
    return (folder / "model").read_bytes()


def slowly(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    time.sleep(seconds)
    return function(*arguments)


class SlowEngine(RayEngine):
    """Gives whoever kills the time to do it."""

    def __init__(self, seconds: float = 0.4) -> None:
        super().__init__()
        self._seconds = seconds

    def submit(self, function: Any, *arguments: Any) -> Any:
        return super().submit(slowly, self._seconds, function, *arguments)


def processes() -> dict[int, tuple[int, str]]:
    """All processes: parent and command line."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            found[int(entry.name)] = parent, (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found


def busy_workers(machine: Any) -> list[int]:
    """Worker processes of one machine that have a task in hand."""
    own = {info.process.pid for infos in machine.all_processes.values() for info in infos}
    there = processes()
    return [pid for pid, (parent, line) in there.items() if parent in own and line.startswith("ray::slowly")]


def fitted(files: list[str], watch: Any = lambda status: None, **changes: Any) -> tuple[Run, Any]:
    engine = SlowEngine()
    run = fit(OPTIONS, files, cluster=engine, sync=2, reading={"block_rows": 30}, watch=watch, **changes)
    return run, engine


def test_a_cluster_gives_the_model_of_one_process(machines: Any, files: Any, expected: bytes, tmp_path: Path) -> None:
    """Twice the same bits on the cluster, and those of one process but for the rounding of its linear algebra."""
    seen: list[Status] = []
    run = fit(OPTIONS, files, cluster="auto", sync=2, reading={"block_rows": 30}, watch=seen.append)
    assert bits(run, tmp_path) == expected
    alone = fit(OPTIONS, files, cluster="none", sync=2, reading={"block_rows": 30})
    assert alone.progress == run.progress
    assert bits(alone, tmp_path) == expected
    assert len(expected) > 200_000  # larger than what Ray would send along with a report
    assert seen[-1].rows == ROWS
    assert seen[-1].retries == 0
    assert [status.record for status in seen if status.record is not None] == run.records
    assert {status.shards for status in seen} <= set(range(1, SHARDS + 1))


def test_a_worker_is_killed(machines: Any, files: Any, expected: bytes, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(status: Status) -> None:
        if len(killed) >= 2:
            return
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if busy := [pid for machine in machines.list_all_nodes() for pid in busy_workers(machine)]:
                os.kill(busy[0], signal.SIGKILL)
                killed.append(busy[0])
                return
            time.sleep(0.01)

    run, engine = fitted(files, kill)
    assert len(killed) == 2
    assert engine.retries >= 1
    assert bits(run, tmp_path) == expected


def test_a_machine_is_killed(machines: Any, files: Any, expected: bytes, tmp_path: Path) -> None:
    """With its workers, its tasks in hand and the states that lay there."""
    doomed = machines.add_node(num_cpus=1, node_ip_address=LOOPBACK, object_store_memory=80 << 20)
    machines.wait_for_nodes()
    pids = [info.process.pid for infos in doomed.all_processes.values() for info in infos]
    killed = []

    def kill(status: Status) -> None:
        if not killed and busy_workers(doomed):
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            killed.append(status)

    run, _ = fitted(files, kill)
    assert killed
    assert bits(run, tmp_path) == expected
    machines.remove_node(doomed, allow_graceful=False)


DRIVER = """
import sys
from test_cluster_ray import OPTIONS, SlowEngine, fit
import ray
ray.init(sys.argv[1], log_to_driver=False)
print("ready", flush=True)
run = fit(OPTIONS, sys.argv[4:], cluster=SlowEngine(float(sys.argv[3])), sync=2, reading={"block_rows": 30}, every=0.0,
          checkpoint=sys.argv[2], resume=True, watch=lambda status: print(status, flush=True))
run.save(sys.argv[2] + ".model")
print("done", run.rows, flush=True)
"""


def drive(address: str, checkpoint: Path, seconds: float, files: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", DRIVER, address, str(checkpoint), str(seconds), *files]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)


def test_the_driver_is_killed(machines: Any, files: Any, expected: bytes, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.ckpt"
    for stop_after in (3, 4):  # once within a round, once after a merge or so
        driver = drive(machines.address, checkpoint, 0.4, files)
        assert driver.stdout is not None
        lines = [line for line, _ in zip(driver.stdout, range(1 + stop_after), strict=False)]
        assert any("shards" in line for line in lines)
        driver.kill()
        driver.communicate()
        assert checkpoint.exists() or list((tmp_path / "run.ckpt.parts").iterdir())
    run = fit(OPTIONS, files, cluster="auto", sync=2, reading={"block_rows": 30}, checkpoint=checkpoint, resume=True)
    assert bits(run, tmp_path) == expected


def test_sketches_on_a_cluster(machines: Any, files: Any) -> None:
    here = cluster.sketch(files, "fast-fd", 4, cluster="none")
    there = cluster.sketch(files, "fast-fd", 4, cluster=SlowEngine(0.0))
    assert (here.matrix == there.matrix).all()
    assert there.n_rows == ROWS


def test_what_is_wrong_in_a_shard_is_said_plainly(machines: Any, files: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.svm"
    bad.write_text("1 0:1\n-1 1:x\n")
    with pytest.raises(InputError, match=r"shard 1: .*bad\.svm:2"):
        fit(OPTIONS, [files[0], str(bad)], cluster="auto")
    assert np.isfinite(fit(OPTIONS, files[:2], cluster="auto").learner.weights).all()  # and the cluster goes on
