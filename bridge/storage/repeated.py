"""Finds in the log what was stored already: batches sent again whose receipts, or whose offsets, were lost."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.types import Entry, Position
from bridge.storage import entries
from bridge.storage.faults import translated
from bridge.storage.offsets import span
from bridge.storage.sealing import Sealed
from bridge.storage.search import Search

_PATIENCE = 3.0  # seconds; a busy disk may take one or two to store what the broker has taken
_PAUSE = 0.05
_SILENCE = 1.0  # seconds that an entry may take before it is asked whether it will ever come
_NEAR, _FURTHER, _FARTHEST = 32, 8, 2048  # entries looked back over: at first, times more each turn, at most


class NotStoredYet(KafkaError):
    """Pulsar knows a batch that is not in the log: it may come to be, or it failed; retriable."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Pulsar has taken this batch and not stored it yet")


@dataclass(slots=True)
class _Sighting:
    """What the entries met say of the sequences `first` … `last` of one idempotent producer."""

    producer: tuple[int, int]
    first: int
    last: int
    base: int | None = None
    """The offset of `first`, also in an entry cut otherwise: sequences are as consecutive as offsets."""
    end_seen: bool = False
    later_seen: bool = False

    def take(self, entry: Entry) -> bool:
        """Look at one entry, in the order of the log; True when nothing more can be learnt."""
        producer_id, epoch, sequence = entries.producer_of(entry.metadata)
        if (producer_id, epoch) == self.producer and entry.index is not None:
            count = entries.message_count(entry.metadata)
            if 0 <= self.first - sequence < count:
                self.base = span(entry.index, count).base + self.first - sequence
            self.end_seen |= 0 <= self.last - sequence < count
            self.later_seen |= sequence > self.last
        return self.end_seen or self.later_seen


class Stored:
    """What one partition holds, looked at entry by entry."""

    def __init__(self, topic: str, client: PulsarClient, search: Search) -> None:
        self._topic = topic
        self._client = client
        self._search = search

    async def repeated(self, sealed: Sealed) -> int:
        """The base offset of a batch that an idempotent producer repeats and nobody remembers; it cannot be far back.

        Pulsar counts a batch as known before it is stored, so it may have to be waited for. That it is stored is
        believed only when its records, or later ones, are seen: NotStoredYet else, and the client has to come again.
        DUPLICATE_SEQUENCE_NUMBER where only later ones are.
        """
        producer_id, epoch, first = sealed.producer
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        back = _NEAR
        with translated():
            while loop.time() < deadline:
                sighting = _Sighting((producer_id, epoch), first, first + sealed.record_count - 1)
                await self.first(await self._search.back(back), sighting.take)
                if sighting.end_seen and sighting.base is not None:
                    return sighting.base
                if back == _FARTHEST:
                    if sighting.end_seen or sighting.later_seen:
                        text = "stored already, at an offset no longer known"
                        raise KafkaError(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, text)
                    await asyncio.sleep(_PAUSE)
                back = min(back * _FURTHER, _FARTHEST)
        raise NotStoredYet

    async def first(self, start: Position, wanted: Callable[[Entry], bool]) -> Entry | None:
        """The first entry behind `start` that is wanted; None when the last one stored by now is not."""
        reader = await self._client.reader(self._topic, start, inclusive=False)
        try:
            last = await reader.last_position()
            position = start
            while position < last:
                try:
                    async with asyncio.timeout(_SILENCE):
                        entry = await reader.receive()
                except TimeoutError:
                    if await self._search.markers.only(position.after, last):
                        break
                    continue
                position = entry.position
                if wanted(entry):
                    return entry
        finally:
            await reader.close()
        return None
