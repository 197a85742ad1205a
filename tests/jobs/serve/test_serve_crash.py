"""``kill -9`` under load: every acknowledged row is in the model, which is that of the rows of the log in order."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter

import numpy as np
import pytest

for needed in ("starlette", "uvicorn", "msgspec", "prometheus_client", "httpx", "httptools"):
    pytest.importorskip(needed, reason="the service needs the extra 'serve'")

import httpx

import onsketch
from onsketch.data.json_rows import rows_of
from onsketch.jobs.serve.batch import Batch
from onsketch.jobs.serve.log import read_log
from serving import Process, objects

KILLS = int(os.environ.get("ONSKETCH_KILLS", "2"))
"""More by hand: ONSKETCH_KILLS=100 pytest tests/jobs/serve/test_serve_crash.py."""


def _load(url, name, acknowledged, stop):
    """Learn rows one after the other, in requests of one to five, each row with a word of its own."""
    rng = random.Random(name)
    with httpx.Client(base_url=url, timeout=30) as client:
        for k in range(10_000):
            if stop.is_set():
                return
            rows = objects(rng.randrange(1, 6), seed=rng.randrange(1 << 30))
            for j, row in enumerate(rows):
                row["features"]["n"][f"{name}x{k}x{j}"] = 1
            try:
                answer = client.post("/learn", json=rows)
            except httpx.HTTPError:
                return
            if answer.status_code == 200:
                acknowledged.extend(rows)


def _wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def _logged(folder):
    """All batches that were ever learned, in order."""
    whole = folder / "whole"
    whole.mkdir()
    for path in [*folder.glob("archive/log-*.rows"), *folder.glob("log-*.rows")]:
        os.link(path, whole / path.name)
    return [Batch.decode(record.payload) for record in read_log(whole, 0)]


def _key(rows, label, row):
    part = slice(int(rows.indptr[row]), int(rows.indptr[row + 1]))
    return rows.indices[part].tobytes(), rows.data[part].tobytes(), float(label)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adagrad", "auto"])
def test_every_acknowledged_row_survives_kill_9(tmp_path, method):
    folder, rng = tmp_path / "log", random.Random(1)
    acknowledged = []
    for round_ in range(KILLS):
        every = str(rng.choice([20, 100_000]))
        service = Process(
            "--learner", method, "--task", "binary", "--log", str(folder), "--snapshot-every", every, "--keep-log"
        )
        stop = threading.Event()
        names = [f"c{round_}x{k}" for k in range(3)]
        clients = [threading.Thread(target=_load, args=(service.url, name, acknowledged, stop)) for name in names]
        known = len(acknowledged)
        for client in clients:
            client.start()
        try:
            _wait_for(lambda known=known: len(acknowledged) > known)
            time.sleep(rng.uniform(0.0, 1.0))
        finally:
            service.kill()
            stop.set()
            for client in clients:
                client.join()
    service = Process("--log", str(folder), "--keep-log")
    rows = httpx.get(service.url + "/status").json()["rows"]
    (tmp_path / "served").write_bytes(httpx.get(service.url + "/model").content)
    assert service.terminate() == 0
    assert service.lines[-1] == f"Stopped after {rows:,} rows."

    learner, logged = onsketch.safe_learner(method, loss="logistic"), Counter()
    for batch in _logged(folder):
        learner.learn(batch.rows, np.where(batch.labels == 1.0, 1.0, -1.0))
        logged.update(_key(batch.rows, label, k) for k, label in enumerate(batch.labels))
    assert learner.rounds == rows
    matrix = rows_of([row["features"] for row in acknowledged])
    wanted = Counter(_key(matrix, row["label"], k) for k, row in enumerate(acknowledged))
    assert wanted <= logged
    served, offline = onsketch.load(tmp_path / "served").learner._arrays(), learner._arrays()
    assert served.keys() == offline.keys()
    assert all(served[name].tobytes() == offline[name].tobytes() for name in served)


def test_sigterm_drains(tmp_path):
    service = Process("--learner", "adagrad", "--log", str(tmp_path / "log"))
    acknowledged, stop = [], threading.Event()
    clients = [threading.Thread(target=_load, args=(service.url, f"t{k}", acknowledged, stop)) for k in range(3)]
    for client in clients:
        client.start()
    try:
        _wait_for(lambda: len(acknowledged) > 0)
        time.sleep(0.3)
        os.kill(service.process.pid, signal.SIGTERM)
        assert service.wait() == 0
    finally:
        stop.set()
        for client in clients:
            client.join()
    again = Process("--log", str(tmp_path / "log"))
    assert httpx.get(again.url + "/status").json()["rows"] >= len(acknowledged) > 0
    assert again.terminate() == 0
