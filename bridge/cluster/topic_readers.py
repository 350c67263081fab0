"""Reads the cluster's topics: where a node begins to read the view log, and one entry after another from there on."""

import asyncio
from collections.abc import Callable
from typing import Final

from bridge import log
from bridge.cluster.record_fields import InvalidClusterRecord
from bridge.cluster.record_format import decode
from bridge.cluster.records import Tick
from bridge.errors import BridgeError, CorruptEntry
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.connection import Backoff
from bridge.pulsar.consumer import Reader
from bridge.pulsar.types import EARLIEST, LATEST, Entry, Position

_log = log.get(__name__)

_TICK_DISTANCE: Final = 32
"""So many of the last records are searched for a tick: there is one each second, and other records are rare."""
_TURN: Final = 64
"""Entries that are handled before the event loop turns."""


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

    def __init__(self, client: PulsarClient, topic: str, on_entry: Callable[[Entry], None]) -> None:
        self._client = client
        self._topic = topic
        self._on_entry = on_entry
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
                reader = await self._client.reader(self._topic, position)
                position = reader.start
                backoff = Backoff()
                await self._read(reader)
            except (BridgeError, OSError) as error:
                _log.warning("! cluster topic not read", extra={"topic": self._topic, "reason": str(error)})
            finally:
                if reader is not None:
                    await reader.close()
            if self._last > position:
                position = self._last.after
            await asyncio.sleep(backoff.next())

    async def _read(self, reader: Reader) -> None:
        count = 0
        while True:
            try:
                entry = await reader.receive()
            except CorruptEntry as error:
                _log.warning("! cluster record unreadable", extra={"topic": self._topic, "reason": str(error)})
                continue
            self._last = entry.position
            self._on_entry(entry)
            if self._until is not None and entry.position >= self._until:
                self._tell_caught_up()
            count += 1
            if count % _TURN == 0:
                await asyncio.sleep(0)

    def _tell_caught_up(self) -> None:
        told, self._caught_up, self._until = self._caught_up, None, None
        if told is not None:
            told()
