"""What goes straight is answered as what goes the general way; what cannot goes the general way, in the same order."""

from collections.abc import Callable, Iterator

import pytest

from bridge.apis import delete_topics, fetch, incremental_alter_configs, list_offsets, produce
from bridge.codec.compression import KafkaCodec
from bridge.codec.packing import pack
from bridge.connection.straight import way
from bridge.connection.straight.found import Targets
from bridge.kafka import fetch_head, produce_head
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.produce_wire import Request as Produce
from bridge.kafka.produce_wire import RequestPartition as Data
from bridge.pulsar.producer import Producer
from tests.apis.wire import Connection, ask, unique
from tests.connection.straight.asking import (
    NEWEST,
    Taken,
    at_tail,
    batch,
    create,
    fetched,
    produced,
    stored,
    until,
    values,
    waits,
)
from tests.support.bridges import BridgeThread


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    return Taken(monkeypatch)


@pytest.fixture
def topic(bridge: BridgeThread) -> Iterator[str]:
    """Two partitions whose logs are open and know their ends."""
    name = unique("straight")
    create(bridge, name)
    yield name


@pytest.mark.parametrize("version", range(produce_head.OLDEST, NEWEST + 1))
def test_a_produce_is_answered_as_the_general_way_answers(
    bridge: BridgeThread, topic: str, taken: Taken, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    with Connection(bridge.kafka) as client:
        straight = [client.ask(produce.API, produced(topic, batch(b"one")), version) for _ in range(3)]
    assert taken.keys == [produce.API.key] * 3
    monkeypatch.setattr(way, "_IS_ON", False)
    with Connection(bridge.kafka) as client:
        general = client.ask(produce.API, produced(topic, batch(b"one")), version)
    assert len(taken.keys) == 3
    assert [stored(answer) for answer in (*straight, general)] == [(0, 1), (0, 2), (0, 3), (0, 4)]
    straight[0].responses[0].partition_responses[0].base_offset = 4
    assert straight[0] == general


def test_requests_of_both_ways_keep_their_order(bridge: BridgeThread, topic: str, taken: Taken) -> None:
    """One after another without waiting: plain, compressed, for two partitions, with two records, ListOffsets."""
    end = list_offsets.RequestPartition(partition_index=0, timestamp=list_offsets.LATEST)
    asked = list_offsets.Request(
        replica_id=-1, topics=[list_offsets.RequestTopic(name=topic, partitions=[end])], timeout_ms=1000
    )
    sent: list[bytes] = []
    with Connection(bridge.kafka) as client:
        for number in range(60):
            value = b"%d" % number + b" " * 200
            match number % 5:
                case 1:
                    request = produced(topic, pack(batch(value), KafkaCodec.GZIP))
                case 2:
                    request = produced(topic, batch(value))
                    request.topic_data[0].partition_data.append(Data(index=1, records=batch(b"beside")))
                case _:
                    request = produced(topic, batch(value))
            sent.append(value)
            client.send(produce.API, request, 9)
            if number % 5 == 3:
                client.send(list_offsets.API, asked, 7)
        offsets = []
        for number in range(60):
            answer = client.receive(produce.API, 9)
            offsets.append(answer.responses[0].partition_responses[0].base_offset)
            if number % 5 == 3:
                assert client.receive(list_offsets.API, 7).topics[0].partitions[0].error_code == 0
        assert offsets == list(range(1, 61))
        read: list[bytes] = []
        while len(read) < 61:
            read += values(client.ask(fetch.API, fetched(topic, len(read)), 11))
    assert read == [b"first", *sent]
    assert taken.keys.count(produce.API.key) == 36


def test_an_idempotent_producer_is_judged_as_the_general_way_judges(
    bridge: BridgeThread, topic: str, taken: Taken
) -> None:
    def sequenced(sequence: int, epoch: int = 0) -> Produce:
        return produced(topic, batch(b"%d" % sequence, (4711, epoch, sequence)))

    with Connection(bridge.kafka) as client:
        assert [stored(client.ask(produce.API, sequenced(at), NEWEST)) for at in range(5)] == [
            (0, at) for at in range(1, 6)
        ]
        assert len(taken.keys) == 4  # the first opens the producer
        assert stored(client.ask(produce.API, sequenced(3), NEWEST)) == (0, 4)  # again
        assert stored(client.ask(produce.API, sequenced(7), NEWEST))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert stored(client.ask(produce.API, sequenced(5), NEWEST)) == (0, 6)
        assert stored(client.ask(produce.API, sequenced(0, epoch=1), NEWEST)) == (0, 7)
        assert stored(client.ask(produce.API, sequenced(6), NEWEST))[0] == ErrorCode.INVALID_PRODUCER_EPOCH


def test_what_is_in_flight_is_answered_in_order_whatever_becomes_of_it(
    bridge: BridgeThread, topic: str, taken: Taken
) -> None:
    """Requests that are given up before Pulsar has answered, among others."""
    with Connection(bridge.kafka) as client:
        client.ask(produce.API, produced(topic, batch(b"known")), NEWEST)
        for number in range(20):
            timeout_ms = 1 + 30_000 * (number % 2)
            client.send(produce.API, produced(topic, batch(b"%d" % number), timeout_ms=timeout_ms), NEWEST)
        found = [stored(client.receive(produce.API, NEWEST)) for _ in range(20)]
        for number, (error, offset) in enumerate(found):
            assert error == 0 or (error == ErrorCode.REQUEST_TIMED_OUT and number % 2 == 0)
            assert (offset >= 2) is (error == 0)
        offsets = [offset for error, offset in found if error == 0]
        assert offsets == sorted(set(offsets))
        last = stored(client.ask(produce.API, produced(topic, batch(b"behind")), NEWEST))
        assert last[0] == 0
        assert last[1] > max(offsets)


def test_what_the_topic_refuses_from_now_on_is_refused(bridge: BridgeThread, topic: str, taken: Taken) -> None:
    with Connection(bridge.kafka) as client:
        assert stored(client.ask(produce.API, produced(topic, batch(b"one")), NEWEST)) == (0, 1)
        config = incremental_alter_configs.Config(name="max.message.bytes", config_operation=0, value="10")
        resource = incremental_alter_configs.Resource(resource_type=2, resource_name=topic, configs=[config])
        changed = ask(
            bridge, incremental_alter_configs.API,
            incremental_alter_configs.Request(resources=[resource], validate_only=False),
        )  # fmt: skip
        assert changed.responses[0].error_code == 0
        assert stored(client.ask(produce.API, produced(topic, batch(b"one")), NEWEST))[0] == ErrorCode.MESSAGE_TOO_LARGE


def test_a_topic_that_is_deleted_is_not_written_and_one_of_its_name_is(
    bridge: BridgeThread, topic: str, taken: Taken
) -> None:
    with Connection(bridge.kafka) as client, Connection(bridge.kafka) as reader:
        assert stored(client.ask(produce.API, produced(topic, batch(b"one")), NEWEST)) == (0, 1)
        assert values(reader.ask(fetch.API, fetched(topic, 0), 11)) == [b"first", b"one"]
        reader.send(fetch.API, fetched(topic, 2), 11)
        until(lambda: waits(bridge, topic))
        request = delete_topics.Request(topics=[delete_topics.RequestTopic(name=topic)], timeout_ms=10_000)
        assert ask(bridge, delete_topics.API, request).responses[0].error_code == 0
        told = reader.receive(fetch.API, 11).responses[0].partitions[0].error_code
        assert told in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        error, _ = stored(client.ask(produce.API, produced(topic, batch(b"two")), NEWEST))
        assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        create(bridge, topic)
        assert stored(client.ask(produce.API, produced(topic, batch(b"new")), NEWEST)) == (0, 1)
        assert values(reader.ask(fetch.API, fetched(topic, 0), 11)) == [b"first", b"new"]


@pytest.mark.parametrize("version", range(fetch_head.OLDEST, 13))
def test_a_fetch_from_memory_is_answered_as_the_general_way_answers(
    bridge: BridgeThread, topic: str, taken: Taken, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    with Connection(bridge.kafka) as client:
        at_tail(client, topic, taken, version)
        straight = client.ask(fetch.API, fetched(topic, 0), version)
    assert taken.keys[-1] == fetch.API.key
    count = len(taken.keys)
    monkeypatch.setattr(way, "_IS_ON", False)
    with Connection(bridge.kafka) as client:
        general = client.ask(fetch.API, fetched(topic, 0), version)
    assert len(taken.keys) == count
    assert values(straight) == [b"first"]
    assert straight == general


def test_a_fetch_waits_for_what_is_written_or_for_the_end_of_its_time(
    bridge: BridgeThread, topic: str, taken: Taken
) -> None:
    with Connection(bridge.kafka) as client, Connection(bridge.kafka) as other:
        at_tail(client, topic, taken)
        taken.forget()
        client.send(fetch.API, fetched(topic, 1), 11)
        other.send(fetch.API, fetched(topic, 1), 11)
        until(lambda: len(taken.keys) == 2)
        assert stored(ask(bridge, produce.API, produced(topic, batch(b"woken")), NEWEST)) == (0, 1)
        assert values(client.receive(fetch.API, 11)) == values(other.receive(fetch.API, 11)) == [b"woken"]
        assert not waits(bridge, topic)
        nothing = client.ask(fetch.API, fetched(topic, 2, max_wait_ms=50), 11)
        assert (values(nothing), nothing.responses[0].partitions[0].high_watermark) == ([], 2)
        assert not waits(bridge, topic)
    assert taken.keys.count(fetch.API.key) == 3


def test_who_hangs_up_waits_no_more(bridge: BridgeThread, topic: str, taken: Taken) -> None:
    with Connection(bridge.kafka) as client:
        at_tail(client, topic, taken)
        free = taken.broker.waiting_fetches.left
        client.send(fetch.API, fetched(topic, 1, max_wait_ms=600_000), 11)
        until(lambda: waits(bridge, topic))
        assert taken.broker.waiting_fetches.left == free - 1
        client.reset()
    until(lambda: not waits(bridge, topic))
    assert taken.broker.waiting_fetches.left == free
    assert taken.keys[-1] == fetch.API.key


def test_who_waits_is_answered_when_the_process_stops(bridge_with: Callable[..., BridgeThread], taken: Taken) -> None:
    bridge, topic = bridge_with(), unique("stopping")
    create(bridge, topic)
    with Connection(bridge.kafka) as client:
        at_tail(client, topic, taken)
        client.send(fetch.API, fetched(topic, 1, max_wait_ms=600_000), 11)
        until(lambda: waits(bridge, topic))
        assert taken.keys[-1] == fetch.API.key
        bridge.stop()
        assert client.receive(fetch.API, 11).error_code == 0


def test_what_is_in_flight_when_the_partition_is_given_up_is_told_as_by_the_general_way(
    bridge: BridgeThread, topic: str, taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = bridge.server.topics.opened(topic, 0)
    assert log is not None
    with Connection(bridge.kafka) as client:
        client.ask(produce.API, produced(topic, batch(b"known")), NEWEST)
        monkeypatch.setattr(Producer, "_write", lambda *_: True)  # nothing comes back
        count = len(taken.keys)
        client.send(produce.API, produced(topic, batch(b"lost")), NEWEST)
        until(lambda: len(taken.keys) > count)
        bridge.call(log.close())
        assert stored(client.receive(produce.API, NEWEST))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_few_heads_are_known_and_the_first_ones_stay() -> None:
    targets = Targets[int]()
    known = [b"%d" % number for number in range(1000) if targets.may_learn(b"%d" % number, 100.0)]
    assert known == [b"%d" % number for number in range(1000)]  # as long as nothing is learnt
    for number in range(1000):
        head = b"%d" % number
        if targets.get(head) is None and targets.may_learn(head, 100.0):
            targets.learn(head, number)
    assert [targets.get(b"%d" % number) for number in range(100)] == [*range(64), *[None] * 36]
    assert not targets.may_learn(b"another", 109.0)
    assert targets.may_learn(b"another", 111.0)
    assert targets.get(b"0") is None
    assert not targets.may_learn(bytes(1000), 111.0)
