"""Live streams: every message is learned exactly once, whenever the process is killed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time

import numpy as np
import pytest

for needed in ("starlette", "uvicorn", "msgspec", "prometheus_client", "httpx", "httptools"):
    pytest.importorskip(needed, reason="the service needs the extra 'serve'")

import httpx

import onsketch
from onsketch.core.errors import InputError, OptionError
from onsketch.data.json_rows import rows_of
from onsketch.data.live import Message, is_live, open_live
from onsketch.jobs.serve import consume
from program import environment
from serving import PROGRAM, Process, as_vw, objects, served


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    """A Redis of the test's own, on loopback."""
    redis = pytest.importorskip("redis", reason="the extra 'redis' has its client")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server here")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder), "--daemonize", "no"]
    process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    until = time.monotonic() + 30
    while True:
        try:
            client.ping()
            break
        except redis.ConnectionError:
            assert time.monotonic() < until
            time.sleep(0.05)
    client.close()
    yield f"redis://127.0.0.1:{port}"
    process.terminate()
    process.wait(30)


@pytest.fixture
def redis_client(redis_url):
    import redis

    client = redis.Redis.from_url(redis_url)
    client.flushall()
    yield client
    client.close()


@pytest.fixture(scope="module")
def kafka():
    """The mock broker that librdkafka brings along."""
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="the extra 'kafka' has its client")
    producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock"})
    found = producer.list_topics(timeout=30)
    broker = next(iter(found.brokers.values()))
    return producer, f"kafka://{broker.host}:{broker.port}"


def _wait_rows(url, rows):
    until = time.monotonic() + 60
    while (found := httpx.get(url + "/status").json())["rows"] < rows:
        assert time.monotonic() < until, found
        time.sleep(0.05)
    return found


def test_addresses():
    assert is_live("kafka://h:1/t")
    assert not is_live("s3://bucket/clicks.vw")
    pytest.importorskip("redis")
    with pytest.raises(OptionError, match="redis://HOST"):
        open_live("redis://localhost")
    with pytest.raises(OptionError, match="live streams are"):
        open_live("amqp://localhost/x")


def test_a_redis_stream_is_polled_from_a_position_on(redis_url, redis_client):
    for k in range(5):
        redis_client.xadd("s", {"row": json.dumps({"k": k})})
    redis_client.xadd("s", {"a": "1.5", "colour": "red", "label": "1"})
    stream = open_live(f"{redis_url}/s")
    first = stream.poll(3, 0.1)
    assert [json.loads(message.text)["k"] for message in first] == [0, 1, 2]
    place = stream.position
    rest = stream.poll(10, 0.1)
    assert json.loads(rest[-1].text) == {"a": 1.5, "colour": "red", "label": 1.0}
    assert stream.poll(10, 0.01) == []
    again = open_live(f"{redis_url}/s")
    again.seek(place)
    assert [message.text for message in again.poll(10, 0.1)] == [message.text for message in rest]
    stream.close()
    again.close()
    nobody = open_live("redis://127.0.0.1:1/s")
    with pytest.raises(InputError, match=r"127\.0\.0\.1:1"):
        nobody.poll(1, 0.1)


def test_a_killed_service_resumes_the_stream_exactly_once(redis_url, redis_client, tmp_path):
    rows = objects(400)
    for row in rows[:200]:
        redis_client.xadd("clicks", {"row": json.dumps(row)})
    options = ("--learner", "adagrad", "--log", str(tmp_path / "log"), "--consume", f"{redis_url}/clicks")
    service = Process(*options)
    _wait_rows(service.url, 1)
    service.kill()  # somewhere on its way
    for row in rows[200:]:
        redis_client.xadd("clicks", {"row": json.dumps(row)})
    redis_client.xadd("clicks", {"row": "not a row"})
    service = Process(*options)
    _wait_rows(service.url, 300)
    service.kill()
    service = Process(*options)
    status = _wait_rows(service.url, 400)
    time.sleep(0.3)
    status = httpx.get(service.url + "/status").json()
    assert status["rows"] == 400
    assert list(status["position"]) == [f"{redis_url}/clicks"]
    (tmp_path / "m").write_bytes(httpx.get(service.url + "/model").content)
    assert service.terminate() == 0
    learner = onsketch.safe_learner("adagrad", loss="logistic")
    learner.learn(rows_of([row["features"] for row in rows]), np.array([1.0 if row["label"] else -1.0 for row in rows]))
    assert onsketch.load(tmp_path / "m").weights.tobytes() == learner.weights.tobytes()


def test_killed_training_on_a_stream_resumes_exactly_once(redis_url, redis_client, tmp_path):
    rows = objects(300)
    for row in rows[:200]:
        redis_client.xadd("train", {"row": as_vw(row)})
    command = [*PROGRAM, "train", f"{redis_url}/train#idle=0", "-l", "adagrad", "--block-rows", "10", "--every", "20"]
    command += ["--checkpoint", str(tmp_path / "c"), "--resume", "--save", str(tmp_path / "m")]

    def wait_for(process, count):
        until = time.monotonic() + 60
        while not (tmp_path / "c").exists() or onsketch.load(tmp_path / "c").rounds < count:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.05)

    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
    wait_for(process, 20)
    process.kill()
    process.wait(30)
    for row in rows[200:]:
        redis_client.xadd("train", {"row": as_vw(row)})
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(process, 300)
    process.terminate()
    process.wait(30)
    learner = onsketch.safe_learner("adagrad", loss="logistic")
    learner.learn(rows_of([row["features"] for row in rows]), np.array([1.0 if row["label"] else -1.0 for row in rows]))
    assert onsketch.load(tmp_path / "c").weights.tobytes() == learner.weights.tobytes()


def test_a_kafka_topic_is_polled_from_a_position_on(kafka):
    producer, address = kafka
    for k in range(6):
        producer.produce("rows", json.dumps({"k": k}).encode(), partition=0)
    producer.flush(30)
    stream = open_live(f"{address}/rows")
    found = []
    while len(found) < 6:
        found += stream.poll(2, 1.0)
        if len(found) == 2:
            place = stream.position
    assert [json.loads(message.text)["k"] for message in found] == list(range(6))
    stream.close()
    again = open_live(f"{address}/rows")
    again.seek(place)
    rest = []
    while len(rest) < 4:
        rest += again.poll(10, 1.0)
    assert [json.loads(message.text)["k"] for message in rest] == [2, 3, 4, 5]
    again.close()


def test_a_service_learns_a_kafka_topic(kafka, tmp_path):
    producer, address = kafka
    rows = objects(50)
    for row in rows:
        producer.produce("learn", as_vw(row).encode(), partition=0)
    producer.flush(30)
    with served(log=tmp_path / "log", consume=f"{address}/learn") as (_, running):
        _wait_rows(f"http://127.0.0.1:{running.port}", 50)
    with served(log=tmp_path / "log", consume=f"{address}/learn") as (client, _):
        time.sleep(0.5)
        assert client.get("/status").json()["rows"] == 50


class _Polled:
    """A live stream that returns these messages, one block after the other, and then fails once in a while."""

    address = "fake://host/rows"

    def __init__(self, *blocks: list[bytes]) -> None:
        self.blocks, self.position, self.calls = list(blocks), 0, 0

    def poll(self, most: int, seconds: float) -> list[Message]:
        self.calls += 1
        if not self.blocks:
            if self.calls % 3 == 0:
                raise RuntimeError("an error that no client of a stream is known for")
            time.sleep(0.01)
            return []
        found = self.blocks.pop(0)
        self.position += len(found)
        return [Message(text, "here") for text in found]

    def seek(self, position: object) -> None:
        pass

    def close(self) -> None:
        pass


def test_messages_that_are_no_rows_are_counted_and_logged_and_the_others_count_by_weight(monkeypatch, caplog):
    good = [{"features": {"a": 1, "b": "x"}, "label": 1, "weight": 2.5}, {"a": 2.0, "_label": 0}]
    bad = [b"{", b"17", b'{"features": {"a": 1}}', b'{"features": {"a": 1}, "label": "red"}', b"| a:1", b"\xff\xfe",
           b'{"features": {"a": 1}, "label": 1, "weight": -1}', b"[" * 3000]  # fmt: skip
    line = b"1 3.0 | a:2 b=x"
    stream = _Polled([json.dumps(good[0]).encode(), *bad[:4]], [*bad[4:], json.dumps(good[1]).encode(), line])
    monkeypatch.setattr(consume, "open_live", lambda address: stream)
    with (
        caplog.at_level("WARNING", logger="onsketch.jobs.serve"),
        served(consume="fake://host/rows") as (client, running),
    ):
        until = time.monotonic() + 60
        while (status := client.get("/status").json())["rows"] < 3 or not status["stream"]["problem"]:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert status["stream"]["bad_messages"] == len(bad)
        assert "no client of a stream" in status["stream"]["problem"]
        assert running.service.engine.model.counted().progress.weight == 2.5 + 1.0 + 3.0
        assert status["position"] == {"fake://host/rows": len(good) + len(bad) + 1}
    messages = [record.getMessage() for record in caplog.records if "is no row of this model" in record.getMessage()]
    assert [int(text.rpartition("(")[2].split()[0]) for text in messages] == [1, 2, 4, 8]
    assert "expected an object" in messages[1]
    assert any(record.exc_info for record in caplog.records if "no client of a stream" in record.getMessage())
