"""Live streams: rows that go on coming, from Redis Streams or Kafka.

The interface is :class:`LiveStream`: ``poll`` returns the next messages, and ``position`` the position after them.
The learner stores the position in the same file as the model, so that both agree after a crash: every message is
learned exactly once. To add a kind of stream, write a file with a class of these methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from onsketch.core.errors import OptionError

SCHEMES = ("redis", "rediss", "kafka")


class Message(NamedTuple):
    """Message: a row as text (a JSON object, or a VW line), and its position for errors."""

    text: bytes
    place: str


class LiveStream(ABC):
    """Stream of messages, read from a position on."""

    address: str
    """Address as the user gave it, without a password."""

    @abstractmethod
    def poll(self, most: int, seconds: float) -> list[Message]:
        """Return up to ``most`` next messages; an empty list if none arrives within this many seconds."""

    @property
    @abstractmethod
    def position(self) -> Any:
        """Return the position after the messages polled, as JSON values."""

    @abstractmethod
    def seek(self, position: Any) -> None:
        """Continue from a position; None is the beginning."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


def is_live(address: str) -> bool:
    """Return True if an address is that of a live stream.

    >>> is_live("redis://localhost:6379/clicks"), is_live("clicks.vw")
    (True, False)
    """
    return address.partition("://")[0] in SCHEMES and "://" in address


def open_live(address: str) -> LiveStream:
    """Return the stream at ``redis://HOST:PORT/STREAM`` or ``kafka://HOST:PORT/TOPIC``."""
    scheme = address.partition("://")[0]
    if scheme in ("redis", "rediss"):
        from onsketch.data.live.redis_stream import RedisStream

        return RedisStream(address)
    if scheme == "kafka":
        from onsketch.data.live.kafka_topic import KafkaTopic

        return KafkaTopic(address)
    raise OptionError(f"{address}: live streams are redis://HOST:PORT/STREAM and kafka://HOST:PORT/TOPIC.")
