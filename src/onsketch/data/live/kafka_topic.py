"""Kafka topics: each message is a row, a JSON object or a VW line."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from onsketch.core.errors import InputError, OptionError
from onsketch.data.live import LiveStream, Message

_PATIENCE = 15.0
"""Seconds to wait for the list of partitions."""


class KafkaTopic(LiveStream):
    """All partitions of a topic. The position is the next offset of each; offsets committed to Kafka are not used.

    Options of librdkafka follow a hash sign: ``kafka://host:9092/topic#security.protocol=ssl``.
    """

    def __init__(self, address: str) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise ImportError("live streams of Kafka need its client: pip install 'onsketch[kafka]'.") from None
        parts = urlsplit(address)
        self.topic = parts.path.strip("/")
        if not self.topic or "/" in self.topic:
            raise OptionError("expected kafka://HOST:PORT/TOPIC.")
        self.address = f"kafka://{parts.netloc.rpartition('@')[2]}/{self.topic}"
        self._kafka: Any = confluent_kafka
        self._consumer: Any = confluent_kafka.Consumer(
            {
                "bootstrap.servers": parts.netloc.rpartition("@")[2],
                "group.id": "onsketch",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": False,
                **dict(pair for pair in parse_qsl(parts.fragment) if pair[0] != "idle"),
            }
        )
        self._next: dict[str, int] = {}
        self._assigned = False

    @property
    def position(self) -> Any:
        """Return the next offset of each partition."""
        return dict(self._next)

    def seek(self, position: Any) -> None:
        """Continue from these offsets."""
        self._next = {} if position is None else {str(part): int(offset) for part, offset in position.items()}
        self._assigned = False

    def poll(self, most: int, seconds: float) -> list[Message]:
        """Return the next messages of all partitions, in order of partition and offset."""
        if not self._assigned:
            self._assign()
        found = self._consumer.consume(most, timeout=seconds)
        messages = []
        for message in sorted((m for m in found if self._good(m)), key=lambda m: (m.partition(), m.offset())):
            self._next[str(message.partition())] = message.offset() + 1
            place = f"{self.address} partition {message.partition()} offset {message.offset()}"
            messages.append(Message(message.value() or b"", place))
        return messages

    def _good(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() == self._kafka.KafkaError._PARTITION_EOF or error.retriable():
            return False
        raise InputError(f"{self.address}: {error.str()}")

    def _assign(self) -> None:
        try:
            listed = self._consumer.list_topics(self.topic, timeout=_PATIENCE).topics[self.topic]
        except self._kafka.KafkaException as error:
            raise InputError(f"{self.address}: {error.args[0].str()}") from None
        if listed.error is not None or not listed.partitions:
            raise InputError(f"{self.address}: there is no such topic.")
        places = [
            self._kafka.TopicPartition(self.topic, part, self._next.get(str(part), self._kafka.OFFSET_BEGINNING))
            for part in sorted(listed.partitions)
        ]
        self._consumer.assign(places)
        self._assigned = True

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()
