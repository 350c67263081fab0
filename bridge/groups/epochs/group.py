"""A group whose members have epochs: sessions, who comes and goes. What differs is in `consumer`, `share`, `streams`.

What must outlive the process is `snapshot`, replaced as a whole by each change; what is only time stays beside it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, Generic, TypeVar

from bridge.errors import KafkaError
from bridge.groups.consumer.assignors import Assignor, Subscriber
from bridge.groups.consumer.model import (
    LEAVING,
    LEAVING_STATIC,
    NOTHING,
    Assignment,
    ClassicTerms,
    ConsumerGroupState,
    ConsumerMember,
    EpochSnapshot,
    GroupSnapshot,
    MemberState,
    Pattern,
    View,
)
from bridge.kafka.error_codes import ErrorCode

S = TypeVar("S", bound=EpochSnapshot)


@dataclass(frozen=True, slots=True)
class MemberHeartbeat:
    """A ConsumerGroupHeartbeat, a ShareGroupHeartbeat or a JoinGroup; None, and −1 for the timeout: as before."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    client_id: str = ""
    client_host: str = ""
    viewer: str = ""
    """The client for whom patterns are matched; empty: for any."""
    classic: ClassicTerms | None = None
    """What a member of the classic protocol says in its JoinGroup."""
    names_itself: bool = False
    """Whether such a member says which it is: it takes no other's place."""

    @property
    def leaves(self) -> bool:
        """Whether the member goes."""
        return self.epoch in (LEAVING, LEAVING_STATIC)

    @property
    def whole(self) -> bool:
        """Whether a member of a consumer group says everything, as after an error."""
        subscribes = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The answer; the assignment only where there is news."""

    member_id: str
    epoch: int
    assignment: Assignment | None = None
    wait: float = 0.0
    """After how many seconds what has changed can be assigned; 0: it is."""


@dataclass(frozen=True, slots=True)
class EpochGroupConfig:
    """The bounds and times in seconds that hold for a group."""

    session_timeout: float = 45.0
    most_members: int = 2**31 - 1
    assignment_interval: float = 0.0
    """Between two targets at least; consumer groups have none."""


class EpochGroup(Generic[S]):
    """One group: what happens to it comes in by its methods."""

    kind: ClassVar[str]
    """As Kafka's error texts name it."""

    def __init__(self, group_id: str, limits: EpochGroupConfig, now: float, snapshot: S) -> None:
        self.id = group_id
        self.snapshot = snapshot
        self.limits = limits
        """What holds from the next event on."""
        self._assigned_at = -inf
        self._sessions: dict[str, float] = {}
        self._revocations: dict[str, float] = {}  # when those who have to give something back must have done so
        self._keep_time(now)

    def restore(self, snapshot: S, now: float) -> None:
        """Go back to what is stored: what came after could not be."""
        self.snapshot = snapshot
        self._keep_time(now)

    # ---- time --------------------------------------------------------------------------------------------------------

    @property
    def _next_target_at(self) -> float:
        """When the next target may be computed, where there is an interval."""
        return self._assigned_at + self.limits.assignment_interval

    def deadline(self) -> float:
        """When `expire` has something to do, if nothing happens before; a heartbeat only moves it away."""
        return min(min(self._sessions.values(), default=inf), min(self._revocations.values(), default=inf))

    def expire(self, now: float) -> dict[str, str]:
        """Remove those whose time is over; why, by member."""
        gone = self._due(now)
        self._remove(gone)
        return gone

    def _due(self, now: float) -> dict[str, str]:
        """Those whose time is over; why, by member."""
        slow = {member_id: "it does not revoke" for member_id, at in self._revocations.items() if at <= now}
        return slow | {member_id: "its session is over" for member_id, at in self._sessions.items() if at <= now}

    def _heard_from(self, member: Any, before: Any, now: float) -> None:
        """A member's heartbeat was taken; `before`: the member as it was."""
        self._heard_of(member.id, now)
        if member.state is not MemberState.UNREVOKED:
            self._revocations.pop(member.id, None)
        elif member.revoking != before.revoking or member.epoch != before.epoch:
            self._revocations[member.id] = now + member.rebalance_timeout_ms / 1000

    def _heard_of(self, member_id: str, now: float) -> None:
        self._sessions[member_id] = now + self._session_timeout(member_id)

    def _session_timeout(self, member_id: str) -> float:
        """In seconds."""
        return self.limits.session_timeout

    def _keep_time(self, now: float) -> None:
        """Every member has a session, those that revoke have a time to do so, and no others."""
        members = self.snapshot.members
        self._sessions = {one: self._sessions.get(one, now + self._session_timeout(one)) for one in members}
        self._revocations = {
            one.id: self._revocations.get(one.id, now + one.rebalance_timeout_ms / 1000)
            for one in self.snapshot.members.values()
            if one.state is MemberState.UNREVOKED and one.epoch >= 0
        }

    # ---- members -----------------------------------------------------------------------------------------------------

    def _check_room(self, member_id: str) -> None:
        members = self.snapshot.members
        if len(members) >= self.limits.most_members and member_id not in members:
            text = f"The {self.kind} group has reached its maximum capacity of {self.limits.most_members} members."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)

    def _member(self, member_id: str) -> Any:
        member = self.snapshot.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.id}.")
        return member

    def _fenced(self, member: Any, epoch: int, more: str = "") -> KafkaError:
        than = "greater" if epoch > member.epoch else "smaller"
        text = f"The {self.kind} group member has a {than} member epoch ({epoch}) than the one known by the group "
        text += f"coordinator ({member.epoch}){more}. The member must abandon all its partitions and rejoin."
        return KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)

    def _remove(self, member_ids: Iterable[str]) -> None:
        going = set(member_ids)
        if not going:
            return
        self.snapshot = self._without(going)
        for member_id in going:
            self._sessions.pop(member_id, None)
            self._revocations.pop(member_id, None)

    def _without(self, going: set[str]) -> S:
        """The snapshot, its epoch raised, when these members have gone."""
        raise NotImplementedError


class SubscribedGroup(EpochGroup[GroupSnapshot]):
    """A group whose members subscribe to topics."""

    def __init__(
        self, group_id: str, limits: EpochGroupConfig, now: float, snapshot: GroupSnapshot | None = None
    ) -> None:
        super().__init__(group_id, limits, now, snapshot or GroupSnapshot())

    @property
    def state(self) -> ConsumerGroupState:
        """How the group stands."""
        return self.snapshot.state

    def heartbeat(self, request: MemberHeartbeat, view: View | None, now: float) -> HeartbeatAnswer:
        """A heartbeat's answer, to be given when `snapshot` is stored; KafkaError at once. `view`: None as before."""
        raise NotImplementedError

    def wanted(self, request: MemberHeartbeat) -> tuple[frozenset[str], frozenset[Pattern]]:
        """The names and patterns that will be subscribed to once this request is taken."""
        names, patterns = self.snapshot.wanted()
        return names | (request.topics or frozenset()), patterns

    def has_other_viewer(self, request: MemberHeartbeat) -> bool:
        """Whether what the member may see was asked for another client than the one that sends this."""
        return False

    def _member(self, member_id: str) -> ConsumerMember:
        member: ConsumerMember = super()._member(member_id)
        return member

    def _without(self, going: set[str]) -> GroupSnapshot:
        before = self.snapshot
        following = replace(
            before,
            epoch=before.epoch + 1,
            members={one: member for one, member in before.members.items() if one not in going},
            targets={one: target for one, target in before.targets.items() if one not in going},
        )
        return replace(following, view=_narrowed(following, following.view))


def raised(following: GroupSnapshot, member: ConsumerMember, view: View | None) -> GroupSnapshot:
    """The snapshot with the epoch raised, if what is subscribed to has changed. `member`: as it was."""
    updated = following.members[member.id]
    same = updated.topics == member.topics and updated.pattern == member.pattern
    if following.epoch and same and view is None:
        return following
    narrowed = _narrowed(following, following.view if view is None else view)
    if following.epoch and same and narrowed == following.view:
        return following
    return replace(following, epoch=following.epoch + 1, view=narrowed)


def assigned(following: GroupSnapshot, assign: Assignor) -> GroupSnapshot:
    """The snapshot with targets for its epoch."""
    if following.epoch <= following.assignment_epoch:
        return following
    resolved = following.view.resolved
    subscribers = {
        one.id: Subscriber(one.id, one.instance_id, one.subscribed(resolved), following.targets.get(one.id, NOTHING))
        for one in following.members.values()
    }
    return replace(following, assignment_epoch=following.epoch, targets=assign(subscribers, following.view.topics))


def _narrowed(snapshot: GroupSnapshot, view: View) -> View:
    """Only what members subscribe to."""
    names, patterns = snapshot.wanted()
    resolved = {pattern: view.resolved.get(pattern, frozenset()) for pattern in sorted(patterns)}
    names = names.union(*resolved.values())
    return View({name: view.topics[name] for name in sorted(names & view.topics.keys())}, resolved)
