"""A service from start to end: recover, compile, listen, drain."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import uvicorn

from onsketch.core.errors import InputError, OptionError
from onsketch.data.json_rows import rows_of
from onsketch.jobs.serve.access import Access, is_loopback, read_tokens
from onsketch.jobs.serve.batch import Batch, Rows
from onsketch.jobs.serve.engine import DURABILITY, Engine, Settings
from onsketch.jobs.serve.http import HttpApi
from onsketch.jobs.serve.limits import Limits, limited
from onsketch.jobs.serve.model import Model, load_model, new_model, shadow_of
from onsketch.jobs.serve.rows import RowReader
from onsketch.jobs.serve.service import Service
from onsketch.jobs.serve.store import Store
from onsketch.jobs.serve.vw_daemon import VWDaemon
from onsketch.rows.hashing import DEFAULT_BITS

_SWITCH = 0.0005
"""Seconds for which one thread may hold Python to itself; the usual 5 ms would be what a prediction waits."""

_DENSE = 4096
"""Width of rows from which on they are warmed up as sparse ones."""


@dataclass(frozen=True)
class Wish:
    """Options given by the user."""

    model: Path | None = None
    method: str = "auto"
    task: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=dict)
    log: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    vw_port: int | None = None
    shadow: Path | None = None
    shadow_method: str | None = None
    consume: str | None = None
    tokens: Path | None = None
    insecure: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    cut_damaged: bool = False
    keep_log: bool = False
    settings: Settings = field(default_factory=Settings)
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Refuse what cannot be, before anything is opened."""
        if self.settings.durability not in DURABILITY:
            raise OptionError(f"durability={self.settings.durability!r}: expected one of {', '.join(DURABILITY)}.")
        if not is_loopback(self.host) and self.tokens is None and not self.insecure:
            raise OptionError(
                f"host={self.host}: other machines could reach this service. Give --tokens FILE (lines 'read TOKEN' "
                "and 'learn TOKEN'), or say --insecure if a proxy in front of it decides who gets in."
            )
        if self.vw_port is not None and not is_loopback(self.host) and not self.insecure:
            raise OptionError("--vw-port: VW's protocol knows no tokens; bind it to loopback or say --insecure.")
        if self.model is not None and (self.task is not None or self.options):
            raise OptionError("a MODEL knows its task and options; leave out --task and the options of the learner.")
        if self.shadow is not None and self.shadow_method is not None:
            raise OptionError("--shadow and --shadow-learner: one second model at a time.")


def make_engine(wish: Wish, say: Callable[[str], None]) -> Engine:
    """The models, as they were when the log ended."""
    store = None if wish.log is None else Store(wish.log, wish.keep_log)
    found = None if store is None else store.load()
    number = 0
    if found is not None:
        number, model, shadow, notes = found
        _same_wish(wish, model)
    else:
        if wish.model is not None:
            model = load_model(wish.model)[0]
        else:
            model = new_model(wish.method, wish.options, wish.task or "binary", wish.reading)
        shadow, notes = None, {}
    if shadow is None:
        shadow = _shadow(wish, model)
    if wish.vw_port is not None:
        _check_lines(model)
    engine = Engine(model, shadow, store, wish.settings)
    engine.position.update(notes.get("position", {}))
    engine.recover(number, wish.cut_damaged)
    for note in engine.notes:
        say(note)
    if found is not None:
        say(f"Going on from {wish.log} after {engine.model.rows:,} rows.")
    return engine


def _same_wish(wish: Wish, model: Model) -> None:
    """Check the options against the model in the folder; those that contradict it are refused."""
    name = getattr(getattr(model.learner, "method", None), "name", None)
    if wish.model is None and wish.task is not None and name is not None and wish.method not in (name, "auto"):
        raise OptionError(
            f"{wish.log}: holds a model of {name}, not of {wish.method}. Leave out --learner to continue with it, or "
            "give another folder to start a new one."
        )


def _check_lines(model: Model) -> None:
    """Refuse ``--vw-port`` for a model that cannot read lines, which would answer each of them with ``nan``."""
    try:
        RowReader(model, {}, 1).lines(b"| a", "vw")
    except InputError as error:
        raise OptionError(f"--vw-port: {error}") from None


def _shadow(wish: Wish, model: Model) -> Model | None:
    """The second model: from a file, or empty with another learner."""
    if wish.shadow is not None:
        shadow = load_model(wish.shadow)[0]
    elif wish.shadow_method is not None:
        return shadow_of(model, wish.shadow_method)
    else:
        return None
    if shadow.meaning != model.meaning:
        raise OptionError(
            f"{wish.shadow}: the second model was trained for {shadow.task}, the first for {model.task}. "
            "Both must be trained for the same labels."
        )
    width, other = model.learner.n_features, shadow.learner.n_features
    if shadow.encoding != model.encoding or (width and other and width != other):
        raise OptionError(
            f"{wish.shadow}: the second model has other columns than the first (other files, --bits, products or the "
            "like). Both must be trained alike."
        )
    return shadow


def warm_up(model: Model) -> None:
    """Let everything be compiled or loaded before the first request."""
    twin, width, many = model.copy(), model.learner.n_features, model.task.many
    bits = (width - 1).bit_length() if width else DEFAULT_BITS
    rows: Rows = np.zeros((1, width)) if 0 < width < _DENSE else rows_of([{"a": 1.0}], bits)
    label = np.array([0.0 if many else model.task.positive or 1.0])
    notes = {"classes": ["a"]} if many and not model.classes else {}
    with contextlib.suppress(ValueError):
        twin.learn(Batch(rows, label, None, notes))
        twin.predict(rows)


async def serve(
    wish: Wish, engine: Engine, say: Callable[[str], None], started: Callable[[Running], None] = lambda running: None
) -> None:
    """Listen until a signal arrives or ``Running.stop`` is called, then drain."""
    loop = asyncio.get_running_loop()
    service = Service(engine, wish.limits)
    tokens = () if wish.tokens is None else read_tokens(wish.tokens)
    api = HttpApi(service, Access(tokens, is_loopback(wish.host)))
    limits = wish.limits
    config = uvicorn.Config(
        api.app(),
        http=limited(limits),
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=30,
        limit_concurrency=None,
        backlog=4096,
        ssl_certfile=wish.tls_cert,
        ssl_keyfile=wish.tls_key,
    )
    server = _Server(config, api)
    listening = _listen(wish.host, wish.port)
    daemon = VWDaemon(service)
    engine.start()
    consumer, vw_port = None, None
    try:
        if wish.vw_port is not None:
            vw_port = await daemon.start(wish.host, wish.vw_port)
            say(f"Vowpal Wabbit's protocol on {wish.host}:{vw_port}")
        if wish.consume is not None:
            from onsketch.jobs.serve.consume import Consumer

            consumer = Consumer(service, wish.consume)
            service.consumer = consumer
            consumer.start()
        scheme = "http" if wish.tls_cert is None else "https"
        host, port = listening.getsockname()[:2]
        say(f"Serving on {scheme}://{f'[{host}]' if ':' in host else host}:{port}")
        started(Running(port, vw_port, service, lambda: loop.call_soon_threadsafe(server.stop)))
        await server.serve([listening])
    finally:
        if consumer is not None:
            await asyncio.to_thread(consumer.stop)
        await daemon.stop()
        await asyncio.to_thread(engine.drain)
    if engine.failure is not None:
        say(f"Error: {engine.failure}")
    else:
        say(f"Stopped after {engine.model.rows:,} rows.")


class Running(NamedTuple):
    """A service that listens."""

    port: int
    vw_port: int | None
    service: Service
    stop: Callable[[], object]


class _Server(uvicorn.Server):
    """A server that stops at a signal and returns to its caller; uvicorn itself would end the process by the signal."""

    def __init__(self, config: uvicorn.Config, api: HttpApi) -> None:
        super().__init__(config)
        self._api = api

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM, SIGHUP and Ctrl-C drain; the live page's streams end, so that they keep nothing waiting."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN)  # a second one must not cut the drain short

    def stop(self) -> None:
        """Take no more connections, answer those that are open, and end."""
        self._api.stopping = True
        self.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Asyncio sends small answers at once only where the protocol is named; else each waits 40 ms for the client's word.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(4096)  # a client that reads the line with the port may connect at once
    except OSError as error:
        made.close()
        raise OptionError(f"{host}:{port}: cannot be listened on ({error.strerror}).") from None
    return made


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop's where it is installed: half the time for a request."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run(wish: Wish, say: Callable[[str], None]) -> int:
    """Run a service; returns the exit code."""
    wish.check()
    sys.setswitchinterval(_SWITCH)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))
    engine = make_engine(wish, say)
    warm_up(engine.model)
    if engine.shadow is not None:
        warm_up(engine.shadow)
    gc.collect()
    gc.freeze()
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(wish, engine, say))
    return 0 if engine.failure is None else 1
