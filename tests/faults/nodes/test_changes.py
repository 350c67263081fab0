"""Nodes join, leave and are killed while topics and groups come and go through any of them: every answer is true.

`--schedule-seed 17` runs one seed again.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from bridge.apis import list_groups
from bridge.node.orphans import Guard
from tests.apis.wire import ask_at
from tests.faults.figures import report
from tests.faults.nodes.answers import ClusterAnswer, cluster_at
from tests.faults.nodes.changes import FEWEST, Stage, change_nodes, change_topics, create, write_and_read
from tests.faults.nodes.group_changes import Groups
from tests.faults.nodes.pollers import Pollers
from tests.faults.processes import let_pass
from tests.support.nodes import Nodes
from tests.support.pulsar import PulsarAddress

_GROUP_PARTITIONS = 3
_SETTLED_SECONDS = 60.0


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The one asked for, or any."""
    given: int | None = request.config.getoption("--schedule-seed", default=None)
    return random.randrange(1_000_000) if given is None else given


@pytest.fixture
def stage(
    pulsar: PulsarAddress, guard: Guard, topic: str, seed: int, tmp_path: Path
) -> Iterator[Callable[[int], Stage]]:
    """Of so many nodes, of which the fewest are up."""
    made: list[Stage] = []

    def build(count: int) -> Stage:
        print(f"replay: --schedule-seed {seed}")
        # a producer that is not closed yet would create again what was deleted, as before a Kafka
        own = {"kafka": {"auto_create_topics": False}}
        nodes = Nodes(pulsar, pulsar.create_namespace(), guard, tmp_path, count, overrides=own, seed=seed)
        built = Stage(nodes, Pollers(seed), topic, seed)
        made.append(built)
        with ThreadPoolExecutor(FEWEST) as pool:
            list(pool.map(lambda node: node.start(), nodes.all[:FEWEST]))
        return built

    yield build
    for one in made:
        one.ended.set()
        one.pollers.finish()
        one.nodes.close()


def until_held(condition: Callable[[], str]) -> None:
    """Wait until nothing is wrong any more."""
    until = time.monotonic() + _SETTLED_SECONDS
    while True:
        try:
            wrong = condition()
        except (OSError, struct.error) as error:
            wrong = repr(error)
        if not wrong:
            return
        assert time.monotonic() < until, wrong
        let_pass(0.2)


def disagreement(stage: Stage) -> str:
    """What two nodes that are up tell differently, or tell of nodes and topics that are not there."""
    up = stage.running()
    told = [cluster_at(node.kafka) for node in up]
    if any(one != told[0] for one in told):
        return "\n".join(f"{node.name}: {one}" for node, one in zip(up, told, strict=True))
    return _missing(stage, told[0])


def _missing(stage: Stage, told: ClusterAnswer) -> str:
    if {address for _, address in told.brokers} != {node.kafka for node in stage.running()}:
        return f"{told.brokers} are listed, up are {[(node.name, node.kafka) for node in stage.running()]}"
    if any(leader < 0 for leader, _ in told.leaders.values()) or told.controller < 0:
        return f"no leader: {told}"
    wanted: dict[UUID, tuple[str, int]] = {life.id: (life.name, life.partitions) for life in stage.kept.values()}
    return "" if told.ids == wanted else f"{told.ids} are listed, kept are {wanted}"


def missing_groups(stage: Stage, groups: Groups) -> str:
    """Each group that is kept is listed by one node, and no other group is."""
    listed = [
        group.group_id
        for node in stage.running()
        for group in ask_at(node.kafka, list_groups.API, list_groups.Request()).groups
    ]
    return "" if sorted(listed) == sorted(groups.kept) else f"{sorted(listed)} are listed, kept are {groups.kept}"


def changes(stage: Stage, *, topics: int, count: int, longest_wait: float) -> None:
    """Run all actors until the nodes have changed so many times, and judge."""
    choices = stage.choices("first")
    stage.pollers.start(stage.nodes.all)
    base = create(stage, choices, f"{stage.prefix}-groups", _GROUP_PARTITIONS)
    stage.kept[base.id] = base
    write_and_read(stage, choices, base)
    groups = Groups(stage, base.name, _GROUP_PARTITIONS)
    actors = [partial(change_topics, stage, f"topics-{number}") for number in range(topics)]
    actors += [partial(groups.change, f"groups-{number}") for number in range(2)]
    actors.append(partial(change_nodes, stage, longest_wait, count))
    with ThreadPoolExecutor(len(actors)) as pool:
        running = [pool.submit(actor) for actor in actors]
        for one in wait(running, return_when="FIRST_EXCEPTION").done:
            if one.exception() is not None:
                stage.ended.set()
        errors = [str(error) for one in running if (error := one.exception()) is not None]
    report(seed=stage.seed, answers=stage.pollers.asked, slowest=stage.pollers.slowest, **stage.counts)
    assert not errors, "\n".join(errors)
    until_held(lambda: disagreement(stage))
    until_held(lambda: missing_groups(stage, groups))
    for group, offsets in groups.kept.items():
        assert groups.committed(choices, group) == offsets, group
    stage.pollers.check()


def test_every_answer_is_true_while_nodes_topics_and_groups_come_and_go(stage: Callable[[int], Stage]) -> None:
    changes(stage(4), topics=2, count=6, longest_wait=3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_every_answer_is_true_for_ten_minutes(stage: Callable[[int], Stage]) -> None:
    changes(stage(6), topics=3, count=150, longest_wait=8)
