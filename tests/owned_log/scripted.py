"""A slot in memory that is compacted, trimmed and read badly at moments that a test chooses, as its follower sees it.

A compacted read goes by the compacted ledger of the moment, entry by entry, as Pulsar's does.
"""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from bridge.errors import CorruptEntry
from bridge.owned_log import Record
from bridge.owned_log.batch import pack, unpack
from bridge.pulsar.types import EARLIEST, ClientClosed, Entry, Position
from tests.owned_log.following import Following


class ScriptedSlot:
    """The slot, and the client and the admin interface of who follows it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.skipped: set[Position] = set()
        """Entries that raw readers do not get."""
        self.corrupt: set[Position] = set()
        self.before_read: list[Any] = []
        """Called one after another, each before an entry of a compacted read."""
        self.loads = 0
        self.open = 0
        self.changed = asyncio.Event()
        self.compacted_ledger = -1
        self.last = EARLIEST
        self._compacted: list[Entry] = []
        self._horizon = EARLIEST
        self._ledger = 1
        self._index = -1

    def write(self, *records: Record, producer: str = "p", messages: int = 0) -> Position:
        """Store an entry; `messages`: for how many more the broker counts it."""
        self.last = Position(self._ledger, self.last.entry + 1 if self.last.ledger == self._ledger else 0)
        self._index += len(records) + messages
        self.entries.append(_entry(self.last, self._index, producer, records))
        self._wake()
        return self.last

    def put(self, key: str, value: bytes | None) -> Position:
        return self.write(Record(key, value))

    def compact(self) -> None:
        """Keep the last value of each key, and no deletion."""
        latest: dict[str, Position] = {}
        whole = [entry for entry in self._compacted if not self.entries or entry.position < self.entries[0].position]
        whole += self.entries
        for entry in whole:
            for record in unpack(entry.metadata, entry.payload):
                latest[record.key] = entry.position
        self._compacted = []
        for entry in whole:
            kept = [
                record
                for record in unpack(entry.metadata, entry.payload)
                if record.value is not None and latest[record.key] == entry.position
            ]
            if kept:
                assert entry.index is not None
                self._compacted.append(_entry(entry.position, entry.index, entry.metadata.producer_name, kept))
        self._horizon = self.last
        self.compacted_ledger += 1
        self._wake()

    def roll_over(self) -> None:
        self._ledger += 1

    def trim(self) -> None:
        """Drop all entries that are compacted and lie in a ledger that is closed."""
        self.entries = [
            entry for entry in self.entries if entry.position > self._horizon or entry.position.ledger == self._ledger
        ]

    def after(self, position: Position, *, compacted: bool) -> Entry | None:
        """The next entry of a read."""
        entries = [entry for entry in self.entries if not compacted or entry.position > self._horizon]
        if compacted:
            entries = self._compacted + entries
        found = (one for one in entries if one.position > position and (compacted or one.position not in self.skipped))
        return next(found, None)

    # --- as Pulsar -------------------------------------------------------------------------------------------------

    async def last_position(self, topic: str = "") -> Position:
        return self.entries[-1].position if self.entries else EARLIEST

    async def reader(self, topic: str, start: Position, *, read_compacted: bool = False) -> Any:
        self.loads += read_compacted
        return _Reader(self, start if start == EARLIEST else start.before, read_compacted)

    async def internal_stats(self, topic: str) -> Any:
        return SimpleNamespace(compacted_ledger=self.compacted_ledger, last_confirmed=self.last)

    def _wake(self) -> None:
        self.changed, changed = asyncio.Event(), self.changed
        changed.set()


class _Reader:
    def __init__(self, slot: ScriptedSlot, position: Position, compacted: bool) -> None:
        self._slot, self._position, self._compacted = slot, position, compacted
        self._closed = asyncio.Event()
        slot.open += 1

    async def receive(self) -> Entry:
        if self._compacted and self._slot.before_read:
            self._slot.before_read.pop(0)()
        while (entry := self._slot.after(self._position, compacted=self._compacted)) is None:
            await self._slot.changed.wait()
            if self._closed.is_set():
                raise ClientClosed("the reader")
        if self._closed.is_set():
            raise ClientClosed("the reader")
        self._position = entry.position
        if entry.position in self._slot.corrupt and not self._compacted:
            raise CorruptEntry("damaged", entry.position)
        return entry

    async def last_position(self) -> Position:
        if not self._compacted:
            return await self._slot.last_position()
        position = EARLIEST
        while (entry := self._slot.after(position, compacted=True)) is not None:
            position = entry.position
        return position

    checked_last_position = last_position

    async def close(self) -> None:
        self._closed.set()
        self._slot.open -= 1
        self._slot._wake()


def _entry(position: Position, index: int, producer: str, records: Sequence[Record]) -> Entry:
    metadata, payload = pack(records)
    metadata.producer_name, metadata.sequence_id, metadata.publish_time = producer, index, 0
    return Entry(position, index, None, metadata, memoryview(payload), len(payload))


def follow(slot: ScriptedSlot) -> Following:
    return Following("slot", cast(Any, slot), cast(Any, slot))
