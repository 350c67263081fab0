"""The connections of one client: for each broker one for questions and consumers, and one for each topic's producers.

The first shows whether the broker can be reached. It is dialled by one task for all who want the broker, with one
back-off, and the others are opened only while it is there. Who cannot be served waits for that task (`Outage`).

A broker throttles a producer by not reading its connection: whatever else was sent there waits as well, for as long as
the topic is above its rate, has too much on its way, or its bookies hang. So the producers of a topic share a
connection with no others. Above the setting `pulsar.max_producer_connections`, or where the broker takes no more
connections, topics share them.
"""

import asyncio
import random
import resource
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from bridge.config import PulsarSettings
from bridge.config.urls import url_without_secrets
from bridge.pulsar.auth import Access
from bridge.pulsar.connection.broker_connection import Address, BrokerConnection
from bridge.pulsar.connection.topic_connections import SHARED, TopicConnections
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ClientClosed, ConnectionLost, ConnectionsRefused, OperationTimeout, PulsarError
from bridge.runtime.fairness import Place, Places
from bridge.runtime.futures import retrieve_exception, wait_shared
from bridge.telemetry import log
from bridge.telemetry.metrics import PulsarMetrics

# Between two attempts to reach a broker that is down, in the end; the first come sooner.
_PROBE_SECONDS: Final = 1.2
_FIRST_PROBE_SECONDS: Final = 0.5
# So often a broker that stays down is told of.
_TOLD_SECONDS: Final = 60.0
# For so long nothing can attach where a broker has started and loads no topic yet.
_HURRIED_AFTER_SECONDS: Final = 1.0
# So long an answer to a look-up is waited for before the broker itself is tried again.
_LOOKUP_SECONDS: Final = 5.0
_FAREWELL_SECONDS: Final = 1.0
# So many wake in one turn of the event loop when a broker is back.
_WOKEN_AT_ONCE: Final = 64
# So many open something at a broker at a time. Each keeps its place for so long at most: a topic that its broker is
# slow to load holds up no other.
_OPENED_AT_ONCE: Final = 256
_PLACE_SECONDS: Final = 0.25
# So many lines a minute tell of producers and readers that are not attached for the same kind of reason.
_TOLD_A_MINUTE: Final = 2
_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}
_log = log.get(__name__)

Find = Callable[[str], Awaitable[Address]]
"""Ask for the broker of a topic."""


class BrokerAway(ConnectionLost):
    """A broker that cannot be reached; it was tried a moment ago, and is tried again for all."""

    def __init__(self, *outages: "Outage") -> None:
        """Several where any of them would do."""
        super().__init__(outages[0].cause.message)
        self.outages = outages

    async def over(self) -> None:
        """Wait until another attempt is worth it."""
        if any(outage.is_over for outage in self.outages):
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for outage in self.outages:
            outage.waiting[waiting] = None
        try:
            await waiting
        finally:
            for outage in self.outages:
                outage.waiting.pop(waiting, None)


def _proxy_of(address: Address) -> Address:
    """What is connected to: the proxy before a broker, or the broker itself."""
    return address._replace(proxied_broker=None)


class _Key(NamedTuple):
    """A connection: to whom, and which of those (`TopicConnections`)."""

    address: Address
    number: int


def parse_url(url: str) -> list[Address]:
    """The addresses of a service URL; nothing but pulsar:// and pulsar+ssl:// is ever connected to."""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme not in _PORTS:
        raise PulsarError(pb.UnknownError, f"not a Pulsar service URL: {url_without_secrets(url)!r}")
    return [_parse_host(url, scheme, host) for host in rest.removesuffix("/").split(",")]


def _parse_host(url: str, scheme: str, host: str) -> Address:
    try:
        parts = urlsplit(f"//{host}")
        if parts.hostname and not parts.path and parts.username is None and not parts.query and not parts.fragment:
            return Address(parts.hostname, parts.port or _PORTS[scheme], scheme == "pulsar+ssl")
    except ValueError:
        pass
    raise PulsarError(pb.UnknownError, f"not a Pulsar service URL: {url_without_secrets(url)!r}")


class ConnectionPool:
    """Concurrent requests for the same connection wait for the same attempt."""

    def __init__(self, settings: PulsarSettings, metrics: PulsarMetrics, access: Access) -> None:
        self._settings = settings
        self._access = access
        self._metrics = metrics
        self._service = parse_url(settings.service_url)
        if self.tls:
            access.tls.context()  # what is wrong with it is said at once
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._topic_connections = TopicConnections(min(settings.max_producer_connections, max(1, files // 4)))
        self._connections: dict[_Key, BrokerConnection] = {}
        self._attempts: dict[_Key, asyncio.Task[BrokerConnection]] = {}
        self._outages: dict[Address, Outage] = {}
        self._places: dict[Address, Places] = {}
        self._retry_now: asyncio.Future[None] | None = None
        self._failing_since: float | None = None
        """When something first could not attach since something did."""
        self._closed = False
        self._find: Find | None = None
        self._latest_topic: dict[Address, str] = {}
        self._not_attached: dict[int, log.Flood] = {}

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
        """A connection to the service URL: of several hosts the first that can be reached.

        Raises BrokerAway of all of them while none can be.
        """
        outages: list[Outage] = []
        silent: BrokerConnection | None = None
        for address in tuple(self._service):
            try:
                connection = await self.get(address)
                if not connection.silent:
                    return connection
                silent = connection
            except BrokerAway as away:
                outages += away.outages
            if self._service[0] == address:  # else a concurrent caller has gone on to the next one
                self._service.append(self._service.pop(0))
        if silent is None:
            raise BrokerAway(*outages)
        return silent

    async def get(self, address: Address, topic: str | None = None) -> BrokerConnection:
        """The connection to this address, or its connection for the producers of this topic.

        Raises BrokerAway at once while the address cannot be reached: one task tries, for all who want it.
        """
        now = asyncio.get_running_loop().time()
        try:
            shared = await self._shared(address)
            if topic is None:
                return shared
            return await self._of_topic(address, self._topic_connections.number(address, topic, now))
        except ConnectionsRefused:
            self._metrics.connections_refused.inc()
            open_numbers = [key.number for key in self._connections if key.address == address]
            if topic is None or not open_numbers:
                raise
            number = self._topic_connections.share(address, topic, open_numbers, now)
            return await self._connected(_Key(address, number))

    async def _shared(self, address: Address) -> BrokerConnection:
        key = _Key(address, SHARED)
        if key not in self._connections:
            if address.proxied_broker is not None:  # first of all the proxy has to be there
                await self._shared(_proxy_of(address))
            self._ensure_not_away(address)
        try:
            return await self._connected(key)
        except (ConnectionLost, OperationTimeout):
            self._ensure_not_away(address)
            raise

    async def _of_topic(self, address: Address, number: int) -> BrokerConnection:
        key = _Key(address, number)
        if key not in self._connections and key not in self._attempts and self._outage_of(address) is not None:
            self._topic_connections.forget(*key)  # the shared connection is there, and silent
            self._ensure_not_away(address)
        return await self._connected(key)

    def _outage_of(self, address: Address) -> "Outage | None":
        return self._outages.get(_proxy_of(address)) or self._outages.get(address)

    def _ensure_not_away(self, address: Address) -> None:
        outage = self._outage_of(address)
        if outage is not None:
            raise BrokerAway(outage) from None

    async def place(self, address: Address) -> Place:
        """Wait for leave to open something at this broker: an async context manager for doing so.

        A broker that has just started has all its topics to load. Asked for thousands at once it answers none in time.
        """
        return await self._places.setdefault(address, Places(_OPENED_AT_ONCE, seconds=_PLACE_SECONDS)).take()

    def next_line(self, error: PulsarError) -> "log.Fields | None":
        """What a line of the log has that tells why something is not attached; None: others have said the same."""
        return self._not_attached.setdefault(error.code, log.Flood(_TOLD_A_MINUTE, seconds=60.0)).next_line()

    async def _connected(self, key: _Key) -> BrokerConnection:
        connection = self._connections.get(key)
        if connection is not None:
            connection.unused_checks = 0
            return connection
        if self._closed:
            raise ClientClosed("the Pulsar client")
        attempt = self._attempts.get(key)
        if attempt is None:
            attempt = asyncio.create_task(self._open(key), name=f"connect {key.address}")
            attempt.add_done_callback(retrieve_exception)
            self._attempts[key] = attempt
        # One waiter's cancellation is not the others'.
        return await wait_shared(attempt, ClientClosed("the Pulsar client"))

    async def pause(self, seconds: float, error: PulsarError | None = None) -> bool:
        """Wait before another attempt: so long, or until `retry_now`; True then.

        Delays grow while Pulsar is unavailable. They end at once when it is available again. After BrokerAway the wait
        is for the broker, or for the first of those that would do, however long that takes.
        """
        if isinstance(error, BrokerAway):
            await error.over()
            return True
        if self._retry_now is None:
            self._retry_now = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait((self._retry_now,), timeout=seconds)
        return bool(done)

    def attempt_failed(self) -> None:
        """Something could not attach."""
        if self._failing_since is None:
            self._failing_since = asyncio.get_running_loop().time()

    def attempt_succeeded(self) -> None:
        """Something has attached. After a time in which nothing could, all others try now: they wait for the same.

        A broker takes connections long before it can load a topic. What fails for a reason of its own is not hurried:
        meanwhile others attach.
        """
        since, self._failing_since = self._failing_since, None
        if since is not None and asyncio.get_running_loop().time() - since > _HURRIED_AFTER_SECONDS:
            self.retry_now()

    def retry_now(self) -> None:
        """End all pauses: a broker can be reached that could not be, or Pulsar stores again."""
        hurried, self._retry_now = self._retry_now, None
        if hurried is not None:
            hurried.set_result(None)

    async def _open(self, key: _Key) -> BrokerConnection:
        try:
            connection = await BrokerConnection.open(
                key.address, self._settings, self._metrics, self._access, for_producers=key.number != SHARED
            )
            self._connections[key] = connection
            connection.on_silence = self._suspect
            connection.on_end = partial(self._ended, key)
            return connection
        except PulsarError as error:
            self._topic_connections.forget(*key)
            # where a topic alone gets no connection it tries again by itself: the broker is there
            if key.number == SHARED and isinstance(error, ConnectionLost | OperationTimeout):
                self._lose(key.address, error)
            raise
        finally:
            del self._attempts[key]

    def _ended(self, key: _Key) -> None:
        del self._connections[key]
        self._topic_connections.forget(*key)

    def _suspect(self, connection: BrokerConnection) -> None:
        """A connection is silent: the broker is away if the shared one is, too, or else can be reached by it.

        A topic's own may be silent because the broker does not read it.
        """
        if not self._is_heard(connection.address):
            self._lose(connection.address, ConnectionLost(f"{connection.address}: silent"))

    def _is_heard(self, address: Address) -> bool:
        shared = self._connections.get(_Key(address, SHARED))
        return shared is not None and not shared.silent

    def _lose(self, address: Address, error: PulsarError) -> None:
        if not self._is_heard(_proxy_of(address)):
            address = _proxy_of(address)
        if address not in self._outages and not self._closed:
            self._outages[address] = outage = Outage(address, error)
            outage.task = asyncio.create_task(self._watch_for(outage), name=f"outage of {address}")

    async def _watch_for(self, outage: "Outage") -> None:
        """Try until the broker can be reached, or what it had is with another one."""
        told_at, delay = outage.since, _FIRST_PROBE_SECONDS
        _log.warning("! pulsar broker away", extra=outage.told())
        while True:
            await asyncio.sleep(delay * random.uniform(0.8, 1.0))  # noqa: S311 - no secret
            delay = min(2 * delay, _PROBE_SECONDS)
            if self._outage_of(outage.address) is not outage:
                break  # the proxy before it is away, too: that is waited for
            if await self._reaches(outage.address):
                _log.info("= pulsar broker back", extra=outage.told())
                break
            if await self._moved(outage.address):
                _log.info("= pulsar broker given up", extra=outage.told())
                self._leave(outage.address)
                self._places.pop(outage.address, None)
                break
            if asyncio.get_running_loop().time() - told_at >= _TOLD_SECONDS:
                told_at += _TOLD_SECONDS
                _log.warning("! pulsar broker still away", extra=outage.told())
        del self._outages[outage.address]
        await outage.end()
        self.retry_now()

    async def _reaches(self, address: Address) -> bool:
        """Whether the broker answers: on the shared connection that is there, or on a new one."""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):  # the attempt itself goes on
                return not (await self._connected(_Key(address, SHARED))).silent
        except (ConnectionLost, OperationTimeout, TimeoutError):
            return False
        except PulsarError:
            return True

    def _leave(self, address: Address) -> None:
        """End the connections to a broker that does not answer and has lost its topics to another one.

        Pulsar may have given them away long before the keep-alive ends the connections. Nothing else tells readers.
        """
        for key, connection in list(self._connections.items()):
            if key.address == address and connection.silent:
                connection.abort(ConnectionLost(f"{address}: silent, and its topics are with another broker"))

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
        return list(self._connections.values())

    async def close(self) -> None:
        """Close every connection, once what waits on it is written."""
        self._closed = True
        attempts: list[asyncio.Task[Any]] = list(self._attempts.values())
        attempts += [outage.task for outage in self._outages.values() if outage.task is not None]
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        closing = self.connections()
        for connection in closing:
            connection.close()
        if self.tls and closing:  # its end is said by both sides
            await asyncio.wait([connection.lost for connection in closing], timeout=_FAREWELL_SECONDS)
            for connection in closing:
                connection.abort(ClientClosed("the Pulsar client"))


class Outage:
    """An address that cannot be reached, while one task tries to."""

    def __init__(self, address: Address, cause: PulsarError) -> None:
        self.address = address
        self.cause = cause
        self.since = asyncio.get_running_loop().time()
        self.task: asyncio.Task[None] | None = None
        self.is_over = False
        self.waiting: dict[asyncio.Future[None], None] = {}
        """Who waits for its end (`BrokerAway.over`)."""

    def told(self) -> dict[str, object]:
        """For the log: how long, and how many producers, consumers and watches wait for it."""
        seconds = round(asyncio.get_running_loop().time() - self.since, 1)
        return {"broker": self.address, "seconds": seconds, "waiting": len(self.waiting), "reason": str(self.cause)}

    async def end(self) -> None:
        """All who wait try again, in the order in which they came; thousands of them do not hold the event loop."""
        self.is_over = True
        while self.waiting:
            for waiting in list(islice(self.waiting, _WOKEN_AT_ONCE)):
                del self.waiting[waiting]
                if not waiting.done():
                    waiting.set_result(None)
            await asyncio.sleep(0)
