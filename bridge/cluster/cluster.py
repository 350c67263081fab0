"""What request handlers ask: which nodes there are, which of them leads a partition, and whether this one may serve."""

import asyncio
import base64
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from bridge.cluster.membership.departed import DepartedNodes
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.racks import racks_of
from bridge.cluster.membership.record_format import TRANSACTIONS_LEVEL
from bridge.cluster.membership.slots import UNOWNED, slot_of
from bridge.cluster.membership.view import NO_NODE, ClusterView, Endpoint, NodeRegistration, NodeState
from bridge.config import INTERNAL
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import Waiter, loop_time

NO_EPOCH: Final = -1
"""The leader epoch of a client that does not say which it goes by, and of a leader that never changes (`OneBroker`)."""
RECORD_EPOCH: Final = 0
"""The leader epoch in record batches, forever: a log of Pulsar is never truncated, so its records have no history."""

_NAMESPACE = uuid.UUID("0c1b1c63-93b8-4b2f-a3a9-0e5c0a3a7f0e")
_SERVED: Final = (NodeState.UP, NodeState.LEAVING)


@dataclass(frozen=True, slots=True)
class Node:
    """A bridge process as clients see it: a Kafka broker."""

    id: int
    host: str
    port: int
    rack: str | None = None


class Leader(NamedTuple):
    """The node that leads a partition, with its epoch."""

    node: Node | None
    """None: the slot's owner has gone, or is this node and cut off; its successor is not known yet."""
    epoch: int
    """The version of the view in which it became the leader. Epochs only grow (KIP-320). `NO_EPOCH`: there are none."""
    owner: int = UNOWNED
    """The id of the node to which the view gives the partition, even if it is not there."""

    @property
    def replicas(self) -> list[int]:
        """What clients are told of replicas: as in Kafka they do not change when their node has gone."""
        return [] if self.owner == UNOWNED else [self.owner]


class ClusterSnapshot:
    """One version of the cluster: an answer that names leaders and brokers takes one, after its last await.

    kafka-python 3.0 hangs if a leader is not among the brokers of the same answer.
    """

    def __init__(self, view: ClusterView, node_id: int, *, is_cut_off: bool = False) -> None:
        """`is_cut_off`: this node cannot serve, though the view may still name it."""
        self.version = view.version
        self.has_transactions = view.level >= TRANSACTIONS_LEVEL
        """Whether every node is newer than 1.0: it hides records of transactions that are open or aborted, and knows
        streams groups."""
        self.can_ask_each_other = len(view.ids) <= 1 or all(
            member.endpoint_at(INTERNAL) is not None for member in view.members.values()
        )
        """Whether each node can ask the others; also where there has been but one, whose view does not flap."""
        self._owners = view.owners or (UNOWNED,)
        self._epochs = view.epochs or (0,)
        self._groups = view.groups
        self._slots = len(self._owners)
        served = sorted(id_ for id_, member in view.members.items() if member.state in _SERVED)
        self._nodes = {id_: _node(view.members[id_]) for id_ in served}
        self._at = {
            (id_, endpoint.listener): replace(node, host=endpoint.host, port=endpoint.port)
            for id_, node in self._nodes.items()
            for endpoint in view.members[id_].endpoints
        }
        self._leaders = {id_: node for id_, node in self._nodes.items() if id_ != node_id or not is_cut_off}
        self._controller = view.controller
        self._racks = racks_of(view)
        self._followers: dict[int, tuple[int, ...]] = {}
        """Of slots that were asked for: to rank nodes takes some microseconds."""

    @property
    def nodes(self) -> list[Node]:
        """All brokers, in the order of their ids."""
        return list(self._nodes.values())

    @property
    def controller(self) -> Node | None:
        """The node that gives out partitions."""
        return self._nodes.get(self._controller)

    def nodes_at(self, listener: str) -> list[Node]:
        """All brokers that have this listener, with their addresses there, in the order of their ids."""
        return [node for id_ in self._nodes if (node := self._at.get((id_, listener))) is not None]

    def node_at(self, node_id: int, listener: str) -> Node | None:
        """The broker of this id with its address at a listener; None if it has none there."""
        return self._at.get((node_id, listener))

    def controller_at(self, listener: str) -> int:
        """The id of the node that clients send administrative requests to: a hint, since every node executes them."""
        if self.controller is None:
            return NO_NODE
        reachable = [node.id for node in self.nodes_at(listener)]
        return self._controller if self._controller in reachable else min(reachable, default=NO_NODE)

    def node(self, node_id: int) -> Node | None:
        """The broker of this id."""
        return self._nodes.get(node_id)

    def leader(self, topic: str, partition: int) -> Leader:
        """Who leads a partition; a node that is cut off does not count itself."""
        slot = self.slot(topic, partition)
        owner = self._owners[slot]
        return Leader(self._leaders.get(owner), self._epochs[slot], owner)

    def named_leader(self, topic: str, partition: int) -> Leader:
        """Whom Metadata names: also this node if it is cut off, as a Kafka broker without its controller does.

        Clients give up what has no leader for long: aiokafka with its sequences, and then its producer is lost.
        """
        slot = self.slot(topic, partition)
        owner = self._owners[slot]
        return Leader(self._nodes.get(owner), self._epochs[slot], owner)

    def leads(self, node_id: int, topic: str, partition: int) -> bool:
        """Whether this view gives the partition to the node."""
        return self._owners[self.slot(topic, partition)] == node_id

    def count_led(self, node_id: int, topic: str, partitions: int) -> int:
        """How many of a topic's partitions this view gives to the node."""
        first, slots = self.slot(topic, 0), self._slots
        return sum(self._owners[(first + partition) % slots] == node_id for partition in range(partitions))

    @property
    def has_racks(self) -> bool:
        """Whether there are nodes that serve consumers of their racks what they do not lead."""
        return bool(self._racks)

    def followers(self, topic: str, partition: int) -> tuple[int, ...]:
        """The nodes that serve consumers of their racks a partition that another node leads, one a rack."""
        if not self._racks:
            return ()
        slot = self.slot(topic, partition)
        found = self._followers.get(slot)
        if found is None:
            found = self._followers[slot] = self._racks.followers(slot, self._owners[slot])
        return found

    def follows(self, node_id: int, topic: str, partition: int) -> bool:
        """Whether the node is one of them, and not cut off."""
        return node_id in self.followers(topic, partition) and node_id in self._leaders

    def reader_in(self, rack: str, topic: str, partition: int) -> int | None:
        """The follower in this rack; None if the leader is there, or no node that serves others' partitions."""
        slot = self.slot(topic, partition)
        return self._racks.reader(rack, slot, self._owners[slot])

    def is_anything_lost(self, node_id: int, after: "ClusterSnapshot") -> bool:
        """Whether the node leads something here that it has not led ever since in the view `after`.

        With racks any change counts: it may be about what the node follows.
        """
        if node_id not in self._leaders:
            return False
        if node_id not in after._leaders or self._slots != after._slots:
            return True
        if self._owners == after._owners and self._epochs == after._epochs:
            return self._racks != after._racks
        if self._racks:
            return True
        now = zip(after._owners, after._epochs, strict=True)
        then = zip(self._owners, self._epochs, strict=True)
        return any(old[0] == node_id and old != new for old, new in zip(then, now, strict=True))

    def slot(self, topic: str, partition: int) -> int:
        """The leadership slot of a partition."""
        return slot_of(topic, partition, self._slots)

    def moved_to(self, node_id: int, before: "ClusterSnapshot", *, is_new: bool = False) -> list[int]:
        """The slots that the node leads here, and another process led in the view `before`.

        `is_new`: this process was no member in that view, so what the node led there its former life led.
        """
        if self._slots != before._slots or (self._owners == before._owners and not is_new):
            return []
        no_others = {UNOWNED} if is_new else {UNOWNED, node_id}
        pairs = enumerate(zip(before._owners, self._owners, strict=True))
        return [slot for slot, (old, new) in pairs if new == node_id and old not in no_others]

    def has_servers_of(self, other: "ClusterSnapshot") -> bool:
        """Whether every partition has the leader, and the followers, that it has there."""
        return self._owners == other._owners and self._racks == other._racks

    def coordinator(self, slot: int) -> Node | None:
        """Who coordinates the groups of a slot; None if that is not known yet."""
        return self._leaders.get(self._groups[slot]) if slot < len(self._groups) else None

    def led_by(self, node_id: int) -> list[int]:
        """The leadership slots of a node; none of one that is no member."""
        return [slot for slot, owner in enumerate(self._owners) if owner == node_id != UNOWNED]


class Cluster:
    """The newest view as one node knows it, and what this node may do.

    The membership shell (`member`) changes it; everything else reads it, without awaiting.
    """

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.node_id = NO_NODE
        """This node's id; −1 until it is a member."""
        self.view = ClusterView()
        self.snapshot = ClusterSnapshot(self.view, NO_NODE)
        self.serving = Serving.REFUSE
        self.on_change: list[Callable[[ClusterSnapshot, ClusterSnapshot], None]] = []
        """Called with the former and the new snapshot when there is a new view, or `serving` has changed."""
        self._departed = DepartedNodes()
        self._observed = self.view
        self._changed: asyncio.Future[None] | None = None
        self._waiting: dict[Waiter, None] = {}  # in the order in which they came

    def update(self, view: ClusterView, node_id: int, serving: Serving) -> None:
        """There is a new view, or this node may do more or less than before."""
        before = self.snapshot
        self.observe(view, loop_time)
        self.view, self.node_id, self.serving = view, node_id, serving
        self.snapshot = ClusterSnapshot(view, node_id, is_cut_off=serving is Serving.REFUSE)
        for callback in self.on_change:
            callback(before, self.snapshot)
        if self._waiting and before.is_anything_lost(node_id, self.snapshot):
            for waiter in self._waiting:
                waiter.woken(self)
        changed, self._changed = self._changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)

    def observe(self, view: ClusterView, came: Callable[[], float]) -> None:
        """There was a view: also those of the past, which a node reads when it starts, tell who has left lately.

        `came`: tells when (loop time).
        """
        self._departed.observe(self._observed, view, came)
        self._observed = view

    @property
    def node(self) -> Node:
        """This node as clients see it."""
        node = self.snapshot.node(self.node_id)
        if node is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "this node is not a member of the cluster")
        return node

    def departed_at(self, listener: str) -> list[Node]:
        """The brokers that left a short time ago, with their addresses at a listener; they lead nothing."""
        return [
            replace(_node(member), host=endpoint.host, port=endpoint.port)
            for member in self._departed.members(loop_time)
            for endpoint in member.endpoints
            if endpoint.listener == listener
        ]

    # ---- leadership --------------------------------------------------------------------------------------------------

    def check_leader(self, topic: str, partition: int, client_epoch: int = -1, *, or_follower: bool = False) -> None:
        """Raise unless this node leads the partition, and the client knows the leader by its epoch (KIP-320).

        `client_epoch`: the leader epoch that the client goes by; −1: it does not say. `or_follower`: a follower may
        serve, too, and checks epochs as the leader does (`Partition.getLocalLog`).
        NOT_LEADER_OR_FOLLOWER: another node leads it, or this one is cut off. FENCED_LEADER_EPOCH: the client's view is
        older than this node's. UNKNOWN_LEADER_EPOCH: it is newer; `caught_up` waits for that first.
        """
        leader = self.snapshot.leader(topic, partition)
        self.check(leader, client_epoch, is_follower=or_follower and self.follows(leader, topic, partition))

    def follows(self, leader: Leader, topic: str, partition: int) -> bool:
        """Whether this node serves consumers of its rack a partition that another node leads."""
        return leader.owner != self.node_id and self.snapshot.follows(self.node_id, topic, partition)

    def check(self, leader: Leader, client_epoch: int = -1, *, is_follower: bool = False) -> None:
        """As `check_leader`, of a leader in the newest snapshot."""
        if client_epoch > leader.epoch > NO_EPOCH:
            text = f"leader epoch {client_epoch} is newer than {leader.epoch}"
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, text)
        leads = leader.node is not None and leader.node.id == self.node_id
        if not leads and not is_follower:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the partition")
        if -1 < client_epoch < leader.epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {client_epoch} is older than {leader.epoch}")

    async def caught_up(self, topic: str, partition: int, client_epoch: int, timeout: float = 0.5) -> None:  # noqa: ASYNC109 - running out of time is no error
        """Wait until the view is as new as a client's, which has learnt of a leader elsewhere; a moment at most."""
        until = asyncio.get_running_loop().time() + timeout
        while self.snapshot.leader(topic, partition).epoch < client_epoch:
            if not await self._change(until):
                return

    async def may_append(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - raises KafkaError
        """Wait until this node knows that it has missed nothing after a pause; NOT_LEADER_OR_FOLLOWER otherwise."""
        until = asyncio.get_running_loop().time() + timeout
        while self.serving is Serving.HOLD:
            if not await self._change(until):
                break
        if self.serving is not Serving.SERVE:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node is cut off from Pulsar or the cluster")

    def add_waiter(self, waiter: Waiter) -> None:
        """Wake it whenever this node loses a partition, whichever: for those that wait for what it leads."""
        self._waiting[waiter] = None

    def remove_waiter(self, waiter: Waiter) -> None:
        """Forget it."""
        self._waiting.pop(waiter, None)

    async def _change(self, until: float) -> bool:
        """Wait for the next change; False when the time is over."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        seconds = until - asyncio.get_running_loop().time()
        done, _ = await asyncio.wait((self._changed,), timeout=max(seconds, 0))
        return bool(done)

    # ---- administration ----------------------------------------------------------------------------------------------

    def check_replicas(self, replicas: Sequence[int]) -> None:
        """Raise INVALID_REPLICA_ASSIGNMENT unless a partition can be on these nodes (`ReplicationControlManager`)."""
        text = "The manual partition assignment includes "
        if not replicas:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text + "an empty replica list.")
        for node, times in sorted(Counter(replicas).items()):
            if self.snapshot.node(node) is None:
                text += f"broker {node}, but no such broker is registered."
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
            if times > 1:
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text + f"the broker {node} more than once.")


def single_node(node: Node, cluster_id: str) -> Cluster:
    """A cluster of one node that leads everything and has no membership: for tests of what is above it."""
    cluster = Cluster(cluster_id)
    endpoints = (Endpoint("PLAINTEXT", node.host, node.port),)
    member = NodeRegistration("only", 1, node.id, endpoints, since=1)
    view = ClusterView(1, node.id, {node.id: member}, {"only": node.id}, (node.id,), (0,), (node.id,) * 64)
    cluster.update(view, node.id, Serving.SERVE)
    return cluster


def _node(member: NodeRegistration) -> Node:
    host, port = ("", -1) if not member.endpoints else member.endpoints[0][1:]
    return Node(member.id, host, port, member.rack or None)


def cluster_id(pulsar_cluster: str, namespace: str) -> str:
    """The Kafka cluster id: 22 characters that stay the same for one namespace of one Pulsar cluster."""
    digest = uuid.uuid5(_NAMESPACE, f"{pulsar_cluster}/{namespace}")
    return base64.urlsafe_b64encode(digest.bytes).rstrip(b"=").decode()
