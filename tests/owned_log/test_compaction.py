"""Compaction of a slot, on a real Pulsar."""

import asyncio

import pytest

from bridge.pulsar.admin import Retention
from tests.owned_log.contract import partition
from tests.owned_log.nodes import LogSite, owner
from tests.support.waiting import compact, until


@pytest.mark.parametrize("retained", [True, False])
async def test_compaction_drops_no_last_value(real: LogSite, retained: bool) -> None:
    if not retained:
        await real.admin.set_namespace_retention(real.namespace, Retention(0, 0))
    topic = real.name()
    one = await owner(real, topic)
    expected: dict[str, bytes] = {}
    for turn in range(3):
        for number in range(60):
            key, value = f"k{number}", None if number % 7 == turn else b"%d %d" % (turn, number)
            if number % (turn + 1) == 0:
                await one.put(key, value)
                expected.pop(key, None)
                expected |= {} if value is None else {key: value}
        if turn < 2:  # so that reading meets compacted and other entries
            await compact(real.admin, partition(topic))
        await real.admin.unload(partition(topic))  # a new ledger; those before it may be trimmed
        await until(one.owns)
    await one.log.close()
    other = await owner(real, topic)
    assert other.state.values[0] == expected
    assert other.metrics.records_unreadable.value == 0


async def test_compaction_is_asked_for_by_the_number_of_writes(real: LogSite) -> None:
    topic = real.name()
    one = await owner(real, topic, compact_after=100)
    async with asyncio.timeout(20):
        cursors = {}
        while "__compaction" not in cursors:  # the first is asked for at once, to have the cursor
            cursors = (await real.admin.internal_stats(partition(topic))).cursors
    compaction = one.log.slots[0]._compaction
    await compaction.asked()  # before that no second one is asked for
    before = one.metrics.compactions.value
    compaction._asked_at = -1000.0  # long ago
    await asyncio.gather(*(one.put("k", b"%d" % number) for number in range(100)))
    assert one.metrics.compactions.value == before + 1
    assert one.metrics.compaction_errors.value == 0


async def test_a_deleted_topic_is_created_again(real: LogSite) -> None:
    topic = real.name()
    node = await owner(real, topic)
    await node.put("k", b"1")
    await compact(real.admin, partition(topic))  # while the first compaction runs, Pulsar does not delete
    await real.admin.delete_partitioned(topic)
    await until(lambda: not node.owns())
    await until(node.owns)
    assert node.state.values[0] == {}
    await node.put("k", b"2")
