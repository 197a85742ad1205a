"""HTTP requests: answers, errors that name the fault, limits, and the description of the API."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
import tempfile
import threading
import time

import msgspec
import numpy as np
import pytest

for needed in ("starlette", "uvicorn", "msgspec", "prometheus_client", "httpx", "httptools"):
    pytest.importorskip(needed, reason="the service needs the extra 'serve'")

import onsketch
from checkout import ROOT
from onsketch.data.json_rows import rows_of
from onsketch.jobs.serve import http
from onsketch.jobs.serve.limits import Limits
from onsketch.jobs.serve.openapi import Answer, Health, Readiness, Status, description
from onsketch.jobs.serve.run import _listen
from onsketch.jobs.serve.waiting import Waitlist
from serving import as_vw, objects, served

sys.path.insert(0, str(ROOT / "benchmarks"))

import fuzz_service


@pytest.fixture(scope="module")
def service():
    with served() as (client, running):
        yield client, running


@pytest.fixture
def client(service):
    return service[0]


def test_learning_answers_with_the_prediction_before_it(client):
    row = {"features": {"first": 2.5, "word": "yes", "in": {"x": 1}}, "label": 1}
    before = client.post("/predict", json={"features": row["features"]}).json()
    answer = client.post("/learn", json=row)
    assert answer.status_code == 200
    assert answer.json() == before
    after = client.post("/predict", json={"features": row["features"]}).json()
    assert after["margin"] > before["margin"]
    assert after["prediction"] == 1
    assert "label" not in after
    assert after["probability"] == pytest.approx(1 / (1 + np.exp(-after["margin"])))


def test_status_counts_rows(client):
    before = client.get("/status").json()["rows"]
    client.post("/learn", json=objects(3))
    status = client.get("/status").json()
    assert status["rows"] == before + 3
    assert status["learner"] == "adagrad"
    assert status["queue"] == 0


def test_all_forms_of_a_row_are_one_row(client):
    rows = objects(20, seed=3)
    features = [{"features": row["features"]} for row in rows]
    listed = client.post("/predict", json=features).json()
    ndjson = client.post(
        "/predict", content="\n".join(map(json.dumps, features)), headers={"content-type": "application/x-ndjson"}
    )
    assert [json.loads(line) for line in ndjson.text.splitlines()] == listed
    lines = "\n".join(as_vw(row) for row in rows)
    assert client.post("/predict?format=vw", content=lines).json() == listed
    assert client.post("/predict", content=lines, headers={"content-type": "text/x-vw"}).json() == listed
    text = client.post("/predict?format=vw", content=lines, headers={"accept": "text/plain"}).text
    assert [float(line) for line in text.splitlines()] == pytest.approx([row["margin"] for row in listed], rel=1e-8)
    assert [client.post("/predict", json=row).json() for row in features] == listed
    words = [{"features": as_vw(row).partition(" ")[2]} for row in rows]
    assert client.post("/predict", json=words).json() == listed


def test_numbered_features_are_the_same_as_lists_lines_and_objects(client):
    line = client.post("/predict?format=libsvm", content="1 0:1.5 2:2\n").json()
    assert client.post("/predict", json=[{"features": {"0": 1.5, "2": 2}}]).json() == line
    assert client.post("/predict", json=[{"features": [1.5, 0, 2]}]).json() == line


def test_weights_tags_and_ids_come_back(client):
    answer = client.post("/learn", json={"features": {"a": 1}, "label": 0, "weight": 2.5, "tag": "t", "id": 7}).json()
    assert (answer["tag"], answer["id"]) == ("t", 7)
    assert client.post("/learn?format=vw", content="1 2.0 'five| a b:2").json()[0]["tag"] == "five"


def test_contributions_sum_up_to_the_margin(client):
    client.post("/learn", json=objects(50))
    answer = client.post("/predict?explain=1", json={"features": {"a": 2, "n": {"b": -1}, "unseen": 4}}).json()
    shares = answer["contributions"]
    assert set(shares["features"]) == {"a", "n.b"}
    assert sum(shares["features"].values()) + shares["intercept"] == pytest.approx(answer["margin"])


def test_a_label_may_come_later(client):
    before = client.get("/status").json()
    features = {"late": 1.5, "colour": "blue"}
    predicted = client.post("/predict", json={"features": features, "id": "late-1"}).json()
    assert client.get("/status").json()["labels"]["waiting"] == 1
    wrong = client.post("/label", json={"id": "late-1", "label": "maybe"})
    assert wrong.status_code == 422
    answer = client.post("/label", json={"id": "late-1", "label": 1})
    assert answer.status_code == 200
    assert answer.json()["predicted"] == predicted
    assert client.post("/label", json={"id": "late-1", "label": 1}).status_code == 409
    unknown = client.post("/label", json={"id": "never", "label": 1})
    assert unknown.status_code == 404
    assert "predict it with the id first" in unknown.json()["error"]
    many = client.post("/label", json=[{"id": "never", "label": 1}, {"id": "late-1", "label": 0}])
    assert many.status_code == 404
    status = client.get("/status").json()
    assert status["rows"] == before["rows"] + 1
    assert status["labels"]["repeated"] == 2
    assert status["labels"]["unknown"] == 2


def test_a_list_of_labels_is_learned_together_or_not_at_all(client):
    before = client.get("/status").json()["rows"]
    for k in range(3):
        client.post("/predict", json={"features": {"a": 1}, "id": f"list-{k}", "weight": 1 + k})
    bad = [{"id": "list-0", "label": 1}, {"id": "list-1", "label": 1, "weight": -1}]
    answer = client.post("/label", json=bad)
    assert answer.status_code == 422
    assert "row 1: weight" in answer.json()["error"]
    assert client.get("/status").json()["rows"] == before
    some = [{"id": f"list-{k}", "label": label} for k, label in ((0, 1), (1, "maybe"), (2, 0), (2, 0))]
    answer = client.post("/label", json=some)
    assert answer.status_code == 200
    assert [("error" in one, one["id"]) for one in answer.json()] == [
        (False, "list-0"), (True, "list-1"), (False, "list-2"), (True, "list-2"),
    ]  # fmt: skip
    assert client.get("/status").json()["rows"] == before + 2


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "truncated"),
        (b"", 400, "truncated"),
        (b"[]", 422, "not a single row"),
        (b'{"label": 1}', 400, "features"),
        (b'{"features": 3, "label": 1}', 400, "$.features"),
        (b'{"features": {"a": 1}, "lable": 1}', 400, "lable"),
        (b'{"features": {"a": 1}}', 422, "label"),
        (b'{"features": {"a": 1}, "label": 7}', 422, "7"),
        (b'{"features": {"a": 1}, "label": "x"}', 422, "--positive"),
        (b'[{"features": {"a": 1}, "label": 1}, {"features": {"n": {"b": [[]]}}, "label": 1}]', 422, "row 1: n.b.0"),
        (b'{"features": {"a": 1}, "label": 1, "weight": -1}', 422, "weight"),
        (b'{"features": {"a": 1e200}, "label": 1}', 422, "longer"),
        (b'{"features": {"a": 1e999}, "label": 1}', 400, "range"),
        (b'{"features": {"a": NaN}, "label": 1}', 400, "body"),
        (b'{"features": "1 | a\\n1 | b", "label": 1}', 422, "line break"),
        (b"[" * 100_000, 400, "body"),
        (b"\xff\xfe", 400, "body"),
    ],
)
def test_a_bad_request_is_named_and_changes_nothing(service, body, status, words):
    client, running = service
    before = running.service.engine.model.rows
    answer = client.post("/learn", content=body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]
    assert running.service.engine.model.rows == before


@pytest.mark.parametrize(
    ("body", "form", "words"),
    [
        ("1 a:2", "vw", "line 1:"),
        ("1 | a\n2 3 4 5 | b", "vw", "line 2:"),
        ("1 1:x", "libsvm", "line 1:"),
        ("| a", "vw", "no label"),
        ("1 1 0.5 | a", "vw", "initial"),
        ("\n\n", "vw", "not a single row"),
    ],
)
def test_a_bad_line_is_named_by_its_place(client, body, form, words):
    answer = client.post(f"/learn?format={form}", content=body)
    assert answer.status_code == 422
    assert words in answer.json()["error"]
    assert client.post("/learn?format=vw", content="1 | a").status_code == 200  # the parser has not suffered


def test_bad_requests_by_the_hundred_never_bring_it_down_or_change_the_model(service, tmp_path):
    client, running = service
    client.post("/learn", json=objects(20))
    engine = running.service.engine
    engine.save(tmp_path / "before")
    rng = random.Random(0)
    seeds = [
        b'{"features": {"a": 1.5, "w": "x", "n": {"b": [1, 2]}}, "weight": 1}',
        b'[{"features": [1, 2, 3], "id": 4}]',
        b'{"id": "x", "label": 1}',
        b"1 | a:1 b:x |n c",
        b"1 1:2 3:4",
    ]
    paths = ["/predict", "/learn", "/label", "/predict?format=vw", "/learn?format=vw", "/learn?format=libsvm",
             "/predict?format=ndjson", "/predict?explain=1", "/nowhere", "/status"]  # fmt: skip
    for _ in range(600):
        body = bytearray(rng.choice(seeds))
        for _ in range(rng.randrange(1, 6)):
            place = rng.randrange(len(body))
            body[place : place + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
            body = body or bytearray(b"{")
        path = rng.choice(paths)
        if path.startswith("/learn") and b"label" not in body:
            body = body.replace(b"1 ", b"nan ").replace(b"|", b"?").replace(b":", b"=")
        answer = client.post(path, content=bytes(body))
        assert answer.status_code < 500, (path, bytes(body), answer.text)
        assert "Traceback" not in answer.text
        assert "/src/" not in answer.text
    engine.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


def test_the_model_can_be_taken_and_used(client, tmp_path):
    rows = objects(5, seed=9)
    (tmp_path / "m").write_bytes(client.get("/model").content)
    learner = onsketch.load(tmp_path / "m").learner
    margins = [
        row["margin"] for row in client.post("/predict", json=[{"features": r["features"]} for r in rows]).json()
    ]
    assert learner.predict(rows_of([row["features"] for row in rows])).tolist() == margins


def test_health_metrics_and_description(client):
    assert client.get("/healthz").json() == {"ok": True}
    assert client.get("/readyz").json() == {"ready": True}
    client.post("/predict", json={"features": {"a": 1}})  # this test may be the first of its process
    text = client.get("/metrics").text
    assert "onsketch_rows_total" in text
    assert 'onsketch_requests_total{path="/predict",status="200"}' in text
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) >= {"/predict", "/learn", "/label", "/promote", "/status", "/model", "/metrics", "/"}
    assert "Row" in described["components"]["schemas"]


def test_the_description_is_complete_for_generators_of_clients():
    found = description()
    names = set()

    def walk(part):
        if isinstance(part, list):
            for one in part:
                walk(one)
        elif isinstance(part, dict):
            if part.get("type") == "array":
                assert part.get("items"), part
            if "$ref" in part:
                assert part["$ref"].removeprefix("#/components/schemas/") in found["components"]["schemas"]
            for one in part.values():
                walk(one)

    walk(found)
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            names.add(operation["operationId"])
            assert operation["responses"].keys() >= {"200"}, (path, method)
            for answer in [*operation["responses"].values(), *([operation["requestBody"]] if method == "post" and
                                                               "requestBody" in operation else [])]:  # fmt: skip
                assert answer["content"], path
                assert all(one["schema"] for one in answer["content"].values()), path
    assert len(names) == len(found["paths"])


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_answers_are_those_of_the_description(task):
    body = {"features": {"a": 1, "b": "red"}, "label": 1, "id": 7, "tag": "t"}
    with served(task=task, method="auto") as (client, _):
        plain = {name: value for name, value in body.items() if name != "label"}
        sent = [("/predict", plain), ("/learn", body), ("/learn", {**body, "label": 0}), ("/predict?explain=1", plain),
                ("/label", {"id": 7, "label": 1}), ("/label", {"id": "none", "label": 1})]  # fmt: skip
        for path, one in sent:
            answer = msgspec.json.decode(client.post(path, json=one).content, type=Answer)
            assert (answer.error is None) == (one.get("id") != "none")
        status = msgspec.json.decode(client.get("/status").content, type=Status)
        assert (status.rows, status.task) == (3, task)
        for path, record in (("/healthz", Health), ("/readyz", Readiness)):
            msgspec.json.decode(client.get(path).content, type=record)
        paths = {route for route, methods in description()["paths"].items() if "get" in methods}
        for path in paths - {"/events"}:
            assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        ({"age": 31}, '{"features":{"age":31}}'),
        ([{"age": 31, "label": 1}], '{"features":{"age":31},"label":1}'),
        ({"age": 31, "id": 3, "colour": "red"}, '{"features":{"age":31,"colour":"red"},"id":3}'),
    ],
)
def test_features_at_the_top_are_answered_with_the_body_to_send(client, body, remedy):
    answer = client.post("/predict", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(f"send {remedy}")
    assert client.post("/predict", json=json.loads(remedy)).status_code == 200
    line = client.post("/predict?format=ndjson", content=b'{"age": 31}\n{"age": 32}\n')
    assert 'send {"features":{"age":31}}' in line.json()["error"]
    for other in ({}, [], {"features": {}, "labels": 1}, 3):
        assert "Features go" not in client.post("/predict", json=other).text


def test_limits_are_kept():
    limits = Limits(body=1000, rows=3, features=4)
    with served(limits=limits) as (client, _):
        assert client.post("/predict", content=b"x" * 2000).status_code == 413
        chunks = (b"x" * 100 for _ in range(50))
        assert client.post("/predict", content=chunks).status_code == 413
        many = client.post("/predict", json=[{"features": {}}] * 4)
        assert many.status_code == 422
        assert "limit is 3" in many.json()["error"]
        wide = client.post("/predict", json={"features": {str(k): 1 for k in range(5)}})
        assert "limit is 4" in wide.json()["error"]
        lines = client.post("/predict?format=vw", content="| a\n" * 5)
        assert lines.status_code == 422


def test_ids_of_any_length_take_little_memory_and_long_tags_are_refused(client):
    long = "i" * 100_000
    predicted = client.post("/predict", json={"features": {"a": 1}, "id": long})
    assert predicted.json()["id"] == long
    answer = client.post("/label", json={"id": long, "label": 1})
    assert (answer.status_code, answer.json()["predicted"]) == (200, predicted.json())
    assert client.post("/predict", json={"features": {"a": 1}, "tag": long}).status_code == 400


def test_rows_that_wait_are_bounded_in_bytes():
    waitlist = Waitlist(100, 60.0, 20_000)
    for k in range(30):
        waitlist.put(str(k), np.zeros((1, 100)), None, {})
    assert 5 < len(waitlist) <= 11
    assert waitlist.outcomes["evicted"] == 30 - len(waitlist)
    for k in range(30):
        waitlist.done(str(k))
    assert waitlist._bytes == 0


def test_endless_heads_are_refused():
    with served(limits=Limits(head=1000)) as (client, running), socket.socket() as endless:
        endless.connect(("127.0.0.1", running.port))
        endless.settimeout(10)
        endless.sendall(b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 2000)
        assert endless.recv(100).startswith(b"HTTP/1.1 431")
        big = client.post("/predict", json=[{"features": {f"name{k}": 1.0 for k in range(50)}}] * 10)
        assert big.status_code == 200  # a body is no head


def test_the_timeout_of_a_later_request_is_not_restarted_by_each_byte():
    with served(limits=Limits(header_seconds=0.5)) as (_, running), socket.socket() as slow:
        slow.connect(("127.0.0.1", running.port))
        slow.settimeout(10)
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        found = b""
        while not found.endswith(b'{"ok":true}'):
            found += slow.recv(1000)
        slow.settimeout(0.1)
        closed = False
        for byte in b"GET / HTTP/1.1\r\nX: " + b"a" * 200:
            try:
                slow.sendall(bytes([byte]))
                closed = slow.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
            if closed:
                break
        assert closed


def test_bodies_of_all_requests_together_are_bounded():
    with served(limits=Limits(bodies=1000)) as (client, _):
        rows = [{"features": {f"name{k}": 1.0 for k in range(50)}}] * 3
        answer = client.post("/predict", json=rows)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        for _ in range(20):
            assert client.post("/predict", json=rows[0]).status_code == 200
        assert client.get("/status").status_code == 200


def test_live_pages_are_bounded_and_share_their_figures(monkeypatch):
    made = []
    monkeypatch.setattr(http, "figures", lambda service, number: made.append(number) or {})
    with served(limits=Limits(listeners=3)) as (client, running):
        opened = [socket.create_connection(("127.0.0.1", running.port), timeout=20) for _ in range(3)]
        for one in opened:
            one.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            found = b""
            while b"data: " not in found:
                found += one.recv(10_000)
        with client.stream("GET", "/events") as refused:
            assert refused.status_code == 503
        assert len(made) <= 3
        for one in opened:
            one.close()


def test_a_model_is_sent_from_a_file_that_nobody_sees(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with served() as (client, _):
        client.post("/learn", json=objects(3))
        answer = client.get("/model")
        assert int(answer.headers["content-length"]) == len(answer.content) > 1000
        assert list(tmp_path.iterdir()) == []


def test_what_fails_is_logged_with_its_traceback(monkeypatch, caplog):
    with served() as (client, running):
        monkeypatch.setattr(running.service, "status", lambda: 1 / 0)
        assert client.get("/status").json() == {"error": "the service failed at this request (ZeroDivisionError)"}
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage() == "GET /status failed"


def test_slow_and_silent_clients_are_let_go_and_stop_nobody():
    limits = Limits(header_seconds=0.5, body_seconds=0.5)
    with served(limits=limits) as (client, running):
        address = ("127.0.0.1", running.port)
        idle = [socket.create_connection(address) for _ in range(200)]
        half = socket.create_connection(address)
        half.sendall(b"POST /learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        slow = socket.create_connection(address)
        slow.sendall(b"GET /sta")
        gone = socket.create_connection(address)
        gone.sendall(b"POST /learn HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
        gone.close()
        assert client.post("/learn", json=objects(1)[0]).status_code == 200
        for waiting in (*idle, half, slow):
            waiting.settimeout(10)
            assert waiting.recv(1) == b""  # closed by the service
            waiting.close()
        assert client.get("/status").json()["rows"] == 1


def test_many_clients_learn_at_once_and_every_row_counts():
    with served(method="adagrad") as (client, running):
        rows = objects(60)

        def learn(part):
            import httpx

            with httpx.Client(base_url=f"http://127.0.0.1:{running.port}") as mine:
                for row in part:
                    assert mine.post("/learn", json=row).status_code == 200

        threads = [threading.Thread(target=learn, args=(rows[k::4],)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.get("/status").json()["rows"] == 60


def test_a_full_queue_says_when_to_come_back():
    from onsketch.jobs.serve.engine import Settings

    with served(settings=Settings(queue_rows=2, batch_rows=1)) as (client, running):
        engine = running.service.engine
        with engine._step:
            engine._readers += 1
            results = []

            def post():
                import httpx

                results.append(httpx.post(f"http://127.0.0.1:{running.port}/learn", json=objects(2), timeout=30))

            threads = [threading.Thread(target=post) for _ in range(6)]
            for thread in threads:
                thread.start()
            until = time.monotonic() + 20
            while len(results) < 5 and time.monotonic() < until:
                time.sleep(0.01)
            engine._readers -= 1
        for thread in threads:
            thread.join()
        statuses = sorted(result.status_code for result in results)
        assert statuses == [200, 503, 503, 503, 503, 503]
        assert all(result.headers["retry-after"] == "1" for result in results if result.status_code == 503)
        assert client.get("/status").json()["rows"] == 2


def test_many_classes_by_name():
    with served(task="multiclass") as (client, _):
        assert client.post("/predict", json={"features": {"a": 1}}).json()["prediction"] is None
        rows = [{"features": row["features"], "label": row["features"]["colour"]} for row in objects(60)]
        client.post("/learn", json=rows)
        answer = client.post("/predict", json={"features": {"colour": "blue"}}).json()
        assert answer["prediction"] == "blue"
        assert sum(answer["probabilities"].values()) == pytest.approx(1.0)
        assert set(client.get("/status").json()["classes"]) == {"red", "green", "blue"}
        client.post("/learn", json={"features": {"new": 1}, "label": 7})
        assert "7" in client.get("/status").json()["classes"]


def test_contributions_of_the_class_predicted():
    rows = [{"features": row["features"], "label": row["features"]["colour"]} for row in objects(60)]
    with served(task="multiclass") as (client, _):  # a weight for each feature and class
        client.post("/learn", json=rows)
        answer = client.post("/predict?explain=1", json={"features": {"colour": "blue"}}).json()
        share = answer["contributions"]
        total = sum(share["features"].values()) + share["intercept"]
        assert total == pytest.approx(answer["margins"][answer["prediction"]])
    with served(task="multiclass", method="auto") as (client, _):  # no weights: a feature is left out
        client.post("/learn", json=rows)
        whole, without = (
            client.post("/predict?explain=1", json={"features": row}).json()
            for row in ({"colour": "blue", "a": 1.0}, {"a": 1.0})
        )
        ((name, part),) = (item for item in whole["contributions"]["features"].items() if "colour" in item[0])
        assert part == pytest.approx(whole["margins"]["blue"] - without["margins"]["blue"]), name
        assert whole["contributions"]["left_out"]


def test_numbers():
    with served(task="regression") as (client, _):
        rows = [{"features": {"a": k % 5}, "label": 2.0 * (k % 5)} for k in range(200)]
        client.post("/learn", json=rows)
        assert client.post("/predict", json={"features": {"a": 3}}).json()["prediction"] == pytest.approx(6.0, abs=2.0)


def test_rates_and_labels_are_answered_as_they_were_given():
    rows = [{"features": {"a": 1}, "label": k % 2} for k in range(100)]
    with served(task="regression", options={"loss": "poisson"}) as (client, _):
        client.post("/learn", json=rows)
        rate = client.post("/predict", json=rows[0]).json()
        assert rate["prediction"] == pytest.approx(np.exp(rate["margin"]))
    with served(task="regression") as (client, running):
        client.post("/learn", json=rows)
        figures = running.service.engine.model.counted().quality.figures()
        assert figures["baseline"]["loss"] == pytest.approx(0.25)  # the variance of labels 0 and 1


def test_a_model_of_the_program_resumes(tmp_path):
    from program import run

    (tmp_path / "rows.vw").write_text("".join(as_vw(row) + "\n" for row in objects(50)))
    assert run("train", tmp_path / "rows.vw", "-l", "adagrad", "--save", tmp_path / "m").exit_code == 0
    with served(model=tmp_path / "m", method="auto", log=tmp_path / "log") as (client, running):
        assert client.get("/status").json()["rows"] == 50
        client.post("/learn?format=vw", content="\n".join(map(as_vw, objects(100)[50:])))
        running.service.engine.save(tmp_path / "ours")
    (tmp_path / "all.vw").write_text("".join(as_vw(row) + "\n" for row in objects(100)))
    assert run("train", tmp_path / "all.vw", "-l", "adagrad", "--save", tmp_path / "theirs").exit_code == 0
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_a_model_of_numbered_features_or_of_a_table_resumes(tmp_path):
    from program import run

    (tmp_path / "rows.svm").write_text("1 1:1 2:0.5\n-1 2:1\n" * 5)
    assert run("train", tmp_path / "rows.svm", "-l", "adagrad", "--save", tmp_path / "m").exit_code == 0
    with served(model=tmp_path / "m") as (client, _):
        one = client.post("/predict", json={"features": {"1": 1, "2": 0.5}}).json()
        assert client.post("/predict?format=libsvm", content="1 1:1 2:0.5").json() == [one]
        assert one["margin"] > 0
        assert "numbered" in client.post("/predict", json={"features": {"age": 1}}).json()["error"]
    (tmp_path / "rows.csv").write_text("age,height,label\n" + "1,0.5,1\n0,1,-1\n" * 5)
    assert run("train", tmp_path / "rows.csv", "-l", "adagrad", "--save", tmp_path / "t").exit_code == 0
    with served(model=tmp_path / "t") as (client, _):
        one = client.post("/predict", json={"features": {"height": 0.5, "age": 1}}).json()
        assert client.post("/predict", json={"features": [1, 0.5]}).json() == one
        learned = client.post("/learn", json={"features": {"height": 0.5, "age": 1}, "label": 1}).json()
        assert learned["margin"] == pytest.approx(one["margin"])  # scales take the row in first: they round otherwise
        assert "without this column" in client.post("/predict", json={"features": {"weight": 1}}).json()["error"]


def test_an_answer_in_several_parts_does_not_wait_for_the_client():
    """Else the second part is held back until the client has confirmed the first, which it does 40 ms later."""

    async def accepted():
        found = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(lambda _, writer: found.set_result(writer), sock=_listen("127.0.0.1", 0))
        with socket.create_connection(server.sockets[0].getsockname()):
            writer = await found
            at_once = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
        server.close()
        return at_once

    assert asyncio.run(accepted())


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_odd_and_damaged_requests_are_answered(task):
    rng = random.Random(0)
    with served(task=task) as (client, _):
        for _ in range(400):
            path, body = rng.choice(fuzz_service.PATHS), fuzz_service.a_body(rng)
            assert not fuzz_service.fault(client.post(path, content=body))
        assert client.get("/healthz").status_code == 200
