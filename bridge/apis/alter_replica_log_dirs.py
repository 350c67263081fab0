"""AlterReplicaLogDirs: move partitions between a broker's directories (KIP-113); there is only one, the namespace.

v2 is flexible.
"""

from bridge.apis.describe_log_dirs import directory_of
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message
from bridge.requests import leadership
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.runtime.futures import gathered
from bridge.security.acls import Operation


@message
class RequestTopic:
    """Partitions of a topic."""

    name: str
    partitions: list[Int32]


@message
class Directory:
    """The partitions that are to be in a directory."""

    path: str
    topics: list[RequestTopic]


@message
class Request:
    """The wanted directories of partitions."""

    dirs: list[Directory]


@message
class ResponsePartition:
    """One partition's result."""

    partition_index: Int32
    error_code: Int16


@message
class ResponseTopic:
    """A topic's partitions."""

    topic_name: str
    partitions: list[ResponsePartition]


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    results: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Accept the only directory, and refuse any other."""
    here = directory_of(broker)

    async def topic(wanted: RequestTopic, path: str) -> ResponseTopic:
        moved = (_partition(wanted.name, index, path == here, broker) for index in wanted.partitions)
        return ResponseTopic(topic_name=wanted.name, partitions=await gathered(moved))

    moved = (topic(wanted, place.path) for place in request.dirs for wanted in place.topics)
    return Response(results=await gathered(moved))


async def _partition(name: str, index: int, known: bool, broker: Broker) -> ResponsePartition:
    """In the order of Kafka's ReplicaManager: the directory, then the partition."""
    error = int(ErrorCode.NONE)
    try:
        if not known:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND)
        await leadership.log_of(broker, name, index)
    except KafkaError as failure:
        error = failure.code
        if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:  # the replica is on another node
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    return ResponsePartition(partition_index=index, error_code=error)


def error_response(request: Request, error: int, text: str, version: int) -> Response:
    """The error in every partition."""

    def topic(wanted: RequestTopic) -> ResponseTopic:
        partitions = [ResponsePartition(partition_index=index, error_code=error) for index in wanted.partitions]
        return ResponseTopic(topic_name=wanted.name, partitions=partitions)

    return Response(results=[topic(one) for place in request.dirs for one in place.topics])


API = Api(
    key=34,
    name="AlterReplicaLogDirs",
    min_version=1,
    max_version=2,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.ALTER, of_a_namespace=True),
    error_response=error_response,
    served_by=ServedBy.ITSELF,
)
