"""The log of users, permissions, quotas, groups' configs and KoP's aborted records: any node appends, all make the same
of it, in its order.

A node reads the compacted topic from its beginning. Where that ends it learns by a marker of its own: the marker's
receipt says at which position, and what is read before it counts, or a later value of the same key does. After each gap
the topic is read as a whole again, beside what is in memory, which is replaced when the new marker is read. A change is
answered when its own records were read back: all that other nodes have stored before them counts by then.

    start ──▶ reading, beside what was known ──own marker read──▶ following ──reader lost──▶ reading …
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from bridge.cluster.kept_producer import KeptProducer
from bridge.cluster.topic_readers import TopicFollower
from bridge.cluster.topics import ClusterTopics
from bridge.config import PulsarSettings
from bridge.errors import BridgeError, StartupError
from bridge.owned_log.batch import OVERHEAD, NotABatch, Record, pack, unpack
from bridge.owned_log.compaction import Compaction
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, Entry, Position, PulsarError
from bridge.security.records import MARKER, Change, Kept, SecurityState
from bridge.telemetry import log
from bridge.telemetry.metrics import SecurityMetrics

TOPIC: Final = "security"
CHANGE_SECONDS: Final = 10.0
"""A change that was not read back within this time has failed, as far as the client is told."""

_START_SECONDS: Final = 30.0
_MARKER_SECONDS: Final = 5.0
_COMPACT_AFTER: Final = 1000
_MAX_ENTRY_BYTES: Final = 1 << 19
_MAX_ENTRY_RECORDS: Final = 100
"""One takes 16 µs to read, and nothing else runs while an entry is read."""
_READ_AGAIN_SECONDS: Final = 600.0
"""A compaction that overtakes a reader drops deletions before it. Reading as a whole makes up for it."""
_MARKER: Final = (Kept(MARKER, b"1"),)

_MAX_LINES: Final = 100
"""Of the audit log for one entry, or one reading; of more there is their number."""
_MAX_CHARACTERS: Final = 500
_SLICE: Final = 200
"""Records that are compared before others get their turn."""
_MAX_OWN: Final = 50_000

_log = log.get(__name__)
_audit = log.get("bridge.audit")


class SecurityUnavailable(BridgeError):
    """Pulsar has not taken a change in time, or it was not read back: it may count, now or later, or not."""


class SecurityLog:
    """One node's copy of the log. `on_change` is called after records were read, with what they are about."""

    def __init__(
        self,
        client: PulsarClient,
        admin: Admin,
        pulsar: PulsarSettings,
        metrics: SecurityMetrics,
        on_change: Callable[[set[Change]], None] = lambda changes: None,
    ) -> None:
        self.state = SecurityState()
        self.topic = pulsar.state_topic(TOPIC)
        self._client = client
        self._topics = ClusterTopics(admin, pulsar)
        self._metrics = metrics
        self._on_change = on_change
        self._producer: KeptProducer | None = None
        self._follower = TopicFollower(client, self.topic, self._entry, self._begin)
        self._compaction = Compaction(self.topic, admin, metrics, _COMPACT_AFTER)
        self._read_to = EARLIEST
        self._waiting: list[tuple[Position, asyncio.Future[None]]] = []
        self._next: SecurityState | None = None
        """What is being read as a whole, until it replaces `state`."""
        self._next_read_to = EARLIEST
        self._end: Position | None = None
        """Where the marker is to which that has to be read."""
        self._records = 0
        self._own: dict[str, list[bytes | None]] = {}
        """What this node has sent and not read back: values by key, in order."""
        self._own_next: set[str] = set()
        """The keys whose last record in `_next` is of this node."""
        self._marking: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._read_again: asyncio.TimerHandle | None = None
        self._whole = asyncio.Event()
        self._caught_up = asyncio.Event()
        self._answered = asyncio.Event()
        """That was read, or it cannot be."""
        self._reason = ""
        """Why the last marker did not come back."""

    # ---- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read what is stored; StartupError where that cannot be, or the topic cannot be made."""
        await self._topics.ensure(self.topic, self._client)
        self._producer = KeptProducer(self._client, self._topics, self.topic)
        self._follower.start(None, until=EARLIEST, caught_up=lambda: None)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._answered.wait()
        except TimeoutError:
            why = f" ({self._reason})" if self._reason else ""
            raise StartupError(f"{self.topic} was not read to its end within {_START_SECONDS:g} s{why}") from None
        if not self.is_known:
            raise StartupError(
                f"{self.topic} is terminated: `bridge move-state` has moved, or was moving, users, groups and offsets "
                "away from there. If it was interrupted, run the same command again. Else this node has "
                "the settings, or the version, of before: it is no member any more"
            )

    async def settled(self) -> None:
        """Wait until Pulsar has been asked to keep the topic past all retention."""
        await self._compaction.asked()

    async def close(self) -> None:
        """Read and write no more; changes that wait fail."""
        if self._producer is not None:
            self._producer.close()
        if self._read_again is not None:
            self._read_again.cancel()
        await self._follower.close()
        if self._marking is not None:
            self._marking.cancel()
            await asyncio.gather(self._marking, return_exceptions=True)
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        await self._compaction.close()
        for _, waiter in self._waiting:
            waiter.cancel()

    @property
    def is_known(self) -> bool:
        """Whether the log was read to its end once: before, nothing can be decided."""
        return self._caught_up.is_set()

    def _check_started(self) -> KeptProducer:
        if self._producer is None:
            raise SecurityUnavailable("the log is not read yet")
        return self._producer

    # ---- changes -----------------------------------------------------------------------------------------------------

    async def append(self, records: Sequence[Kept]) -> None:
        """Store records, and read them back; SecurityUnavailable where that is not so in time.

        They are stored together up to half a MiB; more goes into several entries, in order.
        """
        for key, value in records:
            self._own.setdefault(key, []).append(value)
        while len(self._own) > _MAX_OWN:  # of changes that had no answer, which may never come back
            del self._own[next(iter(self._own))]
        try:
            async with asyncio.timeout(CHANGE_SECONDS):
                await self._store(records)
        except (TimeoutError, PulsarError, asyncio.CancelledError) as error:
            self._metrics.changes["failed"].inc()
            if isinstance(error, asyncio.CancelledError):
                raise
            text = str(error) or "Pulsar has not stored it, and given it back, in time"
            raise SecurityUnavailable(text) from None
        self._metrics.changes["stored"].inc()
        self._compaction.written(len(records))

    async def catch_up(self) -> None:
        """Return when all is read that was stored before; SecurityUnavailable where that is not so in time."""
        try:
            async with asyncio.timeout(CHANGE_SECONDS):
                await self._store(_MARKER)
        except (TimeoutError, PulsarError) as error:
            raise SecurityUnavailable(str(error) or "Pulsar does not answer in time") from None

    async def _store(self, records: Sequence[Kept]) -> None:
        sent = [asyncio.ensure_future(self._stored(part)) for part in parts(records)]
        try:
            positions = [await one for one in sent]
        finally:
            for one in sent:
                one.cancel()  # what has no receipt by then is not sent again
            await asyncio.gather(*sent, return_exceptions=True)
        await self._read(positions[-1])

    async def _stored(self, records: Sequence[Kept]) -> Position:
        """Where they are, or a place behind them."""
        while True:
            batch = [Record(*record) for record in records]
            receipt = await self._check_started().send_entry(*pack(batch), len(batch))
            if not receipt.duplicate:
                return receipt.position
            records = _MARKER  # Pulsar has recognised them, and tells no place

    async def _read(self, position: Position) -> None:
        if self._read_to < position:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append((position, waiter))
            try:
                await waiter
            finally:
                self._waiting = [one for one in self._waiting if one[1] is not waiter]

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The topic is read as a whole from now on."""
        self._next, self._next_read_to, self._records, self._end = SecurityState(), EARLIEST, 0, None
        self._own_next.clear()
        self._whole.clear()
        if self._read_again is not None:
            self._read_again.cancel()
        if self._marking is not None:
            self._marking.cancel()
        self._marking = asyncio.get_running_loop().create_task(self._mark(), name=f"marker {self.topic}")

    async def _mark(self) -> None:
        """Have a marker stored, again where it does not come back: when it is read, so is the whole topic."""
        while True:
            try:
                async with asyncio.timeout(_MARKER_SECONDS):
                    self._end = await self._stored(_MARKER)
                    self._take_over_if_whole()
                    await self._whole.wait()
                return
            except (TimeoutError, PulsarError) as error:
                reason = self._reason = str(error) or "it was not read back in time"
                _log.warning("! security log not read to its end", extra={"topic": self.topic, "reason": reason})
                if isinstance(error, PulsarError) and error.code == pb.TopicTerminatedError:
                    self._answered.set()
                await asyncio.sleep(1.0)

    def _entry(self, entry: Entry) -> None:
        state = self.state if self._next is None else self._next
        changes: set[Change] = set()
        others: list[Kept] = []
        try:
            for key, value in unpack(entry.metadata, entry.payload):
                changes.add(state.apply(key, value))
                self._records += 1
                if not self._is_own(key, value) and key != MARKER:
                    others.append(Kept(key, value))
                if key in state.unknown:
                    extra = {"position": str(entry.position), "reason": state.unknown[key]}
                    _log.warning("! security record not understood", extra=extra)
        except NotABatch as error:
            self._metrics.unreadable.inc()
            extra = {"topic": self.topic, "position": str(entry.position), "reason": str(error)}
            _log.error("! security entry unreadable", extra=extra)
        if self._next is not None:
            self._next_read_to = entry.position
            self._take_over_if_whole()
        else:
            changed = ((key, "deleted" if value is None else "stored") for key, value in others)
            self._tell_others(changed, producer=entry.metadata.producer_name[:_MAX_CHARACTERS])
            self._has_read(entry.position, changes - {Change.NOTHING})

    def _take_over_if_whole(self) -> None:
        if self._next is None or self._end is None or self._next_read_to < self._end:
            return
        former, self.state, self._next = self.state, self._next, None
        if self._caught_up.is_set():  # else all is new here
            self._telling = asyncio.get_running_loop().create_task(
                self._tell_missed(self.state.differences(former), frozenset(self._own_next)), name="audit of changes"
            )
        self._compaction.loaded(self._records, self.state.live_records)
        self._compaction.start_if_due()
        if not self._caught_up.is_set():
            state = self.state
            counts = {"users": len(state.credentials), "acls": len(state.entries), "quotas": len(state.quotas)}
            _log.info("= security log read", extra={"topic": self.topic, **counts})
        self._whole.set()
        self._caught_up.set()
        self._answered.set()
        self._read_again = asyncio.get_running_loop().call_later(_READ_AGAIN_SECONDS, self._follower.restart, EARLIEST)
        self._has_read(self._next_read_to, {Change.USERS, Change.ACLS, Change.QUOTAS})

    def _is_own(self, key: str, value: bytes | None) -> bool:
        """Whether this node has sent the record, which it reads back here; what it sent before for this key is past."""
        sent = self._own.get(key, [])
        is_own = value in sent
        if is_own:
            del sent[: sent.index(value) + 1]
            if not sent:
                del self._own[key]
        if self._next is not None:
            (self._own_next.add if is_own else self._own_next.discard)(key)
        return is_own

    async def _tell_missed(self, differences: Iterator[tuple[str, str] | None], own: frozenset[str]) -> None:
        """What has changed while the log was not followed."""
        missed = []
        for number, one in enumerate(differences, 1):
            if one is not None and one[0] not in own:
                missed.append(one)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        self._tell_others(missed)

    def _tell_others(self, changes: Iterable[tuple[str, str]], **fields: object) -> None:
        """The audit log has what other nodes have stored, `bridge user`, and any client that may write to the topic."""
        lines = 0
        for lines, (key, how) in enumerate(changes, 1):
            if lines <= _MAX_LINES:
                what = {"topic": self.topic, "key": key[:_MAX_CHARACTERS], "change": how}
                _audit.info("= changed elsewhere", extra={**what, **fields})
        if lines > _MAX_LINES:
            _audit.info("= more was changed elsewhere", extra={"topic": self.topic, "count": lines - _MAX_LINES})

    def _has_read(self, position: Position, changes: set[Change]) -> None:
        """All that is stored up to here counts."""
        self._read_to = position
        if changes:
            self._metrics.users.set(len(self.state.credentials))
            self._metrics.acls.set(len(self.state.entries))
            self._metrics.quotas.set(len(self.state.quotas))
            self._on_change(changes)
        self._metrics.not_understood.set(len(self.state.unknown))
        for wanted, waiter in self._waiting:
            if wanted <= position and not waiter.done():
                waiter.set_result(None)


def parts(records: Sequence[Kept]) -> Iterator[list[Kept]]:
    """What goes into one entry each."""
    part: list[Kept] = []
    size = 0
    for record in records:
        length = len(record.key.encode()) + len(record.value or b"") + OVERHEAD
        if part and (size + length > _MAX_ENTRY_BYTES or len(part) >= _MAX_ENTRY_RECORDS):
            yield part
            part, size = [], 0
        part.append(record)
        size += length
    if part:
        yield part
