"""The service under load, compared with ``vw --daemon``: client and servers on the same cores, in one run.

    python benchmarks/serve.py [--seconds 4] [--learner adagrad auto oja-son] [--memory 10000000] [--fuzz 100000]
        [--idle 1000] [--vw PYTHON]

Shown are rows learned a second, as single requests over kept-alive connections and in batches of 1,000 (VW lines, and
JSON objects of the same rows), the processor time that the server takes for a single row, learned and predicted, and
the median and 99th percentile of a prediction, alone and while batches are learned at half the highest rate. The
processor time depends less than the rates on what else the machine does. The rows are those of the a9a-like stream, 14
features each. VW's daemon gets the same lines over its own protocol, 1,000 at a time. ``--vw`` names the interpreter
that has ``vowpalwabbit``.

``--idle N`` opens N connections that send one request and then stay idle, and times predictions meanwhile.
``--memory ROWS`` sends that many rows instead and watches the memory of the service. ``--fuzz N`` sends N mutated
requests and compares the model before and after.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
from engines import _vw_lines

from onsketch.data import a9a_like

PROGRAM = [sys.executable, "-c", "from onsketch.cli import main; main()", "serve", "--port", "0"]
BATCH = 1000


def rows(count: int) -> list[str]:
    """VW lines, labels −1 and 1."""
    X, y = a9a_like(count, seed=0)
    return [line.rstrip("\n") for line in _vw_lines(X, y)]


def as_object(line: str) -> dict:
    """The same row as the service's JSON."""
    label, _, features = line.partition(" | ")
    pairs = (feature.partition(":") for feature in features.split())
    return {"features": {name: float(value or 1) for name, _, value in pairs}, "label": int(float(label))}


class Http:
    """One kept-alive connection, with as little Python around it as can be."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.held = b""

    @staticmethod
    def request(path: str, body: bytes, kind: str = "application/json", accept: str = "*/*") -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nAccept: {accept}\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def ask(self, request: bytes) -> tuple[int, bytes]:
        self.socket.sendall(request)
        while (end := self.held.find(b"\r\n\r\n")) < 0:
            self.held += self._more()
        head = self.held[:end].lower()
        status = int(head[9:12])
        start = head.find(b"content-length: ") + 16
        length = int(head[start : head.find(b"\r\n", start) if b"\r\n" in head[start:] else len(head)])
        while len(self.held) < end + 4 + length:
            self.held += self._more()
        body, self.held = self.held[end + 4 : end + 4 + length], self.held[end + 4 + length :]
        return status, body

    def _more(self) -> bytes:
        part = self.socket.recv(1 << 18)
        if not part:
            raise ConnectionError("the service closed the connection")
        return part


@contextlib.contextmanager
def service(*options: str):
    """``onsketch serve`` as a process, and its port."""
    process = subprocess.Popen([*PROGRAM, *options], stdout=subprocess.PIPE, text=True, start_new_session=True)
    port = None
    for line in process.stdout:
        if match := re.match(r"Serving on http://127\.0\.0\.1:(\d+)", line):
            port = int(match[1])
            break
    assert port is not None, "the service did not start"
    try:
        yield process, port
    finally:
        process.terminate()
        process.communicate(timeout=120)


@contextlib.contextmanager
def vw_daemon(python: str):
    """VW's daemon, logistic loss, from its Python package."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = f"--daemon --port {port} --num_children 1 --foreground --quiet --loss_function logistic -b 18"
    program = f"import vowpalwabbit as v\nw = v.Workspace({options!r})\nw.run_parser()\n"
    process = subprocess.Popen([python, "-c", program], start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                connection = socket.create_connection(("127.0.0.1", port))
                break
            time.sleep(0.1)
        yield process, connection
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def repeat(action, seconds: float) -> tuple[int, float]:
    """How often it was done, and in how long."""
    count, began = 0, time.perf_counter()
    while (now := time.perf_counter() - began) < seconds:
        action(count)
        count += 1
    return count, now


def cpu_of(process: subprocess.Popen, action, requests: list[bytes], repeats: int = 3) -> float:
    """Microseconds of processor time that a server's group of processes takes for a request, least of some repeats."""

    def used() -> float:
        ticks = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12]) if int(fields[2]) == process.pid else 0
        return ticks / os.sysconf("SC_CLK_TCK")

    best = np.inf
    for _ in range(repeats):
        began = used()
        for request in requests:
            action(request)
        best = min(best, used() - began)
    return 1e6 * best / len(requests)


def vw_rates(python: str, lines: list[str], seconds: float) -> dict[str, float]:
    """Rows a second of VW's daemon, in batches and one by one."""
    batches = ["\n".join(lines[k : k + BATCH]).encode() + b"\n" for k in range(0, len(lines), BATCH)]
    with vw_daemon(python) as (process, connection):

        def send(data: bytes, answers: int) -> None:
            connection.sendall(data)
            while answers > 0:
                answers -= connection.recv(1 << 18).count(b"\n")

        send(batches[0], BATCH)
        count, took = repeat(lambda k: send(batches[k % len(batches)], BATCH), seconds)
        found = {"batch": count * BATCH / took}
        singles = [(line + "\n").encode() for line in lines[:BATCH]]
        count, took = repeat(lambda k: send(singles[k % BATCH], 1), seconds / 2)
        found["single"] = count / took
        return {**found, "cpu": cpu_of(process, lambda line: send(line, 1), singles)}


def single_rate(port: int, requests: list[bytes], seconds: float, clients: int = 4) -> float:
    """Rows a second of single-row requests over some kept-alive connections."""
    counts = []

    def work(offset: int) -> None:
        connection = Http(port)
        counts.append(repeat(lambda k: connection.ask(requests[(offset + k) % len(requests)]), seconds))

    threads = [threading.Thread(target=work, args=(31 * k,)) for k in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(count / took for count, took in counts)


def latencies(port: int, requests: list[bytes], seconds: float) -> tuple[float, float]:
    """Median and 99th percentile of a prediction, in milliseconds, at 200 predictions a second."""
    connection, found = Http(port), []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        connection.ask(requests[len(found) % len(requests)])
        found.append(time.perf_counter() - began)
        time.sleep(max(0.0, 0.005 - found[-1]))
    return 1000 * float(np.median(found)), 1000 * float(np.quantile(found, 0.99))


def under_load(port: int, batches: list[bytes], predicts: list[bytes], rate: float, seconds: float):
    """Measure the same while another process sends batches at ``rate`` rows per second."""
    program = (
        "import sys, time, pickle\nsys.path.insert(0, sys.argv[1])\nimport serve\n"
        "port, batches, gap, seconds = pickle.load(sys.stdin.buffer)\n"
        "connection, began, k = serve.Http(port), time.perf_counter(), 0\n"
        "while time.perf_counter() - began < seconds:\n"
        "    connection.ask(batches[k % len(batches)])\n    k += 1\n"
        "    time.sleep(max(0.0, began + k * gap - time.perf_counter()))\n"
        "print(k)\n"
    )
    import pickle

    small = [Http.request("/learn?format=vw", body, "text/x-vw", "text/plain") for body in batches]
    sender = subprocess.Popen(
        [sys.executable, "-c", program, str(Path(__file__).parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    sender.stdin.write(pickle.dumps((port, small, 100 / rate, seconds + 2)))
    sender.stdin.close()
    time.sleep(1.5)
    found = latencies(port, predicts, seconds)
    sender.wait()
    return found


def measure(learner: str, durability: str, lines: list[str], seconds: float) -> dict[str, float]:
    """All figures of one learner and durability."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--learner", learner, "--task", "binary", "--durability", durability, "--log", folder]
        with service(*options) as (process, port):
            texts = ["\n".join(lines[k : k + BATCH]).encode() for k in range(0, len(lines), BATCH)]
            batches = [Http.request("/learn?format=vw", text, "text/x-vw", "text/plain") for text in texts]
            objects = [as_object(line) for line in lines[: 10 * BATCH]]
            listed = [
                Http.request("/learn", json.dumps(objects[k : k + BATCH]).encode()) for k in range(0, 10 * BATCH, BATCH)
            ]
            singles = [Http.request("/learn", json.dumps(row).encode()) for row in objects[:BATCH]]
            predicts = [
                Http.request("/predict", json.dumps({"features": row["features"]}).encode()) for row in objects[:BATCH]
            ]
            connection = Http(port)
            status, answer = connection.ask(batches[0])
            assert status == 200, answer
            count, took = repeat(lambda k: connection.ask(batches[k % len(batches)]), seconds)
            found = {"batch": count * BATCH / took}
            count, took = repeat(lambda k: connection.ask(listed[k % len(listed)]), seconds / 2)
            found["json"] = count * BATCH / took
            found["single"] = single_rate(port, singles, seconds / 2)
            found["learn cpu"] = cpu_of(process, connection.ask, singles)
            found["predict cpu"] = cpu_of(process, connection.ask, predicts)
            found["p50"], found["p99"] = latencies(port, predicts, seconds)
            hundreds = ["\n".join(lines[k : k + 100]).encode() for k in range(0, 100 * BATCH // 10, 100)]
            found["load p50"], found["load p99"] = under_load(port, hundreds, predicts, found["batch"] / 2, seconds)
            return found


def memory(total: int, lines: list[str]) -> None:
    """Measure the memory of the service over this many rows with the same features."""
    with tempfile.TemporaryDirectory() as folder, service("--learner", "adagrad", "--log", folder) as (process, port):
        texts = ["\n".join(lines[k : k + BATCH]).encode() for k in range(0, len(lines), BATCH)]
        batches = [Http.request("/learn?format=vw", text, "text/x-vw", "text/plain") for text in texts]
        connection = Http(port)
        for k in range(total // BATCH):
            if k % max(total // BATCH // 10, 1) == 0:
                resident = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
                print(f"{k * BATCH:>12,} rows  {int(resident[1]) / 1024:8.1f} MB", flush=True)
            connection.ask(batches[k % len(batches)])


def idle(count: int, lines: list[str], seconds: float) -> None:
    """Time predictions while other connections are open and idle."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    objects = [as_object(line) for line in lines[:BATCH]]
    predicts = [Http.request("/predict", json.dumps({"features": row["features"]}).encode()) for row in objects]
    with service("--learner", "adagrad", "--task", "binary") as (_, port):
        Http(port).ask(Http.request("/learn?format=vw", "\n".join(lines[:BATCH]).encode()))
        print("alone:        p50 {:.2f} ms, p99 {:.2f} ms".format(*latencies(port, predicts, seconds)), flush=True)
        silent = [Http(port) for _ in range(count)]
        answered = sum(connection.ask(predicts[0])[0] == 200 for connection in silent)
        print("{:,} silent: p50 {:.2f} ms, p99 {:.2f} ms".format(count, *latencies(port, predicts, seconds)))
        again = sum(connection.ask(predicts[0])[0] == 200 for connection in silent)
        print(f"answered first {answered:,}, and again afterwards {again:,}")


def fuzz(total: int) -> None:
    """Mutated requests: no answer of 500 or more, and the same model afterwards."""
    rng = random.Random(0)
    seeds = [
        b'{"features": {"a": 1.5, "w": "x", "n": {"b": [1, 2]}}, "weight": 1, "tag": "t"}',
        b'[{"features": [1, 2, 3], "id": 4}, {"features": {"a": null}}]',
        b'{"id": "x", "label": 1}',
        b"nan | a:1 b:x |n c",
        b"1 1:2 3:4 ?",
    ]
    paths = ["/predict", "/learn", "/label", "/predict?format=vw", "/predict?format=libsvm", "/learn?format=vw"]
    paths += ["/predict?format=ndjson", "/predict?explain=1", "/nowhere", "/promote", "/predict?format=x"]
    with service("--learner", "adagrad", "--task", "binary") as (_, port):
        connection = Http(port)
        for line in rows(50):
            connection.ask(Http.request("/learn?format=vw", line.encode()))
        import urllib.request

        def model() -> bytes:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/model") as answer:
                return answer.read()

        before, statuses = model(), {}
        for _ in range(total):
            body = bytearray(rng.choice(seeds))
            for _ in range(rng.randrange(1, 8)):
                place = rng.randrange(len(body) + 1)
                body[place : place + rng.randrange(4)] = rng.randbytes(rng.randrange(4))
            path = rng.choice(paths)
            if path.startswith("/learn"):
                body = body.replace(b"label", b"lable").replace(b"|", b"?")
            try:
                status, answer = connection.ask(Http.request(path, bytes(body)))
            except ConnectionError:
                connection, status = Http(port), 0
            statuses[status] = statuses.get(status, 0) + 1
            assert status < 500, (path, bytes(body), answer)
        print(f"{total:,} requests, by status: {dict(sorted(statuses.items()))}; model unchanged: {model() == before}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--learner", nargs="*", default=["adagrad", "auto", "oja-son"])
    parser.add_argument("--durability", nargs="*", default=["none", "batch"])
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--fuzz", type=int, default=0)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--vw", metavar="PYTHON")
    options = parser.parse_args()
    if options.fuzz:
        fuzz(options.fuzz)
        return
    lines = rows(50 * BATCH)
    if options.idle:
        idle(options.idle, lines, options.seconds)
        return
    if options.memory:
        memory(options.memory, lines)
        return
    print("                     rows a second              CPU µs a single row  predict, ms       while learning")
    print("                     batch    JSON batch   single  learn    predict  p50      p99      p50      p99")
    for _ in range(2):
        if options.vw:
            found = vw_rates(options.vw, lines, options.seconds)
            rates = f"{found['batch']:9,.0f} {'':12} {found['single']:8,.0f}"
            print(f"vw --daemon      {rates} {found['cpu']:6.0f}", flush=True)
    for learner in options.learner:
        for durability in options.durability:
            found = measure(learner, durability, lines, options.seconds)
            forms = {"batch": "9,.0f", "json": "12,.0f", "single": "8,.0f", "learn cpu": "6.0f", "predict cpu": "9.0f"}
            forms |= dict.fromkeys(("p50", "p99", "load p50", "load p99"), "8.2f")
            cells = [format(found[name], form) for name, form in forms.items()]
            print(f"{learner:9s} {durability:6s}", *cells, flush=True)


if __name__ == "__main__":
    main()
