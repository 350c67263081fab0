"""DeleteRecords: raise a partition's log start offset, so that no client reads the records before it (KIP-107).

v2 is flexible. Pulsar deletes only whole ledgers, by its retention. The log start is therefore kept with the topic, and
applies on every bridge from the moment of the answer.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message
from bridge.requests import leadership
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.audit import AuditedChange
from bridge.requests.rights import each
from bridge.requests.routes import Owners, Route
from bridge.requests.session import Session
from bridge.runtime.futures import gathered
from bridge.security.acls import Operation


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


def audit(request: Request, response: Response) -> Iterator[AuditedChange]:
    """The partitions that begin later now."""
    for topic in response.topics:
        for one in topic.partitions:
            name = f"{topic.name}-{one.partition_index}"
            yield AuditedChange(one.error_code, "partition", name, "records deleted", f"before {one.low_watermark}")


class ToLeaders(Route):
    """The way to the leaders of partitions: they alone raise a log's start, though all nodes serve it."""

    unreachable = ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def divided(self, request: Request, owners: Owners) -> Mapping[int, Request]:
        """Each leader gets its partitions."""
        wanted: defaultdict[int, list[RequestTopic]] = defaultdict(list)
        for topic in request.topics:
            of_topic: defaultdict[int, list[RequestPartition]] = defaultdict(list)
            for one in topic.partitions:
                of_topic[owners.of_partition(topic.name, one.partition_index)].append(one)
            for owner, partitions in of_topic.items():
                wanted[owner].append(RequestTopic(name=topic.name, partitions=partitions))
        if len(wanted) <= 1:
            return dict.fromkeys(wanted or owners.all()[:1], request)
        return {owner: Request(topics=topics, timeout_ms=request.timeout_ms) for owner, topics in wanted.items()}

    def put_together(self, request: Request, answers: Sequence[Response]) -> Response:
        """All partitions, in the order of the request."""
        if len(answers) == 1:
            return answers[0]
        found = {
            (topic.name, one.partition_index): one
            for answer in answers
            for topic in answer.topics
            for one in topic.partitions
        }

        def topic(wanted: RequestTopic) -> ResponseTopic:
            keys = [(wanted.name, one.partition_index) for one in wanted.partitions]
            return ResponseTopic(name=wanted.name, partitions=[found[key] for key in keys if key in found])

        return Response(topics=[topic(one) for one in request.topics])


API = Api(
    key=21,
    name="DeleteRecords",
    min_version=0,
    max_version=2,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=each(Operation.DELETE),
    audit=audit,
    route=ToLeaders(),
    served_by=ServedBy.LEADER,
)
