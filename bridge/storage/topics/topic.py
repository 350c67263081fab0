"""What is known of one topic, with the open logs of its partitions."""

import asyncio
import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge.runtime.futures import Cached
from bridge.storage import topic_properties
from bridge.storage.partition import PartitionLog

UUID_PROPERTY = "kafkaTopicUUID"
"""The topic property with the topic id, as KoP named it."""
NO_ID = uuid.UUID(int=0)
_NAMED_VERSION = 8
"""RFC 9562: what such an id consists of is up to who makes it."""


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
    """Changes made here. What Pulsar was asked before a change may be outdated by it."""
    forgotten: bool = False
    """Whether the topic is no longer registered: logs opened here would never be closed."""
    _log_starts: Mapping[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._log_starts = topic_properties.log_starts(self.properties)

    def apply_change(self, *, partitions: int = 1, properties: Mapping[str, str] | None = None) -> None:
        """Apply a change that was made here."""
        self.change_count += 1
        self.partitions = max(self.partitions, partitions)
        self.set_properties({**self.properties, **(properties or {})})

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Apply the topic's properties: its configs, and where its logs start."""
        self.properties = properties
        self._log_starts = topic_properties.log_starts(properties)
        for partition, partition_log in self.logs.items():
            self.configure(partition, partition_log)

    def configure(self, partition: int, partition_log: PartitionLog) -> None:
        """Apply the topic's properties to one log."""
        partition_log.raise_start(self._log_starts.get(partition, 0))
        partition_log.apply_configs(topic_properties.configs(self.properties))


def new_id(name: str, first_ledger: int | None = None) -> uuid.UUID:
    """An id for a new topic. Its first bytes follow from the name: a node that is asked for an id that it has not seen
    finds the topic by a list of names, and need not ask Pulsar for the properties of each.

    `first_ledger`: of a topic that is there already; nodes that find it at the same time then give it the same id.
    """
    octets = bytearray(
        uuid.uuid4().bytes if first_ledger is None else hashlib.blake2b(b"%d" % first_ledger, digest_size=16).digest()
    )
    octets[:6] = name_digest(name)
    octets[6] = octets[6] & 0x0F | _NAMED_VERSION << 4
    return uuid.UUID(bytes=bytes(octets))


def digest_in(topic_id: uuid.UUID) -> bytes | None:
    """The digest of the topic's name; None if the id is not of `new_id`: KoP gave random ones."""
    return topic_id.bytes[:6] if topic_id.version == _NAMED_VERSION else None


def name_digest(name: str) -> bytes:
    """What an id of `new_id` says of the topic's name."""
    digest = hashlib.blake2b(name.encode(), digest_size=6).digest()
    return bytes((digest[0] & 0x7F,)) + digest[1:]  # as Kafka's ids, none that is written with a dash at its beginning


def topic_id(properties: Mapping[str, str]) -> uuid.UUID | None:
    """The topic id in a topic's properties."""
    try:
        return uuid.UUID(properties[UUID_PROPERTY])
    except (KeyError, ValueError):
        return None
