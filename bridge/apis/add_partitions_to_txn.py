"""AddPartitionsToTxn: say which partitions a transaction writes to (KIP-98); refused, as there are no transactions.

v3 is flexible; v4 takes several transactions and may only ask whether a partition is in one (KIP-890): brokers send it;
v5 may answer TRANSACTION_ABORTABLE.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import Annotated

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since, until
from bridge.requests.api import Api, Broker
from bridge.requests.rights import OF_A_TRANSACTION
from bridge.requests.session import Session


@message
class RequestTopic:
    """Partitions of a topic."""

    name: str
    partitions: list[Int32]


@message
class RequestTransaction:
    """A transaction and its partitions."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    verify_only: bool = False
    topics: list[RequestTopic]


@message
class Request:
    """Transactions: `transactions` from v4 on, one before."""

    transactions: Annotated[list[RequestTransaction], since(4)] = field(default_factory=list)
    v3_and_below_transactional_id: Annotated[str, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[list[RequestTopic], until(3)] = field(default_factory=list)


@message
class ResponsePartition:
    """One partition's result."""

    partition_index: Int32
    partition_error_code: Int16


@message
class ResponseTopic:
    """A topic's partitions."""

    name: str
    results_by_partition: list[ResponsePartition]


@message
class ResponseTransaction:
    """A transaction's partitions."""

    transactional_id: str
    topic_results: list[ResponseTopic]


@message
class Response:
    """How each went: `results_by_transaction` from v4 on, the topics of one before."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4)] = 0
    results_by_transaction: Annotated[list[ResponseTransaction], since(4)] = field(default_factory=list)
    results_by_topic_v3_and_below: Annotated[list[ResponseTopic], until(3)] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse every partition, with the error that InitProducerId has for the transactional id."""
    return Response(
        results_by_transaction=[
            ResponseTransaction(transactional_id=one.transactional_id, topic_results=_refused(one.topics))
            for one in request.transactions
        ],
        results_by_topic_v3_and_below=_refused(request.v3_and_below_topics),
    )


def _refused(topics: Iterable[RequestTopic]) -> list[ResponseTopic]:
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return [
        ResponseTopic(
            name=topic.name,
            results_by_partition=[
                ResponsePartition(partition_index=index, partition_error_code=error) for index in topic.partitions
            ],
        )
        for topic in topics
    ]


API = Api(
    key=24,
    name="AddPartitionsToTxn",
    min_version=0,
    max_version=5,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
    rights=OF_A_TRANSACTION,
    pure=True,
)
