"""What aborted transactions leave at their coordinator does not depend on the names of their groups."""

from collections.abc import AsyncIterator

import pytest

from bridge.kafka.error_codes import ErrorCode
from tests.transactions.test_abort_fits import Site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    await made.coordinator.close()
    await made.table.close()


async def test_names_of_groups_are_not_kept(site: Site) -> None:
    """Each transaction has 20 groups of its own; any client may name them, and none has to be there."""
    epoch = (await site.coordinator.init_producer_id("t", -1, -1, 1000, None)).epoch
    for number in range(30):
        for group in range(20):
            name = f"{number}-{group}".ljust(4_000, "g")
            assert (await site.coordinator.add_group("t", 1000, epoch, name, protocol=2)).error is ErrorCode.NONE
        epoch = (await site.coordinator.end("t", 1000, epoch, committed=False, protocol=2, connection=None)).epoch
    held = site.table.aborted_records(site.log.slot_of("t"))
    assert held is not None
    assert sum(len(value) for _, value in held) < 30 * 300
