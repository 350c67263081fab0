"""`bridge import kop` on a real Pulsar: groups go on exactly where KoP had them, and nothing goes back."""

from __future__ import annotations

import asyncio
import io
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from bridge.cli.kop.moving import move
from bridge.cli.kop.reading import read_offsets
from bridge.cli.kop.records import KopOffsets, Place
from bridge.cli.parser import make_parser
from bridge.errors import SettingsError, StartupError
from bridge.pulsar import Admin, PulsarClient
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.cli.kop.kop_log import (
    Sent,
    commit,
    ended,
    forgotten_group,
    java_partition,
    metadata_of,
    write,
)
from tests.cli.kop.served import PARTITIONS, RECORDS, by_partition, leave, left_by, make_topic, opened, run
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import compact


@pytest.fixture(scope="module")
def served(pulsar: PulsarAddress) -> Iterator[BridgeThread]:
    bridge = BridgeThread(settings_for(pulsar, pulsar.create_namespace()))
    bridge.start()
    try:
        make_topic(bridge, "orders")
        make_topic(bridge, "payments")
        yield bridge
    finally:
        bridge.stop()


@pytest.fixture
def left(pulsar: PulsarAddress) -> str:
    """A metadata namespace of KoP's."""
    return pulsar.create_namespace()


def full(bridge: BridgeThread, topic: str) -> str:
    return f"persistent://{bridge.namespace}/{topic}"


def reasons(told: str) -> dict[tuple[str, str, int], str]:
    return {(one["group"], one["topic"], one["partition"]): one["reason"] for one in json.loads(told)["offsets"]}


def consumer_of(bridge: BridgeThread, group: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bridge.kafka, "group.id": group, "auto.offset.reset": "error",
            "enable.auto.commit": False, "enable.partition.eof": True,
        }
    )  # fmt: skip


def committed(bridge: BridgeThread, group: str, topic: str = "orders") -> dict[int, int]:
    consumer = consumer_of(bridge, group)
    found = consumer.committed([TopicPartition(topic, one) for one in range(PARTITIONS)], 30)
    consumer.close()
    return {one.partition: one.offset for one in found if one.offset >= 0}


def commit_here(bridge: BridgeThread, group: str, offsets: dict[int, int]) -> None:
    consumer = consumer_of(bridge, group)
    consumer.commit(
        offsets=[TopicPartition("orders", one, offset) for one, offset in offsets.items()], asynchronous=False
    )
    consumer.close()


def read_on(bridge: BridgeThread, group: str, topic: str, wanted: dict[int, int]) -> dict[int, int]:
    """The first offset that a member of the group is given of each partition; its end where nothing is left."""
    consumer = consumer_of(bridge, group)
    consumer.subscribe([topic])
    first: dict[int, int] = {}
    while first.keys() < wanted.keys():
        one = consumer.poll(30)
        assert one is not None
        error = one.error()
        assert error is None or error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
        first.setdefault(one.partition() or 0, one.offset() or 0)
    consumer.close()
    return first


def history(group: str, topic: str, chance: random.Random) -> tuple[list[Sent], dict[int, int]]:
    """What a group's coordinator wrote in its life, and what counts in the end."""
    sent, last = [metadata_of(group)], {}
    for _ in range(chance.randint(3, 12)):
        some = chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS))
        offsets = {one: chance.randint(0, RECORDS) for one in some}
        sent.append(commit(group, topic, {one: offset for one, offset in offsets.items()}, "mark"))
        last.update(offsets)
        kind = chance.randrange(6)
        if kind == 0:
            sent.append(metadata_of(group))
        elif kind == 1:
            sent.append((None, b"placeholder"))
        elif kind == 2:
            sent.append((b"garbage", chance.randbytes(90)))
        elif kind == 3:
            gone = chance.randrange(PARTITIONS)
            sent.append(commit(group, topic, {gone: None}))
            last.pop(gone, None)
    every: dict[int, int | None] = {one: chance.randint(0, RECORDS) for one in range(PARTITIONS) if one not in last}
    sent.append(commit(group, topic, every))
    return sent, {**last, **{one: offset for one, offset in every.items() if offset is not None}}


@pytest.mark.parametrize("batched", [pytest.param(1, marks=pytest.mark.soak), 3])
def test_fifty_groups_go_on_exactly_where_they_were(
    pulsar: PulsarAddress, served: BridgeThread, left: str, batched: int
) -> None:
    chance = random.Random(batched)
    histories = {f"group-{batched}-{one}": history(f"group-{batched}-{one}", full(served, "orders"), chance)
                 for one in range(50)}  # fmt: skip
    logs = by_partition(*((group, one) for group, (sent, _) in histories.items() for one in sent))
    asyncio.run(leave(pulsar, left, logs, batched))
    run(served, left, "--dry-run")
    assert all(committed(served, group) == {} for group in list(histories)[:5])
    told = run(served, left)
    assert told.endswith(f"taken: {50 * PARTITIONS} offsets of 50 groups\n")
    garbage = sum(sent[0] == b"garbage" for log in logs.values() for sent in log)
    assert f", {garbage} unreadable" in told
    for group, (_, offsets) in histories.items():
        assert committed(served, group) == offsets
    for group in list(histories)[:5]:
        assert read_on(served, group, "orders", histories[group][1]) == histories[group][1]


def test_metadata_comes_along(pulsar: PulsarAddress, served: BridgeThread) -> None:
    left = left_by(pulsar, ("meta", commit("meta", full(served, "orders"), {0: 3}, "größe")))
    run(served, left)
    consumer = consumer_of(served, "meta")
    (found,) = consumer.committed([TopicPartition("orders", 0)], 30)
    consumer.close()
    assert (found.offset, found.metadata) == (3, "größe")


def test_what_is_not_taken_is_told_with_its_reason(pulsar: PulsarAddress, served: BridgeThread) -> None:
    ours, sent = full(served, "orders"), []
    for group, one in {
        "elsewhere": commit("elsewhere", "persistent://public/other/orders", {0: 1}),
        "gone": commit("gone", full(served, "no-more"), {0: 1}),
        "fewer": commit("fewer", ours, {PARTITIONS: 1}),
        "ahead": commit("ahead", ours, {0: RECORDS + 1, 1: RECORDS}),
        "old": commit("old", ours, {0: 1}, expires=1_700_000_000_000),
        "further": commit("further", ours, {0: 3, 1: 3, 2: 3, 3: 3}),
        "open": commit("open", ours, {0: 3}, producer=7),
        "long": commit("long", ours, {0: 3}, "m" * 5000),
    }.items():
        sent.append((group, one))
    left = left_by(pulsar, *sent)
    commit_here(served, "further", {0: 2, 1: 3, 2: 4})
    told = run(served, left, "--json", exit_code=1)
    assert reasons(told) == {
        ("elsewhere", "persistent://public/other/orders", 0): f"the topic is not in {served.namespace}",
        ("gone", "no-more", 0): "there is no such topic",
        ("fewer", "orders", PARTITIONS): "the topic has no such partition",
        ("ahead", "orders", 0): f"beyond the log's end, {RECORDS}",
        ("ahead", "orders", 1): "",
        ("old", "orders", 0): "expired 2023-11-14 22:13; --expired takes it",
        ("further", "orders", 0): "has committed here, 2; --forward takes it",
        ("further", "orders", 1): "is so already",
        ("further", "orders", 2): "further on here, at 4",
        ("further", "orders", 3): "",
        ("open", "orders", 0): "in a transaction whose end is not known",
        ("long", "orders", 0): "refused: OffsetMetadataTooLargeError",
    }
    assert committed(served, "further") == {0: 2, 1: 3, 2: 4, 3: 3}
    told = run(served, left, "--json", "--forward", "--expired", exit_code=1)
    assert {where: reason for where, reason in reasons(told).items() if where[0] in ("further", "old")} == {
        ("old", "orders", 0): "",
        ("further", "orders", 0): "",
        ("further", "orders", 1): "is so already",
        ("further", "orders", 2): "further on here, at 4",
        ("further", "orders", 3): "is so already",
    }
    assert committed(served, "further") == {0: 3, 1: 3, 2: 4, 3: 3}
    assert committed(served, "open") == {}


def test_what_lies_below_the_start_is_not_taken(pulsar: PulsarAddress, served: BridgeThread) -> None:
    make_topic(served, "cut")
    admin = AdminClient({"bootstrap.servers": served.kafka})
    admin.delete_records([TopicPartition("cut", 0, 5)])[TopicPartition("cut", 0)].result(30)
    left = left_by(pulsar, ("low", commit("low", full(served, "cut"), {0: 4, 1: 4})))
    assert reasons(run(served, left, "--json")) == {
        ("low", "cut", 0): "below the log's start, 5",
        ("low", "cut", 1): "",
    }


def test_a_group_with_members_is_left_alone(pulsar: PulsarAddress, served: BridgeThread) -> None:
    left = left_by(pulsar, ("busy", commit("busy", full(served, "orders"), {0: 7})))
    commit_here(served, "busy", dict.fromkeys(range(PARTITIONS), 2))
    member = consumer_of(served, "busy")
    member.subscribe(["orders"])
    assert member.poll(30) is not None
    try:
        assert reasons(run(served, left, "--json", "--forward")) == {("busy", "orders", 0): "the group is active here"}
    finally:
        member.close()
    assert committed(served, "busy")[0] == 2


def test_again_changes_nothing_that_moved_on(pulsar: PulsarAddress, served: BridgeThread) -> None:
    left = left_by(pulsar, ("twice", commit("twice", full(served, "orders"), {0: 7, 1: 7})))
    run(served, left)
    commit_here(served, "twice", {0: 11})
    told = run(served, left, "--forward")
    assert told.endswith("taken: 0 offsets of 0 groups\n")
    assert committed(served, "twice") == {0: 11, 1: 7}


def test_what_a_transaction_of_kop_has_committed(pulsar: PulsarAddress, served: BridgeThread) -> None:
    ours = full(served, "orders")
    sent = [
        ("txn", commit("txn", ours, {0: 1, 1: 1})),
        ("txn", commit("txn", ours, {0: 5}, producer=7)),
        ("txn", ended("txn", 7, committed=True)),
        ("txn", commit("txn", ours, {1: 6}, producer=7)),
        ("txn", ended("txn", 7, committed=False)),
    ]
    left = left_by(pulsar, *sent)
    run(served, left)
    assert committed(served, "txn") == {0: 5, 1: 1}


async def test_ends_of_transactions_that_brokers_keep_from_readers_count(pulsar: PulsarAddress, left: str) -> None:
    """KoP writes them as markers of Pulsar's: between entries, as the last ones, and across ledgers."""
    ours, where = "persistent://public/default/t", java_partition("g")
    await leave(pulsar, left, {where: [commit("g", ours, dict.fromkeys(range(4), 1))]})
    topic = f"persistent://{left}/__consumer_offsets"
    async with opened(pulsar) as (client, admin):
        await write(
            client, topic, where, [commit("g", ours, {0: 5}, producer=7), commit("g", ours, {1: 5}, producer=8)]
        )
        await end_hidden(client, topic, where, 7, pb.TXN_COMMIT)
        await admin.unload(f"{topic}-partition-{where}")
        await end_hidden(client, topic, where, 8, pb.TXN_ABORT)
        await write(
            client, topic, where, [commit("g", ours, {2: 6}, producer=7), commit("g", ours, {3: 6}, producer=9)]
        )
        await end_hidden(client, topic, where, 7, pb.TXN_COMMIT)
    found = await read(pulsar, left)
    assert {place.partition: one.offset for place, one in found.commits.items()} == {0: 5, 1: 1, 2: 6, 3: 1}
    assert set(found.undecided) == {Place("g", ours, 3)}
    assert found.counts == {"commits": 8, "markers": 3}


async def end_hidden(client: PulsarClient, topic: str, partition: int, producer_id: int, kind: int) -> None:
    producer = client.producer(f"{topic}-partition-{partition}", must_exist=True)
    metadata = pb.MessageMetadata(
        num_messages_in_batch=1, marker_type=kind, txnid_most_bits=producer_id, txnid_least_bits=0
    )
    await producer.send(metadata, bytes(4), 1)
    await producer.close()


# ---- compaction ------------------------------------------------------------------------------------------------------


async def read(pulsar: PulsarAddress, left: str) -> KopOffsets:
    async with opened(pulsar) as (client, admin):
        return await read_offsets(client, admin, left)


async def test_the_log_counts_where_compaction_kept_a_part(pulsar: PulsarAddress, left: str) -> None:
    """KoP gives all commits of a group one key: compaction keeps the last message, about partition 1 alone."""
    sent = [commit("g", "persistent://public/default/t", {one: one + 10}) for one in (0, 2, 1)]
    await leave(pulsar, left, by_partition(*(("g", one) for one in sent)))
    async with opened(pulsar) as (_, admin):
        await compact(admin, f"persistent://{left}/__consumer_offsets-partition-{java_partition('g')}")
    found = await read(pulsar, left)
    assert {place.partition: one.offset for place, one in found.commits.items()} == {0: 10, 1: 11, 2: 12}
    assert found.counts == {"commits": 3}


async def test_what_only_compaction_has_kept_is_read_before_the_log(pulsar: PulsarAddress) -> None:
    left = pulsar.create_namespace(retention=False)
    pulsar.admin("POST", f"namespaces/{left}/deduplication", False)  # its cursor would keep the log
    topic = "persistent://public/default/t"
    await leave(pulsar, left, by_partition(*(("g", commit("g", topic, {one: one + 10})) for one in (0, 1))))
    async with opened(pulsar) as (client, admin):
        partition = f"persistent://{left}/__consumer_offsets-partition-{java_partition('g')}"
        await compact(admin, partition)
        await gone(admin, partition)
        found = await read(pulsar, left)
        assert {place: one.offset for place, one in found.commits.items()} == {Place("g", topic, 1): 11}
        await write(client, f"persistent://{left}/__consumer_offsets", java_partition("g"),
                    [commit("g", topic, {2: 12}), commit("g", topic, {1: None})])  # fmt: skip
        found = await read(pulsar, left)
        assert {place: one.offset for place, one in found.commits.items()} == {Place("g", topic, 2): 12}
        assert found.counts == {"commits": 2, "forgotten": 1}


async def gone(admin: Admin, topic: str) -> None:
    """Until nothing is left of the log itself."""
    await admin.unload(topic)
    async with asyncio.timeout(30):
        while any(one.entries for one in await admin.ledgers(topic)):
            await admin.trim(topic)
            await asyncio.sleep(0.1)


# ---- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_namespace_without_kop_is_told(served: BridgeThread, left: str) -> None:
    with pytest.raises(StartupError, match="there is no partitioned topic"):
        run(served, left)
    with pytest.raises(SettingsError, match="not TENANT/NAMESPACE"):
        run(served, "public")


def test_another_bridge_is_refused(
    pulsar: PulsarAddress, served: BridgeThread, bridge: BridgeThread, left: str
) -> None:
    asyncio.run(leave(pulsar, left, {}))
    given = make_parser().parse_args(["import", "kop", "--bootstrap", bridge.kafka, "--metadata-namespace", left])
    with pytest.raises(StartupError, match=f"is no bridge of {served.namespace}"):
        move(served.settings, given, io.StringIO())


@pytest.mark.parametrize(
    ("bootstrap", "exit_code", "said"),
    [("127.0.0.1:1", 1, "cannot be reached"), ("nowhere", 2, "not HOST:PORT")],
)
def test_a_bridge_that_is_away_is_told_in_one_line(
    served: BridgeThread, tmp_path: Path, bootstrap: str, exit_code: int, said: str
) -> None:
    done = command(served, tmp_path, "--bootstrap", bootstrap)
    assert done.returncode == exit_code
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_group_of_any_name_goes_on(pulsar: PulsarAddress, served: BridgeThread) -> None:
    groups = ("two\nlines \0/\\", "z" * 32_000)
    left = left_by(pulsar, *((group, commit(group, full(served, "orders"), {0: 7}, "\0\n")) for group in groups))
    assert run(served, left).endswith("taken: 2 offsets of 2 groups\n")
    told = reasons(run(served, left, "--json"))
    assert told == {(group, "orders", 0): "is so already" for group in groups}


def test_without_kafka_python_is_told(served: BridgeThread, left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "kafka"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kafka", None)
    with pytest.raises(StartupError, match="needs kafka-python"):
        run(served, left)


def test_json_is_all_that_standard_output_has(pulsar: PulsarAddress, served: BridgeThread, tmp_path: Path) -> None:
    left = left_by(pulsar, ("json", commit("json", full(served, "orders"), {0: 7})))
    done = command(served, tmp_path, "--bootstrap", served.kafka, "--metadata-namespace", left, "--json", "--dry-run")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (only,) = told.pop("offsets")
    assert only == {
        "group": "json", "topic": "orders", "partition": 0, "offset": 7, "here": None, "lag": RECORDS - 7,
        "taken": True, "reason": "",
    }  # fmt: skip
    none = dict.fromkeys(("forgotten", "groups", "markers", "empty", "unreadable", "misplaced", "missed"), 0)
    assert told == {
        "metadata_namespace": left, "namespace": served.namespace, "dry_run": True, "records": {"commits": 1, **none},
    }  # fmt: skip
    assert committed(served, "json") == {}


def test_names_of_any_text_are_one_line_each(pulsar: PulsarAddress, served: BridgeThread, tmp_path: Path) -> None:
    topic = "persistent://a\nb/\x1b[31m"
    sent = [(group, commit(group, topic, {0: 1})) for group in ("two\nlines", "z" * 3000)]
    left = left_by(pulsar, *sent, ("gone", forgotten_group("gone")))
    done = command(served, tmp_path, "--bootstrap", served.kafka, "--metadata-namespace", left)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5
    assert "\x1b" not in done.stdout


def command(bridge: BridgeThread, directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    config = directory / "bridge.toml"
    config.write_text(bridge.settings.to_toml())
    line = [sys.executable, "-m", "bridge", "import", "kop", "--config", str(config), *options]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
