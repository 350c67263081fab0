"""CreateTopics: make topics with their partitions and configuration.

v4 allows -1 for the default number of partitions and replicas (KIP-464); v5 is flexible and answers with the
configuration (KIP-525); v6 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599); v7 answers with the topic id (KIP-516).
"""

import asyncio
from collections import Counter
from dataclasses import field
from typing import Annotated

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID, Int8, Int16, Int32, Uuid, message, since, tag
from bridge.storage import names
from bridge.storage.configs import Entry, describe, policies


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


DEFAULT = -1
"""Partitions or replicas as the server likes."""


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Create each topic; the answer comes when a produce to all its partitions would work."""
    times = Counter(topic.name for topic in request.topics)
    created = [_create(topic, times[topic.name] > 1, request, broker) for topic in request.topics]
    return Response(topics=list(await asyncio.gather(*created)))


async def _create(wanted: RequestTopic, twice: bool, request: Request, broker: Broker) -> ResponseTopic:
    try:
        if twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the topic is named twice in one request")
        partitions = _partitions(wanted, broker)
        _check_replicas(wanted)
        asked = {config.name: config.value for config in wanted.configs}
        configs, facts = await broker.topics.administration.check(asked)
        if request.validate_only:
            names.check(wanted.name)
            if await broker.topics.get(wanted.name) is not None:
                raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {wanted.name} exists")
            topic_id = ZERO_UUID
        else:
            async with asyncio.timeout(max(request.timeout_ms, 1) / 1000):
                topic_id = (await broker.topics.create(wanted.name, partitions, asked)).id
    except TimeoutError:
        return _refused(wanted, ErrorCode.REQUEST_TIMED_OUT, "Pulsar has not finished creating the topic in time")
    except KafkaError as error:
        return _refused(wanted, error.code, error.message)
    return ResponseTopic(
        name=wanted.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        num_partitions=partitions,
        replication_factor=1,
        configs=[_config(entry) for entry in describe(configs, policies(configs, facts), facts)],
    )


def _config(entry: Entry) -> ResponseConfig:
    return ResponseConfig(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=False,
    )


def _refused(wanted: RequestTopic, code: int, text: str) -> ResponseTopic:
    return ResponseTopic(name=wanted.name, error_code=code, error_message=text or None)


def _partitions(wanted: RequestTopic, broker: Broker) -> int:
    if wanted.assignments:
        if wanted.num_partitions != DEFAULT or wanted.replication_factor != DEFAULT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "an assignment leaves no choice of partitions or replicas")
        if {one.partition_index for one in wanted.assignments} != set(range(len(wanted.assignments))):
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0 without gaps")
        nodes = {node.id for node in broker.cluster.nodes}
        if any(not one.broker_ids or not nodes.issuperset(one.broker_ids) for one in wanted.assignments):
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the brokers here are {sorted(nodes)}")
        return len(wanted.assignments)
    if wanted.num_partitions == DEFAULT:
        return broker.settings.kafka.default_partitions
    if wanted.num_partitions < 1:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "a topic has one partition at least")
    return wanted.num_partitions


def _check_replicas(wanted: RequestTopic) -> None:
    """Any number will do: copies are Pulsar's business, set by its own quorums."""
    if wanted.replication_factor != DEFAULT and wanted.replication_factor < 1:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "a topic has one replica at least")


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
