"""The bridge's wall clock jumps by two days: its groups, their offsets and its records do not notice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.faults.checker import Load, load
from tests.faults.figures import report
from tests.faults.ledgers import ledger_starts
from tests.faults.moved_clock import MovedClock
from tests.faults.topics import WAIT, consumer, create, wait_for
from tests.support.bridges import BridgeChild
from tests.support.pulsar import PrivatePulsar

PARTITIONS = 3
DAY = 24 * 3600.0
SESSION_MS, HEARTBEAT_MS = 6000, 1000
"""The shortest that the bridge takes by itself; of many heartbeats some may be late on a busy machine."""
LIMIT = "message.timestamp.after.max.ms"


class Member(threading.Thread):
    """A member that reads and commits, or only sends heartbeats, and tells when its partitions change."""

    def __init__(self, bootstrap: str, group: str, topic: str, *, idle: bool = False) -> None:
        super().__init__(daemon=True)
        self.changes: list[str] = []
        self.errors: list[str] = []
        self.committed: dict[int, int] = {}
        self.commits = 0
        self._idle = idle
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(
            [topic],
            on_assign=self._assigned,
            on_revoke=lambda _, found: self.changes.append(f"revoked {len(found)}"),
            on_lost=lambda _, found: self.changes.append(f"lost {len(found)}"),
        )

    def _assigned(self, consumer: Any, found: list[TopicPartition]) -> None:
        consumer.assign(found)
        if self._idle:
            consumer.pause(found)
        self.changes.append(f"assigned {len(found)}")

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                messages = self._consumer.consume(200, 0.1)
                self.errors += [str(message.error()) for message in messages if message.error() is not None]
                if messages:
                    self._commit()
        except Exception as error:  # noqa: BLE001 — told to the test, which fails
            self.errors.append(f"{type(error).__name__}: {error}")
        finally:
            self._consumer.close()

    def _commit(self) -> None:
        done: Any = self._consumer.commit(asynchronous=False)
        for each in done:
            assert each.error is None, each.error
            if each.offset >= 0:  # it has read of this partition since it came
                self.committed[each.partition] = each.offset
        self.commits += 1

    def has_committed(self, commits: int) -> bool:
        """Whether it has so many; also when it has ended."""
        return self.commits >= commits or bool(self.errors)

    def finish(self) -> None:
        """Leave the group."""
        self._ended.set()
        self.join(WAIT)


def committed(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """A group's offsets."""
    asking = consumer(bootstrap, group=group)
    try:
        places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        return {each.partition: each.offset for each in asking.committed(places, WAIT)}
    finally:
        asking.close()


def commit(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """Commit for a group that has no members; what was committed."""
    asking = consumer(bootstrap, group=group)
    try:
        places = [TopicPartition(topic, partition, 7 + partition) for partition in range(PARTITIONS)]
        asking.commit(offsets=places, asynchronous=False)
        return {each.partition: each.offset for each in places}
    finally:
        asking.close()


@contextmanager
def members(bootstrap: str, topic: str) -> Iterator[tuple[Member, Member]]:
    """A member that has its partitions and commits, and one of another group that has its partitions."""
    busy, idle = Member(bootstrap, topic, topic), Member(bootstrap, f"{topic}-idle", topic, idle=True)
    busy.start()
    idle.start()
    try:
        wait_for(lambda: len(busy.committed) == PARTITIONS and bool(idle.changes), "the members do not join")
        yield busy, idle
    finally:
        busy.finish()
        idle.finish()


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MovedClock:
    """That of the bridges started from now on."""
    made = MovedClock(tmp_path / "clock")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


def pass_a_session(running: Load, member: Member) -> None:
    """Write and read for longer than a member may be silent."""
    over = time.monotonic() + SESSION_MS / 1000 + 1
    while time.monotonic() < over:
        commits = member.commits + 1
        running.more(20)
        wait_for(partial(member.has_committed, commits), "the member reads and commits no more")


def take_any_time(bootstrap: str, topic: str) -> None:
    """As Kafka, a topic refuses records that are an hour ahead of the bridge's clock, unless its config says more."""
    entry = ConfigEntry(LIMIT, str(2**62), incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})  # its futures fail when it is collected before they are done
    admin.incremental_alter_configs([wanted])[wanted].result(WAIT)


def outcome(bootstrap: str, topic: str) -> KafkaError | None:
    """What a producer is told of one record."""
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"a record", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(WAIT) == 0
    return told[0]


def test_no_session_ends_and_no_offset_is_lost_when_the_clock_jumps(
    clock: MovedClock,
    start_bridge: Callable[..., BridgeChild],
    broker: PrivatePulsar,
    broker_namespace: str,
    topic: str,
) -> None:
    bridge = start_bridge()
    with load(bridge.kafka, topic, PARTITIONS) as running, members(bridge.kafka, topic) as (busy, idle):
        take_any_time(bridge.kafka, topic)
        alone = commit(bridge.kafka, f"{topic}-alone", topic)
        for days in (2, -2, 0):
            clock.move(days * DAY)
            pass_a_session(running, busy)
            assert committed(bridge.kafka, f"{topic}-alone", topic) == alone
        verdict = running.stop()
    report(verdict=verdict, commits=busy.commits, changes=busy.changes)
    assert busy.errors + idle.errors == []
    assert (
        busy.changes == idle.changes == [f"assigned {PARTITIONS}", f"revoked {PARTITIONS}"]
    )  # they came, and left at the end
    assert committed(bridge.kafka, topic, topic) == busy.committed
    verdict.check(gap_ends=ledger_starts(broker, broker_namespace, topic, PARTITIONS))


def test_records_ahead_of_the_clock_are_refused_until_it_is_right_again(
    clock: MovedClock, start_bridge: Callable[..., BridgeChild], topic: str
) -> None:
    bridge = start_bridge()
    create(bridge.kafka, topic)
    clock.move(-2 * DAY)
    refused = outcome(bridge.kafka, topic)
    assert refused is not None and refused.code() == KafkaError.INVALID_TIMESTAMP
    clock.move(0)
    assert outcome(bridge.kafka, topic) is None
