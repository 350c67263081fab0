"""Behind one address, librdkafka is told by its connection alone that a group's coordinator is not to be had.

A code in the answer to its OffsetFetch it would take for final: its consumer would read nothing for good.
"""

from dataclasses import replace

import pytest

from bridge.apis import offset_fetch
from bridge.cluster import Cluster
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.view import ClusterView, NodeRegistration
from bridge.errors import Unanswered
from bridge.kafka.error_codes import ErrorCode
from bridge.relay.peers import Peers
from bridge.relay.relaying import Relaying
from bridge.requests.session import Session
from tests.schedules.explorer import schedules
from tests.schedules.world import World

OTHERS = ("apache-kafka-java", "4.1.0"), ("", "")
LIBRDKAFKA = ("librdkafka", "2.16.0")


@schedules(2)
async def test_who_asks_for_its_offsets_once_is_not_answered_where_their_node_cannot_be_asked(world: World) -> None:
    bridge = await world.started(groups=True)
    members = {node: NodeRegistration(f"n{node}", 1, node, (), since=1) for node in (1, 2)}
    nodes = Cluster("c")
    nodes.update(ClusterView(1, 1, members, {}, (1,), (1,), (2,)), 1, Serving.SERVE)
    peers = Peers(nodes)
    key = offset_fetch.API.key
    api = Relaying(replace(bridge.handlers, cluster=nodes), peers).apis({key: offset_fetch.API})[key]
    for version in (7, 8):
        for software in (*OTHERS, LIBRDKAFKA):
            group = offset_fetch.RequestGroup(group_id="g", topics=[])
            request = offset_fetch.Request(group_id="g", topics=[], groups=[group] if version >= 8 else [])
            session = Session(1, "/10.0.0.9:1", "PLAINTEXT", client_software=software, api_version=version)
            if software == LIBRDKAFKA:
                with pytest.raises(Unanswered):
                    await api.handle(request, bridge.handlers, session)
                continue
            answer = await api.handle(request, bridge.handlers, session)
            assert (answer.groups[0] if version >= 8 else answer).error_code == ErrorCode.NOT_COORDINATOR
    peers.close()
