"""OffsetFetch: how far groups have read.

v2 takes null for all topics, and adds an error_code; v3 adds throttle_time_ms; v5 adds committed_leader_epoch
(KIP-320); v6 is flexible; v7 adds require_stable: no offset that an open transaction may change (KIP-447); v8 takes
and answers several groups (KIP-709); v9 lets members of the new consumer protocol name their epoch (KIP-848); v10
names topics by their ids.

Java's consumers before 3.9 end `poll` at COORDINATOR_NOT_AVAILABLE (KAFKA-17279). So it is NOT_COORDINATOR here, after
which all look the coordinator up again. But librdkafka, up to 2.16 at least, never asks again after either: its
consumer stays a member and reads nothing (confluentinc/librdkafka#5586). It does when its connection breaks.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import field
from typing import Annotated, Any, Final, Protocol, TypeVar

from bridge.apis.offset_commit import BY_ID, name_topics
from bridge.errors import KafkaError, Unanswered
from bridge.groups.store.records import StoredOffset
from bridge.groups.store.visible import TopicPartition
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID, Int16, Int32, Int64, Uuid, message, nullable_since, since, until
from bridge.requests.api import Api, Broker, RequestLimit, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.error_response import error_response as error_of_all
from bridge.requests.rights import GROUP, TOPIC, joined, refused, take_out
from bridge.requests.routes import OF_GROUP, OfGroups, Owners, Route
from bridge.requests.session import Session
from bridge.requests.topics import known_topic
from bridge.runtime.futures import gathered, gathered_for, in_turns
from bridge.security.acls import Operation, Resource

TOP_LEVEL_ERROR = 2
_ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_NONE = StoredOffset(-1)
MOST_REPEATED: Final = 200_000
"""Offsets of groups that one request names again."""


@message
class Topic:
    """Partitions of a topic; `topic_id` from v10 on, `name` before."""

    name: Annotated[str, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partition_indexes: list[Int32] = field(default_factory=list)


@message
class RequestGroup:
    """A group; no topics: all it has committed to."""

    group_id: str
    member_id: Annotated[str | None, since(9), nullable_since(9)] = None
    member_epoch: Annotated[Int32, since(9)] = -1
    topics: list[Topic] | None = None


@message
class Request:
    """Groups: `groups` from v8 on, one before."""

    group_id: Annotated[str, until(7)] = ""
    topics: Annotated[list[Topic] | None, until(7), nullable_since(2)] = field(default_factory=list)
    groups: Annotated[list[RequestGroup], since(8)] = field(default_factory=list)
    require_stable: Annotated[bool, since(7)] = False


@message
class ResponsePartition:
    """A committed offset, -1 where there is none."""

    partition_index: Int32
    committed_offset: Int64 = -1
    committed_leader_epoch: Annotated[Int32, since(5)] = -1
    metadata: str | None = ""
    error_code: Int16


@message
class ResponseTopic:
    """Partitions of a topic; `topic_id` from v10 on, `name` before."""

    name: Annotated[str, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[ResponsePartition] = field(default_factory=list)


@message
class ResponseGroup:
    """One group's offsets."""

    group_id: str
    topics: list[ResponseTopic] = field(default_factory=list)
    error_code: Int16 = 0


@message
class Response:
    """Groups: `groups` from v8 on, one before."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: Annotated[list[ResponseTopic], until(7)] = field(default_factory=list)
    error_code: Annotated[Int16, since(2), until(7)] = 0
    groups: Annotated[list[ResponseGroup], since(8)] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer from memory, which holds what Pulsar has acknowledged."""
    if request.groups:
        by_id = session.api_version >= BY_ID
        return _answerable(Response(groups=await _groups(request, by_id, broker)), session)
    wanted = RequestGroup(group_id=request.group_id, topics=request.topics)
    one = await _group(wanted, request.require_stable, False, broker)
    one.error_code = _told(one.error_code, session)
    if one.error_code and session.api_version < TOP_LEVEL_ERROR:  # the partitions are the only place for it
        one.topics = await _named(request.topics or (), {}, ErrorCode(one.error_code))
    return Response(topics=one.topics, error_code=one.error_code)


async def _groups(request: Request, by_id: bool, broker: Broker) -> list[ResponseGroup]:
    errors = await gathered(_refusal(one, broker) for one in request.groups)
    served = [one async for one, error in in_turns(zip(request.groups, errors, strict=True)) if not error]
    told = iter(await groups_in_order(served, lambda one: _group(one, request.require_stable, by_id, broker)))
    return [
        ResponseGroup(group_id=one.group_id, error_code=error) if error else next(told)
        async for one, error in in_turns(zip(request.groups, errors, strict=True))
    ]


async def _refusal(group: RequestGroup, broker: Broker) -> int:
    """Why the member that asks gets nothing; NONE: it gets what it asks for, or names no member."""
    try:
        if group.member_id is not None or group.member_epoch >= 0:
            await broker.groups.check_fetch(group.group_id, group.member_id, group.member_epoch)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


class AskedGroup(Protocol):
    """A group of a request; without topics all of its offsets are asked for."""

    group_id: str
    topics: Any


class GroupOffsets(Protocol):
    """A group of an answer, with its offsets."""

    error_code: int
    topics: list[Any]


_A = TypeVar("_A", bound=AskedGroup)
_G = TypeVar("_G", bound=GroupOffsets)


async def groups_in_order(groups: Sequence[_A], describe: Callable[[_A], Coroutine[Any, Any, _G]]) -> list[_G]:
    """The groups as they were asked for, also twice, as Kafka does; INVALID_REQUEST where repetitions come to too much.

    Who asks for all offsets of a group names the group alone, and may do so a hundred thousand times, as whichever
    member: these are described once.
    """
    keys = [(one.group_id, None if one.topics is None else number) async for number, one in in_turns(enumerate(groups))]
    asked = dict(zip(keys, groups, strict=True))
    found = await gathered_for(keys, lambda key: describe(asked[key]))
    answer, repeated, told = [], 0, set[tuple[str, int | None]]()
    async for key in in_turns(keys):
        group = found[key]
        if key in told:
            group = copy(group)
            if repeated <= MOST_REPEATED:
                repeated += sum(len(topic.partitions) for topic in group.topics)
            if repeated > MOST_REPEATED:
                group.error_code, group.topics = ErrorCode.INVALID_REQUEST, []
        told.add(key)
        answer.append(group)
    return answer


def _answerable(response: Response, session: Session) -> Response:
    """The response, as its client can take it; Unanswered."""
    response.error_code = _told(response.error_code, session)
    for group in response.groups:
        group.error_code = _told(group.error_code, session)
    return response


def _told(code: int, session: Session) -> int:
    """What the client is told, so that it asks again; Unanswered where no code does that."""
    if code in _ELSEWHERE and session.is_librdkafka:
        raise Unanswered(code, "the coordinator is elsewhere, or cannot say now")
    return ErrorCode.NOT_COORDINATOR if code in _ELSEWHERE else code


async def _group(group: RequestGroup, require_stable: bool, by_id: bool, broker: Broker) -> ResponseGroup:
    try:
        offsets = await broker.offsets.fetch(group.group_id, require_stable=require_stable)
        if by_id and group.topics is not None:
            await name_topics(group.topics, broker)
        found = await (_all(offsets) if group.topics is None else _named(group.topics, offsets, ErrorCode.NONE))
        if by_id:
            found = await _identified(found, group.topics, broker)
    except KafkaError as error:
        return ResponseGroup(group_id=group.group_id, error_code=error.code)
    return ResponseGroup(group_id=group.group_id, topics=found)


async def _identified(found: list[ResponseTopic], asked: Sequence[Topic] | None, broker: Broker) -> list[ResponseTopic]:
    """The same with ids: of all topics those that still exist, of those asked for also what is not known."""
    if asked is None:
        topics = await gathered(known_topic(topic.name, broker) for topic in found)
        for known, topic in zip(topics, found, strict=True):
            topic.topic_id = ZERO_UUID if known is None else known.id
        return [topic for topic in found if topic.topic_id != ZERO_UUID]
    async for wanted, topic in in_turns(zip(asked, found, strict=True)):
        topic.topic_id = wanted.topic_id
        if not wanted.name:
            for partition in topic.partitions:
                partition.error_code = ErrorCode.UNKNOWN_TOPIC_ID
    return found


async def _named(
    topics: Iterable[Topic], offsets: Mapping[TopicPartition, StoredOffset | None], error: ErrorCode
) -> list[ResponseTopic]:
    return [
        ResponseTopic(
            name=topic.name,
            partitions=[
                _partition(index, offsets.get((topic.name, index), _NONE), error)
                async for index in in_turns(topic.partition_indexes)
            ],
        )
        async for topic in in_turns(topics)
    ]


async def _all(offsets: Mapping[TopicPartition, StoredOffset | None]) -> list[ResponseTopic]:
    topics: dict[str, ResponseTopic] = {}
    async for name, index in in_turns(sorted(offsets)):
        topic = topics.setdefault(name, ResponseTopic(name=name))
        topic.partitions.append(_partition(index, offsets[name, index], ErrorCode.NONE))
    return list(topics.values())


def _partition(index: int, stored: StoredOffset | None, error: int) -> ResponsePartition:
    if stored is None:
        return ResponsePartition(partition_index=index, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return ResponsePartition(
        partition_index=index,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
        error_code=error,
    )


def _refused(topic: Topic, error: int) -> ResponseTopic:
    partitions = [_partition(index, _NONE, error) for index in topic.partition_indexes]
    return ResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def error_response(request: Request, error: int, text: str, version: int) -> Any:
    """The error of each group, or of each partition."""
    code = ErrorCode.NOT_COORDINATOR if error in _ELSEWHERE else error
    return error_of_all(request, Response, code, text, version)


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    try:
        return await (_check_several if request.groups else _check_one)(request, checks, rest)
    except KafkaError as error:  # it is not known who may do what
        _told(error.code, checks.session)
        raise


async def _check_several(request: Request, checks: Checks, rest: Rest) -> Any:
    refusals = await refused(request, checks, Operation.DESCRIBE, GROUP, "groups", "group_id")
    request.groups = [copy(group) for group in request.groups]
    hidden = [await _hide(group, checks) for group in request.groups]  # a group may be named several times
    response = await rest(request) if request.groups else Response(groups=[])
    for group, taken in zip(response.groups, hidden, strict=True):
        if group.error_code == ErrorCode.NONE:
            group.topics = await _shown(group.topics, taken, checks)
    return joined(response, refusals)


async def _check_one(request: Request, checks: Checks, rest: Rest) -> Any:
    await checks.require(Operation.DESCRIBE, Resource(GROUP, request.group_id))
    hidden = await _hide(request, checks)
    response: Response = await rest(request)
    if response.error_code == ErrorCode.NONE:
        response.topics = await _shown(response.topics, hidden, checks)
    return response


async def _hide(group: Request | RequestGroup, checks: Checks) -> list[Topic] | None:
    """Take out the topics that the client may not describe; None: it asks for all there are."""
    if group.topics is None:
        return None
    by_id = checks.session.api_version >= BY_ID
    if by_id:
        await name_topics(group.topics, checks.broker)
    return await take_out(group, checks, Operation.DESCRIBE, TOPIC, "topics", "name", may_lack_name=by_id)


async def _shown(topics: list[ResponseTopic], hidden: list[Topic] | None, checks: Checks) -> list[ResponseTopic]:
    if hidden is None:
        if checks.session.api_version >= BY_ID:  # another node's answer has no names
            await name_topics(topics, checks.broker)
        denied = await checks.denied(Operation.DESCRIBE, TOPIC, [topic.name for topic in topics], lists=True)
        return [topic for topic in topics if topic.name and topic.name not in denied]
    return [*topics, *(_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in hidden)]


class OfOneOrMore(Route):
    """The way of a request about one group before v8, and about several since."""

    _several = OfGroups("groups", "groups")

    async def divided(self, request: Request, owners: Owners) -> Mapping[int, Request]:
        """As its groups."""
        return await (self._several if request.groups else OF_GROUP).divided(request, owners)

    def put_together(self, request: Request, answers: Sequence[Response]) -> Response:
        """As its groups."""
        return self._several.put_together(request, answers) if request.groups else answers[0]

    def checked(self, answer: Response, session: Session) -> Response:
        """As of a group that is here."""
        return _answerable(answer, session)


API = Api(
    key=9,
    name="OffsetFetch",
    min_version=1,
    max_version=10,
    flexible=6,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.DESCRIBE, GROUP), Right(Operation.DESCRIBE, TOPIC)), _check_rights),
    error_response=error_response,
    route=OfOneOrMore(),
    served_by=ServedBy.COORDINATOR,
    read_only=True,
    limits=(RequestLimit("offsets of groups that are named again", MOST_REPEATED, ErrorCode.INVALID_REQUEST),),
)
