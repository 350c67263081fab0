"""Follows one slot that another process owns: a copy of its state, always as it was at some moment.

    start ──▶ loading ──copy complete──▶ current ──an entry may be missing, or an error──▶ loading
                 ▲                                                                           │
                 └───────────────────────────────── after a while ◀──────────────────────────┘

A copy begins with the compacted slot up to its end and goes on with the entries behind that as they were written. The
broker counts messages: an entry is applied only if its index follows that of the entry before, so that none is missed
that retention took away, or that lies between two sessions of the reader. Where one may be missing nothing more is
applied, and a fresh copy is read beside the old one, which stays with its user until then: it is only old.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from bridge.errors import BridgeError
from bridge.owned_log.batch import Record
from bridge.owned_log.compacted_view import read_compacted
from bridge.owned_log.dependencies import OwnedLogMetrics
from bridge.owned_log.errors import SlotUnavailable
from bridge.owned_log.slot_reader import Found, SlotReader
from bridge.owned_log.succession import Succession
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.connection import Backoff
from bridge.pulsar.types import EARLIEST, Position, PulsarError
from bridge.runtime.futures import SharedQuery, loop_time
from bridge.telemetry import log

_log = log.get(__name__)

_ASK_AGAIN_AFTER: Final = 1.0  # seconds without an entry, while loading
_CONFIRM_TIMEOUT: Final = 2.0
_STABLE_AFTER: Final = 5.0  # seconds: what goes wrong then has not to do with what went wrong before


class Copy(Protocol):
    """The state of one slot. It is called on the event loop, and must not block or await."""

    def apply(self, key: str, value: bytes | None) -> None:
        """A record is stored; None deletes its key."""


CopyT = TypeVar("CopyT", bound=Copy)


class _Gap(BridgeError):
    """An entry may be missing: the copy may not be what the slot held at any moment, if more were applied."""


class _Tail:
    """Entries as they were written, from the one on that was the last when the slot was loaded."""

    def __init__(self, slot: SlotReader, emptied_at: Position | None) -> None:
        """`emptied_at`: where no entry was left to begin with, the place that Pulsar had written to last."""
        self.slot = slot
        self.emptied_at = emptied_at
        self._index: int | None = None  # of the last message

    async def next(self, known: Position) -> Found:
        """The next entry. Those up to `known` are in the copy; raises _Gap where another one does not follow."""
        found = await self.slot.next()
        # where nothing was there to begin with, only the very first entry of all can follow
        last, self._index = -1 if self._index is None else self._index, found.index
        follows = found.index == last + found.messages
        if found.position > known and not follows:
            raise _Gap(f"the entry at {found.position} with index {found.index} does not follow index {last}")
        return found


class _Loaded(NamedTuple, Generic[CopyT]):
    """A copy, and up to where all is in it."""

    copy: CopyT
    known: Position
    tail: _Tail


class Follower(Generic[CopyT]):
    """See the module. `topic` is the slot's partition, by its full name; one that does not exist is waited for."""

    def __init__(
        self,
        index: int,
        topic: str,
        client: PulsarClient,
        admin: Admin,
        metrics: OwnedLogMetrics,
        make: Callable[[], CopyT],
        swapped: Callable[[CopyT], None],
        applied: Callable[[Sequence[Record]], None],
    ) -> None:
        """`make` begins a copy; `swapped` is told of one that is complete, which takes the place of what was known.

        From then on `applied` is told of each entry's records, once they have been applied to the copy.
        """
        self.index = index
        self.topic = topic
        self.copies = 0
        """How many complete copies there have been."""
        self.is_current = False
        """Whether the copy is being kept up: if not, an entry may be missing behind it, or there is none."""
        self._client = client
        self._admin = admin
        self._metrics = metrics
        self._make = make
        self._swapped = swapped
        self._applied = applied
        self._log = _log.bind(topic=topic)
        self._known = EARLIEST
        self._tail: _Tail | None = None
        self._changed = asyncio.Event()
        self._query = SharedQuery(self._ask)
        self._stopped_at: float | None = None  # when it ceased to be current
        self._asked_at: float | None = None  # when the oldest question began that has no answer
        self._runner: asyncio.Task[None] | None = None
        self._closed = False
        self._closing: set[asyncio.Task[None]] = set()
        self._reason = ""  # why it was not followed last: once is news

    def start(self) -> None:
        """Begin to load, in the background."""
        if self._runner is None and not self._closed:
            self._stopped_at = loop_time()
            self._runner = asyncio.get_running_loop().create_task(self._run(), name=f"follow {self.topic}")

    async def close(self) -> None:
        """Follow no more; who waits in `confirm` gets an error."""
        self._closed = True
        self._wake()
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.wait((self._runner,))
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def confirm(self) -> None:
        """Return when all is applied that was acknowledged before the call, by any process.

        SlotUnavailable where that cannot be said within two seconds. Concurrent callers share one question.
        """
        try:
            async with asyncio.timeout(_CONFIRM_TIMEOUT):
                await self._query.look()
        except TimeoutError:
            raise SlotUnavailable(f"the end of {self.topic} is not known in time") from None
        except (BridgeError, OSError) as error:
            raise SlotUnavailable(str(error)) from None

    @property
    def is_loaded(self) -> bool:
        """Whether there has been a complete copy."""
        return self.copies > 0

    @property
    def is_unanswered(self) -> bool:
        """Whether the last question for the slot's end has no answer, or has failed."""
        return self._asked_at is not None

    @property
    def behind_since(self) -> float | None:
        """Since when the copy may lack what is stored, by the loop's time; None: nothing speaks for that.

        It is not being kept up, or Pulsar has not said where the slot ends. While nobody asks, nothing is noticed.
        """
        return min((at for at in (self._stopped_at, self._asked_at) if at is not None), default=None)

    def reload(self) -> bool:
        """Have a fresh copy read, beside the one that is known; False where one is being read already."""
        if not self.is_current:
            return False
        self._stop()
        return True

    # --- following ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop, backoff = asyncio.get_running_loop(), Backoff()
        while True:
            began = loop.time()
            try:
                await self._follow(await read_compacted(self.topic, self._admin, self._log, self._load))
            except (BridgeError, OSError) as error:  # TimeoutError is an OSError
                if str(error) != self._reason:
                    self._reason = str(error)
                    self._log.warning("! slot not followed", extra={"reason": self._reason})
            except Exception as bug:  # noqa: BLE001 - a bug met in one entry must not end the follower
                self._log.error("! slot failed", exc_info=bug)
            finally:
                self._stop()
            if loop.time() - began > _STABLE_AFTER:
                backoff = Backoff()
            await asyncio.sleep(backoff.next())

    async def _follow(self, loaded: _Loaded[CopyT]) -> None:
        """Keep the copy up until an entry may be missing."""
        copy, self._known, tail = loaded
        self.copies += 1
        self.is_current = True
        self._stopped_at = None
        self._reason = ""
        self._swapped(copy)
        self._wake()
        while True:
            found = await tail.next(self._known)
            if found.position <= self._known:
                continue
            self._apply(copy, found)
            self._known = found.position
            if found.records:
                self._applied(found.records)
            self._wake()

    def _apply(self, copy: CopyT, found: Found) -> None:
        self._metrics.records_read.inc(found.count)
        for key, value in found.records:
            copy.apply(key, value)

    def _stop(self) -> None:
        """Apply nothing more of what is read now."""
        self.is_current = False
        if self._stopped_at is None:
            self._stopped_at = loop_time()
        tail, self._tail = self._tail, None
        if tail is not None:
            self._close(tail.slot)
        self._wake()

    def _close(self, slot: SlotReader) -> None:
        """In the background, to its end: a reader that is left open reads on."""
        closing = asyncio.get_running_loop().create_task(slot.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # --- loading --------------------------------------------------------------------------------------------------

    async def _load(self) -> _Loaded[CopyT]:
        """Open the tail where the slot ends, and read a copy up to there."""
        self._stop()  # of the load before, which a compaction has overtaken
        end = await self._client.last_position(self.topic)
        if EARLIEST != end < self._known:
            raise SlotUnavailable("Pulsar tells an end that was passed before")  # no copy is older than the one before
        emptied_at = (await self._admin.internal_stats(self.topic)).last_confirmed if end == EARLIEST else None
        succession = Succession()
        reader = await self._client.reader(self.topic, end)
        self._tail = _Tail(SlotReader(reader, succession, self._metrics, self._log), emptied_at)
        reader = await self._client.reader(self.topic, EARLIEST, read_compacted=True)
        slot = SlotReader(reader, succession, self._metrics, self._log)
        try:
            copy = self._make()
            return _Loaded(copy, max(end, await self._read(slot, copy, end)), self._tail)
        finally:
            self._close(slot)

    async def _read(self, slot: SlotReader, copy: CopyT, end: Position) -> Position:
        """Apply what the compacted slot has up to this end; how far that went."""
        position, last = EARLIEST, await slot.last_position()
        while position < end or end == EARLIEST:
            if position < last:
                with suppress(TimeoutError):
                    found = await slot.next_within(_ASK_AGAIN_AFTER)
                    position = found.position
                    self._apply(copy, found)
                    await asyncio.sleep(0)  # others run between
                    continue
            # a compaction leaves deletions out, also the last entry; asked now, as a session that gives entries lives
            last = await slot.last_position()
            if position >= last:
                break
        if position == EARLIEST != end:
            raise SlotUnavailable("the compacted slot is empty")  # an owned one has a marker at least
        return position

    # --- confirming -----------------------------------------------------------------------------------------------

    async def _ask(self) -> None:
        if self._asked_at is None:
            self._asked_at = loop_time()
        await self._read_to_the_end()
        self._asked_at = None

    async def _read_to_the_end(self) -> None:
        while True:
            tail = self._tail
            if tail is None or not self.is_current:
                await self._change()
                continue
            try:
                end = await tail.slot.checked_last_position()
                if end == EARLIEST and await self._was_emptied(tail):
                    self._log.info("= slot was compacted and trimmed")  # no entry would tell of the gap
                    self._stop()
            except PulsarError:
                if tail is self._tail:
                    raise
                continue  # it was closed, and the slot is read again
            while tail is self._tail:
                if self._known >= end:
                    return
                await self._change()

    async def _was_emptied(self, tail: _Tail) -> bool:
        """Whether entries may have been written and trimmed unseen, where none is left."""
        return tail.emptied_at != (await self._admin.internal_stats(self.topic)).last_confirmed

    async def _change(self) -> None:
        """Wait until it is nearer the end, loaded or not current any more."""
        if self._closed:
            raise SlotUnavailable("the slot is not followed any more")
        await self._changed.wait()
