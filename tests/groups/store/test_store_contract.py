"""What the coordinator may expect of a store, held by the one in memory and by the real one."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from bridge.groups.store.records import (
    Key,
    PendingOffset,
    Pendings,
    StoredOffset,
    encode_offset,
    encode_pending,
    group_key,
    offset_key,
    pending_key,
)
from bridge.groups.store.store import GroupStore
from tests.groups.conftest import MakeNode
from tests.groups.fake_outcomes import transaction
from tests.groups.store.fake_store import FakeStore
from tests.support.group_slots import until_owned


@pytest_asyncio.fixture(params=["fake", pytest.param("pulsar", id="real")])
async def store(request: pytest.FixtureRequest, node: MakeNode) -> AsyncIterator[GroupStore]:
    if request.param == "fake":
        yield FakeStore()
        return
    started = await node(request.getfixturevalue("pulsar"), request.getfixturevalue("namespace"))
    await until_owned(started.store)
    yield started.store


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A group of the test's own: the real store's topic is the session's."""
    return str(request.node.name)


async def test_nothing_is_stored_at_first(store: GroupStore, name: str) -> None:
    assert not await store.load(name)
    assert name not in store.groups()
    store.check(name)


async def test_what_is_written_can_be_loaded(store: GroupStore, name: str) -> None:
    offset = StoredOffset(7, 1, "m", 5)
    await store.write(name, {group_key(name): b"bytes", offset_key(name, "t", 3): encode_offset(offset)})
    stored = await store.load(name)
    assert stored.metadata == b"bytes"
    assert stored.offsets == {("t", 3): offset}
    assert name in store.groups()
    assert not await store.load("other")


async def test_the_last_of_several_writes_counts(store: GroupStore, name: str) -> None:
    writes = [store.submit(name, {group_key(name): str(n).encode()}) for n in range(20)]
    for write in writes:
        await write
    assert (await store.load(name)).metadata == b"19"


async def test_a_group_whose_records_are_deleted_is_gone(store: GroupStore, name: str) -> None:
    offset = encode_offset(StoredOffset(7))
    await store.write(name, {group_key(name): b"bytes", offset_key(name, "t", 0): offset})
    await store.write(name, {group_key(name): None})
    assert (await store.load(name)).metadata is None
    assert name in store.groups()
    await store.write(name, {offset_key(name, "t", 0): None})
    assert not await store.load(name)
    assert name not in store.groups()


async def test_pending_offsets_stand_before_or_behind_the_plain_one(store: GroupStore, name: str) -> None:
    one, two, plain = transaction(1), transaction(2), offset_key(name, "t", 0)
    keys = [pending_key(name, "t", 0, each.identity) for each in (one, two)]
    await store.write(name, {keys[0]: encode_pending(StoredOffset(5), one.slot)})
    await store.write(name, {plain: encode_offset(StoredOffset(6)), keys[1]: encode_pending(StoredOffset(7), two.slot)})
    before = {one.identity: PendingOffset(one, StoredOffset(5))}
    after = {two.identity: PendingOffset(two, StoredOffset(7))}
    assert (await store.load(name)).pendings == {("t", 0): Pendings(before, after)}
    await store.write(name, {keys[0]: encode_pending(StoredOffset(8), one.slot)})
    assert list((await store.load(name)).pendings["t", 0].after) == [two.identity, one.identity]
    await store.write(name, {plain: None, **dict.fromkeys(keys)})
    assert name not in store.groups()


async def test_each_record_is_told_when_it_is_stored(store: GroupStore, name: str) -> None:
    told: list[tuple[Key, StoredOffset | None]] = []
    store.on_stored.append(lambda key, offset: told.append((key, offset)))
    await store.write(name, {group_key(name): b"bytes", offset_key(name, "t", 0): encode_offset(StoredOffset(7))})
    assert told == [(group_key(name), None), (offset_key(name, "t", 0), StoredOffset(7))]
