"""Reading one entry, as cheaply as the protocol allows: subscribe, one permit, one entry, leave."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from bridge.errors import CorruptEntry
from bridge.pulsar import commands
from bridge.pulsar.attachment import Backoff
from bridge.pulsar.connection import Address, Connection
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.subscription import Access, parse_entry
from bridge.pulsar.types import EARLIEST, ConnectionLost, Entry, OperationTimeout, Position, PulsarError

# How long an entry may take to come before the broker is asked whether there is one.
_PATIENCE: Final = 0.1
# And one that is there, before it is asked whether it is kept from readers.
_LONG_SILENCE: Final = 1.0

Hidden = Callable[[Position, Position], Awaitable[bool]]
"""Whether all entries from one position to another are kept from readers."""
_REMEMBERED: Final = 10_000


class _OneEntry:
    """A consumer that waits for a single entry."""

    def __init__(self, future: "asyncio.Future[Entry | CorruptEntry]") -> None:
        self._future = future

    def message(self, message: pb.CommandMessage, body: memoryview) -> None:
        if not self._future.done():
            self._future.set_result(parse_entry(message, body))

    def detached(self, connection: Connection) -> None:
        if not self._future.done():
            self._future.set_exception(ConnectionLost("the broker closed the reader"))

    def reached_end(self) -> None:
        """Being told so does not mean that no entry is under way."""

    def active_changed(self, active: bool) -> None:
        """Of no interest."""


class EntryFetch:
    """Remembers which broker served a topic, and looks it up again only when that one refuses."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known: OrderedDict[str, Address] = OrderedDict()
        self._name = f"bridge-fetch-{secrets.token_hex(6)}"

    async def read(self, topic: str, position: Position, hidden: Hidden | None = None) -> Entry | None:
        """The first entry at or after the position; None when the topic ends before it; raises CorruptEntry."""
        backoff = Backoff()
        last: PulsarError = OperationTimeout(f"{topic}: no entry in time")
        try:
            async with asyncio.timeout(self._access.settings.operation_timeout_seconds):
                while True:
                    fresh = topic not in self._known
                    try:
                        return await self._read(await self._connection(topic), topic, position, hidden)
                    except PulsarError as error:
                        self._known.pop(topic, None)
                        last = error
                        if fresh and not error.retriable:
                            raise
                    if fresh:  # a stale memory deserves a second attempt at once
                        await asyncio.sleep(backoff.next())
        except TimeoutError:
            raise last from None

    async def _connection(self, topic: str) -> Connection:
        address = self._known.get(topic)
        if address is None:
            address = await self._access.lookup.find(topic)
            self._known[topic] = address
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return await self._access.pool.get(address)

    async def _read(
        self, connection: Connection, topic: str, position: Position, hidden: Hidden | None
    ) -> Entry | None:
        session = next(self._access.ids)
        future: asyncio.Future[Entry | CorruptEntry] = asyncio.get_running_loop().create_future()
        connection.consumers[session] = _OneEntry(future)
        try:
            await connection.request(
                lambda request_id: commands.subscribe(
                    request_id, session, topic, f"{self._name}-{session}", durable=False, start=position
                )
            )
            connection.write([commands.flow(session, 1)])
            entry = await self._wait(connection, session, future, position, hidden)
        finally:
            future.cancel()
            if connection.consumers.pop(session, None) is not None:
                connection.notify(lambda request_id: commands.close_consumer(request_id, session))
        if isinstance(entry, CorruptEntry):
            self._access.metrics.corrupt_entries.inc()
            raise entry
        if entry is not None:
            self._access.metrics.entries_read.inc()
            self._access.metrics.bytes_read.inc(entry.size)
        return entry

    async def _wait(
        self,
        connection: Connection,
        session: int,
        future: "asyncio.Future[Entry | CorruptEntry]",
        position: Position,
        hidden: Hidden | None,
    ) -> Entry | CorruptEntry | None:
        """Silence alone proves nothing: a topic just loaded may take its time. The broker is asked for the end."""
        done, _ = await asyncio.wait((future,), timeout=_PATIENCE)
        if not done:
            answer = await connection.request(lambda request_id: commands.last_message_id(request_id, session))
            end = Position.of(answer.get_last_message_id_response.last_message_id)
            if end < position or end == EARLIEST:
                return future.result() if future.done() else None
            if hidden is not None:
                done, _ = await asyncio.wait((future,), timeout=_LONG_SILENCE)
                if not done and await hidden(position, end) and not future.done():
                    return None
        return await future
