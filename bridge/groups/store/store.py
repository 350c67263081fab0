"""Keeps groups and their committed offsets in Pulsar: the compacted topic `__bridge_groups`.

Each of its partitions is a slot; a group lives in the slot that its id hashes to. Who holds a slot's exclusive producer
is the coordinator of its groups.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, TypeAlias
from zlib import crc32

from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.groups.store.records import Key, StoredGroup, StoredOffset, encode_key
from bridge.kafka.error_codes import ErrorCode
from bridge.metrics import Metrics
from bridge.owned_log.batch import Record
from bridge.owned_log.slot import Slot, Surroundings
from bridge.pulsar.admin import Admin, Conflict, NotFound
from bridge.pulsar.client import PulsarClient
from bridge.storage.names import HIDDEN_PREFIX, Names

__all__ = ["Key", "Store", "StoredGroup", "StoredOffset"]

TOPIC: Final = f"{HIDDEN_PREFIX}groups"
_PATIENCE: Final = 3.0  # seconds that a request waits for its slot; clients come again after the error

Lost: TypeAlias = Callable[[Callable[[str], bool]], None]
Stored: TypeAlias = Callable[[Key, StoredOffset | None], None]


class Store:
    """All slots of one bridge.

    What is read here is what Pulsar has acknowledged, never more: a write shows when it is answered.
    """

    def __init__(self, client: PulsarClient, admin: Admin, settings: Settings, metrics: Metrics) -> None:
        self.on_lost: list[Lost] = []
        """Called with a test for group ids when a slot is lost: forget every group that it is true of."""
        self.on_stored: list[Stored] = []
        """Called for each record that Pulsar has acknowledged; None where the value is deleted or no offset."""
        self._admin = admin
        self._settings = settings
        self._names = Names(settings.pulsar.full_namespace)
        self._slots: list[Slot] = []
        self._around = Surroundings(
            client=client,
            admin=admin,
            metrics=metrics.groups,
            owner=f"bridge-{settings.kafka.node_id}-{secrets.token_hex(6)}",
            compact_after=settings.groups.compact_after_writes,
            ensure=self._ensure,
            lost=self._lost,
            stored=self._stored,
        )

    async def start(self) -> None:
        """Make the topic if there is none, and begin to take the slots; AdminError where that cannot be."""
        # another number of slots would put every group elsewhere: the topic's own counts
        count = await self._count()
        if not count:
            await self._ensure()
            count = await self._count()
        for index in range(count):
            self._slots.append(Slot(self._names.partition(TOPIC, index, partitioned=True), self._around))
        for slot in self._slots:
            slot.start()

    async def close(self) -> None:
        """Store what is under way and give the slots back."""
        await asyncio.gather(*(slot.close() for slot in self._slots))

    async def load(self, group_id: str) -> StoredGroup:
        """What is stored of a group; an empty one if nothing is. At once where its slot is held, else waits a while.

        Do not keep it, ask again: it is the store's own. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR).
        """
        slot = self._slot(group_id)
        await slot.held(_PATIENCE)
        return slot.groups.get(group_id) or StoredGroup()

    def stored(self, group_id: str) -> Mapping[tuple[str, int], StoredOffset]:
        """The committed offsets of a group as far as its slot is held, for those who only look."""
        group = self._slot(group_id).groups.get(group_id)
        return {} if group is None else group.offsets

    async def ready(self) -> None:
        """Wait a while until every slot is held, so that `groups` is complete; raises as `load`."""
        await asyncio.gather(*(slot.held(_PATIENCE) for slot in self._slots))

    def check(self, group_id: str) -> None:
        """Raise what `load` would, at once, unless the group's slot is held: cheap enough for every heartbeat."""
        self._slot(group_id).check()

    def groups(self) -> Iterable[str]:
        """The ids of all groups that have anything stored, in the slots held."""
        return [group_id for slot in self._slots for group_id in slot.groups]

    def submit(self, group_id: str, records: Mapping[Key, bytes | None]) -> Awaitable[None]:
        """As `write`, having taken its place in the order when this returns; may be given up or not awaited."""
        batch = [Record(encode_key(key), value) for key, value in records.items()]
        most = self._settings.pulsar.max_pending_bytes
        return self._slot(group_id).write(batch, most)

    async def write(self, group_id: str, records: Mapping[Key, bytes | None]) -> None:
        """Store records of one group (None deletes); returns when Pulsar has acknowledged all of them.

        The order is that of the calls. Raises KafkaError as `load`, and INVALID_COMMIT_OFFSET_SIZE for a record that is
        too large; after COORDINATOR_NOT_AVAILABLE it may still come to be stored, before anything written later.
        """
        await self.submit(group_id, records)

    async def _count(self) -> int:
        try:
            return (await self._admin.partitioned_metadata(self._names.pulsar(TOPIC))).partitions
        except NotFound:
            return 0

    async def _ensure(self) -> None:
        with suppress(Conflict):
            await self._admin.create_partitioned(self._names.pulsar(TOPIC), self._settings.groups.slots)

    def _slot(self, group_id: str) -> Slot:
        if not self._slots:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the store is not started")
        return self._slots[self._place(group_id)]

    def _place(self, group_id: str) -> int:
        """Part of what is stored: another hash would not find the groups again."""
        return crc32(group_id.encode()) % len(self._slots)

    def _lost(self, slot: Slot) -> None:
        place = self._slots.index(slot)
        for callback in self.on_lost:
            callback(lambda group_id: self._place(group_id) == place)

    def _stored(self, key: Key, offset: StoredOffset | None) -> None:
        for callback in self.on_stored:
            callback(key, offset)
