"""A node's part of one address for all: what its clients see, its internal listener, and its way to other nodes."""

from dataclasses import replace
from typing import Final

from bridge.cluster import Cluster
from bridge.cluster.membership.view import Endpoint
from bridge.cluster.one_broker import OneBroker
from bridge.config import INTERNAL, Address, Settings
from bridge.connection import Acceptor
from bridge.connection.listeners.client_listeners import ClientListeners
from bridge.connection.tenant_runner import TenantNamespaces
from bridge.net.listening import listen
from bridge.relay.internal_listener import InternalListener
from bridge.relay.node_login import NodeSecret
from bridge.relay.peers import Peers
from bridge.relay.relaying import Relaying
from bridge.relay.sockets import notice_silence
from bridge.requests.api import Broker
from bridge.telemetry import log

_log = log.get(__name__)

_DRAIN_SECONDS: Final = 1.0


class SharedAddress:
    """Made when the node starts, used from `serve` on."""

    def __init__(self, settings: Settings, nodes: Cluster, *advertised: Endpoint) -> None:
        """`nodes`: the cluster as it is; `advertised`: the addresses of all. StartupError where a port is taken."""
        self.cluster = OneBroker(nodes, *advertised)
        """As clients see it."""
        wanted = Address.parse(settings.cluster.internal_listen)
        self._sockets = listen(wanted, "cluster.internal_listen")
        port = self._sockets[0].getsockname()[1]
        told = Address.parse(settings.cluster.internal_advertised or str(Address(wanted.host, port)))
        self.endpoint = Endpoint(INTERNAL, told.host, told.port)
        """Where the other nodes connect."""
        file = settings.cluster.internal_secret_file
        self._secret = NodeSecret(file) if file else None
        self._peers = Peers(nodes, self._secret)
        self._listener: InternalListener | None = None
        self._acceptors: list[Acceptor] = []

    def relaying(self, broker: Broker, namespace: str = "") -> Broker:
        """What the handlers of clients' requests are given, made of what those of this node's own are; `namespace`: in
        which the clients work, if it is not the bridge's own."""
        return replace(broker, cluster=self.cluster, apis=Relaying(broker, self._peers, namespace).apis(broker.apis))

    def serve(self, broker: Broker, clients: ClientListeners, namespaces: TenantNamespaces | None = None) -> None:
        """Take requests from other nodes. `broker`: for those; `clients`: of the addresses of all."""
        for sock in clients.sockets:
            notice_silence(sock)
        for sock in self._sockets:
            notice_silence(sock, unacknowledged=True)
        self._listener = InternalListener(broker, clients.shared.pending_bytes, self._secret, namespaces)
        self._acceptors = [Acceptor(sock, self._listener) for sock in self._sockets]
        if self._secret is None:
            _log.warning(
                "! the internal listener takes every connection for another node's: set a secret",
                extra={"setting": "cluster.internal_secret_file"},
            )
        _log.info("= internal listener", extra={"advertised": Address(self.endpoint.host, self.endpoint.port)})

    async def close(self) -> None:
        """Ask no other node any more, and answer none."""
        for one in self._acceptors or self._sockets:
            one.close()
        self._peers.close()
        if self._listener is not None:
            await self._listener.drain(_DRAIN_SECONDS)
