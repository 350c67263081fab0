"""Reading a slot as Pulsar has compacted it, so that no compaction falls into the reading.

A compaction leaves deletions out. One that ends while a slot is read may take away a deletion that was not read yet, of
a record that was: the record would be there forever. So what was read counts only if Pulsar read from the same
compacted ledger all the time.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from bridge.pulsar.admin import Admin
from bridge.telemetry.log import Log

_R = TypeVar("_R")


async def read_compacted(topic: str, admin: Admin, logger: Log, read: Callable[[], Awaitable[_R]]) -> _R:
    """What `read` returns; it is called again, and reads all again, where a compaction has ended meanwhile."""
    ledger = (await admin.internal_stats(topic)).compacted_ledger
    while True:
        found = await read()
        before, ledger = ledger, (await admin.internal_stats(topic)).compacted_ledger
        if ledger == before:
            return found
        logger.info("= slot compacted while it was read")
