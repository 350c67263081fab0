"""A partition log on the session's real Pulsar."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import pytest
import pytest_asyncio

from bridge import codec
from bridge.codec import NO_PRODUCER, Rebuild, Record
from bridge.config import Settings
from bridge.pulsar import Admin, PulsarClient
from bridge.storage.append import preparation
from bridge.storage.append.deduplication import Deduplication
from bridge.storage.append.preparation import Plan, PreparedEntry
from bridge.storage.append.writers import ClientSession
from bridge.storage.mark_signer import MarkSecret
from bridge.storage.partition import PartitionLog
from bridge.storage.read.cache import Cache
from bridge.storage.read.catch_up import CatchUpReaders
from bridge.storage.services import Storage
from bridge.storage.visibility import NoOutcomes, Outcomes, Transaction
from bridge.telemetry.metrics import Metrics
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress

NOW = 1_700_000_000_000


def prepared(
    count: int,
    timestamp: int = NOW,
    value: bytes = b"value",
    producer: tuple[int, int, int] = NO_PRODUCER,
    transaction: Transaction | None = None,
) -> PreparedEntry:
    """A batch of records 1 ms apart, numbered in their keys."""
    records = [Record(i, timestamp + i, b"%d" % i, value, ()) for i in range(count)]
    batch = codec.build_batch(records, Rebuild(0, count, 0, producer=producer))
    (found,) = preparation.prepare_entries(memoryview(batch), Plan(1 << 26), timestamp)
    return found._replace(transaction=transaction)


_SECRET = MarkSecret()
_SECRET.is_shared = True
"""As that of all nodes is."""


@dataclass
class Bench:
    """Logs that share one client, as a server wires them."""

    settings: Settings
    client: PulsarClient
    admin: Admin
    metrics: Metrics
    stack: AsyncExitStack
    gone: list[str]

    def storage(self, cache_bytes: int = 1 << 20, outcomes: Outcomes | None = None) -> Storage:
        """What a bridge's logs share, as after a start."""
        storage = Storage(
            settings=self.settings,
            client=self.client,
            admin=self.admin,
            metrics=self.metrics.storage,
            cache=Cache(cache_bytes, self.metrics.storage),
            catch_up_readers=CatchUpReaders(4, 30, self.metrics.storage),
            deduplication=Deduplication(self.admin, self.settings.pulsar.full_namespace),
            writer=f"test-{uuid.uuid4().hex[:8]}",
            mark_secret=_SECRET,
            outcomes=NoOutcomes() if outcomes is None else outcomes,
        )
        self.stack.push_async_callback(storage.catch_up_readers.close)
        return storage

    def log(self, topic: str, cache_bytes: int = 1 << 20, outcomes: Outcomes | None = None) -> PartitionLog:
        """A log as after a start of the bridge: it knows nothing."""
        log = PartitionLog(topic, self.storage(cache_bytes, outcomes), lambda: self.gone.append(topic))
        self.stack.push_async_callback(log.close)
        return log

    async def another(self) -> "Bench":
        """What another bridge has: a client of its own."""
        client = PulsarClient(self.settings.pulsar, self.metrics.pulsar)
        await client.start()
        self.stack.push_async_callback(client.close)
        return replace(self, client=client)

    async def topic(self) -> str:
        """A fresh topic."""
        name = f"persistent://{self.settings.pulsar.full_namespace}/log-{uuid.uuid4().hex[:8]}"
        await self.admin.create_non_partitioned(name)
        return name

    async def append(
        self, log: PartitionLog, *batches: PreparedEntry, session: ClientSession | None = None
    ) -> list[int]:
        """Append and wait: the base offsets."""
        first = {batch.producer[0]: batch.producer for batch in reversed(batches)}
        await log.make_ready(first.values(), session)
        return [await offset for offset in log.append_all(list(batches))]


MakeBench = Callable[..., Bench]


@pytest.fixture
def log_settings(pulsar: PulsarAddress, namespace: str) -> Settings:
    return settings_for(pulsar, namespace)


@pytest_asyncio.fixture
async def bench(log_settings: Settings) -> AsyncIterator[Bench]:
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        client, admin = PulsarClient(log_settings.pulsar, metrics.pulsar), Admin(log_settings.pulsar)
        await admin.start()
        stack.push_async_callback(admin.close)
        await client.start()
        stack.push_async_callback(client.close)
        yield Bench(log_settings, client, admin, metrics, stack, [])
