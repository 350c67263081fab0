"""Java's KafkaShareConsumer: acknowledgements of each kind, locks, members side by side, where groups begin.

On one node; `make soak` asks the same of three, of which others lead than coordinate, and of a real Kafka. Consumers of
4.2 send what those of 4.3 do: one test has them, `make soak` all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from bridge.node.orphans import Guard
from tests.shares.java_members import ALL, SOURCES, Group, Member, until
from tests.support.bridges import BridgeThread
from tests.support.driver import Driver
from tests.support.java import KAFKA, KAFKA_NEWEST, NEWER, NEWEST, Jars, java_driver
from tests.support.kafka_broker import NewKafka
from tests.support.nodes import Nodes
from tests.support.pulsar import PulsarAddress

_LOCK_MS = 15_000
"""The least that a group may have."""
_NEWER = pytest.param(NEWER, marks=pytest.mark.soak)
KIP_1222 = pytest.mark.parametrize("jars", [_NEWER, NEWEST], ids=lambda jars: jars.name)
"""Consumers of Kafka 4.2 and later: locks are renewed, and the number of records is kept (KIP-1206)."""


@pytest.fixture(params=[KAFKA, _NEWER, NEWEST], ids=lambda jars: jars.name)
def jars(request: pytest.FixtureRequest) -> Jars:
    """The clients that a test is of."""
    found: Jars = request.param
    return found


Start = Callable[[Jars], Driver]


@pytest.fixture(scope="module")
def one_node(bridge: BridgeThread) -> str:
    return bridge.kafka


@pytest.fixture(scope="module")
def three_nodes(pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    nodes = Nodes(pulsar, pulsar.create_namespace(), guard, tmp_path_factory.mktemp("nodes"))
    try:
        nodes.start()
        nodes.wait_until_settled()
        yield nodes.bootstrap()
    finally:
        nodes.close()


@pytest.fixture(scope="module")
def newest_kafka(new_kafka: NewKafka) -> Iterator[str]:
    broker = new_kafka(jars=KAFKA_NEWEST)
    broker.start()
    try:
        yield broker.kafka
    finally:
        broker.stop()


@pytest.fixture(
    scope="module",
    params=["one_node", *(pytest.param(name, marks=pytest.mark.soak) for name in ("three_nodes", "newest_kafka"))],
)
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Start:
    address: str = request.getfixturevalue(request.param)
    return lambda jars: java_driver(SOURCES, jars, address, tmp_path_factory.mktemp("share") / "driver")


@pytest.fixture(scope="module")
def running(start: Start) -> Iterator[Start]:
    """One driver for each version, which is started when a test first needs it."""
    with ExitStack() as drivers:
        yield functools.cache(lambda jars: drivers.enter_context(closing(start(jars))))


@pytest.fixture
def driver(running: Start, jars: Jars) -> Driver:
    return running(jars)


def _values(polled: list[tuple[int, str, int]]) -> list[str]:
    return [value for _, value, _ in polled]


@pytest.mark.parametrize("jars", ALL, ids=lambda jars: jars.name)
def test_implicit_acknowledgement(driver: Driver) -> None:
    group = Group(driver)
    group.produce(*map(str, range(100)))
    with closing(Member(driver, group, "implicit")) as member:
        seen: list[str] = []

        def all_seen() -> bool:
            seen.extend(_values(member.poll()))
            return len(seen) >= 100

        until("all records", all_seen)
        assert sorted(map(int, seen)) == list(range(100))
        assert member.commit() == []
    group.produce("next")
    with closing(Member(driver, group, "implicit")) as member:
        assert member.first() == [(100, "next", 1)]


def test_accept_release_and_reject(driver: Driver) -> None:
    group = Group(driver)
    group.produce("a", "b", "c", "d")
    with closing(Member(driver, group)) as member:
        assert member.first() == [(0, "a", 1), (1, "b", 1), (2, "c", 1), (3, "d", 1)]
        for offset, kind in enumerate(("ACCEPT", "RELEASE", "REJECT", "RELEASE")):
            member.say(offset, kind)
        assert member.commit() == []
        again = member.first()
        assert again == [(1, "b", 2), (3, "d", 2)]
        member.accept_all(again)
        assert member.poll() == []


def test_two_members_share_a_partition(driver: Driver) -> None:
    group = Group(driver)
    settings = {"max.poll.records": 5}
    with (
        closing(Member(driver, group, settings=settings)) as one,
        closing(Member(driver, group, settings=settings)) as two,
    ):
        seen: list[str] = []
        by: dict[Member, int] = {one: 0, two: 0}
        assert [*one.poll(), *two.poll()] == []
        group.produce(*map(str, range(60)), one_each=True)

        def all_seen() -> bool:
            for member in by:
                polled = member.poll()
                by[member] += len(polled)
                seen.extend(_values(polled))
                member.accept_all(polled)
            return len(seen) >= 60

        until("all records", all_seen)
        assert sorted(map(int, seen)) == list(range(60))
        assert all(by.values())


def test_a_consumer_that_is_killed_gives_back_what_it_had(driver: Driver, start: Start, jars: Jars) -> None:
    group = Group(driver)
    group.produce("a", "b")
    with closing(start(jars)) as other:
        lost = Member(other, group)
        assert _values(lost.first()) == ["a", "b"]
        other.kill()
        with closing(Member(driver, group)) as member:
            again = member.first()
            assert again == [(0, "a", 2), (1, "b", 2)]
            member.accept_all(again)


@pytest.mark.parametrize("jars", [KAFKA], ids=lambda jars: jars.name)
def test_a_lock_runs_out(driver: Driver) -> None:
    group = Group(driver, record_lock_duration_ms=_LOCK_MS)
    group.produce("a")
    with closing(Member(driver, group)) as slow, closing(Member(driver, group)) as other:
        assert slow.first() == [(0, "a", 1)]
        again = other.first()
        assert again == [(0, "a", 2)]
        slow.say(0)
        assert slow.commit() == ["InvalidRecordStateException"]
        other.accept_all(again)


@KIP_1222
def test_a_lock_runs_out_where_it_is_not_renewed(driver: Driver) -> None:
    renewed, left = (Group(driver, record_lock_duration_ms=_LOCK_MS) for _ in range(2))
    with ExitStack() as members:
        slow, other, idle, heir = (members.enter_context(closing(Member(driver, group)))
                                   for group in (renewed, renewed, left, left))  # fmt: skip
        for group, member in ((renewed, slow), (left, idle)):
            group.produce("a")
            assert member.first() == [(0, "a", 1)]
            assert member.lock_ms() == _LOCK_MS
        for number in range(6):  # with the polls of the other for longer than the lock
            slow.say(0, "RENEW")
            if number % 2:  # by a ShareAcknowledge, else by the ShareFetch of the next poll
                assert slow.commit() == []
            assert slow.first() == [(0, "a", 1)]
            assert other.poll(_LOCK_MS // 5) == []
        slow.accept_all([(0, "a", 1)])
        assert other.poll() == []
        again = heir.first()
        assert again == [(0, "a", 2)]
        idle.say(0, "RENEW")
        assert idle.commit() == ["InvalidRecordStateException"]
        heir.accept_all(again)


@KIP_1222
def test_what_is_renewed_comes_again_and_may_be_settled(driver: Driver) -> None:
    group = Group(driver)
    group.produce("a", "b", "c", "d")
    with closing(Member(driver, group)) as member:
        assert _values(member.first()) == ["a", "b", "c", "d"]
        for offset, kind in enumerate(("ACCEPT", "RENEW", "RELEASE", "RENEW")):
            member.say(offset, kind)
        kept = member.first()
        assert kept == [(1, "b", 1), (3, "d", 1)]
        member.say(1, "REJECT")
        member.say(3, "RELEASE")
        assert member.commit() == []
        found = set[tuple[int, str, int]]()

        def has_both() -> bool:
            polled = member.poll()
            found.update(polled)
            member.accept_all(polled)
            return found == {(2, "c", 2), (3, "d", 2)}

        until("what was released", has_both)
        assert member.poll() == []


@KIP_1222
def test_a_group_that_lets_no_locks_be_renewed(driver: Driver) -> None:
    group = Group(driver, renew_acknowledge_enable="false")
    group.produce("a")
    with closing(Member(driver, group)) as member:
        assert member.first() == [(0, "a", 1)]
        member.say(0, "RENEW")
        assert member.commit() == ["InvalidRecordStateException"]


@KIP_1222
@pytest.mark.parametrize(
    ("mode", "given"), [("record_limit", [range(5), range(5, 10)]), ("batch_optimized", [range(20)])]
)
def test_how_many_records_a_member_is_given(driver: Driver, mode: str, given: list[range]) -> None:
    """All are in one batch, of which a member is given the whole, or as much as it asked for."""
    group = Group(driver)
    group.produce(*map(str, range(20)))
    settings = {"share.acquire.mode": mode, "max.poll.records": 5}
    with ExitStack() as members:
        for offsets in given:
            member = members.enter_context(closing(Member(driver, group, settings=settings)))
            assert [offset for offset, _, _ in member.first()] == list(offsets)


def test_a_poison_record_is_archived(driver: Driver) -> None:
    group = Group(driver, delivery_count_limit=3)
    group.produce("good", "poison", "good too")
    with closing(Member(driver, group)) as member:
        deliveries: list[list[tuple[int, str, int]]] = []
        done: set[str] = set()

        def are_done() -> bool:
            polled = member.poll()
            if polled:
                deliveries.append(polled)
                is_bad = "poison" in _values(polled)
                for offset, value, _ in polled:
                    member.say(offset, "RELEASE" if is_bad else "ACCEPT")
                    done.update(() if is_bad else {value})
                assert member.commit() == []
            return done == {"good", "good too"} and any(
                one[1:] == ("poison", 3) for polled in deliveries for one in polled
            )

        until("the others", are_done)
        assert [(1, "poison", 3)] in deliveries
        assert member.poll() == []
        group.produce("next")
        assert member.first() == [(3, "next", 1)]


def test_where_a_group_begins(driver: Driver) -> None:
    latest, by_time = Group(driver, auto_offset_reset="latest"), Group(driver, auto_offset_reset="by_duration:PT1H")
    for group in (latest, by_time):
        group.produce("before")
    with closing(Member(driver, latest)) as member, closing(Member(driver, by_time)) as other:
        assert other.first() == [(0, "before", 1)]
        until("a record from after the beginning", lambda: _begins(member, latest))


def _begins(member: Member, group: Group) -> bool:
    """The partition's place is known when the first record comes that was written after it."""
    group.produce("after")
    polled = member.poll()
    assert set(_values(polled)) <= {"after"}
    return bool(polled)


@pytest.mark.parametrize(("isolation", "seen"), [
    ("read_committed", {"plain", "committed", "last"}),
    ("read_uncommitted", {"plain", "committed", "aborted", "last"}),
])  # fmt: skip
def test_transactions(driver: Driver, isolation: str, seen: set[str]) -> None:
    group = Group(driver, isolation_level=isolation)
    group.produce("plain")
    group.produce("aborted", end="abort")
    group.produce("committed", end="commit")
    group.produce("last")
    with closing(Member(driver, group)) as member:
        found: set[str] = set()

        def has_last() -> bool:
            polled = member.poll()
            found.update(_values(polled))
            member.accept_all(polled)
            return "last" in found

        until("the last record", has_last)
        assert found == seen


def test_what_an_orderly_end_gives_back_does_not_count(driver: Driver) -> None:
    group = Group(driver)
    group.produce("a", "b", "c")
    leaving: Any = Member(driver, group)
    assert len(leaving.first()) == 3
    leaving.say(0)
    leaving.say(1, "RELEASE")
    leaving.say(2, "RELEASE")
    leaving.close()
    with closing(Member(driver, group)) as member:
        assert member.first() == [(1, "b", 2), (2, "c", 2)]
