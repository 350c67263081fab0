"""CreatePartitions: give topics more partitions (KIP-195).

v2 is flexible; v3 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from collections import Counter
from collections.abc import Iterator

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message
from bridge.requests.api import Api, Broker, RequestLimit
from bridge.requests.audit import AuditedChange
from bridge.requests.rights import each
from bridge.requests.session import Session
from bridge.requests.topic_creation import MAX_PARTITIONS
from bridge.runtime.futures import gathered, within
from bridge.security.acls import Operation
from bridge.storage.topics.topic import Topic


@message
class Assignment:
    """Replicas the client wants for a new partition."""

    broker_ids: list[Int32]


@message
class RequestTopic:
    """A topic, how many partitions it should have, and where the new ones should be."""

    name: str
    count: Int32
    assignments: list[Assignment] | None


@message
class Request:
    """Topics that are to get partitions."""

    topics: list[RequestTopic]
    timeout_ms: Int32
    validate_only: bool


@message
class ResponseTopic:
    """One topic's result."""

    name: str
    error_code: Int16
    error_message: str | None = None


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    results: list[ResponseTopic]


_THROTTLED = 3
"""From this version on what exceeds a quota is refused (KIP-599)."""


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Add the partitions; the answer is sent when a produce to them would work."""
    times = Counter(topic.name for topic in request.topics)
    wanted = {topic.name: topic for topic in request.topics}.values()
    grown = [_grow(topic, times[topic.name] > 1, request, broker, session) for topic in wanted]
    return Response(results=await gathered(grown))


async def _grow(wanted: RequestTopic, twice: bool, request: Request, broker: Broker, session: Session) -> ResponseTopic:
    try:
        if twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        topic = await broker.topics.current(wanted.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        _check(topic, wanted, broker)
        more = wanted.count - topic.partitions
        session.count_mutations(more, strict_from=_THROTTLED)
        await broker.topics.partition_limit.check(wanted.count, more, only=request.validate_only)
        if not request.validate_only:
            await within(request.timeout_ms, broker.topics.add_partitions(topic, wanted.count))
    except TimeoutError:
        text = "Pulsar has not created the partitions in time"
        return ResponseTopic(name=wanted.name, error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=text)
    except KafkaError as error:
        return ResponseTopic(name=wanted.name, error_code=error.code, error_message=error.message or None)
    return ResponseTopic(name=wanted.name, error_code=ErrorCode.NONE)


def _check(topic: Topic, wanted: RequestTopic, broker: Broker) -> None:
    """The checks of Kafka's ReplicationControlManager, and that Pulsar can add partitions to the topic."""
    more = wanted.count - topic.partitions
    if more == 0:
        text = f"Topic already has {topic.partitions} partition(s)."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
    if more < 0:
        text = f"The topic {topic.name} currently has {topic.partitions} partition(s); "
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, text + f"{wanted.count} would not be an increase.")
    if more > MAX_PARTITIONS:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if not topic.partitioned:
        text = "Pulsar holds this topic without partitions and cannot add any: delete and create it through Kafka"
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
    if wanted.assignments is None:
        return
    given = len(wanted.assignments)
    if given != more:
        text = f"Attempted to add {more} additional partition(s), but only {given} assignment(s) were specified."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    for one in wanted.assignments:
        broker.cluster.check_replicas(one.broker_ids)


def error_response(request: Request, error: int, text: str, version: int) -> Response:
    """The error of every topic."""
    results = [ResponseTopic(name=one.name, error_code=error, error_message=text or None) for one in request.topics]
    return Response(results=results)


def audit(request: Request, response: Response) -> Iterator[AuditedChange]:
    """The topics that have grown, and how many partitions they have now."""
    counts = {one.name: str(one.count) for one in request.topics}
    for one in response.results if not request.validate_only else ():
        yield AuditedChange(one.error_code, "topic", one.name, "partitions added", counts.get(one.name, ""))


API = Api(
    key=37,
    name="CreatePartitions",
    min_version=0,
    max_version=3,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=each(Operation.ALTER),
    error_response=error_response,
    audit=audit,
    limits=(
        RequestLimit("partitions of a topic", "kafka.max_partitions_per_topic", ErrorCode.INVALID_PARTITIONS),
        RequestLimit("partitions that a topic gets", MAX_PARTITIONS, ErrorCode.POLICY_VIOLATION),
        RequestLimit("partitions of all topics there are", "kafka.max_partitions", ErrorCode.POLICY_VIOLATION),
    ),
)
