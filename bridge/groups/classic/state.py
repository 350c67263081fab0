"""The classic consumer group protocol as a state machine: events and `now` in, answers and records out.

States, and what brings a group from one to the next (Kafka's ClassicGroupState):

| state               | means                                  | leaves it                                             |
|---------------------|----------------------------------------|-------------------------------------------------------|
| Empty               | no members; perhaps committed offsets  | a member joins: Preparing                             |
| PreparingRebalance  | waits for all members to join          | all have, or the rebalance timeout is over:           |
|                     |                                        | Completing, or Empty when there is nobody             |
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
6. A SyncGroup is held until the leader's assignment is stored. Who has not synced by the rebalance timeout is removed.
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

from bridge.errors import KafkaError
from bridge.groups.classic.events import Answer, GroupConfig, Join, Joined, Leave, Sync, Synced
from bridge.groups.classic.members import Member, Protocols, Ticket
from bridge.groups.classic.rebalance import FROM, ClassicGroupState, Rebalance
from bridge.groups.classic.records import GroupRecord
from bridge.kafka.error_codes import ErrorCode

__all__ = ["FROM", "ClassicGroup", "ClassicGroupState"]


_HEARTBEAT: Mapping[ClassicGroupState, ErrorCode] = {
    ClassicGroupState.PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    ClassicGroupState.COMPLETING: ErrorCode.NONE,
    ClassicGroupState.STABLE: ErrorCode.NONE,
}
"""The answer to a known member's heartbeat."""

_COMMIT: Mapping[ClassicGroupState, ErrorCode] = {
    ClassicGroupState.PREPARING: ErrorCode.NONE,  # what was consumed before the rebalance can still be committed
    ClassicGroupState.COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
    ClassicGroupState.STABLE: ErrorCode.NONE,
}
"""The answer to a known member's commit."""


def _never(group: "ClassicGroup", member: Member, protocols: Protocols) -> bool:
    return False


def _unchanged(group: "ClassicGroup", member: Member, protocols: Protocols) -> bool:
    return member.protocols == protocols


def _unchanged_follower(group: "ClassicGroup", member: Member, protocols: Protocols) -> bool:
    return member.protocols == protocols and member.id != group.members.leader


_SAME_GENERATION: Mapping[ClassicGroupState, Callable[["ClassicGroup", Member, Protocols], bool]] = {
    ClassicGroupState.PREPARING: _never,
    ClassicGroupState.COMPLETING: _unchanged,  # it has not got the answer to its first JoinGroup
    # by joining again the leader asks for a rebalance (topics may have changed)
    ClassicGroupState.STABLE: _unchanged_follower,
}
"""Whether a known member that joins again is told of the current generation instead of a rebalance."""


class ClassicGroup(Rebalance):
    """One group."""

    @classmethod
    def restore(cls, group_id: str, config: GroupConfig, record: GroupRecord, now: float) -> "ClassicGroup":
        """The group as it was stored; the sessions of its members begin anew."""
        group = cls(group_id, config)
        group.generation = record.generation
        group.protocol_type = record.protocol_type
        group.protocol_name = record.protocol_name
        for one in record.members:
            member = Member(
                id=one.id,
                instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                session_timeout_ms=one.session_timeout_ms,
                rebalance_timeout_ms=one.rebalance_timeout_ms,
                protocols=((record.protocol_name or "", one.subscription),),
                assignment=one.assignment,
            )
            group.members.add(member)
            group._heard_of(member, now)
            group.state = ClassicGroupState.STABLE
        if record.leader is not None and record.leader in group.members:
            group.members.leader = record.leader
        return group

    # ---- events ------------------------------------------------------------------------------------------------------

    def join(self, request: Join, ticket: Ticket, now: float) -> None:
        """A JoinGroup: its answer comes now or later."""
        error = self._refuses(request) or self._overcrowds(request)
        if error:
            self._refuse_join(ticket, error, request.member_id)
        elif not request.member_id:
            self._join_new(request, ticket, now)
        elif request.member_id in self._pending and request.instance_id is None:
            self._add(request, request.member_id, ticket, now)
        else:
            self._join_again(request, ticket, now)

    def sync(self, request: Sync, ticket: Ticket, now: float) -> None:
        """A SyncGroup: its answer comes now or later."""
        error = self._check_sync(request)
        if error:
            self._effects.append(Answer(ticket, Synced(error)))
            return
        member = self.members[request.member_id]
        self._unsynced.discard(member.id)
        if not self._unsynced:
            self._sync_deadline = inf
        if self.state is ClassicGroupState.STABLE:
            self._effects.append(Answer(ticket, self._assignment_of(member)))
            return
        self._answer_sync(member, Synced(ErrorCode.REBALANCE_IN_PROGRESS))  # it has asked before
        member.syncing = ticket
        if member.id == self.members.leader and self._saving_generation != self.generation:
            self._saving_generation = self.generation
            assignments = {one.id: request.assignments.get(one.id, b"") for one in self.members}
            self._save(partial(self._assignment_saved, self.generation, assignments), assignments)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now: float) -> ErrorCode:
        """A heartbeat; its answer."""
        error = self._check(member_id, instance_id, generation)
        if not error:
            self._heard_of(self.members[member_id], now)
            error = _HEARTBEAT[self.state]
        return error

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, now: float) -> None:
        """Raise the KafkaError that such a commit gets, if it may not be; a member's is a sign of life as well."""
        if self.state is ClassicGroupState.EMPTY and generation < 0:
            return  # a consumer that assigns itself, or an administrator
        if generation < 0 and not member_id and instance_id is None and self.state is not ClassicGroupState.DEAD:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)  # the same, in a group that has members
        error = self._check(member_id, instance_id, generation)
        if not error:
            self._heard_of(self.members[member_id], now)
            error = _COMMIT[self.state]
        if error:
            raise KafkaError(error)

    def leave(self, leaving: Iterable[Leave], now: float) -> list[ErrorCode]:
        """A LeaveGroup; the answer of each member."""
        errors = [self._leave_one(one) for one in leaving]
        if ErrorCode.NONE in errors:
            self._settle("members left", now)
        return errors

    # ---- checks ------------------------------------------------------------------------------------------------------

    def _refuses(self, request: Join) -> ErrorCode:
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self.state is ClassicGroupState.EMPTY:
            fits = bool(request.protocol_type and request.protocols)
        else:
            fits = request.protocol_type == self.protocol_type and self.members.share_a_protocol(request.protocols)
        return ErrorCode.NONE if fits else ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def _overcrowds(self, request: Join) -> ErrorCode:
        """Whether a member comes that is one too many."""
        comes = request.member_id not in self.members
        if comes and request.instance_id is not None:
            comes = self.members.static_id(request.instance_id) is None
        known = len(self.members) + len(self._pending) - (request.member_id in self._pending)
        return ErrorCode.GROUP_MAX_SIZE_REACHED if comes and known >= self._config.max_size else ErrorCode.NONE

    def _validate(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether the member is one of the group, and still the one that its instance is (KIP-345)."""
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if instance_id is not None:
            current = self.members.static_id(instance_id)
            if current is not None and current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _check(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        error = self._validate(member_id, instance_id)
        if not error and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _check_sync(self, request: Sync) -> ErrorCode:
        error = self._check(request.member_id, request.instance_id, request.generation)
        if error:
            return error
        said = (request.protocol_type, self.protocol_type), (request.protocol_name, self.protocol_name)
        if any(theirs is not None and ours is not None and theirs != ours for theirs, ours in said):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is ClassicGroupState.PREPARING else ErrorCode.NONE

    # ---- members come and go -----------------------------------------------------------------------------------------

    def _join_new(self, request: Join, ticket: Ticket, now: float) -> None:
        current = None if request.instance_id is None else self.members.static_id(request.instance_id)
        if current is not None:
            self._replace(self.members[current], request, ticket, now)
        elif request.instance_id is None and request.id_required:
            self._pending[request.new_id] = at = now + request.session_timeout_ms / 1000
            self._deadlines.watch(request.new_id, at)
            self._refuse_join(ticket, ErrorCode.MEMBER_ID_REQUIRED, request.new_id)
        else:
            self._add(request, request.new_id, ticket, now)

    def _add(self, request: Join, member_id: str, ticket: Ticket, now: float) -> None:
        self._pending.pop(member_id, None)
        self._newcomers = True
        self.protocol_type = request.protocol_type
        member = Member(
            id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
            deadline=now + self._config.new_member_timeout,
            new=True,
            joining=ticket,
        )
        self.members.add(member)
        self._deadlines.watch(member, member.deadline)
        self._settle(f"{member_id} joins: {request.reason}", now)

    def _join_again(self, request: Join, ticket: Ticket, now: float) -> None:
        error = self._validate(request.member_id, request.instance_id)
        if error:
            self._refuse_join(ticket, error, request.member_id)
            return
        member = self.members[request.member_id]
        if _SAME_GENERATION[self.state](self, member, request.protocols):
            self._effects.append(Answer(ticket, self._generation_of(member)))
            return
        self._update(member, request, ticket)
        self._settle(f"{member.id} joins again: {request.reason}", now)

    def _update(self, member: Member, request: Join, ticket: Ticket) -> None:
        self._answer_join(member, Joined(ErrorCode.REBALANCE_IN_PROGRESS, member.id))  # it has asked before
        self.members.update(member, request.protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.members.hold_join(member, ticket)

    def _replace(self, member: Member, request: Join, ticket: Ticket, now: float) -> None:
        """A static member has been restarted: it takes its own place."""
        before, leader = copy(member), self.members.leader
        self._answer_join(member, Joined(ErrorCode.FENCED_INSTANCE_ID, member.id))
        self._answer_sync(member, Synced(ErrorCode.FENCED_INSTANCE_ID))
        self._rename(member, request.new_id)
        self._update(member, request, ticket)
        member.new = False
        self._heard_of(member, now)
        if self.state is ClassicGroupState.STABLE and self.members.choose_protocol() == self.protocol_name:
            assignments = {one.id: one.assignment for one in self.members}
            skips = request.may_skip
            self._save(partial(self._replacement_saved, member, before, ticket, leader, skips), assignments)
        else:
            self._settle(f"{request.instance_id} is restarted: {request.reason}", now)

    def _replacement_saved(
        self,
        member: Member,
        before: Member,
        ticket: Ticket,
        leader: str | None,
        skips: bool,
        error: ErrorCode,
        now: float,
    ) -> None:
        if self.state is not ClassicGroupState.STABLE or member.joining is not ticket:
            return  # a rebalance has begun and takes it along, or it is gone
        if error:
            self._rename(member, before.id)
            self.members.update(member, before.protocols)
            member.session_timeout_ms = before.session_timeout_ms
            member.rebalance_timeout_ms = before.rebalance_timeout_ms
            self._answer_join(member, Joined(error, ""))
            return
        answer = self._generation_of(member)
        if skips:
            answer = replace(answer, skip_assignment=member.id == self.members.leader)
        else:  # it must take itself for a follower, or it would assign anew
            answer = replace(answer, leader=leader or "", members=())
        self._answer_join(member, answer)

    def _rename(self, member: Member, member_id: str) -> None:
        if member.id in self._unsynced:
            self._unsynced.remove(member.id)
            self._unsynced.add(member_id)
        self.members.replace(member.id, member_id)

    def _leave_one(self, leaving: Leave) -> ErrorCode:
        if self._pending.pop(leaving.member_id, None) is not None:
            return ErrorCode.NONE
        member_id = leaving.member_id
        if not member_id and leaving.instance_id is not None:
            member_id = self.members.static_id(leaving.instance_id) or ""
        error = self._validate(member_id, leaving.instance_id)
        if not error:
            self._remove(self.members[member_id])
        return error
