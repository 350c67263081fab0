"""The nodes of the cluster and the brokers of Pulsar, as this node sees them."""

from collections import Counter
from typing import TYPE_CHECKING, Final

from bridge.http.status.table import Row
from bridge.runtime.futures import loop_time

if TYPE_CHECKING:
    from bridge.http.status.sources import ObservedNode
    from bridge.pulsar.connection.broker_connection import BrokerConnection

NODE_COLUMNS: Final = (
    "name", "id", "addresses", "state", "rack", "weight", "partition_slots", "group_slots", "version", "role",
    "health", "connections", "alerts",
)  # fmt: skip
BROKER_COLUMNS: Final = (
    "address", "version", "delay", "answered", "producers", "readers", "waiting", "connections", "state", "node",
)  # fmt: skip


def nodes(node: "ObservedNode") -> list[Row]:
    """One row for each member of the newest view."""
    known = node.cluster
    if known is None:
        return []
    view = known.view
    led, groups = Counter(view.owners), Counter(view.groups)
    return [
        {
            "id": id_,
            "name": one.name,
            "addresses": ", ".join(f"{listener}://{host}:{port}" for listener, host, port in one.endpoints),
            "state": "drained" if one.name in view.drained else str(one.state),
            "rack": one.rack,
            "weight": one.weight,
            "partition_slots": led[id_],
            "group_slots": groups[id_],
            "version": one.software,
            "role": "controller" if id_ == view.controller else "",
            "here": id_ == known.node_id,
        }
        for id_, one in view.members.items()
    ]


def own_brokers(node: "ObservedNode") -> list[Row]:
    """One row for each broker that this node has connections to."""
    of: dict[str, list[BrokerConnection]] = {}
    for connection in node.client.connections():
        of.setdefault(str(connection.address), []).append(connection)
    return [_broker(address, connections) for address, connections in of.items()]


def _broker(address: str, connections: "list[BrokerConnection]") -> Row:
    latest = max(connections, key=lambda one: one.delay.answered_at)
    never = latest.delay.seconds is None
    return {
        "address": address,
        "version": latest.server_version.removeprefix("Pulsar Server"),
        "delay": latest.delay.seconds,
        "answered": None if never else loop_time() - latest.delay.answered_at,
        "producers": sum(len(one.producers) for one in connections),
        "readers": sum(len(one.consumers) for one in connections),
        "waiting": sum(one.waiting for one in connections),
        "connections": len(connections),
        "state": "silent" if any(one.silent for one in connections) else "answers",
    }
