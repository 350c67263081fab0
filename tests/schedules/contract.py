"""What the model broker and a real Pulsar have in common: short scripts by the bridge's client, and their outcomes.

A script says what must come out, whatever the timing is.
"""

import asyncio
import json
from collections.abc import Sequence

import pytest

from bridge.pulsar import EARLIEST, LATEST, AccessMode, Position, PulsarClient, PulsarError, Receipt
from bridge.pulsar.admin import Conflict, NotFound
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.runtime.threads import WorkerThreads
from bridge.storage.read.search import Search
from bridge.telemetry.metrics import Metrics
from tests.schedules.site import Site, code_of, script, send
from tests.support.waiting import until

# --- producers and deduplication --------------------------------------------------------------------------------------


@script
async def a_name_is_one_sessions(site: Site) -> None:
    topic, one, two = await site.topic(), await site.client(), await site.client()
    first = one.producer(topic, name="n")
    await first.opened()
    second = two.producer(topic, name="n")
    opening = asyncio.ensure_future(second.opened())
    await asyncio.sleep(0.3)  # nothing may happen: only time can show that
    assert not opening.done()  # refused again and again: the client goes on trying
    await first.close()
    await opening
    await one.producer(topic, name="m").opened()


@script
async def a_name_is_free_when_its_connection_is_gone(site: Site) -> None:
    topic, one, two = await site.topic(), await site.client(), await site.client()
    await one.producer(topic, name="n").opened()
    await one.close()
    await two.producer(topic, name="n").opened()


@script
async def repetitions_are_recognised_and_move_no_index(site: Site) -> None:
    topic, client = await site.topic(), await site.client()
    producer = client.producer(topic, name="n")
    await producer.opened()
    assert producer.last_sequence_id == -1
    assert not (await send(producer, 0, 5)).duplicate
    last = await send(producer, 5, 5)
    for first, count in ((0, 5), (5, 5), (8, 5)):  # the last overlaps in part: it is dropped whole
        again = await send(producer, first, count)
        assert (again.duplicate, again.position) == (True, EARLIEST)
    beyond = await send(producer, 40, 2)  # a gap is accepted
    assert beyond.position == Position(last.position.ledger, last.position.entry + 1)
    entry = await client.read_entry(topic, beyond.position)
    assert entry is not None
    assert entry.index == 11


@script
async def the_last_sequence_is_told_at_opening(site: Site) -> None:
    topic, client = await site.topic(), await site.client()
    producer = client.producer(topic, name="n")
    await send(producer, 0, 5)
    await send(producer, 7, 3)
    await producer.close()
    for again in range(2):
        producer = client.producer(topic, name="n")
        await producer.opened()
        assert producer.last_sequence_id == 9
        await producer.close()
        if not again:
            await site.admin.unload(topic)
    other = client.producer(topic, name="m")
    await other.opened()
    assert other.last_sequence_id == -1


@script
async def a_send_above_the_topics_limit_is_refused_alone(site: Site) -> None:
    topic, client = await site.topic(), await site.client()
    producer = client.producer(topic)
    await send(producer)
    await site.admin.set_topic_policy(topic, "maxMessageSize", 200)
    async with asyncio.timeout(20):
        while True:  # a policy takes effect after a while
            large, small = producer.send(pb.MessageMetadata(), b"x" * 500, 1), send(producer)
            (outcome, after) = await asyncio.gather(large, small, return_exceptions=True)
            assert isinstance(after, Receipt)
            if isinstance(outcome, PulsarError):
                break
    assert outcome.code == pb.NotAllowedError
    assert producer.attached


@script
async def repetitions_after_a_lost_connection_leave_no_double(site: Site) -> None:
    topic, one, two = await site.topic(), await site.client(), await site.client()
    first = one.producer(topic, name="n")
    await first.opened()
    sent = [asyncio.ensure_future(send(first, sequence)) for sequence in range(50)]
    await sent[5]
    await one._pool.close()  # as by a SIGKILL: nothing is said before
    second = two.producer(topic, name="n")
    await second.opened()
    told = second.last_sequence_id
    assert 5 <= told < 50
    again = await asyncio.gather(*(send(second, sequence) for sequence in range(50)))
    assert [receipt.duplicate for receipt in again[: told + 1]] == [True] * (told + 1)
    assert not any(receipt.duplicate for receipt in again[told + 1 :])
    reader = await two.reader(topic, EARLIEST)
    stored = [await reader.receive() for _ in range(50)]
    assert [(entry.metadata.sequence_id, entry.index) for entry in stored] == [(at, at) for at in range(50)]
    assert await reader.last_position() == stored[-1].position
    await one.close()
    await asyncio.gather(*sent, return_exceptions=True)


@script
async def producers_come_back_after_an_unload(site: Site) -> None:
    topic, client = await site.topic(), await site.client()
    producer = client.producer(topic, name="n")
    before = await send(producer, 0, 2)
    reader = await client.reader(topic, EARLIEST)
    await reader.receive()
    await site.admin.unload(topic)
    after = await send(producer, 2, 3)
    assert after.position.ledger > before.position.ledger
    assert after.position.entry == 0
    entry = await reader.receive()
    assert (entry.position, entry.index) == (after.position, 4)
    # the place behind a ledger's end stands for the next ledger's first
    found = await client.read_entry(topic, before.position.after)
    assert found is not None
    assert found.position == after.position


@script
async def an_exclusive_producer_keeps_others_out(site: Site) -> None:
    topic, one, two = await site.topic(), await site.client(), await site.client()
    first = one.producer(topic, access_mode=AccessMode.EXCLUSIVE)
    await send(first)
    assert await code_of(two.producer(topic, access_mode=AccessMode.EXCLUSIVE).opened()) == pb.ProducerFenced
    shared = two.producer(topic)
    opening = asyncio.ensure_future(shared.opened())
    await asyncio.sleep(0.3)  # nothing may happen: only time can show that
    assert not opening.done()
    await first.close()
    await opening
    assert await code_of(one.producer(topic, access_mode=AccessMode.EXCLUSIVE).opened()) == pb.ProducerFenced


@script
async def fencing_takes_over(site: Site) -> None:
    topic, one, two = await site.topic(), await site.client(), await site.client()
    first = one.producer(topic, access_mode=AccessMode.EXCLUSIVE_WITH_FENCING)
    await send(first)
    second = two.producer(topic, access_mode=AccessMode.EXCLUSIVE_WITH_FENCING)
    await send(second)
    assert await code_of(send(first)) == pb.ProducerFenced
    await send(second)


@script
async def a_missing_topic_is_made_for_a_producer_unless_it_must_exist(site: Site) -> None:
    client, name = await site.client(), site.name()
    assert await code_of(client.producer(name, must_exist=True).opened()) == pb.TopicNotFound
    assert await code_of(client.reader(name, EARLIEST)) == pb.TopicNotFound
    await client.producer(name).opened()
    assert await client.partitions(name) == 0


@script
async def a_missing_partition_is_made_for_a_producer_unless_its_topic_has_fewer(site: Site) -> None:
    client, name = await site.client(), site.name()
    await client.producer(f"{name}-partition-0").opened()  # though there is no topic that it is a partition of
    assert f"{name}-partition-0" in await client.topics_of_namespace(site.namespace)
    other = site.name()
    await site.admin.create_partitioned(other, 2)
    beyond = client.producer(f"{other}-partition-2")
    opening = asyncio.ensure_future(beyond.opened())
    await asyncio.wait((opening, beyond.terminated), timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
    assert not beyond.attached
    assert f"{other}-partition-2" not in await client.topics_of_namespace(site.namespace)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)


@script
async def producers_of_a_deleted_topic_do_not_bring_it_back(site: Site) -> None:
    client, name = await site.client(), site.name()
    await site.admin.create_partitioned(name, 1)
    producer = client.producer(f"{name}-partition-0", name="n", must_exist=True)
    await send(producer)
    await site.admin.delete_partitioned(name)
    assert (await asyncio.wait_for(producer.terminated, 20)).code == pb.TopicNotFound
    assert name not in await site.admin.partitioned_topics(site.namespace)
    assert f"{name}-partition-0" not in await client.topics_of_namespace(site.namespace)


# --- readers ----------------------------------------------------------------------------------------------------------


@script
async def readers_start_where_they_are_told(site: Site) -> None:
    topic, client = await site.topic(), await site.client()
    producer = client.producer(topic)
    places = [(await send(producer, count=2)).position for _ in range(4)]

    async def first(start: Position, *, inclusive: bool = True) -> Position:
        reader = await client.reader(topic, start, inclusive=inclusive)
        return (await reader.receive()).position

    assert await first(EARLIEST) == places[0]
    assert await first(places[1]) == places[1]
    assert await first(places[1], inclusive=False) == places[2]
    newest, ahead = await client.reader(topic, LATEST), await client.reader(topic, places[3].after)
    last = (await send(producer)).position
    assert (await newest.receive()).position == last
    assert (await ahead.receive()).position == last


@script
async def readers_at_the_end_get_all_behind_their_place(site: Site) -> None:
    topic, client = await site.topic(), await site.client()
    producer = client.producer(topic)
    sent = [(await send(producer)).position]
    over = asyncio.Event()

    async def write() -> None:
        while not over.is_set():
            sent.append((await send(producer)).position)

    writing = asyncio.ensure_future(write())
    for _ in range(20):
        reader = await client.reader(topic, LATEST)
        first = (await reader.receive()).position
        await until(lambda first=first: sent[-1] >= first)  # type: ignore[misc]
        assert next(place for place in sent if place > reader.start) == first
        await reader.close()
    over.set()
    await writing


@script
async def permits_bound_what_is_sent(site: Site) -> None:
    topic, client, slow_client = await site.topic(), await site.client(), await site.client()
    producer = client.producer(topic)
    for _ in range(5):
        await send(producer, count=3)
    metrics = Metrics().pulsar
    slow_client = PulsarClient(site.settings, metrics)
    site.clients.append(slow_client)
    slow = await slow_client.reader(topic, EARLIEST, permits=1)
    fast = await client.reader(topic, EARLIEST)
    await until(lambda: metrics.entries_read.value > 0)
    indices = [(await fast.receive()).index for _ in range(5)]
    assert metrics.entries_read.value == 1  # an entry is sent whole, whatever it holds
    assert [(await slow.receive()).index for _ in range(5)] == indices == [2, 5, 8, 11, 14]


@script
async def the_last_message_id_is_that_of_the_last_entry(site: Site) -> None:
    topic, client = await site.topic(), await site.client()
    reader = await client.reader(topic, EARLIEST)
    assert await reader.last_position() == EARLIEST
    producer = client.producer(topic)
    last = (await send(producer, count=3)).position
    assert await reader.last_position() == last
    await producer.close()
    await site.admin.unload(topic)
    assert await reader.last_position() == last
    assert await client.read_entry(topic, last.after) is None


# --- topics and the admin API -----------------------------------------------------------------------------------------


@script
async def partitioned_topics_are_listed_with_their_partitions(site: Site) -> None:
    client, name = await site.client(), site.name()
    with pytest.raises(NotFound):
        await site.admin.partitioned_metadata(name)
    assert await code_of(client.partitions(name)) == pb.TopicNotFound
    await site.admin.create_partitioned(name, 2, {"a": "1"})
    with pytest.raises(Conflict):
        await site.admin.create_partitioned(name, 2)
    with pytest.raises(Conflict):
        await site.admin.create_non_partitioned(name)
    assert name in await site.admin.partitioned_topics(site.namespace)
    partitions = [f"{name}-partition-{number}" for number in range(3)]
    stored = await client.topics_of_namespace(site.namespace)
    assert set(partitions) & set(stored) == set(partitions[:2])
    assert set(partitions) & set(await site.admin.non_partitioned_topics(site.namespace)) == set(partitions[:2])
    assert await client.partitions(name) == 2
    assert await client.partitions(partitions[1]) == 0
    assert await code_of(client.partitions(partitions[2])) == pb.TopicNotFound
    await site.admin.update_topic_properties(name, {"b": "2"})
    metadata = await site.admin.partitioned_metadata(name)
    assert (metadata.partitions, metadata.properties) == (2, {"a": "1", "b": "2"})
    assert await site.admin.topic_properties(name) == {"a": "1", "b": "2"}
    await site.admin.remove_topic_property(name, "a")
    await site.admin.remove_topic_property(name, "c")
    assert await site.admin.topic_properties(name) == {"b": "2"}
    await site.admin.update_partitions(name, 3)
    assert partitions[2] in await client.topics_of_namespace(site.namespace)
    await site.admin.delete_partitioned(name)
    assert name not in await site.admin.partitioned_topics(site.namespace)
    assert not set(partitions) & set(await client.topics_of_namespace(site.namespace))
    with pytest.raises(NotFound):
        await site.admin.delete_partitioned(name)


@script
async def a_topic_without_partitions_is_listed_as_stored(site: Site) -> None:
    client, topic = await site.client(), await site.topic()
    with pytest.raises(Conflict):
        await site.admin.create_non_partitioned(topic)
    assert (await site.admin.partitioned_metadata(topic)).partitions == 0
    assert topic not in await site.admin.partitioned_topics(site.namespace)
    assert topic in await client.topics_of_namespace(site.namespace)
    await site.admin.update_topic_properties(topic, {"a": "1"})
    properties = await site.admin.topic_properties(topic)
    assert properties.pop("index", "-1") == "-1"  # the ledgers keep it there
    assert properties == {"a": "1"}
    await site.admin.remove_topic_property(topic, "a")
    assert "a" not in await site.admin.topic_properties(topic)
    await site.admin.delete_non_partitioned(topic)
    assert topic not in await client.topics_of_namespace(site.namespace)


@script
async def ledgers_are_listed_with_their_entries(site: Site) -> None:
    topic, client = await site.topic(), await site.client()
    search = Search(topic, client, site.admin, Metrics().storage, 1 << 20, None, WorkerThreads(), None)  # type: ignore[arg-type]
    assert await search.next_offset_when_empty() == 0
    producer = client.producer(topic)
    places = [(await send(producer, count=2)).position for _ in range(3)]
    await site.admin.unload(topic)
    places.append((await send(producer)).position)
    stats = await site.admin.internal_stats(topic)
    held = [(ledger.ledger_id, ledger.entries) for ledger in stats.ledgers if ledger.entries]
    assert held == [(places[0].ledger, 3), (places[3].ledger, 1)]
    assert stats.last_confirmed == places[3]
    assert await site.admin.marker_index(topic, places[0]) is None


@script
async def a_watch_tells_what_comes_and_goes(site: Site) -> None:
    client, there = await site.client(), await site.topic()
    seen: set[str] = set()
    gone: set[str] = set()

    def changed(added: Sequence[str], removed: Sequence[str]) -> None:
        seen.update(added)
        gone.update(removed)

    watch = await client.watch_topics(site.namespace, changed)
    assert watch is not None
    assert there in seen
    name = site.name()
    await site.admin.create_partitioned(name, 1)
    await until(lambda: f"{name}-partition-0" in seen)
    await site.admin.delete_partitioned(name)
    await until(lambda: f"{name}-partition-0" in gone)


@script
async def policies_and_configuration_are_answered(site: Site) -> None:
    topic = await site.topic()
    retention = await site.admin.namespace_retention(site.namespace)
    assert retention is not None
    assert (retention.minutes, retention.megabytes) == (-1, -1)
    assert await site.admin.namespace_deduplication(site.namespace) is None
    runtime = await site.admin.runtime_config()
    assert runtime["brokerDeduplicationEnabled"] == "true"
    assert int(runtime["managedLedgerDefaultAckQuorum"]) == 1
    assert await site.admin.topic_retention(topic) is None
    assert await site.admin.topic_policy(topic, "compactionThreshold") is None
    assert json.dumps(await site.admin.subscriptions(topic)) == "{}"
    await site.admin.brokers_health()
