"""What all partition logs of a process share."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from bridge.config import Settings
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.runtime.polling import Poller
from bridge.runtime.threads import WorkerThreads
from bridge.security.left_out import LeftOut
from bridge.storage.append.conversion_memory import ConversionMemory
from bridge.storage.append.deduplication import Deduplication
from bridge.storage.append.missing_batches import MissingBatches
from bridge.storage.append.preparation import MAX_ENTRIES, METADATA_BYTES
from bridge.storage.append.repetitions import RepetitionLimit
from bridge.storage.mark_signer import MarkSecret, MarkSigner
from bridge.storage.read.batches import BatchMaker, ForeignEntries
from bridge.storage.read.cache import Cache
from bridge.storage.read.catch_up import CatchUpReaders
from bridge.storage.read.chunks import ChunkMemory
from bridge.storage.visibility import NoOutcomes, Outcomes
from bridge.telemetry.metrics import StorageMetrics
from bridge.telemetry.traffic import TrafficTable


def set_event() -> asyncio.Event:
    """An event that is set."""
    event = asyncio.Event()
    event.set()
    return event


def nothing_left_out(topic_id: str, partition: int) -> None:
    """Readers of committed records get all that their transactions do not keep from them."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Wired once, in `node/server.py`."""

    settings: Settings
    client: PulsarClient
    admin: Admin
    metrics: StorageMetrics
    cache: Cache
    catch_up_readers: CatchUpReaders
    deduplication: Deduplication
    writer: str  # the name of this process's own producers
    outcomes: Outcomes = field(default_factory=NoOutcomes)
    """How the transactions stand."""
    left_out: Callable[[str, int], LeftOut | None] = nothing_left_out
    """The offsets of a partition that KoP's transactions aborted, by the topic id, in hexadecimal digits, and the
    partition; asked at each read."""
    mark_secret: MarkSecret = field(default_factory=MarkSecret)
    missing: MissingBatches = field(default_factory=MissingBatches)
    traffic: TrafficTable[str] = field(default_factory=TrafficTable)
    """What goes by each topic."""
    label_prefix: str = ""
    """Before the names of topics in metrics: the namespace, of one that is not the bridge's own."""
    threads: WorkerThreads = field(default_factory=WorkerThreads)
    conversion_memory: ConversionMemory = field(default_factory=ConversionMemory)
    chunk_memory: ChunkMemory = field(default_factory=ChunkMemory)
    may_send: asyncio.Event = field(default_factory=set_event)
    """While it is not set, no producer of a partition opens or comes back: so nothing is sent again."""
    far_searches: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))
    """How many searches for a duplicate go far back in a log at once: they are work that clients cause."""

    repetition_limit: RepetitionLimit = field(default_factory=RepetitionLimit)
    end_polls: Poller = field(default_factory=lambda: Poller(every=30, per_second=40, at_once=8))
    """Who asks where partitions end that no reader of this node follows: each of 2,000 every 50 s."""
    time_polls: Poller = field(default_factory=lambda: Poller(every=60, per_second=4, at_once=2))
    """The same of when records were published; each question reads some ten entries."""

    @property
    def largest_batch(self) -> int:
        """The most bytes that a batch may have uncompressed, of an entry or of one in chunks."""
        return max(self.settings.kafka.max_request_bytes, MAX_ENTRIES * self.largest_entry)

    @property
    def largest_entry(self) -> int:
        """The most bytes that an entry's payload may have."""
        return self.client.max_message_size - METADATA_BYTES

    def largest_message(self, of_topic: int | None) -> int | None:
        """The most bytes of a batch as its client sends it; None where no request can have more. `of_topic`: what the
        topic says itself."""
        kafka = self.settings.kafka
        most = kafka.largest_message if of_topic is None else min(of_topic, kafka.largest_message)
        return most if most < kafka.max_request_bytes else None

    def maker(self, topic: str, signer: MarkSigner) -> BatchMaker:
        """A maker of the batches of one reader of a partition, for consumers."""
        strangers = ForeignEntries(topic, signer, self.client.metrics.corrupt_entries.inc)
        compress = self.settings.storage.fetch_compression == "producer"
        return BatchMaker(self.largest_batch, compress=compress, strangers=strangers, memory=self.chunk_memory)
