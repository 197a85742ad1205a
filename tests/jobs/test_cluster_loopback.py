"""A cluster started here is for this machine: the listening sockets of its processes say so."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys

import pytest

from onsketch.jobs.cluster import ray_engine
from onsketch.jobs.cluster.ray_engine import exposed_addresses
from program import environment

pytest.importorskip("psutil", reason="comes with onsketch[ray]")


@pytest.mark.parametrize(
    ("host", "near"),
    [("0.0.0.0", False), ("192.0.2.2", False), ("::", False), ("::ffff:0.0.0.0", False), ("::ffff:192.0.2.2", False),
     ("127.0.0.1", True), ("127.0.0.2", True), ("::1", True), ("::ffff:127.0.0.1", True)],
)  # fmt: skip
def test_loopback_is_distinguished_from_other_addresses(host: str, near: bool) -> None:
    assert ray_engine._loopback(host) is near


def test_what_a_process_and_its_children_listen_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); "
        "sys.stdin.read()"
    )
    with (
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child,
        socket.socket() as listener,
    ):
        assert child.stdout is not None
        theirs = f"127.0.0.1:{int(child.stdout.readline())}"
        listener.bind(("127.0.0.1", 0))
        mine = f"127.0.0.1:{listener.getsockname()[1]}"
        assert not {mine, theirs} & set(exposed_addresses(os.getpid()))
        monkeypatch.setattr(ray_engine, "_loopback", lambda host: False)  # as if the address were any other
        assert theirs in exposed_addresses(os.getpid())
        assert mine not in exposed_addresses(os.getpid())  # bound, and not listening yet
        listener.listen()
        assert {mine, theirs} <= set(exposed_addresses(os.getpid()))


STARTED = """
import os
import psutil
from onsketch.jobs.cluster import ray_engine
from onsketch.jobs.cluster.ray_engine import exposed_addresses

def outcome():
    try:
        engine = ray_engine.RayEngine("local", 1)
    except ray_engine.ClusterError as error:
        return "refused", ray_engine.ALLOWED in str(error), exposed_addresses(os.getpid())
    task = engine.submit(lambda: (1, 2))
    engine.finished([task])
    mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [one for process in mine for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    found = engine.report(task), len(sockets) >= 4, exposed_addresses(os.getpid())
    engine.close()
    return "started", *found

print(outcome())
ray_engine._loopback = lambda host: False  # as if the addresses were any others
print(outcome())
os.environ[ray_engine.ALLOWED] = "1"
print(outcome())
"""


@pytest.mark.slow
def test_ray_listens_on_loopback_only_or_is_refused() -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install 'onsketch[ray]'")
    words = [sys.executable, "-c", STARTED]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    closed, opened, allowed = (ast.literal_eval(line) for line in done.stdout.splitlines() if line.startswith("("))
    assert closed == ("started", 1, True, [])
    assert opened == ("refused", True, [])
    assert allowed[:3] == ("started", 1, True)
    assert allowed[3]
