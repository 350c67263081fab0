"""Kafka topic names to Pulsar's and back: `orders` ⇄ `persistent://tenant/namespace/orders[-partition-N]`."""

import re
from collections.abc import Iterator
from itertools import product

from bridge.config import STATE_PREFIX
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode

_LONGEST = 249  # org.apache.kafka.common.internals.Topic
_LEGAL = re.compile(rf"[a-zA-Z0-9._-]{{1,{_LONGEST}}}", re.ASCII)
PARTITION_MARK = "-partition-"
_PARTITION = re.compile(r"-partition-[0-9]+\Z", re.ASCII)
# Pulsar keeps its own state in topics of these names in every namespace (SystemTopicNames)
_PULSAR_SYSTEM = frozenset(
    {"__change_events", "__transaction_buffer_snapshot", "__transaction_buffer_snapshot_segments",
     "__transaction_buffer_snapshot_indexes"}
)  # fmt: skip
_PULSAR_SUFFIXES = ("__transaction_pending_ack", "-multiTopicsReader")
# Cursors that Pulsar keeps beside the subscriptions (Compactor, PersistentTopic, TopicTransactionBuffer, the default of
# the broker's replicatorPrefix, SystemTopicNames). Each is a node in the metadata store, where dots alone are no name.
_PULSAR_SUBSCRIPTIONS = frozenset(
    {"__compaction", "pulsar.dedup", "transaction-buffer-sub", "__pending_ack_state", ".", ".."}
)
_PULSAR_SUBSCRIPTION_PREFIXES = ("pulsar.repl", "__system_reader")
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Where Kafka keeps its own state (`org.apache.kafka.common.internals.Topic`). Tools look there for it: an ordinary
topic of such a name would mislead them."""


def is_partition(name: str) -> bool:
    """Whether Pulsar would take this name for one partition of another topic."""
    return _PARTITION.search(name) is not None


def partition_number(topic: str) -> int:
    """Which partition a topic of Pulsar is by its name; −1: none, or of a greater number than Pulsar has for them
    (`TopicName.getPartitionIndex`)."""
    found = _PARTITION.search(topic)
    digits = "" if found is None else found.group()[len(PARTITION_MARK) :].lstrip("0") or "0"
    return int(digits) if 0 < len(digits) <= 10 and not int(digits) >> 31 else -1


def is_shown(name: str) -> bool:
    """Whether a Pulsar topic of this local name is one that Kafka clients see."""
    if not _LEGAL.fullmatch(name) or name in (".", ".."):
        return False
    if name in INTERNAL or name in _PULSAR_SYSTEM or name.startswith(STATE_PREFIX) or name.endswith(_PULSAR_SUFFIXES):
        return False
    return not is_partition(name)


def is_own_subscription(name: str) -> bool:
    """Whether Pulsar takes a subscription of this name for one of its own, or for none."""
    return name in _PULSAR_SUBSCRIPTIONS or name.startswith(_PULSAR_SUBSCRIPTION_PREFIXES) or not name.strip()


def check(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION unless `name` is legal in Kafka and free in Pulsar (Kafka's `Topic.validate`).

    A slash, colon or percent sign is never legal, so no name reaches another namespace, tenant or REST path.
    """
    if not is_shown(name) and name not in INTERNAL:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, _reason(name))


def _reason(name: str) -> str:
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > _LONGEST:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {_LONGEST}"
    if not _LEGAL.fullmatch(name):
        legal = "one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        return f"Topic name is invalid: '{name}' contains {legal}"
    if is_partition(name):
        return "Pulsar takes a name that ends in -partition-N for a partition of another topic"
    return "the name is reserved for Pulsar's or the bridge's own state"


def collides(name: str, other: str) -> bool:
    """Whether two names differ only in dots and underscores, which are the same in the names of Kafka's metrics."""
    return name != other and name.replace(".", "_") == other.replace(".", "_")


def colliding(name: str) -> Iterator[str]:
    """Every other name that a name collides with."""
    ways = [("._" if character in "._" else character) for character in name]
    return (found for found in map("".join, product(*ways)) if found != name)


class Names:
    """The names of topics in one namespace, as Kafka and as Pulsar has them."""

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
