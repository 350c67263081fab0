"""Kafka topic names to Pulsar's and back: `orders` ⇄ `persistent://tenant/namespace/orders[-partition-N]`."""

import re

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)  # org.apache.kafka.common.internals.Topic
_PARTITION = re.compile(r"-partition-[0-9]+\Z", re.ASCII)
# Pulsar keeps its own state in topics of these names in every namespace (SystemTopicNames)
_PULSAR_SYSTEM = frozenset(
    {"__change_events", "__transaction_buffer_snapshot", "__transaction_buffer_snapshot_segments",
     "__transaction_buffer_snapshot_indexes"}
)  # fmt: skip
_PULSAR_SUFFIXES = ("__transaction_pending_ack", "-multiTopicsReader")
HIDDEN_PREFIX = "__bridge_"


def is_partition(name: str) -> bool:
    """Whether Pulsar would take this name for one partition of another topic."""
    return _PARTITION.search(name) is not None


def is_shown(name: str) -> bool:
    """Whether a Pulsar topic of this local name is one that Kafka clients see."""
    if not _LEGAL.fullmatch(name) or name in (".", ".."):
        return False
    if name in _PULSAR_SYSTEM or name.startswith(HIDDEN_PREFIX) or name.endswith(_PULSAR_SUFFIXES):
        return False
    return not is_partition(name)


def check(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION unless `name` is legal in Kafka and free in Pulsar.

    A slash, colon or percent sign is never legal, so no name reaches another namespace, tenant or REST path.
    """
    if is_shown(name):
        return
    if is_partition(name):
        reason = "Pulsar takes a name that ends in -partition-N for a partition of another topic"
    elif name in (".", "..") or not _LEGAL.fullmatch(name):
        reason = "a topic name is 1 to 249 of a-z A-Z 0-9 . _ - and neither . nor .."
    else:
        reason = "the name is reserved for Pulsar's or the bridge's own state"
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


class Names:
    """The names of one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._prefix = f"persistent://{namespace}/"

    def pulsar(self, name: str) -> str:
        """The Pulsar topic of a (checked) Kafka name."""
        return self._prefix + name

    def partition(self, name: str, index: int, *, partitioned: bool) -> str:
        """The Pulsar topic that holds one partition; a topic that is not partitioned is its own partition 0."""
        return f"{self._prefix}{name}-partition-{index}" if partitioned else self._prefix + name

    def kafka(self, topic: str) -> str | None:
        """The Kafka name of a Pulsar topic of this namespace, or None where clients do not see it."""
        if not topic.startswith(self._prefix):
            return None
        name = topic[len(self._prefix) :]
        return name if is_shown(name) else None

    def owner(self, topic: str) -> str | None:
        """As `kafka`, with a partition standing for the topic it is one of."""
        return self.kafka(_PARTITION.sub("", topic))
