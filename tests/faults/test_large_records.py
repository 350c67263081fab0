"""The bridge is killed while a large record is on its way to Pulsar: it comes again, and is one record."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.faults.processes import let_pass
from tests.faults.topics import create
from tests.support.nodes import Node
from tests.support.pulsar import PulsarAddress

_SIZE = 60 << 20
_MOST = 96 << 20
_PART = 20 << 20
"""So much of it comes to Pulsar before the kill: some chunks."""


def entries_of(pulsar: PulsarAddress, bridge: Node, topic: str) -> int:
    """How many entries its partition has."""
    namespace = bridge.settings.pulsar.full_namespace
    stats = pulsar.admin("GET", f"persistent/{namespace}/{topic}-partition-0/internalStats")
    assert isinstance(stats, dict)
    return int(stats["numberOfEntries"])


def read(bridge: Node, topic: str) -> list[tuple[int, bytes]]:
    """All records, to an end that the bridge tells: others may write meanwhile."""
    consumer = Consumer({
        "bootstrap.servers": bridge.kafka, "group.id": "unused", "enable.auto.commit": False,
        "enable.partition.eof": True, "receive.message.max.bytes": 2 * _MOST,
    })  # fmt: skip
    ended = consumer.get_watermark_offsets(TopicPartition(topic, 0))[1]
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes]] = []
    try:
        while True:
            message = consumer.poll(60)
            assert message is not None, f"{len(found)} records came"
            if message.error() is not None:
                position = consumer.position([TopicPartition(topic, 0)])[0].offset
                assert ended <= position <= consumer.get_watermark_offsets(TopicPartition(topic, 0))[1]
                return found
            found.append((message.offset(), message.value()))
    finally:
        consumer.close()


@pytest.mark.parametrize("idempotent", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_a_bridge_killed_between_two_chunks(
    start_relayed: Callable[..., Node], broker: PulsarAddress, topic: str, *, idempotent: bool
) -> None:
    bridge = start_relayed()
    create(bridge.kafka, topic)
    large = random.Random(1).randbytes(_SIZE)
    told: list[Any] = []
    producer = Producer({
        "bootstrap.servers": bridge.kafka, "enable.idempotence": idempotent, "message.max.bytes": _MOST,
        "queue.buffering.max.kbytes": 4 * _MOST >> 10, "linger.ms": 0, "log_level": 0,
    })  # fmt: skip
    producer.produce(topic, b"before", partition=0)
    assert producer.flush(30) == 0
    bridge.relay("pulsar").hold_after(_PART)
    producer.produce(
        topic, large, partition=0, on_delivery=lambda error, message: told.append((error, message.offset()))
    )
    producer.poll(0)
    deadline = time.monotonic() + 60
    while entries_of(broker, bridge, topic) < 3 and time.monotonic() < deadline:
        let_pass(0.01)
    bridge.kill()
    bridge.relay("pulsar").heal()
    stored = entries_of(broker, bridge, topic)
    assert 3 <= stored < 14, f"{stored} entries: it was not killed between two chunks"
    assert not told
    bridge.start()
    at_once = read(bridge, topic)  # to the end, though that may be in the midst of it
    assert at_once[0] == (0, b"before") and len(at_once) <= 2
    producer.produce(topic, b"after", partition=0)
    assert producer.flush(120) == 0
    ((error, offset),) = told
    assert error is None
    found = read(bridge, topic)
    assert [(at, len(value)) for at, value in found] == [(0, 6), (offset, _SIZE), (offset + 1, 5)]
    assert found[1][1] == large
    print("figures: entries at the kill", stored, "offset", offset)
