"""All connections of one listening socket: makes, counts, sweeps and drains them."""

import asyncio
from collections import Counter
from contextlib import suppress

from bridge import log
from bridge.api import Broker
from bridge.connection.budget import Budget
from bridge.connection.client import ClientConnection
from bridge.connection.requests import LargeRequestThreads
from bridge.connection.responses import PendingResponseBytes
from bridge.kafka.frames import SCRATCH_BYTES
from bridge.loop_scheduler import loop_scheduler

_log = log.get(__name__)

STALL_SECONDS = 30.0
"""How long a client may pause within a request. Kafka has no such limit and lets it hold its memory."""


class Listener:
    """Makes the protocol of each socket that an `Acceptor` accepts."""

    def __init__(self, broker: Broker, budget: Budget, name: str = "kafka", stall_seconds: float = STALL_SECONDS):
        self.broker = broker
        self.budget = budget
        self.pending_bytes = PendingResponseBytes(
            broker.settings.kafka.memory_budget_bytes, broker.metrics.waiting_answer_bytes
        )
        self.scheduler = loop_scheduler()
        self.large = LargeRequestThreads()
        self.name = name
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._settings = broker.settings.kafka
        self._metrics = broker.metrics
        self._stall_seconds = min(stall_seconds, self._settings.idle_seconds)
        self._connections: set[ClientConnection] = set()  # also lost ones whose requests still run
        self._open: set[ClientConnection] = set()
        self._paused: set[ClientConnection] = set()
        self._of_host: Counter[str] = Counter()
        self._draining = False
        self._drained = asyncio.Event()
        self._made = 0
        self._sweeper: asyncio.TimerHandle | None = None

    def __call__(self) -> ClientConnection:
        """A protocol for a socket just accepted."""
        self._made += 1
        return ClientConnection(self, self._made)

    def admit(self, connection: ClientConnection) -> bool:
        """Take the connection in; False when there are too many."""
        self._connections.add(connection)
        self._open.add(connection)
        self._metrics.connections_accepted.inc()
        self._metrics.connections.set(len(self._open))
        if self._draining:  # accepted at the last moment
            connection.drain()
        elif self._sweeper is None:
            self._sweep()
        self._of_host[connection.host] += 1
        return (
            len(self._open) <= self._settings.max_connections
            and self._of_host[connection.host] <= self._settings.max_connections_per_ip
        )

    def closed(self, connection: ClientConnection) -> None:
        """The connection's socket is gone."""
        self._open.discard(connection)
        self._metrics.connections.set(len(self._open))
        self._of_host[connection.host] -= 1
        if not self._of_host[connection.host]:
            del self._of_host[connection.host]

    def forget(self, connection: ClientConnection) -> None:
        """The connection's last request is done, too."""
        self._connections.discard(connection)
        if not self._connections:
            self._drained.set()

    def show_paused(self, connection: ClientConnection, paused: bool) -> None:
        """Count the connection as not read, or not."""
        if (connection in self._paused) == paused:
            return
        (self._paused.add if paused else self._paused.discard)(connection)
        self._metrics.paused_connections.set(len(self._paused))

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

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in list(self._open):
            connection.sweep(loop.time(), self._settings.idle_seconds, self._stall_seconds)
        self._sweeper = loop.call_later(self._stall_seconds / 4, self._sweep)
