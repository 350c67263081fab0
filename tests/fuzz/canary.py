"""A healthy client beside the hostile one: it must meet no error and no long pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.processes import resident_bytes

LONGEST_PAUSE = 5.0
GROWTH = 64 << 20


class Canary:
    """Writes one record after another, each with its acknowledgement, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.written = 0
        self.longest = 0.0
        self.errors: list[str] = []
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "error_cb": self._failed})
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="canary", daemon=True)
        self._thread.start()
        self.more(1)

    def more(self, count: int) -> None:
        """Wait until it has written so many more."""
        with self._changed:
            wanted = self.written + count
            held = self._changed.wait_for(lambda: self.written >= wanted or bool(self.errors), 30)
        assert held, "the canary stands still"

    def end(self) -> None:
        self._ended.set()
        self._thread.join(30)

    def _failed(self, error: KafkaError) -> None:
        self.errors.append(str(error))

    def _run(self) -> None:
        def done(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.errors.append(str(error))
            elif message.offset() != self.written:
                self.errors.append(f"record {self.written} went to offset {message.offset()}")
            with self._changed:
                self.written += 1
                self._changed.notify_all()

        while not self._ended.wait(0.01):
            started = time.monotonic()
            self._producer.produce(self.topic, b"%d" % self.written, partition=0, on_delivery=done)
            self._producer.flush(30)
            self.longest = max(self.longest, time.monotonic() - started)


@contextmanager
def watched(bootstrap: str, pid: int, topic: str, growth: int = GROWTH) -> Iterator[Canary]:
    """What happens inside may hurt neither the canary nor the bridge's memory."""
    canary = Canary(bootstrap, topic)
    before = resident_bytes(pid)
    try:
        yield canary
        canary.more(2)
    finally:
        canary.end()
    grown = resident_bytes(pid) - before
    print(f"figures: grown={grown / 2**20:.1f} MiB canary={canary.written} pause={canary.longest:.2f} s")
    assert not canary.errors, canary.errors[:3]
    assert canary.written > 0
    assert canary.longest < LONGEST_PAUSE
    assert grown < growth, f"the bridge grew by {grown / 2**20:.1f} MiB"
