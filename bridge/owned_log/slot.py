"""One slot: taken by its exclusive producer, read, kept in memory as Pulsar acknowledges writes, and lost.

    TAKING ──producer open──▶ LOADING ──own marker read──▶ OWNED
      ▲                          │                          │
      │                          ▼                          ▼
      └── after a while ── UNREACHABLE (an error) or ELSEWHERE (fenced by another process)

A new owner fences its predecessor, which may be dead without the broker knowing. A process that was fenced, or has
owned the slot before, waits for it to be free instead. So two processes do not take it from each other forever.

Reading ends at a marker of our own. All that a predecessor stored lies before it. After it no predecessor can store
anything, since Pulsar has fenced it. So what is read is complete, whatever the broker answers about the topic's end.
The reader stays open: an entry of another producer means that the slot is lost, or was not read to its end.
"""

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Final

from bridge import log
from bridge.errors import BridgeError, CorruptEntry
from bridge.owned_log.batch import NotABatch, Record, pack, unpack
from bridge.owned_log.compaction import Compaction
from bridge.owned_log.dependencies import SlotDependencies
from bridge.owned_log.errors import OwnedLogError, SlotLoading, SlotNotOwned, SlotUnavailable, error_of_send
from bridge.owned_log.journal import WRITE_TIMEOUT, Journal
from bridge.pulsar.admin import AdminError
from bridge.pulsar.connection import Backoff
from bridge.pulsar.consumer import Reader
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import EARLIEST, AccessMode, Entry, Position, PulsarError

_log = log.get(__name__)

MARKER: Final = "s"
"""The key of the record with which a slot is taken: {"v":1, "owner":…}."""
_MARKER_VERSION: Final = 1
_OCCUPIED_RETRY_SECONDS: Final = 2.0  # between two tries to take a slot from a live owner
_READ_TIMEOUT: Final = 30.0  # for one entry, while loading
_CLOSE_TIMEOUT: Final = 5.0


class SlotState(Enum):
    """How a slot stands: see the module."""

    TAKING = auto()
    LOADING = auto()
    OWNED = auto()
    UNREACHABLE = auto()
    ELSEWHERE = auto()


_ERRORS: Final[Mapping[SlotState, type[OwnedLogError]]] = {
    SlotState.TAKING: SlotUnavailable,
    SlotState.LOADING: SlotLoading,
    SlotState.UNREACHABLE: SlotUnavailable,
    SlotState.ELSEWHERE: SlotNotOwned,
}


class Slot:
    """One partition of the log's topic."""

    def __init__(self, index: int, topic: str, dependencies: SlotDependencies) -> None:
        self.index = index
        self.topic = topic
        self._dependencies = dependencies
        self._log = _log.bind(topic=topic)
        self._state = SlotState.TAKING
        self._changed: asyncio.Event = asyncio.Event()
        self._access = AccessMode.EXCLUSIVE_WITH_FENCING
        self._producer: Producer | None = None
        self._journal: Journal | None = None
        self._compaction = Compaction(topic, dependencies)
        self._runner: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take the slot, and to take it again whenever it is lost."""
        self._runner = asyncio.get_running_loop().create_task(self._run(), name=f"slot {self.topic}")

    async def close(self) -> None:
        """Release the slot; what is under way is stored before, or fails."""
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        await self._compaction.close()
        if self._state is SlotState.OWNED:
            self._dependencies.metrics.slots_held.dec()
        if self._journal is not None:
            self._journal.fail(SlotNotOwned("this process is closing"))
        self._producer = self._journal = None
        self._become(SlotState.UNREACHABLE)

    # --- for the log ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise unless the slot is owned, and its producer still connected."""
        if self._state is not SlotState.OWNED:
            raise self._error(_ERRORS[self._state](f"the slot {self.topic} is {self._state.name.lower()}"))
        if self._producer is None or not self._producer.attached:
            # another process may own it by now: what is in memory may be old
            raise self._error(SlotUnavailable("the connection to Pulsar is lost"))

    async def owned(self, timeout: float) -> None:  # noqa: ASYNC109 - raises as `check`, not TimeoutError
        """Wait so many seconds for the slot to be owned; raises as `check`."""
        if self._state is SlotState.OWNED and self._producer is not None and self._producer.attached:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._state not in (SlotState.OWNED, SlotState.ELSEWHERE):
                    await self._changed.wait()
                if self._producer is not None and not self._producer.attached:
                    with suppress(PulsarError):
                        await self._producer.opened()
        self.check()

    def write(self, records: Sequence[Record]) -> "asyncio.Future[None]":
        """Store records in the order of the calls; raises as `check`, and when too much waits already."""
        journal = self._journal
        if self._state is not SlotState.OWNED or journal is None:
            self.check()
            raise self._error(SlotUnavailable("the slot is being lost"))
        if journal.pending_bytes > self._dependencies.max_pending_bytes or journal.waiting_for() > WRITE_TIMEOUT:
            raise self._error(SlotUnavailable("Pulsar does not acknowledge writes in time"))
        return journal.write(records)

    def _error(self, error: OwnedLogError) -> Exception:
        return self._dependencies.translate(error)

    # --- taking and losing ----------------------------------------------------------------------------------------

    async def _run(self) -> None:
        backoff = Backoff()
        while True:
            try:
                error: BaseException = await self._own()
            except (BridgeError, OSError) as failed:  # TimeoutError is an OSError
                error = failed
            except Exception as bug:  # noqa: BLE001 - a bug met in one entry must not end the slot
                self._log.error("! slot failed", exc_info=bug)
                error = bug
            if self._state is SlotState.OWNED:
                backoff = Backoff()
            fenced = isinstance(error, PulsarError) and error.code == pb.ProducerFenced
            if fenced:
                self._access = AccessMode.EXCLUSIVE
            self._lose(SlotState.ELSEWHERE if fenced else SlotState.UNREACHABLE, error)
            if isinstance(error, PulsarError) and error.code == pb.TopicNotFound:
                with suppress(AdminError):
                    await self._dependencies.create_topic()
            await asyncio.sleep(_OCCUPIED_RETRY_SECONDS if fenced else backoff.next())

    async def _own(self) -> PulsarError:
        """Take the slot and own it; why it was lost."""
        client = self._dependencies.client
        producer = client.producer(self.topic, access_mode=self._access, must_exist=True)
        reader: Reader | None = None
        try:
            await producer.opened()
            self._producer = producer
            self._become(SlotState.LOADING)
            marker = await self._write_marker(producer)
            reader = await client.reader(self.topic, EARLIEST, read_compacted=True)
            await self._load(reader, marker)
            self._serve(Journal(producer, self._stored, self._dependencies))
            return await _first_of(producer.terminated, self._watch(reader, producer.name))
        finally:
            # on the way out in order, what was written gets its receipts
            if self._journal is not None and producer.attached:
                await self._journal.drain(_CLOSE_TIMEOUT)
            await producer.close(flush=False)
            if reader is not None:
                await reader.close()

    def _serve(self, journal: Journal) -> None:
        self._journal = journal
        self._access = AccessMode.EXCLUSIVE
        self._dependencies.metrics.slots_held.inc()
        self._become(SlotState.OWNED)
        self._log.info("= slot owned", extra={"records": self._dependencies.state.live_records(self.index)})
        self._compaction.start_if_due()

    async def _watch(self, reader: Reader, name: str) -> PulsarError:
        """Read on until another producer writes here: a broker tells a fenced producer when it sends, not before."""
        while True:
            try:
                entry = await reader.receive()
            except CorruptEntry:
                continue
            if entry.metadata.producer_name != name:
                return PulsarError(pb.ProducerFenced, f"{entry.metadata.producer_name} writes here")

    def _become(self, state: SlotState) -> None:
        if state is not self._state:
            self._state = state
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _lose(self, state: SlotState, error: BaseException) -> None:
        was, journal = self._state, self._journal
        self._producer = self._journal = None
        self._dependencies.state.reset(self.index)
        self._become(state)
        if journal is not None:
            journal.fail(error_of_send(error))
        if was is SlotState.OWNED:
            self._dependencies.metrics.slots_held.dec()
            self._dependencies.metrics.slots_lost.inc()
            self._dependencies.state.lost(self.index)
        if was is not state:
            self._log.warning("! slot not owned", extra={"state": state.name.lower(), "reason": str(error)})

    # --- records --------------------------------------------------------------------------------------------------

    async def _write_marker(self, producer: Producer) -> Position:
        """Write the marker; where it is."""
        value = {"v": _MARKER_VERSION, "owner": self._dependencies.owner}
        metadata, payload = pack([Record(MARKER, json.dumps(value, separators=(",", ":")).encode())])
        return (await producer.send(metadata, payload, 1)).position

    async def _load(self, reader: Reader, end: Position) -> None:
        """Read the slot up to our marker."""
        state = self._dependencies.state
        state.reset(self.index)
        if end == EARLIEST:
            # sent again after a lost connection, it was known to deduplication: it is stored, somewhere
            end = await reader.last_position()
        count = 0
        position: Position | None = None
        while position is None or position < end:
            position, records = await self._read_entry(reader)
            count += len(records)
            self._apply(records, replaying=True)
        self._compaction.loaded(count, state.live_records(self.index))

    async def _read_entry(self, reader: Reader) -> tuple[Position, Sequence[Record]]:
        """The next entry; without records if it is none of ours."""
        entry: Entry | None = None
        metrics = self._dependencies.metrics
        try:
            async with asyncio.timeout(_READ_TIMEOUT):
                entry = await reader.receive()
            records = list(unpack(entry.metadata, entry.payload))
        except (CorruptEntry, NotABatch) as error:
            position = entry.position if entry is not None else error.args[1]
            metrics.records_unreadable.inc()
            self._log.error("! entry is unreadable", extra={"position": str(position), "reason": str(error)})
            return Position(*position) if isinstance(position, tuple) else position, ()
        metrics.records_read.inc(len(records))
        return entry.position, records

    def _stored(self, records: Sequence[Record]) -> None:
        """Pulsar has acknowledged these."""
        self._apply(records, replaying=False)
        self._compaction.written(len(records))

    def _apply(self, records: Sequence[Record], *, replaying: bool) -> None:
        apply, index = self._dependencies.state.apply, self.index
        for key, value in records:
            if key != MARKER:
                apply(index, key, value, replaying=replaying)


async def _first_of(
    terminated: "asyncio.Future[PulsarError]", watch: Coroutine[None, None, PulsarError]
) -> PulsarError:
    """The result of the one that is done first."""
    watching = asyncio.ensure_future(watch)
    try:
        await asyncio.wait((terminated, watching), return_when=asyncio.FIRST_COMPLETED)
        return terminated.result() if terminated.done() else watching.result()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
