"""Live streams: rows that go on coming, from Redis Streams or Kafka.

The seam is :class:`LiveStream`: ``poll`` gives the next messages, ``position`` says where the stream stands after
them. Whoever learns the rows keeps the position in the same file as the model, so that after a crash both are of the
same moment: every message is learned exactly once. Another kind of stream is a file with a class of these methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from onsketch.core.errors import OptionError

SCHEMES = ("redis", "rediss", "kafka")


class Message(NamedTuple):
    """One message: a row as text (a JSON object, or a VW line), and its place for errors."""

    text: bytes
    place: str


class LiveStream(ABC):
    """A stream of messages, read from a position on."""

    address: str
    """As the user gave it, without a password."""

    @abstractmethod
    def poll(self, most: int, seconds: float) -> list[Message]:
        """The next messages, at most so many; an empty list when none has come within so many seconds."""

    @property
    @abstractmethod
    def position(self) -> Any:
        """Where the stream stands after the messages polled, as JSON can hold it."""

    @abstractmethod
    def seek(self, position: Any) -> None:
        """Go on from a position; None is the beginning."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""


def is_live(address: str) -> bool:
    """Whether an address is that of a live stream.

    >>> is_live("redis://localhost:6379/clicks"), is_live("clicks.vw")
    (True, False)
    """
    return address.partition("://")[0] in SCHEMES and "://" in address


def open_live(address: str) -> LiveStream:
    """The stream at ``redis://HOST:PORT/STREAM`` or ``kafka://HOST:PORT/TOPIC``."""
    scheme = address.partition("://")[0]
    if scheme in ("redis", "rediss"):
        from onsketch.data.live.redis_stream import RedisStream

        return RedisStream(address)
    if scheme == "kafka":
        from onsketch.data.live.kafka_topic import KafkaTopic

        return KafkaTopic(address)
    raise OptionError(f"{address}: live streams are redis://HOST:PORT/STREAM and kafka://HOST:PORT/TOPIC.")
