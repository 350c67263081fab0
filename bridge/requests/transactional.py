"""What the handlers of transactional requests share: whether there are transactions, who asks, and old errors."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Broker
from bridge.requests.session import Session
from bridge.storage.topics.topic import Topic
from bridge.storage.visibility import Transaction
from bridge.transactions.coordinator import Coordinator
from bridge.transactions.transactions import (
    Change,
    Connection,
    Partition,
    Status,
    TransactionRecord,
    Transactions,
)

FENCED_FROM: Final = 2
"""The version of most requests from which on clients know PRODUCER_FENCED."""
ONGOING: Final = "Ongoing"
_SHOWN: Final[Mapping[str, str]] = {
    Status.OPEN: ONGOING,
    Status.COMMITTED: "CompleteCommit",
    Status.ABORTED: "CompleteAbort",
}


def transactions_of(broker: Broker, transactional_id: str) -> Transactions:
    """What serves a transactional id; KafkaError where it cannot be one, or none is served."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if broker.transactions is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "there are no transactions here")
    if not broker.cluster.snapshot.has_transactions:
        text = "a node of an older version would show records of transactions that are open or aborted"
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    return broker.transactions


def connection_of(session: Session) -> Connection:
    """The connection on which a client of protocol 1 speaks."""
    return Connection(session.id, session.connected_at)


async def known_topic(name: str, broker: Broker) -> Topic | None:
    """The topic of this name; None also where it is none that a topic can have."""
    try:
        return await broker.topics.get(name)
    except KafkaError as error:
        if error.code != ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise
        return None


async def done(work: Awaitable[Change], version: int, fenced_from: int = FENCED_FROM) -> Change:
    """What a request has led to; KafkaError with what it was refused for, as this version knows it."""
    change = await work
    if change.error is not ErrorCode.NONE:
        raise KafkaError(as_known(change.error, version, fenced_from))
    return change


async def transaction_of(
    broker: Broker, transactional_id: str, producer: tuple[int, int], topic: Topic, index: int, *, adds: bool
) -> Transaction:
    """The transaction that a batch of this producer (id, epoch) for a partition is of; KafkaError as `stamp`.

    `adds`: by the batch itself the transaction is told of the partition (KIP-890), if it is coordinated here.
    """
    transactions, where = transactions_of(broker, transactional_id), (topic.id.hex, index)

    async def add(coordinator: Coordinator) -> Change:
        partitions, firsts = [Partition(topic.name, *where)], firsts_in([(topic, index)])
        return await coordinator.add_partitions(transactional_id, *producer, partitions, firsts, protocol=2)

    stamp = partial(transactions.stamp, transactional_id, *producer, [where])
    return await stamped(transactions, transactional_id, stamp, add if adds else None)


async def stamped(
    transactions: Transactions,
    transactional_id: str,
    stamp: Callable[[], Awaitable[Transaction]],
    add: Callable[[Coordinator], Awaitable[Change]] | None,
) -> Transaction:
    """What `stamp` gives. Where the transaction has not been told of what the request is about, the request itself
    tells it (`add`, of KIP-890), if it is coordinated here."""
    try:
        return await stamp()
    except KafkaError as error:
        if error.code != ErrorCode.INVALID_TXN_STATE or add is None or not transactions.is_holder(transactional_id):
            raise
    change = await add(await transactions.coordinator())
    if change.error is not ErrorCode.NONE:
        raise KafkaError(change.error)
    return await stamp()


def firsts_in(partitions: Iterable[tuple[Topic, int]]) -> dict[tuple[str, int], int]:
    """Where the logs end that are open here: a transaction's first records come behind that."""
    return {
        (topic.id.hex, index): end
        for topic, index in partitions
        if (log := topic.logs.get(index)) is not None and (end := log.known_end) is not None
    }


def as_known(error: int, version: int, fenced_from: int = FENCED_FROM) -> ErrorCode:
    """An error of the newest version, as this one knows it."""
    if error == ErrorCode.PRODUCER_FENCED and version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode(error)


def shown_state(record: TransactionRecord) -> str:
    """The state that tools show, of `org.apache.kafka.coordinator.transaction.TransactionState`."""
    how: str = record.status
    if record.status is Status.EMPTY and record.ended is not None:  # where each epoch is one transaction
        how = record.ended.how
    return _SHOWN.get(how, "Empty")
