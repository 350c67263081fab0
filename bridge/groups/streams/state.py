"""A streams group (KIP-1071) as a state machine: heartbeats, topics and `now` in, answers out.

| state       | means                                                     | leaves it                             |
|-------------|-----------------------------------------------------------|---------------------------------------|
| Empty       | no members; the topology and committed offsets stay       | a member joins                        |
| NotReady    | topics of the topology are missing or wrongly partitioned | a look at the topics finds them right |
| Assigning   | the group epoch is ahead of the target assignment         | a heartbeat computes a target         |
| Reconciling | some member has not reached the target                    | the last one has (`reconcile`)        |
| Stable      | every member has its target                               | members or topics change              |

Rules (Kafka's GroupMetadataManager.streamsGroupHeartbeat and StreamsGroup, 4.3):

1. A member chooses its id and joins with epoch 0, also a known one, and tells its topology. The first one's is the
   group's, also after the last member has gone. Another topology of the same or a newer epoch is refused; a member with
   an older one stays, and is told that it is.
2. What a member says of itself, the topics of the topology, and the config of standby replicas raise the group epoch;
   so does a member that goes.
3. The next heartbeat computes a target for all members: not within the initial delay of a group that was empty, nor
   twice within the assignment interval. Until then the member is told that it is delayed. While the topology is not
   ready nobody has a task.
4. Any other epoch than the member's fences it, but for the one before, if the member has nothing that it should not
   have: the answer with the new epoch may have been lost.
5. A member whose session is over is removed; so is one that does not give tasks back within its rebalance timeout.
6. Members are told their tasks when they join, when these have changed, and where an answer may have been lost.

Who has asked all members to shut down, and how new the endpoints are that members know, is not stored, as in Kafka.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from bridge.errors import KafkaError
from bridge.groups.consumer.model import JOINING, LEAVING, TopicFacts
from bridge.groups.epochs.group import EpochGroup, EpochGroupConfig
from bridge.groups.streams.assignor import AssignorMember, assign
from bridge.groups.streams.endpoints import EndpointPartitions, partitions_by_endpoint
from bridge.groups.streams.model import NO_TASKS, Endpoint, StreamsMember, Task, Tasks, TopicInfo, Topology
from bridge.groups.streams.reconcile import reconcile
from bridge.groups.streams.snapshot import NEVER_READY, StreamsSnapshot
from bridge.groups.streams.topology import Configured, Status, StatusCode, configure
from bridge.kafka.error_codes import ErrorCode

_FIRST_VERSION_WITH_EPOCHS = 9
"""Of OffsetCommit: an older one has no way to be told STALE_MEMBER_EPOCH."""
_FIRST_EPOCH = 1
"""Of a group that has no members yet, and of the assignment that nobody has a task by."""
_MOST_MILLISECONDS = 1 << 30
_DELAYED = "The assignment waits for the initial rebalance delay."
_TOO_SOON = "The assignment waits for the assignment interval."


@dataclass(frozen=True, slots=True)
class StreamsGroupConfig(EpochGroupConfig):
    """The bounds and times in seconds that hold for a group."""

    standby_replicas: int = 0
    initial_delay: float = 3.0


@dataclass(frozen=True, slots=True)
class StreamsHeartbeat:
    """A StreamsGroupHeartbeat; None, and −1 for the timeout: as before."""

    member_id: str
    epoch: int
    endpoint_epoch: int = 0
    """How new the endpoints are that the member knows."""
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    """Only of a member that joins; checked before the group has it."""
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: Endpoint | None = None
    tags: Mapping[str, str] | None = None
    shutdown: bool = False
    """Whether all members should end."""
    client_id: str = ""
    client_host: str = ""

    @property
    def leaves(self) -> bool:
        """Whether the member goes."""
        return self.epoch == LEAVING

    @property
    def whole(self) -> bool:
        """Whether the member says everything, as after an error."""
        return self.rebalance_timeout_ms != -1 and self.owned is not None


@dataclass(frozen=True, slots=True)
class StreamsAnswer:
    """The answer; tasks and endpoints only where there is news."""

    member_id: str
    epoch: int
    statuses: tuple[Status, ...] = ()
    tasks: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: list[EndpointPartitions] | None = None
    to_create: tuple[TopicInfo, ...] = field(default=())
    """Internal topics that are missing, and can be created."""


class StreamsGroup(EpochGroup[StreamsSnapshot]):
    """One streams group: what happens to it comes in by its methods."""

    kind = "streams"
    limits: StreamsGroupConfig

    def __init__(
        self, group_id: str, limits: StreamsGroupConfig, now: float, snapshot: StreamsSnapshot | None = None
    ) -> None:
        super().__init__(group_id, limits, now, snapshot or StreamsSnapshot())
        self._delayed_until = -inf
        self._shutdown_by = ""
        # nothing that a member may know from another coordinator
        self._endpoint_epoch = int(now * 1000) % _MOST_MILLISECONDS if self.snapshot.epoch else 0
        self._configured: tuple[Topology, Mapping[str, TopicFacts], Configured] | None = None

    # ---- events ------------------------------------------------------------------------------------------------------

    def heartbeat(
        self, request: StreamsHeartbeat, topics: Mapping[str, TopicFacts] | None, now: float
    ) -> StreamsAnswer:
        """A heartbeat's answer, to be given when `snapshot` is stored; KafkaError at once.

        `topics`: those of the topology that exist; None: as before.
        """
        if request.leaves:
            return self._leave(request)
        before = self.snapshot
        if request.epoch == JOINING:
            self._check_room(request.member_id)
        member = self._known(request)
        updated = _updated(member, request)
        if updated == member and request.epoch != JOINING:
            updated = member
        topology = _topology(before.topology, request.topology)
        there = before.topics if topics is None or topics == before.topics else topics
        configured = self._configure(topology, there)
        _check_owned(request.owned, configured)
        statuses = _stale(topology, updated)
        following = self._raised(updated, topology, there, configured.ready)
        if not before.members and now >= self._delayed_until:
            self._delayed_until = now + self.limits.initial_delay
        following, delayed = self._assigned(following, configured, now)
        statuses += delayed
        target = NO_TASKS if now < self._delayed_until else following.targets.get(updated.id, NO_TASKS)
        others = (one for one in following.members.values() if one.id != updated.id)
        reconciled = reconcile(updated, target, following.assignment_epoch, others, request.owned)
        if reconciled is not before.members.get(updated.id):
            following = replace(following, members={**following.members, updated.id: reconciled})
        if following != before:
            self.snapshot = following
        self._heard_from(reconciled, member, now)
        if request.shutdown and not self._shutdown_by:
            self._shutdown_by = updated.id
        return self._answer(request, member, reconciled, topology, statuses, configured)

    def check_commit(
        self, member_id: str, epoch: int, version: int, partitions: Collection[tuple[str, int]] = ()
    ) -> None:
        """Raise what an OffsetCommit of this version gets for some partitions, if it may not.

        A member's older epoch is taken for tasks that were its own already then.
        """
        if epoch < 0 and not self.snapshot.members:
            return  # an administrator
        member = self._member(member_id)
        if version < _FIRST_VERSION_WITH_EPOCHS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "members of this group commit with OffsetCommit v9 or newer"
            )
        if epoch == member.epoch:
            return
        if epoch > member.epoch or not partitions or self.snapshot.topology is None:
            raise _stale_epoch(member, epoch)
        reader = self.snapshot.topology.reader
        for topic, partition in partitions:
            since = member.since.get(Task(reader.get(topic, ""), partition))
            if since is None or epoch < since:
                raise _stale_epoch(member, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise what an OffsetFetch gets, if it may not."""
        if member_id is not None or epoch >= 0:
            member = self._member(member_id or "")
            if epoch != member.epoch:
                raise _stale_epoch(member, epoch)

    def required(self, request: StreamsHeartbeat) -> frozenset[str]:
        """The topics that the group needs once this request is taken."""
        topology = self.snapshot.topology or request.topology
        return frozenset() if topology is None else topology.required

    @property
    def is_ready(self) -> bool:
        """Whether every topic of the topology was there at the last look."""
        topology = self.snapshot.topology
        return topology is not None and self.snapshot.ready_epoch == topology.epoch

    @property
    def configured(self) -> Configured | None:
        """The topology with its topics; None: there is none yet."""
        topology = self.snapshot.topology
        return None if topology is None else self._configure(topology, self.snapshot.topics)

    # ---- members -----------------------------------------------------------------------------------------------------

    def _member(self, member_id: str) -> StreamsMember:
        member: StreamsMember = super()._member(member_id)
        return member

    def _known(self, request: StreamsHeartbeat) -> StreamsMember:
        """The member that the request is of, as it was; a new one where it joins."""
        if request.epoch == JOINING:
            return self.snapshot.members.get(request.member_id) or StreamsMember(request.member_id)
        member = self._member(request.member_id)
        if request.epoch != member.epoch:
            lost = request.epoch < member.epoch and request.epoch == member.previous_epoch
            if not lost or request.owned is None or not request.owned.within(member.assigned):
                raise self._fenced(member, request.epoch)
        return member

    def _leave(self, request: StreamsHeartbeat) -> StreamsAnswer:
        member = self._member(request.member_id)
        if request.shutdown and not self._shutdown_by:
            self._shutdown_by = member.id
        self._remove([member.id])
        return StreamsAnswer(request.member_id, request.epoch)

    def _without(self, going: set[str]) -> StreamsSnapshot:
        before = self.snapshot
        members = {one: member for one, member in before.members.items() if one not in going}
        if not members:
            self._shutdown_by = ""
        targets = {one: target for one, target in before.targets.items() if one not in going}
        return replace(before, epoch=before.epoch + 1, members=members, targets=targets)

    # ---- parts of a heartbeat ----------------------------------------------------------------------------------------

    def _raised(
        self, updated: StreamsMember, topology: Topology, topics: Mapping[str, TopicFacts], ready: bool
    ) -> StreamsSnapshot:
        """The snapshot with the member, the topology and the topics, its epoch raised if any of that is news."""
        before = self.snapshot
        known = before.members.get(updated.id) == updated
        following = replace(
            before,
            members=before.members if known else {**before.members, updated.id: updated},
            topology=topology,
            topics=topics,
            ready_epoch=topology.epoch if ready else NEVER_READY,
            standby_replicas=self.limits.standby_replicas,
        )
        if following == before:
            return before
        epoch, assignment_epoch = max(before.epoch, _FIRST_EPOCH), max(before.assignment_epoch, _FIRST_EPOCH)
        return replace(following, epoch=epoch + 1, assignment_epoch=assignment_epoch)

    def _configure(self, topology: Topology, topics: Mapping[str, TopicFacts]) -> Configured:
        """The topology with the topics that exist."""
        known = self._configured
        if known is None or known[0] is not topology or known[1] is not topics:
            configured = configure(topology, StreamsSnapshot(topics=topics).partitions_of)
            known = self._configured = topology, topics, configured
        return known[2]

    def _assigned(
        self, following: StreamsSnapshot, configured: Configured, now: float
    ) -> tuple[StreamsSnapshot, tuple[Status, ...]]:
        """The snapshot with targets for its epoch, or why there are none yet."""
        if now < self._delayed_until:
            return following, (Status(StatusCode.ASSIGNMENT_DELAYED, _DELAYED),)
        if following.epoch <= following.assignment_epoch:
            return following, ()
        if now < self._next_target_at:
            return following, (Status(StatusCode.ASSIGNMENT_DELAYED, _TOO_SOON),)
        self._assigned_at = now
        targets: Mapping[str, Tasks] = dict.fromkeys(following.members, NO_TASKS)
        if configured.ready:
            members = {
                one.id: AssignorMember(one.process_id, following.targets.get(one.id, NO_TASKS))
                for one in following.members.values()
            }
            targets = assign(members, configured.tasks, configured.stateful, following.standby_replicas)
        return replace(following, assignment_epoch=following.epoch, targets=targets), ()

    def _answer(
        self,
        request: StreamsHeartbeat,
        before: StreamsMember,
        member: StreamsMember,
        topology: Topology,
        statuses: tuple[Status, ...],
        configured: Configured,
    ) -> StreamsAnswer:
        snapshot = self.snapshot
        news = request.epoch != before.epoch or request.whole or member.assigned != before.assigned
        news = news or request.epoch == JOINING
        if news and member.endpoint is not None:
            self._endpoint_epoch += 1
        endpoints = None
        if self._endpoint_epoch != request.endpoint_epoch:
            endpoints = partitions_by_endpoint(snapshot.members.values(), topology, snapshot.partitions_of)
        if configured.status is not None:
            statuses += (configured.status,)
        if self._shutdown_by:
            text = (
                f"Member {self._shutdown_by} has met a fatal error, and asked for the whole application to shut down."
            )
            statuses += (Status(StatusCode.SHUTDOWN_APPLICATION, text),)
        tasks = member.assigned if news else None
        return StreamsAnswer(
            member.id, member.epoch, statuses, tasks, self._endpoint_epoch, endpoints, configured.to_create
        )


def _updated(member: StreamsMember, request: StreamsHeartbeat) -> StreamsMember:
    timeout = request.rebalance_timeout_ms
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if request.endpoint is None else request.endpoint,
        tags=member.tags if request.tags is None else request.tags,
        client_id=request.client_id,
        client_host=request.client_host,
    )


def _topology(present: Topology | None, told: Topology | None) -> Topology:
    """The group's topology, which stays as it is: Kafka 4.3 knows no change of it either."""
    if present is None:
        if told is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the group has no topology")
        return told
    if told is not None and told.epoch >= present.epoch and not told.same(present):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    return present


def _stale(topology: Topology, member: StreamsMember) -> tuple[Status, ...]:
    epoch = topology.epoch
    if member.topology_epoch >= epoch:
        return ()
    text = f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {epoch}."
    return (Status(StatusCode.STALE_TOPOLOGY, text),)


def _check_owned(owned: Tasks | None, configured: Configured) -> None:
    """INVALID_REQUEST for tasks that the topology does not have, where it is known which it has."""
    if owned is None or not configured.ready:
        return
    task = min((task for task in owned.all if not configured.has(task)), default=None)
    if task is not None:
        text = f"The topology has no task {task.partition} of the subtopology {task.subtopology}."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def _stale_epoch(member: StreamsMember, epoch: int) -> KafkaError:
    text = f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, text)
