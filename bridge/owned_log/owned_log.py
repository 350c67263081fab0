"""The slots of one topic, and which slot a name belongs to."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final
from zlib import crc32

from bridge.owned_log.batch import Record
from bridge.owned_log.dependencies import OwnedLogMetrics, OwnedState, SlotDependencies
from bridge.owned_log.errors import OwnedLogError, SlotUnavailable, copy_of
from bridge.owned_log.follower import CopyT, Follower
from bridge.owned_log.journal import Stored
from bridge.owned_log.slot import Slot
from bridge.pulsar.admin import Admin, AdminError, Conflict, NotFound, Retention
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.connection import Backoff
from bridge.runtime.futures import loop_time
from bridge.telemetry import log

_log = log.get(__name__)

UNFINISHED: Final = "bridge.unfinished"
"""The property of a topic to which the records of another one are being copied: it does not have all of them yet."""
_RETENTION: Final = Retention(minutes=10_080, megabytes=-1)
_CREATED_TIMEOUT: Final = 30.0
_READ_TIMEOUT: Final = 60.0
_OWNED_TIMEOUT: Final = 3.0  # seconds that a request waits for its slot; clients try again after the error


class OwnedLog:
    """See the package for what is promised.

    `topic` is the full name of a partitioned Pulsar topic. It is created with `slots` partitions where it is missing;
    one that exists keeps its number. `translate` makes the exceptions that callers get, here and in the futures of
    writes: the log's own (`OwnedLogError`) unless it is given.
    """

    def __init__(
        self,
        client: PulsarClient,
        admin: Admin,
        topic: str,
        state: OwnedState,
        *,
        slots: int,
        owner: str,
        compact_after: int,
        max_pending_bytes: int,
        metrics: OwnedLogMetrics,
        translate: Callable[[OwnedLogError], Exception] = copy_of,
    ) -> None:
        self.topic = topic
        self.slots: list[Slot] = []
        """All slots of the topic, from `start` on."""
        self._admin = admin
        self._slots_to_create = slots
        self._dependencies = SlotDependencies(
            client=client,
            admin=admin,
            state=state,
            metrics=metrics,
            owner=owner,
            compact_after=compact_after,
            max_pending_bytes=max_pending_bytes,
            create_topic=self._create_topic,
            translate=translate,
        )

    async def start(self) -> None:
        """Create the topic if it is missing, and count its slots; takes none. AdminError where that fails."""
        # another number of slots would put every name elsewhere: the topic's own counts
        backoff, count = Backoff(), await self._count()
        until = loop_time() + _CREATED_TIMEOUT
        while not count:
            await self._create_topic()
            count = await self._count()
            if not count:  # another process creates it just now: Pulsar refuses a second creation before it is there
                if loop_time() > until:
                    raise AdminError(0, f"the topic {self.topic} is neither there nor can be created")
                await asyncio.sleep(backoff.next())
        self.slots = [Slot(index, f"{self.topic}-partition-{index}", self._dependencies) for index in range(count)]

    def assign(self, slots: Collection[int], *, orphaned: Collection[int] = ()) -> None:
        """Take exactly these slots, and release all others in order; returns at once.

        `orphaned`: those whose former owner is no member of the cluster any more. It may be frozen and hold its slot
        for a minute: after a second of waiting it is thrown out. The same sets again change nothing.
        """
        for slot in self.slots:
            if slot.index in slots:
                slot.assign(orphaned=slot.index in orphaned)
            else:
                slot.release()

    async def close(self) -> None:
        """Store what is under way and release the slots."""
        await asyncio.gather(*(slot.close() for slot in self.slots))

    def slot_of(self, name: str) -> int:
        """The slot of a name. It is part of what is stored: another hash would not find the records again."""
        if not self.slots:
            raise self._dependencies.translate(SlotUnavailable("the log is not started"))
        return crc32(name.encode()) % len(self.slots)

    async def owned(self, slot: int) -> None:
        """Return at once where the slot is owned, else wait a while for it; raises as `check`."""
        await self.slots[slot].owned(_OWNED_TIMEOUT)

    async def all_owned(self) -> None:
        """As `owned`, for every slot that is assigned."""
        await asyncio.gather(*(slot.owned(_OWNED_TIMEOUT) for slot in self.slots if slot.assigned))

    async def confirm(self, slot: int) -> None:
        """Return when the state shows all that was acknowledged before the call, by any process; raises as `check`.

        Without it a process that was frozen shows what it knew before, until it reads who has taken the slot. Half a
        millisecond, and one question for all concurrent callers.
        """
        await self.slots[slot].confirm()

    def check(self, slot: int) -> None:
        """Raise unless the slot is owned and connected: SlotUnavailable, SlotLoading or SlotNotOwned. Without I/O."""
        self.slots[slot].check()

    def write(self, slot: int, records: Sequence[Record]) -> "asyncio.Future[None]":
        """Store records; done when Pulsar has acknowledged all of them. They have their place in the order at once.

        Raises as `check`, also when too much waits already: nothing is written then. The future may fail with
        RecordTooLarge, WriteTimedOut, SlotUnavailable or SlotNotOwned: then the records may be stored all the same,
        in whole or in part. Cancelling it takes nothing back.
        """
        return self.slots[slot].write(records)

    def store(self, slot: int, records: Sequence[Record], spare: int = 0) -> Stored:
        """As `write`, but all records are stored in one entry or none is, and it is told when their outcome is known.

        Raises RecordTooLarge, too: nothing is written where they do not fit into one entry with so many bytes to
        `spare`.
        """
        return self.slots[slot].store(records, spare)

    async def read(self, slot: int, make: Callable[[], CopyT]) -> CopyT:
        """A copy of a slot, whoever owns it: all that was acknowledged before the call is in it.

        `make` begins one. TimeoutError where Pulsar does not give it in time.
        """
        found: asyncio.Future[CopyT] = asyncio.get_running_loop().create_future()

        def read(copy: CopyT) -> None:
            if not found.done():
                found.set_result(copy)

        of = self._dependencies
        topic = self.slots[slot].topic
        follower = Follower(slot, topic, of.client, of.admin, of.metrics, make, read, lambda _: None)
        follower.start()
        try:
            async with asyncio.timeout(_READ_TIMEOUT):
                return await found
        finally:
            await follower.close()

    async def _count(self) -> int:
        try:
            found = await self._admin.partitioned_metadata(self.topic)
        except NotFound:
            return 0
        if UNFINISHED in found.properties:
            raise AdminError(0, f"{self.topic} does not have all records yet: run `bridge move-state` again")
        return found.partitions

    async def _create_topic(self) -> None:
        with suppress(Conflict):
            await create_log(self._admin, self.topic, self._slots_to_create)


async def create_log(admin: Admin, topic: str, slots: int, properties: Mapping[str, str] | None = None) -> None:
    """Make the topic of a log; Conflict where it is there. Its compaction keeps what counts, so that the rest may go
    though its namespace keeps everything."""
    await admin.create_partitioned(topic, slots, properties)
    try:
        await admin.set_topic_retention(topic, _RETENTION)
    except AdminError as error:
        _log.warning("! log keeps the namespace's retention", extra={"topic": topic, "error": error})
