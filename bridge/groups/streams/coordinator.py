"""Coordinates streams groups (KIP-1071): looks at their topologies' topics, and has internal ones created."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final

from bridge.errors import KafkaError
from bridge.groups.configs import (
    STREAMS_ASSIGNMENT,
    STREAMS_DELAY,
    STREAMS_HEARTBEAT,
    STREAMS_SESSION,
    STREAMS_STANDBYS,
)
from bridge.groups.consumer.model import TopicFacts
from bridge.groups.epochs.coordinator import LOOK_AGAIN, EpochGroups, LoadedGroup
from bridge.groups.epochs.group import EpochGroupConfig
from bridge.groups.streams.creations import Create, InternalTopicCreations
from bridge.groups.streams.model import StreamsMember, Subtopology, TopicInfo, Topology
from bridge.groups.streams.records import STREAMS
from bridge.groups.streams.snapshot import StreamsSnapshot
from bridge.groups.streams.state import StreamsAnswer, StreamsGroup, StreamsGroupConfig, StreamsHeartbeat
from bridge.groups.streams.topology import check
from bridge.kafka.error_codes import ErrorCode
from bridge.telemetry import log

_log = log.get(__name__)

_NOT_READY_AGAIN: Final = 1.0
"""Seconds between two looks while topics are missing: they may be on their way."""
_OBJECT_BYTES: Final = 100
_ALL: Final = ""
"""Topics are the same for all members."""


class StreamsGroups(EpochGroups[StreamsGroup]):
    """The streams groups of this node."""

    format = STREAMS
    session_config = STREAMS_SESSION

    def __init__(self, *shared: Any) -> None:
        """As `EpochGroups`."""
        super().__init__(*shared)
        self._creations = InternalTopicCreations(self._clock.time)

    def check_heartbeat(self, request: StreamsHeartbeat) -> None:
        """Raise KafkaError if what a member says takes too much memory, or has a topology that cannot be.

        Nothing is refused where it says nothing new.
        """
        said = request.process_id, request.rack_id, request.endpoint, request.tags, request.topology
        if not request.leaves and any(one is not None for one in said):
            self._budget.check(_member_bytes(request) + _topology_bytes(request.topology))
        if request.topology is not None:
            check(request.topology)

    async def heartbeat(
        self, loaded: LoadedGroup[StreamsGroup], request: StreamsHeartbeat
    ) -> "asyncio.Future[StreamsAnswer]":
        """A heartbeat; its answer comes when it is stored."""
        joins = request.topology is not None
        now = self._clock.time()
        again = LOOK_AGAIN if loaded.group.is_ready else _NOT_READY_AGAIN
        due = now >= loaded.looked_at.get(_ALL, now - again) + again
        if request.leaves or not (joins or (due and not loaded.looking.locked())):
            return self._take(loaded, request, None)
        try:
            async with loaded.looking:  # one after another: an older look must not follow a newer one
                topics = await self._look(loaded, request, joins)
                answer = self._take(loaded, request, topics)
                if joins:
                    loaded.sizes.set_group(_topology_bytes(loaded.group.snapshot.topology))
                return answer
        finally:
            self._drop_if_never_joined(loaded)

    def create_topics(self, group_id: str, wanted: Collection[TopicInfo], create: Create) -> str:
        """Have internal topics created; what has failed recently, "" if nothing has."""
        keep = 2 * self._configs.number(group_id, STREAMS_HEARTBEAT) / 1000
        return self._creations.create(group_id, wanted, create, keep)

    def displace(self, loaded: LoadedGroup[StreamsGroup]) -> None:
        """Drop a group that becomes a classic one; INCONSISTENT_GROUP_PROTOCOL where it has members."""
        if loaded.group.snapshot.members:
            text = f"Group {loaded.group.id} is a streams group."
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
        self._drop(loaded, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def close(self) -> None:
        """Wait for what is being stored."""
        self._creations.close()
        await super().close()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _machine(self, group_id: str, limits: EpochGroupConfig, now: float, snapshot: StreamsSnapshot) -> StreamsGroup:
        return StreamsGroup(group_id, self._limits(group_id), now, snapshot)

    def _limits(self, group_id: str) -> StreamsGroupConfig:
        number = self._configs.number
        return StreamsGroupConfig(
            number(group_id, STREAMS_SESSION) / 1000,
            self._most_members,
            number(group_id, STREAMS_ASSIGNMENT) / 1000,
            number(group_id, STREAMS_STANDBYS),
            number(group_id, STREAMS_DELAY) / 1000,
        )

    def _sizes(self, snapshot: StreamsSnapshot) -> Mapping[str, int]:
        return {one.id: _member_bytes(one) for one in snapshot.members.values()}

    def _take_in(self, group_id: str, snapshot: StreamsSnapshot) -> LoadedGroup[StreamsGroup]:
        loaded = super()._take_in(group_id, snapshot)
        loaded.sizes.set_group(_topology_bytes(snapshot.topology))
        return loaded

    def _take(
        self, loaded: LoadedGroup[StreamsGroup], request: StreamsHeartbeat, topics: Mapping[str, TopicFacts] | None
    ) -> "asyncio.Future[StreamsAnswer]":
        """Let the group have the heartbeat, and count what it knows of the member then."""
        before = loaded.group.snapshot.members.get(request.member_id)
        answer = self._do(loaded, lambda group, now: group.heartbeat(request, topics, now))
        member = loaded.group.snapshot.members.get(request.member_id)
        if member is not None and member is not before:
            loaded.sizes.set(member.id, _member_bytes(member))
        return answer

    async def _look(
        self, loaded: LoadedGroup[StreamsGroup], request: StreamsHeartbeat, joins: bool
    ) -> Mapping[str, TopicFacts] | None:
        """The topics of the topology as they are now; None: not known, and not needed."""
        loaded.looked_at[_ALL] = self._clock.time()
        try:
            view = await self._catalogue.view(loaded.group.required(request), (), fresh=joins)
            return view.topics
        except KafkaError as error:
            if joins:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from None
            _log.warning("! topics of a group not looked at", extra={"group": loaded.group.id, "reason": str(error)})
            return None


def _member_bytes(one: StreamsHeartbeat | StreamsMember) -> int:
    """What a member says of itself takes in memory, roughly."""
    texts = [one.process_id, one.rack_id, one.client_id, one.endpoint and one.endpoint.host]
    tags = sum(_OBJECT_BYTES + len(key) + len(tag) for key, tag in (one.tags or {}).items())
    return _OBJECT_BYTES + sum(len(text) for text in texts if text) + tags


def _topology_bytes(topology: Topology | None) -> int:
    """What a topology takes in memory, roughly."""
    return 0 if topology is None else sum(map(_subtopology_bytes, topology.subtopologies))


def _subtopology_bytes(part: Subtopology) -> int:
    names = (*part.source_topics, *part.source_topic_regex, *part.repartition_sinks)
    internal = (*part.changelogs, *part.repartition_sources)
    texts = [part.id, *names, *(one.name for one in internal)]
    texts += [text for one in internal for pair in one.configs for text in pair]
    places = sum(len(places) for group in part.copartition_groups for places in group)
    return sum(_OBJECT_BYTES + len(text) for text in texts) + 8 * places + _OBJECT_BYTES * len(part.copartition_groups)
