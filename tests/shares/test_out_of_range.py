"""A share partition whose start was altered to beyond the end of its log."""

import asyncio
from typing import Any, cast

import pytest

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import FutureWaiter
from bridge.storage.partition import PartitionLog
from tests.shares.test_partition import _NAME, _acquire, _Bench, _Log


class _Short(_Log):
    """Its three records; as `PartitionLog`, it knows no offsets beyond its end."""

    async def read(self, offset: int, *limits: Any, **fields: Any) -> list[bytes]:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not in 0 … 3")

    def read_nowait(self, offset: int, max_bytes: int, *, committed: bool = False) -> Any:
        return super().read_nowait(offset, max_bytes, committed=committed) if offset <= 3 else None


async def test_where_there_are_no_records_yet_there_is_nothing_to_give() -> None:
    """Kafka's leader answers without records (`ShareFetchUtils.processFetchResponse`). By an error that it does not
    know in a ShareFetch, as this one, Java's consumer ends its program's poll with IllegalStateException."""
    bench = _Bench()
    bench.log = _Short()
    await bench.states.initialize(*_NAME)
    await bench.states.alter(*_NAME, 1000)
    led = await bench.shares.led(_NAME, cast(PartitionLog, bench.log), 1)
    assert await _acquire(led) == []
    assert not led.is_closed


@pytest.mark.parametrize("code", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE])
def test_no_error_that_share_consumers_do_not_know_is_told(code: ErrorCode) -> None:
    """As `ShareFetchCollector.handleInitializeErrors` of Kafka 4.1 to 4.3 has them."""
    from types import SimpleNamespace

    from bridge.apis import share_fetch
    from bridge.requests.share import Opened

    error = KafkaError(code)
    part = share_fetch._Partition(Opened("t", error), error=error)
    hints: Any = SimpleNamespace(leader=lambda *asked: None)
    assert share_fetch._partition(0, part, hints).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_who_finds_nothing_there_is_not_woken_by_that() -> None:
    bench = _Bench()
    bench.log = _Short()
    await bench.states.initialize(*_NAME)
    await bench.states.alter(*_NAME, 1000)
    led = await bench.shares.led(_NAME, cast(PartitionLog, bench.log), 1)
    waiter = FutureWaiter()
    led.add_waiter(waiter)
    assert await _acquire(led) == []
    await asyncio.sleep(0.01)
    assert not waiter.future.done()
