"""Reading one entry, as cheaply as the protocol allows: subscribe, one permit, one entry, leave."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from bridge.errors import CorruptEntry
from bridge.pulsar import commands
from bridge.pulsar.connection.broker_connection import Address, BrokerConnection
from bridge.pulsar.connection.context import ClientContext
from bridge.pulsar.connection.reconnecting import Backoff
from bridge.pulsar.consumer.subscription import parse_entry
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, LATEST, ConnectionLost, Entry, OperationTimeout, Position, PulsarError

_Answer = TypeVar("_Answer")

# How long an entry may take to come before the broker is asked whether there is one.
_ENTRY_TIMEOUT_SECONDS: Final = 0.1
# And one that is there, before it is asked whether it is kept from readers.
_HIDDEN_CHECK_AFTER_SECONDS: Final = 1.0
# So often it is asked whether it has passed over all that follows.
_PASSED_OVER_CHECKS: Final = 10

IsHidden = Callable[[Position, Position], Awaitable[bool]]
"""Whether all entries from one position to another are kept from readers."""
_MAX_KNOWN_BROKERS: Final = 10_000


class _SingleEntryConsumer:
    """A consumer that waits for a single entry."""

    def __init__(self, future: "asyncio.Future[Entry | CorruptEntry]") -> None:
        self._future = future

    def message(self, message: pb.CommandMessage, body: memoryview) -> None:
        if not self._future.done():
            self._future.set_result(parse_entry(message, body))

    def detached(self, connection: BrokerConnection) -> None:
        if not self._future.done():
            self._future.set_exception(ConnectionLost("the broker closed the reader"))

    def reached_end(self) -> None:
        """Being told so does not mean that no entry is under way."""

    def active_changed(self, active: bool) -> None:
        """Of no interest."""


class EntryFetch:
    """Remembers which broker served a topic, and looks it up again only when that one refuses."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._known: OrderedDict[str, Address] = OrderedDict()
        self._name = f"bridge-fetch-{secrets.token_hex(6)}"

    async def read(self, topic: str, position: Position, hidden: IsHidden | None = None) -> Entry | None:
        """The first entry at or after the position; None when the topic ends before it; raises CorruptEntry."""
        return await self._ask(topic, lambda connection: self._read(connection, topic, position, hidden))

    async def is_passed_over(self, topic: str, position: Position) -> bool:
        """Whether readers get no entry from this position on: the broker keeps all from them, or there is none."""
        return await self._ask(topic, lambda connection: self._is_passed_over(connection, topic, position))

    async def last(self, topic: str) -> Position:
        """The position of the last readable entry; (-1, -1) = there is none."""
        return await self._ask(topic, lambda connection: self._last(connection, topic))

    async def _ask(self, topic: str, question: Callable[[BrokerConnection], Awaitable[_Answer]]) -> _Answer:
        """Ask the topic's broker, again after a fresh look-up where it has moved, until the operation's timeout."""
        backoff = Backoff()
        last: PulsarError = OperationTimeout(f"{topic}: no entry in time")
        try:
            async with asyncio.timeout(self._context.settings.operation_timeout_seconds):
                while True:
                    fresh = topic not in self._known
                    try:
                        return await question(await self._connection(topic))
                    except PulsarError as error:
                        self._known.pop(topic, None)
                        last = error
                        if fresh and not error.retriable:
                            raise
                    if fresh:  # a stale memory deserves a second attempt at once
                        await asyncio.sleep(backoff.next())
        except TimeoutError:
            raise last from None

    async def _connection(self, topic: str) -> BrokerConnection:
        address = self._known.get(topic)
        if address is None:
            address = await self._context.lookup.find(topic)
            self._known[topic] = address
            if len(self._known) > _MAX_KNOWN_BROKERS:
                self._known.popitem(last=False)
        return await self._context.pool.get(address)

    @asynccontextmanager
    async def _subscribed(
        self, connection: BrokerConnection, topic: str, position: Position
    ) -> "AsyncIterator[tuple[int, asyncio.Future[Entry | CorruptEntry]]]":
        """A session from this position on, and what becomes of the first entry that comes to it."""
        session = next(self._context.ids)
        future: asyncio.Future[Entry | CorruptEntry] = asyncio.get_running_loop().create_future()
        connection.consumers[session] = _SingleEntryConsumer(future)
        try:
            await connection.request(
                lambda request_id: commands.subscribe(
                    request_id, session, topic, f"{self._name}-{session}", durable=False, start=position
                )
            )
            yield session, future
        finally:
            future.cancel()
            if connection.consumers.pop(session, None) is not None:
                connection.notify(lambda request_id: commands.close_consumer(request_id, session))

    async def _is_passed_over(self, connection: BrokerConnection, topic: str, position: Position) -> bool:
        """A broker acknowledges for a subscription what it keeps from it (AbstractBaseDispatcher.filterEntries…).

        The TTL of messages acknowledges as well, once in minutes: so a second subscription has to see the same. Where
        neither an entry nor that comes soon, as with a dispatch rate, nothing is known: False.
        """
        for _session in range(2):
            async with self._subscribed(connection, topic, position) as (session, future):
                connection.write([commands.flow(session, 1)])
                for _check in range(_PASSED_OVER_CHECKS):
                    done, _ = await asyncio.wait((future,), timeout=_ENTRY_TIMEOUT_SECONDS)
                    if done:
                        future.result()  # raises where the broker has closed the session
                        return False
                    if await self._has_acknowledged_all(connection, session):
                        break
                else:
                    return False
        return True

    async def _has_acknowledged_all(self, connection: BrokerConnection, session: int) -> bool:
        answer = await connection.request(lambda request_id: commands.last_message_id(request_id, session))
        found = answer.get_last_message_id_response
        return found.HasField("consumer_mark_delete_position") and (
            Position.of(found.consumer_mark_delete_position) >= Position.of(found.last_message_id)
        )

    async def _last(self, connection: BrokerConnection, topic: str) -> Position:
        async with self._subscribed(connection, topic, LATEST) as (session, _):
            return await self._end(connection, session)

    async def _end(self, connection: BrokerConnection, session: int) -> Position:
        answer = await connection.request(lambda request_id: commands.last_message_id(request_id, session))
        return Position.of(answer.get_last_message_id_response.last_message_id)

    async def _read(
        self, connection: BrokerConnection, topic: str, position: Position, hidden: IsHidden | None
    ) -> Entry | None:
        async with self._subscribed(connection, topic, position) as (session, future):
            connection.write([commands.flow(session, 1)])
            entry = await self._wait(connection, session, future, position, hidden)
        if isinstance(entry, CorruptEntry):
            self._context.metrics.corrupt_entries.inc()
            raise entry
        if entry is not None:
            self._context.metrics.entries_read.inc()
            self._context.metrics.bytes_read.inc(entry.size)
        return entry

    async def _wait(
        self,
        connection: BrokerConnection,
        session: int,
        future: "asyncio.Future[Entry | CorruptEntry]",
        position: Position,
        hidden: IsHidden | None,
    ) -> Entry | CorruptEntry | None:
        """Wait for the entry; None when the topic ends before it.

        That none comes for a while proves nothing: a topic that was just loaded may be slow. So the broker is asked for
        the end; at once where the first entry of a topic is wanted, which may be empty.
        """
        done, _ = await asyncio.wait((future,), timeout=_ENTRY_TIMEOUT_SECONDS if position != EARLIEST else 0)
        if not done:
            end = await self._end(connection, session)
            if end < position or end == EARLIEST:
                return future.result() if future.done() else None
            if hidden is not None:
                done, _ = await asyncio.wait((future,), timeout=_HIDDEN_CHECK_AFTER_SECONDS)
                if not done and await hidden(position, end) and not future.done():
                    return None
        return await future
