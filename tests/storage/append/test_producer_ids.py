"""Producer ids on a real Pulsar: no two are alike, over nodes, restarts of them, and of the topic behind them."""

import asyncio

from bridge.check.state_namespace import make_namespace
from bridge.pulsar.types import Position
from bridge.storage.append.producer_ids import TOPIC, ProducerIds, id_of
from tests.storage.conftest import Bench


async def test_ids_are_unique_across_nodes_forever(bench: Bench) -> None:
    await make_namespace(bench.admin, bench.settings)
    pulsar = bench.settings.pulsar
    found: list[int] = []
    for end in (None, bench.admin.unload, bench.admin.delete_non_partitioned, None):
        nodes = [ProducerIds(bench.client, bench.admin, pulsar) for _ in range(3)]
        found += await asyncio.gather(*(node.next() for node in nodes for _ in range(20)))
        if end is not None:
            await end(pulsar.state_topic(TOPIC))
            found += [await node.next() for node in nodes]
        for node in nodes:
            await node.close()
    assert len(set(found)) == len(found) == 240 + 6
    assert all(0 <= one < 1 << 63 for one in found)


def test_an_id_is_a_place() -> None:
    assert id_of(Position(7, 3)) == 7 << 24 | 3
    assert id_of(Position((1 << 38) - 1, (1 << 24) - 1)) == (1 << 62) - 1
    for beyond in (Position(1 << 38, 0), Position(0, 1 << 24)):
        assert 1 << 62 <= id_of(beyond) < 1 << 63
