"""DeleteRecords: raise a partition's log start offset, so that no client reads the records before it (KIP-107).

v2 is flexible. Pulsar deletes only whole ledgers, by its retention. The log start is therefore kept with the topic, and
applies on every bridge from the moment of the answer.
"""

import asyncio

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message
from bridge.requests import leadership
from bridge.requests.api import Api, Broker, ServedBy, Session
from bridge.runtime.futures import gathered


@message
class RequestPartition:
    """The first offset to keep; -1: the high watermark."""

    partition_index: Int32
    offset: Int64


@message
class RequestTopic:
    """One topic's partitions."""

    name: str
    partitions: list[RequestPartition]


@message
class Request:
    """What to delete."""

    topics: list[RequestTopic]
    timeout_ms: Int32


@message
class ResponsePartition:
    """The partition's first offset now."""

    partition_index: Int32
    low_watermark: Int64 = -1
    error_code: Int16


@message
class ResponseTopic:
    """One topic's partitions."""

    name: str
    partitions: list[ResponsePartition]


@message
class Response:
    """The new log starts."""

    throttle_time_ms: Int32 = 0
    topics: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Raise each log start; the answer is sent when it is stored."""
    # with 0 Kafka does not wait for followers, of which there are none here
    seconds = request.timeout_ms / 1000 if request.timeout_ms > 0 else broker.settings.pulsar.operation_timeout_seconds

    async def topic(wanted: RequestTopic) -> ResponseTopic:
        # of duplicates the last, as in Kafka
        partitions = {one.partition_index: one for one in wanted.partitions}.values()
        moved = (_partition(wanted.name, partition, seconds, broker) for partition in partitions)
        return ResponseTopic(name=wanted.name, partitions=await gathered(moved))

    return Response(topics=await gathered(map(topic, request.topics)))


async def _partition(name: str, wanted: RequestPartition, seconds: float, broker: Broker) -> ResponsePartition:
    index = wanted.partition_index
    try:
        async with asyncio.timeout(seconds):
            topic = await broker.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            log = await leadership.opened(broker, topic, index)
            start = await broker.topics.administration.delete_records(topic, index, log, wanted.offset)
    except TimeoutError:
        return ResponsePartition(partition_index=index, error_code=ErrorCode.REQUEST_TIMED_OUT)
    except KafkaError as error:
        return ResponsePartition(partition_index=index, error_code=error.code)
    return ResponsePartition(partition_index=index, low_watermark=start, error_code=ErrorCode.NONE)


API = Api(
    key=21,
    name="DeleteRecords",
    min_version=0,
    max_version=2,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    served_by=ServedBy.LEADER,
)
