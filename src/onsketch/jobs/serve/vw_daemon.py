"""Vowpal Wabbit's daemon protocol: a line in gives a prediction with its tag out, for clients of ``vw --daemon``.

A line with a label is predicted and then learned, one without is predicted. Answers come in the order of the lines.
Lines that arrive together are processed together. An empty line has no answer, as with VW. VW would close the
connection at an invalid or endless line; here the answer is ``nan``, so that the client stays in step.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import numpy as np

from onsketch.core.errors import InputError
from onsketch.jobs.serve.batch import part_of
from onsketch.jobs.serve.learn_requests import Busy, LearnRequest, Refused
from onsketch.jobs.serve.service import Service

_AT_ONCE = 1 << 18
"""Bytes read at a time."""


class VWDaemon:
    """A server for clients of VW."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[Any]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._client, host, port, limit=_AT_ONCE)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Let go of all clients."""
        if self._server is not None:
            self._server.close()
            for task in list(self._clients):
                task.cancel()
            await asyncio.gather(*self._clients, return_exceptions=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._clients) >= self.service.limits.clients:
            writer.close()
            return
        self._clients.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._clients.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held, skipping, limits = b"", False, self.service.limits
        while True:
            try:  # a line that has begun must end soon
                more = await asyncio.wait_for(reader.read(_AT_ONCE), limits.body_seconds if held or skipping else None)
            except TimeoutError:
                return
            held += more
            cut = held.rfind(b"\n") + 1 if more else len(held)
            text, held = held[:cut], held[cut:]
            if skipping and not text and more:
                held = b""
                continue
            if skipping:  # here ends a line that was too long
                writer.write(b"nan\n")
                text, skipping = text.partition(b"\n")[2], False
            if len(held) > limits.line:
                held, skipping = b"", True
            lines = [line for line in text.split(b"\n") if line.strip()]
            most = limits.rows
            for start in range(0, len(lines), most):
                writer.write(await self.answers(lines[start : start + most]))
                await writer.drain()
            if not more:
                return

    async def answers(self, lines: list[bytes]) -> bytes:
        """The answers to some lines."""
        try:
            block = self.service.reader.lines(b"\n".join(lines), "vw")
        except InputError:
            if len(lines) == 1:
                return b"nan\n"
            half = len(lines) // 2  # find the bad lines among them
            return await self.answers(lines[:half]) + await self.answers(lines[half:])
        return await self._answered(block)

    async def _answered(self, block: Any) -> bytes:
        """Learn stretches of rows with labels, predict those without, in order."""
        engine = self.service.engine
        labelled = ~np.isnan(block.y)
        found: list[str] = []
        edges = [0, *(np.flatnonzero(np.diff(labelled)) + 1).tolist(), len(block)]
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            rows = part_of(block.rows, start, stop)
            if labelled[start]:
                weights = None if block.sample_weight is None else block.sample_weight[start:stop]
                margins = await self._learned(rows, block.y[start:stop], weights)
            else:
                margins = engine.predict(rows)
            found += self._words(margins)
        tags = block.tags or [""] * len(found)
        return "".join(
            [f"{word} {tag}\n" if tag else f"{word}\n" for word, tag in zip(found, tags, strict=True)]
        ).encode()

    async def _learned(self, rows: Any, labels: Any, weights: Any) -> Any:
        """Margins before learning; where the queue is full the client waits, as it would for VW."""
        while True:
            try:
                return (await self.service.queued(LearnRequest(rows, labels, weights))).margins
            except Refused as error:
                if not (isinstance(error, Busy) and self.service.engine.ready):
                    return self.service.engine.predict(rows)  # cannot be learned now: a prediction is still one
                await asyncio.sleep(0.05)

    def _words(self, margins: Any) -> list[str]:
        if margins.ndim == 1:
            return [f"{margin:.6g}" for margin in margins.tolist()]
        names = self.service.engine.model.classes
        if not margins.shape[1]:  # no class has come so far
            return ["0"] * len(margins)
        return [names[best] for best in margins.argmax(axis=1)]
