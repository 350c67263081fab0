"""One slot: taken by its exclusive producer, read, kept in memory as Pulsar acknowledges writes, and lost.

    TAKING ──producer open──▶ READING ──own marker met──▶ HELD
      ▲                          │                         │
      │                          ▼                         ▼
      └── after a while ── UNREACHABLE (an error) or ELSEWHERE (fenced by another node)

A newcomer fences who holds the slot, as its predecessor may be dead without the broker knowing. Who was fenced, or has
held the slot before, waits for it to be free instead: two nodes do not take it from each other for ever.

Reading ends at a marker of our own. Whatever a predecessor stored lies before it, and after it no predecessor can store
anything, since Pulsar has fenced it: what is read is complete, whatever the broker was doing when asked for its end.
The reader stays: an entry of another producer means that the slot is lost, or was not read to its end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bridge import log
from bridge.errors import BridgeError, CorruptEntry, KafkaError
from bridge.groups.store import records
from bridge.groups.store.records import Key, StoredGroup, StoredOffset
from bridge.kafka.error_codes import ErrorCode
from bridge.metrics import GroupMetrics
from bridge.owned_log.batch import NotABatch, Record, pack, unpack
from bridge.owned_log.journal import PATIENCE, Journal, refusal
from bridge.pulsar.admin import Admin, AdminError, Conflict
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.connection import Backoff
from bridge.pulsar.consumer import Reader
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import EARLIEST, AccessMode, Entry, Position, PulsarError

_log = log.get("groups.slot")

_OCCUPIED_RETRY: Final = 2.0  # seconds between looks whether the other node has gone
_READ_PATIENCE: Final = 30.0  # for one entry, while reading the slot
_CLOSE_PATIENCE: Final = 5.0
_COMPACT_AGAIN: Final = 60.0
_COMPACTION_CURSOR: Final = "__compaction"


class State(Enum):
    """How a slot stands, as the error that those get who ask for it."""

    TAKING = ErrorCode.COORDINATOR_NOT_AVAILABLE
    READING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    HELD = ErrorCode.NONE
    UNREACHABLE = -1
    ELSEWHERE = ErrorCode.NOT_COORDINATOR


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all slots share."""

    client: PulsarClient
    admin: Admin
    metrics: GroupMetrics
    owner: str
    compact_after: int
    ensure: Callable[[], Awaitable[None]]
    lost: Callable[["Slot"], None]
    stored: Callable[[Key, StoredOffset | None], None]


class Slot:
    """One partition of the groups' topic."""

    def __init__(self, topic: str, around: Surroundings) -> None:
        self.topic = topic
        self.groups: dict[str, StoredGroup] = {}
        self._around = around
        self._log = _log.bind(topic=topic)
        self._state = State.TAKING
        self._changed: asyncio.Event = asyncio.Event()
        self._access = AccessMode.EXCLUSIVE_WITH_FENCING
        self._producer: Producer | None = None
        self._journal: Journal | None = None
        self._to_compact = 0  # records written that a compaction could drop, about
        self._compacted_at = float("-inf")
        self._compacting: asyncio.Task[None] | None = None
        self._runner: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take the slot, and to take it again whenever it is lost."""
        self._runner = asyncio.get_running_loop().create_task(self._run(), name=f"slot {self.topic}")

    async def close(self) -> None:
        """Give the slot back; what is under way is stored before, or fails."""
        for task in (self._runner, self._compacting):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._state is State.HELD:
            self._around.metrics.slots_held.dec()
        if self._journal is not None:
            self._journal.fail(KafkaError(ErrorCode.NOT_COORDINATOR, "this node stops"))
        self._producer = self._journal = None
        self._become(State.UNREACHABLE)

    # --- for the store --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise KafkaError unless the slot is held, and Pulsar has not left us since."""
        if self._state is not State.HELD:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE if self._state is State.UNREACHABLE else self._state.value
            raise KafkaError(code, f"the slot {self.topic} is {self._state.name.lower()}")
        if self._producer is None or not self._producer.attached:
            # another node may be the coordinator by now: what we know may be old
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the connection to Pulsar is lost")

    async def held(self, patience: float) -> None:
        """Wait so many seconds for the slot to be held; raises as `check`."""
        if self._state is State.HELD and self._producer is not None and self._producer.attached:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._state not in (State.HELD, State.ELSEWHERE):
                    await self._changed.wait()
                if self._producer is not None and not self._producer.attached:
                    with suppress(PulsarError):
                        await self._producer.opened()
        self.check()

    def write(self, batch: Sequence[Record], most_bytes: int) -> "asyncio.Future[None]":
        """Store records in the order of the calls; raises as `check`, and when too much waits already."""
        journal = self._journal
        if self._state is not State.HELD or journal is None:
            self.check()
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the slot is being lost")
        if journal.pending_bytes > most_bytes or journal.waiting_for() > PATIENCE:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Pulsar does not acknowledge writes in time")
        return journal.write(batch)

    # --- taking and losing ----------------------------------------------------------------------------------------

    async def _run(self) -> None:
        backoff = Backoff()
        while True:
            try:
                error: BaseException = await self._hold()
            except (BridgeError, OSError) as failed:  # TimeoutError is an OSError
                error = failed
            except Exception as bug:  # noqa: BLE001 - a bug met in one entry must not end the slot
                self._log.error("! slot broke", exc_info=bug)
                error = bug
            if self._state is State.HELD:
                backoff = Backoff()
            fenced = isinstance(error, PulsarError) and error.code == pb.ProducerFenced
            if fenced:
                self._access = AccessMode.EXCLUSIVE
            self._lose(State.ELSEWHERE if fenced else State.UNREACHABLE, error)
            if isinstance(error, PulsarError) and error.code == pb.TopicNotFound:
                with suppress(AdminError):
                    await self._around.ensure()
            await asyncio.sleep(_OCCUPIED_RETRY if fenced else backoff.next())

    async def _hold(self) -> PulsarError:
        """Take the slot and keep it; why it was lost."""
        producer = self._around.client.producer(self.topic, access_mode=self._access, must_exist=True)
        reader: Reader | None = None
        try:
            await producer.opened()
            self._producer = producer
            self._become(State.READING)
            end = await self._mark(producer)
            reader = await self._around.client.reader(self.topic, EARLIEST, read_compacted=True)
            await self._read(reader, end)
            self._serve(Journal(producer, self._apply_all, self._around.metrics))
            return await _first(producer.terminated, self._watch(reader, producer.name))
        finally:
            # on the way out in order, what was written gets its receipts
            if self._journal is not None and producer.attached:
                await self._journal.drain(_CLOSE_PATIENCE)
            await producer.close(flush=False)
            if reader is not None:
                await reader.close()

    def _serve(self, journal: Journal) -> None:
        self._journal = journal
        self._access = AccessMode.EXCLUSIVE
        self._around.metrics.slots_held.inc()
        self._become(State.HELD)
        self._log.info("= slot held", extra={"groups": len(self.groups)})
        self._compact_if_due()

    async def _watch(self, reader: Reader, name: str) -> PulsarError:
        """Read on until somebody else writes here: a broker does not tell a fenced producer before it sends again."""
        while True:
            try:
                entry = await reader.receive()
            except CorruptEntry:
                continue
            if entry.metadata.producer_name != name:
                return PulsarError(pb.ProducerFenced, f"{entry.metadata.producer_name} writes here")

    def _become(self, state: State) -> None:
        if state is not self._state:
            self._state = state
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _lose(self, state: State, error: BaseException) -> None:
        was, journal = self._state, self._journal
        self._producer = self._journal = None
        self.groups = {}
        self._become(state)
        if journal is not None:
            journal.fail(refusal(error))
        if was is State.HELD:
            self._around.metrics.slots_held.dec()
            self._around.metrics.slots_lost.inc()
            self._around.lost(self)
        if was is not state:
            self._log.warning("! slot not held", extra={"state": state.name.lower(), "reason": str(error)})

    # --- reading --------------------------------------------------------------------------------------------------

    async def _mark(self, producer: Producer) -> Position:
        """Write the marker; where it is."""
        metadata, payload = pack([Record(records.MARKER, records.encode_marker(self._around.owner))])
        return (await producer.send(metadata, payload, 1)).position

    async def _read(self, reader: Reader, end: Position) -> None:
        """Read the slot up to our marker."""
        self.groups = {}
        self._to_compact = 0
        if end == EARLIEST:
            # sent again after a lost connection, it was known to deduplication: it is stored, somewhere
            end = await reader.last_position()
        while await self._read_entry(reader) < end:
            pass
        self._to_compact -= sum(len(group.offsets) + len(group.members) + 1 for group in self.groups.values())

    async def _read_entry(self, reader: Reader) -> Position:
        entry: Entry | None = None
        try:
            async with asyncio.timeout(_READ_PATIENCE):
                entry = await reader.receive()
            batch = list(unpack(entry.metadata, entry.payload))
        except (CorruptEntry, NotABatch) as error:
            position = entry.position if entry is not None else error.args[1]
            self._around.metrics.records_unreadable.inc()
            self._log.error("! entry of groups is unreadable", extra={"position": str(position), "reason": str(error)})
            return Position(*position) if isinstance(position, tuple) else position
        self._around.metrics.records_read.inc(len(batch))
        self._to_compact += len(batch)
        for record in batch:
            self._apply(record)
        return entry.position

    def _apply_all(self, batch: Sequence[Record]) -> None:
        for record in batch:
            key, offset = self._apply(record)
            if key is not None:
                self._around.stored(key, offset)
        self._to_compact += len(batch)
        self._compact_if_due()

    def _apply(self, record: Record) -> tuple[Key | None, StoredOffset | None]:
        """Take a stored record over."""
        key = records.decode_key(record.key)
        if key is None:
            return None, None
        offset = None
        group = self.groups.setdefault(key[1], StoredGroup())
        if key[0] == "group":
            group.metadata = record.value
        elif key[0] == "member":
            _set(group.members, key[2], record.value)
        elif record.value is None:
            group.offsets.pop((key[2], key[3]), None)
        else:
            offset = records.decode_offset(record.value)
            if offset is None:
                self._around.metrics.records_unreadable.inc()
                self._log.error("! offset of a group is unreadable", extra={"key": record.key})
            else:
                group.offsets[key[2], key[3]] = offset
        if not group:
            del self.groups[key[1]]
        return key, offset

    # --- compaction -----------------------------------------------------------------------------------------------

    def _compact_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._compacting is not None and not self._compacting.done():
            return
        first = self._compacted_at == float("-inf")
        if first or (self._to_compact >= self._around.compact_after and now - self._compacted_at > _COMPACT_AGAIN):
            self._compacted_at = now
            self._compacting = asyncio.get_running_loop().create_task(self._compact(), name=f"compact {self.topic}")

    async def _compact(self) -> None:
        """Have Pulsar compact the slot, the first time to have its cursor made, which keeps data past all retention."""
        try:
            if self._to_compact < self._around.compact_after:
                stats = await self._around.admin.internal_stats(self.topic)
                if _COMPACTION_CURSOR in stats.cursors:
                    return
            self._to_compact = 0
            self._around.metrics.compactions.inc()
            await self._around.admin.compact(self.topic)
        except Conflict:
            return  # one is under way
        except AdminError as error:
            self._to_compact = max(self._to_compact, self._around.compact_after)  # due again
            self._around.metrics.compaction_errors.inc()
            self._log.warning("! slot not compacted", extra={"reason": str(error)})


def _set(members: dict[str, bytes], member_id: str, value: bytes | None) -> None:
    if value is None:
        members.pop(member_id, None)
    else:
        members[member_id] = value


async def _first(over: "asyncio.Future[PulsarError]", watch: Coroutine[None, None, PulsarError]) -> PulsarError:
    """Whichever is done first."""
    watching = asyncio.ensure_future(watch)
    try:
        await asyncio.wait((over, watching), return_when=asyncio.FIRST_COMPLETED)
        return over.result() if over.done() else watching.result()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
