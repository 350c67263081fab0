"""What operators are shown of a cluster: `bridge nodes`, and the page /cluster."""

import io
import json
import urllib.request

import pytest

from bridge.cli.nodes import order, read_view, show
from bridge.cluster.description import describe
from bridge.cluster.membership.orders import Order, OrderRefused
from bridge.cluster.membership.record_format import encode
from bridge.cluster.membership.records import Record, Tick, TopicChange, TopicEvent, WholeView
from bridge.cluster.membership.view import ClusterView, NodeRegistration, Sender
from bridge.config import Settings
from bridge.errors import StartupError
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Position
from tests.cluster.nodes import GROUPS, SLOTS, members
from tests.pulsar.consumer.log_broker import LEDGER, Log, body
from tests.pulsar.fake_broker import Peer, Type
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until


async def test_nodes_are_shown_as_the_view_log_has_them(pulsar: PulsarAddress) -> None:
    async with members(pulsar) as cluster:
        settings = settings_for(pulsar, cluster.namespace)
        out = io.StringIO()
        one, two = await cluster.start("a"), await cluster.start("b")
        await cluster.agree(one, two)
        assert await show(settings, out) == 0
        lines = out.getvalue().splitlines()
        assert lines[0].startswith(f"{cluster.namespace}, version ")
        assert [line.split()[:7] for line in lines[2:]] == [
            ["0", "a", "a:9092", "up", "1", str(SLOTS // 2), str(GROUPS // 2)],
            ["1", "b", "b:9092", "up", "1", str(SLOTS // 2), str(GROUPS // 2)],
        ]
        assert [line.split()[-1] == "controller" for line in lines[2:]] == [True, False]
        assert await read_view(settings) == one.cluster.view
        told = io.StringIO()
        assert await show(settings, told, as_json=True) == 0
        of_a, of_b = json.loads(told.getvalue())["nodes"]
        assert (of_a["name"], of_a["address"], of_a["partition_slots"], of_a["role"]) == (
            "a", "a:9092", SLOTS // 2, "controller",
        )  # fmt: skip
        assert (of_b["id"], of_b["state"], of_b["group_slots"], of_b["role"]) == (1, "up", GROUPS // 2, "")


async def test_a_node_is_drained_gets_its_share_again_and_is_removed(pulsar: PulsarAddress) -> None:
    async with members(pulsar) as cluster:
        settings = settings_for(pulsar, cluster.namespace)
        out = io.StringIO()
        one, two = await cluster.start("a"), await cluster.start("b")
        await cluster.agree(one, two)
        assert await order(settings, Order.DRAIN, "b", out) == 0
        await until(lambda: one.led == SLOTS and two.led == 0)
        assert "drained" in out.getvalue()
        with pytest.raises(OrderRefused, match="'b' is drained"):
            await order(settings, Order.DRAIN, "b", out)
        with pytest.raises(OrderRefused, match="no other node could lead"):
            await order(settings, Order.DRAIN, "a", out)
        assert await order(settings, Order.UNDRAIN, "b", out) == 0
        await cluster.agree(one, two)
        assert await order(settings, Order.REMOVE, "a", out) == 0  # the controller
        await until(lambda: two.led == SLOTS and one.cluster.node_id == -1)
        await cluster.agree(two)
        with pytest.raises(OrderRefused, match="'c'"):
            await order(settings, Order.REMOVE, "c", out)


async def test_a_log_that_has_lost_its_beginning_is_read_though_its_last_ticks_are_far_back() -> None:
    sender, position = Sender("a", 1), Position(LEDGER, 0)
    whole = WholeView(sender, 5, ClusterView(6, 0, {0: NodeRegistration("a", 1, 0, since=6)}, {"a": 0}))
    changes = [TopicChange(f"t{index}", "1", TopicEvent.CREATED) for index in range(40)]
    records: list[Record] = [whole, Tick(sender, 6, position, position), *changes]
    async with Log([body(bytes(encode(record))) for record in records]) as broker:
        broker.on(Type.PARTITIONED_METADATA, no_partitions)
        settings = Settings().with_values(pulsar={"service_url": broker.url})
        assert (await read_view(settings)).version == 6


def no_partitions(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
    request_id = command.partition_metadata.request_id
    answer = pb.CommandPartitionedTopicMetadataResponse(
        request_id=request_id, response=pb.CommandPartitionedTopicMetadataResponse.Success
    )
    peer.send(type=Type.PARTITIONED_METADATA_RESPONSE, partition_metadata_response=answer)


async def test_a_namespace_without_nodes_has_none(pulsar: PulsarAddress) -> None:
    settings = settings_for(pulsar, pulsar.create_namespace())
    name, out, told = settings.pulsar.full_namespace, io.StringIO(), io.StringIO()
    assert await show(settings, out) == 1
    assert out.getvalue().startswith(f"no node has ever run on {name}; `bridge run` starts")
    assert await show(settings, told, as_json=True) == 1
    assert json.loads(told.getvalue()) == {"namespace": name, "version": 0, "nodes": []}
    with pytest.raises(StartupError, match=f"no node has ever run on {name}"):
        await order(settings, Order.DRAIN, "a", io.StringIO())


def test_the_page_of_a_node_is_its_view(bridge: BridgeThread) -> None:
    with urllib.request.urlopen(f"{bridge.http}/cluster", timeout=10) as answer:  # noqa: S310 - the tests' own server
        found = json.load(answer)
    assert bridge.server.cluster is not None
    assert found == json.loads(json.dumps(describe(bridge.server.cluster.view)))
    (node,) = found["members"]
    assert (node["endpoints"], node["slots_led"]) == ([f"PLAINTEXT://{bridge.kafka}"], found["slots"])
