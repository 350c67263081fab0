"""A node's part of one address for all: what its clients see, and how their requests get to who has what they name."""

from dataclasses import replace

from bridge.cluster import Cluster
from bridge.cluster.membership.view import Endpoint
from bridge.cluster.one_broker import OneBroker
from bridge.connection.listeners.client_listeners import ClientListeners
from bridge.relay.peers import Peers
from bridge.relay.relaying import Relaying
from bridge.relay.sockets import notice_silence
from bridge.requests.api import Broker


class SharedAddress:
    """Made when the node starts."""

    def __init__(self, nodes: Cluster, peers: Peers, *advertised: Endpoint) -> None:
        """`nodes`: the cluster as it is; `advertised`: the addresses of all."""
        self.cluster = OneBroker(nodes, *advertised)
        """As clients see it."""
        self._peers = peers

    @staticmethod
    def watch(clients: ClientListeners) -> None:
        """Notice the clients that are gone without a word, which the balancer before them may hide."""
        for sock in clients.sockets:
            notice_silence(sock)

    def relaying(self, broker: Broker, namespace: str = "") -> Broker:
        """What the handlers of clients' requests are given, made of what those of this node's own are; `namespace`: in
        which the clients work, if it is not the bridge's own."""
        return replace(broker, cluster=self.cluster, apis=Relaying(broker, self._peers, namespace).apis(broker.apis))
