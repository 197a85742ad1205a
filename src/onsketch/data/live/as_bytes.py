"""A live stream as a file of lines, for ``onsketch train redis://…``: a message is a line.

The position is the number of bytes read, as for files. A job that resumes from a checkpoint skips the bytes already
read and verifies them by a checksum. So each message is learned exactly once, as long as the stream still has its
beginning. The stream ends when no message arrives for some seconds: ``#idle=60`` after the address, 5 by default, 0 for
never.
"""

from __future__ import annotations

import io
import math
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from onsketch.core.errors import OptionError
from onsketch.data.live import open_live

_IDLE = 5.0
_MOST, _WAIT = 10_000, 0.25


class LiveBytes(io.RawIOBase):
    """Messages from the beginning on, one per line."""

    def __init__(self, address: str) -> None:
        super().__init__()
        given = parse_qs(urlsplit(address).fragment).get("idle", [str(_IDLE)])[-1]
        try:
            self._idle = float(given) or math.inf
        except ValueError:
            raise OptionError(f"idle={given}: expected a number of seconds.") from None
        self._stream = open_live(address)
        self._held = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes; return 0 when the idle time is over."""
        until = time.monotonic() + self._idle
        while not self._held:
            messages = self._stream.poll(_MOST, _WAIT)
            self._held = b"".join([message.text.replace(b"\n", b" ") + b"\n" for message in messages])
            if not messages and time.monotonic() > until:
                return 0
        count = min(len(buffer), len(self._held))
        buffer[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        """Close the connection."""
        if not self.closed:
            self._stream.close()
        super().close()
