"""Vowpal Wabbit's daemon protocol: clients written for ``vw --daemon`` get the same kind of answers here."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

for needed in ("starlette", "uvicorn", "msgspec", "prometheus_client", "httpx", "httptools"):
    pytest.importorskip(needed, reason="the service needs the extra 'serve'")

import numpy as np

import onsketch
from onsketch.data import stream
from onsketch.data.json_rows import rows_of
from onsketch.jobs.serve.limits import Limits
from onsketch.jobs.serve.model import load_model
from onsketch.jobs.serve.rows import RowReader
from onsketch.jobs.training import Plan, Training
from serving import as_vw, objects, served

LINES = (
    "1 'first| x y:2\n"
    "-1 second| x |n z\n"
    "1 2.0 | z\n"  # with a weight, no tag
    "| x\n"  # no label: predicted only
    "'tagged | x y\n"
    "\n"
    "1 | x\n"
)


class Client:
    """What clients of ``vw --daemon`` do: send lines, read as many answers."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("r", encoding="utf-8")

    def ask(self, lines: str) -> list[str]:
        self.socket.sendall(lines.encode())
        return [self.file.readline().rstrip("\n") for line in lines.splitlines() if line.strip()]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()
        self.socket.close()


@contextlib.contextmanager
def vw_daemon():
    """VW's own daemon, from its Python package."""
    pytest.importorskip("vowpalwabbit", reason="the extra 'bench' has VW")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = (
        "import vowpalwabbit as v\n"
        f"w = v.Workspace('--daemon --port {port} --num_children 1 --foreground --quiet')\n"
        "w.run_parser()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        until = time.monotonic() + 30
        while True:
            try:
                client = Client(port)
                break
            except OSError:
                if time.monotonic() > until or process.poll() is not None:
                    pytest.skip("VW's daemon does not start here")
                time.sleep(0.1)
        with client:
            yield client
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def _shape(answer: str) -> tuple[bool, str]:
    """Whether an answer begins with a number, and the tag after it."""
    number, _, tag = answer.partition(" ")
    return re.fullmatch(r"-?\d+(\.\d+)?(e[-+]\d+)?", number) is not None, tag


def test_answers_have_the_shape_of_vws_own():
    with (
        vw_daemon() as theirs,
        served(task="regression", vw_port=0) as (_, running),
        Client(running.vw_port) as ours,
    ):
        for lines in (LINES, "0.5 'again|n z:3\n", *(line + "\n" for line in LINES.splitlines() if line)):
            mine, vws = ours.ask(lines), theirs.ask(lines)
            assert [_shape(answer) for answer in mine] == [_shape(answer) for answer in vws]
            assert all(number for number, _ in map(_shape, mine))


def test_answers_are_the_margins_before_learning():
    rows = objects(60)
    learner = onsketch.safe_learner("adagrad", loss="logistic")
    y = np.array([1.0 if row["label"] else -1.0 for row in rows])
    margins = learner.learn(rows_of([row["features"] for row in rows]), y)
    with served(vw_port=0) as (client, running), Client(running.vw_port) as vw:
        one = vw.ask("".join(as_vw(row) + "\n" for row in rows[:30]))
        by_one = [vw.ask(as_vw(row) + "\n")[0] for row in rows[30:40]]
        with Client(running.vw_port) as other:  # a second client goes on with the same model
            rest = other.ask("".join(as_vw(row) + "\n" for row in rows[40:]))
        assert [float(answer) for answer in one + by_one + rest] == pytest.approx(margins.tolist(), rel=1e-5, abs=1e-6)
        assert client.get("/status").json()["rows"] == 60


def test_rows_without_a_label_are_predicted_in_their_place():
    with served(vw_port=0) as (client, running), Client(running.vw_port) as vw:
        first, second, third = vw.ask("| x\n1 | x\n| x\n")
        assert (first, second) == ("0", "0")
        assert float(third) > 0
        assert client.get("/status").json()["rows"] == 1


def test_a_bad_line_keeps_the_client_in_step_and_changes_nothing():
    with served(vw_port=0) as (client, running):
        with Client(running.vw_port) as vw:
            assert vw.ask("1 | x\nno bar here\n1 1 1 1 | x\n7 | x\n| x\n")[1:4] == ["nan", "nan", "nan"]
            assert client.get("/status").json()["rows"] == 1
            vw.socket.sendall(b"1 | half a li")
        with Client(running.vw_port) as vw:
            vw.socket.sendall(b"1 | x")  # the last line may have no end
            vw.socket.shutdown(socket.SHUT_WR)
            assert float(vw.file.readline()) > 0


def test_an_endless_line_keeps_the_client_in_step_and_takes_no_memory():
    with served(vw_port=0, limits=Limits(line=1000)) as (client, running), Client(running.vw_port) as vw:
        assert vw.ask("| " + "a" * 3_000_000 + "\n1 | x\n") == ["nan", "0"]
        assert client.get("/status").json()["rows"] == 1


def test_a_line_that_does_not_end_in_time_closes_the_connection():
    with served(vw_port=0, limits=Limits(body_seconds=0.3)) as (_, running), Client(running.vw_port) as vw:
        vw.socket.sendall(b"1 | half")
        assert vw.socket.recv(1) == b""


def test_connections_are_bounded():
    with (
        served(vw_port=0, limits=Limits(clients=2)) as (_, running),
        Client(running.vw_port) as first,
        Client(running.vw_port) as second,
    ):
        assert first.ask("| x\n") == second.ask("| x\n") == ["0"]
        with Client(running.vw_port) as third:
            assert third.socket.recv(1) == b""


def test_before_a_class_has_come_lines_have_an_answer_each():
    with served(task="multiclass", vw_port=0) as (_, running), Client(running.vw_port) as vw:
        assert vw.ask("| a\n'tag| a:1\n") == ["0", "0 tag"]


def test_idle_clients_stop_nobody():
    with served(vw_port=0) as (_, running), contextlib.ExitStack() as clients:
        for _ in range(100):
            clients.enter_context(Client(running.vw_port))
        assert clients.enter_context(Client(running.vw_port)).ask("1 | x\n") == ["0"]


VW_ROWS = "1 |a x:2 |b y |c z:3\n-1 |a v |b y:5 |d z\n"


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        (VW_ROWS, {"format": "vw", "cubic": ["abc"]}),
        (VW_ROWS, {"format": "vw", "ignore": ["b"]}),
        (VW_ROWS, {"format": "vw", "keep": ["a", "c"]}),
        ("1 1:2 3:1\n-1 2:1 3:4\n", {"format": "libsvm", "zero_based": False}),
        ("1 1:2 3:1\n-1 2:1 3:4\n", {"format": "libsvm", "zero_based": False, "bits": 10, "cubic": [":::"]}),
    ],
)
def test_lines_have_the_columns_of_the_models_training(tmp_path, text, reading):
    (tmp_path / "rows").write_text(text)
    job = Training(Plan([str(tmp_path / "rows")], "adagrad", {}, reading))
    for _ in job.run():
        pass
    job.save(tmp_path / "model")
    with stream(str(tmp_path / "rows"), **reading) as blocks:
        expected = next(blocks).X.toarray()
    loaded = load_model(tmp_path / "model")[0]
    found = RowReader(loaded, {}, 1000).lines(text.encode(), reading["format"]).X
    np.testing.assert_array_equal(found.toarray(), expected)
    plain = {name: value for name, value in reading.items() if name in ("format", "bits")}
    with stream(str(tmp_path / "rows"), **plain) as blocks:
        other = next(blocks).X
    assert other.shape != expected.shape or (other.toarray() != expected).any()
