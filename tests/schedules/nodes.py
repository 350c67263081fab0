"""Whole nodes for scenarios: members of a cluster that serve what the views give them, each a process of its own."""

import asyncio
import uuid
from collections.abc import Collection, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from bridge.cluster.membership.records import TopicChange, TopicEvent
from bridge.cluster.membership.view import ClusterView
from bridge.cluster.view_changes import ViewFollower
from tests.schedules.kafka import Client
from tests.schedules.members import GROUPS, Member, Members
from tests.schedules.world import Bridge, World

_T = TypeVar("_T")


class ServingNode(Member):
    """One life of a bridge as `node/server.py` wires it, without its sockets: requests come from `clients`."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.bridge: Bridge = self._context.run(self._wire)
        self.is_open = False
        """Its port is open."""
        self.epochs_told: dict[tuple[str, int], int] = {}
        self.clients: dict[Client, None] = {}  # in the order in which they came
        """Who is connected."""

    def _wire(self) -> Bridge:
        bridge = self._world.bridge(groups={"slots": GROUPS})
        bridge.handlers = replace(bridge.handlers, cluster=self.cluster)
        return bridge

    def handle(self, work: Coroutine[Any, Any, _T]) -> "asyncio.Task[_T]":
        """Have it run in this process."""
        return asyncio.get_running_loop().create_task(work, context=self._context)

    async def start(self) -> None:
        """Become a member, and open the port."""
        await self._world.within(90, self.handle(self._start()), f"{self.name} becomes a member")

    async def _start(self) -> None:
        bridge = self.bridge
        await bridge.client.start()
        await asyncio.gather(bridge.topics.start(), bridge.store.start())
        self._follow()
        self._tell_topic_changes()
        await self._member.start()
        bridge.coordinator.start()
        await bridge.offsets.start()
        self.is_open = self.is_alive

    def _follow(self) -> None:
        ViewFollower(self.cluster, self.bridge.topics, self._assign)

    def _assign(self, mine: Collection[int], orphaned: Collection[int]) -> None:
        self.bridge.store.assign(mine, orphaned=orphaned)

    def _tell_topic_changes(self) -> None:
        def changed(name: str, topic_id: uuid.UUID, event: TopicEvent) -> None:
            self._member.announce(TopicChange(name, str(topic_id), event))

        def changed_elsewhere(change: TopicChange) -> None:
            self.bridge.topics.note_change(change.name, uuid.UUID(change.id), change.event)

        self.bridge.topics.on_changed.append(changed)
        self._member.on_topic_change.append(changed_elsewhere)

    async def leave(self) -> None:
        """SIGTERM; in the order of `Server.stop`."""
        self.is_alive = False
        await self._world.within(60, self.handle(self._leave()), f"{self.name} leaves")

    async def _leave(self) -> None:
        await self._member.leave()
        self.is_open = False
        self._stop_serving()
        await asyncio.sleep(self._world.chance.choice((0.0, 0.5, 3.0)))
        self._hang_up()
        await self.bridge.stop(before_client=self._member.close)

    def _stop_serving(self) -> None:
        self.bridge.coordinator.stop()

    async def kill(self) -> None:
        """SIGKILL: its connections are gone; what was on its way is, too, or comes without anything after it."""
        self._world.trace(self.name, "! killed")
        self.is_alive = self.is_open = False
        network = self._world.network
        network.go_on(self.process)
        network.join(self.process)
        for endpoint in network.of(self.process):
            if endpoint.transport is not None and self._world.chance.often(0.7):
                endpoint.transport.die()
        network.cut(self.process)
        for endpoint in network.of(self.process):
            connection = self._world.broker.connections.get(endpoint.number)
            endpoint.reset()
            if connection is not None:
                connection.lost()
        self._hang_up()
        await self.handle(self._member.abort())
        await self._world.within(200, self.handle(self.bridge.stop()), f"{self.name} is taken away")
        network.bury(self.process)

    def _hang_up(self) -> None:
        clients, self.clients = self.clients, {}
        for client in clients:
            client.hang_up()


class ServingNodes(Members):
    """All of them, and who is reached where."""

    all: list[ServingNode]  # type: ignore[assignment]

    @property
    def alive(self) -> list[ServingNode]:  # type: ignore[override]
        return [node for node in self.all if node.is_alive]

    def new(self, name: str) -> ServingNode:
        """One more, not yet started."""
        node = super().new(name)
        assert isinstance(node, ServingNode)
        return node

    def _make(self, name: str) -> Member:
        return ServingNode(self._world, name)

    def at(self, host: str) -> ServingNode | None:
        """Who listens there: clients know no other names of nodes than those of their hosts."""
        return next((node for node in self.all if node.name == host and node.is_open), None)

    def any(self) -> ServingNode | None:
        """A node whose port is open, as a client finds it that knows all their hosts."""
        found = [node for node in self.all if node.is_open]
        return self._world.chance.choice(found) if found else None

    def of(self, bridge: Bridge) -> ServingNode:
        """Whose bridge it is."""
        return next(node for node in self.all if node.bridge is bridge)

    @property
    def views(self) -> list[ClusterView]:
        """All that any node has had."""
        return list(self._views.values())

    def trouble(self) -> str:
        """As of members, and of what they serve."""
        trouble = super().trouble()
        if trouble:
            return trouble
        for slot in range(GROUPS):
            open_ = [node for node in self.all if not node.bridge.closed]
            holders = [node.name for node in open_ if slot in node.bridge.store.owned_slots()]
            owner = self.alive[0].cluster.snapshot.coordinator(slot)
            if owner is None or holders != [owner.host]:
                return f"group slot {slot} is held by {holders}, and belongs to {owner}"
        return ""

    async def end(self) -> None:
        """All are killed."""
        await asyncio.gather(*(node.kill() for node in list(self.alive)))
