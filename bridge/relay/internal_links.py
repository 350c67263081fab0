"""A node's part of what nodes ask each other: its internal listener, and its ways to those of the others."""

from collections.abc import Sequence
from typing import Final

from bridge.cluster import Cluster
from bridge.cluster.membership.view import Endpoint
from bridge.config import INTERNAL, Address, Settings
from bridge.connection import Acceptor
from bridge.connection.environment import TenantNamespaces
from bridge.connection.responses import PendingResponseBytes
from bridge.net.listening import listen
from bridge.relay.internal_listener import InternalListener
from bridge.relay.node_login import NodeSecret
from bridge.relay.peers import Peers
from bridge.relay.questions import Questions
from bridge.relay.sockets import notice_silence
from bridge.requests.api import Api, Broker
from bridge.telemetry import log

_log = log.get(__name__)

_DRAIN_SECONDS: Final = 1.0


class InternalLinks:
    """Made when the node starts, used from `serve` on."""

    def __init__(self, settings: Settings, nodes: Cluster) -> None:
        """`nodes`: the cluster as it is. StartupError where the port is taken."""
        wanted = Address.parse(settings.cluster.internal_listen)
        self._sockets = listen(wanted, "cluster.internal_listen")
        port = self._sockets[0].getsockname()[1]
        told = Address.parse(settings.cluster.internal_advertised or str(Address(wanted.host, port)))
        self.endpoint = Endpoint(INTERNAL, told.host, told.port)
        """Where the other nodes connect."""
        file = settings.cluster.internal_secret_file
        self._secret = NodeSecret(file) if file else None
        self.peers = Peers(nodes, self._secret)
        self.questions = Questions(nodes, self.peers)
        self._listener: InternalListener | None = None
        self._acceptors: list[Acceptor] = []

    def serve(
        self,
        broker: Broker,
        pending: PendingResponseBytes,
        namespaces: TenantNamespaces | None = None,
        for_nodes: Sequence[Api] = (),
    ) -> None:
        """Take requests from other nodes. `broker`: for those; `for_nodes`: what nodes may ask, and nobody else, beside
        the states of share groups."""
        for sock in self._sockets:
            notice_silence(sock, unacknowledged=True)
        self._listener = InternalListener(broker, pending, self._secret, namespaces, for_nodes)
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
        self.peers.close()
        if self._listener is not None:
            await self._listener.drain(_DRAIN_SECONDS)
