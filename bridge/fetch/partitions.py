"""The partitions that a Fetch asks for: their topics by name or by id, and their logs if this node serves them."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_messages import BY_ID, RACKS, READ_COMMITTED, Request, RequestPartition, RequestTopic
from bridge.kafka.message import ZERO_UUID
from bridge.requests import leadership
from bridge.requests.api import Broker
from bridge.requests.authorization import checks_of
from bridge.requests.session import Session
from bridge.runtime.futures import gathered, gathered_for, in_chunks, in_turns, own_task
from bridge.security.acls import Operation, ResourceType
from bridge.storage.partition import PartitionLog
from bridge.storage.read.pending_reads import ReadRequest
from bridge.storage.topics.topic import Topic
from bridge.telemetry.record_counts import NOTHING, Sent


@dataclass(slots=True)
class FetchPartition:
    """One partition of a Fetch, and what was found for it."""

    topic: str
    """Its name; "" of one that is named by an id which no topic has."""
    topic_id: uuid.UUID
    """The id that it is named by; zero in the versions that name topics by their names."""
    wanted: RequestPartition
    committed: bool = False
    """Whether only records of committed transactions, and of none, are wanted."""
    or_follower: bool = False
    """Whether a follower may serve it: to clients that can be told of one (KIP-392)."""
    log: PartitionLog | None = None
    error: KafkaError | None = None
    records: list[bytes] = field(default_factory=list)
    read: bool = False
    """Whether it was read by `PendingReads`; later records come to memory as long as the log is followed."""

    sent: Sent = NOTHING
    """What of it is in the answer."""
    preferred: "PreferredReplica | None" = None
    """Where it is to be read instead."""

    @property
    def position(self) -> ReadRequest:
        """Where to read."""
        return ReadRequest(self.log, self.wanted.fetch_offset, self.committed)


@dataclass(frozen=True, slots=True)
class PreferredReplica:
    """The node from which a client should read a partition."""

    node: int
    log_start: int
    high_watermark: int


async def opened_partitions(request: Request, version: int, broker: Broker, session: Session) -> list[FetchPartition]:
    """The partitions asked for, opened or with an error; of duplicates the last, as in Kafka (`FullFetchContext`)."""
    by_id, or_follower = version >= BY_ID, version >= RACKS and request.replica_id < 0
    committed = request.isolation_level == READ_COMMITTED
    unnamed = await _name_topics(request.topics, broker) if by_id else {}
    wanted = {(topic.topic, topic.topic_id, one.partition): one for topic in request.topics for one in topic.partitions}
    denied = await denied_topics(request, broker, session, by_id=by_id)
    cached = broker.topics.cached
    parts: list[FetchPartition] = []
    slow: list[FetchPartition] = []
    async for chunk in in_chunks(list(wanted.items())):
        for (topic, topic_id, _), one in chunk:
            part = FetchPartition(topic, topic_id, one, committed, or_follower)
            parts.append(part)
            if by_id and not topic:
                part.error = unnamed.get(topic_id) or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            elif topic in denied:
                part.error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif (known := cached(topic)) is None or not _open(part, broker, known):
                slow.append(part)
    if slow:
        await own_task()
        await gathered(_open_late(part, broker) for part in slow)
    return parts


async def denied_topics(request: Request, broker: Broker, session: Session, *, by_id: bool) -> Collection[str]:
    """The topics that the client may not read; one that says it is a follower needs another right, as in Kafka."""
    checks = checks_of(broker, session)
    if checks is None:
        return ()
    await own_task()
    names = [topic.topic for topic in request.topics if topic.topic or not by_id]
    state = request.replica_state
    if (request.replica_id if state is None else state.replica_id) < 0:
        return await checks.denied(Operation.READ, ResourceType.TOPIC, names)
    return () if await checks.allows(Operation.CLUSTER_ACTION) else frozenset(names)


async def _name_topics(topics: list[RequestTopic], broker: Broker) -> dict[uuid.UUID, KafkaError]:
    """Fill in the names of topics that are named by their ids; one that is not known has none.

    Returns why Pulsar could not be asked, of those of which it could not.
    """
    unknown: list[uuid.UUID] = []
    async for topic in in_turns(topics):
        known = broker.topics.cached_by_id(topic.topic_id)
        if known is None:
            unknown.append(topic.topic_id)
        else:
            topic.topic = known.name
    if not unknown:
        return {}
    await own_task()
    found = await gathered_for(unknown, lambda topic_id: _by_id(topic_id, broker))
    async for topic in in_turns(topics):
        late = found.get(topic.topic_id)
        if isinstance(late, Topic):
            topic.topic = late.name
    return {topic_id: error for topic_id, error in found.items() if isinstance(error, KafkaError)}


async def _by_id(topic_id: uuid.UUID, broker: Broker) -> Topic | KafkaError | None:
    try:
        return await broker.topics.by_id(topic_id)
    except KafkaError as error:
        return error.bare()


def _open(part: FetchPartition, broker: Broker, topic: Topic) -> bool:
    """Open a partition of this topic, or find out why not; False where its client knows of a newer leader."""
    wanted = part.wanted
    try:
        if part.topic_id not in (topic.id, ZERO_UUID):  # another topic of the same name
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        part.log = leadership.log_here(
            broker, topic, wanted.partition, wanted.current_leader_epoch, or_follower=part.or_follower
        )
    except KafkaError as error:
        part.error = error.bare()
        return error.code != ErrorCode.UNKNOWN_LEADER_EPOCH
    return True


async def _open_late(part: FetchPartition, broker: Broker) -> None:
    """Open a partition for which Pulsar has to be asked, or whose client knows of a newer leader."""
    part.error, wanted = None, part.wanted
    try:
        topic = await broker.topics.get(part.topic)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not _open(part, broker, topic):
            await broker.cluster.caught_up(topic.name, wanted.partition, wanted.current_leader_epoch)
            part.error = None
            _open(part, broker, topic)
    except KafkaError as error:
        part.error = error.bare()
