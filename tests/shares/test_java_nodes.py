"""Java's KafkaShareConsumer on several nodes, each with its address or behind one for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bridge.apis import describe_share_group_offsets, find_coordinator
from bridge.node.orphans import Guard
from bridge.standalone.ports import HOST
from tests.apis.wire import ask_at
from tests.shares.java_members import ALL, SOURCES, Group, Member, until
from tests.support.bridges import BridgeThread, settings_for
from tests.support.driver import Driver
from tests.support.group_slots import wait_until_shared
from tests.support.java import NEWEST, Jars, java_driver
from tests.support.one_address import OneAddress
from tests.support.pulsar import PulsarAddress

PARTITIONS, RECORDS = 6, 300
_IDLE_POLLS = 3


class Nodes:
    """Where clients go, and what disturbs them."""

    def __init__(self, kafka: str, disturb: Callable[[], object]) -> None:
        self.kafka, self.disturb = kafka, disturb


@contextmanager
def _each_with_its_own(pulsar: PulsarAddress) -> Iterator[Nodes]:
    namespace = pulsar.create_namespace()
    linked = {"cluster": {"internal_listen": f"{HOST}:0"}}
    with ExitStack() as running:
        made = [BridgeThread(settings_for(pulsar, namespace, linked)) for _ in range(2)]
        for one in made:
            one.start()
            running.callback(one.stop)
        wait_until_shared(*made)
        yield Nodes(made[0].kafka, lambda: None)


@contextmanager
def _behind_one(pulsar: PulsarAddress, guard: Guard, directory: Path) -> Iterator[OneAddress]:
    made = OneAddress(pulsar, pulsar.create_namespace(), guard, directory)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module", params=["addresses of their own", "one address"])
def nodes(
    request: pytest.FixtureRequest, pulsar: PulsarAddress, guard: Guard, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nodes]:
    """Two that are told apart, or three that are not."""
    if request.param == "one address":
        with _behind_one(pulsar, guard, tmp_path_factory.mktemp("one-address")) as made:
            yield Nodes(made.kafka, made.balancer.cut)
    else:
        with _each_with_its_own(pulsar) as told_apart:
            yield told_apart


class Work:
    """A group, a topic of some partitions with records in each, and what its members have seen."""

    def __init__(self, driver: Driver, address: str) -> None:
        self.group = Group(driver, partitions=PARTITIONS)
        self.seen: set[str] = set()
        self._driver, self._address = driver, address
        producer = Producer({"bootstrap.servers": address})
        for number in range(RECORDS):
            producer.produce(self.group.topic, str(number), partition=number % PARTITIONS)
        assert producer.flush(60) == 0

    def do(self, members: list[Member], halfway: Callable[[], object]) -> None:
        """Poll by turns until all records were seen; each poll accepts what the one before has brought."""
        is_disturbed = False

        def all_seen() -> bool:
            nonlocal is_disturbed
            for member in members:
                self.seen |= {value for _, value, _ in member.poll()}
            if not is_disturbed and len(self.seen) >= RECORDS // 4:
                is_disturbed = True
                halfway()
            return len(self.seen) == RECORDS

        until("all records", all_seen)

    def check_done(self) -> None:
        """Nothing is left, when what was given before its acceptance was lost has been given once more."""
        with closing(Member(self._driver, self.group, "implicit")) as member:
            idle = 0

            def is_idle() -> bool:
                nonlocal idle
                idle = 0 if member.poll() else idle + 1
                return idle == _IDLE_POLLS

            until("the end", is_idle)
        assert self._lag() == 0

    def _lag(self) -> int:
        found = ask_at(
            self._address, find_coordinator.API, find_coordinator.Request(coordinator_keys=[self.group.name])
        ).coordinators[0]  # fmt: skip
        described = describe_share_group_offsets
        asked = described.Request(groups=[described.RequestGroup(group_id=self.group.name, topics=None)])
        (group,) = ask_at(f"{found.host}:{found.port}", described.API, asked).groups
        assert group.error_code == 0
        return sum(part.lag for topic in group.topics for part in topic.partitions)


@pytest.mark.parametrize("jars", ALL, ids=lambda jars: jars.name)
def test_members_get_all_records_whoever_leads(nodes: Nodes, jars: Jars, tmp_path: Path) -> None:
    with closing(java_driver(SOURCES, jars, nodes.kafka, tmp_path / "driver")) as driver:
        work = Work(driver, nodes.kafka)
        with ExitStack() as open_members:
            settings = {"max.poll.records": 20}
            members = [
                open_members.enter_context(closing(Member(driver, work.group, "implicit", settings))) for _ in range(2)
            ]
            work.do(members, nodes.disturb)
        work.check_done()


def test_nothing_is_lost_when_a_node_behind_the_address_dies(
    pulsar: PulsarAddress, guard: Guard, tmp_path: Path
) -> None:
    with (
        _behind_one(pulsar, guard, tmp_path / "nodes") as one_address,
        closing(java_driver(SOURCES, NEWEST, one_address.kafka, tmp_path / "driver")) as driver,
        ExitStack() as open_members,
    ):
        works = [Work(driver, one_address.kafka) for _ in range(3)]
        members = [
            [open_members.enter_context(closing(Member(driver, work.group, "implicit"))) for _ in range(2)]
            for work in works
        ]
        for number, (work, own) in enumerate(zip(works, members, strict=True)):  # of some it is the coordinator
            work.do(own, one_address.nodes[number].kill if number == 1 else lambda: None)
        for work in works:
            work.check_done()
