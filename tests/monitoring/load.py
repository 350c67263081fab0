"""Steady traffic for the fault run: a producer, and a consumer group that can be held up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.processes import let_pass
from tests.support.nodes import Nodes

TOPIC, GROUP, PARTITIONS = "steady", "steady-group", 3
_EVERY_SECONDS = 0.015
"""For each partition a record: some 200 a second."""


def restarted_in_turn(nodes: Nodes, times: int, every: float, down: float) -> None:
    """Restart two nodes in turn, so often: one each `every` seconds, each stopped for `down` seconds."""
    for number in range(times):
        let_pass(every)
        node = nodes.all[number % 2]
        node.stop()
        let_pass(down)
        node.start()


class Load:
    """Both, in a thread each."""

    def __init__(self, bootstrap: str) -> None:
        self.read = 0
        self._words = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._over = threading.Event()
        self._reading = threading.Event()
        self._reading.set()
        self._wanted = threading.Event()
        self._wanted.set()
        self._threads = [threading.Thread(target=work) for work in (self._write, self._consume)]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """While this lasts."""
        admin = AdminClient(self._words)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._reading.set()
            self._wanted.set()
            for thread in self._threads:
                thread.join()

    @contextmanager
    def without_members(self) -> Iterator[None]:
        """The consumer has left its group."""
        self._wanted.clear()
        try:
            yield
        finally:
            self._wanted.set()

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """The consumer processes nothing; its heartbeats go on."""
        self._reading.clear()
        try:
            yield
        finally:
            self._reading.set()

    def _write(self) -> None:
        # a request that Pulsar does not answer is an error after five seconds, and is sent again
        producer = Producer({**self._words, "linger.ms": 0, "request.timeout.ms": 5000, "message.timeout.ms": 600_000})
        while not self._over.is_set():
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"x" * 100, partition=partition)
            producer.poll(0)
            let_pass(_EVERY_SECONDS)
        producer.flush(30)

    def _consume(self) -> None:
        while not self._over.is_set():
            self._wanted.wait()
            self._be_a_member()

    def _be_a_member(self) -> None:
        words = {**self._words, "group.id": GROUP, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 500}
        consumer = Consumer(words)
        consumer.subscribe([TOPIC])
        try:
            while self._wanted.is_set() and not self._over.is_set():
                self._reading.wait()
                for message in consumer.consume(500, timeout=0.2):
                    error = message.error()
                    assert error is None or error.code() == KafkaError._ALL_BROKERS_DOWN, error
                    self.read += error is None
        finally:
            consumer.close()
