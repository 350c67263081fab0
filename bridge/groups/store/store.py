"""Keeps groups and their committed offsets in Pulsar: the compacted topic `__bridge_groups`.

It is an owned log. A group lives in the slot that its id hashes to; the process that owns the slot is the coordinator
of its groups.
"""

import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final

from bridge.config import Settings
from bridge.groups.store.errors import kafka_error
from bridge.groups.store.records import Key, StoredGroup, StoredOffset, encode_key
from bridge.groups.store.stored_groups import OnPending, OnStored, PendingTransactions, StoredGroups
from bridge.groups.store.under_way import WritesUnderWay
from bridge.groups.store.visible import TopicPartition, visible_offsets
from bridge.owned_log import OwnedLog, Record
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.storage.visibility import Identity, NoOutcomes, Outcomes
from bridge.telemetry.metrics import Metrics

__all__ = ["GroupStore", "Key", "StoredGroup", "StoredOffset"]

TOPIC: Final = "groups"


class GroupStore:
    """All groups and offsets that one bridge keeps.

    What is read here is what Pulsar has acknowledged, never more: a write shows when it is answered.
    """

    def __init__(
        self,
        client: PulsarClient,
        admin: Admin,
        settings: Settings,
        metrics: Metrics,
        view_slots: int = 0,
        outcomes: Outcomes | None = None,
    ) -> None:
        """`view_slots`: how many group slots the views of the nodes have; 0: as many as this log.

        `outcomes`: of the transactions that commit offsets; None: they count as committed.
        """
        self._view_slots = view_slots
        self.outcomes: Outcomes = outcomes or NoOutcomes()
        """Of the transactions that commit offsets."""
        self.under_way = WritesUnderWay()
        """The offsets that are being written."""
        self.on_lost: list[Callable[[Callable[[str], bool]], None]] = []
        """Called with a test for group ids when a slot is lost: forget every group that it is true of."""
        self.on_owned: list[Callable[[list[str]], None]] = []
        """Called with the ids of a slot's groups when this process begins to coordinate them."""
        self.on_stored: list[OnStored] = []
        """Called for each record that Pulsar has acknowledged; None: it is deleted, pending, or no offset."""
        self.on_pending: list[OnPending] = []
        """Called with a group and a partition where something was stored and pending offsets are left."""
        self._groups = StoredGroups(self._stored, self._pending, self._owned, self._lost, metrics.groups)
        self._log = OwnedLog(
            client,
            admin,
            settings.pulsar.state_topic(TOPIC),
            self._groups,
            slots=view_slots or settings.groups.slots,
            owner=f"bridge-{secrets.token_hex(8)}",
            compact_after=settings.groups.compact_after_writes,
            max_pending_bytes=settings.pulsar.max_pending_bytes,
            metrics=metrics.groups,
            translate=kafka_error,
        )

    async def start(self) -> None:
        """Make the topic if there is none, and count its slots; AdminError where that cannot be."""
        await self._log.start()

    @property
    def slots(self) -> int:
        """How many slots there are, from `start` on."""
        return len(self._log.slots)

    def slot_of(self, group_id: str) -> int:
        """The slot of the nodes' views that a group belongs to: the node that has it coordinates the group."""
        slot = self._log.slot_of(group_id)
        return slot % self._view_slots if self._view_slots else slot

    def owned_slots(self) -> list[int]:
        """The slots whose groups this process coordinates."""
        return [slot.index for slot in self._log.slots if slot.is_owned]

    def group_count(self) -> int:
        """The groups with members or offsets that this process coordinates."""
        return sum(map(self._groups.count, self.owned_slots()))

    def coordinates(self, group_id: str) -> bool:
        """Whether this process coordinates the group."""
        return self._log.slots[self._log.slot_of(group_id)].is_owned

    def assign(self, slots: Collection[int], *, orphaned: Collection[int] = ()) -> None:
        """Coordinate the groups of exactly these slots of the views; see `OwnedLog.assign`."""
        if self._view_slots:  # a log that was made for other nodes may have another number of slots
            indices = range(len(self._log.slots))
            slots = {index for index in indices if index % self._view_slots in slots}
            orphaned = {index for index in indices if index % self._view_slots in orphaned}
        self._log.assign(slots, orphaned=orphaned)

    async def close(self) -> None:
        """Store what is under way and release the slots."""
        await self._log.close()

    async def load(self, group_id: str, *, confirmed: bool = True) -> StoredGroup:
        """What is stored of a group; an empty one if nothing is. Waits a while where its slot is not owned.

        `confirmed`: it is as new as what any bridge acknowledged before the call. Otherwise it is what this one knows,
        without a question to Pulsar: enough where the answer depends on a write.
        Do not keep it, ask again: it is the store's own. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR).
        """
        slot = self._log.slot_of(group_id)
        await self._log.owned(slot)
        if confirmed:
            await self._log.confirm(slot)
        return self._groups.get(slot, group_id) or StoredGroup()

    async def confirm(self, group_id: str) -> None:
        """Raise as `load` unless what is known of the group is what any bridge acknowledged before the call."""
        await self._log.confirm(self._log.slot_of(group_id))

    def known(self, group_id: str) -> StoredGroup:
        """As `load`, at once: an empty one also where its slot is not owned. It is the store's own."""
        return self._groups.get(self._log.slot_of(group_id), group_id) or StoredGroup()

    def stored(self, group_id: str) -> Mapping[TopicPartition, StoredOffset]:
        """The committed offsets of a group as far as its slot is owned, for those who only look."""
        return visible_offsets(self.known(group_id), self.outcomes.outcome)

    async def pending_transactions(self) -> frozenset[Identity]:
        """The transactions that have pending offsets in any group, of whichever node, as of the call.

        All is read from Pulsar. BridgeError or OSError where that cannot be.
        """
        copies = [await self._log.read(slot.index, PendingTransactions) for slot in self._log.slots]
        return frozenset(identity for copy in copies for identity in copy.identities)

    async def ready(self) -> None:
        """Wait a while until every assigned slot is owned, so that `groups` is complete; raises as `load`."""
        await self._log.all_owned()

    def check(self, group_id: str) -> None:
        """Raise what `load` would, at once, unless the group's slot is owned: cheap enough for every heartbeat."""
        self._log.check(self._log.slot_of(group_id))

    def groups(self) -> Iterable[str]:
        """The ids of all groups that have anything stored, in the slots owned."""
        return list(self._groups)

    def submit(self, group_id: str, records: Mapping[Key, bytes | None]) -> Awaitable[None]:
        """As `write`, having taken its place in the order when this returns; may be cancelled or not awaited."""
        batch = [Record(encode_key(key), value) for key, value in records.items()]
        writing = self._log.write(self._log.slot_of(group_id), batch)
        self.under_way.add(records, writing)
        return writing

    async def write(self, group_id: str, records: Mapping[Key, bytes | None]) -> None:
        """Store records of one group (None deletes); returns when Pulsar has acknowledged all of them.

        The order is that of the calls. Raises KafkaError as `load`, and INVALID_COMMIT_OFFSET_SIZE for a record that is
        too large; after COORDINATOR_NOT_AVAILABLE it may still come to be stored, before anything written later.
        """
        await self.submit(group_id, records)

    def _owned(self, group_ids: list[str]) -> None:
        for callback in self.on_owned:
            callback(group_ids)

    def _lost(self, slot: int) -> None:
        for callback in self.on_lost:
            callback(lambda group_id: self._log.slot_of(group_id) == slot)

    def _pending(self, group_id: str, where: TopicPartition) -> None:
        for callback in self.on_pending:
            callback(group_id, where)

    def _stored(self, key: Key, offset: StoredOffset | None) -> None:
        for callback in self.on_stored:
            callback(key, offset)
