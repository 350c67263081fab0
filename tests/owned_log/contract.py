"""What an owned log promises, as short scripts that hold on the model broker and on a real Pulsar."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

import pytest

from bridge.owned_log import OwnedLogError, Record, RecordTooLarge, SlotNotOwned, SlotUnavailable
from bridge.owned_log.batch import pack
from bridge.owned_log.succession import marker
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.owned_log.nodes import LogNode, LogScript, LogSite, confirmed, follow, owner, start
from tests.support.waiting import until

SCRIPTS: Final[list[LogScript]] = []


def script(function: LogScript) -> LogScript:
    SCRIPTS.append(function)
    return function


def partition(topic: str, index: int = 0) -> str:
    return f"{topic}-partition-{index}"


async def outcomes(node: LogNode, writes: Sequence["asyncio.Future[None]"]) -> list[bool]:
    """Which writes were acknowledged; the others fail with an error of the log."""
    found = await asyncio.gather(*writes, return_exceptions=True)
    assert all(one is None or isinstance(one, OwnedLogError) for one in found)
    return [one is None for one in found]


# --- taking -----------------------------------------------------------------------------------------------------------


@script
async def a_slot_is_taken_before_it_is_served(site: LogSite) -> None:
    node = await start(site, site.name())
    with pytest.raises(SlotUnavailable):
        node.log.check(0)
    with pytest.raises(SlotUnavailable):
        node.log.write(0, [Record("k", b"v")])
    await node.log.owned(0)
    node.log.check(0)
    assert node.metrics.slots_held.value == 1
    assert node.state.values == {0: {}}


@script
async def names_are_spread_over_the_slots_of_the_topic_that_is_there(site: LogSite) -> None:
    topic = site.name()
    one = await owner(site, topic, slots=3)
    names = [f"name-{number}" for number in range(30)]
    await asyncio.gather(*(one.put(name, name.encode()) for name in names))
    assert all(one.state.values[slot] for slot in range(3))
    await one.log.close()
    other = await owner(site, topic, slots=5)
    assert len(other.log.slots) == 3
    assert [other.get(name) for name in names] == [name.encode() for name in names]


@script
async def only_what_is_assigned_is_taken(site: LogSite) -> None:
    topic = site.name()
    one, other = await start(site, topic, 3, assigned=False), await start(site, topic, assigned=False)
    assert len(one.log.slots) == len(other.log.slots) == 3
    with pytest.raises(SlotNotOwned):
        await one.log.owned(1)
    for _ in range(2):  # the same again changes nothing
        one.log.assign([0, 1])
        other.log.assign({2})
        await asyncio.gather(one.log.all_owned(), other.log.all_owned())
    assert [[node.owns(slot) for slot in range(3)] for node in (one, other)] == [
        [True, True, False], [False, False, True],
    ]  # fmt: skip
    assert one.state.losses == other.state.losses == []


@script
async def a_released_slot_is_handed_over_in_order(site: LogSite) -> None:
    topic = site.name()
    old, new = await owner(site, topic), await start(site, topic, assigned=False)
    writes = [old.log.write(0, [Record("k", b"%d" % number)]) for number in range(50)]
    old.log.assign(())
    new.log.assign([0])
    with pytest.raises(SlotNotOwned):
        await old.log.owned(0)
    with pytest.raises(SlotNotOwned):
        old.log.write(0, [Record("k", b"late")])
    assert all(await outcomes(old, writes))
    await new.log.owned(0)
    assert new.get("k") == b"49"
    await until(lambda: old.state.losses == [0])
    assert old.metrics.slots_lost.value == 0
    new.log.assign(())
    old.log.assign([0])  # and back
    await old.log.owned(0)
    assert old.get("k") == b"49"


@script
async def a_slot_is_freed_from_its_holder_only_when_that_is_orphaned(site: LogSite) -> None:
    topic = site.name()
    old, new = await owner(site, topic), await start(site, topic, assigned=False)
    await old.put("k", b"1")
    new.log.assign([0])
    with pytest.raises(SlotUnavailable):
        await new.log.owned(0)
    assert old.owns()
    assert old.state.losses == []
    new.log.assign([0], orphaned=[0])  # while it waits
    await until(new.owns)
    assert new.get("k") == b"1"
    with pytest.raises(OwnedLogError):
        await old.log.confirm(0)


# --- writing ----------------------------------------------------------------------------------------------------------


@script
async def a_write_is_done_when_the_state_has_it(site: LogSite) -> None:
    node = await owner(site, site.name())
    seen: list[bytes | None] = []
    write = node.log.write(0, [Record("k", b"1"), Record("l", b"2")])
    write.add_done_callback(lambda _: seen.append(node.get("k")))
    assert node.get("k") is None
    await write
    assert seen == [b"1"]
    assert node.state.replayed == 0
    await node.log.write(0, [])
    await node.log.write(0, [Record("k", None)])
    assert node.state.values[0] == {"l": b"2"}


@script
async def writes_keep_their_order_and_share_entries(site: LogSite) -> None:
    topic = site.name()
    one = await owner(site, topic)
    done: list[int] = []
    writes = [one.log.write(0, [Record("k", b"%d" % number)]) for number in range(200)]
    for number, write in enumerate(writes):
        write.add_done_callback(partial(lambda number, _: done.append(number), number))
    assert all(await outcomes(one, writes))
    await asyncio.sleep(0)
    assert done == sorted(done)
    assert one.get("k") == b"199"
    assert one.metrics.records_written.value == 200
    assert one.metrics.entries_written.value <= 4
    await one.log.close()
    assert (await owner(site, topic)).get("k") == b"199"


@script
async def what_is_stored_together_is_stored_whole(site: LogSite) -> None:
    topic = site.name()
    one = await owner(site, topic)
    with pytest.raises(RecordTooLarge):
        one.log.store(0, [Record(f"k{number}", b"v") for number in range(1001)])
    records = [Record(f"k{number}", b"%d" % number) for number in range(50)]
    stored = one.log.store(0, records)
    write = one.log.write(0, [Record("k0", b"later")])
    await stored.settled
    assert stored.done.result() is None
    assert one.state.values[0].keys() == dict(records).keys()
    await write
    assert one.metrics.entries_written.value == 1  # they share an entry with the write behind them
    await one.log.close()
    with pytest.raises(SlotNotOwned):
        one.log.store(0, records)
    assert (await owner(site, topic)).state.values[0] == dict(records) | {"k0": b"later"}


@script
async def a_record_that_is_too_large_fails_alone(site: LogSite) -> None:
    node = await owner(site, site.name())
    small = node.log.write(0, [Record("small", b"v")])
    large = node.log.write(0, [Record("large", bytes(6 << 20))])
    after = node.log.write(0, [Record("after", b"v")])
    assert await outcomes(node, [small, large, after]) == [True, False, True]
    assert isinstance(large.exception(), RecordTooLarge)
    assert sorted(node.state.values[0]) == ["after", "small"]
    assert node.owns()


@script
async def a_cancelled_write_takes_nothing_back(site: LogSite) -> None:
    node = await owner(site, site.name())
    cancelled = node.log.write(0, [Record("k", b"1")])
    cancelled.cancel()
    await node.put("l", b"2")
    assert node.state.values[0] == {"k": b"1", "l": b"2"}


# --- reading ----------------------------------------------------------------------------------------------------------


@script
async def the_next_owner_reads_what_was_acknowledged(site: LogSite) -> None:
    topic = site.name()
    one = await owner(site, topic)
    for number in range(5):
        await one.put("k", b"%d" % number)
    await one.put("gone", b"v")
    await one.put("gone", None)
    await one.log.close()
    with pytest.raises(SlotNotOwned):
        one.log.check(0)
    other = await owner(site, topic)
    assert other.state.values[0] == {"k": b"4"}
    # the markers are the log's own; the first compaction may take what was replaced, or have all read again
    assert 0 < other.state.replayed < other.metrics.records_read.value


@script
async def an_entry_that_is_none_of_ours_is_left_out(site: LogSite) -> None:
    topic = site.name()
    await site.admin.create_partitioned(topic, 1)
    native = (await site.client()).producer(partition(topic))
    await native.send(pb.MessageMetadata(partition_key="k"), b"not a batch", 1)
    await native.send(*pack([Record("k", b"v")]), 1)
    await native.close()
    node = await owner(site, topic)
    assert node.state.values[0] == {"k": b"v"}
    assert node.metrics.records_unreadable.value == 1


# --- following ------------------------------------------------------------------------------------------------------


@script
async def a_follower_has_what_was_acknowledged_just_before_it_is_asked(site: LogSite) -> None:
    topic = site.name()
    early = await follow(site, partition(topic))  # there is no topic yet
    with pytest.raises(SlotUnavailable):
        await early.follower.confirm()
    assert not early.follower.is_loaded
    one = await owner(site, topic)
    await one.put("k", b"0")
    late = await follow(site, partition(topic))
    for each in (early, late):
        await until(lambda each=each: each.follower.is_loaded)  # type: ignore[misc]
    for number in range(1, 20):
        await one.put("k", b"%d" % number)
        await one.put("gone", b"1" if number % 2 else None)
        for each in (early, late):
            await confirmed(each)
            assert each.values == one.state.values[0]
    assert late.copies == [late.copies[0]]
    await early.follower.close()
    with pytest.raises(SlotUnavailable):
        await early.follower.confirm()


@script
async def a_follower_goes_on_over_changes_of_the_owner(site: LogSite) -> None:
    topic = site.name()
    node = await owner(site, topic)
    following = await follow(site, partition(topic))
    for turn in range(3):
        await node.put("k", b"%d" % turn)
        await node.put(f"k{turn}", b"v")
        await confirmed(following)
        assert following.values == node.state.values[0]
        if turn == 1:
            await site.admin.unload(partition(topic))
            await until(node.owns)
        await node.log.close()
        node = await owner(site, topic)
    await confirmed(following)
    assert following.values == node.state.values[0]
    assert len(following.copies) == 1


@script
async def a_follower_leaves_out_what_a_former_holder_writes(site: LogSite) -> None:
    """As a reader of the log does that comes later."""
    name = site.name()
    topic = partition(name)
    await site.admin.create_partitioned(name, 1)
    client = await site.client()
    former, latter = client.producer(topic), client.producer(topic)
    await former.send(*pack([marker("former")]), 1)
    await former.send(*pack([Record("k", b"1"), Record("l", b"1")]), 2)
    following = await follow(site, topic)
    await confirmed(following)
    await latter.send(*pack([marker("latter")]), 1)
    await former.send(*pack([Record("k", b"2"), Record("m", b"2")]), 2)
    await latter.send(*pack([Record("k", b"3")]), 1)
    await former.send(*pack([Record("l", None)]), 1)
    await confirmed(following)
    assert following.values == {"k": b"3", "l": b"1"}
    assert len(following.copies) == 1
    other = await follow(site, topic)
    await confirmed(other)
    assert other.values == following.values


# --- losing -----------------------------------------------------------------------------------------------------------


@script
async def a_second_process_fences_the_first(site: LogSite) -> None:
    topic = site.name()
    old = await owner(site, topic)
    await old.put("k", b"1")
    new = await owner(site, topic)
    assert new.get("k") == b"1"
    await until(lambda: bool(old.state.losses))
    assert old.state.losses == [0]
    assert old.metrics.slots_held.value == 0
    with pytest.raises(SlotNotOwned):
        await old.log.owned(0)
    with pytest.raises(SlotNotOwned):
        old.log.write(0, [Record("k", b"2")])
    await new.put("k", b"3")
    assert new.owns()


@script
async def what_is_written_while_another_fences_is_stored_or_fails(site: LogSite) -> None:
    topic = site.name()
    old = await owner(site, topic)
    taking = asyncio.ensure_future(owner(site, topic))
    acknowledged = -1
    for number in range(2000):
        try:
            await old.log.write(0, [Record("k", b"%d" % number)])
        except OwnedLogError:
            break
        acknowledged = number
    new = await taking
    assert int(new.get("k") or -1) >= acknowledged
    await until(lambda: not old.owns())


@script
async def a_fenced_process_owns_the_slot_again_when_it_is_free(site: LogSite) -> None:
    topic = site.name()
    old, new = await owner(site, topic), await owner(site, topic)
    await new.put("k", b"1")
    await until(lambda: not old.owns())
    await asyncio.sleep(3)  # it tries again meanwhile, and takes nothing from the other
    assert new.owns()
    await new.log.close()
    await until(old.owns)
    assert old.get("k") == b"1"


@script
async def a_killed_process_loses_nothing_acknowledged(site: LogSite) -> None:
    topic = site.name()
    old = await owner(site, topic)
    writes = [old.log.write(0, [Record(f"k{number % 5}", b"%d" % number)]) for number in range(500)]
    await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    await old.vanish()
    stored = await outcomes(old, writes)
    new = await owner(site, topic)
    for number in (number for number, acknowledged in enumerate(stored) if acknowledged):
        assert int(new.get(f"k{number % 5}") or -1) >= number


@script
async def a_topic_that_moves_to_another_broker_stays_owned(site: LogSite) -> None:
    topic = site.name()
    node = await owner(site, topic)
    await node.put("k", b"1")
    await site.admin.unload(partition(topic))
    await node.log.owned(0)
    await node.put("k", b"2")
    assert node.state.losses == []
    assert node.state.values[0] == {"k": b"2"}
