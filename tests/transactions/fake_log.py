"""An owned log whose receipts, losses and confirms a test decides."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.owned_log import OwnedLog, OwnedState, Record, Stored


@dataclass
class Write:
    """One call of `store`."""

    slot: int
    records: Sequence[Record]
    stored: Stored


@dataclass
class FakeLog(OwnedLog):
    """Stores at once while `is_prompt`; else when the test says so."""

    count: int = 2
    is_prompt: bool = True
    state: OwnedState | None = None
    waiting: list[Write] = field(default_factory=list)
    written: list[Write] = field(default_factory=list)
    not_owned: set[int] = field(default_factory=set)
    confirms: int = 0
    confirm_error: ErrorCode = ErrorCode.NONE
    limit: int = 1000

    def take(self, slot: int, records: Sequence[Record] = ()) -> None:
        """This process takes a slot that holds these."""
        assert self.state is not None
        self.not_owned.discard(slot)
        self.state.reset(slot)
        for key, value in records:
            self.state.apply(slot, key, value, replaying=True)
        self.state.owned(slot)

    def lose(self, slot: int) -> None:
        """Another process takes it, as `Slot._forget`."""
        assert self.state is not None
        self.not_owned.add(slot)
        self.state.reset(slot)
        lost = [write for write in self.waiting if write.slot == slot]
        self.waiting = [write for write in self.waiting if write.slot != slot]
        for write in lost:
            write.stored.fail(KafkaError(ErrorCode.NOT_COORDINATOR))
            write.stored.settle()
        self.state.lost(slot)

    def receipt(self) -> Write:
        """Pulsar has stored the first that waits."""
        assert self.state is not None
        write = self.waiting.pop(0)
        for key, value in write.records:
            self.state.apply(write.slot, key, value, replaying=False)
        write.stored.settle()
        return write

    def too_late(self) -> Write:
        """The first has no receipt in time; it may come yet."""
        self.waiting[0].stored.fail(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no receipt in time"))
        return self.waiting[0]

    def never(self) -> Write:
        """The first is not stored, and that is known."""
        write = self.waiting.pop(0)
        write.stored.fail(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        write.stored.settle()
        return write

    # ---- OwnedLog ----

    def slot_of(self, name: str) -> int:
        return crc32(name.encode()) % self.count

    async def owned(self, slot: int) -> None:
        self.check(slot)

    async def all_owned(self) -> None:
        for slot in range(self.count):
            self.check(slot)

    async def confirm(self, slot: int) -> None:
        self.confirms += 1
        await asyncio.sleep(0)
        if self.confirm_error:
            raise KafkaError(self.confirm_error)
        self.check(slot)

    def check(self, slot: int) -> None:
        if slot in self.not_owned:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def store(self, slot: int, records: Sequence[Record], spare: int = 0) -> Stored:
        self.check(slot)
        if len(records) > self.limit:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        write = Write(slot, records, Stored())
        write.stored.left = 1
        self.waiting.append(write)
        self.written.append(write)
        if self.is_prompt:
            self.receipt()
        return write.stored
