"""The classic consumer group protocol as a state machine: events and `now` in, answers and records out.

States, and what brings a group from one to the next (Kafka's ClassicGroupState):

| state               | means                                  | leaves it                                             |
|---------------------|----------------------------------------|-------------------------------------------------------|
| Empty               | no members; perhaps committed offsets  | a member joins: Preparing                             |
| PreparingRebalance  | waits for all members to join          | all have, or the rebalance timeout is over:           |
|                     |                                        | Completing, or Empty without members                  |
| CompletingRebalance | generation + 1; waits for the leader's | it is stored: Stable; a member comes, goes, changes,  |
|                     | assignment                             | or storing fails: Preparing                           |
| Stable              | every member has its assignment        | a member comes, goes, changes: Preparing              |
| Dead                | deleted, or another node's             | never                                                 |

Rules (Kafka's GroupMetadataManager, KIP-62, 134, 345, 394, 559, 814):

1. A JoinGroup is held until its rebalance has all members. Dynamic members that have not come back by the rebalance
   timeout (the longest of all members') are removed; static ones stay, and keep their session.
2. An empty group's first rebalance waits for the initial delay, and again while new members come, up to the timeout.
3. A new dynamic member is first given an id (pending) and holds up the rebalance until it joins with it or expires.
4. A new static member takes the place of the one with its instance id, whose requests are fenced; in a Stable group
   without a rebalance, if the chosen protocol stays.
5. A follower that joins again with the same protocols gets the same generation; a leader always rebalances.
6. A SyncGroup is held until the leader's assignment is stored. A member that has not sent one by the rebalance timeout
   is removed.
7. A member whose session is over is removed, unless its request is held. A new member's held join counts for nothing:
   it cannot send heartbeats, and may be gone.
8. Every held request is answered once. One that the same member repeats gets REBALANCE_IN_PROGRESS, where Kafka leaves
   it unanswered: its connection may be in use.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final, NamedTuple, TypeAlias

from bridge.errors import KafkaError
from bridge.groups.classic.events import (
    Answer,
    ClassicGroupState,
    Effect,
    GroupConfig,
    Join,
    Joined,
    Leave,
    Save,
    Sync,
    Synced,
)
from bridge.groups.classic.members import Member, MemberRegistry, Protocols, Ticket
from bridge.groups.classic.records import GroupRecord, MemberRecord
from bridge.groups.classic.sessions import Session, Sessions
from bridge.kafka.error_codes import ErrorCode

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = ClassicGroupState

FROM: Mapping[ClassicGroupState, frozenset[ClassicGroupState]] = {
    EMPTY: frozenset({PREPARING}),
    PREPARING: frozenset({EMPTY, COMPLETING, STABLE}),
    COMPLETING: frozenset({PREPARING}),
    STABLE: frozenset({COMPLETING}),
    DEAD: frozenset(ClassicGroupState),
}
"""The states that may go before each."""

_HEARTBEAT_ERRORS: Final[Mapping[ClassicGroupState, ErrorCode]] = {
    PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING: ErrorCode.NONE,
    STABLE: ErrorCode.NONE,
}
"""The answer to a known member's heartbeat."""

_COMMIT_ERRORS: Final[Mapping[ClassicGroupState, ErrorCode]] = {
    PREPARING: ErrorCode.NONE,  # what was consumed before the rebalance can still be committed
    COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
    STABLE: ErrorCode.NONE,
}
"""The answer to a known member's commit."""

_OnSaved: TypeAlias = Callable[[ErrorCode, float], None]
"""What the machine does when a record has been stored, or could not be."""


class _Replacement(NamedTuple):
    """The restart of a static member, until it is stored (KIP-345, KIP-814)."""

    member: Member
    before: Member
    """As it was."""
    ticket: Ticket
    """The JoinGroup of its new process."""
    leader: str | None
    """Who led before."""
    may_skip: bool


class ClassicGroup:
    """One group: what happens to it comes in by its methods, and `take_effects` gives what has to be done for it."""

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self.id = group_id
        self.state = EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = MemberRegistry()
        self.sessions = Sessions(self.members)
        self.reason = ""  # why the last rebalance began
        self._config = config
        self._unsynced: set[Member] = set()
        self._join_deadline = inf
        self._remaining_delay: float | None = None  # of an initial rebalance: how much longer it may be put off
        self._new_members = False
        self._sync_deadline = inf
        self._saving_generation = -1
        self._retry_at = inf  # until when no generation begins, since the last one could not be stored
        self._unstored = 0  # assignments in a row that could not be stored
        self._effects: list[Effect] = []  # not taken yet
        self._unsaved: dict[int, _OnSaved] = {}  # by number: what follows each record that is on its way to the store
        self._saves = 0

    @classmethod
    def restore(cls, group_id: str, config: GroupConfig, record: GroupRecord, now: float) -> "ClassicGroup":
        """The group as it was stored; the sessions of its members begin again."""
        group = cls(group_id, config)
        group.generation = record.generation
        group.protocol_type = record.protocol_type
        group.protocol_name = record.protocol_name
        for one in record.members:
            member = one.restored(record.protocol_name)
            group.members.add(member)
            group.sessions.extend(member, now)
            group.state = STABLE
        if record.leader is not None and record.leader in group.members:
            group.members.leader = record.leader
        return group

    def take_effects(self) -> list[Effect]:
        """What has come out since the last call."""
        effects, self._effects = self._effects, []
        return effects

    @property
    def has_no_state(self) -> bool:
        """Whether nothing is lost when it is forgotten and created again."""
        return self.state is EMPTY and not (self.generation or self.awaited)

    @property
    def awaited(self) -> bool:
        """Whether a member has been given its id only, or a record is being stored."""
        return bool(self.sessions or self._unsaved)

    def deadline(self) -> float:
        """When `expire` has something to do, if nothing happens before; a heartbeat only moves it away."""
        return min(self._join_deadline, self._sync_deadline, self._retry_at, self.sessions.first())

    # ---- events ------------------------------------------------------------------------------------------------------

    def join(self, request: Join, ticket: Ticket, now: float) -> None:
        """A JoinGroup: its answer comes now or later."""
        error = self._check_join(request)
        if error:
            self._answer(ticket, Joined(error, request.member_id))
        elif not request.member_id:
            self._join_new(request, ticket, now)
        elif self.sessions.is_given_out(request.member_id) and request.instance_id is None:
            self._add(request, request.member_id, ticket, now)
        else:
            self._join_again(request, ticket, now)

    def sync(self, request: Sync, ticket: Ticket, now: float) -> None:
        """A SyncGroup: its answer comes now or later."""
        error = self._check_sync(request)
        if error:
            self._answer(ticket, Synced(error))
            return
        member = self.members[request.member_id]
        self._unsynced.discard(member)
        if not self._unsynced:
            self._sync_deadline = inf
        if self.state is STABLE:
            self._answer(ticket, self._current_assignment(member))
            return
        self._answer_sync(member, Synced(ErrorCode.REBALANCE_IN_PROGRESS))  # it has asked before
        member.syncing = ticket
        if member.id == self.members.leader and self._saving_generation != self.generation:
            self._saving_generation = self.generation
            assignments = {one.id: request.assignments.get(one.id, b"") for one in self.members}
            self._save(partial(self._assigned, self.generation, assignments), assignments)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now: float) -> ErrorCode:
        """A heartbeat; its answer."""
        error = self._check_generation(member_id, instance_id, generation)
        if not error:
            self.sessions.extend(self.members[member_id], now)
            error = _HEARTBEAT_ERRORS[self.state]
        return error

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, now: float) -> None:
        """Raise the KafkaError that such a commit gets, if it may not be; a member's is a sign of life as well."""
        error = self._commit_error(member_id, instance_id, generation)
        if not error and self.state is not EMPTY:
            self.sessions.extend(self.members[member_id], now)
            error = _COMMIT_ERRORS[self.state]
        if error:
            raise KafkaError(error)

    def leave(self, leaving: Iterable[Leave], now: float) -> list[ErrorCode]:
        """A LeaveGroup; the answer of each member."""
        errors = [self._leave_one(one) for one in leaving]
        if ErrorCode.NONE in errors:
            self.rebalance("members left", now)
        return errors

    def rebalance(self, reason: str, now: float) -> None:
        """Ask all members to join again, as after any change of them."""
        if self.state is PREPARING:
            self._complete_if_all_joined(now)
        elif self.state is not EMPTY or self.members:
            self._prepare(reason, now)

    def saved(self, number: int, error: ErrorCode, now: float) -> None:
        """A record has been stored, or could not be."""
        self._unsaved.pop(number)(error, now)

    def expire(self, now: float) -> None:
        """Do what has become due, once; what becomes due by it is due the next time."""
        due: list[tuple[float, Callable[[float], None]]] = [
            (self._join_deadline, self._join_time_over),
            (self._sync_deadline, self._sync_time_over),
            (self._retry_at, self._retry),
            *((at, partial(self._session_over, session)) for at, session in self.sessions.due(now)),
        ]
        for _, act in sorted((one for one in due if one[0] <= now), key=lambda one: one[0]):
            act(now)

    def kill(self, error: ErrorCode, of_join: ErrorCode | None = None) -> None:
        """The group is deleted or another node's: every held request gets the error, a JoinGroup perhaps its own."""
        for member in self.members:
            self._answer_join(member, Joined(of_join or error, member.id))
            self._answer_sync(member, Synced(error))
        self.members = MemberRegistry()
        self.sessions = Sessions(self.members)
        self._join_deadline = self._sync_deadline = self._retry_at = inf
        self._move(DEAD)

    # ---- what is refused ---------------------------------------------------------------------------------------------

    def _check_join(self, request: Join) -> ErrorCode:
        """Whether the protocols fit, and a new member has room."""
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self.state is EMPTY:
            fits = bool(request.protocol_type and request.protocols)
        else:
            fits = request.protocol_type == self.protocol_type and self.members.share_a_protocol(request.protocols)
        if not fits:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        is_new = request.member_id not in self.members
        is_new = is_new and self.members.static_id(request.instance_id) is None
        known = len(self.members) + self.sessions.count_given_out(besides=request.member_id)
        return ErrorCode.GROUP_MAX_SIZE_REACHED if is_new and known >= self._config.max_size else ErrorCode.NONE

    def _check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether the member is one of the group, and still the one that its instance is (KIP-345)."""
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if instance_id is not None:
            current = self.members.static_id(instance_id)
            if current is not None and current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _check_generation(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """As `_check_member`, and whether the member knows of the current generation."""
        error = self._check_member(member_id, instance_id)
        if not error and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _commit_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Whether the member may commit; an empty group takes commits without a generation."""
        if generation < 0:
            if self.state is EMPTY:
                return ErrorCode.NONE  # a consumer that assigns itself, or an administrator
            if not member_id and instance_id is None and self.state is not DEAD:
                return ErrorCode.UNKNOWN_MEMBER_ID  # the same, in a group that has members
        return self._check_generation(member_id, instance_id, generation)

    def _check_sync(self, request: Sync) -> ErrorCode:
        """Whether the member may get an assignment of this generation."""
        error = self._check_generation(request.member_id, request.instance_id, request.generation)
        if error:
            return error
        said = (request.protocol_type, self.protocol_type), (request.protocol_name, self.protocol_name)
        if any(theirs is not None and ours is not None and theirs != ours for theirs, ours in said):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        is_preparing = self.state is PREPARING
        return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE

    def _keeps_generation(self, member: Member, protocols: Protocols) -> bool:
        """Whether a member that joins again is told the current generation, instead of a rebalance (rule 5)."""
        if self.state is PREPARING or member.protocols != protocols:
            return False
        # Completing: it has not got the answer to its first JoinGroup. Stable: by joining again the leader asks for a
        # rebalance (topics may have changed)
        return self.state is COMPLETING or member.id != self.members.leader

    # ---- members come and go -----------------------------------------------------------------------------------------

    def _join_new(self, request: Join, ticket: Ticket, now: float) -> None:
        current = self.members.static_id(request.instance_id)
        if current is not None:
            self._replace(self.members[current], request, ticket, now)
        elif request.instance_id is None and request.id_required:
            self.sessions.give_out(request.new_id, now + request.session_timeout_ms / 1000)
            self._answer(ticket, Joined(ErrorCode.MEMBER_ID_REQUIRED, request.new_id))
        else:
            self._add(request, request.new_id, ticket, now)

    def _add(self, request: Join, member_id: str, ticket: Ticket, now: float) -> None:
        self.sessions.take_back(member_id)
        self._new_members = True
        self.protocol_type = request.protocol_type
        member = request.new_member(member_id, ticket)
        self.members.add(member)
        self.sessions.begin(member, now + self._config.new_member_timeout)
        self.rebalance(f"{member_id} joins: {request.reason}", now)

    def _join_again(self, request: Join, ticket: Ticket, now: float) -> None:
        error = self._check_member(request.member_id, request.instance_id)
        if error:
            self._answer(ticket, Joined(error, request.member_id))
        elif self._keeps_generation(member := self.members[request.member_id], request.protocols):
            self._answer(ticket, self._current_generation(member))
        else:
            self._update(member, request, ticket)
            self.rebalance(f"{member.id} joins again: {request.reason}", now)

    def _update(self, member: Member, request: Join, ticket: Ticket) -> None:
        self._answer_join(member, Joined(ErrorCode.REBALANCE_IN_PROGRESS, member.id))  # it has asked before
        self.members.update(member, request)
        self.members.hold_join(member, ticket)

    def _replace(self, member: Member, request: Join, ticket: Ticket, now: float) -> None:
        """A static member has been restarted: it takes its own place."""
        before, leader = copy(member), self.members.leader
        self._answer_join(member, Joined(ErrorCode.FENCED_INSTANCE_ID, member.id))
        self._answer_sync(member, Synced(ErrorCode.FENCED_INSTANCE_ID))
        self.members.replace(member.id, request.new_id)
        self._update(member, request, ticket)
        member.new = False
        self.sessions.extend(member, now)
        if self.state is STABLE and self.members.choose_protocol() == self.protocol_name:
            assignments = {one.id: one.assignment for one in self.members}
            replaced = _Replacement(member, before, ticket, leader, request.may_skip)
            self._save(partial(self._replacement_saved, replaced), assignments)
        else:
            self.rebalance(f"{request.instance_id} is restarted: {request.reason}", now)

    def _replacement_saved(self, replaced: _Replacement, error: ErrorCode, now: float) -> None:
        member, before = replaced.member, replaced.before
        if self.state is not STABLE or member.joining is not replaced.ticket:
            return  # a rebalance has begun and takes it along, or it is gone
        if error:
            self.members.replace(member.id, before.id)
            self.members.update(member, before)
            self._answer_join(member, Joined(error, ""))
            return
        self._answer_join(member, self._answer_of(replaced))

    def _leave_one(self, leaving: Leave) -> ErrorCode:
        if self.sessions.take_back(leaving.member_id):
            return ErrorCode.NONE
        member_id = leaving.member_id or self.members.static_id(leaving.instance_id) or ""
        error = self._check_member(member_id, leaving.instance_id)
        if not error:
            self._remove(self.members[member_id])
        return error

    def _remove(self, member: Member) -> None:
        self._answer_join(member, Joined(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        self._answer_sync(member, Synced(ErrorCode.UNKNOWN_MEMBER_ID))
        self.members.remove(member.id)
        self._unsynced.discard(member)

    # ---- time --------------------------------------------------------------------------------------------------------

    def _join_time_over(self, now: float) -> None:
        if self._join_deadline > now:
            return  # something that was due before has ended the rebalance
        if self._remaining_delay and self._new_members:
            self._new_members = False
            delay = min(self._config.initial_delay, self._remaining_delay)
            self._remaining_delay -= delay
            self._join_deadline = now + delay
        else:
            self._complete(now)

    def _sync_time_over(self, now: float) -> None:
        if self._sync_deadline > now:
            return
        for member in [one for one in self.members if one in self._unsynced]:
            self._remove(member)
        self.rebalance("members have not synced", now)

    def _retry(self, now: float) -> None:
        self._retry_at = inf
        self._complete_if_all_joined(now)

    def _session_over(self, session: Session, now: float) -> None:
        if isinstance(session, str):  # an id that was given out
            self.sessions.take_back(session)
            self._complete_if_all_joined(now)
        elif session.deadline > now or session.id not in self.members:
            return
        elif not session.new and (session.joining is not None or session.syncing is not None):
            self.sessions.extend(session, now)  # its request is held: it cannot be expected to do anything
        else:
            self._remove(session)
            self.rebalance(f"session of {session.id} is over", now)

    # ---- from state to state -----------------------------------------------------------------------------------------

    def _move(self, state: ClassicGroupState) -> None:
        if self.state not in FROM[state]:
            raise RuntimeError(f"group {self.id}: from {self.state} to {state}")
        self.state = state

    def _prepare(self, reason: str, now: float) -> None:
        self.reason = reason
        if self.state is COMPLETING:
            self._give_up_assignment(ErrorCode.REBALANCE_IN_PROGRESS, now)
        self._unsynced.clear()
        self._sync_deadline = inf
        timeout = self.members.rebalance_timeout_ms() / 1000
        if self.state is EMPTY:
            self._new_members = False
            self._remaining_delay = max(timeout - self._config.initial_delay, 0.0)
            self._join_deadline = now + self._config.initial_delay
        else:
            self._join_deadline = now + timeout
        self._move(PREPARING)
        self._complete_if_all_joined(now)

    def _complete_if_all_joined(self, now: float) -> None:
        waits = self._remaining_delay is not None or self._retry_at < inf  # an initial one always waits for its delay
        if self.state is PREPARING and not waits and not self.sessions and self.members.all_joining():
            self._complete(now)

    def _complete(self, now: float) -> None:
        """Begin the next generation with those who have joined."""
        self._remaining_delay, self._join_deadline = None, inf
        for member in [one for one in self.members if one.joining is None and one.instance_id is None]:
            self.members.remove(member.id)
        if not self.members.elect():
            self._join_deadline = now + max(self.members.rebalance_timeout_ms() / 1000, self._config.retry)
            return
        self.generation += 1
        self.protocol_name = self.members.choose_protocol()
        if not self.members:
            self._move(EMPTY)
            self._save(lambda error, now: None, {})  # if it cannot be stored, the old generation is found and expires
            return
        self._move(COMPLETING)
        self._sync_deadline = now + self.members.rebalance_timeout_ms() / 1000
        for member in self.members:
            self._answer_join(member, self._current_generation(member))
            self.sessions.extend(member, now)
            self._unsynced.add(member)
            member.new = False

    def _assigned(self, generation: int, assignments: Mapping[str, bytes], error: ErrorCode, now: float) -> None:
        if self.state is not COMPLETING or self.generation != generation:
            return
        if error:
            # members come back at once: without a pause they would go round generations as long as Pulsar is away
            self._retry_at = now + min(self._config.retry * 2**self._unstored, self._config.longest_retry)
            self._unstored += 1
            self._give_up_assignment(error, now)
            self.rebalance(f"the assignment could not be stored: {error.name}", now)
            return
        self._unstored = 0
        self._move(STABLE)
        for member in self.members:
            self.members.assign(member, assignments[member.id])
            if self._answer_sync(member, self._current_assignment(member)):
                self.sessions.extend(member, now)

    def _give_up_assignment(self, error: ErrorCode, now: float) -> None:
        for member in self.members:
            self.members.assign(member, b"")
            if self._answer_sync(member, Synced(error)):
                self.sessions.extend(member, now)

    # ---- what comes out ----------------------------------------------------------------------------------------------

    def _answer(self, ticket: Ticket, answer: Joined | Synced) -> None:
        self._effects.append(Answer(ticket, answer))

    def _answer_join(self, member: Member, answer: Joined) -> None:
        """Answer the member's JoinGroup, if one is held."""
        if member.joining is not None:
            self._answer(member.joining, answer)
            self.members.hold_join(member, None)

    def _answer_sync(self, member: Member, answer: Synced) -> bool:
        """Answer the member's SyncGroup; whether one was held."""
        if member.syncing is None:
            return False
        self._answer(member.syncing, answer)
        member.syncing = None
        return True

    def _save(self, then: _OnSaved, assignments: Mapping[str, bytes]) -> None:
        """Have the group stored with these assignments."""
        self._saves += 1
        self._unsaved[self._saves] = then
        self._effects.append(Save(self._saves, self._record(assignments)))

    def _record(self, assignments: Mapping[str, bytes]) -> GroupRecord:
        protocol = self.protocol_name
        members = tuple(MemberRecord.of(one, protocol, assignments[one.id]) for one in self.members)
        return GroupRecord(self.generation, self.protocol_type, protocol, self.members.leader, members=members)

    def _current_generation(self, member: Member) -> Joined:
        """The answer to a JoinGroup; the leader gets all members."""
        members, protocol, leads = self.members, self.protocol_name, member.id == self.members.leader
        return Joined(
            error=ErrorCode.NONE,
            member_id=member.id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=protocol,
            leader=members.leader or "",
            members=tuple((one.id, one.instance_id, one.metadata(protocol)) for one in members) if leads else (),
        )

    def _current_assignment(self, member: Member) -> Synced:
        """The answer to a SyncGroup."""
        return Synced(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    def _answer_of(self, replaced: _Replacement) -> Joined:
        """The answer to the JoinGroup of a static member that has been restarted, without a rebalance."""
        answer = self._current_generation(replaced.member)
        if replaced.may_skip:
            return replace(answer, skip_assignment=replaced.member.id == self.members.leader)
        # it must take itself for a follower, or it would assign again
        return replace(answer, leader=replaced.leader or "", members=())
