"""What clients are told of features while nodes of different releases are there."""

from types import SimpleNamespace
from typing import Any

import pytest

from bridge.apis import api_versions, load
from bridge.cluster.cluster import Cluster
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.record_format import FORMAT_LEVEL
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration
from bridge.cluster.one_broker import OneBroker
from bridge.config import Settings
from bridge.requests.features import STREAMS_APIS


@pytest.mark.parametrize("one_address", [False, True])
@pytest.mark.parametrize(("level", "told"), [(1, False), (FORMAT_LEVEL, True)])
async def test_streams_groups_are_hidden_while_a_node_of_1_0_is_there(
    level: int, told: bool, one_address: bool
) -> None:
    nodes = Cluster("c")
    cluster = OneBroker(nodes, Endpoint("", "all", 9092)) if one_address else nodes
    members = {id_: NodeRegistration(f"n{id_}", 1, id_, (Endpoint("", "host", id_),), since=1) for id_ in (1, 2)}
    nodes.update(ClusterView(7, 1, members, {}, (1, 2), (7, 7), (1, 2), level), 1, Serving.SERVE)
    broker: Any = SimpleNamespace(cluster=cluster, apis=load(), shares=None, settings=Settings())
    session: Any = SimpleNamespace(api_version=4, told_software=lambda *_: None)
    answer = await api_versions.handle(api_versions.Request(), broker, session)
    assert ({one.api_key for one in answer.api_keys} >= STREAMS_APIS) is told
    assert ("streams.version" in {one.name for one in answer.finalized_features}) is told
