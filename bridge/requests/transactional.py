"""What the handlers of transactional requests share: whether there are transactions, who asks, and old errors."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api, Broker
from bridge.requests.session import Session
from bridge.storage.topics.topic import Topic
from bridge.transactions.coordinator import Coordinator
from bridge.transactions.transactions import (
    Change,
    Connection,
    Status,
    TransactionRecord,
    Transactions,
)

FENCED_FROM: Final = 2
"""The version of most requests from which on clients know PRODUCER_FENCED."""
COORDINATOR_AWAY: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
"""What clients do not know in the answers of leaders: the coordinator is asked again when they ask again."""
ONGOING: Final = "Ongoing"
_SHOWN: Final[Mapping[str, str]] = {
    Status.OPEN: ONGOING,
    Status.COMMITTED: "CompleteCommit",
    Status.ABORTED: "CompleteAbort",
}


def transactions_of(broker: Broker, transactional_id: str) -> Transactions:
    """What serves a transactional id; KafkaError where it cannot be one, or none is served yet."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if not broker.cluster.snapshot.has_transactions:
        text = "a node of an older version would show records of transactions that are open or aborted"
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    return broker.transactions


def connection_of(session: Session) -> Connection:
    """The connection on which a client of protocol 1 speaks."""
    return Connection(session.id, session.connected_at)


async def done(work: Awaitable[Change], version: int, fenced_from: int = FENCED_FROM) -> Change:
    """What a request has led to; KafkaError with what it was refused for, as this version knows it."""
    change = await work
    if change.error is not ErrorCode.NONE:
        raise KafkaError(as_known(change.error, version, fenced_from))
    return change


class Question(NamedTuple):
    """A request to the coordinator of a transactional id on another node, and where its answer tells an error."""

    api: Api
    version: int
    request: Any
    error_of: Callable[[Any], int]


async def at_coordinator(
    broker: Broker,
    transactional_id: str,
    here: Callable[[Coordinator], Awaitable[Change]],
    elsewhere: Callable[[], Question],
) -> None:
    """Have the coordinator of an id do something, on whichever node it is; KafkaError with what that refuses.

    INVALID_TXN_STATE where it is on another one that cannot be asked: clients are not told to rely on it
    (`features.transaction_version`).
    """
    transactions, others = transactions_of(broker, transactional_id), broker.other_nodes
    if others is None and not transactions.is_holder(transactional_id):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "no transaction is open that has been told of this")
    error: int = ErrorCode.NONE
    for _ in range(2):  # it may have moved
        slot = await transactions.group_slot_of(transactional_id)
        node = None if others is None else others.coordinator(slot)
        if others is None or node is None:
            error = (await here(await transactions.coordinator())).error
        else:
            question = elsewhere()
            error = question.error_of(await others.ask(node, question.api, question.request, question.version))
        if error != ErrorCode.NOT_COORDINATOR:
            break
    if error != ErrorCode.NONE:
        raise KafkaError(error)


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
