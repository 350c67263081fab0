"""The states of share partitions at their group's coordinator, whichever node that is: the questions and the answers.

A partition's leader asks as Kafka's brokers ask their share coordinator (KIP-932), over the internal listener:
ReadShareGroupState before it begins, WriteShareGroupState for each change, and ReadShareGroupStateSummary to see
whether its state is still the one that counts. Clients are not told of these APIs, and cannot reach them.

Two tags are ours: the number of a write, by which one whose answer was lost can be repeated, and how many records
beyond the start are done, which Kafka has in a later version.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from bridge.errors import KafkaError
from bridge.groups.share.state_records import ShareState, ShareWrite, StateBatch
from bridge.groups.share.states import ShareStates
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, Int64, Uuid, message, tag
from bridge.requests.api import Api, Broker, OtherNodes, ServedBy
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session
from bridge.requests.transactional import COORDINATOR_AWAY
from bridge.runtime.futures import gathered, loop_time

_T = TypeVar("_T")
_VERSION: Final = 0
_SECONDS: Final = 3.0
"""For how long a coordinator that cannot be asked, or has moved, is asked again."""
_AGAIN_SECONDS: Final = 0.1


@message
class Batch:
    """Records in the same state: offsets, both within."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@message
class ReadPartition:
    """A partition, and the epoch of the leader that asks."""

    partition: Int32
    leader_epoch: Int32


@message
class ReadTopic:
    """A topic's partitions."""

    topic_id: Uuid
    partitions: list[ReadPartition]


@message
class ReadRequest:
    """Partitions of a group to read."""

    group_id: str
    topics: list[ReadTopic]


@message
class ReadResult:
    """The state of a partition."""

    partition: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[Batch]
    done: Annotated[Int64, tag(10_000, since=0)] = 0
    number: Annotated[Int64, tag(10_001, since=0)] = 0


@message
class ReadTopicResult:
    """A topic's partitions."""

    topic_id: Uuid
    partitions: list[ReadResult]


@message
class ReadResponse:
    """The states."""

    results: list[ReadTopicResult]


@message
class WritePartition:
    """A partition, and its whole state."""

    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    state_batches: list[Batch]
    done: Annotated[Int64, tag(10_000, since=0)] = 0
    number: Annotated[Int64, tag(10_001, since=0)] = 0


@message
class WriteTopic:
    """A topic's partitions."""

    topic_id: Uuid
    partitions: list[WritePartition]


@message
class WriteRequest:
    """Partitions of a group to store."""

    group_id: str
    topics: list[WriteTopic]


@message
class WriteResult:
    """Whether it is stored."""

    partition: Int32
    error_code: Int16 = 0
    error_message: str | None = None


@message
class WriteTopicResult:
    """A topic's partitions."""

    topic_id: Uuid
    partitions: list[WriteResult]


@message
class WriteResponse:
    """What is stored."""

    results: list[WriteTopicResult]


@message
class SummaryRequest:
    """Partitions of a group to look at; to read their states would make who asks their leader."""

    group_id: str
    topics: list[ReadTopic]


@message
class SummaryResult:
    """The epochs and the start of a partition's state."""

    partition: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0


@message
class SummaryTopicResult:
    """A topic's partitions."""

    topic_id: Uuid
    partitions: list[SummaryResult]


@message
class SummaryResponse:
    """What was found."""

    results: list[SummaryTopicResult]


class NodesShareStates:
    """The states of the share partitions that this node leads (`shares.persister.Persister`), wherever they are kept.

    A coordinator that cannot be asked is asked again, for a while: COORDINATOR_NOT_AVAILABLE then. A write that has no
    answer may be stored.
    """

    def __init__(self, here: ShareStates, slot_of: Callable[[str], int]) -> None:
        """`here`: of the groups that this node coordinates; `slot_of`: the slot of the views that a group is in."""
        self._here = here
        self._slot_of = slot_of
        self.others: OtherNodes | None = None
        """None: no other node can be asked."""

    async def read(self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int) -> ShareState:
        """As `ShareStates.read`."""
        one = ReadPartition(partition=partition, leader_epoch=leader_epoch)
        request = ReadRequest(group_id=group_id, topics=[ReadTopic(topic_id=topic_id, partitions=[one])])

        async def here() -> ShareState:
            return await self._here.read(group_id, topic_id, partition, leader_epoch)

        async def there(others: OtherNodes, node: int) -> ShareState:
            found = _only(await others.ask(node, READ, request, _VERSION))
            batches = tuple(_state_batch(batch) for batch in found.state_batches)
            return ShareState(
                found.state_epoch, leader_epoch, found.start_offset, batches, found.done, found.number
            )  # fmt: skip

        return await self._at_coordinator(group_id, here, there)

    async def write(self, group_id: str, topic_id: UUID, partition: int, write: ShareWrite) -> None:
        """As `ShareStates.write`."""
        one = WritePartition(
            partition=partition,
            state_epoch=write.state_epoch,
            leader_epoch=write.leader_epoch,
            start_offset=write.start,
            state_batches=_batches(write.batches),
            done=write.done,
            number=write.q,
        )
        request = WriteRequest(group_id=group_id, topics=[WriteTopic(topic_id=topic_id, partitions=[one])])

        async def here() -> None:
            await self._here.write(group_id, topic_id, partition, write)

        async def there(others: OtherNodes, node: int) -> None:
            _only(await others.ask(node, WRITE, request, _VERSION))

        await self._at_coordinator(group_id, here, there)

    async def check(self, group_id: str, topic_id: UUID, partition: int, state_epoch: int, leader_epoch: int) -> None:
        """As `ShareStates.check`."""
        one = ReadPartition(partition=partition, leader_epoch=leader_epoch)
        request = SummaryRequest(group_id=group_id, topics=[ReadTopic(topic_id=topic_id, partitions=[one])])

        async def here() -> None:
            await self._here.check(group_id, topic_id, partition, state_epoch, leader_epoch)

        async def there(others: OtherNodes, node: int) -> None:
            found = _only(await others.ask(node, SUMMARY, request, _VERSION))
            if (found.state_epoch, found.leader_epoch) != (state_epoch, leader_epoch):
                raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"the state epoch is {found.state_epoch}")

        await self._at_coordinator(group_id, here, there)

    async def _at_coordinator(
        self,
        group_id: str,
        here: Callable[[], Awaitable[_T]],
        there: Callable[[OtherNodes, int], Awaitable[_T]],
    ) -> _T:
        until = loop_time() + _SECONDS
        while True:
            others = self.others
            node = None if others is None else others.coordinator(self._slot_of(group_id))
            try:
                return await here() if others is None or node is None else await there(others, node)
            except KafkaError as error:
                if error.code not in COORDINATOR_AWAY:
                    raise
                if others is None or loop_time() >= until:
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from None
            await asyncio.sleep(_AGAIN_SECONDS)


def _batches(batches: Sequence[StateBatch]) -> list[Batch]:
    return [
        Batch(first_offset=one.first, last_offset=one.last, delivery_state=one.state, delivery_count=one.deliveries)
        for one in batches
    ]


def _state_batch(batch: Batch) -> StateBatch:
    return StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)


def _only(response: Any) -> Any:
    """The only partition of an answer; KafkaError with its error."""
    for topic in response.results:
        for one in topic.partitions:
            if one.error_code:
                raise KafkaError(one.error_code, one.error_message or "")
            return one
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the coordinator's answer is empty")


# ---- at the coordinator ----------------------------------------------------------------------------------------------


async def _answers(request: Any, one: Callable[[UUID, Any], Coroutine[Any, Any, _T]]) -> list[tuple[UUID, list[_T]]]:
    """What `one` says of each partition, by topic."""
    return [
        (topic.topic_id, await gathered(one(topic.topic_id, asked) for asked in topic.partitions))
        for topic in request.topics
    ]


async def _read(request: ReadRequest, broker: Broker, session: Session) -> ReadResponse:
    async def one(topic_id: UUID, asked: ReadPartition) -> ReadResult:
        try:
            found = await broker.groups.share_states.read(
                request.group_id, topic_id, asked.partition, asked.leader_epoch
            )
        except KafkaError as error:
            return ReadResult(
                partition=asked.partition, error_code=error.code, error_message=error.message, state_batches=[]
            )
        return ReadResult(
            partition=asked.partition,
            state_epoch=found.state_epoch,
            start_offset=found.start,
            state_batches=_batches(found.batches),
            done=found.done,
            number=found.q,
        )

    found = await _answers(request, one)
    return ReadResponse(results=[ReadTopicResult(topic_id=topic, partitions=each) for topic, each in found])


async def _write(request: WriteRequest, broker: Broker, session: Session) -> WriteResponse:
    async def one(topic_id: UUID, told: WritePartition) -> WriteResult:
        batches = tuple(map(_state_batch, told.state_batches))
        write = ShareWrite(
            told.state_epoch, told.leader_epoch, told.number, told.start_offset, batches, told.done
        )  # fmt: skip
        try:
            await broker.groups.share_states.write(request.group_id, topic_id, told.partition, write)
        except KafkaError as error:
            return WriteResult(partition=told.partition, error_code=error.code, error_message=error.message)
        return WriteResult(partition=told.partition)

    found = await _answers(request, one)
    return WriteResponse(results=[WriteTopicResult(topic_id=topic, partitions=each) for topic, each in found])


async def _summary(request: SummaryRequest, broker: Broker, session: Session) -> SummaryResponse:
    async def one(topic_id: UUID, asked: ReadPartition) -> SummaryResult:
        try:
            found = await broker.groups.share_states.summary(request.group_id, topic_id, asked.partition)
            if found is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if asked.leader_epoch < found.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {found.leader_epoch} has read it")
        except KafkaError as error:
            return SummaryResult(partition=asked.partition, error_code=error.code, error_message=error.message)
        return SummaryResult(
            partition=asked.partition,
            state_epoch=found.state_epoch,
            leader_epoch=found.leader_epoch,
            start_offset=found.start,
        )

    found = await _answers(request, one)
    return SummaryResponse(results=[SummaryTopicResult(topic_id=topic, partitions=each) for topic, each in found])


def _api(key: int, name: str, request: type, response: type, handle: Any) -> Api:
    return Api(
        key=key,
        name=name,
        min_version=_VERSION,
        max_version=_VERSION,
        flexible=0,
        handle=handle,
        request=request,
        response=response,
        rights=NOTHING,
        served_by=ServedBy.COORDINATOR,
    )


READ: Final = _api(84, "ReadShareGroupState", ReadRequest, ReadResponse, _read)
WRITE: Final = _api(85, "WriteShareGroupState", WriteRequest, WriteResponse, _write)
SUMMARY: Final = _api(87, "ReadShareGroupStateSummary", SummaryRequest, SummaryResponse, _summary)
APIS: Final = (READ, WRITE, SUMMARY)
"""What nodes are answered, and nobody else."""
