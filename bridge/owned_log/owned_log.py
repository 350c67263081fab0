"""The slots of one topic, and which slot a name belongs to."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final
from zlib import crc32

from bridge.owned_log.batch import Record
from bridge.owned_log.dependencies import OwnedLogMetrics, OwnedState, SlotDependencies
from bridge.owned_log.errors import OwnedLogError, SlotUnavailable, copy_of
from bridge.owned_log.slot import Slot
from bridge.pulsar.admin import Admin, Conflict, NotFound
from bridge.pulsar.client import PulsarClient

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
        """Create the topic if it is missing, and begin to take the slots; AdminError where that fails."""
        # another number of slots would put every name elsewhere: the topic's own counts
        count = await self._count()
        if not count:
            await self._create_topic()
            count = await self._count()
        self.slots = [Slot(index, f"{self.topic}-partition-{index}", self._dependencies) for index in range(count)]
        for slot in self.slots:
            slot.start()

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
        """As `owned`, for every slot."""
        await asyncio.gather(*(slot.owned(_OWNED_TIMEOUT) for slot in self.slots))

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

    async def _count(self) -> int:
        try:
            return (await self._admin.partitioned_metadata(self.topic)).partitions
        except NotFound:
            return 0

    async def _create_topic(self) -> None:
        with suppress(Conflict):
            await self._admin.create_partitioned(self.topic, self._slots_to_create)
