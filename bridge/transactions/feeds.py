"""Where the table of one namespace gets its records: the owned log for the slots held here, followers for the others.

The topic is made by the first client that looks for a transaction's coordinator. Until then there is nothing to follow,
and to be sure of that is one question to Pulsar's broker. Another node may make the topic at any time: so each confirm
asks, until it is there.
"""

import asyncio
import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from math import inf
from typing import Final

from bridge.config import Settings
from bridge.errors import BridgeError, KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.owned_log import Follower, OwnedLog, OwnedLogError, Record
from bridge.pulsar.admin import Admin, NotFound
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.connection import Backoff
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import PulsarError
from bridge.runtime.futures import SharedQuery, gathered, loop_time
from bridge.telemetry import log
from bridge.telemetry.metrics import TransactionMetrics
from bridge.transactions.errors import kafka_error
from bridge.transactions.slot_table import SlotCopy
from bridge.transactions.table import Table

_log = log.get(__name__)

TOPIC: Final = "transactions"
_LOAD_SECONDS: Final = 30.0
"""At a start. What is not loaded by then is open for readers, who wait."""


class Feeds:
    """Feeds one table."""

    def __init__(
        self,
        client: PulsarClient,
        admin: Admin,
        settings: Settings,
        metrics: TransactionMetrics,
        table: Table,
        group_slots: Callable[[], int],
    ) -> None:
        """`group_slots`: how many the views of the nodes have: who has one of them has the slots that go with it."""
        self._client = client
        self._admin = admin
        self._metrics = metrics
        self._table = table
        self._group_slots = group_slots
        self._topic = settings.pulsar.state_topic(TOPIC)
        self.log = OwnedLog(
            client,
            admin,
            self._topic,
            table,
            slots=settings.transactions.slots,
            owner=f"bridge-{secrets.token_hex(8)}",
            compact_after=settings.transactions.compact_after_writes,
            max_pending_bytes=settings.pulsar.max_pending_bytes,
            metrics=metrics,
            translate=kafka_error,
        )
        self._followers: dict[int, Follower[SlotCopy]] = {}
        self._loaded: dict[int, asyncio.Future[None]] = {}
        self._confirmed: dict[int, float] = {}
        """When the last confirm of each slot began that has returned."""
        self._closing: set[asyncio.Task[None]] = set()
        self._mine: Collection[int] = ()
        self._orphaned: Collection[int] = ()
        self._look = SharedQuery(self._look_for_topic)
        self._make = SharedQuery(self._make_topic)
        self._starting = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False
        table.on_owned.append(self._owned)
        table.on_lost.append(self._lost)

    @property
    def exist(self) -> bool:
        """Whether the topic is there, as far as is known."""
        return bool(self.log.slots)

    async def open(self) -> None:
        """Load what there is, unless that takes long: readers wait for what is not loaded."""
        try:
            if not await self.find():
                return
        except KafkaError as error:
            _log.warning("! transactions not loaded yet", extra={"reason": str(error)})
            return
        await asyncio.wait(self._loaded.values(), timeout=_LOAD_SECONDS)
        late = [slot for slot, loaded in self._loaded.items() if not loaded.done()]
        if late:
            _log.warning("! transactions not loaded yet", extra={"slots": late})

    async def close(self) -> None:
        """Store what is under way, and release everything."""
        self._is_closed = True
        self._stop_looking()
        await self.log.close()
        await asyncio.gather(*(follower.close() for follower in self._followers.values()), return_exceptions=True)
        self._followers.clear()
        if self._closing:
            await asyncio.wait(self._closing)

    async def find(self) -> bool:
        """Whether there is the topic, asked now unless it was known; KafkaError where Pulsar cannot be asked."""
        return self.exist or await self._look.look()

    async def make(self) -> None:
        """Make the topic if there is none; KafkaError where that cannot be."""
        if not self.exist:
            await self._make.look()

    def assign(self, mine: Collection[int], orphaned: Collection[int]) -> None:
        """Hold what goes with these group slots of the views."""
        self._mine, self._orphaned = mine, orphaned
        if self.exist:
            self._assign()
        elif mine and not self._is_closed:
            # the node that had these may have made the topic, and what is open there has nobody else to abort it
            self._stop_looking()
            self._looking = asyncio.get_running_loop().create_task(self._keep_looking())

    def group_slot_of(self, slot: int) -> int:
        """The group slot whose owner holds a slot."""
        return slot % max(self._group_slots(), 1)

    async def confirm(self, slot: int) -> None:
        """Return when the table shows what was recorded in a slot before the call; at once where there is none.

        KafkaError where that cannot be told in time.
        """
        if not await self.find() or not 0 <= slot < len(self.log.slots):
            return
        began = loop_time()
        follower = self._followers.get(slot)
        try:
            if follower is not None:
                await follower.confirm()
        except OwnedLogError as error:
            if slot in self._followers:
                raise kafka_error(error) from None
            follower = None  # the slot came to be held here meanwhile
        if follower is None:
            await self.log.confirm(slot)
        self._confirmed[slot] = max(began, self._confirmed.get(slot, began))
        self._metrics.confirm_seconds.observe(loop_time() - began)

    def is_confirmed(self, slot: int, since: float) -> bool:
        """Whether a confirm that began after `since`, by the loop's time, has returned: what the table shows only
        grows."""
        return self._confirmed.get(slot, -inf) > since

    async def confirm_all(self) -> None:
        """The same for all slots."""
        if await self.find():
            await gathered(map(self.confirm, range(len(self.log.slots))))

    # ---- what may be wrong or old ------------------------------------------------------------------------------------

    def reload(self, slot: int) -> bool:
        """Have a slot read again that another process holds; False where it is held here, or is being read already."""
        follower = self._followers.get(slot)
        return follower is not None and follower.reload()

    def age(self) -> float | None:
        """For how many seconds the table may have lacked what is recorded elsewhere; None while no slots are known."""
        if not self.exist:
            return None
        now = loop_time()
        behind = [since for one in self._followers.values() if (since := one.behind_since) is not None]
        return now - min(behind, default=now)

    async def ask_again(self) -> None:
        """Ask again where the last question has no answer: by now there may be one, and nobody else may ask."""

        async def ask(follower: Follower[SlotCopy]) -> None:
            with suppress(OwnedLogError):
                await follower.confirm()

        await gathered(ask(follower) for follower in list(self._followers.values()) if follower.is_unanswered)

    # ---- the topic ---------------------------------------------------------------------------------------------------

    async def _keep_looking(self) -> None:
        """Look until Pulsar has answered."""
        backoff = Backoff()
        while True:
            with suppress(KafkaError):
                await self.find()
                return
            await asyncio.sleep(backoff.next())

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _look_for_topic(self) -> bool:
        if self.exist:
            return True
        try:
            if not await self._partitions():
                return False
        except (BridgeError, OSError) as error:  # TimeoutError is an OSError
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None
        await self._make_topic()
        return True

    async def _partitions(self) -> int:
        """How many the topic has; 0 where there is none."""
        try:
            return await self._client.partitions(self._topic)
        except PulsarError as error:
            if error.code == pb.TopicNotFound:
                return 0
            if error.code != pb.UnsupportedVersionError:  # an old broker would create it
                raise
        try:
            return (await self._admin.partitioned_metadata(self._topic)).partitions
        except NotFound:
            return 0

    async def _make_topic(self) -> None:
        async with self._starting:
            if self.exist or self._is_closed:
                return
            try:
                await self.log.start()
            except (BridgeError, OSError) as error:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None
            if not self._is_closed:
                for slot in range(len(self.log.slots)):
                    self._follow(slot)
                self._assign()

    # ---- who feeds which slot ----------------------------------------------------------------------------------------

    def _assign(self) -> None:
        slots = range(len(self.log.slots))
        self.log.assign(
            [slot for slot in slots if self.group_slot_of(slot) in self._mine],
            orphaned=[slot for slot in slots if self.group_slot_of(slot) in self._orphaned],
        )

    def _owned(self, slot: int) -> None:
        """The table has the log's copy."""
        follower = self._followers.pop(slot, None)
        if follower is not None:
            closing = asyncio.get_running_loop().create_task(follower.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _lost(self, slot: int) -> None:
        if not self._is_closed:
            self._follow(slot)

    def _follow(self, slot: int) -> None:
        loaded = self._loaded.setdefault(slot, asyncio.get_running_loop().create_future())

        def swapped(copy: SlotCopy) -> None:
            if self._followers.get(slot) is not follower:
                return  # it is being closed: the slot is held here, and the log's copy is newer
            self._table.show(slot, copy)
            if follower.copies > 1:
                self._metrics.reloads.inc()
            if not loaded.done():
                loaded.set_result(None)

        def applied(_: Sequence[Record]) -> None:
            self._table.touch(slot)

        topic, metrics = f"{self._topic}-partition-{slot}", self._metrics
        follower = Follower(slot, topic, self._client, self._admin, metrics, SlotCopy, swapped, applied)
        self._followers[slot] = follower
        follower.start()
