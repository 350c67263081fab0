"""Reads the cluster's topics: where a node begins to read the view log, and one entry after another from there on."""

import asyncio
from collections.abc import Callable
from typing import Final

from bridge.cluster.membership.record_fields import InvalidClusterRecord
from bridge.cluster.membership.record_format import decode
from bridge.cluster.membership.records import Tick
from bridge.errors import BridgeError, CorruptEntry
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.connection import Backoff
from bridge.pulsar.consumer import Reader
from bridge.pulsar.types import EARLIEST, LATEST, Entry, Position
from bridge.telemetry import log

_log = log.get(__name__)

_TICK_DISTANCE: Final = 32
"""So many of the last records are searched for a tick: there is one each second, and other records are rare."""
_TURN: Final = 64
"""Entries that are handled before the event loop turns."""
_TURN_OF_BATCHES: Final = 4
"""The same, of a compacted topic: its entries have many records."""


async def start_of_log(client: PulsarClient, topic: str) -> tuple[Tick | None, Position]:
    """The newest tick among the last records, and the log's last record; `EARLIEST` if it has none."""
    end = await client.last_position(topic)
    if end == EARLIEST:
        return None, end
    for back in range(min(_TICK_DISTANCE, end.entry + 1)):
        try:
            entry = await client.read_entry(topic, Position(end.ledger, end.entry - back))
            record = None if entry is None else decode(entry.payload)
        except (CorruptEntry, InvalidClusterRecord):
            continue
        if isinstance(record, Tick):
            return record, end
    return None, end


class TopicFollower:
    """Hands over a topic's entries in their order; opens its reader again whatever ends it."""

    def __init__(
        self,
        client: PulsarClient,
        topic: str,
        on_entry: Callable[[Entry], None],
        on_begin: Callable[[], None] | None = None,
    ) -> None:
        """`on_begin`: the topic is compacted, and read as a whole again after each gap, in which a compaction may have
        dropped what deletes a key. It is called when what was handed over so far is no longer gone on with."""
        self._client = client
        self._topic = topic
        self._on_entry = on_entry
        self._on_begin = on_begin
        self._task: asyncio.Task[None] | None = None
        self._until: Position | None = None
        self._caught_up: Callable[[], None] | None = None
        self._last = EARLIEST

    def start(self, start: Position | None, *, until: Position, caught_up: Callable[[], None]) -> None:
        """Read from here on (None: the earliest); `caught_up` is called once when `until` was read."""
        self._until, self._caught_up = until, caught_up
        self._begin(EARLIEST if start is None else start)

    def start_at_end(self) -> None:
        """Read what is stored from now on."""
        self._begin(LATEST)

    def restart(self, start: Position) -> None:
        """Read again from here on."""
        self._begin(start)

    def _begin(self, start: Position) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._on_begin is not None:
            self._on_begin()
        self._last = EARLIEST
        self._task = asyncio.get_running_loop().create_task(self._follow(start), name=f"follow {self._topic}")

    def stop(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """As `stop`, and wait until the reader is closed."""
        self.stop()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self, start: Position) -> None:
        backoff = Backoff()
        position = start
        while True:
            reader: Reader | None = None
            try:
                if self._until == EARLIEST:
                    self._tell_caught_up()  # there is nothing to catch up with
                reader = await self._open(position)
                position = reader.start
                backoff = Backoff()
                await self._read(reader)
            except (BridgeError, OSError) as error:
                _log.warning("! cluster topic not read", extra={"topic": self._topic, "reason": str(error)})
            finally:
                if reader is not None:
                    await reader.close()
            if self._on_begin is not None:
                position = start
            elif self._last > position:
                position = self._last.after
            await asyncio.sleep(backoff.next())

    async def _open(self, position: Position) -> Reader:
        if self._on_begin is None:
            return await self._client.reader(self._topic, position)
        reader = await self._client.reader(self._topic, position, read_compacted=True)
        task = asyncio.current_task()

        def on_attachment(attached: bool) -> None:
            if attached and task is not None and not task.cancelling():
                self._begin(position)

        self._on_begin()
        reader.on_attachment = on_attachment
        return reader

    async def _read(self, reader: Reader) -> None:
        count = 0
        task = asyncio.current_task()
        turn = _TURN if self._on_begin is None else _TURN_OF_BATCHES
        while True:
            try:
                entry = await reader.receive()
                self._last = entry.position
                self._on_entry(entry)
            except CorruptEntry as error:
                _log.warning("! cluster record unreadable", extra={"topic": self._topic, "reason": str(error.args[0])})
                self._last = error.args[1]
            count += 1
            if count % turn == 0 or (task is not None and task.cancelling()):  # by what the entry led to
                await asyncio.sleep(0)
            if self._until is not None and self._last >= self._until:
                self._tell_caught_up()

    def _tell_caught_up(self) -> None:
        told, self._caught_up, self._until = self._caught_up, None, None
        if told is not None:
            told()
