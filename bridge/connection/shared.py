"""What all listeners of a process share: memory, threads for large requests, and how many connections there may be."""

import asyncio
import itertools
from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from bridge.config import KafkaSettings
from bridge.connection.budget import Budget
from bridge.connection.listeners.handshakes import Handshakes
from bridge.connection.requests import LargeRequestThreads
from bridge.connection.responses import PendingResponseBytes
from bridge.connection.strangers import Strangers
from bridge.kafka.frames import SCRATCH_BYTES
from bridge.runtime.scheduler import LoopShare, ReadAllowance, SlicedCalls, loop_scheduler
from bridge.security.quotas.usage import ClientQuotas
from bridge.security.sasl.failures import network_of
from bridge.telemetry import log
from bridge.telemetry.instruments import Gauge, Level
from bridge.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from bridge.connection.throttling import Throttle

_LOGIN_BYTES = 16 * 1024 * 1024


class SharedResources:
    """Made once for each process: what bounds it is no listener's alone."""

    def __init__(self, settings: KafkaSettings, metrics: Metrics, quotas: ClientQuotas | None = None) -> None:
        self.budget = Budget(settings.memory_budget_bytes, metrics.in_flight_bytes)
        self.pending_bytes = PendingResponseBytes(settings.memory_budget_bytes, metrics.waiting_answer_bytes)
        self.login_budget = Budget(_LOGIN_BYTES, Gauge())
        """Of requests before the log-in: they keep none from those who are logged in."""
        metrics.memory["logins"] = Level(lambda: self.login_budget.held, _LOGIN_BYTES)
        self.metrics = metrics
        self.scheduler = loop_scheduler()
        loop = asyncio.get_running_loop()
        self.reads = ReadAllowance(loop)
        self.strangers = Strangers()
        self.departures = SlicedCalls(loop)
        """What lost connections leave to do."""
        self.large = LargeRequestThreads()
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.ciphertext = memoryview(bytearray(SCRATCH_BYTES))
        self.handshakes = Handshakes(metrics.tls)
        self.quotas = quotas or ClientQuotas(metrics.quotas)
        self.quotas.on_change = self._quotas_changed
        self.throttled: set[Throttle] = set()
        """Of the connections that wait for a quota."""
        self.numbers = itertools.count(1)
        """Of connections."""
        self._most = settings.max_connections
        self._most_of_host = settings.max_connections_per_ip
        self._connections = 0
        self._strangers: WeakValueDictionary[str, LoopShare] = WeakValueDictionary()
        self._of_network: Counter[str] = Counter()
        self.refusals, self.failed_handshakes = log.Flood(), log.Flood()
        """What the log tells of them."""

    def enter(self, host: str) -> bool:
        """Count a connection of this address; False when there are too many. Each that entered leaves."""
        network = _network(host)
        self._connections += 1
        self._of_network[network] += 1
        return self._connections <= self._most and self._of_network[network] <= self._most_of_host

    def is_full(self, host: str) -> bool:
        """Whether one more connection of this address would be too many. Those that wait to log in count."""
        of_network = self._of_network.get(network_of(host), 0)
        waiting = self.strangers.waiting
        return self._connections + waiting() >= self._most or of_network + waiting(host) >= self._most_of_host

    def stranger_share(self, host: str) -> LoopShare:
        """Of the event loop, for all connections of an address whose clients have not logged in: together they have as
        much of it as one connection of a client that has."""
        return self._strangers.setdefault(network_of(host), LoopShare())

    def _quotas_changed(self) -> None:
        for one in list(self.throttled):
            one.recheck()

    def leave(self, host: str) -> None:
        """Count it no more."""
        network = _network(host)
        self._connections -= 1
        self._of_network[network] -= 1
        if not self._of_network[network]:
            del self._of_network[network]


def _network(host: str) -> str:
    """Of an address as `Session.host` has it."""
    return network_of(host.removeprefix("/"))
