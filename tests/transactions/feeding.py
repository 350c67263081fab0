"""Nodes that hold and follow the slots of transactions, on a Pulsar that is real or not, and what happens there."""

import asyncio
from contextlib import suppress
from itertools import count
from typing import Any, Final

from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Identity, Transaction
from bridge.telemetry.metrics import TransactionMetrics
from bridge.transactions.pruning import Remains
from bridge.transactions.transactions import Partition, Transactions
from tests.owned_log.nodes import LogSite
from tests.support.waiting import until

TOPIC_ID: Final = "ab" * 16
P0: Final = Partition("t", TOPIC_ID, 0)
ALL: Final = range(8)


async def _not_told(*_: object) -> Any:
    raise TimeoutError


UNKNOWN: Final = Remains(_not_told, _not_told)
"""Nobody says whether anything is left of a transaction."""


async def node(
    site: LogSite,
    settings: Settings,
    mine: "range | tuple[int, ...]" = (),
    metrics: TransactionMetrics | None = None,
    remains: Remains | None = None,
) -> Transactions:
    """One that has these slots."""
    numbers = count(1000)

    async def new_producer_id() -> int:
        return next(numbers)

    metrics = metrics or TransactionMetrics()
    made = Transactions(
        await site.client(), site.admin, settings, metrics, new_producer_id, lambda: len(ALL), remains or UNKNOWN
    )
    site.logs.append(made._feeds.log)
    await made.open()
    made.assign(mine, mine)
    return made


async def begin(at: Transactions, name: str = "x", timeout_ms: int = 60_000) -> Transaction:
    """An open transaction."""
    await at.group_slot_of(name)
    await until(lambda: at.is_holder(name))
    coordinator = await at.coordinator()
    begun = await coordinator.init_producer_id(name, -1, -1, timeout_ms, None)
    added = await coordinator.add_partitions(name, begun.producer_id, begun.epoch, [P0], {}, protocol=1)
    assert added.error is ErrorCode.NONE
    return Transaction(at.slot_of(name), Identity(begun.producer_id, begun.epoch, 1))


async def end(at: Transactions, one: Transaction, name: str = "x", *, committed: bool = False) -> None:
    """Its outcome."""
    producer_id, epoch, _ = one.identity
    ended = await (await at.coordinator()).end(name, producer_id, epoch, committed=committed, protocol=1)
    assert ended.error is ErrorCode.NONE


async def confirmed(at: Transactions) -> None:
    """As readers do: a session that has just been opened is checked first, and that may take longer than one waits."""
    async with asyncio.timeout(30):
        while True:
            with suppress(KafkaError):
                return await at.outcomes.confirm()


def watched(at: Transactions, one: Transaction) -> "asyncio.Event":
    """Set when it is decided there."""
    decided = asyncio.Event()
    at.outcomes.watch(one, decided.set)
    return decided
