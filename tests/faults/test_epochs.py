"""Pulsar is away for longer than clients wait: they give their records up, raise their epoch and send again."""

from __future__ import annotations

import threading
import time
from collections import Counter

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.clients import read_cold
from tests.faults.figures import report
from tests.faults.processes import let_pass, resident_bytes
from tests.support.bridges import BridgeChild
from tests.support.freezing import frozen
from tests.support.pulsar import PrivatePulsar

PARTITIONS = 3
_AWAY = 7.0
_MESSAGE_TIMEOUT_MS = 2000


class Impatient(threading.Thread):
    """An idempotent librdkafka whose records time out while Pulsar is away; each time it raises its epoch."""

    def __init__(self, name: str, bootstrap: str, topic: str) -> None:
        super().__init__(name=name, daemon=True)
        self.acked: list[tuple[int, int, bytes]] = []
        self.failed: list[bytes] = []
        self.fatal: list[str] = []
        self.stopping = threading.Event()
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": _MESSAGE_TIMEOUT_MS,
                "request.timeout.ms": 500,
                "linger.ms": 5,
                "queue.buffering.max.messages": 20_000,
                "error_cb": lambda error: self.fatal.append(str(error)) if error.fatal() else None,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            for _ in range(50):
                self._send(number)
                number += 1
            self._producer.poll(0)
            self.stopping.wait(0.05)
        self._producer.flush(60)

    def _send(self, number: int) -> None:
        value = f"{self.name}:{number}".encode()

        def done(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acked.append((number % PARTITIONS, message.offset() or 0, value))
            else:
                self.failed.append(value)

        try:
            self._producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=done)
        except BufferError:
            self.failed.append(value)

    def until_acked(self, since: int) -> None:
        """Wait until it gets acknowledgements again."""
        deadline = time.monotonic() + 60
        while len(self.acked) < since + 200:
            assert time.monotonic() < deadline, f"{len(self.acked)} acked, {self.fatal}"
            let_pass(0.05)


def test_what_clients_gave_up_is_not_stored_over_and_over(
    broker: PrivatePulsar, bridge_child: BridgeChild, topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": bridge_child.kafka})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    clients = [Impatient(f"c{number}", bridge_child.kafka, topic) for number in range(3)]
    for client in clients:
        client.start()
    for client in clients:
        client.until_acked(0)
    before = resident_bytes(bridge_child.pid)
    with frozen(broker.pid):
        let_pass(_AWAY)
        grown = resident_bytes(bridge_child.pid) - before
    for client in clients:
        client.until_acked(len(client.acked))
        client.stopping.set()
    for client in clients:
        client.join(90)
        assert not client.is_alive()
        assert not client.fatal
    acked = [one for client in clients for one in client.acked]
    last = [max(offset for partition, offset, _ in acked if partition == one) for one in range(PARTITIONS)]
    log = [partition.records for partition in read_cold(bridge_child.kafka, topic, last)]
    stored = Counter(value for partition in log for value in partition.values())
    copies = Counter(value for _, _, value in acked)
    extra = {value: count - copies[value] for value, count in stored.items() if count > copies[value]}
    report(acked=len(acked), failed=sum(len(one.failed) for one in clients), extra=sum(extra.values()), grown=grown)
    assert any(one.failed for one in clients), "no record timed out: the test tests nothing"
    assert all(log[partition].get(offset) == value for partition, offset, value in acked)
    assert max(copies.values()) == 1
    # of some 15 epochs that a client begins meanwhile: the one on its way when Pulsar froze, and those as it goes on
    assert max(extra.values(), default=0) <= 2, "records were stored over and over beside their acknowledgement"
    assert grown < 64 << 20
