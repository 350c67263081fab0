"""The listeners by which clients come in: opened, served, turned away and drained together."""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from bridge.access.security_store.store import SecurityStore
from bridge.config import Address, ListenerPlan, Settings
from bridge.connection.environment import TenantNamespaces
from bridge.connection.listeners.acceptor import Acceptor
from bridge.connection.listeners.certificates import REFRESH_SECONDS, ListenerTls
from bridge.connection.listeners.listener import Listener, Logins
from bridge.connection.shared import SharedResources
from bridge.net.listening import Sockets, open_listeners
from bridge.requests.api import Broker
from bridge.security.quotas.usage import ClientQuotas
from bridge.security.sasl.failures import LoginFailures
from bridge.security.sasl.mechanism import Mechanism
from bridge.security.tenants import TenantMechanism
from bridge.telemetry import log
from bridge.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from bridge.access.mechanisms import Mechanisms, TokensToo

_log = log.get(__name__)


class ClientListeners:
    """All listeners of a node: made when it starts, used from `serve` on."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        sockets: Sockets,
        shared: Sockets,
        kept_users: SecurityStore | None = None,
        quotas: ClientQuotas | None = None,
        tokens: "TokensToo | None" = None,
    ) -> None:
        """`sockets`: those that listen already; `shared`: those that other processes accept on, too; `kept_users`:
        who may log in, where there is no file of them; `quotas`: those of clients, where there may be any; `tokens`:
        see `Mechanisms`."""
        self.shared: SharedResources
        self._quotas = quotas
        self._settings, self._metrics = settings, metrics
        self._kept_users = kept_users
        self._tokens = tokens
        self._plans = settings.listeners
        self._sockets: dict[str, Sequence[socket.socket]] = dict(sockets)
        self._shared_sockets = shared
        self._listeners: list[Listener] = []
        self._acceptors: list[Acceptor] = []
        self._shared_acceptors: list[Acceptor] = []
        self._tls: dict[str, ListenerTls] = {}
        self._refresher: asyncio.TimerHandle | None = None
        self._mechanisms: Mechanisms | None = None
        self._namespaces: TenantNamespaces | None = None

    def open(self) -> None:
        """Listen, unless that is done; StartupError where a port is taken."""
        self.shared = SharedResources(self._settings.kafka, self._metrics, self._quotas)
        if any(plan.protocol.has_sasl for plan in self._plans):
            from bridge.access.mechanisms import Mechanisms

            self._mechanisms = Mechanisms(self._settings.security, self._kept_users, self._tokens)
        for plan in self._plans:
            if plan.protocol.has_tls:
                self._tls[plan.name] = ListenerTls(plan, self._metrics.tls)
        if not self._sockets:
            self._sockets.update(open_listeners(self._settings))

    @property
    def ports(self) -> Mapping[str, int]:
        """The port of each listener, once open."""
        return {name: sockets[0].getsockname()[1] for name, sockets in self._sockets.items()}

    @property
    def advertised(self) -> dict[str, Address]:
        """What clients of each listener are told, once open."""
        ports = self.ports
        return {one.name: one.told(ports[one.name]) for one in self._plans}

    @property
    def sockets(self) -> list[socket.socket]:
        """All listening sockets."""
        return [*chain(*self._sockets.values()), *chain(*self._shared_sockets.values())]

    def serve(self, broker: Broker, namespaces: "TenantNamespaces | None" = None) -> None:
        """Accept clients, whose requests are handled with this, or what their namespaces have."""
        self._namespaces = namespaces
        if self._mechanisms is not None:
            self._mechanisms.start()
        for plan in self._plans:
            most, tls = plan.settings.max_connections, self._tls.get(plan.name)
            logins = self._logins(plan)
            listener = Listener(
                broker, self.shared, plan.name, max_connections=most, tls=tls, logins=logins, namespaces=namespaces
            )
            self._listeners.append(listener)
            shared = self._shared_sockets.get(plan.name, ())
            accepts = partial(
                Acceptor,
                protocol=listener,
                is_behind=listener.is_behind,
                quotas=self.shared.quotas,
                is_turned_away=partial(self._is_turned_away, broker.login_failures, plan),
                strangers=self.shared.strangers if plan.protocol.has_sasl else None,
            )
            self._acceptors += [accepts(sock) for sock in self._sockets[plan.name]]
            self._shared_acceptors += [accepts(sock) for sock in shared]
            self._tell(plan)
        if self._tls:
            self._refresh()

    def turn_away(self) -> None:
        """Let every connection answer what it has received and close: another node is to serve these clients."""
        for listener in self._listeners:
            listener.turn_away()

    def leave_shared(self) -> None:
        """From now on the other processes' clients alone come by the shared sockets."""
        for one in self._shared_acceptors or chain(*self._shared_sockets.values()):
            one.close()

    def close(self) -> None:
        """Accept no more clients."""
        if self._refresher is not None:
            self._refresher.cancel()
        if self._mechanisms is not None:
            self._mechanisms.stop()
            self.shared.strangers.close()
        if self._tls:
            self.shared.handshakes.abandon()
        for one in self._acceptors or chain(*self._sockets.values()):
            one.close()

    def _is_turned_away(self, failures: LoginFailures, plan: ListenerPlan, host: str) -> bool:
        """Whether a new connection is to be closed at once: too many log-ins of its address have failed, or there are
        too many connections."""
        now = asyncio.get_running_loop().time()
        if plan.protocol.has_sasl and failures.is_blocked(host, now):
            self._metrics.rejected("too_many_failed_logins")
            return True
        if not self.shared.is_full(host):
            return False
        self._metrics.rejected("too_many_connections")
        line = self.shared.refusals.next_line()
        if line is not None:
            fields = {"listener": plan.name, "peer": host, "reason": "too_many_connections"}
            _log.warning("! refused", extra={**fields, **line})
        return True

    async def drain(self, seconds: float) -> None:
        """Let every connection answer what it has received and close, by force after so many seconds."""
        await asyncio.gather(*(listener.drain(seconds) for listener in self._listeners))

    def _refresh(self) -> None:
        for one in self._tls.values():
            one.refresh()
        self._refresher = asyncio.get_running_loop().call_later(REFRESH_SECONDS, self._refresh)

    def _logins(self, plan: ListenerPlan) -> Logins | None:
        if self._mechanisms is None or not plan.protocol.has_sasl:
            return None
        mechanisms: Mapping[str, Mechanism] = self._mechanisms.named(plan.mechanisms)
        if self._namespaces is not None:
            rules = self._namespaces.rules
            mechanisms = {name: TenantMechanism(one, rules, plan.name) for name, one in mechanisms.items()}
        return Logins(mechanisms, plan.settings.connections_max_reauth_ms)

    def _tell(self, plan: ListenerPlan) -> None:
        port = self.ports[plan.name]
        where = {"listener": plan.name, "at": Address(plan.listen.host, port), "protocol": plan.protocol.value}
        _log.info("= listening", extra={**where, "advertised": plan.told(port)})
        if plan.is_exposed and not plan.has_login and not plan.settings.allow_anonymous:
            _log.warning(
                "! clients that reach this listener can read, change and delete everything: let them log in, or say "
                "that this is wanted",
                extra={**where, "setting": f"listener.{plan.name}.allow_anonymous = true"},
            )
        if self._namespaces is not None and self._namespaces.rules.trusts_client_ids and not plan.has_login:
            _log.warning("! any client can name the client id that leads to a tenant's namespace", extra=where)
        readable = [name for name in ("PLAIN", "OAUTHBEARER") if name in plan.mechanisms]
        if plan.is_exposed and readable and not plan.protocol.has_tls:
            text = "! passwords and tokens can be read on the way to this listener: these mechanisms need TLS"
            _log.warning(text, extra={**where, "mechanisms": ",".join(readable)})
