"""A round trip of 200 ms, on either side of the bridge: requests that are in flight together share it."""

from __future__ import annotations

import time
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

from tests.faults.figures import report
from tests.faults.topics import WAIT, create, read_values
from tests.support.nodes import Node

ROUND_TRIP_SECONDS = 0.2
IN_FLIGHT = 5
BATCHES = 60


class Batches:
    """An idempotent producer whose every record is a batch and a request of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.offsets: dict[bytes, int | None] = {}
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "max.in.flight": IN_FLIGHT,
                "batch.num.messages": 1,
                "linger.ms": 0,
                "log_level": 0,
            }
        )

    def write(self, values: list[bytes]) -> float:
        """Write them; how long until the last was acknowledged."""
        began = time.monotonic()
        for value in values:
            self._producer.produce(self._topic, value, partition=0, on_delivery=partial(self._done, value))
        assert self._producer.flush(WAIT) == 0
        return time.monotonic() - began

    def _done(self, value: bytes, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self.offsets[value] = message.offset()


def test_batches_in_flight_together_share_a_round_trip(relayed: Node, topic: str, side: str) -> None:
    """Five in flight may save four fifths of the round trips. Half is asked for."""
    create(relayed.kafka, topic)
    batches = Batches(relayed.kafka, topic)
    batches.write([b"connected"])
    relayed.relay(side).delay_seconds = ROUND_TRIP_SECONDS / 2
    one = batches.write([b"one"])
    values = [b"%d" % number for number in range(BATCHES)]
    took = batches.write(values)
    relayed.relay(side).delay_seconds = 0
    round_trips = took / one
    report(side=side, batches=BATCHES, round_trips=round(round_trips, 1), alone=round(one, 3))
    assert one >= ROUND_TRIP_SECONDS, "the delay is not in force"
    assert round_trips < BATCHES / 2
    assert batches.offsets == {value: offset for offset, value in enumerate([b"connected", b"one", *values])}
    assert read_values(relayed.kafka, topic, 0, BATCHES + 2) == [b"connected", b"one", *values]
