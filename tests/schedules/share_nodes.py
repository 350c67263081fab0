"""Nodes that serve share groups, for scenarios: they ask each other, and some of it is lost; and members of a group."""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Any
from uuid import UUID

from bridge.apis import share_fetch
from bridge.cluster.membership.record_format import FORMAT_LEVEL
from bridge.cluster.membership.view import Endpoint
from bridge.cluster.one_broker import OneBroker
from bridge.cluster.view_changes import ViewFollower
from bridge.config import INTERNAL
from bridge.errors import KafkaError
from bridge.groups.configs import GroupConfigs
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.share_messages import AcknowledgementBatch
from bridge.requests.api import Api, OtherNodes
from bridge.requests.session import Session
from bridge.requests.share_states import NodesShareStates
from bridge.security.principal import NODE
from bridge.shares.partitions import Shares
from bridge.shares.state import ACCEPT, RELEASE
from tests.schedules.clients import Leaders, NodeClient
from tests.schedules.members import Member
from tests.schedules.nodes import ServingNode, ServingNodes
from tests.schedules.world import Bridge, World

GROUP = "shared"
_CONFIGS = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
_MOST_DELIVERIES = 10
_QUESTION_SECONDS = 2.0
_STALE_SECONDS = 1.0
"""For how long a leader hands out records by what the coordinator has said last."""


class Between:
    """What one node asks of others, as bytes; the way there or back may lose it."""

    def __init__(self, world: World, nodes: "ShareNodes", own: ServingNode) -> None:
        self._world, self._nodes, self._own = world, nodes, own

    def of(self, namespace: str) -> OtherNodes:
        return self

    def coordinator(self, group_slot: int) -> int | None:
        node = self._own.cluster.snapshot.coordinator(group_slot)
        return None if node is None or node.id == self._own.cluster.node_id else node.id

    async def ask(self, node: int, api: Api, request: Any, version: int) -> Any:
        chance = self._world.chance
        await self._world.sleep(0, chance.choice((0.001, 0.01, 0.3)))
        other = next((one for one in self._nodes.alive if one.is_open and one.cluster.node_id == node), None)
        lost = self._nodes.loses and chance.often(0.1)
        if other is None or not self._own.is_alive or (lost and chance.often(0.5)):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        body = message.encode(request, version, True)
        session = Session(0, "/10.0.0.8:1", INTERNAL, principal=NODE)

        async def answer() -> Any:
            return await api.handle(api.decode(memoryview(body), version), other.bridge.handlers, session)

        handled: asyncio.Future[Any] = other.handle(answer())
        done, _ = await asyncio.wait((handled,), timeout=_QUESTION_SECONDS)
        if not done:
            self._world.after_all(handled, api.name)
        if not done or lost or not other.is_alive:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return message.decode(api.response, message.encode(handled.result(), version, True), version, True)


class ShareNode(ServingNode):
    """A node that leads share partitions, too."""

    listeners = ("PLAINTEXT", INTERNAL)
    level = FORMAT_LEVEL
    shares: Shares

    def __init__(self, world: World, nodes: "ShareNodes", name: str) -> None:
        super().__init__(world, name)
        between = Between(world, nodes, self)
        self._context.run(self._serve_shares, self.bridge, between)

    def _serve_shares(self, bridge: Bridge, between: Between) -> None:
        states = NodesShareStates(bridge.coordinator.share_states, bridge.store.slot_of)
        states.others = between
        configs = GroupConfigs(bridge.settings.groups, lambda group_id: _CONFIGS)
        self.shares = Shares(states, configs, bridge.metrics.shares)
        bridge.coordinator.share_states.on_changed.append(self.shares.changed)
        bridge.handlers = replace(bridge.handlers, shares=self.shares, other_nodes=between)

    def _assign(self, mine: Collection[int], orphaned: Collection[int]) -> None:
        super()._assign(mine, orphaned)
        self.shares.drop_lost()

    def _stop_serving(self) -> None:
        self.shares.stop()
        super()._stop_serving()

    async def kill(self) -> None:
        self.is_alive = self.is_open = False
        self._hang_up()
        self._context.run(self.shares.stop)
        await super().kill()
        self._context.run(self.shares.stop)


class OneAddressNode(ShareNode):
    """A node behind one address: it serves every partition, and leads those of the share groups that it coordinates."""

    def _serve_shares(self, bridge: Bridge, between: Between) -> None:
        configs = GroupConfigs(bridge.settings.groups, lambda group_id: _CONFIGS)
        states = bridge.coordinator.share_states
        self.shares = Shares(states, configs, bridge.metrics.shares, coordinates=True)
        states.on_changed.append(self.shares.changed)
        bridge.store.on_lost.append(self.shares.end_groups)
        settings = bridge.settings.with_values(
            kafka={"advertised": "all:9092"}, cluster={"addressing": "single", "internal_listen": "127.0.0.1:9095"}
        )
        bridge.handlers = replace(bridge.handlers, settings=settings, shares=self.shares)

    def _follow(self) -> None:
        ViewFollower(self._as_one, self.bridge.topics, self._assign, self.cluster)

    def _wire(self) -> Bridge:
        self._as_one = OneBroker(self.cluster, Endpoint("PLAINTEXT", "all", 9092))
        return super()._wire()


class ShareNodes(ServingNodes):
    """All of them."""

    loses = True
    """Some of what nodes ask each other is lost."""
    idempotent = True
    """Whether producers may be: behind one address their names are free when their connections are closed."""

    def _make(self, name: str) -> Member:
        return ShareNode(self._world, self, name)

    def _coordinator(self) -> ServingNode | None:
        slot = self.all[0].bridge.store.slot_of(GROUP)
        node = self.alive[0].cluster.snapshot.coordinator(slot)
        return None if node is None else self.at(node.host)

    def reached(self, leaders: Leaders, partition: int) -> ServingNode | None:
        """Where a member asks for records, as far as it knows."""
        return leaders.leader("t", partition)

    def is_stale(self, node: ServingNode, partition: int) -> bool:
        """Whether it does not know yet that another node gives records of a partition."""
        epochs = [one.cluster.snapshot.leader("t", partition).epoch for one in self.alive]
        return node.cluster.snapshot.leader("t", partition).epoch < max(epochs)

    async def alter(self, topic_id: UUID, start: int) -> None:
        """Let the group begin elsewhere in the topic's first partition."""
        coordinator = self._coordinator()
        assert coordinator is not None
        await coordinator.handle(coordinator.bridge.coordinator.share_states.alter(GROUP, topic_id, 0, start))

    async def starts(self, topic_id: UUID, partitions: int) -> list[int] | None:
        """Where the group begins in each partition, as its coordinator has it; None: nobody knows at present."""
        coordinator = self._coordinator()
        if coordinator is None:
            return None
        states, found = coordinator.bridge.coordinator.share_states, []
        for partition in range(partitions):
            try:
                await coordinator.handle(states.initialize(GROUP, topic_id, partition))
                summary = await coordinator.handle(states.summary(GROUP, topic_id, partition))
            except KafkaError:
                return None
            found.append(-1 if summary is None else summary.start)
        return found


class OneAddressNodes(ShareNodes):
    """Those behind one address."""

    idempotent = False

    def _make(self, name: str) -> Member:
        return OneAddressNode(self._world, self, name)

    def reached(self, leaders: Leaders, partition: int) -> ServingNode | None:
        """The coordinator, as the node knows it that has the member's connection."""
        front = self.any()
        node = None if front is None else front.cluster.snapshot.coordinator(front.bridge.store.slot_of(GROUP))
        return None if node is None else self.at(node.host)

    def is_stale(self, node: ServingNode, partition: int) -> bool:
        """Whether it does not know yet that another node coordinates the group."""
        return node.cluster.snapshot.version < max(one.cluster.snapshot.version for one in self.alive)


class Told:
    """What members were told of one partition's records."""

    def __init__(self, world: World, nodes: ShareNodes, partition: int) -> None:
        self._world, self.nodes, self._partition = world, nodes, partition
        self.done: dict[int, float] = {}
        """When each acceptance was answered without an error."""
        self.accepted: set[int] = set()
        """Those of which one was sent, or that were delivered too often."""
        self.seen: set[int] = set()
        """Those that any member has had."""

    def delivered(self, offset: int, count: int, asked_at: float, node: ServingNode) -> None:
        """A member has it, from a request that was sent at that time."""
        self.seen.add(offset)
        if count >= _MOST_DELIVERIES:
            self.accepted.add(offset)
        done_at = self.done.get(offset)
        if done_at is None or done_at >= asked_at:
            return
        is_stale = self.nodes.is_stale(node, self._partition)
        assert is_stale and asked_at - done_at < _STALE_SECONDS, (
            f"{node.name} gives {offset} at {asked_at:.3f}, {done_at:.3f} it was accepted"
        )


class ShareMember:
    """Reads one partition as a member of the group, wherever its leader is, and accepts most of what it gets."""

    def __init__(self, world: World, leaders: Leaders, name: str, topic_id: UUID, told: Told, partition: int) -> None:
        self.accepts_all = False
        self._world, self._leaders, self._name = world, leaders, name
        self._topic_id, self._told, self._partition = topic_id, told, partition
        self._client: NodeClient | None = None
        self._epoch = 0
        self._has: list[int] = []

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            stays = self._epoch and self._world.chance.often(0.9)
            node = self._client.node if stays and self._client else self._node()
            seconds = self._world.chance.choice((3.0, 15.0))
            if node is None or not await self.poll(node, seconds):
                self._epoch = 0
                self._has.clear()
                await self._leaders.refresh("t")
            await self._world.sleep(0, 0.2)
            if self._world.chance.often(0.05):
                self._epoch = 0  # as its restart
                self._has.clear()

    def _node(self) -> ServingNode | None:
        """That which gives records, as far as it knows, or any: it may go by an old view, or be frozen."""
        if self._world.chance.often(0.3):
            return self._leaders.nodes.any()
        return self._told.nodes.reached(self._leaders, self._partition)

    async def poll(self, node: ServingNode, seconds: float) -> bool:
        """One request; False: the session is to be opened again."""
        if self._client is None or self._client.node is not node or not self._epoch:
            self._client, self._epoch = NodeClient(self._world, self._leaders, node, self._name), 0
            self._has.clear()
        said = [(offset, self._says()) for offset in self._has if self.accepts_all or self._world.chance.often(0.8)]
        self._has.clear()
        self._told.accepted.update(offset for offset, type in said if type == ACCEPT)
        batches = [AcknowledgementBatch(first_offset=at, last_offset=at, acknowledge_types=[type]) for at, type in said]
        one = share_fetch.FetchPartition(partition_index=self._partition, acknowledgement_batches=batches)
        request = share_fetch.Request(
            group_id=GROUP, member_id=self._name, share_session_epoch=self._epoch, max_wait_ms=500, min_bytes=1,
            max_records=self._world.chance.choice((1, 2, 10)), batch_size=500,
            topics=[share_fetch.FetchTopic(topic_id=self._topic_id, partitions=[one])], forgotten_topics_data=[],
        )  # fmt: skip
        asked_at = self._world.now
        try:
            answer = await self._client.ask(share_fetch.API, request, 1, seconds=seconds)
        except KafkaError as error:
            assert error.code in (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH), error
            return False
        if answer is None or answer.error_code:
            return False
        self._epoch += 1
        return all([self._look(part, said, asked_at, node) for topic in answer.responses for part in topic.partitions])

    def _says(self) -> int:
        return ACCEPT if self.accepts_all or self._world.chance.often(0.8) else RELEASE

    def _look(
        self, part: share_fetch.PartitionData, said: list[tuple[int, int]], asked_at: float, node: ServingNode
    ) -> bool:
        if not part.acknowledge_error_code:
            for offset, type in said:
                if type == ACCEPT:
                    self._told.done.setdefault(offset, self._world.now)
        for one in part.acquired_records:
            for offset in range(one.first_offset, one.last_offset + 1):
                self._told.delivered(offset, one.delivery_count, asked_at, node)
                self._has.append(offset)
        self._world.trace(self._name, "> shared t-%d of %s: %d %d, said %s, has %s", self._partition, node.name,
                          part.error_code, part.acknowledge_error_code, said, self._has)  # fmt: skip
        return not part.error_code
