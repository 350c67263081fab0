"""What the handlers of ShareFetch and ShareAcknowledge share: which partitions, by which session, and what is said."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.leader_hints import LeaderIdAndEpoch
from bridge.kafka.share_messages import AcknowledgementBatch
from bridge.requests import leadership
from bridge.requests.api import Broker, Rest
from bridge.requests.authorization import Checks, checks_of
from bridge.requests.session import Session
from bridge.runtime.futures import gathered_for
from bridge.security.acls import Operation, Resource, ResourceType
from bridge.shares.partition import LedPartition, Name
from bridge.shares.partitions import Shares
from bridge.shares.sessions import OPENS, Place, ShareSession
from bridge.storage.partition import PartitionLog
from bridge.storage.topics.topic import Topic

MOST_RANGES: Final = 10_000
"""Batches of acknowledgements in a request."""


SHARE_APIS: Final = frozenset((76, 77, 78, 79, 90, 91, 92))
"""Those of share groups, which clients see only where all work."""


def are_served(broker: Broker) -> bool:
    """Whether share groups are: where each node can ask the others, and all are of a version that answers."""
    if broker.shares is None:
        return False
    nodes = broker.cluster.snapshot
    is_alone = len(nodes.nodes) <= 1 and not broker.settings.cluster.is_single
    return is_alone or (nodes.can_ask_each_other and nodes.has_transactions)


def shares_of(broker: Broker, group_id: str | None, member_id: str | None) -> Shares:
    """What serves share groups; KafkaError where nothing does, or the request names no group or member."""
    if broker.shares is None or not are_served(broker):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the nodes cannot ask each other about share groups")
    if not group_id or not member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the group or the member has no name")
    return broker.shares


def session_of(shares: Shares, group_id: str, member_id: str, epoch: int, session: Session) -> ShareSession:
    """The session of a request with this epoch, bound to the connection when it is opened; KafkaError."""
    if epoch != OPENS:
        return shares.sessions.next(group_id, member_id, epoch)
    made = shares.sessions.open(group_id, member_id, session.id)
    shares.doubt(group_id)

    def lost() -> None:
        shares.sessions.close(made, counts=True)

    key = ShareSession, group_id, member_id
    if not session.on_close(key, lost):
        lost()
        raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
    made.on_closed = partial(session.off_close, key)
    return made


async def check_group(request: Any, checks: Checks, rest: Rest) -> Any:
    """READ of the group; topics are looked at when their names are known."""
    await checks.require(Operation.READ, Resource(ResourceType.GROUP, request.group_id or ""))
    return await rest(request)


def said_of(topics: Iterable[Any]) -> dict[Place, list[AcknowledgementBatch]]:
    """What a request says of each partition that it names."""
    return {(topic.topic_id, one.partition_index): one.acknowledgement_batches
            for topic in topics for one in topic.partitions}  # fmt: skip


class Opened(NamedTuple):
    """A partition that a request names: led here, or why not."""

    topic: str
    """Its name; "" where no topic has the id."""
    led: LedPartition | KafkaError


async def opened(shares: Shares, reader: ShareSession, places: Iterable[Place], broker: Broker, session: Session
                 ) -> dict[Place, Opened]:  # fmt: skip
    """The partitions, opened or with an error."""
    places = list(dict.fromkeys(places))
    topics = await gathered_for({topic_id for topic_id, _ in places}, lambda topic_id: _topic(topic_id, broker))
    checks = checks_of(broker, session)
    names = {topic.name for topic in topics.values() if isinstance(topic, Topic)}
    denied = await checks.denied(Operation.READ, ResourceType.TOPIC, names) if checks is not None and names else ()

    async def open_one(place: Place) -> Opened:
        topic = topics[place[0]]
        if isinstance(topic, KafkaError):
            return Opened("", topic)
        if topic.name in denied:
            return Opened(topic.name, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        try:
            log, epoch = await _log_of(broker, topic, place[1])
            led = await shares.led(Name(reader.group_id, *place), log, epoch)
            reader.has_opened(place, led)
            return Opened(topic.name, led)
        except KafkaError as error:
            return Opened(topic.name, error.bare())

    return await gathered_for(places, open_one)


async def _log_of(broker: Broker, topic: Topic, partition: int) -> tuple[PartitionLog, int]:
    """The log of a partition that this node leads for share groups, and its leader's epoch.

    Behind one address the group's coordinator leads, to which requests come, and any node reads any partition. The
    epoch is the same, so that states are readable after a change of the addressing.
    """
    if not broker.settings.cluster.is_single:
        log = await leadership.opened(broker, topic, partition)
    elif 0 <= partition < topic.partitions:
        log = broker.topics.log(topic, partition)
    else:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return log, max(broker.cluster.snapshot.leader(topic.name, partition).epoch, 0)


def hints_of(broker: Broker, session: Session) -> leadership.LeaderHints:
    """The leaders that an answer names; none behind one address."""
    listener = None if broker.settings.cluster.is_single else session.listener
    return leadership.LeaderHints(broker.cluster, listener)


async def _topic(topic_id: UUID, broker: Broker) -> Topic | KafkaError:
    try:
        found = broker.topics.cached_by_id(topic_id) or await broker.topics.by_id(topic_id)
    except KafkaError as error:
        return error.bare()
    return found or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)


def leader_of(hints: leadership.LeaderHints, topic: str, partition: int, error: int) -> LeaderIdAndEpoch:
    """Who leads it, for a client that has asked the wrong node; else nobody."""
    return (hints.leader(topic, partition, error) if topic else None) or LeaderIdAndEpoch()
