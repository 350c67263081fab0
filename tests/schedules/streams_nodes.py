"""Members of a streams group (KIP-1071), for scenarios on several nodes: they find the coordinator, and keep tasks."""

import asyncio
from collections.abc import Collection

from bridge.apis import find_coordinator, streams_group_heartbeat
from bridge.apis.streams_group_heartbeat import Request, Subtopology, Topology, task_ids
from bridge.groups.streams.model import Task
from bridge.kafka.error_codes import ErrorCode
from tests.schedules.clients import Leaders, NodeClient
from tests.schedules.kafka import error_name
from tests.schedules.nodes import ServingNode, ServingNodes
from tests.schedules.world import World

GROUP = "app"
PARTITIONS = 4
PARTS = ("0", "1")
"""Subtopologies, which read the same topic."""
TASKS = frozenset(Task(part, number) for part in PARTS for number in range(PARTITIONS))
SESSION_SECONDS = 45.0
_BEGINS_ANEW = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
_PASSES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}


class StreamsMember:
    """One thread of an application."""

    def __init__(self, world: World, nodes: ServingNodes, name: str, process: str) -> None:
        self.tasks: frozenset[Task] = frozenset()
        """Those that it works on."""
        self.epoch = 0
        self.heard_at = 0.0
        """When it was last answered without an error."""
        self.is_well = True
        """False: it has crashed, or left."""
        self.name = name
        self._world, self._nodes, self._process = world, nodes, process
        self._leaders = Leaders(nodes, world)

    async def run(self, others: "Collection[StreamsMember]") -> None:
        """Send heartbeats until it is not well; `others`: all members, whose tasks it must not be given."""
        self.heard_at = self._world.now
        while self.is_well:
            node = await self._coordinator()
            if node is not None and self.is_well:
                await self._beat(node, others)
            await self._world.sleep(0.2, 5.0 if self.epoch else 0.5)

    async def leave(self) -> None:
        """Say so, once; whether the coordinator hears of it is open."""
        self.is_well = False
        node = await self._coordinator()
        if node is not None:
            await self._ask(node, Request(group_id=GROUP, member_id=self.name, member_epoch=-1,
                                          endpoint_information_epoch=-1))  # fmt: skip

    def works_on(self, now: float) -> frozenset[Task]:
        """What nobody else may work on; a member that was not heard of for so long may be given up."""
        return self.tasks if self.is_well and now - self.heard_at < SESSION_SECONDS else frozenset()

    async def _beat(self, node: ServingNode, others: "Collection[StreamsMember]") -> None:
        request = self._request()
        answer = await self._ask(node, request)
        if answer is None or not self.is_well:
            return
        if answer.error_code:
            assert answer.error_code in _PASSES | _BEGINS_ANEW, error_name(answer.error_code)
            if answer.error_code in _BEGINS_ANEW:
                self.epoch, self.tasks = 0, frozenset()
            return
        self.heard_at = self._world.now
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            told = frozenset(
                Task(one.subtopology_id, number) for one in answer.active_tasks for number in one.partitions
            )
            for other in others:
                both = told & other.works_on(self._world.now) if other is not self else None
                assert not both, f"{self.name} is given {sorted(both or ())} of {other.name}"
            self.tasks = told
        self._world.trace(self.name, "> epoch %d, %d tasks", self.epoch, len(self.tasks))

    def _request(self) -> Request:
        request = Request(
            group_id=GROUP, member_id=self.name, member_epoch=self.epoch, endpoint_information_epoch=-1,
            active_tasks=task_ids(self.tasks), standby_tasks=[], warmup_tasks=[],
        )  # fmt: skip
        if not self.epoch:
            parts = [
                Subtopology(
                    subtopology_id=part, source_topics=["t"], source_topic_regex=[], state_changelog_topics=[],
                    repartition_sink_topics=[], repartition_source_topics=[], copartition_groups=[],
                )
                for part in PARTS
            ]  # fmt: skip
            request.topology = Topology(epoch=0, subtopologies=parts)
            request.process_id, request.rebalance_timeout_ms, request.active_tasks = self._process, 300_000, []
        return request

    async def _ask(self, node: ServingNode, request: Request) -> streams_group_heartbeat.Response | None:
        client = NodeClient(self._world, self._leaders, node, self.name, 10.0)
        answer: streams_group_heartbeat.Response | None = await client.ask(streams_group_heartbeat.API, request, 0)
        return answer

    async def _coordinator(self) -> ServingNode | None:
        node = self._nodes.any()
        if node is None:
            return None
        client = NodeClient(self._world, self._leaders, node, self.name, 5.0)
        answer = await client.ask(find_coordinator.API, find_coordinator.Request(coordinator_keys=[GROUP]))
        if answer is None or answer.coordinators[0].error_code:
            return None
        return self._nodes.at(answer.coordinators[0].host)


async def all_assigned(members: Collection[StreamsMember], background: "Collection[asyncio.Future[None]]") -> None:
    """Wait until each task has a member, and all are in the same epoch."""
    while True:
        for task in background:
            if task.done():
                task.result()
        well = [one for one in members if one.is_well]
        given = [task for one in well for task in one.tasks]
        if sorted(given) == sorted(TASKS) and len({one.epoch for one in well}) == 1:
            return
        await asyncio.sleep(0.5)
