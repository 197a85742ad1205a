"""Services for tests: one in a thread of the test's own process, or a process of its own that can be killed."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import numpy as np

from checkout import SOURCES
from onsketch.jobs.serve.run import Running, Wish, make_engine, serve, warm_up
from onsketch.rows.encoder import flattened

PROGRAM = [sys.executable, "-c", "from onsketch.cli import main; main()"]


@contextmanager
def served(**wishes) -> Iterator[tuple[httpx.Client, Running]]:
    """A service in a thread, and a client of it."""
    wish = Wish(**{"method": "adagrad", "port": 0, **wishes})
    wish.check()
    engine = make_engine(wish, lambda text: None)
    warm_up(engine.model)
    ready = threading.Event()
    found: list[Running] = []

    def started(running: Running) -> None:
        found.append(running)
        ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(serve(wish, engine, lambda text: None, started)))
    thread.start()
    try:
        assert ready.wait(60)
        with httpx.Client(base_url=f"http://127.0.0.1:{found[0].port}", timeout=30) as client:
            yield client, found[0]
    finally:
        if found:
            found[0].stop()
        thread.join(60)
        assert not thread.is_alive()


class Process:
    """``onsketch serve`` as a process."""

    def __init__(self, *arguments: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [*PROGRAM, "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self.lines: list[str] = []
        given_up = threading.Timer(120, self.process.kill)
        given_up.start()
        try:
            self.url = self._url()
        finally:
            given_up.cancel()

    def _url(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if match := re.match(r"Serving on (http\S+)", line):
                return match[1]
        raise AssertionError(f"the service did not start: {self.lines}")

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def terminate(self) -> int:
        self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        out, _ = self.process.communicate(timeout=60)
        self.lines += out.splitlines()
        return self.process.returncode


def objects(count: int, seed: int = 0) -> list[dict]:
    """Rows that can be learned: two namespaces, numbers and words, labels 0 and 1."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        x = rng.normal(size=3).round(3).tolist()
        colour = ["red", "green", "blue"][int(rng.integers(3))]
        label = int(x[0] - 0.5 * x[1] + (colour == "red") + 0.3 * rng.normal() > 0.3)
        rows.append({"features": {"a": x[0], "colour": colour, "n": {"b": x[1], "c": x[2]}}, "label": label})
    return rows


def as_vw(row: dict) -> str:
    """The same row as VW text."""
    flat = flattened(row["features"])
    words = (f"{name}={value}" if isinstance(value, str) else f"{name}:{value}" for name, value in sorted(flat.items()))
    return f"{row['label']} | {' '.join(words)}"
