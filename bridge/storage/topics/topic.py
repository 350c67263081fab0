"""A Kafka topic as it is known at the moment, with the logs of its partitions."""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge.futures import Cached
from bridge.storage import topic_properties
from bridge.storage.partition import PartitionLog

UUID_PROPERTY = "kafkaTopicUUID"
"""Where KoP kept the topic id, and where the bridge keeps it."""
NO_ID = uuid.UUID(int=0)


@dataclass(slots=True, eq=False)
class Topic:
    """A topic and its partition logs, opened when used."""

    name: str
    partitions: int
    partitioned: bool
    id: uuid.UUID
    refreshed_at: float
    properties: Mapping[str, str] = field(default_factory=dict)
    logs: dict[int, PartitionLog] = field(default_factory=dict)
    refresh_task: "asyncio.Task[None] | None" = None
    sizes: "Cached[list[int]] | None" = None
    """The stored bytes of each partition."""
    change_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    change_count: int = 0
    """Made here: an answer of Pulsar's that was asked for before one may be from before it."""
    forgotten: bool = False
    """Whether another object stands for this name by now: logs opened here would be nobody's to close."""

    def apply_change(self, *, partitions: int = 1, properties: Mapping[str, str] | None = None) -> None:
        """Go by a change that was made here."""
        self.change_count += 1
        self.partitions = max(self.partitions, partitions)
        self.set_properties({**self.properties, **(properties or {})})

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Take over what is kept with the topic: its configs, and where its logs start."""
        self.properties = properties
        for partition, partition_log in self.logs.items():
            self.configure(partition, partition_log)

    def configure(self, partition: int, partition_log: PartitionLog) -> None:
        """Let one log know what of this is its own."""
        partition_log.raise_start(topic_properties.log_start(self.properties, partition))
        partition_log.learn(topic_properties.configs(self.properties))


def topic_id(properties: Mapping[str, str]) -> uuid.UUID | None:
    """The id that is kept with a topic."""
    try:
        return uuid.UUID(properties[UUID_PROPERTY])
    except (KeyError, ValueError):
        return None
