"""DescribeTransactions: the states of transactional ids (KIP-664)."""

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, with_defaults
from bridge.requests.api import Api, Broker, RequestLimit, ServedBy
from bridge.requests.authorization import checks_of
from bridge.requests.rights import TOPIC, TRANSACTIONAL_ID, each
from bridge.requests.routes import OfTransactions
from bridge.requests.session import Session
from bridge.requests.transactional import ONGOING, shown_state
from bridge.runtime.futures import gathered_for, in_turns
from bridge.security.acls import Operation

MAX_PARTITIONS = 200_000
"""Of all transactions in an answer."""


@message
class Request:
    """Transactional ids."""

    transactional_ids: list[str]


@message
class Topic:
    """Partitions of a topic that are in the transaction."""

    topic: str
    partitions: list[Int32]


@message
class State:
    """A transactional id's state, or why it has none."""

    error_code: Int16
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[Topic]


@message
class Response:
    """The states."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[State]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Describe each; topics that the client may not know of are left out."""
    found = await gathered_for(request.transactional_ids, lambda one: _described(one, broker, session))
    states, partitions = [], 0
    async for transactional_id in in_turns(request.transactional_ids):  # also twice, as Kafka does
        state = found[transactional_id]
        partitions += sum(len(topic.partitions) for topic in state.topics)
        is_too_much = partitions > MAX_PARTITIONS
        states.append(_refused(transactional_id, ErrorCode.INVALID_REQUEST) if is_too_much else state)
    return Response(transaction_states=states)


async def _described(transactional_id: str, broker: Broker, session: Session) -> State:
    if not transactional_id:
        return _refused(transactional_id, ErrorCode.INVALID_REQUEST)
    try:
        record = await broker.transactions.describe(transactional_id)
    except KafkaError as error:
        return _refused(transactional_id, error.code)
    if record is None:
        return _refused(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    names = {topic for topic, _ in record.partitions}
    checks = checks_of(broker, session)
    denied = () if checks is None else await checks.denied(Operation.DESCRIBE, TOPIC, names, lists=True)
    state = shown_state(record)
    return State(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=state,
        transaction_timeout_ms=record.timeout_ms,
        transaction_start_time_ms=record.begun_ms if state == ONGOING else -1,
        producer_id=record.producer_id,
        producer_epoch=record.epoch,
        topics=[
            Topic(topic=topic, partitions=[index for first, last in ranges for index in range(first, last + 1)])
            async for (topic, _), ranges in in_turns(record.partitions.items())
            if topic not in denied
        ],
    )


def _refused(transactional_id: str, error: int) -> State:
    return with_defaults(State, error_code=error, transactional_id=transactional_id)


API = Api(
    key=65,
    name="DescribeTransactions",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=each(Operation.DESCRIBE, kind=TRANSACTIONAL_ID, asked="transactional_ids", name=""),
    route=OfTransactions("transactional_ids", "transaction_states"),
    served_by=ServedBy.COORDINATOR,
    limits=(RequestLimit("partitions of an answer", MAX_PARTITIONS, ErrorCode.INVALID_REQUEST),),
    read_only=True,
)
