"""Clients from before record batches: what they write others read, what others write they read.

There is no control: Kafka 4 has left these clients behind (KIP-896).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from time import time_ns
from typing import Any

import pulsar
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients import drafts
from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.families.remote import decode, encode
from tests.clients.model import CODECS, TIMEOUT_SECONDS, Codec, Draft, Record
from tests.support.driver import Driver, DriverError
from tests.support.old_kafka_python import ROOT, old_kafka_python

RELEASES = [(0, 8, 2), (0, 9), (0, 10), (0, 10, 1)]
WITHOUT_TIMES = [(0, 8, 2), (0, 9)]
OLD_CODECS = [None, "gzip", "snappy", "lz4"]
MORNING = drafts.MORNING
FIELDS = [
    Draft("text", b"value", b"key", (), MORNING),
    Draft("no key", b"value", None, (), MORNING + 5),
    Draft("empty", b"", b"", (), MORNING - 1000),
    Draft("tombstone", None, b"gone", (), MORNING),
    Draft("binary", drafts.BINARY, b"\x00\xff", (), MORNING),
    Draft("large", drafts.BIG[:200_000], b"large", (), MORNING),
    *(Draft(f"many-{n}", b"%d " % n + b"the same words " * 20, b"key-%d" % (n % 3), (), MORNING) for n in range(300)),
]
COMPRESSIBLE = FIELDS[-300:]


@pytest.fixture(scope="module")
def old(endpoint: Endpoint, native: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The old clients; their tests use `native` too, hence no control."""
    environment = {**os.environ, "PYTHONPATH": f"{old_kafka_python()}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.clients.old_clients", endpoint.kafka]
    driver = Driver(command, tmp_path_factory.mktemp("old") / "log", environment)
    try:
        yield driver
    finally:
        driver.close()


def write(old: Driver, release: tuple[int, ...], topic: str, codec: str | None, records: Sequence[Draft]) -> list[Any]:
    sent = [(0, draft.timestamp, encode(draft.key), encode(draft.value)) for draft in records]
    return list(old.call("write", release=release, topic=topic, codec=codec, records=sent))


def read(old: Driver, release: tuple[int, ...], topic: str, again: int | None = None, **options: Any) -> list[Any]:
    found = old.call("read", release=release, topic=topic, again=again, **options)
    return [(offset, time, decode(key), decode(value), headers) for offset, time, key, value, headers in found]


def seen_by(release: tuple[int, ...], records: Sequence[Draft | Record]) -> list[Any]:
    """What the client is to read, which has no headers, and timestamps from 0.10 on."""
    return [
        (offset, None if release in WITHOUT_TIMES else record.timestamp, record.key, record.value, [])
        for offset, record in enumerate(records)
    ]


@pytest.mark.parametrize(
    ("release", "codec"), [*((RELEASES[0], codec) for codec in OLD_CODECS), *zip(RELEASES, OLD_CODECS, strict=True)][1:]
)
def test_all_clients_read_what_they_write(
    clients: Clients, old: Driver, release: tuple[int, ...], codec: str | None
) -> None:
    topic = unique("old-writer")
    clients["confluent"].create_topic(topic, 1)
    started = time_ns() // 1_000_000
    assert write(old, release, topic, codec, FIELDS) == [[0, offset] for offset in range(len(FIELDS))]
    timeless = release in WITHOUT_TIMES
    for reader in ("confluent", "kafka-python"):
        found = clients[reader].read(topic, {0: "beginning"})
        assert [(r.offset, r.key, r.value, r.headers) for r in found] == [
            (offset, draft.key, draft.value, ()) for offset, draft in enumerate(FIELDS)
        ]
        times = {record.timestamp for record in found}
        assert times == ({-1} if timeless else {draft.timestamp for draft in FIELDS})
        assert timeless or max(times) < started
    for reading in (RELEASES[0], RELEASES[-1]):
        expected = seen_by(reading, FIELDS)
        if timeless and reading not in WITHOUT_TIMES:
            expected = [(offset, -1, *rest) for offset, _, *rest in expected]
        assert read(old, reading, topic) == expected


def test_native_clients_read_what_they_write(clients: Clients, endpoint: Endpoint, old: Driver, native: Any) -> None:
    topic = unique("old-writer")
    clients["confluent"].create_topic(topic, 1)
    write(old, (0, 9), topic, "lz4", FIELDS)
    write(old, (0, 10), topic, "snappy", FIELDS)
    full = f"persistent://{endpoint.namespace}/{topic}-partition-0"
    reader = native.create_reader(full, pulsar.MessageId.earliest)
    try:
        messages = [reader.read_next(10_000) for _ in range(2 * len(FIELDS))]
    finally:
        reader.close()
    assert [message.data() for message in messages] == [draft.value or b"" for draft in FIELDS] * 2
    times = [0] * len(FIELDS) + [draft.timestamp for draft in FIELDS]
    assert [message.event_timestamp() for message in messages] == times


@pytest.mark.parametrize(
    ("writer", "codec"),
    # what is stored differs by codec, and snappy and lz4 are framed by each client in its own way
    [("java", codec) for codec in [*CODECS, "none"]]
    + [(writer, codec) for writer in ("kafka-python", "confluent") for codec in ("snappy", "lz4")],
)
def test_they_read_what_others_write(clients: Clients, old: Driver, writer: str, codec: Codec) -> None:
    topic = unique("old-reader")
    clients["confluent"].create_topic(topic, 1)
    written = FIELDS if codec == "none" else COMPRESSIBLE
    headers = (("a", b"1"), ("b", b"2"))
    clients[writer].write(topic, [Draft(d.name, d.value, d.key, headers, d.timestamp) for d in written], codec)
    for release in RELEASES:
        everything = seen_by(release, written)
        assert read(old, release, topic, 100) == everything + everything[100:]  # from within a batch, most likely


@pytest.mark.parametrize("release", RELEASES)
def test_small_fetches_go_on_where_a_message_was_cut(clients: Clients, old: Driver, release: tuple[int, ...]) -> None:
    topic = unique("old-reader")
    clients["confluent"].create_topic(topic, 1)
    records = [Draft("", bytes([n]) * (100 + 37 * n), b"key", (), MORNING + n) for n in range(60)]
    clients["confluent"].write(topic, records)
    assert read(old, release, topic, most=3000) == seen_by(release, records)


@pytest.mark.parametrize("release", RELEASES)
def test_a_message_above_the_limit(clients: Clients, old: Driver, release: tuple[int, ...]) -> None:
    topic = unique("old-reader")
    clients["confluent"].create_topic(topic, 1)
    records = [Draft("", b"small", b"key", (), MORNING), Draft("", b"large" * 1000, b"key", (), MORNING)]
    clients["confluent"].write(topic, records)
    if release >= (0, 10, 1):  # KIP-74: the first one is whole, whatever its size
        assert read(old, release, topic, most=1000) == seen_by(release, records)
    else:
        with pytest.raises(DriverError, match="RecordTooLarge"):
            read(old, release, topic, most=1000)


@pytest.mark.parametrize("release", ["0.8.2", "0.9.0"])
def test_librdkafka_reads_what_it_and_others_write(
    clients: Clients, endpoint: Endpoint, native: Any, release: str
) -> None:
    topic = unique("old-" + "x" * 200)  # it makes too little room for short answers of Metadata v0
    clients["confluent"].create_topic(topic, 1)
    settings = {
        "bootstrap.servers": endpoint.kafka, "api.version.request": "false", "broker.version.fallback": release,
    }  # fmt: skip
    for codec in OLD_CODECS:
        producer = Producer({**settings, "compression.type": codec or "none", "linger.ms": 50})
        for draft in COMPRESSIBLE:
            producer.produce(topic, draft.value, draft.key, 0)
        assert producer.flush(TIMEOUT_SECONDS) == 0
    count = len(OLD_CODECS) * len(COMPRESSIBLE)
    clients["kafka-python"].write(topic, COMPRESSIBLE)
    consumer = Consumer({**settings, "group.id": unique("group"), "check.crcs": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = [consumer.consume(1, TIMEOUT_SECONDS)[0] for _ in range(count + len(COMPRESSIBLE))]
    finally:
        consumer.close()
    assert [message.error() for message in found] == [None] * len(found)
    assert [message.offset() for message in found] == list(range(len(found)))
    written = [(draft.key, draft.value) for draft in COMPRESSIBLE] * (len(OLD_CODECS) + 1)
    assert [(message.key(), message.value()) for message in found] == written
    others = clients["kafka-python"].read(topic, {0: "beginning"})
    assert [(record.key, record.value) for record in others] == written
    assert {record.timestamp for record in others[:count]} == {-1}


@pytest.mark.parametrize("release", RELEASES)
def test_groups_go_on_where_they_committed(clients: Clients, old: Driver, release: tuple[int, ...]) -> None:
    topic, group = unique("old-group"), unique("group")
    clients["confluent"].create_topic(topic, 1)
    write(old, release, topic, "gzip", FIELDS)
    values: list[bytes | None] = []
    for count in (100, len(FIELDS) - 100):
        found = old.call("subscribe", release=release, topic=topic, group=group, count=count)
        values += [decode(value) for _, _, _, value, _ in found]
    assert values == [draft.value for draft in FIELDS]
    assert clients.groups("confluent").committed(group, topic, [0]) == {0: len(FIELDS)}
