"""Topics that Kafka-on-Pulsar left behind: every client reads them, and new records go on in their format.

What its transactions aborted is in test_kop_transactions.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource

from bridge.pulsar import Admin, PulsarClient
from bridge.pulsar.types import Position
from bridge.storage import entries
from bridge.telemetry.metrics import Metrics
from tests.clients.endpoint import FAMILIES, Clients, Endpoint, unique
from tests.clients.kop_entries import (
    GZIP,
    LZ4,
    THEN,
    Kept,
    batch_v2,
    control,
    marker,
    message_set,
    messages,
    put,
    some,
    verbatim,
)
from tests.clients.model import Draft, Headers
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress


def magic_0(*records: Kept) -> tuple[Kept, ...]:
    return tuple(Kept(one.key, one.value, -1) for one in records)


TEXT: Headers = (("a", b"1"), ("b", "größe".encode()), ("a", b""))
LEFT = {
    "kafka": [
        verbatim(batch_v2(some(0, 3)), *some(0, 3)),
        verbatim(batch_v2(some(3, 40), GZIP), *some(3, 40)),
        verbatim(batch_v2(some(43, 40), LZ4), *some(43, 40)),
        verbatim(batch_v2([Kept(None, None, -1)]), Kept(None, None, -1)),
        verbatim(batch_v2(some(84, 2)) + batch_v2(some(86, 3)), *some(84, 5)),
        verbatim(batch_v2(some(89, 2), transactional=True), *some(89, 2)),
        verbatim(control(), count=1),
        verbatim(batch_v2(some(92, 1)), *some(92, 1)),
    ],
    "old": [
        verbatim(message_set(0, some(0, 2)), *magic_0(*some(0, 2))),
        verbatim(message_set(1, some(2, 3)), *some(2, 3, headers=False)),
        verbatim(message_set(1, some(5, 30), GZIP), *some(5, 30, headers=False)),
        verbatim(batch_v2(some(35, 2)), *some(35, 2)),
    ],
    "pulsar": [
        messages(Kept(b"text", b"value", THEN, TEXT), Kept(b"\xff\0", b"\0\xff", THEN + 1), Kept(None, b"v", THEN + 2)),
        messages(Kept(b"", b"", THEN + 3), Kept(b"gone", None, THEN + 4, TEXT), Kept(None, None, THEN + 5)),
        messages(Kept(b"k", b"the time of the entry", THEN + 6), event_times=False),
        messages(Kept(None, b"first", THEN + 7), Kept(b"k", b"last", THEN + 1)),
    ],
    "markers": [
        messages(*some(0, 2, headers=False)), marker(), messages(*some(3, 2, headers=False)), marker(), marker(),
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Kop:
    """The topics that KoP left, by what is in them."""

    topics: dict[str, str]
    ids: dict[str, uuid.UUID]


@pytest.fixture(scope="module")
def kop(pulsar: PulsarAddress, endpoint: Endpoint) -> Iterator[Kop]:
    made = Kop({kind: unique(f"kop-{kind}") for kind in LEFT}, {kind: uuid.uuid4() for kind in LEFT})
    asyncio.run(leave(pulsar, endpoint, made))
    yield made


async def leave(pulsar: PulsarAddress, endpoint: Endpoint, made: Kop) -> None:
    settings = settings_for(pulsar, endpoint.namespace).pulsar
    admin, client = Admin(settings), PulsarClient(settings, Metrics().pulsar)
    await admin.start()
    await client.start()
    try:
        for kind, left in LEFT.items():
            name = f"persistent://{endpoint.namespace}/{made.topics[kind]}"
            entry_format = "pulsar" if kind in ("pulsar", "markers") else "mixed_kafka"
            properties = {"kafkaTopicUUID": str(made.ids[kind]), "kafkaEntryFormat": entry_format}
            await admin.create_partitioned(name, 1, properties)
            await put(client, f"{name}-partition-0", left)
    finally:
        await client.close()
        await admin.close()


def offsets_of(kind: str) -> list[tuple[int, Kept]]:
    found = []
    offset = 0
    for left in LEFT[kind]:
        found += [(offset + at, one) for at, one in enumerate(left.records)]
        offset += left.metadata.num_messages_in_batch
    return found


@pytest.mark.parametrize("reader", FAMILIES)
@pytest.mark.parametrize("kind", LEFT)
def test_every_client_reads_what_kop_wrote(kop: Kop, clients: Clients, kind: str, reader: str) -> None:
    records = clients[reader].read(kop.topics[kind], {0: "beginning"})
    found = [(one.offset, Kept(one.key, one.value, one.timestamp, one.headers)) for one in records]
    assert found == offsets_of(kind)


@pytest.mark.parametrize("kind", LEFT)
def test_offsets_go_on_where_kop_s_end(kop: Kop, clients: Clients, kind: str) -> None:
    end = offsets_of(kind)[-1][0] + 1
    assert clients["confluent"].beginning_and_end(kop.topics[kind], 0) == (0, end)


def test_times_are_found(kop: Kop, clients: Clients) -> None:
    for offset in (0, 5, 50, 86):
        assert clients["confluent"].offset_for_time(kop.topics["kafka"], 0, THEN + offset) == offset


@pytest.mark.parametrize("kind", LEFT)
def test_the_id_of_the_topic_and_its_format_stay(kop: Kop, endpoint: Endpoint, kind: str) -> None:
    admin = AdminClient({"bootstrap.servers": endpoint.kafka})
    topic = kop.topics[kind]
    said = admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id
    bits = (said.get_most_significant_bits() << 64 | said.get_least_significant_bits() % (1 << 64)) % (1 << 128)
    assert uuid.UUID(int=bits) == kop.ids[kind]
    (shown,) = [one.result(30) for one in admin.describe_configs([ConfigResource("topic", topic)]).values()]
    assert shown["entry.format"].value == ("pulsar" if kind in ("pulsar", "markers") else "kafka")


async def test_what_is_written_now_goes_on_in_the_topic_s_format(
    pulsar: PulsarAddress, clients: Clients, endpoint: Endpoint
) -> None:
    settings = settings_for(pulsar, endpoint.namespace).pulsar
    admin, client = Admin(settings), PulsarClient(settings, Metrics().pulsar)
    await admin.start()
    await client.start()
    try:
        for kop_s in ("pulsar", "kafka", "mixed_kafka"):
            topic = unique("kop-new")
            name = f"persistent://{endpoint.namespace}/{topic}"
            await admin.create_partitioned(name, 1, {"kafkaEntryFormat": kop_s})
            await asyncio.to_thread(clients["confluent"].write, topic, [Draft("one", b"value", b"key")])
            entry = await client.read_entry(f"{name}-partition-0", Position(0, 0))
            assert entry is not None
            assert entries.is_kafka(entry.metadata) == (kop_s != "pulsar")
    finally:
        await client.close()
        await admin.close()
