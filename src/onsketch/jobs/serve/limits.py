"""Connections that take too long: uvicorn's protocol with a time limit for headers and bodies."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class TimeLimited(HttpToolsProtocol):
    """A connection that is closed when a request is not there in time."""

    header_seconds: ClassVar[float]
    body_seconds: ClassVar[float]
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """The headers of the first request must come soon."""
        super().connection_made(transport)
        self._wait(self.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._wait(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The first bytes of a later request start the clock again."""
        if (self._clock is None and self.cycle is None) or getattr(self.cycle, "response_complete", False):
            self._wait(self.header_seconds)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Now the body."""
        self._wait(self.body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is here; what follows is up to us, and then to uvicorn's keep-alive."""
        super().on_message_complete()
        self._wait(None)

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


def with_time_limits(header_seconds: float, body_seconds: float) -> type[HttpToolsProtocol]:
    """The protocol with these limits."""
    return type("Limited", (TimeLimited,), {"header_seconds": header_seconds, "body_seconds": body_seconds})
