"""The Java client (kafka-clients 4.x, default settings) as a `Client`, through one long-lived driver."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.clients.model import At, Codec, Delivery, Draft, Record, Start, UnknownTopic
from tests.support.java import JavaDriver, JavaError

SOURCE = Path(__file__).parent.parent / "java" / "Driver.java"


class Java:
    """kafka-clients: idempotent producer, ApiVersions v4, AdminClient."""

    name = "java"
    creates_topics = True

    def __init__(self, bootstrap: str, log: Path) -> None:
        self._driver = JavaDriver(SOURCE, bootstrap, log)

    def close(self) -> None:
        """End the JVM."""
        self._driver.close()

    def can_write(self, draft: Draft) -> bool:
        """It can write all there is."""
        return True

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with the broker's default replication factor (CreateTopics v4 and later)."""
        self._call("create", topic=topic, partitions=partitions)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic through the admin client."""
        self._call("delete", topic=topic)

    def topics(self) -> set[str]:
        """List all topics."""
        return set(self._call("list"))

    def partitions(self, topic: str) -> int:
        """Describe a topic and count its partitions."""
        return int(self._call("describe", topic=topic))

    def write(self, topic: str, drafts: Sequence[Draft], codec: Codec = "none") -> list[Delivery]:
        """Send all, then wait for every future."""
        records = [_draft(draft) for draft in drafts]
        return [Delivery(*result) for result in self._call("write", topic=topic, codec=codec, records=records)]

    def read(self, topic: str, starts: Mapping[int, Start]) -> list[Record]:
        """Assign, seek, and poll until the position of every partition is its end offset."""
        wanted = {str(p): {"time": s.timestamp} if isinstance(s, At) else s for p, s in starts.items()}
        return [_record(topic, fields) for fields in self._call("read", topic=topic, starts=wanted)]

    def beginning_and_end(self, topic: str, partition: int) -> tuple[int, int]:
        """Ask for both watermarks."""
        low, high = self._call("ends", topic=topic, partition=partition)
        return low, high

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Ask for an offset by time."""
        offset: int | None = self._call("time", topic=topic, partition=partition, timestamp=timestamp)
        return offset

    def _call(self, operation: str, **arguments: object) -> Any:
        try:
            return self._driver.call(operation, **arguments)
        except JavaError as error:
            if error.args[0] == "UnknownTopicOrPartitionException":
                raise UnknownTopic(error.args[1]) from error
            raise


def _encode(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _draft(draft: Draft) -> dict[str, object]:
    return {
        "partition": draft.partition,
        "timestamp": draft.timestamp,
        "key": _encode(draft.key),
        "value": _encode(draft.value),
        "headers": [[name, _encode(value)] for name, value in draft.headers],
    }


def _record(topic: str, fields: Any) -> Record:
    headers = tuple((str(name), _decode(value)) for name, value in fields["headers"])
    key, value = _decode(fields["key"]), _decode(fields["value"])
    return Record(topic, fields["partition"], fields["offset"], fields["timestamp"], key, value, headers)
