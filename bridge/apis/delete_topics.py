"""DeleteTopics: remove topics and their records.

v4 is flexible; v5 adds error texts; v6 names topics by name or by id (KIP-516).
"""

import asyncio
from dataclasses import field
from typing import Annotated

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID, Int16, Int32, Uuid, message, nullable_since, since, until


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
    """A topic deleted, or why not."""

    name: Annotated[str | None, nullable_since(6)]
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    error_code: Int16
    error_message: Annotated[str | None, since(5)] = None


@message
class Response:
    """What became of each topic."""

    throttle_time_ms: Int32 = 0
    responses: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Delete each topic; the answer comes when Pulsar has."""
    wanted = request.topics or [RequestTopic(name=name) for name in request.topic_names]
    return Response(responses=list(await asyncio.gather(*(_delete(topic, broker) for topic in wanted))))


async def _delete(wanted: RequestTopic, broker: Broker) -> ResponseTopic:
    try:
        if wanted.name is None:
            topic = await broker.topics.by_id(wanted.topic_id)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic = await broker.topics.get(wanted.name)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None:
            raise KafkaError(unknown, "this server does not host this topic")
        await broker.topics.delete(topic)
        await broker.offsets.forget_topic(topic.name)
    except KafkaError as error:
        return ResponseTopic(
            name=wanted.name, topic_id=wanted.topic_id, error_code=error.code, error_message=error.message or None
        )
    return ResponseTopic(name=topic.name, topic_id=topic.id, error_code=ErrorCode.NONE)


API = Api(
    key=20,
    name="DeleteTopics",
    min_version=1,
    max_version=6,
    flexible=4,
    handle=handle,
    request=Request,
    response=Response,
)
