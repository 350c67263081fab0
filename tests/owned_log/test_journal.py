"""Writes and the entries they go into, on a real Pulsar."""

from bridge.owned_log import Record
from tests.owned_log.nodes import LogSite, owner


async def test_one_write_may_take_several_entries(real: LogSite) -> None:
    topic = real.name()
    one = await owner(real, topic)
    records = [Record(f"k{number}", b"%d" % number) for number in range(2500)]
    await one.log.write(0, records)
    assert one.state.values[0] == dict(records)
    assert one.metrics.entries_written.value == 3
    await one.log.close()
    assert (await owner(real, topic)).state.values[0] == dict(records)
