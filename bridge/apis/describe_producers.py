"""DescribeProducers: the idempotent and transactional producers that write to partitions (KIP-664).

Those that have an open transaction there are listed, and those that have written through this bridge in the last ten
minutes, as Pulsar has no list of them.
"""

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, with_defaults
from bridge.requests import leadership
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.rights import each
from bridge.requests.session import Session
from bridge.runtime.futures import gathered_for, in_turns
from bridge.security.acls import Operation
from bridge.storage.names import check


@message
class RequestTopic:
    """Partitions of a topic."""

    name: str
    partition_indexes: list[Int32]


@message
class Request:
    """The partitions whose producers to list."""

    topics: list[RequestTopic]


@message
class Producer:
    """A producer; −1 for what is unknown, and where it has no open transaction."""

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@message
class ResponsePartition:
    """A partition's producers."""

    partition_index: Int32
    error_code: Int16
    error_message: str | None = None
    active_producers: list[Producer]


@message
class ResponseTopic:
    """A topic's partitions."""

    name: str
    partitions: list[ResponsePartition]


@message
class Response:
    """The producers."""

    throttle_time_ms: Int32 = 0
    topics: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """List the producers of each partition, as often as it is named; it is looked at once."""
    named = [(topic.name, index) async for topic in in_turns(request.topics) for index in topic.partition_indexes]
    found = await gathered_for(named, lambda one: _partition(*one, broker))
    topics = [
        ResponseTopic(name=topic.name, partitions=[found[topic.name, index] for index in topic.partition_indexes])
        async for topic in in_turns(request.topics)
    ]
    return Response(topics=topics)


async def _partition(name: str, index: int, broker: Broker) -> ResponsePartition:
    try:
        check(name)
        topic = await broker.topics.get(name)
        if topic is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise KafkaError(unknown, unknown.text)
        log = await leadership.opened(broker, topic, index)
        transactions = await log.open_transactions()
    except KafkaError as error:
        return ResponsePartition(
            partition_index=index, error_code=error.code, error_message=error.message or None, active_producers=[]
        )
    producers = {
        one: Producer(producer_id=one, producer_epoch=last.epoch, last_sequence=last.sequence, coordinator_epoch=-1)
        for one, last in log.producers()
    }
    for transaction, first, written_ms in transactions:
        producer_id, epoch, _ = transaction.identity
        producer = producers.setdefault(producer_id, with_defaults(Producer, producer_id=producer_id))
        producer.producer_epoch = epoch
        producer.coordinator_epoch = 0
        producer.last_timestamp = written_ms
        producer.current_txn_start_offset = first
    return ResponsePartition(
        partition_index=index, error_code=ErrorCode.NONE, active_producers=list(producers.values())
    )


API = Api(
    key=61,
    name="DescribeProducers",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=each(Operation.READ),
    served_by=ServedBy.LEADER,
    read_only=True,
)
