"""CreateTopics: create topics with their partitions and configs.

v4 allows -1 for the default number of partitions and replicas (KIP-464); v5 is flexible and answers with the
configuration (KIP-525); v6 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599); v7 answers with the topic id (KIP-516).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from typing import Annotated, Any

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID, Int8, Int16, Int32, Uuid, message, since, tag
from bridge.requests.api import Api, Broker, RequestLimit, Rest, Right, Rights
from bridge.requests.audit import AuditedChange
from bridge.requests.authorization import Checks
from bridge.requests.rights import CLUSTER, TOPIC
from bridge.requests.session import Session
from bridge.requests.topic_creation import MAX_PARTITIONS
from bridge.runtime.futures import gathered, within
from bridge.security.acls import Operation
from bridge.storage.topics.configs import ConfigEntry, describe, to_policies
from bridge.storage.topics.creation import check_new_topic


@message
class Assignment:
    """Replicas the client wants for a partition."""

    partition_index: Int32
    broker_ids: list[Int32]


@message
class RequestConfig:
    """A config of the topic."""

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
    """A config of the new topic."""

    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool


@message
class ResponseTopic:
    """One topic's result."""

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
    """The results."""

    throttle_time_ms: Int32 = 0
    topics: list[ResponseTopic]


THROTTLED = 6
"""From this version on what exceeds a quota is refused; before, the next request waits (KIP-599)."""
DEFAULT = -1
"""As many partitions or replicas as the server's default."""


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Create each topic; the answer is sent when a produce to all its partitions would work."""
    times = Counter(topic.name for topic in request.topics)
    wanted = {topic.name: topic for topic in request.topics}.values()
    too_many = sum(_asked_for(topic, broker) for topic in wanted) > MAX_PARTITIONS
    created = [_create(topic, times[topic.name] > 1, too_many, request, broker, session) for topic in wanted]
    return Response(topics=await gathered(created))


async def _create(
    wanted: RequestTopic, twice: bool, too_many: bool, request: Request, broker: Broker, session: Session
) -> ResponseTopic:
    try:
        if twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        if too_many:
            text = "Excessively large number of partitions per request."
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
        await check_new_topic(wanted.name, broker.topics)
        asked = {config.name: config.value for config in wanted.configs}
        configs, defaults = await broker.topics.administration.validate_configs(asked)
        partitions = _partitions(wanted, broker)
        session.count_mutations(partitions, strict_from=THROTTLED)
        await broker.topics.partition_limit.check(partitions, partitions, only=request.validate_only)
        topic_id = ZERO_UUID
        if not request.validate_only:
            creating = broker.topics.create(wanted.name, partitions, asked, is_new=True)
            topic_id = (await within(request.timeout_ms, creating)).id
    except TimeoutError:
        return _refused(wanted, ErrorCode.REQUEST_TIMED_OUT, "Pulsar has not created the topic in time")
    except KafkaError as error:
        return _refused(wanted, error.code, error.message)
    return ResponseTopic(
        name=wanted.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        num_partitions=partitions,
        replication_factor=1,
        configs=[_config(entry) for entry in describe(configs, to_policies(configs, defaults), defaults)],
    )


def _config(entry: ConfigEntry) -> ResponseConfig:
    return ResponseConfig(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=False,
    )


def _refused(wanted: RequestTopic, code: int, text: str) -> ResponseTopic:
    return ResponseTopic(name=wanted.name, error_code=code, error_message=text or None)


def _asked_for(wanted: RequestTopic, broker: Broker) -> int:
    """The partitions of one topic, before they are checked."""
    if wanted.assignments:
        return len(wanted.assignments)
    return (
        broker.settings.kafka.default_partitions if wanted.num_partitions == DEFAULT else max(wanted.num_partitions, 0)
    )


def _partitions(wanted: RequestTopic, broker: Broker) -> int:
    """The number of partitions, checked as by ReplicationControlManager.

    The number of replicas may be any, as Pulsar's quorums decide it.
    """
    if wanted.assignments:
        return _assigned(wanted, broker)
    if wanted.replication_factor != DEFAULT and wanted.replication_factor < 1:
        text = "Replication factor must be larger than 0, or -1 to use the default value."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    if wanted.num_partitions != DEFAULT and wanted.num_partitions < 1:
        text = "Number of partitions was set to an invalid non-positive value."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
    return _asked_for(wanted, broker)


def _assigned(wanted: RequestTopic, broker: Broker) -> int:
    text = "A manual partition assignment was specified, but "
    if wanted.replication_factor != DEFAULT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, text + "replication factor was not set to -1.")
    if wanted.num_partitions != DEFAULT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, text + "numPartitions was not set to -1.")
    seen = set[int]()
    for one in wanted.assignments:
        if one.partition_index in seen:
            text = f"Found multiple manual partition assignments for partition {one.partition_index}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        broker.cluster.check_replicas(one.broker_ids)
        seen.add(one.partition_index)
    if seen != set(range(len(seen))):
        text = "partitions should be a consecutive 0-based integer sequence"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return len(seen)


def audit(request: Request, response: Response) -> Iterator[AuditedChange]:
    """The new topics."""
    for one in response.topics if not request.validate_only else ():
        yield AuditedChange(one.error_code, "topic", one.name, "created")


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refusals: list[ResponseTopic] = []
    if not await checks.allows(Operation.CREATE, quietly=True):
        times = Counter(topic.name for topic in request.topics)
        names = await checks.denied(Operation.CREATE, TOPIC, [name for name in times if times[name] == 1])
        refusals = [_refused(one, denied, "Authorization failed.") for one in request.topics if one.name in names]
        request.topics = [topic for topic in request.topics if topic.name not in names]
    response: Response = await rest(request)
    hidden = await checks.denied(Operation.DESCRIBE_CONFIGS, TOPIC, [one.name for one in response.topics], lists=True)
    for topic in response.topics:
        if topic.name in hidden and topic.error_code == ErrorCode.NONE:
            topic.topic_config_error_code = denied
            topic.num_partitions, topic.replication_factor, topic.configs = -1, -1, []
    response.topics = [*response.topics, *refusals]
    return response


API = Api(
    key=19,
    name="CreateTopics",
    min_version=2,
    max_version=7,
    flexible=5,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        (
            Right(Operation.CREATE, CLUSTER, "or on the topic"),
            Right(Operation.DESCRIBE_CONFIGS, TOPIC, "to be told its configs"),
        ),
        _check_rights,
    ),
    audit=audit,
    limits=(
        RequestLimit("partitions of a topic", "kafka.max_partitions_per_topic", ErrorCode.INVALID_PARTITIONS),
        RequestLimit("partitions of all topics in the request", MAX_PARTITIONS, ErrorCode.POLICY_VIOLATION),
        RequestLimit("partitions of all topics there are", "kafka.max_partitions", ErrorCode.POLICY_VIOLATION),
    ),
)
