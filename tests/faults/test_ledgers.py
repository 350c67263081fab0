"""Ledgers roll over and are trimmed under readers: offsets stay dense and true, and the log start only moves up."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import KafkaError, TopicPartition

from tests.faults.checker import load
from tests.faults.conftest import ENTRIES_PER_LEDGER
from tests.faults.topics import WAIT, consumer, create, produce, read, value_of, wait_for
from tests.support.bridges import BridgeChild
from tests.support.pulsar import PrivatePulsar


@pytest.fixture
def bridge_child(start_bridge: Callable[..., BridgeChild]) -> BridgeChild:
    """A bridge that writes an entry for each batch, whatever the load: entries fill ledgers, and are counted here."""
    return start_bridge(storage={"group_commit_bytes": 0})


def ledgers(broker: PrivatePulsar, full: str) -> list[dict[str, int]]:
    stats = broker.admin("GET", f"persistent/{full}/internalStats")
    assert isinstance(stats, dict)
    found: list[dict[str, int]] = stats["ledgers"]
    return found


def test_offsets_run_on_over_ledgers_while_they_roll(
    broker: PrivatePulsar, bridge_child: BridgeChild, broker_namespace: str, topic: str
) -> None:
    with load(bridge_child.kafka, topic) as running:
        full = [f"{broker_namespace}/{topic}-partition-{number}" for number in range(running.partitions)]
        running.until("every partition to have a record", lambda: min(running.follower.next) > 0)
        # entries fill ledgers, and how many records make an entry is the clients' affair
        running.until("every partition to have some ledgers", lambda: all(len(ledgers(broker, it)) >= 4 for it in full))
        verdict = running.stop()
    print("figures:", verdict)
    verdict.check()


def test_a_cold_bridge_finds_any_offset_and_time_across_ledgers(
    broker: PrivatePulsar,
    broker_namespace: str,
    bridge_child: BridgeChild,
    start_bridge: Callable[..., BridgeChild],
    topic: str,
) -> None:
    count, start = 6 * ENTRIES_PER_LEDGER + 7, 1_700_000_000_000
    create(bridge_child.kafka, topic)
    assert produce(bridge_child.kafka, topic, [b"%d" % n for n in range(count)], start) == list(range(count))
    assert len(ledgers(broker, f"{broker_namespace}/{topic}-partition-0")) >= 6
    bridge_child.stop()  # or it would go on to lead the partition, with all in memory
    cold = start_bridge(storage={"cache_bytes": 0})  # nothing in memory, nothing kept
    reader = consumer(cold.kafka)
    try:
        edges = [n + d for n in range(0, count, ENTRIES_PER_LEDGER) for d in (-1, 0, 1) if 0 <= n + d < count]
        for offset in {*edges, *random.Random(1).sample(range(count), 20)}:
            message = read(reader, topic, 0, offset, 1)[0]
            assert (message.offset(), value_of(message)) == (offset, b"%d" % offset)
            for at, expected in ((start + 10 * offset, offset), (start + 10 * offset - 9, offset)):
                (found,) = reader.offsets_for_times([TopicPartition(topic, 0, at)], timeout=WAIT)
                assert found.offset == expected, f"the time of record {offset} is at offset {found.offset}"
        assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT) == (0, count)
    finally:
        reader.close()


def test_below_the_log_start_is_out_of_range_and_reset_works(
    broker: PrivatePulsar, broker_namespace: str, bridge_child: BridgeChild, topic: str
) -> None:
    full, count = f"{broker_namespace}/{topic}-partition-0", 5 * ENTRIES_PER_LEDGER + 10
    no_deduplication(broker, broker_namespace)
    create(bridge_child.kafka, topic)
    produce(bridge_child.kafka, topic, [b"%d" % n for n in range(count)])
    reader, resetting = consumer(bridge_child.kafka), consumer(bridge_child.kafka, "earliest")
    try:
        assert value_of(read(reader, topic, 0, 0, 1)[0]) == b"0"
        keep_nothing(broker, broker_namespace)
        trim(broker, full, lambda: len(ledgers(broker, full)) == 1)
        # what was read a moment ago may be shown from memory for a second
        wait_for(lambda: read(reader, topic, 0, 0, 1)[0].error() is not None, "deleted records are still shown")
        seen = 0
        for offset in (0, 1, ENTRIES_PER_LEDGER, 3 * ENTRIES_PER_LEDGER + 1):
            (refused,) = read(reader, topic, 0, offset, 1)
            error = refused.error()
            assert error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET, (offset, error)
            message = read(resetting, topic, 0, offset, 1)[0]
            start = message.offset()
            assert start is not None and value_of(message) == b"%d" % start
            assert seen <= start, "the log start went back"
            seen = start
        low, high = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT)
        assert (low, high) == (seen, count), "earliest is what a reset finds"
        assert seen > 0
    finally:
        reader.close()
        resetting.close()


def test_an_all_trimmed_log_keeps_its_next_offset(
    broker: PrivatePulsar,
    broker_namespace: str,
    bridge_child: BridgeChild,
    start_bridge: Callable[..., BridgeChild],
    topic: str,
) -> None:
    full, count = f"{broker_namespace}/{topic}-partition-0", 2 * ENTRIES_PER_LEDGER + 3
    no_deduplication(broker, broker_namespace)
    create(bridge_child.kafka, topic)
    produce(bridge_child.kafka, topic, [b"old %d" % n for n in range(count)])
    keep_nothing(broker, broker_namespace)
    broker.admin("PUT", f"persistent/{full}/unload")  # the next open begins a new ledger
    trim(broker, full, lambda: sum(ledger["entries"] for ledger in ledgers(broker, full)) == 0)
    bridge_child.kill()
    bridge_child.start()
    bridges = [bridge_child, start_bridge(retention={"ensure": True})]
    for bridge in bridges:
        reader = consumer(bridge.kafka)
        assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT) == (count, count)
        reader.close()
    assert produce(bridge_child.kafka, topic, [b"new 0", b"new 1"]) == [count, count + 1]
    for bridge in bridges:
        reader = consumer(bridge.kafka, "earliest")
        messages = read(reader, topic, 0, 0, 2)
        assert [(m.offset(), value_of(m)) for m in messages] == [(count, b"new 0"), (count + 1, b"new 1")]
        reader.close()


def no_deduplication(broker: PrivatePulsar, namespace: str) -> None:
    """Its cursor holds back trimming until its next snapshot (every 1,000 entries)."""
    broker.admin("POST", f"namespaces/{namespace}/deduplication", False)


def keep_nothing(broker: PrivatePulsar, namespace: str) -> None:
    policy = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
    broker.admin("POST", f"namespaces/{namespace}/retention", policy)


def trim(broker: PrivatePulsar, full: str, done: Callable[[], bool]) -> None:
    """Ask for trimming until it has happened: the policy reaches a loaded topic some time after it is set."""
    wait_for(partial(_trimmed, broker, full, done), "the broker does not trim")


def _trimmed(broker: PrivatePulsar, full: str, done: Callable[[], bool]) -> bool:
    broker.admin("POST", f"persistent/{full}/trim")
    return done()
