"""Topics by the names and ids that requests to coordinators give.

A coordinator's clients take what leaders answer while Pulsar is away for final, and give up: so Java's consumer that
commits, and its producer that commits offsets in a transaction (`CommitRequestManager`, `TransactionManager`).
"""

from collections.abc import Awaitable, Sequence
from typing import Any, Final
from uuid import UUID

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Broker
from bridge.storage.topics.topic import Topic

_PASSING: Final = frozenset(
    {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER}
)
"""What leaders answer where Pulsar does not say now whether there is a topic."""
_MANY: Final = 1000
"""Topics and partitions: each takes some microseconds."""


def has_many(*listed: Sequence[Any] | None) -> bool:
    """Whether requests name so many partitions, in messages with `partitions`, that a thread goes through them."""
    return sum(1 + len(one.partitions) for topics in listed for one in topics or ()) > _MANY


async def known_topic(name: str, broker: Broker) -> Topic | None:
    """The topic of this name; None also where it is none that a topic can have.

    COORDINATOR_NOT_AVAILABLE, after which all clients of coordinators ask again, where Pulsar does not say.
    """
    try:
        return await _asked(broker.topics.get(name))
    except KafkaError as error:
        if error.code != ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise
        return None


async def topic_by_id(topic_id: UUID, broker: Broker) -> Topic | None:
    """The topic that has this id; otherwise as `known_topic`."""
    return await _asked(broker.topics.by_id(topic_id))


async def _asked(question: Awaitable[Topic | None]) -> Topic | None:
    try:
        return await question
    except KafkaError as error:
        if error.code not in _PASSING:
            raise
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from None
