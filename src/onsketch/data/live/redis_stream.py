"""Redis Streams: entries with a field ``row`` (JSON or a VW line), or whose fields are the row itself."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

from onsketch.core.errors import InputError, OptionError
from onsketch.data.live import LiveStream, Message

_ROW = (b"row", b"data", b"line")
"""Fields that hold a whole row."""


class RedisStream(LiveStream):
    """One stream. The position is the id of the last entry; entries are not deleted."""

    def __init__(self, address: str) -> None:
        try:
            import redis
        except ImportError:
            raise ImportError("live streams of Redis need its client: pip install 'onsketch[redis]'.") from None
        parts = urlsplit(address)
        words = [unquote(word) for word in parts.path.split("/") if word]
        if not words or len(words) > 2 or (len(words) == 2 and not words[0].isdigit()):
            raise OptionError(f"{parts.hostname}: expected redis://HOST:PORT/STREAM, or /DATABASE/STREAM.")
        self.stream = words[-1]
        self.address = f"{parts.scheme}://{parts.hostname}:{parts.port or 6379}/{'/'.join(words)}"
        self._errors: Any = redis.RedisError
        self._client = redis.Redis(
            host=parts.hostname or "localhost",
            port=parts.port or 6379,
            db=int(words[0]) if len(words) == 2 else 0,
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            ssl=parts.scheme == "rediss",
            socket_timeout=30.0,
        )
        self._last = "0-0"

    @property
    def position(self) -> Any:
        """Return the id of the last entry polled."""
        return self._last

    def seek(self, position: Any) -> None:
        """Continue after this entry."""
        self._last = "0-0" if position is None else str(position)

    def poll(self, most: int, seconds: float) -> list[Message]:
        """Return the next entries."""
        wait = max(int(seconds * 1000), 1)
        try:
            found = self._client.xread({self.stream: self._last}, count=most, block=wait)
        except self._errors as error:
            raise InputError(f"{self.address}: {error}") from None
        messages = []
        entries = found.items() if isinstance(found, dict) else found
        for _, listed in entries:
            for key, fields in _flat(listed):
                self._last = key.decode()
                messages.append(Message(_text(fields), f"{self.address} entry {self._last}"))
        return messages

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _flat(listed: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Return the entries from the response of either protocol version."""
    if listed and isinstance(listed[0], list):
        return [entry for part in listed for entry in part]
    return list(listed)


def _text(fields: dict[bytes, bytes]) -> bytes:
    """Return the row of an entry: the one field that holds it, or its fields as an object."""
    for name in _ROW:
        if name in fields:
            return fields[name]
    return json.dumps({name.decode("utf-8", "replace"): _value(value) for name, value in fields.items()}).encode()


def _value(value: bytes) -> float | str:
    text = value.decode("utf-8", "replace")
    try:
        return float(text) if "_" not in text else text
    except ValueError:
        return text
