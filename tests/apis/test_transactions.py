"""Transactional ids at their coordinator, by protocol 1: two nodes of one cluster, and raw requests."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import (
    add_partitions_to_txn,
    describe_producers,
    end_txn,
    init_producer_id,
    list_transactions,
)
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Outcome
from tests.apis.transactional import Nodes, Producer, stamp_of, transactions_of, until_served
from tests.apis.wire import Connection, ask, unique
from tests.support.bridges import BridgeThread, settings_for
from tests.support.group_slots import wait_until_shared
from tests.support.pulsar import PulsarAddress


@pytest.fixture(scope="module")
def nodes(pulsar: PulsarAddress) -> Iterator[Nodes]:
    namespace = pulsar.create_namespace()
    with ExitStack() as running:
        bridges = BridgeThread(settings_for(pulsar, namespace)), BridgeThread(settings_for(pulsar, namespace))
        for bridge in bridges:
            bridge.start()
            running.callback(bridge.stop)
        admin = AdminClient({"bootstrap.servers": bridges[0].kafka})
        for created in admin.create_topics([NewTopic("t", 4, 1), NewTopic("u", 1, 1)]).values():
            created.result(30)
        wait_until_shared(*bridges)
        yield bridges


@pytest.fixture
def producer(nodes: Nodes) -> Producer:
    return Producer(nodes)


def test_a_transaction_is_begun_and_committed_and_the_next_aborted(producer: Producer) -> None:
    assert producer.epoch == 0
    assert producer.add(("t", [0, 1]), ("u", [0])) == {("t", 0): 0, ("t", 1): 0, ("u", 0): 0}
    assert producer.add(("t", [1, 2])) == {("t", 1): 0, ("t", 2): 0}
    assert producer.add_group("g") == ErrorCode.NONE
    assert producer.end() == ErrorCode.NONE
    assert producer.end() == ErrorCode.NONE
    assert producer.end(committed=False) == ErrorCode.INVALID_TXN_STATE
    assert set(producer.add(("t", [3])).values()) == {0}
    assert producer.end(committed=False) == ErrorCode.NONE
    assert producer.described().transaction_state == "CompleteAbort"


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_an_id(nodes: Nodes, version: int) -> None:
    producer = Producer(nodes)
    answer = producer.init(version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, producer.id, 1)


def test_a_fenced_producer_is_told_so_as_its_version_knows_it(producer: Producer) -> None:
    producer.init()
    assert producer.end(version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end(version=2) == ErrorCode.PRODUCER_FENCED
    assert set(producer.add(("t", [0]), version=1).values()) == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert producer.add_group("g", version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    stale = {"producer_id": producer.id, "producer_epoch": 7}
    assert producer.init(3, **stale).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.init(4, **stale).error_code == ErrorCode.PRODUCER_FENCED


def test_a_producer_that_goes_on_with_its_epoch_aborts_what_is_open(producer: Producer) -> None:
    producer.add(("t", [0]))
    again = producer.init(producer_id=producer.id, producer_epoch=producer.epoch)
    assert (again.error_code, again.producer_epoch) == (0, 1)
    repeated = producer.init(producer_id=producer.id, producer_epoch=producer.epoch)
    assert (repeated.error_code, repeated.producer_epoch) == (0, 1)


def test_another_node_sends_producers_to_the_coordinator(producer: Producer) -> None:
    producer.here, producer.elsewhere = producer.elsewhere, producer.here
    assert producer.end() == ErrorCode.NOT_COORDINATOR
    assert set(producer.add(("t", [0])).values()) == {ErrorCode.NOT_COORDINATOR}
    assert producer.described().error_code == ErrorCode.NOT_COORDINATOR


def test_partitions_that_are_not_there_are_named_and_the_others_left(producer: Producer) -> None:
    unknown, left = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    found = producer.add(("t", [0, 4]), ("nowhere", [0]), ("no/name", [0]))
    assert found == {("t", 0): left, ("t", 4): unknown, ("nowhere", 0): unknown, ("no/name", 0): unknown}
    assert producer.described().transaction_state == "Empty"


def test_ids_that_are_none_are_refused(nodes: Nodes, producer: Producer) -> None:
    assert producer.end(transactional_id="") == ErrorCode.INVALID_REQUEST
    assert producer.end(transactional_id=producer.name, producer_id=1) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    added = producer.add(("t", [0]), v3_and_below_transactional_id="")
    assert set(added.values()) == {ErrorCode.INVALID_REQUEST}
    for bad in (0, 900_001):
        request = init_producer_id.Request(transactional_id=producer.name, transaction_timeout_ms=bad)
        answer = ask(producer.here, init_producer_id.API, request)
        assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_request_on_an_older_connection_closes_it(producer: Producer) -> None:
    with Connection(producer.here.kafka) as old, Connection(producer.here.kafka) as new:
        assert old.ask(end_txn.API, producer.ending(), 4).error_code == ErrorCode.INVALID_TXN_STATE
        added = new.ask(add_partitions_to_txn.API, producer._adding([("t", [0])]), 3)
        assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
        old.send(end_txn.API, producer.ending(), 4)
        assert old._answers.read(1) == b""
        assert new.ask(end_txn.API, producer.ending(), 4).error_code == ErrorCode.NONE


def test_tools_see_what_is_open(producer: Producer) -> None:
    producer.add(("t", [0, 1]), ("u", [0]))
    state = producer.described()
    assert (state.transaction_state, state.producer_id, state.producer_epoch) == ("Ongoing", producer.id, 0)
    assert {topic.topic: topic.partitions for topic in state.topics} == {"t": [0, 1], "u": [0]}
    assert state.transaction_start_time_ms > 1_700_000_000_000

    def listed(**fields: Any) -> set[str]:
        request = list_transactions.Request(**{"state_filters": [], "producer_id_filters": [], **fields})
        return {one.transactional_id for one in ask(producer.here, list_transactions.API, request).transaction_states}

    assert producer.name in listed()
    assert producer.name in listed(state_filters=["Ongoing"], producer_id_filters=[producer.id])
    assert listed(transactional_id_pattern=producer.name[:-1] + ".") == {producer.name}
    assert producer.name not in listed(transactional_id_pattern=producer.name[:-1])
    assert producer.name not in listed(state_filters=["Empty"])
    assert producer.name not in listed(producer_id_filters=[1])
    assert producer.name not in listed(duration_filter=600_000)
    assert producer.name in listed(duration_filter=0)
    bad = list_transactions.Request(state_filters=["No"], producer_id_filters=[], transactional_id_pattern="(")
    assert ask(producer.here, list_transactions.API, bad).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    wanted = [describe_producers.RequestTopic(name="u", partition_indexes=[0])]
    answers = [
        ask(node, describe_producers.API, describe_producers.Request(topics=wanted)).topics[0].partitions[0]
        for node in (producer.here, producer.elsewhere)
    ]
    found = [one for answer in answers if answer.error_code == ErrorCode.NONE for one in answer.active_producers]
    assert producer.id not in {one.producer_id for one in found}  # it has written nothing
    producer.end()


def test_an_unknown_id_is_not_found(producer: Producer) -> None:
    producer.name = next(
        name
        for name in iter(lambda: unique("unknown"), "")
        if producer.here.server._own.transactions is not None and producer.here.server._own.transactions.is_holder(name)
    )
    assert producer.described().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert producer.end() == ErrorCode.INVALID_PRODUCER_ID_MAPPING


# ---- offsets ---------------------------------------------------------------------------------------------------------


def test_offsets_count_when_their_transaction_is_committed(producer: Producer) -> None:
    group = unique("g")
    assert producer.add_group(group) == ErrorCode.NONE
    assert producer.commit_offset(group, 5) == ErrorCode.NONE
    assert producer.offset_of(group) == (ErrorCode.NONE, -1)
    assert producer.offset_of(group, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert producer.end() == ErrorCode.NONE
    assert producer.offset_of(group, stable=True) == (ErrorCode.NONE, 5)
    producer.add_group(group)
    assert producer.commit_offset(group, 9) == ErrorCode.NONE
    assert producer.end(committed=False) == ErrorCode.NONE
    assert producer.offset_of(group, stable=True) == (ErrorCode.NONE, 5)


@pytest.mark.parametrize(
    ("version", "unnamed"),
    [(1, ErrorCode.INVALID_TXN_STATE), (3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_offsets_that_no_transaction_has_named_are_refused(
    producer: Producer, version: int, unnamed: ErrorCode
) -> None:
    group = unique("g")
    assert producer.commit_offset(group, 5, version) == unnamed
    producer.add_group("another")
    assert producer.commit_offset(group, 5, version) == unnamed
    producer.add_group(group)
    assert producer.commit_offset(group, 5, version, producer_epoch=7) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.commit_offset(group, 5, version, producer_id=1) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert producer.commit_offset(group, 5, version, transactional_id="") == ErrorCode.INVALID_REQUEST
    assert producer.commit_offset("", 5, version) == ErrorCode.INVALID_GROUP_ID
    assert producer.commit_offset(group, 5, version) == ErrorCode.NONE


@pytest.mark.parametrize("epoch", [-32_768, -1, 32_766, 32_767])
def test_epochs_that_are_not_the_producer_s_touch_nothing(producer: Producer, epoch: int) -> None:
    producer.add(("t", [0]))
    assert set(producer.add(("t", [1]), v3_and_below_producer_epoch=epoch).values()) == {ErrorCode.PRODUCER_FENCED}
    for version in (4, 5):
        assert producer.end(version, producer_epoch=epoch) == ErrorCode.PRODUCER_FENCED
    refusal = ErrorCode.INVALID_REQUEST if epoch < 0 else ErrorCode.PRODUCER_FENCED
    assert producer.init(producer_id=producer.id, producer_epoch=epoch).error_code == refusal
    assert producer.commit_offset("g", 5, 3, producer_epoch=epoch) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end() == ErrorCode.NONE
    assert producer.described().transaction_state == "CompleteCommit"


# ---- what every node knows -------------------------------------------------------------------------------------------


def test_each_node_stamps_at_once_and_knows_the_outcome(nodes: Nodes, producer: Producer) -> None:
    for n, committed in enumerate((True, False, True), 1):
        producer.add(("t", [1]))
        stamps = {stamp_of(node, producer, 1) for node in nodes}
        assert [one.identity for one in stamps] == [(producer.id, 0, n)]
        with pytest.raises(KafkaError) as unnamed:
            stamp_of(nodes[n % 2], producer, 2)
        assert unnamed.value.code == ErrorCode.INVALID_TXN_STATE
        assert producer.end(committed=committed) == ErrorCode.NONE
        for node in nodes:
            node.call(transactions_of(node).outcomes.confirm())
            expected = Outcome.COMMITTED if committed else Outcome.ABORTED
            assert transactions_of(node).outcomes.outcome(next(iter(stamps))) is expected
        with pytest.raises(KafkaError) as ended:
            stamp_of(nodes[0], producer, 1)
        assert ended.value.code == ErrorCode.INVALID_TXN_STATE


def test_an_id_goes_on_at_its_next_coordinator(pulsar: PulsarAddress) -> None:
    namespace = pulsar.create_namespace()
    with ExitStack() as running:
        bridges = BridgeThread(settings_for(pulsar, namespace)), BridgeThread(settings_for(pulsar, namespace))
        for bridge in bridges:
            bridge.start()
            running.callback(bridge.stop)
        admin = AdminClient({"bootstrap.servers": bridges[0].kafka})
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(30)
        wait_until_shared(*bridges)
        producer = Producer(bridges)
        producer.add(("t", [0, 1]))
        stamp = stamp_of(producer.elsewhere, producer, 0)
        left = producer.elsewhere
        producer.here.stop()
        assert transactions_of(left).outcomes.outcome(stamp) is Outcome.OPEN
        producer.here = left
        ended = until_served(lambda: ask(left, end_txn.API, producer.ending(), 4))
        assert ended.error_code == ErrorCode.NONE
        assert transactions_of(left).outcomes.outcome(stamp) is Outcome.COMMITTED
        assert producer.end() == ErrorCode.NONE
