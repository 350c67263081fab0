"""Native Pulsar clients beside transactions: they see the records, whatever becomes of those, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pulsar
import pytest

from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.model import Draft
from tests.clients.transactions.confluent import ConfluentProducer
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until

SUBSCRIPTION = "native"
RECEIVE_MS = 30_000


class Written:
    """A topic that a transactional producer and others write to, and all values in the order of the log."""

    def __init__(self, endpoint: Endpoint, clients: Clients, native: Any) -> None:
        self._endpoint, self._clients, self._native = endpoint, clients, native
        self.topic = unique("transactions-native")
        clients["confluent"].create_topic(self.topic, 1)
        self.partition = f"persistent://{endpoint.namespace}/{self.topic}-partition-0"
        self.producer = ConfluentProducer(endpoint.kafka, unique("transactional"))
        self.values: list[str] = []

    def send(self, *values: str) -> None:
        """Write in the open transaction."""
        self.producer.send(self.topic, values)
        self.values += values

    def write(self, value: str) -> None:
        """Write in no transaction."""
        self._clients["confluent"].write(self.topic, [Draft(value, value.encode(), partition=0)])
        self.values.append(value)

    def mix(self) -> None:
        """Write what is committed, aborted and of no transaction, and leave a transaction open."""
        self.write("plain 1")
        for end in ("committed", "aborted", "committed again", "aborted again"):
            self.producer.begin()
            self.send(f"{end} 1", f"{end} 2")
            self.write(f"between {end}")
            self.send(f"{end} 3")
            self.producer.commit() if end.startswith("committed") else self.producer.abort()
        self.producer.begin()
        self.send("open 1", "open 2")

    def subscribe(self) -> Any:
        """A native consumer from the beginning on."""
        earliest = pulsar.InitialPosition.Earliest
        return self._native.subscribe(self.partition, SUBSCRIPTION, initial_position=earliest)

    def reader(self) -> Any:
        """A native reader from the beginning on."""
        return self._native.create_reader(self.partition, pulsar.MessageId.earliest)

    def backlog(self) -> int:
        """What Pulsar says that the subscription has not consumed."""
        at = PulsarAddress(self._endpoint.pulsar, self._endpoint.admin)
        stats: Any = at.admin("GET", f"{self.partition.replace('://', '/')}/stats")
        return int(stats["subscriptions"][SUBSCRIPTION]["msgBacklog"])


@pytest.fixture
def written(endpoint: Endpoint, clients: Clients, native: Any) -> Iterator[Written]:
    """A topic of the test's own."""
    made = Written(endpoint, clients, native)
    with closing(made.producer):
        yield made


def received(consumer: Any, number: int) -> list[str]:
    """So many records, acknowledged."""
    values = []
    for _ in range(number):
        message = consumer.receive(timeout_millis=RECEIVE_MS)
        consumer.acknowledge(message)
        values.append(message.data().decode())
    return values


def read_to_the_end(reader: Any) -> list[str]:
    values = []
    while reader.has_message_available():
        values.append(reader.read_next(timeout_millis=RECEIVE_MS).data().decode())
    return values


@pytest.mark.parametrize("first", [True, False], ids=["subscribed-before", "subscribed-afterwards"])
def test_a_consumer_gets_every_record_and_keeps_no_backlog(written: Written, first: bool) -> None:
    if first:
        consumer = written.subscribe()
        written.mix()
    else:
        written.mix()
        consumer = written.subscribe()
    with closing(consumer):
        assert received(consumer, len(written.values)) == written.values
        written.producer.abort()
        written.write("last")
        assert received(consumer, 1) == ["last"]  # the end of a transaction is no message
        asyncio.run(until(lambda: written.backlog() == 0))


def test_a_reader_sees_whether_there_is_more(written: Written) -> None:
    written.mix()
    with closing(written.reader()) as reader:
        assert read_to_the_end(reader) == written.values
        written.producer.abort()
        assert not reader.has_message_available()
        written.producer.begin()
        written.send("aborted at the end")
        assert reader.has_message_available()
        assert read_to_the_end(reader) == ["aborted at the end"]
        written.producer.abort()
        assert not reader.has_message_available()
    with closing(written.reader()) as again:
        assert read_to_the_end(again) == written.values


def test_native_records_between_those_of_a_transaction_are_read_at_once_and_in_order(
    written: Written, clients: Clients, native: Any
) -> None:
    """A native entry is of no transaction: only the order of the log holds it back."""
    written.producer.begin()
    with closing(native.create_producer(written.partition)) as producer:
        producer.send(b"native 1")
        written.send("aborted")
        producer.send(b"native 2")
    written.producer.abort()
    read = [record.value for record in clients["java"].read(written.topic, {0: "beginning"})]
    assert read == [b"native 1", b"aborted", b"native 2"]  # this one reads all
    committed = [record.value for record in clients["confluent"].read(written.topic, {0: "beginning"})]
    assert committed == [b"native 1", b"native 2"]
