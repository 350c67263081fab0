"""Transactions of Kafka-on-Pulsar: once they are imported, no reader of committed records gets what KoP aborted.

A KoP as it was: 50 groups, topics in all its formats with transactions beside one another, some of which it has not
ended, and its own topics, all byte for byte. Each value says at which offset KoP had it.
"""

from __future__ import annotations

import asyncio
import io
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, TopicPartition

from bridge.cli.kop.moving import move
from bridge.cli.parser import make_parser
from bridge.config import Settings
from bridge.pulsar import Admin, PulsarClient
from bridge.telemetry.metrics import Metrics
from tests.cli.kop.kop_log import (
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    Sent,
    commit,
    create,
    java_partition,
    snapshot,
    state,
    write,
)
from tests.clients.endpoint import Clients, Endpoint, unique
from tests.clients.kop_entries import (
    GZIP,
    LZ4,
    THEN,
    Kept,
    Left,
    batch_v2,
    control,
    marker,
    message_set,
    messages,
    put,
    verbatim,
)
from tests.clients.transactions.families import FAMILIES, KCAT, Families
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress

KINDS = ("kafka", "mixed_kafka", "pulsar", "both")
PARTITIONS = 2
GROUPS = 50
ENTRIES = 60
READERS = (*FAMILIES, KCAT)


@dataclass
class History:
    """One partition: its entries, and what of them each reader has to get."""

    left: list[Left] = field(default_factory=list)
    end: int = 0
    every: list[int] = field(default_factory=list)
    """The offsets of all records."""
    aborted: set[int] = field(default_factory=set)
    open: dict[int, list[int]] = field(default_factory=dict)
    """By producer the offsets of its transaction."""

    @property
    def committed(self) -> list[int]:
        return [offset for offset in self.every if offset not in self.aborted]


@dataclass
class Kop:
    """What KoP left."""

    metadata: str
    topics: dict[str, str]
    histories: dict[tuple[str, int], History]
    offsets: dict[str, dict[tuple[str, int], int]]
    """What groups had committed."""
    told: str = ""
    """What the import has told."""


def kept(first: int, count: int, *, headers: bool) -> list[Kept]:
    with_headers = (("n", b"1"),) if headers else ()
    return [Kept(b"key", b"%d" % at, THEN + at, with_headers) for at in range(first, first + count)]


def add_records(history: History, chance: random.Random, form: str, producer: int | None) -> None:
    records = kept(history.end, chance.randint(1, 5), headers=form != "old")
    if form == "pulsar":
        left = messages(*records, producer=producer)
    elif form == "old":
        left = verbatim(message_set(1, records, chance.choice((0, GZIP))), *records)
    else:
        codec = chance.choice((0, GZIP, LZ4))
        batch = bytearray(batch_v2(records, codec, transactional=producer is not None, producer=producer or 0))
        if form == "mixed_kafka":  # its offsets are those that it had counted itself
            batch[:8] = struct.pack(">q", history.end)
        left = verbatim(bytes(batch), *records)
    offsets = range(history.end, history.end + len(records))
    history.left.append(left)
    history.every += offsets
    history.end += len(records)
    if producer is not None:
        history.open.setdefault(producer, []).extend(offsets)


def add_end(history: History, form: str, producer: int, *, committed: bool) -> None:
    left = (
        marker(producer, committed=committed)
        if form == "pulsar"
        else verbatim(control(producer, committed=committed), count=1)
    )
    history.left.append(left)
    history.end += 1
    its = history.open.pop(producer, [])
    if not committed:
        history.aborted |= set(its)


def history_of(kind: str, chance: random.Random, first_producer: int) -> History:
    """Entries of six producers; each last transaction is left to `settle`."""
    history = History()
    producers = range(first_producer, first_producer + 6)
    for _ in range(ENTRIES):
        form = chance.choice(("kafka", "pulsar")) if kind == "both" else kind
        what, producer = chance.random(), chance.choice(producers)
        if what < 0.2:
            add_records(history, chance, "old" if form == "kafka" and what < 0.05 else form, None)
        elif what < 0.75:
            add_records(history, chance, form, producer)
        elif producer in history.open:
            add_end(history, form, producer, committed=chance.random() < 0.5)
    form = "pulsar" if kind == "both" else kind
    for producer in reversed(producers):  # the first one's will be aborted: nothing follows it
        add_records(history, chance, form, producer)
    return history


def settle(history: History, topic: str, number: int) -> list[Sent]:
    """KoP was stopped: one of the producers has ended its transaction, of the others there are states, a snapshot, or
    nothing; what they say is done."""
    producers = sorted(history.open)
    statuses = (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
    sent = [
        state(f"{topic}-{number}-{producer}", producer, status, (topic, number))
        for producer, status in zip(producers, statuses, strict=False)
    ]
    for producer, aborted in zip(producers, (True, False, True), strict=False):
        if aborted:
            history.aborted |= set(history.open[producer])
    return sent


@pytest.fixture(scope="module")
def kop(pulsar: PulsarAddress, endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kop]:
    chance = random.Random(7)
    made = Kop(pulsar.create_namespace(), {kind: unique(f"kop-txn-{kind}") for kind in KINDS}, {}, {})
    for at, kind in enumerate(KINDS):
        for number in range(PARTITIONS):
            made.histories[kind, number] = history_of(kind, chance, 1000 * at + 100 * number)
    for at in range(GROUPS):
        made.offsets[f"{made.topics['kafka']}-group-{at}"] = {
            (kind, number): chance.randint(0, made.histories[kind, number].end)
            for kind in chance.sample(KINDS, chance.randint(1, len(KINDS)))
            for number in range(PARTITIONS)
        }
    settings = settings_for(pulsar, endpoint.namespace)
    asyncio.run(leave(made, settings))
    made.told = imported(settings, endpoint, made)
    yield made


async def leave(made: Kop, settings: Settings) -> None:
    admin, client = Admin(settings.pulsar), PulsarClient(settings.pulsar, Metrics().pulsar)
    await admin.start()
    await client.start()
    try:
        states = await create(admin, made.metadata, "__transaction_state")
        snapshots = await create(admin, made.metadata, "__transaction_producer_state", 8)
        offsets = await create(admin, made.metadata)
        logs: dict[tuple[str, int], list[Sent]] = {}
        for kind, topic in made.topics.items():
            name = f"persistent://{settings.pulsar.full_namespace}/{topic}"
            entry_format = "kafka" if kind == "both" else kind
            await admin.create_partitioned(name, PARTITIONS, {"kafkaEntryFormat": entry_format})
            for number in range(PARTITIONS):
                history = made.histories[kind, number]
                for one in settle(history, name, number):
                    logs.setdefault((states, java_partition((one[0] or b"")[4:].decode())), []).append(one)
                partition = f"{name}-partition-{number}"
                logs.setdefault((snapshots, java_partition(partition, 8)), []).append(snapshot(partition, 1))
                await put(client, partition, history.left)
        for group, its in made.offsets.items():
            for (kind, number), offset in its.items():
                full = f"persistent://{settings.pulsar.full_namespace}/{made.topics[kind]}"
                logs.setdefault((offsets, java_partition(group)), []).append(commit(group, full, {number: offset}))
        await asyncio.gather(*(write(client, *where, sent) for where, sent in logs.items()))
    finally:
        await client.close()
        await admin.close()


def imported(settings: Settings, endpoint: Endpoint, made: Kop, *options: str) -> str:
    out = io.StringIO()
    line = ["import", "kop", "--bootstrap", endpoint.kafka, "--metadata-namespace", made.metadata]
    line += ["--topics", "kop-txn-.*", *options]
    assert move(settings, make_parser().parse_args(line), out) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def families(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Families]:
    made = Families(endpoint, tmp_path_factory.mktemp("families"))
    yield made
    made.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", READERS)
@pytest.mark.parametrize("committed", [True, False])
def test_every_client_gets_what_kop_committed_and_nothing_that_it_aborted(
    kop: Kop, families: Families, kind: str, family: str, committed: bool
) -> None:
    reader = families.readers_of(family).reader(kop.topics[kind], range(PARTITIONS), committed=committed)
    try:
        seen = reader.read()
        for number in range(PARTITIONS):
            history = kop.histories[kind, number]
            wanted = history.committed if committed else history.every
            assert [int(value) for value in seen[number]] == wanted
            assert reader.position(number) == history.end
    finally:
        reader.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["confluent", "kafka-python", "java"])
def test_each_record_is_at_the_offset_that_kop_gave_it(kop: Kop, clients: Clients, kind: str, family: str) -> None:
    """By the clients' own defaults: librdkafka reads committed records, the others all."""
    for number in range(PARTITIONS):
        found = clients[family].read(kop.topics[kind], {number: "beginning"})
        assert [one.offset for one in found] == [int(one.value or b"") for one in found]
        history = kop.histories[kind, number]
        assert [one.offset for one in found] == (history.committed if family == "confluent" else history.every)


def test_what_the_import_tells(kop: Kop) -> None:
    histories = kop.histories.values()
    assert all(history.aborted for history in histories)
    lines = kop.told.splitlines()
    of_topics = {topic: kind for kind, topic in kop.topics.items()}
    rows = {(of_topics[one[0]], int(one[1])): one for line in lines if (one := line.split())[0] in of_topics}
    assert rows.keys() == kop.histories.keys()
    for where, row in rows.items():
        assert int(row[3]) == len(kop.histories[where].aborted)
        assert " ".join(row[4:]) == (
            "yes; 1 never ended: aborted, as by their time-out; the end of 3 is not known: read as if committed"
        )


def test_a_second_import_has_nothing_to_do(pulsar: PulsarAddress, endpoint: Endpoint, kop: Kop) -> None:
    told = imported(settings_for(pulsar, endpoint.namespace), endpoint, kop)
    assert told.endswith("taken: 0 offsets of 0 groups, 0 aborted transactions\n")


def test_fifty_groups_go_on_where_they_were(kop: Kop, endpoint: Endpoint) -> None:
    for group, its in kop.offsets.items():
        consumer = Consumer({"bootstrap.servers": endpoint.kafka, "group.id": group})
        wanted = [TopicPartition(kop.topics[kind], number) for kind, number in its]
        found = {(one.topic, one.partition): one.offset for one in consumer.committed(wanted, 30)}
        consumer.close()
        assert found == {(kop.topics[kind], number): offset for (kind, number), offset in its.items()}


def test_a_group_of_committed_records_goes_on_in_the_midst_of_what_was_aborted(kop: Kop, endpoint: Endpoint) -> None:
    """From each offset there is: a control batch stands where only aborted records are left of an answer."""
    history = kop.histories["kafka", 0]
    consumer = Consumer(
        {"bootstrap.servers": endpoint.kafka, "group.id": "unused", "isolation.level": "read_committed",
         "enable.partition.eof": True, "enable.auto.commit": False}
    )  # fmt: skip
    for start in random.Random(1).sample(range(history.end), 20):
        consumer.assign([TopicPartition(kop.topics["kafka"], 0, start)])
        message = consumer.poll(30)
        assert message is not None
        following = [offset for offset in history.committed if offset >= start]
        assert message.offset() == (following[0] if following else history.end)
    consumer.close()
