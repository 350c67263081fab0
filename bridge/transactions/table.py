"""What this process knows of the transactions of one namespace: all slots, and who waits for what to be decided.

A slot's records come from the owned log where this process holds it, else from a follower (`feeds`). Neither empties
what readers see: it is loaded beside, and then takes the place of what was known.

An outcome that is not known is open. Who waits for it has the slot confirmed at once, and again each second. What has
no record when a confirm answers that began later than the question was committed: its record stood in the log before
its first entry, and has expired since.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from typing import Final

from bridge.errors import KafkaError
from bridge.runtime.futures import loop_time
from bridge.storage.visibility import Identity, OpenTransaction, Outcome, Transaction
from bridge.telemetry import log
from bridge.transactions.aborted import AbortedRecords
from bridge.transactions.slot_table import SlotCopy, SlotTable
from bridge.transactions.state import Status, TransactionRecord

_log = log.get(__name__)

MAX_SLOTS: Final = 1024
"""A slot beyond it is none: there is nothing to be known of it."""
_HEAL_SECONDS: Final = 1.0


class _Watch:
    """Who waits for one transaction."""

    def __init__(self) -> None:
        self.since = loop_time()
        self.callbacks: list[Callable[[], None]] = []


class _Held:
    """A slot as the owned log tells of it."""

    def __init__(self) -> None:
        self.loading: SlotCopy | None = None
        self.is_owned = False
        self.taken_at = -inf


class Table:
    """All slots of one namespace (`visibility.Outcomes`, `owned_log.OwnedState`)."""

    def __init__(
        self, confirm_slot: Callable[[int], Awaitable[None]], confirm_all: Callable[[], Awaitable[None]]
    ) -> None:
        """They return when all is known that was recorded before the call, or raise KafkaError."""
        self._confirm_slot = confirm_slot
        self._confirm_all = confirm_all
        self.on_owned: list[Callable[[int], None]] = []
        self.on_lost: list[Callable[[int], None]] = []
        """Called with a slot."""
        self._slots: dict[int, SlotTable] = {}
        self._held: defaultdict[int, _Held] = defaultdict(_Held)
        self._watched: dict[int, dict[Identity, _Watch]] = {}
        self._touched: set[int] = set()
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._ask_again: set[int] = set()
        self._healing: asyncio.TimerHandle | None = None

    async def close(self) -> None:
        """Ask no more."""
        self._watched.clear()
        if self._healing is not None:
            self._healing.cancel()
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    # ---- for readers (visibility.Outcomes) ---------------------------------------------------------------------------

    def outcome(self, transaction: Transaction) -> Outcome:
        """How it stands, from memory."""
        if not 0 <= transaction.slot < MAX_SLOTS:
            return Outcome.COMMITTED
        slot = self._slots.get(transaction.slot)
        return Outcome.OPEN if slot is None else slot.outcome(transaction.identity)

    def watch(self, transaction: Transaction, decided: Callable[[], None]) -> None:
        """Call back once it is decided; what is not known is asked for."""
        if self.outcome(transaction) is not Outcome.OPEN:
            asyncio.get_running_loop().call_soon(_call, decided)
            return
        index, identity = transaction
        watch = self._watched.setdefault(index, {}).setdefault(identity, _Watch())
        watch.callbacks.append(decided)
        if self._slot(index).is_in_doubt(identity):
            self._ask(index)
        if self._healing is None:
            self._healing = asyncio.get_running_loop().call_later(_HEAL_SECONDS, self._heal)

    def open_in(self, topic_id: str, partition: int) -> Sequence[OpenTransaction]:
        """The open transactions that name a partition."""
        return [one for slot in self._slots.values() for one in slot.open_in(topic_id, partition)]

    async def confirm(self) -> None:
        """Return when all slots show what was recorded before the call."""
        met = {slot: list(watched) for slot, watched in self._watched.items()}
        await self._confirm_all()
        for slot, identities in met.items():
            self._slot(slot).confirmed(identities)
            self._look(slot)

    def has_open(self, producer_id: int, epoch: int, topic_id: str, partition: int) -> bool:
        """Whether a producer has a transaction open that names the partition, as far as this process knows; not if this
        `epoch` is older than that one's."""
        for slot in self._slots.values():
            record = None if slot.outcomes is None else slot.outcomes.record_of(producer_id)
            if record is not None:
                is_open = record.status is Status.OPEN and record.epoch <= epoch
                return is_open and record.names(topic_id, partition)
        return False

    def id_of(self, producer_id: int) -> str | None:
        """The transactional id whose record has this producer id, as far as this process knows."""
        known = (None if slot.outcomes is None else slot.outcomes.id_of(producer_id) for slot in self._slots.values())
        return next((one for one in known if one is not None), None)

    # ---- for the coordinator -----------------------------------------------------------------------------------------

    def record(self, slot: int, transactional_id: str) -> TransactionRecord | None:
        """The newest record that is known."""
        return self.records(slot).get(transactional_id)

    def records(self, slot: int) -> Mapping[str, TransactionRecord]:
        """All of a slot."""
        return self._slot(slot).records

    def is_readable(self, slot: int, transactional_id: str) -> bool:
        """Whether the id's newest record is of a version that is known here."""
        known = self._slot(slot).outcomes
        return known is None or known.is_readable(transactional_id)

    def open_records(self, slot: int) -> Iterator[tuple[str, TransactionRecord]]:
        """The ids of a slot that have an open transaction."""
        known = self._slot(slot).outcomes
        return iter(()) if known is None else known.open_records()

    def aborted_records(self, slot: int) -> AbortedRecords | None:
        """What is stored of the aborted transactions of a slot that is owned."""
        known = self._slot(slot).outcomes
        return None if known is None else known.aborted_records

    def known_slots(self) -> list[int]:
        """Those of which there is something to know, whoever coordinates them."""
        return list(self._slots)

    def owned_slots(self) -> list[int]:
        """The slots that this process coordinates."""
        return [slot for slot, held in self._held.items() if held.is_owned]

    def taken_at(self, slot: int) -> float:
        """When this process took a slot, by the loop's time."""
        return self._held[slot].taken_at

    def count(self) -> int:
        """How many transactional ids there are, in all slots."""
        return sum(len(slot.records) for slot in self._slots.values())

    def count_open(self) -> int:
        """How many transactions are open, in all slots."""
        return sum(slot.outcomes.count_open() for slot in self._slots.values() if slot.outcomes is not None)

    def count_aborted(self, slot: int) -> int:
        """How many records a slot has of aborted transactions."""
        known = self._slot(slot).outcomes
        return 0 if known is None else known.aborted.live()

    # ---- for the owned log (owned_log.OwnedState) --------------------------------------------------------------------

    def reset(self, slot: int) -> None:
        """Begin a copy: the slot is taken and about to be read, or is lost, and `lost` drops it."""
        held = self._held[slot]
        held.loading = SlotCopy(held=True)
        held.taken_at = loop_time()

    def apply(self, slot: int, key: str, value: bytes | None, *, replaying: bool) -> None:
        """A record is stored, or read while the slot is loading."""
        copy = self._held[slot].loading or self._slot(slot).copy
        if copy is not None:
            copy.apply(key, value)
        if not replaying:
            self.touch(slot)

    def live_records(self, slot: int) -> int:
        """Of the copy that is being made, or of what is known."""
        copy = self._held[slot].loading or self._slot(slot).copy
        return 0 if copy is None else copy.outcomes.live()

    def owned(self, slot: int) -> None:
        """This process coordinates the slot's ids."""
        held = self._held[slot]
        loading, held.loading, held.is_owned = held.loading, None, True
        if loading is not None:
            self.show(slot, loading)
        for callback in self.on_owned:
            callback(slot)

    def lost(self, slot: int) -> None:
        """Another process may coordinate the slot's ids; what is known of them stays until it is followed."""
        held = self._held[slot]
        held.loading, held.is_owned = None, False
        for callback in self.on_lost:
            callback(slot)

    # ---- for both feeds ----------------------------------------------------------------------------------------------

    def show(self, slot: int, copy: SlotCopy) -> None:
        """A copy of a slot is complete, and newer than what was known."""
        self._slot(slot).copy = copy
        self.touch(slot)

    def touch(self, slot: int) -> None:
        """More is known of a slot. Who waits looks when an entry is applied as a whole: only together its records say
        how a transaction stands."""
        if slot in self._watched:
            if not self._touched:
                asyncio.get_running_loop().call_soon(self._look_at_touched)
            self._touched.add(slot)

    def _slot(self, index: int) -> SlotTable:
        slot = self._slots.get(index)
        if slot is None:
            slot = self._slots[index] = SlotTable(index)
        return slot

    # ---- who waits ---------------------------------------------------------------------------------------------------

    def _look_at_touched(self) -> None:
        touched, self._touched = self._touched, set()
        for slot in touched:
            self._look(slot)
            # the last commit of a producer id leaves no record of it: who waits has to be told so
            if any(self._slot(slot).is_unknown(one) for one in self._watched.get(slot, ())):
                self._ask(slot)

    def _look(self, slot: int) -> None:
        watched = self._watched.get(slot, {})
        for identity in [one for one in watched if self._slot(slot).outcome(one) is not Outcome.OPEN]:
            for decided in watched.pop(identity).callbacks:
                _call(decided)
        if not watched:
            self._watched.pop(slot, None)

    def _heal(self) -> None:
        self._healing = None
        if self._watched:
            self._healing = asyncio.get_running_loop().call_later(_HEAL_SECONDS, self._heal)
        before = loop_time() - _HEAL_SECONDS
        for slot, watched in self._watched.items():
            if any(one.since <= before for one in watched.values()):
                self._ask(slot)

    def _ask(self, slot: int) -> None:
        """Have a slot confirmed by a question that begins from now on."""
        if slot in self._asking:
            self._ask_again.add(slot)
            return
        task = self._asking[slot] = asyncio.get_running_loop().create_task(self._asked(slot))
        task.add_done_callback(partial(self._answered, slot))

    async def _asked(self, slot: int) -> None:
        met = list(self._watched.get(slot, ()))
        try:
            await self._confirm_slot(slot)
        except KafkaError as error:
            _log.debug("! transactions not confirmed", extra={"slot": slot, "reason": str(error)})
            return
        self._slot(slot).confirmed(met)
        self._look(slot)

    def _answered(self, slot: int, task: "asyncio.Task[None]") -> None:
        del self._asking[slot]
        if task.cancelled():
            return
        if (bug := task.exception()) is not None:
            _log.error("! transactions not confirmed", exc_info=bug)
        if slot in self._ask_again:
            self._ask_again.discard(slot)
            self._ask(slot)


def _call(decided: Callable[[], None]) -> None:
    try:
        decided()
    except Exception as bug:  # noqa: BLE001 - the others wait as well
        _log.error("! a reader failed when its transaction was decided", exc_info=bug)
