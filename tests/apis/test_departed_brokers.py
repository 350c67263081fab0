"""librdkafka goes on being told of a broker that has left, as one that leads nothing; other clients are not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.apis import metadata
from bridge.cluster import Cluster
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration
from bridge.cluster.one_broker import OneBroker
from bridge.kafka.message import ZERO_UUID
from bridge.requests.session import Session
from bridge.storage.topics.topic import Topic

A, B = "A", "B"
PARTITIONS = 8
LIBRDKAFKA = [
    ("librdkafka", "2.16.0"),
    ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0"),
    ("confluent-kafka-dotnet", "2.10.0"),
    ("own", "1.0-librdkafka-2.12.1"),
]
OTHERS = [("", ""), ("apache-kafka-java", "4.1.0"), ("kafka-python", "3.0.0"), ("kgo", "unknown")]


class _Topics:
    async def get(self, name: str) -> Topic:
        return Topic(name, PARTITIONS, True, ZERO_UUID, 0.0)


def view(version: int, *ids: int) -> ClusterView:
    """Of nodes with listener A; the second has B, too."""
    endpoints = {id_: (Endpoint(A, f"a{id_}", 1), *([Endpoint(B, "b", 2)] if id_ == 2 else [])) for id_ in ids}
    members = {id_: NodeRegistration(f"n{id_}", 1, id_, endpoints[id_], since=1) for id_ in ids}
    owners = tuple(ids[slot % len(ids)] for slot in range(PARTITIONS))
    return ClusterView(version, ids[0], members, {}, owners, (version,) * PARTITIONS, owners)


async def told(cluster: Cluster, software: tuple[str, str], listener: str = A) -> metadata.Response:
    broker: Any = SimpleNamespace(cluster=cluster, topics=_Topics(), settings=None)
    session = Session(1, "10.0.0.1:1", listener, client_software=software, api_version=12)
    request = metadata.Request(topics=[metadata.RequestTopic(name="t")], allow_auto_topic_creation=False)
    return await metadata.handle(request, broker, session)


def brokers(answer: metadata.Response) -> list[tuple[int, str, int]]:
    return [(one.node_id, one.host, one.port) for one in answer.brokers]


async def cluster_after(*views: ClusterView) -> Cluster:
    cluster = Cluster("c")
    for one in views:
        cluster.update(one, 1, Serving.SERVE)
    return cluster


@pytest.mark.parametrize("software", LIBRDKAFKA, ids=lambda software: "-".join(software))
def test_librdkafka_is_told_of_a_broker_that_has_left(software: tuple[str, str]) -> None:
    async def main() -> None:
        cluster = await cluster_after(view(1, 1, 2, 3), view(2, 1, 3))
        answer = await told(cluster, software)
        assert brokers(answer) == [(1, "a1", 1), (2, "a2", 1), (3, "a3", 1)]
        assert {one.leader_id for one in answer.topics[0].partitions} == {1, 3}
        assert answer.controller_id == 1
        assert brokers(await told(cluster, software, B)) == [(2, "b", 2)], "at the listener of the client"

    asyncio.run(main())


@pytest.mark.parametrize("software", OTHERS, ids=lambda software: "-".join(software))
def test_other_clients_are_told_of_members_only(software: tuple[str, str]) -> None:
    async def main() -> None:
        cluster = await cluster_after(view(1, 1, 2, 3), view(2, 1, 3))
        assert [one.node_id for one in (await told(cluster, software)).brokers] == [1, 3]

    asyncio.run(main())


def test_a_broker_that_is_back_is_told_of_once() -> None:
    async def main() -> None:
        cluster = await cluster_after(view(1, 1, 2), view(2, 1), view(3, 1, 2))
        assert brokers(await told(cluster, LIBRDKAFKA[0])) == [(1, "a1", 1), (2, "a2", 1)]

    asyncio.run(main())


def test_one_broker_for_all_nodes_stays_the_only_one() -> None:
    async def main() -> None:
        nodes = Cluster("c")
        one = OneBroker(nodes, Endpoint(A, "all", 9))
        for newest in (view(1, 1, 2, 3), view(2, 1, 3)):
            nodes.update(newest, 1, Serving.SERVE)
        assert brokers(await told(one, LIBRDKAFKA[0])) == [(0, "all", 9)]

    asyncio.run(main())
