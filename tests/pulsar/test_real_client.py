"""Topics of a real Pulsar: partitions, lists, watches."""

import asyncio
import secrets

import pytest

from bridge.pulsar import (
    EARLIEST,
    Admin,
    PulsarClient,
    PulsarError,
)
from bridge.pulsar.pb import PulsarApi_pb2 as pb


async def test_partitions_are_counted_and_nothing_is_created(
    client: PulsarClient, admin: Admin, namespace: str, topic: str
) -> None:
    partitioned = f"persistent://{namespace}/p-{secrets.token_hex(4)}"
    await admin.create_partitioned(partitioned, 3, {"color": "blue"})
    missing = f"persistent://{namespace}/missing-{secrets.token_hex(4)}"
    assert await client.partitions(partitioned) == 3
    assert await client.partitions(topic) == 0
    for attempt in (client.partitions(missing), client.reader(missing, EARLIEST)):
        with pytest.raises(PulsarError) as caught:
            await attempt
        assert caught.value.code == pb.TopicNotFound
    topics = await client.topics_of_namespace(namespace)
    assert {topic, *(f"{partitioned}-partition-{number}" for number in range(3))} <= set(topics)
    assert missing not in topics


async def test_topics_that_come_and_go_are_told(client: PulsarClient, admin: Admin, namespace: str, topic: str) -> None:
    told: asyncio.Queue[tuple[list[str], list[str]]] = asyncio.Queue()
    watch = await client.watch_topics(namespace, lambda added, removed: told.put_nowait((list(added), list(removed))))
    assert watch is not None
    added, removed = await told.get()
    assert topic in added
    assert removed == []
    fresh = f"persistent://{namespace}/w-{secrets.token_hex(4)}"

    async def told_of_it() -> tuple[list[str], list[str]]:
        """The broker may tell of a topic once more that was made just before."""
        while True:
            added, removed = await told.get()
            if fresh in (*added, *removed):
                return added, removed

    await admin.create_non_partitioned(fresh)
    assert await told_of_it() == ([fresh], [])
    await admin.delete_non_partitioned(fresh, force=True)
    assert await told_of_it() == ([], [fresh])
    await watch.close()
