"""WriteTxnMarkers: end a transaction in the partitions that it has written to (KIP-98); refused: only coordinators do.

Brokers send it to each other. `kafka-transactions abort` sends it for a transaction that its coordinator has forgotten
(KIP-664). v1 is flexible.
"""

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message
from bridge.requests import leadership
from bridge.requests.api import Api, Broker, Right, ServedBy
from bridge.requests.rights import CLUSTER, cluster
from bridge.requests.session import Session
from bridge.runtime.futures import gathered
from bridge.security.acls import Operation


@message
class RequestTopic:
    """Partitions of a topic."""

    name: str
    partition_indexes: list[Int32]


@message
class RequestMarker:
    """A producer, whether its transaction is committed, and where."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: bool
    topics: list[RequestTopic]
    coordinator_epoch: Int32


@message
class Request:
    """Transactions to end."""

    markers: list[RequestMarker]


@message
class ResponsePartition:
    """One partition's result."""

    partition_index: Int32
    error_code: Int16


@message
class ResponseTopic:
    """A topic's partitions."""

    name: str
    partitions: list[ResponsePartition]


@message
class ResponseMarker:
    """A producer's partitions."""

    producer_id: Int64
    topics: list[ResponseTopic]


@message
class Response:
    """The results."""

    markers: list[ResponseMarker]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse each partition: it does not exist, or its transactions are ended by their coordinators alone."""

    async def marker(wanted: RequestMarker) -> ResponseMarker:
        topics = await gathered(_topic(one, broker) for one in wanted.topics)
        return ResponseMarker(producer_id=wanted.producer_id, topics=topics)

    return Response(markers=await gathered(map(marker, request.markers)))


async def _topic(wanted: RequestTopic, broker: Broker) -> ResponseTopic:
    found = (_partition(wanted.name, index, broker) for index in wanted.partition_indexes)
    return ResponseTopic(name=wanted.name, partitions=await gathered(found))


async def _partition(name: str, index: int, broker: Broker) -> ResponsePartition:
    error = int(ErrorCode.INVALID_TXN_STATE)
    try:
        await leadership.log_of(broker, name, index)
    except KafkaError as failure:
        error = failure.code
    return ResponsePartition(partition_index=index, error_code=error)


API = Api(
    key=27,
    name="WriteTxnMarkers",
    min_version=1,
    max_version=1,
    flexible=1,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.CLUSTER_ACTION, instead=Right(Operation.ALTER, CLUSTER, "instead"), of_a_namespace=True),
    served_by=ServedBy.LEADER,
)
