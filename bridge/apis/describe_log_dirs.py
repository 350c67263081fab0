"""DescribeLogDirs: the size of each partition on disk (KIP-113).

v2 is flexible; v3 adds an error code; v4 the sizes of the volume (KIP-827), which are unknown here.
The only directory stands for the namespace, as the data are spread over bookies. A node lists what it leads.
"""

import asyncio
from typing import Annotated

from bridge.cluster import Cluster
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.runtime.futures import gathered
from bridge.security.acls import Operation

TOP_LEVEL_ERROR = 3
_AT_ONCE = 8


@message
class RequestTopic:
    """Partitions asked about."""

    topic: str
    partitions: list[Int32]


@message
class Request:
    """The partitions asked about, null for all."""

    topics: list[RequestTopic] | None


@message
class Partition:
    """A partition's size; the lag is that of a replica."""

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64 = 0
    is_future_key: bool = False


@message
class Topic:
    """One topic's partitions."""

    name: str
    partitions: list[Partition]


@message
class Directory:
    """A directory and what is in it."""

    error_code: Int16
    log_dir: str
    topics: list[Topic]
    total_bytes: Annotated[Int64, since(4)] = -1
    usable_bytes: Annotated[Int64, since(4)] = -1


@message
class Response:
    """All directories."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(TOP_LEVEL_ERROR)] = 0
    results: list[Directory]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """List each partition's stored bytes; as in Kafka, what does not exist is left out."""
    directory = directory_of(broker)
    wanted: dict[str, set[int] | None]
    try:
        if request.topics is None:
            wanted = {topic.name: None for topic in await broker.topics.all()}
        else:
            wanted = {topic.topic: set(topic.partitions) for topic in request.topics}
        limit = asyncio.Semaphore(_AT_ONCE)
        found = await gathered(_topic(name, which, limit, broker) for name, which in wanted.items())
    except KafkaError as error:
        failed = Directory(error_code=error.code, log_dir=directory, topics=[])
        return Response(error_code=error.code, results=[failed])
    topics = led([topic for topic in found if topic is not None], broker.cluster)
    return Response(results=[Directory(error_code=ErrorCode.NONE, log_dir=directory, topics=topics)])


def led(topics: list[Topic], cluster: Cluster) -> list[Topic]:
    """The partitions of one view that this node leads: over all nodes each is listed once."""
    here, snapshot = cluster.node_id, cluster.snapshot
    for topic in topics:
        topic.partitions = [one for one in topic.partitions if snapshot.leads(here, topic.name, one.partition_index)]
    return [topic for topic in topics if topic.partitions]


def directory_of(broker: Broker) -> str:
    """The only directory: the namespace."""
    return f"persistent://{broker.settings.pulsar.full_namespace}"


async def _topic(name: str, which: set[int] | None, limit: asyncio.Semaphore, broker: Broker) -> Topic | None:
    try:
        topic = await broker.topics.get(name)
        if topic is None:
            return None
        async with limit:
            sizes = await broker.topics.administration.sizes(topic)
    except KafkaError as error:
        if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            return None
        raise
    partitions = [
        Partition(partition_index=index, partition_size=size)
        for index, size in enumerate(sizes)
        if which is None or index in which
    ]
    return Topic(name=name, partitions=partitions) if partitions else None


def error_response(request: Request, error: int, text: str, version: int) -> Response | None:
    """The error of the answer; before v3, where it has no place, those who may not know of any see no directories."""
    is_told = version >= TOP_LEVEL_ERROR or error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return Response(error_code=error, results=[]) if is_told else None


API = Api(
    key=35,
    name="DescribeLogDirs",
    min_version=1,
    max_version=4,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.DESCRIBE, of_a_namespace=True),
    error_response=error_response,
    served_by=ServedBy.ITSELF,
    read_only=True,
)
