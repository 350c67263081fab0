"""CreateTopics: make topics with their partitions and configuration.

v4 allows -1 for the default number of partitions and replicas (KIP-464); v5 is flexible and answers with the
configuration (KIP-525); v6 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599); v7 answers with the topic id (KIP-516).
"""

from dataclasses import field
from typing import Annotated

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID, Int8, Int16, Int32, Uuid, message, since, tag


@message
class Assignment:
    """Replicas the client wants for a partition."""

    partition_index: Int32
    broker_ids: list[Int32]


@message
class RequestConfig:
    """One setting of the topic."""

    name: str
    value: str | None


@message
class RequestTopic:
    """A topic to create."""

    name: str
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[Assignment]
    configs: list[RequestConfig]


@message
class Request:
    """Topics to create."""

    topics: list[RequestTopic]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


@message
class ResponseConfig:
    """One setting of the new topic."""

    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool


@message
class ResponseTopic:
    """A topic created, or why not."""

    name: str
    topic_id: Annotated[Uuid, since(7)] = ZERO_UUID
    error_code: Int16
    error_message: str | None = None
    topic_config_error_code: Annotated[Int16, tag(0, since=5)] = 0
    num_partitions: Annotated[Int32, since(5)] = -1
    replication_factor: Annotated[Int16, since(5)] = -1
    configs: Annotated[list[ResponseConfig] | None, since(5)] = field(default_factory=list)


@message
class Response:
    """What became of each topic."""

    throttle_time_ms: Int32 = 0
    topics: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse, for now."""
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # the lead fills this in


API = Api(
    key=19,
    name="CreateTopics",
    min_version=2,
    max_version=7,
    flexible=5,
    handle=handle,
    request=Request,
    response=Response,
)
