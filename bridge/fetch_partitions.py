"""The partitions that a Fetch asks for: their topics by name or by id, and their logs if this node leads them."""

import uuid
from dataclasses import dataclass, field

from bridge import leadership
from bridge.api import Broker
from bridge.errors import KafkaError
from bridge.futures import gathered, gathered_for, in_chunks, in_turns
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_messages import Request, RequestPartition, RequestTopic
from bridge.kafka.message import ZERO_UUID
from bridge.storage.partition import PartitionLog
from bridge.storage.read.pending_reads import ReadRequest
from bridge.storage.topics.topic import Topic


@dataclass(slots=True)
class FetchPartition:
    """One partition of a request and what was found for it."""

    topic: str
    """Its name; "" of one that is named by an id which no topic has."""
    topic_id: uuid.UUID
    """The id that it is named by; zero in the versions that name topics by their names."""
    wanted: RequestPartition
    log: PartitionLog | None = None
    error: KafkaError | None = None
    records: list[bytes] = field(default_factory=list)
    read: bool = False
    """Whether it was read by `PendingReads`; later records come to memory as long as the log is followed."""

    @property
    def position(self) -> ReadRequest:
        """Where to read."""
        return ReadRequest(self.topic, self.wanted.partition, self.wanted.fetch_offset)


async def opened_partitions(request: Request, by_id: bool, broker: Broker) -> list[FetchPartition]:
    """The partitions asked for, opened or with an error; of duplicates the last, as in Kafka (`FullFetchContext`)."""
    unnamed = await _name_topics(request.topics, broker) if by_id else {}
    wanted = {(topic.topic, topic.topic_id, one.partition): one for topic in request.topics for one in topic.partitions}
    parts: list[FetchPartition] = []
    slow: list[FetchPartition] = []
    async for chunk in in_chunks(list(wanted.items())):
        for (topic, topic_id, _), one in chunk:
            part = FetchPartition(topic, topic_id, one)
            parts.append(part)
            if by_id and not topic:
                part.error = unnamed.get(topic_id) or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            elif not _open_nowait(part, broker):
                slow.append(part)
    if slow:
        await gathered(_open(part, broker) for part in slow)
    return parts


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


def _check_id(part: FetchPartition, topic: Topic) -> None:
    """Another topic of the same name is not the one that was asked for by its id."""
    if part.topic_id not in (topic.id, ZERO_UUID):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)


def _open_nowait(part: FetchPartition, broker: Broker) -> bool:
    """Open a partition of a topic that is known already; False if Pulsar has to be asked."""
    topic = broker.topics.cached(part.topic)
    if topic is None:
        return False
    wanted = part.wanted
    try:
        _check_id(part, topic)
        part.log = leadership.log_nowait(broker, topic, wanted.partition, wanted.current_leader_epoch)
    except KafkaError as error:
        part.error = error.bare()
        return True
    return part.log is not None


async def _open(part: FetchPartition, broker: Broker) -> None:
    wanted = part.wanted
    try:
        topic = await broker.topics.get(part.topic)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        _check_id(part, topic)
        part.log = await leadership.opened(broker, topic, wanted.partition, wanted.current_leader_epoch)
    except KafkaError as error:
        part.error = error.bare()
