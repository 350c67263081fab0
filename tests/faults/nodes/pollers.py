"""Ask every node, each on a connection of its own, for what clients ask for: brokers, topics, coordinators, groups."""

from __future__ import annotations

import random
import struct
import time
from typing import Any

from bridge.apis import describe_cluster, find_coordinator, list_groups, metadata
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api
from tests.apis.wire import Connection
from tests.faults.nodes.answers import NO_NODE, cluster_told
from tests.faults.nodes.node_threads import NodeThreads
from tests.faults.nodes.topic_watch import KNOWN_WITHIN, Covers, TopicWatch, by_id, by_name, of_all
from tests.faults.nodes.watch import Watch
from tests.support.nodes import Node

_EVERY_SECONDS = 0.15
_GROUPS = 8
Brokers = tuple[tuple[int, str], ...]


class Pollers:
    """A thread for each node; what cannot be is in `wrong`."""

    def __init__(self, seed: int) -> None:
        self.view = Watch()
        self.topics = TopicWatch()
        self.asked = 0
        self.slowest = (0.0, "", "")
        """Seconds, node and API."""
        self.deleted_groups: dict[str, float] = {}
        """When their deletion was acknowledged."""
        self._wrong: list[str] = []
        self._seed = seed
        self._clusters: set[str] = set()
        self._threads = NodeThreads("poll", self._run)
        self.start, self.finish = self._threads.start, self._threads.finish

    def check(self) -> None:
        """Fail where an answer could not be."""
        self.finish()
        wrong = [*self._wrong, *self.topics.wrong]
        if unknown := self.topics.unknown_ids():
            wrong.append(f"topics are listed that were never created: {unknown}")
        if len(self._clusters) > 1:
            wrong.append(f"cluster ids: {self._clusters}")
        assert not wrong, "\n".join([f"{len(wrong)} wrong", *wrong[:20]])
        self.view.check()

    def _run(self, node: Node) -> None:
        choices = random.Random(f"{self._seed} {node.name}")
        while not self._threads.pause(_EVERY_SECONDS):
            try:
                with Connection(node.kafka) as connection:
                    self._poll(node.name, connection, choices)
            except (OSError, struct.error):
                continue  # it is down, or goes down, as its clients see too
            except Exception as error:  # noqa: BLE001 - told to the test, which fails
                self._wrong.append(f"{node.name}: {type(error).__name__}: {error}")
                return

    def _poll(self, name: str, connection: Connection, choices: random.Random) -> None:
        before = self._metadata(name, connection, choices)
        while not self._threads.pause(_EVERY_SECONDS):
            named = self._coordinators(name, connection, choices)
            described = self._described(name, connection)
            self._groups(name, connection)
            after = self._metadata(name, connection, choices)
            # these were answered between two answers of Metadata, by the view of one of them or one between
            known = {*before, *described, *after}
            self._wrong += [f"{name}: coordinator {one} is not among {known}" for one in named if one not in known]
            before = after

    def _metadata(self, name: str, connection: Connection, choices: random.Random) -> Brokers:
        wanted, covers = self._question(choices)
        asked = time.monotonic()
        request = metadata.Request(topics=wanted, allow_auto_topic_creation=False)
        answer: metadata.Response = self._answered(name, connection, metadata.API, request)
        told = cluster_told(answer)
        self.topics.told(name, asked, time.monotonic(), told, covers)
        self.view.told(name, told)
        self._clusters.add(told.cluster_id)
        self.asked += 1
        return told.brokers

    def _answered(self, name: str, connection: Connection, api: Api, request: Any) -> Any:
        asked = time.monotonic()
        try:
            return connection.ask(api, request)
        finally:
            self.slowest = max(self.slowest, (round(time.monotonic() - asked, 2), name, api.name))

    def _question(self, choices: random.Random) -> tuple[list[metadata.RequestTopic] | None, Covers]:
        lives = self.topics.lives()
        kind = choices.choice(("all", "all", "names", "ids"))
        if kind == "all" or not lives:
            return None, of_all
        some = choices.sample(lives, min(len(lives), 5))
        if kind == "ids":
            return [metadata.RequestTopic(topic_id=one.id, name=None) for one in some], by_id({one.id for one in some})
        names = {one.name for one in some}
        return [metadata.RequestTopic(name=one) for one in names], by_name(names)

    def _coordinators(self, name: str, connection: Connection, choices: random.Random) -> list[tuple[int, str]]:
        keys = [f"group-{choices.randrange(1000)}" for _ in range(_GROUPS)]
        request = find_coordinator.Request(coordinator_keys=keys)
        answer: find_coordinator.Response = self._answered(name, connection, find_coordinator.API, request)
        return [
            (one.node_id, f"{one.host}:{one.port}")
            for one in answer.coordinators
            if one.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE
        ]

    def _described(self, name: str, connection: Connection) -> Brokers:
        request = describe_cluster.Request(include_cluster_authorized_operations=False)
        answer: describe_cluster.Response = self._answered(name, connection, describe_cluster.API, request)
        ids = [one.broker_id for one in answer.brokers]
        if answer.controller_id not in (*ids, NO_NODE):
            self._wrong.append(f"{name}: DescribeCluster's controller {answer.controller_id} is not among {ids}")
        self._clusters.add(answer.cluster_id)
        return tuple((one.broker_id, f"{one.host}:{one.port}") for one in answer.brokers)

    def _groups(self, name: str, connection: Connection) -> None:
        asked = time.monotonic()
        answer: list_groups.Response = self._answered(name, connection, list_groups.API, list_groups.Request())
        for group in answer.groups:
            if asked > self.deleted_groups.get(group.group_id, asked) + KNOWN_WITHIN:
                self._wrong.append(f"{name}: group {group.group_id} is listed, and was deleted")
