"""The transactions of one namespace, as the handlers of requests use them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from math import inf
from typing import Final

from bridge.config import Settings
from bridge.errors import KafkaError, Unanswered
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin import Admin
from bridge.pulsar.client import PulsarClient
from bridge.runtime.futures import loop_time
from bridge.storage.visibility import Transaction
from bridge.telemetry import log
from bridge.telemetry.metrics import TransactionMetrics
from bridge.transactions.coordinator import Coordinator
from bridge.transactions.feeds import Feeds
from bridge.transactions.healing import Healing
from bridge.transactions.newest_connections import Connection, NewestConnections
from bridge.transactions.pruning import Pruning, Remains
from bridge.transactions.state import Change, Partition, Status, TransactionRecord
from bridge.transactions.table import Table

__all__ = ["Change", "Connection", "Partition", "Status", "TransactionRecord", "Transactions"]

_log = log.get(__name__)

_PRODUCER_ID_SECONDS: Final = 10.0
_UNKNOWN: Final = "no coordinator knows this transactional id"


class Transactions:
    """What there is of transactions in one namespace: their coordinator, and what this node knows of all of them."""

    def __init__(
        self,
        client: PulsarClient,
        admin: Admin,
        settings: Settings,
        metrics: TransactionMetrics,
        new_producer_id: Callable[[], Awaitable[int]],
        group_slots: Callable[[], int],
        remains: Remains,
    ) -> None:
        """`group_slots`: how many the views of the nodes have: the owner of one has the slots here that go with it;
        `remains`: where something may be left of aborted transactions."""
        self.outcomes = Table(self._confirm, self._confirm_all)
        """For readers."""
        self._feeds = Feeds(client, admin, settings, metrics, self.outcomes, group_slots)
        self._healing = Healing(self.outcomes, self._feeds, metrics, settings.pulsar.full_namespace)
        self._new_producer_id = new_producer_id
        self._coordinator = Coordinator(
            self._feeds.log,
            self.outcomes,
            settings.transactions,
            metrics,
            self._producer_id,
            settings.pulsar.full_namespace,
        )
        self._pruning = Pruning(self._coordinator, self.outcomes, remains)
        self._most_committing = 2 * settings.transactions.max_ids
        self._committing = NewestConnections()
        """Those that have committed offsets: a client has another connection to its group's coordinator."""
        self._groups_taken_at = -inf

    async def open(self) -> None:
        """Load what there is, before anything is served."""
        await self._feeds.open()

    def start(self) -> None:
        """Do what goes on by itself, from now on."""
        self._coordinator.start()
        self._healing.start()
        self._pruning.start()

    async def close(self) -> None:
        """Store what is under way, and release everything."""
        await self._pruning.close()
        await self._healing.close()
        await self._coordinator.close()
        await self.outcomes.close()
        await self._feeds.close()

    def assign(self, mine: Collection[int], orphaned: Collection[int]) -> None:
        """Coordinate the ids of the slots that go with these group slots of the views."""
        self._feeds.assign(mine, orphaned)

    def groups_taken(self) -> None:
        """This node has taken a slot of groups: what a client of before still has on its way does not count there."""
        self._groups_taken_at = loop_time()
        self._committing = NewestConnections()

    # ---- where an id is coordinated ----------------------------------------------------------------------------------

    async def group_slot_of(self, transactional_id: str) -> int:
        """The group slot whose owner coordinates an id; what transactions are kept in is made if it is not there."""
        await self._feeds.make()
        return self._feeds.group_slot_of(self.slot_of(transactional_id))

    def slot_of(self, transactional_id: str) -> int:
        """The slot of an id; COORDINATOR_NOT_AVAILABLE where there are no slots yet."""
        return self._feeds.log.slot_of(transactional_id)

    def is_holder(self, transactional_id: str) -> bool:
        """Whether this node coordinates an id."""
        return self._feeds.exist and self._feeds.log.slots[self.slot_of(transactional_id)].is_owned

    async def known_group_slot_of(self, transactional_id: str) -> int | None:
        """As `group_slot_of`; None where there is nothing yet that transactions are kept in."""
        if not await self._feeds.find():
            return None
        return self._feeds.group_slot_of(self.slot_of(transactional_id))

    async def coordinator(self) -> Coordinator:
        """What serves the ids of this node. The node that made their topic is not always the one that coordinates."""
        await self._feeds.find()
        return self._coordinator

    async def describe(self, transactional_id: str) -> TransactionRecord | None:
        """The newest record of an id that is coordinated here; None: the id is not known."""
        return await self._coordinator.describe(transactional_id) if await self._feeds.find() else None

    async def all(self) -> list[tuple[str, TransactionRecord]]:
        """The newest record of each id that is coordinated here."""
        return await self._coordinator.all() if await self._feeds.find() else []

    # ---- on whichever node -------------------------------------------------------------------------------------------

    def has_open(self, producer_id: int, epoch: int, topic_id: str, partition: int) -> bool:
        """Whether the producer has a transaction open that names the partition, as far as this node knows."""
        return self.outcomes.has_open(producer_id, epoch, topic_id, partition)

    def known(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[tuple[str, int]],
        since: float,
    ) -> Transaction | None:
        """The open transaction of this epoch, from memory; None unless it names all these partitions (topic id, index),
        or what is known may be older than `since`, by the loop's time.

        Of protocol 2 it may be old: an epoch is one transaction, so what comes too late has its outcome.
        """
        if not self._feeds.exist:
            return None
        slot = self.slot_of(transactional_id)
        record = self.outcomes.record(slot, transactional_id)
        if record is None or (record.producer_id, record.epoch, record.status) != (producer_id, epoch, Status.OPEN):
            return None
        if record.protocol == 1 and not self._feeds.is_confirmed(slot, since):
            return None
        return Transaction(slot, record.identity) if all(record.names(*one) for one in partitions) else None

    async def find_open(self, producer_id: int) -> tuple[str, TransactionRecord] | None:
        """The transactional id of a producer id, with its record, if a transaction of it is open; as new as the call.

        KafkaError: COORDINATOR_NOT_AVAILABLE where that cannot be told now.
        """
        if not await self._feeds.find():
            return None
        try:
            await self._feeds.confirm_all()
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from None
        transactional_id = self.outcomes.id_of(producer_id)
        if transactional_id is None:
            return None
        record = self.outcomes.record(self.slot_of(transactional_id), transactional_id)
        return None if record is None or record.status is not Status.OPEN else (transactional_id, record)

    async def stamp(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[tuple[str, int]],
        since: float | None = None,
    ) -> Transaction:
        """The transaction that batches for these partitions (topic id, index) are of (protocol 1); as new as `since`,
        by the loop's time, else as the call.

        KafkaError: NOT_ENOUGH_REPLICAS where that cannot be told now, INVALID_PRODUCER_ID_MAPPING,
        INVALID_PRODUCER_EPOCH, or INVALID_TXN_STATE where none is open that names all of them.
        """
        try:
            transaction, record = await self._current(transactional_id, producer_id, since)
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                raise
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, error.message) from None
        if epoch != record.epoch:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if record.status is not Status.OPEN or not all(record.names(*partition) for partition in partitions):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "no transaction is open that has been told of the partition")
        return transaction

    async def stamp_group(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> Transaction:
        """The transaction that a group's offsets are of.

        KafkaError: COORDINATOR_NOT_AVAILABLE where that cannot be told now, INVALID_PRODUCER_ID_MAPPING,
        PRODUCER_FENCED, or INVALID_TXN_STATE where none is open that names the group.
        """
        transaction, record = await self._current(transactional_id, producer_id)
        if epoch != record.epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if record.status is not Status.OPEN or group not in record.groups:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "no transaction is open that has been told of the group")
        return transaction

    def refusal(
        self, transactional_id: str, transaction: Transaction, group: str, connection: Connection | None
    ) -> ErrorCode:
        """Why offsets of a group may not be committed in a transaction any more, if so; from memory, as the last step.

        Unanswered where a newer connection has committed offsets in transactions of the id.
        """
        record = self.outcomes.record(transaction.slot, transactional_id)
        if record is None or record.identity != transaction.identity:
            return ErrorCode.PRODUCER_FENCED
        if record.status is not Status.OPEN or group not in record.groups:
            return ErrorCode.INVALID_TXN_STATE
        if connection is not None and not self._committing.admit(transactional_id, connection, self._groups_taken_at):
            raise Unanswered(ErrorCode.NOT_COORDINATOR, "a newer connection commits offsets for this transactional id")
        if len(self._committing) > self._most_committing:
            self._committing.keep(lambda one: self.outcomes.record(self.slot_of(one), one) is not None)
        return ErrorCode.NONE

    async def _current(
        self, transactional_id: str, producer_id: int, since: float | None = None
    ) -> tuple[Transaction, TransactionRecord]:
        """The open transaction of an id, or its last, as new as `since`, else as the call."""
        if not await self._feeds.find():
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, _UNKNOWN)
        slot = self.slot_of(transactional_id)
        try:
            if since is None or not self._feeds.is_confirmed(slot, since):
                await self._feeds.confirm(slot)
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from None
        record = self.outcomes.record(slot, transactional_id)
        if record is None or record.producer_id != producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, _UNKNOWN)
        return Transaction(slot, record.identity), record

    # ---- for the parts -----------------------------------------------------------------------------------------------

    async def _confirm(self, slot: int) -> None:
        await self._feeds.confirm(slot)

    async def _confirm_all(self) -> None:
        await self._feeds.confirm_all()

    async def _producer_id(self) -> int:
        try:
            async with asyncio.timeout(_PRODUCER_ID_SECONDS):
                return await self._new_producer_id()
        except (KafkaError, TimeoutError) as error:
            _log.warning("! no producer id", extra={"error": str(error) or "Pulsar does not answer"})
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "there is no producer id now") from None
