"""All connections of one listening socket: makes, counts, sweeps and drains them."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import NamedTuple

from bridge.config import SHORT_FORM
from bridge.connection.client import ClientConnection
from bridge.connection.environment import TenantNamespaces
from bridge.connection.listeners.certificates import ListenerTls
from bridge.connection.listeners.tls import TlsTransport
from bridge.connection.parts import address_of
from bridge.connection.runner import RequestRunner
from bridge.connection.shared import SharedResources
from bridge.connection.strangers import StrangerPlace
from bridge.connection.tenant_runner import TenantRunner, without_namespace
from bridge.requests.api import Broker
from bridge.runtime.scheduler import SLICE_SECONDS, LoopShare
from bridge.security.principal import ANONYMOUS, Principal
from bridge.security.sasl.login import Login
from bridge.security.sasl.mechanism import Mechanism
from bridge.telemetry import log

_log = log.get(__name__)

STALL_SECONDS = 30.0
"""How long a client may pause within a request. Kafka has no such limit and lets it hold its memory."""


_BETWEEN_SLICES_SECONDS = 0.01


class Logins(NamedTuple):
    """How the clients of a listener log in."""

    mechanisms: Mapping[str, Mechanism]
    max_session_ms: int = 0
    """After so long they have to log in again; 0: they have not."""


class Listener:
    """Makes the protocol of each socket that an `Acceptor` accepts."""

    runner: type[RequestRunner] = RequestRunner
    """What runs the requests of each connection."""

    def __init__(
        self,
        broker: Broker,
        shared: SharedResources,
        name: str = SHORT_FORM,
        stall_seconds: float = STALL_SECONDS,
        max_connections: int = 0,
        tls: ListenerTls | None = None,
        logins: Logins | None = None,
        namespaces: TenantNamespaces | None = None,
    ) -> None:
        """`max_connections`: of this listener; 0: as many as of the process. `tls`, `logins`, `namespaces`: None
        where there is none."""
        self.broker = broker if namespaces is None else without_namespace(broker)
        self.namespaces = namespaces
        if namespaces is not None:
            self.runner = TenantRunner
        self.shared = shared
        self.budget, self.pending_bytes, self.scratch = shared.budget, shared.pending_bytes, shared.scratch
        self.ciphertext, self.handshakes = shared.ciphertext, shared.handshakes
        self.scheduler, self.large = shared.scheduler, shared.large
        self.quotas, self.throttled = shared.quotas, shared.throttled
        self.name = name
        self._tls = tls
        self._logins = logins
        self._most = max_connections or broker.settings.kafka.max_connections
        self._settings = broker.settings.kafka
        self._metrics = broker.metrics
        self._stall_seconds = min(stall_seconds, self._settings.idle_seconds)
        self._connections: set[ClientConnection] = set()  # also lost ones whose requests still run
        self._open: set[ClientConnection] = set()
        self._paused: set[ClientConnection] = set()
        self._draining = False
        self._drained = asyncio.Event()
        self._sweeper: asyncio.TimerHandle | None = None

    def __call__(self, place: StrangerPlace | None = None) -> ClientConnection | TlsTransport:
        """A protocol for a socket just accepted; `place`: its own among those that have not logged in."""
        connection = ClientConnection(self, next(self.shared.numbers), place)
        if self._tls is None:
            return connection
        return TlsTransport(self, connection, partial(self._not_established, place))

    def is_behind(self) -> bool:
        """Whether those that were accepted have to shake hands first."""
        return self._tls is not None and self.handshakes.is_behind

    def tls_context(self) -> ssl.SSLContext:
        """What the next connection shakes hands with."""
        assert self._tls is not None  # noqa: S101 - only TlsTransport asks
        return self._tls.context

    def login(self, logged_in: Callable[[], None]) -> Login | None:
        """The log-in of a new connection, None where none is asked for; `logged_in` is called when it has succeeded."""
        logins = self._logins
        return None if logins is None else Login(logins.mechanisms, logins.max_session_ms, logged_in)

    def stranger_share(self, host: str) -> LoopShare:
        """What the connections of an address share of the event loop until they have logged in."""
        return self.shared.stranger_share(host)

    def principal_of(self, transport: asyncio.BaseTransport) -> Principal:
        """Whom a new connection acts for, until it logs in: by its certificate, if it has one."""
        return ANONYMOUS if self._tls is None else self._tls.principal_of(transport.get_extra_info("ssl_object"))

    def admit(self, connection: ClientConnection) -> bool:
        """Take the connection in; False when there are too many."""
        self._connections.add(connection)
        self._open.add(connection)
        self._metrics.connections_accepted.inc()
        self._metrics.connections.inc()
        if self._draining:  # accepted at the last moment
            connection.drain()
        elif self._sweeper is None:
            self._sweep()
        return self.shared.enter(connection.host) and len(self._open) <= self._most

    def closed(self, connection: ClientConnection) -> None:
        """The connection's socket is gone."""
        self._open.discard(connection)
        self._metrics.connections.dec()
        self.shared.leave(connection.host)

    def forget(self, connection: ClientConnection) -> None:
        """The connection's last request is done, too."""
        self.show_paused(connection, paused=False)  # one that was refused is not read at its end
        self._connections.discard(connection)
        if not self._connections:
            self._drained.set()

    def show_paused(self, connection: ClientConnection, paused: bool) -> None:
        """Count the connection as not read, or not."""
        if (connection in self._paused) == paused:
            return
        (self._paused.add if paused else self._paused.discard)(connection)
        (self._metrics.paused_connections.inc if paused else self._metrics.paused_connections.dec)()

    def turn_away(self) -> None:
        """Let every connection answer what it has received and close: another node is to serve these clients."""
        _log.info("= clients turned away", extra={"listener": self.name, "connections": len(self._open)})
        for connection in list(self._open):
            connection.drain()

    async def drain(self, seconds: float) -> None:
        """Let every connection answer what it has received and close, by force after so many seconds."""
        self._draining = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        _log.info("= draining", extra={"listener": self.name, "connections": len(self._connections)})
        self._drained.clear()
        for connection in list(self._connections):
            connection.drain()
        if self._connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._drained.wait()
        late = len(self._connections)
        for connection in list(self._open):
            connection.abort()
        if late:
            _log.warning("! drained by force", extra={"listener": self.name, "connections": late})

    def _not_established(self, place: StrangerPlace | None, transport: TlsTransport, outcome: str, reason: str) -> None:
        if place is not None:
            place.leave()
        self._metrics.tls.handshakes[outcome].inc()
        fields = {"listener": self.name, "peer": address_of(transport.get_extra_info("peername"))}
        fields |= {"outcome": outcome, "reason": reason}
        if outcome in ("lost", "stopped"):  # a probe that connects and hangs up is usual
            _log.debug("! no TLS handshake", extra=fields)
        elif (line := self.shared.failed_handshakes.next_line()) is not None:
            _log.warning("! no TLS handshake", extra={**fields, **line})

    def _sweep(self, left: list[ClientConnection] | None = None) -> None:
        """Look at all, in slices: ten thousand that are idle took 20 ms."""
        loop = asyncio.get_running_loop()
        left, until = list(self._open) if left is None else left, perf_counter() + SLICE_SECONDS
        while left:
            connection = left.pop()
            if connection in self._open:
                connection.sweep(loop.time(), self._settings.idle_seconds, self._stall_seconds)
            if perf_counter() > until:
                break
        if left:
            self._sweeper = loop.call_later(_BETWEEN_SLICES_SECONDS, self._sweep, left)
        else:
            self._sweeper = loop.call_later(self._stall_seconds / 4, self._sweep)
