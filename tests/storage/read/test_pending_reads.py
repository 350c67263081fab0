"""Reads of one client that outlast an answer."""

import asyncio

from bridge.storage.read.pending_reads import PendingReads, ReadRequest


class OneBatch:
    """A log of one batch."""

    def __init__(self, batch: bytes) -> None:
        self.batch = batch

    async def read(
        self, offset: int, max_bytes: int, timeout_seconds: float, *, committed: bool = False
    ) -> list[bytes]:
        return [self.batch]


async def test_a_read_of_a_topic_that_was_deleted_is_not_taken_for_its_successor() -> None:
    reserved: list[int] = []
    reads = PendingReads(reserved.append)
    deleted, successor = OneBatch(b"old"), OneBatch(b"new")
    reads.start(ReadRequest(deleted, 0), deleted, 100, 1.0, 100)
    await asyncio.sleep(0)
    assert ReadRequest(deleted, 0) in reads
    wanted = ReadRequest(successor, 0)
    reads.keep_only({wanted})
    assert wanted not in reads
    reads.start(wanted, successor, 100, 1.0, 100)
    await asyncio.sleep(0)
    assert reads.take(wanted) == [b"new"]
    assert sum(reserved) == reads.reserved == 0


async def test_what_was_read_is_counted_as_long_as_it_is_held() -> None:
    reserved: list[int] = []
    reads = PendingReads(reserved.append)
    logs = [OneBatch(bytes(100)) for _ in range(3)]
    for log in logs:
        reads.start(ReadRequest(log, 0), log, 100, 1.0, 150)
    assert sum(reserved) == reads.reserved == 150
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sum(reserved) == reads.reserved == 300
    assert reads.take(ReadRequest(logs[0], 0)) == [bytes(100)]
    assert sum(reserved) == reads.reserved == 200
    reads.close()
    assert sum(reserved) == reads.reserved == 0
