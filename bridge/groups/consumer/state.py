"""A group of the new consumer protocol (KIP-848) as a state machine: heartbeats, topics and `now` in, answers out.

What must outlive the process is `snapshot`, replaced as a whole by each change; what is only time stays beside it.

| state       | means                                             | leaves it                                          |
|-------------|---------------------------------------------------|----------------------------------------------------|
| Empty       | no members; perhaps committed offsets             | a member joins                                     |
| Assigning   | the group epoch is ahead of the target assignment | the next heartbeat of any member computes a target |
| Reconciling | some member has not reached the target            | the last one has (`reconcile`)                     |
| Stable      | every member has its target                       | a member comes, goes or changes; topics change     |

Rules (Kafka's GroupMetadataManager and ConsumerGroup, KIP-848, KIP-1082):

1. A member chooses its id and joins with epoch 0. That is taken from a known member as well, where Kafka 4.1 fences it
   (later ones do not): a fenced member would be kept out until its session is over.
2. Any change of what a member subscribes to, or of the topics subscribed to, raises the group epoch; so does a member
   that goes. A group epoch ahead of the assignment's makes the next heartbeat compute a new target, for all members.
3. Any other epoch than the member's fences it, but for the one before, if the member has nothing that it should not
   have: the answer with the new epoch may have been lost.
4. A static member (KIP-345) that goes with −2 keeps its partitions until it comes back under another id, or its session
   is over. While it is there no other member can be that instance: UNRELEASED_INSTANCE_ID.
5. A member whose session is over is removed; so is one that does not give partitions back within its rebalance timeout.
6. A member of the classic protocol joins as by a heartbeat with epoch 0, its generation is its epoch, and SyncGroup
   tells what it has. Its heartbeat has it join again where that brings it nearer to its target. One that does not join,
   or then sync, within its rebalance timeout is removed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from bridge.errors import KafkaError
from bridge.groups.classic.events import Leave, Sync, Synced
from bridge.groups.consumer.assignors import ASSIGNORS
from bridge.groups.consumer.migration import assignment_of
from bridge.groups.consumer.model import (
    JOINING,
    LEAVING_STATIC,
    NOTHING,
    UNIFORM,
    Assignment,
    ConsumerMember,
    GroupSnapshot,
    MemberState,
    Pattern,
    View,
    within,
)
from bridge.groups.consumer.reconcile import reconcile
from bridge.groups.epochs.group import (
    EpochGroupConfig,
    HeartbeatAnswer,
    MemberHeartbeat,
    SubscribedGroup,
    assigned,
    raised,
)
from bridge.kafka import consumer_protocol
from bridge.kafka.error_codes import ErrorCode

_FIRST_VERSION_WITH_EPOCHS = 9
"""Of OffsetCommit: an older one has no way to be told STALE_MEMBER_EPOCH."""


class ConsumerGroup(SubscribedGroup):
    """One consumer group: what happens to it comes in by its methods."""

    kind = "consumer"

    def __init__(
        self, group_id: str, limits: EpochGroupConfig, now: float, snapshot: GroupSnapshot | None = None
    ) -> None:
        self._awaited: dict[str, float] = {}  # when classic members must have joined again, or synced
        super().__init__(group_id, limits, now, snapshot)

    # ---- events ------------------------------------------------------------------------------------------------------

    def heartbeat(self, request: MemberHeartbeat, view: View | None, now: float) -> HeartbeatAnswer:
        """A heartbeat's answer, to be given when `snapshot` is stored; KafkaError at once. `view`: None as before."""
        if request.leaves:
            return self._leave(request)
        before = self.snapshot
        self._check_room(request.member_id)
        self._check_protocols(request)
        member = self._known(request)
        updated = _updated(member, request)
        if request.epoch > JOINING and view is None and updated == member and before.is_settled(member):
            self._heard_from(member, member, now)
            return HeartbeatAnswer(member.id, member.epoch, member.assigned if request.whole else None)
        members = {one.id: one for one in before.members.values() if not _replaced(one, updated)}
        members[updated.id] = updated
        following = replace(before, members=members, targets=_moved(before, updated))
        following = raised(following, member, view)
        following = assigned(following, ASSIGNORS.get(following.assignor()) or ASSIGNORS[UNIFORM])
        others = [one for one in members.values() if one.id != updated.id]
        target = following.targets.get(updated.id, NOTHING)
        reconciled = reconcile(updated, target, following.assignment_epoch, others, request.owned)
        members[updated.id] = reconciled
        if following.epoch != before.epoch or before.members.get(updated.id) != reconciled:
            self.snapshot = following
        self._heard_from(reconciled, member, now)
        if request.classic is None:
            self._awaited.pop(reconciled.id, None)
        else:
            self._awaited[reconciled.id] = now + reconciled.rebalance_timeout_ms / 1000
        news = request.epoch == JOINING or request.whole or reconciled.assigned != member.assigned
        return HeartbeatAnswer(reconciled.id, reconciled.epoch, reconciled.assigned if news else None)

    def sync(self, request: Sync, now: float) -> Synced:
        """What a classic member has since it joined; KafkaError."""
        member = self._classic_member(request.member_id, request.instance_id, request.generation)
        # any of its own: a JoinGroup that was answered by the classic group has named the one that was chosen there
        known = (consumer_protocol.TYPE, *(name for name, _ in member.classic.protocols)) if member.classic else ()
        if any(said is not None and said not in known for said in (request.protocol_type, request.protocol_name)):
            text = f"Member {member.id} names another protocol than the answer to its JoinGroup."
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
        if self.snapshot.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
            self._await_join(member, now)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._awaited.pop(member.id, None)
        self._heard_of(member.id, now)
        assigned = assignment_of(member, self.snapshot.view)
        return Synced(ErrorCode.NONE, request.protocol_type, request.protocol_name, assigned)

    def classic_heartbeat(
        self, member_id: str, instance_id: str | None, generation: int, view: View | None, now: float
    ) -> ErrorCode:
        """The answer to a classic member's heartbeat; KafkaError. `view`: None as before."""
        member = self._classic_member(member_id, instance_id, generation)
        if view is not None:
            self.snapshot = raised(self.snapshot, member, view)
        self._heard_of(member.id, now)
        if not self._should_join(member):
            return ErrorCode.NONE
        self._await_join(member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def remove(self, leaving: Iterable[Leave]) -> list[ErrorCode]:
        """A LeaveGroup of an administrator; the answer of each member."""
        errors, going = [], set()
        for one in leaving:
            try:
                going.add(self._leaver(one.member_id, one.instance_id, by_instance=not one.member_id).id)
                errors.append(ErrorCode.NONE)
            except KafkaError as error:
                errors.append(ErrorCode(error.code))
        self._remove(going)
        return errors

    def check_commit(self, member_id: str, epoch: int, version: int) -> None:
        """Raise what an OffsetCommit of this version gets, if it may not."""
        if epoch < 0 and not self.snapshot.members:
            return  # an administrator, or a consumer that assigns itself
        member = self._member(member_id)
        if version < _FIRST_VERSION_WITH_EPOCHS and member.classic is None:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "members of this group commit with OffsetCommit v9 or newer"
            )
        _check_current(member, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise what an OffsetFetch gets, if it may not."""
        if member_id is not None or epoch >= 0:
            _check_current(self._member(member_id or ""), epoch)

    def wanted(self, request: MemberHeartbeat) -> tuple[frozenset[str], frozenset[Pattern]]:
        """The names and patterns that will be subscribed to once this request is taken."""
        names, patterns = super().wanted(request)
        member = self._former(request)
        regex = request.regex if request.regex is not None or member is None else member.regex
        own = frozenset([Pattern(regex, request.viewer)] if regex else ())
        return names, patterns | own

    def has_other_viewer(self, request: MemberHeartbeat) -> bool:
        """Whether the member has a pattern that was matched for another client than the one that sends this."""
        member = self._former(request)
        return member is not None and bool(member.regex) and member.viewer != request.viewer

    def _former(self, request: MemberHeartbeat) -> ConsumerMember | None:
        """What there is of the member already, perhaps under another id."""
        static = None if request.instance_id is None else self.snapshot.static(request.instance_id)
        return static or self.snapshot.members.get(request.member_id)

    # ---- time --------------------------------------------------------------------------------------------------------

    def deadline(self) -> float:
        """When `expire` has something to do, if nothing happens before; a heartbeat only moves it away."""
        return min((super().deadline(), *self._awaited.values()))

    def _due(self, now: float) -> dict[str, str]:
        late = {member_id: "it does not join or sync" for member_id, at in self._awaited.items() if at <= now}
        return late | super()._due(now)

    def _session_timeout(self, member_id: str) -> float:
        """A classic member has its own."""
        member = self.snapshot.members.get(member_id)
        terms = None if member is None else member.classic
        return super()._session_timeout(member_id) if terms is None else terms.session_timeout_ms / 1000

    def _heard_from(self, member: ConsumerMember, before: ConsumerMember, now: float) -> None:
        super()._heard_from(member, before, now)
        if len(self._sessions) > len(self.snapshot.members):
            self._keep_time(now)  # a static member has been replaced

    def restore(self, snapshot: GroupSnapshot, now: float) -> None:
        """As for any group; nobody is awaited for what could not be stored."""
        super().restore(snapshot, now)
        self._awaited.clear()

    def _keep_time(self, now: float) -> None:
        super()._keep_time(now)
        self._awaited = {one: at for one, at in self._awaited.items() if one in self.snapshot.members}

    # ---- members of the classic protocol -----------------------------------------------------------------------------

    def _check_protocols(self, request: MemberHeartbeat) -> None:
        """That a classic member could be in one classic group with the others."""
        if request.classic is None:
            return
        others = [
            one.classic
            for one in self.snapshot.members.values()
            if one.classic is not None and one.id != request.member_id
            if request.instance_id is None or one.instance_id != request.instance_id  # whose place it takes
        ]
        if not request.classic.fits(others):
            text = f"Member {request.member_id}'s protocols are not supported."
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)

    def _classic_member(self, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
        """The member, if it is a classic one of this generation; KafkaError."""
        member = self._leaver(member_id, instance_id)
        if member.classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
        _check_current(member, generation)
        return member

    def _should_join(self, member: ConsumerMember) -> bool:
        """Whether a classic member reaches its target, or has to give something back, by joining again."""
        group = self.snapshot
        if member.epoch < group.epoch or member.state is MemberState.UNREVOKED:
            return True
        if member.state is MemberState.STABLE:
            return False
        others = [one for one in group.members.values() if one.id != member.id]
        target = group.targets.get(member.id, NOTHING)
        return reconcile(member, target, group.assignment_epoch, others, None).state is MemberState.STABLE

    def _await_join(self, member: ConsumerMember, now: float) -> None:
        self._awaited.setdefault(member.id, now + member.rebalance_timeout_ms / 1000)

    # ---- members -----------------------------------------------------------------------------------------------------

    def _known(self, request: MemberHeartbeat) -> ConsumerMember:
        """The member that the request is of, as it was; a new one where it joins."""
        if request.instance_id is not None:
            return self._known_static(request, request.instance_id)
        if request.epoch == JOINING:
            return self.snapshot.members.get(request.member_id) or ConsumerMember(request.member_id)
        member = self._member(request.member_id)
        self._check_epoch(member, request)
        return member

    def _check_epoch(self, member: ConsumerMember, request: MemberHeartbeat) -> None:
        if request.epoch == member.epoch:
            return
        lost = request.epoch == member.previous_epoch and request.owned is not None
        if request.epoch < member.epoch and lost and within(request.owned or NOTHING, member.assigned):
            return
        raise self._fenced(member, request.epoch)

    def _known_static(self, request: MemberHeartbeat, instance_id: str) -> ConsumerMember:
        current = self.snapshot.static(instance_id)
        if request.names_itself:
            return self._leaver(request.member_id, instance_id)
        if request.epoch != JOINING:
            member = self._leaver(request.member_id, instance_id)
            self._check_epoch(member, request)
            return member
        if current is None:
            return self.snapshot.members.get(request.member_id) or ConsumerMember(request.member_id)
        if current.epoch == LEAVING_STATIC:
            return replace(current, id=request.member_id, epoch=0, previous_epoch=0)
        if current.id == request.member_id:
            return current
        if request.classic is not None or current.classic is not None:  # a classic one does not say that it goes
            return replace(current, id=request.member_id, epoch=0, previous_epoch=0)
        text = f"Static member {request.member_id} with instance id {instance_id} cannot join the group because the "
        text += f"instance id is owned by {current.id} member."
        raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, text)

    def _leave(self, request: MemberHeartbeat) -> HeartbeatAnswer:
        member = self._leaver(request.member_id, request.instance_id)
        if request.epoch == LEAVING_STATIC:
            away = replace(member, epoch=LEAVING_STATIC, revoking=NOTHING)
            self.snapshot = replace(self.snapshot, members={**self.snapshot.members, member.id: away})
            self._revocations.pop(member.id, None)
        else:
            self._remove([member.id])
        return HeartbeatAnswer(request.member_id, request.epoch)

    def _leaver(self, member_id: str, instance_id: str | None, by_instance: bool = False) -> ConsumerMember:
        if instance_id is None:
            return self._member(member_id)
        member = self.snapshot.static(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.id != member_id and not by_instance:
            text = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.id}."
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, text)
        return member

    def _remove(self, member_ids: Iterable[str]) -> None:
        super()._remove(member_ids)
        self._awaited = {one: at for one, at in self._awaited.items() if one in self.snapshot.members}


# ---- parts of a heartbeat --------------------------------------------------------------------------------------------


def _updated(member: ConsumerMember, request: MemberHeartbeat) -> ConsumerMember:
    timeout = request.rebalance_timeout_ms
    regex = member.regex if request.regex is None else request.regex
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        topics=member.topics if request.topics is None else request.topics,
        regex=regex,
        viewer=request.viewer if regex else "",
        assignor=member.assignor if request.assignor is None else request.assignor,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=request.classic,
    )


def _replaced(one: ConsumerMember, by: ConsumerMember) -> bool:
    return by.instance_id is not None and one.instance_id == by.instance_id


def _moved(before: GroupSnapshot, member: ConsumerMember) -> Mapping[str, Assignment]:
    """The targets, with that of a static member under its new id."""
    former = None if member.instance_id is None else before.static(member.instance_id)
    if former is None or former.id == member.id or former.id not in before.targets:
        return before.targets
    targets = dict(before.targets)
    targets[member.id] = targets.pop(former.id)
    return targets


def _check_current(member: ConsumerMember, epoch: int) -> None:
    if epoch != member.epoch and member.classic is not None:
        text = f"The received generation id {epoch} does not match the expected member epoch {member.epoch}."
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, text)
    if epoch != member.epoch:
        text = f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH, text)
