"""Kafka clients of several nodes: they find leaders and coordinators by Metadata, hints and FindCoordinator."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from bridge.apis import find_coordinator, metadata, offset_commit, offset_fetch, produce
from bridge.cluster.membership.slots import slot_of
from bridge.cluster.membership.view import ClusterView
from bridge.kafka import produce_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api
from bridge.requests.session import Session
from tests.schedules.kafka import NO_ANSWER, Client, error_name
from tests.schedules.nodes import ServingNode, ServingNodes
from tests.schedules.producers import RetryingProducer
from tests.schedules.world import Bridge, World

PASSES = {
    0,
    NO_ANSWER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
}
_GROUP_PASSES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}


class Leaders:
    """What one client knows of leaders; what is older than that it does not take (KIP-320)."""

    def __init__(self, nodes: ServingNodes, world: World) -> None:
        self.nodes = nodes
        self._world = world
        self._known: dict[tuple[str, int], tuple[int, str]] = {}

    def learn(self, topic: str, partition: int, epoch: int, host: str) -> None:
        """It was told so."""
        if epoch >= self._known.get((topic, partition), (-1, ""))[0]:
            self._known[topic, partition] = epoch, host

    def epoch(self, topic: str, partition: int) -> int:
        """The leader epoch that it goes by."""
        return self._known.get((topic, partition), (-1, ""))[0]

    def leader(self, topic: str, partition: int) -> ServingNode | None:
        """Where it connects to."""
        known = self._known.get((topic, partition))
        return None if known is None else self.nodes.at(known[1])

    async def refresh(self, topic: str) -> None:
        """Ask any node."""
        node = self.nodes.any()
        if node is None:
            await asyncio.sleep(0.1)
            return
        client = NodeClient(self._world, self, node, "metadata")
        request = metadata.Request(topics=[metadata.RequestTopic(name=topic)], allow_auto_topic_creation=False)
        await client.ask(metadata.API, request, seconds=5.0)


class NodeClient(Client):
    """A connection to one node; what it is told of leaders goes to `leaders`, and is checked."""

    def __init__(self, world: World, leaders: Leaders, node: ServingNode, name: str, seconds: float = 40.0) -> None:
        super().__init__(world, node.bridge, name, request_seconds=seconds)
        self.node = node
        self._leaders = leaders

    def _run(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Future[Any]":
        return self.node.handle(work)

    async def ask(self, api: Api, request: Any, version: int | None = None, seconds: float | None = None) -> Any:
        """As `Client.ask`; None also where no node listens."""
        if not self.node.is_open:
            await asyncio.sleep(0.02)
            return None
        self.node.clients[self] = None
        answer = await super().ask(api, request, version, seconds)
        if answer is None:
            return None
        if api.key == metadata.API.key:
            self._learn_metadata(answer)
        elif api.key == produce.API.key:
            self._learn_hints(answer)
        return answer

    async def _handle(self, api: Api, request: Any, session: Session, version: int | None, received: float) -> Any:
        return await super()._handle(api, request, session, version, asyncio.get_running_loop().time())

    def _learn_metadata(self, answer: metadata.Response) -> None:
        brokers = {broker.node_id: broker for broker in answer.brokers}
        assert len(brokers) == len(answer.brokers), "a broker is there twice"
        assert any(_is_of(answer, view) for view in self._leaders.nodes.views), f"Metadata of no one view: {answer}"
        for topic in answer.topics:
            for one in topic.partitions:
                if one.error_code:
                    continue
                assert one.leader_id in brokers, f"leader {one.leader_id} is not among {sorted(brokers)}"
                name = topic.name or ""
                key = (name, one.partition_index)
                last = self.node.epochs_told.get(key, -1)
                assert one.leader_epoch >= last, f"{self.node.name} told epoch {one.leader_epoch} after {last}"
                self.node.epochs_told[key] = one.leader_epoch
                self._leaders.learn(*key, one.leader_epoch, brokers[one.leader_id].host)

    def _learn_hints(self, answer: produce_wire.Response) -> None:
        hosts = {node.node_id: node.host for node in answer.node_endpoints}
        for topic in answer.responses:
            for one in topic.partition_responses:
                hint = one.current_leader
                if hint is not None and hint.leader_id >= 0:
                    assert hint.leader_id in hosts, f"a hint names {hint.leader_id}, addresses are of {sorted(hosts)}"
                    self._leaders.learn(topic.name, one.index, hint.leader_epoch, hosts[hint.leader_id])


def _is_of(answer: metadata.Response, view: ClusterView) -> bool:
    """Whether all that a Metadata says of nodes and leaders is of this view."""
    if not view.owners or any(broker.node_id not in view.members for broker in answer.brokers):
        return False
    for topic in answer.topics:
        for one in topic.partitions:
            slot = slot_of(topic.name or "", one.partition_index, len(view.owners))
            if (one.leader_epoch, one.replica_nodes) != (view.epochs[slot], [view.owners[slot]]):
                return False
    return True


class FollowingProducer(RetryingProducer):
    """A producer that goes where the leader is."""

    def __init__(
        self, world: World, leaders: Leaders, topic: str, name: str, node: ServingNode, **options: Any
    ) -> None:
        self._leaders = leaders
        self._where = topic, int(options.get("partition", 0))
        super().__init__(world, node.bridge, topic, name, **options)

    def _connect(self, bridge: Bridge) -> Client:
        return NodeClient(self._world, self._leaders, self._leaders.nodes.of(bridge), self.name)

    async def navigate(self) -> None:
        """Look for the leader again and again, until cancelled."""
        while True:
            await self._leaders.refresh(self._where[0])
            for _ in range(self._world.chance.randint(1, 10)):
                leader = self._leaders.leader(*self._where)
                if leader is not None and leader.bridge is not self._client.bridge:
                    is_gone = self._world.chance.often(0.3)
                    (self.move_to if is_gone else self.follow)(leader.bridge)
                await self._world.sleep(0, 0.2)


class FollowingReader:
    """Reads a partition from its beginning, wherever its leader is."""

    def __init__(self, world: World, leaders: Leaders, topic: str, partition: int) -> None:
        self.found: dict[int, bytes] = {}
        self.offset = 0
        self._world, self._leaders, self._topic, self._partition = world, leaders, topic, partition
        self._last_error_at = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            node = self._leaders.leader(self._topic, self._partition)
            error = int(ErrorCode.LEADER_NOT_AVAILABLE)
            if node is not None:
                client = NodeClient(self._world, self._leaders, node, f"reader {self._partition}", 10.0)
                fetched = await client.fetch(self._topic, self.offset, partition=self._partition, max_wait=2.0)
                error = fetched.error
                assert error in PASSES, error_name(error)
                for record in fetched.records:
                    self.found[record.offset] = bytes(record.value or b"")
                    self.offset = record.offset + 1
            if error:
                await self._leaders.refresh(self._topic)
            await self._world.sleep(0, 0.3)


class FollowingCommitter:
    """Commits growing offsets of a group at its coordinator, and looks at any node what is committed."""

    def __init__(self, world: World, leaders: Leaders, topic: str, group: str) -> None:
        self.acked = -1
        self.acked_at = 0.0
        self._world, self._leaders, self._topic, self._group = world, leaders, topic, group

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            node = await self._coordinator()
            if node is None:
                await self._world.sleep(0, 0.3)
                continue
            error = await self._commit(node, self.acked + 1)
            assert error in _GROUP_PASSES | {0, NO_ANSWER}, error_name(error)
            if error == 0:
                self.acked, self.acked_at = self.acked + 1, self._world.now
            await self._look()
            await self._world.sleep(0, 0.5)

    async def _coordinator(self) -> ServingNode | None:
        node = self._leaders.nodes.any()
        if node is None:
            return None
        client = NodeClient(self._world, self._leaders, node, self._group, 5.0)
        answer = await client.ask(find_coordinator.API, find_coordinator.Request(coordinator_keys=[self._group]))
        if answer is None or answer.coordinators[0].error_code:
            return None
        return self._leaders.nodes.at(answer.coordinators[0].host)

    async def _commit(self, node: ServingNode, offset: int) -> int:
        one = offset_commit.RequestPartition(partition_index=0, committed_offset=offset)
        topics = [offset_commit.RequestTopic(name=self._topic, partitions=[one])]
        client = NodeClient(self._world, self._leaders, node, self._group, 10.0)
        answer = await client.ask(offset_commit.API, offset_commit.Request(group_id=self._group, topics=topics), 9)
        return NO_ANSWER if answer is None else int(answer.topics[0].partitions[0].error_code)

    async def _look(self) -> None:
        node = self._leaders.nodes.any()
        if node is None:
            return
        client, acked = NodeClient(self._world, self._leaders, node, self._group, 10.0), self.acked
        wanted = [offset_fetch.Topic(name=self._topic, partition_indexes=[0])]
        request = offset_fetch.Request(groups=[offset_fetch.RequestGroup(group_id=self._group, topics=wanted)])
        answer = await client.ask(offset_fetch.API, request, 9)
        if answer is None:
            return
        found = answer.groups[0]
        if found.error_code:
            assert found.error_code in _GROUP_PASSES, error_name(found.error_code)
            return
        offset = found.topics[0].partitions[0].committed_offset
        assert offset >= acked, f"{node.name} shows offset {offset} of {self._group}, {acked} was acknowledged"
