"""The store of groups on a real Pulsar: what is acknowledged is there for any node that reads it, compacted or not."""

import asyncio
from collections.abc import Callable

import pytest

from bridge.errors import KafkaError
from bridge.groups.store.records import Key, StoredGroup, StoredOffset, encode_offset, group_key, offset_key
from bridge.groups.store.store import TOPIC, GroupStore
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import Retention
from tests.groups.conftest import MakeNode, Node
from tests.support.group_slots import until_owned
from tests.support.pulsar import PrivatePulsar, PulsarAddress
from tests.support.waiting import compact, until


@pytest.fixture
def namespace(pulsar: PulsarAddress) -> str:
    """One for each test: slots are taken by one node at a time."""
    return pulsar.create_namespace()


def commit(store: GroupStore, group: str, offset: int, topic: str = "t", partition: int = 0) -> asyncio.Future[None]:
    records: dict[Key, bytes | None] = {offset_key(group, topic, partition): encode_offset(StoredOffset(offset))}
    return asyncio.ensure_future(store.submit(group, records))


async def committed(store: GroupStore, group: str, topic: str = "t", partition: int = 0) -> int | None:
    found = (await store.load(group)).offsets.get((topic, partition))
    return None if found is None else found.offset


def held(store: GroupStore) -> Callable[[], bool]:
    def is_held() -> bool:
        try:
            store.check("g")
        except KafkaError:
            return False
        return True

    return is_held


def slot_topic(node: Node) -> str:
    return f"{node.settings.pulsar.state_topic(TOPIC)}-partition-0"


async def test_an_unknown_group_is_empty(pulsar: PulsarAddress, namespace: str, node: MakeNode) -> None:
    one = await node(pulsar, namespace)
    await until_owned(one.store)
    assert await one.store.load("unknown") == StoredGroup()
    assert list(one.store.groups()) == []


async def test_what_is_written_shows_and_what_is_deleted_goes(
    pulsar: PulsarAddress, namespace: str, node: MakeNode
) -> None:
    store = (await node(pulsar, namespace)).store
    await until_owned(store)
    stored: list[tuple[Key, StoredOffset | None]] = []
    store.on_stored.append(lambda key, offset: stored.append((key, offset)))
    offset = StoredOffset(5, 3, "näh\u2028", 17, 99)
    await store.write("g/ö", {group_key("g/ö"): b"state", offset_key("g/ö", "t", 7): encode_offset(offset)})
    assert await store.load("g/ö") == StoredGroup(b"state", {("t", 7): offset})
    assert list(store.groups()) == ["g/ö"]
    await store.write("g/ö", {group_key("g/ö"): None, offset_key("g/ö", "t", 7): None})
    assert list(store.groups()) == []
    assert stored == [
        (group_key("g/ö"), None), (offset_key("g/ö", "t", 7), offset),
        (group_key("g/ö"), None), (offset_key("g/ö", "t", 7), None),
    ]  # fmt: skip


async def test_groups_are_spread_over_the_slots(pulsar: PulsarAddress, namespace: str, node: MakeNode) -> None:
    one = await node(pulsar, namespace, groups={"slots": 3})
    await until_owned(one.store)
    await asyncio.gather(*(commit(one.store, f"g{i}", i) for i in range(50)))
    assert all(one.store._groups.live_records(slot) > 5 for slot in range(3))
    await one.leave()
    other = await node(pulsar, namespace, groups={"slots": 5})  # a topic that exists keeps its number
    await until_owned(other.store)
    assert [await committed(other.store, f"g{i}") for i in range(50)] == list(range(50))
    assert len(other.store._log.slots) == 3


@pytest.mark.parametrize("slots", [2, 5])
async def test_the_views_may_have_another_number_of_slots_than_the_log(
    pulsar: PulsarAddress, namespace: str, node: MakeNode, slots: int
) -> None:
    """A namespace that other nodes had before: its log keeps its slots, and each belongs to one of the views'."""
    one = await node(pulsar, namespace, groups={"slots": slots})
    await until_owned(one.store)
    await asyncio.gather(*(commit(one.store, f"g{i}", i) for i in range(30)))
    await one.leave()
    other = await node(pulsar, namespace)
    other.store.assign(())
    store = GroupStore(other.client, other.admin, other.settings, other.metrics, view_slots=3)
    await store.start()
    try:
        assert store.slots == slots
        store.assign({1}, orphaned={1})
        mine = [f"g{i}" for i in range(30) if store.slot_of(f"g{i}") == 1]
        await until_owned(store)
        assert sorted(store.groups()) == sorted(mine)
        assert {store.slot_of(f"g{i}") for i in range(30)} == set(range(min(slots, 3)))
        store.assign({0, 1, 2})
        await until_owned(store)
        assert len(list(store.groups())) == 30
    finally:
        await store.close()


async def test_writes_wait_for_the_slot_and_for_nothing_longer(
    pulsar: PulsarAddress, namespace: str, node: MakeNode
) -> None:
    store = (await node(pulsar, namespace)).store
    with pytest.raises(KafkaError) as raised:
        store.check("g")
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await store.load("g")
    store.check("g")


async def test_the_last_of_many_concurrent_writes_counts(pulsar: PulsarAddress, namespace: str, node: MakeNode) -> None:
    one = await node(pulsar, namespace)
    await until_owned(one.store)
    await asyncio.gather(*(commit(one.store, f"g{i % 10}", i) for i in range(3000)))
    assert [await committed(one.store, f"g{i}") for i in range(10)] == list(range(2990, 3000))
    assert one.metrics.groups.entries_written.value < 300
    await one.leave()
    other = await node(pulsar, namespace)
    await until_owned(other.store)
    assert [await committed(other.store, f"g{i}") for i in range(10)] == list(range(2990, 3000))


@pytest.mark.parametrize("retained", [True, False])
async def test_compaction_loses_nothing(pulsar: PulsarAddress, namespace: str, node: MakeNode, retained: bool) -> None:
    one = await node(pulsar, namespace)
    if not retained:
        await one.admin.set_namespace_retention(namespace, Retention(0, 0))
    await until_owned(one.store)
    expected: dict[str, int | None] = {}
    for turn in range(4):
        for i in range(60):
            if i % (turn + 1) == 0:
                expected[f"g{i}"] = None if i % 7 == turn else 100 * turn + i
        records = expected.items()
        await asyncio.gather(
            *(
                one.store.write(g, {offset_key(g, "t", 0): None if v is None else encode_offset(StoredOffset(v))})
                for g, v in records
            )
        )
        if turn not in (1, 3):  # so that reading meets compacted and other entries; the last are not compacted yet
            await compact(one.admin, slot_topic(one))
        await one.admin.unload(slot_topic(one))  # a new ledger; those before it may be trimmed
        await until(held(one.store))
    await one.leave()
    other = await node(pulsar, namespace)
    await until_owned(other.store)
    assert {g: await committed(other.store, g) for g in expected} == expected
    kept = {g for g, value in expected.items() if value is not None}
    assert set(other.store.groups()) == kept
    assert other.metrics.groups.records_unreadable.value == 0


async def test_compaction_is_asked_for_by_the_number_of_writes(
    pulsar: PulsarAddress, namespace: str, node: MakeNode
) -> None:
    one = await node(pulsar, namespace, groups={"slots": 1, "compact_after_writes": 100})
    await until_owned(one.store)
    cursors = {}
    async with asyncio.timeout(20):
        while "__compaction" not in cursors:  # it keeps what is not compacted, past all retention
            cursors = (await one.admin.internal_stats(slot_topic(one))).cursors
    compaction = one.store._log.slots[0]._compaction
    await compaction.asked()  # before that no second one is asked for
    before = one.metrics.groups.compactions.value
    compaction._asked_at = -1000.0  # a minute ago
    await asyncio.gather(*(commit(one.store, "g", i) for i in range(100)))
    assert one.metrics.groups.compactions.value == before + 1
    assert one.metrics.groups.compaction_errors.value == 0


async def test_a_new_owner_fences_and_the_old_owner_answers_nothing_more(
    pulsar: PulsarAddress, namespace: str, node: MakeNode
) -> None:
    old = await node(pulsar, namespace)
    await until_owned(old.store)
    await commit(old.store, "g", 1)
    belongs: list[Callable[[str], bool]] = []
    old.store.on_lost.append(belongs.append)
    new = await node(pulsar, namespace)
    results: list[tuple[int, bool]] = []

    async def keep_committing() -> None:
        offset = 1
        while not results or results[-1][1]:
            offset += 1
            try:
                await commit(old.store, "g", offset)
                results.append((offset, True))
            except KafkaError as error:
                assert error.code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                results.append((offset, False))

    await asyncio.gather(keep_committing(), until(held(new.store)))
    acknowledged = max([offset for offset, stored in results if stored], default=1)
    assert results[-1][1] is False
    found = await committed(new.store, "g")
    assert found is not None
    assert found >= acknowledged
    await commit(new.store, "g", 1000)
    await until(lambda: bool(belongs))
    assert belongs[0]("g")
    with pytest.raises(KafkaError) as raised:
        await old.store.load("g")
    assert raised.value.code == ErrorCode.NOT_COORDINATOR
    assert held(new.store)()


async def test_a_fenced_node_comes_back_when_the_other_has_gone(
    pulsar: PulsarAddress, namespace: str, node: MakeNode
) -> None:
    old = await node(pulsar, namespace)
    await until_owned(old.store)
    new = await node(pulsar, namespace)
    await until_owned(new.store)
    await until(lambda: not held(old.store)())
    await commit(new.store, "g", 7)
    assert not held(old.store)()
    await new.leave()
    await until(held(old.store))
    assert await committed(old.store, "g") == 7


async def test_a_killed_node_loses_nothing_acknowledged(pulsar: PulsarAddress, namespace: str, node: MakeNode) -> None:
    old = await node(pulsar, namespace)
    await until_owned(old.store)
    writes = [commit(old.store, f"g{i % 5}", i) for i in range(2000)]
    await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    await old.vanish()
    await asyncio.wait(writes)
    acknowledged = {}
    for i, write in enumerate(writes):
        if write.exception() is None:
            acknowledged[f"g{i % 5}"] = i
    assert acknowledged
    new = await node(pulsar, namespace)
    await until_owned(new.store)
    for group, offset in acknowledged.items():
        found = await committed(new.store, group)
        assert found is not None
        assert found >= offset


async def test_a_record_that_is_too_large_is_refused_alone(
    pulsar: PulsarAddress, namespace: str, node: MakeNode
) -> None:
    store = (await node(pulsar, namespace)).store
    await until_owned(store)
    huge = asyncio.ensure_future(store.submit("g", {group_key("g"): bytes(6 << 20)}))
    await commit(store, "g", 1)
    with pytest.raises(KafkaError) as raised:
        await huge
    assert raised.value.code == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    many: dict[Key, bytes | None] = {offset_key("g", "t" * 200, i): bytes(2000) for i in range(1500)}
    await store.write("g", {group_key("g"): b"x" * (4 << 20), **many})
    assert (await store.load("g")).metadata == b"x" * (4 << 20)


async def test_a_deleted_topic_is_made_again(pulsar: PulsarAddress, namespace: str, node: MakeNode) -> None:
    one = await node(pulsar, namespace)
    await until_owned(one.store)
    await commit(one.store, "g", 1)
    await compact(one.admin, slot_topic(one))  # while the first compaction runs, Pulsar does not delete
    await one.admin.delete_partitioned(one.settings.pulsar.state_topic(TOPIC))
    await until(lambda: not held(one.store)())
    await until(held(one.store))
    assert await committed(one.store, "g") is None
    await commit(one.store, "g", 2)


@pytest.mark.soak
async def test_a_killed_pulsar_delays_and_loses_nothing(
    private_pulsar: Callable[..., PrivatePulsar], node: MakeNode
) -> None:
    broker = private_pulsar()
    one = await node(broker, broker.create_namespace())
    await until_owned(one.store)
    acknowledged = -1

    async def persist(offset: int) -> None:
        """As a client does: again until it is acknowledged."""
        nonlocal acknowledged
        while acknowledged < offset:
            try:
                await commit(one.store, "g", offset)
                acknowledged = offset
            except KafkaError as error:
                assert error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
                await asyncio.sleep(0.05)

    for offset in range(100):
        await persist(offset)
    pending = [commit(one.store, "g", 500 + offset) for offset in range(20)]
    broker.kill()
    await asyncio.wait(pending)  # not for long: a few seconds
    with pytest.raises(KafkaError) as raised:
        await one.store.load("g")
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await asyncio.to_thread(broker.start)
    await until(held(one.store))
    found = await committed(one.store, "g")
    assert found is not None
    assert found >= acknowledged
    await persist(5000)
    other = await node(broker, one.settings.pulsar.full_namespace)
    await until_owned(other.store)
    assert await committed(other.store, "g") == 5000
