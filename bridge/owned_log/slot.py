"""One slot: taken when it is assigned, read, kept in memory as Pulsar acknowledges writes, and lost or released.

    RELEASED ──assign──▶ TAKING ──producer open──▶ LOADING ──own marker read──▶ OWNED
        ▲                  ▲                          │                          │
        │                  └────── after a while ── UNREACHABLE (an error) or ELSEWHERE (taken by another process)
        └── release, from any of them

A slot is taken by an Exclusive producer, which Pulsar grants to one at a time. A holder that goes frees it. One that is
frozen or cut off keeps it until the broker's keep-alive ends, for a minute. Where such a holder may be thrown out, its
topic is unloaded: that ends all sessions there, and the slot is as free as any. ExclusiveWithFencing would be faster,
but Pulsar may grant it to two processes at once.

Reading ends at a marker of our own. All that a predecessor stored lies before it. So what is read is complete, whatever
the broker answers about the topic's end. A reader stays open: another holder's marker means that the slot is lost.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Final

from bridge.errors import BridgeError
from bridge.owned_log.batch import Record
from bridge.owned_log.compaction import Compaction
from bridge.owned_log.dependencies import SlotDependencies
from bridge.owned_log.errors import OwnedLogError, SlotLoading, SlotNotOwned, SlotUnavailable, error_of_send
from bridge.owned_log.eviction import Eviction
from bridge.owned_log.holding import Holding
from bridge.owned_log.journal import WRITE_TIMEOUT, Journal, Stored
from bridge.pulsar.admin import AdminError
from bridge.pulsar.connection import Backoff
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import AccessMode, PulsarError
from bridge.runtime.futures import retrieve_exception
from bridge.telemetry import log

_log = log.get(__name__)

_CONFIRM_TIMEOUT: Final = 3.0


class SlotState(Enum):
    """How a slot stands: see the module."""

    RELEASED = auto()
    TAKING = auto()
    LOADING = auto()
    OWNED = auto()
    UNREACHABLE = auto()
    ELSEWHERE = auto()


_ERRORS: Final[Mapping[SlotState, type[OwnedLogError]]] = {
    SlotState.RELEASED: SlotNotOwned,
    SlotState.TAKING: SlotUnavailable,
    SlotState.LOADING: SlotLoading,
    SlotState.UNREACHABLE: SlotUnavailable,
    SlotState.ELSEWHERE: SlotNotOwned,
}
_FINAL: Final = (SlotState.OWNED, SlotState.ELSEWHERE, SlotState.RELEASED)


class Slot:
    """One partition of the log's topic."""

    def __init__(self, index: int, topic: str, dependencies: SlotDependencies) -> None:
        self.index = index
        self.topic = topic
        self._dependencies = dependencies
        self._log = _log.bind(topic=topic)
        self._state = SlotState.RELEASED
        self._changed: asyncio.Event = asyncio.Event()
        self._holding: Holding | None = None
        self._was_owned = False  # and `lost` is to be called yet
        self._compaction = Compaction(topic, dependencies.admin, dependencies.metrics, dependencies.compact_after)
        self._eviction = Eviction(topic, dependencies, self._log)
        self._runner: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    def assign(self, *, orphaned: bool) -> None:
        """Take the slot, and take it again whenever it is lost. `orphaned`: its former owner may be thrown out."""
        self._eviction.allow(orphaned=orphaned)
        if self._runner is None:
            self._become(SlotState.TAKING)
            self._runner = asyncio.get_running_loop().create_task(self._run(self._ending), name=f"slot {self.topic}")

    def release(self) -> None:
        """Let the slot go, in the background: what is under way is stored before, or fails; the rest is refused."""
        self._eviction.released()
        if self._runner is not None:
            self._become(SlotState.RELEASED)
            runner, self._runner = self._runner, None
            runner.cancel()  # in this turn: it may be about to own the slot
            self._ending = asyncio.get_running_loop().create_task(self._end(runner, self._ending))

    async def close(self) -> None:
        """Release the slot, and wait until that is done."""
        self.release()
        if self._ending is not None:
            await asyncio.wait((self._ending,))
        await self._compaction.close()

    # --- for the log ----------------------------------------------------------------------------------------------

    @property
    def assigned(self) -> bool:
        """Whether it is to be taken."""
        return self._runner is not None

    @property
    def is_owned(self) -> bool:
        """Whether it is held and read."""
        return self._state is SlotState.OWNED

    def check(self) -> None:
        """Raise unless the slot is owned, and its producer still connected."""
        if self._state is not SlotState.OWNED or self._holding is None:
            raise self._error(_ERRORS.get(self._state, SlotUnavailable)(f"the slot {self.topic} is {self._name}"))
        if not self._holding.attached:
            # another process may own it by now: what is in memory may be old
            raise self._error(SlotUnavailable("the connection to Pulsar is lost"))

    async def owned(self, timeout: float) -> None:  # noqa: ASYNC109 - raises as `check`, not TimeoutError
        """Wait so many seconds for the slot to be owned; raises as `check`."""
        if self._state is SlotState.OWNED and self._holding is not None and self._holding.attached:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._state not in _FINAL:
                    await self._changed.wait()
                if self._holding is not None and not self._holding.attached:
                    with suppress(PulsarError):
                        await self._holding.reattached()
        self.check()

    async def confirm(self) -> None:
        """Return when all is read that the slot had at the call; raises as `check`."""
        holding = self._holding
        if self._state is SlotState.OWNED and holding is not None:
            try:
                async with asyncio.timeout(_CONFIRM_TIMEOUT):
                    await holding.confirm()
            except TimeoutError:
                raise self._error(SlotUnavailable("Pulsar does not tell the slot's end in time")) from None
            except OwnedLogError as error:
                raise self._error(error) from None
            except PulsarError as error:
                raise self._error(SlotUnavailable(str(error))) from None
        self.check()
        if self._holding is not holding:
            raise self._error(SlotUnavailable("the slot was lost meanwhile"))

    def write(self, records: Sequence[Record]) -> "asyncio.Future[None]":
        """Store records in the order of the calls; raises as `check`, and when too much waits already."""
        return self._journal().write(records, together=False).done

    def store(self, records: Sequence[Record], spare: int = 0) -> Stored:
        """The same, in one entry, which has so many bytes to `spare`; raises RecordTooLarge as well."""
        return self._journal().write(records, together=True, spare=spare)

    def _journal(self) -> Journal:
        """Where to write; raises as `write`."""
        holding = self._holding
        if self._state is not SlotState.OWNED or holding is None or holding.journal is None:
            self.check()
            raise self._error(SlotUnavailable("the slot is being lost"))
        journal = holding.journal
        if journal.pending_bytes > self._dependencies.max_pending_bytes or journal.waiting_for() > WRITE_TIMEOUT:
            raise self._error(SlotUnavailable("Pulsar does not acknowledge writes in time"))
        return journal

    @property
    def _name(self) -> str:
        return self._state.name.lower()

    def _error(self, error: OwnedLogError) -> Exception:
        return self._dependencies.translate(error)

    # --- taking and losing ----------------------------------------------------------------------------------------

    async def _run(self, before: "asyncio.Task[None] | None") -> None:
        if before is not None:
            await asyncio.wait((before,))
        backoff = Backoff()
        while True:
            try:
                error: BaseException = await self._own()
            except (BridgeError, OSError) as failed:  # TimeoutError is an OSError
                error = failed
            except Exception as bug:  # noqa: BLE001 - a bug met in one entry must not end the slot
                self._log.error("! slot failed", exc_info=bug)
                error = bug
            if self._was_owned:
                backoff = Backoff()
            fenced = isinstance(error, PulsarError) and error.code == pb.ProducerFenced
            refused = fenced and self._holding is None
            elsewhere = fenced or isinstance(error, SlotNotOwned)
            if not refused:
                self._lose(SlotState.ELSEWHERE if elsewhere else SlotState.UNREACHABLE, error)
            if isinstance(error, PulsarError) and error.code == pb.TopicNotFound:
                with suppress(AdminError):
                    await self._dependencies.create_topic()
            if refused and await self._eviction.refused():
                continue
            await asyncio.sleep(self._eviction.retry_seconds if elsewhere else backoff.next())

    async def _own(self) -> BaseException:
        """Take the slot and own it; why it was lost."""
        client = self._dependencies.client
        producer = client.producer(self.topic, access_mode=AccessMode.EXCLUSIVE, must_exist=True)
        holding = Holding(self.index, producer, self._compaction, self._dependencies, self._log)
        try:
            await producer.opened()
            self._holding = holding
            self._eviction.taken()
            self._become(SlotState.LOADING)
            await holding.load()
            self._serve()
            return await holding.ended()
        finally:
            await _to_its_end(holding.close())

    def _serve(self) -> None:
        self._was_owned = True
        self._dependencies.metrics.slots_held.inc()
        self._become(SlotState.OWNED)
        self._log.info("= slot owned", extra={"records": self._dependencies.state.live_records(self.index)})
        self._dependencies.state.owned(self.index)
        self._compaction.start_if_due()

    async def _end(self, runner: "asyncio.Task[None]", before: "asyncio.Task[None] | None") -> None:
        await asyncio.wait((runner,) if before is None else (runner, before))
        self._forget(SlotNotOwned("the slot is released"))

    def _become(self, state: SlotState) -> None:
        if state is not self._state:
            self._state = state
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _lose(self, state: SlotState, error: BaseException) -> None:
        was = self._state
        if self._was_owned:
            self._dependencies.metrics.slots_lost.inc()
        self._become(state)
        self._forget(error)
        if was is not state:
            self._log.warning("! slot not owned", extra={"state": self._name, "reason": str(error)})

    def _forget(self, error: BaseException) -> None:
        holding, self._holding = self._holding, None
        self._dependencies.state.reset(self.index)
        if holding is not None and holding.journal is not None:
            holding.journal.end(error if isinstance(error, OwnedLogError) else error_of_send(error))
        if self._was_owned:
            self._was_owned = False
            self._dependencies.metrics.slots_held.dec()
            self._dependencies.state.lost(self.index)


async def _to_its_end(closing: Coroutine[Any, Any, None]) -> None:
    """Close, also where the slot is released meanwhile: a reader that is left open reads on until the end."""
    task = asyncio.get_running_loop().create_task(closing)
    task.add_done_callback(retrieve_exception)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise
