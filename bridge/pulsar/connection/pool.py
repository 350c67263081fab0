"""The connections of one client: one per broker and purpose, opened at first use and then shared."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

from bridge.config import PulsarSettings
from bridge.futures import retrieve_exception, wait_shared
from bridge.metrics import PulsarMetrics
from bridge.pulsar.auth import Access
from bridge.pulsar.connection.broker_connection import Address, BrokerConnection
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ClientClosed, ConnectionLost, OperationTimeout, PulsarError

# Between two attempts to reach a broker that is down; one attempt for all callers.
_PROBE_SECONDS: Final = 0.5
# So long an answer to a look-up is waited for before the broker itself is tried again.
_LOOKUP_SECONDS: Final = 5.0
_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}


Find = Callable[[str], Awaitable[Address]]
"""Ask for the broker of a topic."""


class ConnectionPurpose(Enum):
    """What a connection is for. A broker closes it when any handler errs: a mistake on data must not cost a lock."""

    DATA = "data"
    LOCK = "lock"


def parse_url(url: str) -> list[Address]:
    """The addresses of a service URL; nothing but pulsar:// and pulsar+ssl:// is ever connected to."""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme not in _PORTS:
        raise PulsarError(pb.UnknownError, f"not a Pulsar service URL: {url!r}")
    return [_parse_host(url, scheme, host) for host in rest.removesuffix("/").split(",")]


def _parse_host(url: str, scheme: str, host: str) -> Address:
    try:
        parts = urlsplit(f"//{host}")
        if parts.hostname and not parts.path and parts.username is None and not parts.query and not parts.fragment:
            return Address(parts.hostname, parts.port or _PORTS[scheme], scheme == "pulsar+ssl")
    except ValueError:
        pass
    raise PulsarError(pb.UnknownError, f"not a Pulsar service URL: {url!r}")


class ConnectionPool:
    """Concurrent requests for the same connection wait for the same attempt."""

    def __init__(self, settings: PulsarSettings, metrics: PulsarMetrics, access: Access) -> None:
        self._settings = settings
        self._access = access
        self._metrics = metrics
        self._service = parse_url(settings.service_url)
        if self.tls:
            access.tls.context()  # what is wrong with it is said at once
        self._connections: dict[tuple[Address, ConnectionPurpose], BrokerConnection] = {}
        self._attempts: dict[tuple[Address, ConnectionPurpose], asyncio.Task[BrokerConnection]] = {}
        self._outage: asyncio.Task[None] | None = None
        self._retry_now: asyncio.Future[None] | None = None
        self._closed = False
        self._find: Find | None = None
        self._latest_topic: dict[Address, str] = {}
        self._suspected: dict[BrokerConnection, asyncio.Task[None]] = {}

    @property
    def tls(self) -> bool:
        """Whether this client talks TLS, which it then does to every broker."""
        return self._service[0].tls

    @property
    def service_address(self) -> Address:
        """The service host in use."""
        return self._service[0]

    def watch_moves(self, find: Find) -> None:
        """How to notice that what an unreachable broker had is with another one."""
        self._find = find

    def found(self, topic: str, address: Address) -> None:
        """A look-up gave this address."""
        self._latest_topic[address] = topic

    async def service(self) -> BrokerConnection:
        """A connection to the service URL: of several hosts the first that can be reached."""
        for _ in self._service[1:]:
            address = self._service[0]
            try:
                connection = await self.get(address)
                if not connection.silent:
                    return connection
            except (ConnectionLost, OperationTimeout):
                pass
            if self._service[0] == address:  # else a concurrent caller has gone on to the next one
                self._service.append(self._service.pop(0))
        return await self.get(self._service[0])

    async def get(self, address: Address, purpose: ConnectionPurpose = ConnectionPurpose.DATA) -> BrokerConnection:
        """The connection to this address."""
        key = (address, purpose)
        connection = self._connections.get(key)
        if connection is not None and not connection.closed:
            return connection
        if self._closed:
            raise ClientClosed("the Pulsar client")
        attempt = self._attempts.get(key)
        if attempt is None:
            attempt = asyncio.create_task(self._open(key), name=f"connect {address}")
            attempt.add_done_callback(retrieve_exception)
            self._attempts[key] = attempt
        # One waiter's cancellation is not the others'.
        return await wait_shared(attempt, ClientClosed("the Pulsar client"))

    async def pause(self, seconds: float) -> bool:
        """Wait before another attempt: so long, or until `retry_now`; True then.

        Delays grow while Pulsar is unavailable. They end at once when it is available again.
        """
        if self._retry_now is None:
            self._retry_now = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait((self._retry_now,), timeout=seconds)
        return bool(done)

    def retry_now(self) -> None:
        """End all pauses: a broker can be reached that could not be, or Pulsar stores again."""
        hurried, self._retry_now = self._retry_now, None
        if hurried is not None:
            hurried.set_result(None)

    async def _open(self, key: tuple[Address, ConnectionPurpose]) -> BrokerConnection:
        try:
            connection = await BrokerConnection.open(key[0], self._settings, self._metrics, self._access)
            self._connections[key] = connection
            connection.on_silence = self._leave_if_moved
            return connection
        except (ConnectionLost, OperationTimeout):
            if self._outage is None and not self._closed:
                self._outage = asyncio.create_task(self._watch_for(key), name=f"outage of {key[0]}")
            raise
        finally:
            del self._attempts[key]

    async def _watch_for(self, key: tuple[Address, ConnectionPurpose]) -> None:
        """Try until the broker can be reached, or what it had is with another one."""
        while True:
            await asyncio.sleep(_PROBE_SECONDS * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            if await self._moved(key[0]):
                break
            try:
                async with asyncio.timeout(_PROBE_SECONDS):  # the attempt itself goes on
                    await self.get(*key)
            except (ConnectionLost, OperationTimeout, TimeoutError):
                continue
            except PulsarError:
                pass  # it answers
            break
        self._outage = None
        self.retry_now()

    def _leave_if_moved(self, connection: BrokerConnection) -> None:
        """End a connection to a broker that does not answer, if Pulsar has given what it had to another one.

        Pulsar may do so long before the keep-alive ends the connection. Nothing else would tell its readers.
        """
        if connection not in self._suspected:
            self._suspected[connection] = asyncio.create_task(self._leave(connection), name="leave a silent broker")

    async def _leave(self, connection: BrokerConnection) -> None:
        try:
            if await self._moved(connection.address) and connection.silent:
                connection.abort(
                    ConnectionLost(f"{connection.address}: silent, and its topics are with another broker")
                )
        finally:
            del self._suspected[connection]

    async def _moved(self, address: Address) -> bool:
        """Whether another broker has the topic that was last found at this one: a dead one loses all at one moment."""
        topic = self._latest_topic.get(address)
        if self._find is None or topic is None:
            return False
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                return await self._find(topic) != address
        except (PulsarError, TimeoutError):
            return False

    def connections(self) -> list[BrokerConnection]:
        """Those that are open, for who only looks."""
        return [one for one in self._connections.values() if not one.closed]

    async def close(self) -> None:
        """Close every connection, once what waits on it is written."""
        self._closed = True
        attempts: list[asyncio.Task[Any]] = [*self._attempts.values(), *self._suspected.values()]
        if self._outage is not None:
            attempts.append(self._outage)
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
