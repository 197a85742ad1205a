"""Limits on requests, in one table for HTTP and for Vowpal Wabbit's protocol, and on connections."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_TAG = 1000
"""Characters of a tag."""


@dataclass(frozen=True)
class Limits:
    """Limits of the service. docs/howto/service.md has the same table."""

    body: int = 16 << 20
    """Bytes of a request's body."""
    rows: int = 10_000
    """Rows of a request."""
    features: int = 10_000
    """Features of a row."""
    waiting: int = 100_000
    """Rows that wait for their labels."""
    label_seconds: float = 3600.0
    """Seconds that a row waits for its label."""
    header_seconds: float = 10.0
    """Time for the head of a request."""
    body_seconds: float = 30.0
    """Time for the body of a request, or for a line of VW's protocol."""
    head: int = 1 << 16
    """Bytes of the head of a request."""
    bodies: int = 512 << 20
    """Bytes of all bodies that are held at a time."""
    waiting_bytes: int = 512 << 20
    """Bytes of all rows that wait for their labels."""
    line: int = 1 << 20
    """Bytes of a line of VW's protocol."""
    clients: int = 256
    """Connections of VW's protocol."""
    listeners: int = 50
    """Open live pages (/events)."""


class Limited(HttpToolsProtocol):
    """A connection that is closed when a request does not come in time, or has too long a head."""

    limits: ClassVar[Limits]
    _clock: asyncio.TimerHandle | None = None
    _head = 0
    """Bytes of an incomplete request head."""

    def connection_made(self, transport: Any) -> None:
        """The headers of the first request must come soon."""
        super().connection_made(transport)
        self._wait(self.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._wait(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The first bytes of a later request start the clock again; those after them do not."""
        if self._clock is None and (self.cycle is None or self.cycle.response_complete):
            self._wait(self.limits.header_seconds)
            self._head = 0
        self._head += len(data)
        super().data_received(data)
        if self._head > self.limits.head and not self.transport.is_closing():
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """Now the body."""
        self._wait(self.limits.body_seconds)
        self._head = -_NEVER
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is here; what follows is up to us, and then to uvicorn's keep-alive."""
        super().on_message_complete()
        self._wait(None)
        self._head = 0

    def _wait(self, seconds: float | None) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        if seconds is not None:
            self._clock = self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        self._clock = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.abort()


_NEVER = 1 << 62
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def limited(limits: Limits) -> type[HttpToolsProtocol]:
    """The protocol with these limits."""
    return type("LimitedConnection", (Limited,), {"limits": limits})
