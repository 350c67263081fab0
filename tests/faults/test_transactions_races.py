"""What meets in the middle of a transaction: its time-out and its commit, an instance and another, a slot that moves.

Pulsar is held (SIGSTOP) while requests are under way, so that they meet for sure; slots are given to the other node by
hand. Two nodes are in this process, and speak to clients by raw requests of protocol 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import add_partitions_to_txn, end_txn, offset_fetch, txn_offset_commit
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.owned_log.journal import WRITE_TIMEOUT
from bridge.storage.visibility import Outcome, Transaction
from bridge.tenants.services import NamespaceServices
from tests.apis.transactional import Nodes, Producer, stamp_of, transactions_of, until_served
from tests.apis.wire import Connection, ask, unique
from tests.faults.processes import let_pass
from tests.support.bridges import BridgeThread, settings_for, started_nodes
from tests.support.freezing import frozen
from tests.support.group_slots import wait_until_shared
from tests.support.pulsar import PrivatePulsar
from tests.support.waiting import until

ALL = range(8)
"""The group slots of the views, each of which has a slot of transactions with it."""
_AGAIN = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


@pytest.fixture(scope="module")
def namespace(shared_broker: PrivatePulsar) -> str:
    """One for all of these tests."""
    if not shared_broker.is_running:
        shared_broker.start()
    return shared_broker.create_namespace()


@pytest.fixture(scope="module")
def nodes(shared_broker: PrivatePulsar, namespace: str) -> Iterator[Nodes]:
    with started_nodes(settings_for(shared_broker, namespace)) as found:
        admin = AdminClient({"bootstrap.servers": found[0].kafka})
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(30)
        wait_until_shared(*found)
        yield found[0], found[1]


@pytest.fixture
def producer(nodes: Nodes) -> Iterator[Producer]:
    """One of a test's own; then each node has the slots again that the view gives it."""
    yield Producer(nodes)
    for node in nodes:
        assert node.server.cluster is not None
        owners = node.server.cluster.view.groups
        node.call(_assign(own(node), [slot for slot, owner in enumerate(owners) if owner == node.node_id]))
    wait_until_shared(*nodes)


@pytest.fixture
def beside() -> Iterator[Callable[..., Future[Any]]]:
    """Do something in another thread."""
    with ThreadPoolExecutor() as pool:
        yield pool.submit


def own(node: BridgeThread) -> NamespaceServices:
    return node.server._own


def writes_under_way(node: BridgeThread, producer: Producer) -> int:
    line = transactions_of(node)._coordinator._lines.get(producer.name)
    return 0 if line is None else line.unsettled


def wait_for(node: BridgeThread, condition: Callable[[], bool]) -> None:
    node.call(until(condition))


def requests_in_line(node: BridgeThread, producer: Producer) -> int:
    return int(transactions_of(node)._coordinator._lines[producer.name].requests)


@pytest.fixture
def pass_an_hour(monkeypatch: pytest.MonkeyPatch) -> Callable[[BridgeThread], None]:
    """A coordinator finds the time of each open transaction over when it looks again, once a second."""

    def passed(node: BridgeThread) -> None:
        coordinator = transactions_of(node)._coordinator
        wall = coordinator._wall
        monkeypatch.setattr(coordinator, "_wall", lambda: wall() + 3600)

    return passed


def move(producer: Producer) -> None:
    """Give all slots to the other node."""
    for node, slots in ((producer.here, ()), (producer.elsewhere, ALL)):
        node.call(_assign(own(node), slots))
    producer.here, producer.elsewhere = producer.elsewhere, producer.here
    wait_for(producer.here, lambda: transactions_of(producer.here).is_holder(producer.name))


async def _assign(services: NamespaceServices, slots: Any) -> None:
    services.assign(slots, orphaned=())


def ended(producer: Producer, *, committed: bool = True) -> int:
    """EndTxn, again until it is answered for good."""
    request = producer.ending(committed=committed)
    return int(until_served(lambda: ask(producer.here, end_txn.API, request, 4)).error_code)


def outcomes(nodes: Nodes, one: Transaction) -> set[Outcome]:
    """On each node, as new as the call."""
    for node in nodes:
        node.call(transactions_of(node).outcomes.confirm())
    return {transactions_of(node).outcomes.outcome(one) for node in nodes}


def test_an_instance_that_comes_while_a_commit_is_under_way_aborts_nothing(
    broker: PrivatePulsar, nodes: Nodes, producer: Producer, beside: Callable[..., Future[Any]]
) -> None:
    producer.add(("t", [0]))
    one = stamp_of(producer.here, producer, 0)
    with frozen(broker.pid):
        ending = beside(producer.end)
        wait_for(producer.here, lambda: writes_under_way(producer.here, producer) == 1)
        coming = beside(producer.init)
        wait_for(producer.here, lambda: requests_in_line(producer.here, producer) == 2)
        assert not ending.done()
        assert not coming.done()
    assert ending.result() == ErrorCode.NONE
    assert (coming.result().error_code, coming.result().producer_epoch) == (ErrorCode.NONE, producer.epoch + 1)
    assert outcomes(nodes, one) == {Outcome.COMMITTED}


def test_a_commit_that_comes_while_another_instance_is_made_is_fenced(
    broker: PrivatePulsar, nodes: Nodes, producer: Producer, beside: Callable[..., Future[Any]]
) -> None:
    producer.add(("t", [0]))
    one = stamp_of(producer.here, producer, 0)
    with frozen(broker.pid):
        coming = beside(producer.init)
        wait_for(producer.here, lambda: writes_under_way(producer.here, producer) == 1)
        ending = beside(producer.end)
        wait_for(producer.here, lambda: requests_in_line(producer.here, producer) == 2)
    assert coming.result().error_code == ErrorCode.NONE
    assert ending.result() == ErrorCode.PRODUCER_FENCED
    assert outcomes(nodes, one) == {Outcome.ABORTED}


def test_a_transaction_whose_time_is_over_while_its_commit_is_under_way_is_committed(
    broker: PrivatePulsar,
    nodes: Nodes,
    producer: Producer,
    beside: Callable[..., Future[Any]],
    pass_an_hour: Callable[[BridgeThread], None],
) -> None:
    producer.add(("t", [0]))
    one = stamp_of(producer.here, producer, 0)
    with frozen(broker.pid):
        ending = beside(producer.end)
        wait_for(producer.here, lambda: writes_under_way(producer.here, producer) == 1)
        pass_an_hour(producer.here)
        wait_for(producer.here, lambda: requests_in_line(producer.here, producer) == 2)
    assert ending.result() == ErrorCode.NONE
    assert outcomes(nodes, one) == {Outcome.COMMITTED}
    assert producer.end() == ErrorCode.NONE  # of this epoch still


def test_a_commit_without_a_receipt_in_time_is_not_contradicted(
    broker: PrivatePulsar,
    nodes: Nodes,
    producer: Producer,
    beside: Callable[..., Future[Any]],
    pass_an_hour: Callable[[BridgeThread], None],
) -> None:
    producer.add(("t", [0]))
    one = stamp_of(producer.here, producer, 0)
    with frozen(broker.pid):
        ending = beside(producer.end)
        wait_for(producer.here, lambda: writes_under_way(producer.here, producer) == 1)
        pass_an_hour(producer.here)
        let_pass(WRITE_TIMEOUT)
        assert ending.result() in _AGAIN
        assert producer.end(committed=False) in _AGAIN  # nobody decides on what is not known
    assert ended(producer) == ErrorCode.NONE
    assert outcomes(nodes, one) == {Outcome.COMMITTED}
    assert producer.end(committed=False) == ErrorCode.INVALID_TXN_STATE


def test_an_end_that_was_delayed_does_not_end_the_next_transaction(nodes: Nodes, producer: Producer) -> None:
    with Connection(producer.here.kafka) as old, Connection(producer.here.kafka) as new:
        assert _added(old, producer) == ErrorCode.NONE
        assert new.ask(end_txn.API, producer.ending(committed=True), 4).error_code == ErrorCode.NONE
        assert _added(new, producer) == ErrorCode.NONE
        second = stamp_of(producer.here, producer, 0)
        old.send(end_txn.API, producer.ending(committed=True), 4)
        assert old._answers.read(1) == b""
        assert outcomes(nodes, second) == {Outcome.OPEN}
        assert new.ask(end_txn.API, producer.ending(committed=False), 4).error_code == ErrorCode.NONE
    assert outcomes(nodes, second) == {Outcome.ABORTED}


def test_an_end_that_was_delayed_while_the_slot_was_elsewhere_ends_nothing(nodes: Nodes, producer: Producer) -> None:
    with Connection(producer.here.kafka) as old:
        assert _added(old, producer) == ErrorCode.NONE
        move(producer)
        assert ended(producer) == ErrorCode.NONE
        move(producer)
        assert _until_added(producer) == ErrorCode.NONE
        second = stamp_of(producer.here, producer, 0)
        old.send(end_txn.API, producer.ending(committed=True), 4)
        assert old._answers.read(1) == b""
    assert ended(producer, committed=False) == ErrorCode.NONE
    assert outcomes(nodes, second) == {Outcome.ABORTED}


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_goes_on_where_its_slots_move_to(nodes: Nodes, producer: Producer, committed: bool) -> None:
    """The transaction's own, and that of the group whose offsets it commits."""
    group = unique("g")
    producer.add(("t", [0]))
    one = stamp_of(producer.elsewhere, producer, 0)
    move(producer)
    assert stamp_of(producer.elsewhere, producer, 0) == one
    assert _patiently(lambda: producer.add_group(group)) == ErrorCode.NONE
    assert _commit_offset(producer, group, 5) == ErrorCode.NONE
    move(producer)
    assert outcomes(nodes, one) == {Outcome.OPEN}
    assert _offset_of(producer, group) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert ended(producer, committed=committed) == ErrorCode.NONE
    assert _offset_of(producer, group) == (ErrorCode.NONE, 5 if committed else -1)
    move(producer)
    assert _offset_of(producer, group) == (ErrorCode.NONE, 5 if committed else -1)
    assert outcomes(nodes, one) == {Outcome.COMMITTED if committed else Outcome.ABORTED}


def test_offsets_that_were_delayed_while_the_groups_slot_was_elsewhere_are_not_the_next_transactions(
    nodes: Nodes, producer: Producer
) -> None:
    group = unique("g")
    with Connection(producer.here.kafka) as old:
        assert producer.add_group(group) == ErrorCode.NONE
        move(producer)
        move(producer)
        assert ended(producer) == ErrorCode.NONE
        assert _patiently(lambda: producer.add_group(group)) == ErrorCode.NONE
        old.send(txn_offset_commit.API, _committing(producer, group, 3), 4)
        assert old._answers.read(1) == b""
    assert ended(producer) == ErrorCode.NONE
    assert _offset_of(producer, group) == (ErrorCode.NONE, -1)


def test_a_follower_whose_topic_is_unloaded_knows_each_outcome(
    broker: PrivatePulsar, namespace: str, producer: Producer
) -> None:
    slot = transactions_of(producer.here).slot_of(producer.name)
    topic = f"persistent/{namespace}-bridge/__bridge_transactions-partition-{slot}"
    for n in range(4):
        assert _until_added(producer) == ErrorCode.NONE
        broker.admin("PUT", f"{topic}/{('unload', 'compaction')[n % 2]}")
        one = _until_stamped(producer)
        if n % 3:
            broker.admin("PUT", f"{topic}/unload")
        committed = n % 2 == 0
        assert ended(producer, committed=committed) == ErrorCode.NONE
        assert _confirmed(producer.elsewhere, one) is (Outcome.COMMITTED if committed else Outcome.ABORTED)


# ---- as clients do, again while they are told to come again ----------------------------------------------------------


def _patiently(ask_once: Callable[[], Any], of: Callable[[Any], int] = int) -> Any:
    for _ in range(100):
        answer = ask_once()
        if of(answer) not in _AGAIN:
            return answer
        let_pass(0.1)
    raise AssertionError(answer)


def _added(connection: Connection, producer: Producer) -> int:
    answer = connection.ask(add_partitions_to_txn.API, producer._adding([("t", [0])]), 3)
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def _until_added(producer: Producer) -> int:
    return int(_patiently(lambda: producer.add(("t", [0]))["t", 0]))


def _until_stamped(producer: Producer) -> Transaction:
    """The followers' sessions have ended with the unload: to be sure takes longer than one waits."""
    for _ in range(100):
        try:
            return stamp_of(producer.elsewhere, producer, 0)
        except KafkaError as error:
            assert error.code == ErrorCode.NOT_ENOUGH_REPLICAS
    raise AssertionError("the follower does not come back")


def _confirmed(node: BridgeThread, one: Transaction) -> Outcome:
    for _ in range(100):
        try:
            node.call(transactions_of(node).outcomes.confirm())
            return transactions_of(node).outcomes.outcome(one)
        except KafkaError as error:
            assert error.code in _AGAIN
    raise AssertionError("the follower does not come back")


def _committing(producer: Producer, group: str, offset: int) -> txn_offset_commit.Request:
    partition = txn_offset_commit.RequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    return txn_offset_commit.Request(
        transactional_id=producer.name,
        group_id=group,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        topics=[txn_offset_commit.RequestTopic(name="t", partitions=[partition])],
    )


def _commit_offset(producer: Producer, group: str, offset: int) -> int:
    request = _committing(producer, group, offset)
    answer = _patiently(
        lambda: ask(producer.here, txn_offset_commit.API, request, 4),
        lambda answer: answer.topics[0].partitions[0].error_code,
    )
    return int(answer.topics[0].partitions[0].error_code)


def _offset_of(producer: Producer, group: str) -> tuple[int, int]:
    """The error and the stable offset, where all groups are now."""
    request = offset_fetch.Request(
        group_id=group, topics=[offset_fetch.Topic(name="t", partition_indexes=[0])], require_stable=True
    )
    answer = _patiently(lambda: ask(producer.here, offset_fetch.API, request, 7), lambda answer: answer.error_code)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.committed_offset
