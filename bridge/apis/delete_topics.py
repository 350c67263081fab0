"""DeleteTopics: remove topics and their records.

v4 is flexible; v5 adds error texts; v6 names topics by name or by id (KIP-516).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Annotated, Any
from uuid import UUID

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID, Int16, Int32, Uuid, message, nullable_since, since, until
from bridge.requests.api import Api, Broker, Rest, Right, Rights
from bridge.requests.audit import AuditedChange
from bridge.requests.authorization import Checks
from bridge.requests.rights import TOPIC, exists
from bridge.requests.session import Session
from bridge.runtime.futures import gathered, gathered_for, in_turns, within
from bridge.security.acls import Operation
from bridge.storage.topics.topic import Topic


@message
class RequestTopic:
    """A topic by name or, when that is null, by id."""

    name: str | None = None
    topic_id: Uuid = ZERO_UUID


@message
class Request:
    """Topics to delete: `topics` from v6 on, `topic_names` before."""

    topics: Annotated[list[RequestTopic], since(6)] = field(default_factory=list)
    topic_names: Annotated[list[str], until(5)] = field(default_factory=list)
    timeout_ms: Int32


@message
class ResponseTopic:
    """One topic's result."""

    name: Annotated[str | None, nullable_since(6)]
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    error_code: Int16
    error_message: Annotated[str | None, since(5)] = None


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    responses: list[ResponseTopic]


_THROTTLED = 5
"""From this version on what exceeds a quota is refused (KIP-599)."""


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Delete each topic; the answer is sent when Pulsar has deleted it."""
    wanted = request.topics or [RequestTopic(name=name) for name in request.topic_names]
    times = Counter[tuple[str | None, UUID]]()
    async for one in in_turns(wanted):
        times[one.name, one.topic_id] += 1
    found = await gathered(_find(*key, times[key] > 1, broker) for key in times)
    answers = [one async for one in in_turns(found) if isinstance(one, ResponseTopic)]
    deleting = []
    for topic, named in _distinct(one for one in found if isinstance(one, Topic)):
        if named > 1:
            text = "The provided topic name maps to an ID that was already supplied."
            answers.append(_refused(topic.name, topic.id, ErrorCode.INVALID_REQUEST, text))
        else:
            deleting.append(_delete(topic, request.timeout_ms, broker, session))
    return Response(responses=[*answers, *await gathered(deleting)])


async def _find(name: str | None, topic_id: UUID, twice: bool, broker: Broker) -> Topic | ResponseTopic:
    """The topic asked for, or why there is none (Kafka's `ControllerApis.deleteTopics`)."""
    try:
        if name is not None and topic_id != ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        if name is None and topic_id == ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        if twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
        if name is None:
            topic, unknown = await _by_id(topic_id, broker), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic, unknown = await broker.topics.current(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None:
            raise KafkaError(unknown, unknown.text)
    except KafkaError as error:
        return _refused(name, topic_id, error.code, error.message)
    return topic


async def _by_id(topic_id: UUID, broker: Broker) -> Topic | None:
    """Pulsar deletes by name: what was created again through another node must not be deleted by its former id."""
    topic = await broker.topics.by_id(topic_id)
    if topic is None or await broker.topics.administration.is_current(topic):
        return topic
    broker.topics.forget(topic)
    return None


def _distinct(found: Iterable[Topic]) -> Iterable[tuple[Topic, int]]:
    """Every topic, and how often it was found: by its name, by its id, or by both."""
    times: dict[str, tuple[Topic, int]] = {}
    for one in found:
        times[one.name] = one, times.get(one.name, (one, 0))[1] + 1
    return times.values()


async def _delete(topic: Topic, timeout_ms: int, broker: Broker, session: Session) -> ResponseTopic:
    async def delete() -> None:
        await broker.topics.delete(topic)
        await broker.offsets.forget_topic(topic.name)

    try:
        session.count_mutations(topic.partitions, strict_from=_THROTTLED)
        await within(timeout_ms, delete())
    except TimeoutError:
        text = "Pulsar has not deleted the topic in time"
        return _refused(topic.name, topic.id, ErrorCode.REQUEST_TIMED_OUT, text)
    except KafkaError as error:
        return _refused(topic.name, topic.id, error.code, error.message)
    return ResponseTopic(name=topic.name, topic_id=topic.id, error_code=ErrorCode.NONE)


def _refused(name: str | None, topic_id: UUID, code: int, text: str) -> ResponseTopic:
    return ResponseTopic(name=name, topic_id=topic_id, error_code=code, error_message=text or None)


def audit(request: Request, response: Response) -> Iterator[AuditedChange]:
    """The topics that are no more."""
    for one in response.responses:
        yield AuditedChange(one.error_code, "topic", one.name or str(one.topic_id), "deleted")


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    """Who may not describe a topic that it names by its id is not told its name (`ControllerApis.deleteTopics`)."""
    if await checks.allows(Operation.DELETE, quietly=True):
        return await rest(request)
    request.topics = request.topics or [RequestTopic(name=name) for name in request.topic_names]
    request.topic_names = []
    ids = {one.topic_id for one in request.topics if one.name is None and one.topic_id != ZERO_UUID}
    known = {one.id: one.name for one in (await gathered_for(ids, checks.broker.topics.by_id)).values() if one}
    names = {one.name for one in request.topics if one.name is not None}.union(known.values())
    hidden = set(await checks.denied(Operation.DESCRIBE, TOPIC, names))
    denied = hidden.union(await checks.denied(Operation.DELETE, TOPIC, names - hidden))
    missing = {name for name in denied - hidden if not await exists(name, checks)}
    times = Counter((one.name, one.topic_id) for one in request.topics)
    kept, refusals = [], []
    async for one in in_turns(request.topics):
        name = one.name if one.name is not None else known.get(one.topic_id)
        is_wrong = times[one.name, one.topic_id] > 1 or (one.name is not None and one.topic_id != ZERO_UUID)
        if name not in denied or is_wrong:  # the handler refuses what is wrong
            kept.append(one)
            continue
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name in missing else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        shown = None if one.name is None and name in hidden else name
        refusals.append(_refused(shown, one.topic_id, code, code.text))
    request.topics = kept
    response: Response = await rest(request)
    response.responses = [*response.responses, *refusals]
    return response


API = Api(
    key=20,
    name="DeleteTopics",
    min_version=1,
    max_version=6,
    flexible=4,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.DELETE, TOPIC, "or ALL CLUSTER"),), _check_rights),
    audit=audit,
)
