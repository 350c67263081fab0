"""How a group gets from one generation to the next: states, held requests, timers, what is stored.

The rules are at the top of `state.py`.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from math import inf

from bridge.groups.classic.events import Answer, Effect, GroupConfig, Joined, Save, Synced
from bridge.groups.classic.members import Member, MemberRegistry, Ticket
from bridge.groups.classic.records import GroupRecord, MemberRecord
from bridge.groups.deadlines import Deadlines
from bridge.kafka.error_codes import ErrorCode


class ClassicGroupState(StrEnum):
    """The states, as Kafka names them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


FROM: Mapping[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING}),
    ClassicGroupState.PREPARING: frozenset(
        {ClassicGroupState.EMPTY, ClassicGroupState.COMPLETING, ClassicGroupState.STABLE}
    ),
    ClassicGroupState.COMPLETING: frozenset({ClassicGroupState.PREPARING}),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.COMPLETING}),
    ClassicGroupState.DEAD: frozenset(ClassicGroupState),
}
"""The states that may go before each."""


class Rebalance:
    """The part of a group that knows no requests."""

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self.id = group_id
        self.state = ClassicGroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = MemberRegistry()
        self.reason = ""
        """Why the last rebalance began."""
        self._config = config
        self._pending: dict[str, float] = {}  # ids given out that have not joined with them: when they expire
        self._deadlines: Deadlines[Member | str] = Deadlines(self._deadline_of)  # of sessions, and of those ids
        self._unsynced: set[str] = set()
        self._join_deadline = inf
        self._join_room: float | None = None  # of an initial rebalance: how much longer it may be put off
        self._newcomers = False
        self._sync_deadline = inf
        self._saves: dict[int, Callable[[ErrorCode, float], None]] = {}
        self._save_number = 0
        self._saving_generation = -1
        self._retry_at = inf
        """Until when no generation begins, since the last one could not be stored; inf: nothing is in the way."""
        self._unstored = 0  # assignments in a row that could not be stored
        self._effects: list[Effect] = []

    def take_effects(self) -> list[Effect]:
        """What has come out since the last call."""
        effects, self._effects = self._effects, []
        return effects

    @property
    def has_no_state(self) -> bool:
        """Whether nothing is lost when it is forgotten and begun anew."""
        return self.state is ClassicGroupState.EMPTY and not (self.generation or self.awaited)

    @property
    def awaited(self) -> bool:
        """Whether a member has been given its id only, or a record is being stored."""
        return bool(self._pending or self._saves)

    @property
    def waits(self) -> bool:
        """Whether any request is held."""
        return any(member.joining is not None or member.syncing is not None for member in self.members)

    def saved(self, number: int, error: ErrorCode, now: float) -> None:
        """A record has been stored, or could not be."""
        self._saves.pop(number)(error, now)

    def kill(self, error: ErrorCode) -> None:
        """The group is deleted or another node's: every held request gets the error."""
        for member in self.members:
            self._answer_join(member, Joined(error, member.id))
            self._answer_sync(member, Synced(error))
        self.members = MemberRegistry()
        self._pending.clear()
        self._join_deadline = self._sync_deadline = self._retry_at = inf
        self._move(ClassicGroupState.DEAD)

    # ---- time --------------------------------------------------------------------------------------------------------

    def deadline(self) -> float:
        """When `expire` has something to do, if nothing happens before; a heartbeat only moves it away."""
        return min(self._join_deadline, self._sync_deadline, self._retry_at, self._deadlines.first())

    def expire(self, now: float) -> None:
        """Do what has become due, once; what becomes due by it is due the next time."""
        due: list[tuple[float, Callable[[float], None]]] = [
            (self._join_deadline, self._join_time_over),
            (self._sync_deadline, self._sync_time_over),
            (self._retry_at, self._retry),
            *((at, partial(self._over, key)) for at, key in self._deadlines.due(now)),
        ]
        for _, act in sorted((one for one in due if one[0] <= now), key=lambda one: one[0]):
            act(now)

    def _join_time_over(self, now: float) -> None:
        if self._join_deadline > now:
            return  # something that was due before has ended the rebalance
        if self._join_room and self._newcomers:
            self._newcomers = False
            delay = min(self._config.initial_delay, self._join_room)
            self._join_room -= delay
            self._join_deadline = now + delay
        else:
            self._complete(now)

    def _sync_time_over(self, now: float) -> None:
        if self._sync_deadline > now:
            return
        for member_id in self._unsynced.copy():
            self._remove(self.members[member_id])
        self._settle("members have not synced", now)

    def _retry(self, now: float) -> None:
        self._retry_at = inf
        self._complete_if_all_joined(now)

    def _deadline_of(self, key: Member | str) -> float | None:
        if isinstance(key, str):
            return self._pending.get(key)
        return key.deadline if self.members.find(key.id) is key else None

    def _over(self, key: Member | str, now: float) -> None:
        if isinstance(key, str):
            self._pending_over(key, now)
        else:
            self._session_over(key, now)

    def _pending_over(self, member_id: str, now: float) -> None:
        self._pending.pop(member_id, None)
        self._complete_if_all_joined(now)

    def _session_over(self, member: Member, now: float) -> None:
        if member.deadline > now or member.id not in self.members:
            return
        if not member.new and (member.joining is not None or member.syncing is not None):
            self._heard_of(member, now)  # its request is held: it cannot be expected to do anything
            return
        self._remove(member)
        self._settle(f"session of {member.id} is over", now)

    def _heard_of(self, member: Member, now: float) -> None:
        member.deadline = now + member.session_timeout_ms / 1000
        self._deadlines.watch(member, member.deadline)

    # ---- from state to state -----------------------------------------------------------------------------------------

    def _move(self, state: ClassicGroupState) -> None:
        if self.state not in FROM[state]:
            raise RuntimeError(f"group {self.id}: from {self.state} to {state}")
        self.state = state

    def _settle(self, reason: str, now: float) -> None:
        """After any change of the members."""
        if self.state is ClassicGroupState.PREPARING:
            self._complete_if_all_joined(now)
        elif self.state is not ClassicGroupState.EMPTY or self.members:
            self._prepare(reason, now)

    def _prepare(self, reason: str, now: float) -> None:
        self.reason = reason
        if self.state is ClassicGroupState.COMPLETING:
            self._give_up_assignment(ErrorCode.REBALANCE_IN_PROGRESS, now)
        self._unsynced.clear()
        self._sync_deadline = inf
        timeout = self.members.rebalance_timeout_ms() / 1000
        if self.state is ClassicGroupState.EMPTY:
            self._newcomers = False
            self._join_room = max(timeout - self._config.initial_delay, 0.0)
            self._join_deadline = now + self._config.initial_delay
        else:
            self._join_deadline = now + timeout
        self._move(ClassicGroupState.PREPARING)
        self._complete_if_all_joined(now)

    def _complete_if_all_joined(self, now: float) -> None:
        waits = self._join_room is not None or self._retry_at < inf  # an initial one always waits for its delay
        if self.state is ClassicGroupState.PREPARING and not waits and not self._pending and self.members.all_joining():
            self._complete(now)

    def _complete(self, now: float) -> None:
        """Begin the next generation with those who have joined."""
        self._join_room, self._join_deadline = None, inf
        for member in [one for one in self.members if one.joining is None and one.instance_id is None]:
            self.members.remove(member.id)
        if not self.members.elect():
            self._join_deadline = now + max(self.members.rebalance_timeout_ms() / 1000, self._config.retry)
            return
        self.generation += 1
        self.protocol_name = self.members.choose_protocol()
        if not self.members:
            self._move(ClassicGroupState.EMPTY)
            self._save(lambda error, now: None, {})  # if it cannot be stored, the old generation is found and expires
            return
        self._move(ClassicGroupState.COMPLETING)
        self._sync_deadline = now + self.members.rebalance_timeout_ms() / 1000
        for member in self.members:
            self._answer_join(member, self._generation_of(member))
            self._heard_of(member, now)
            self._unsynced.add(member.id)
            member.new = False

    def _assignment_saved(
        self, generation: int, assignments: Mapping[str, bytes], error: ErrorCode, now: float
    ) -> None:
        if self.state is not ClassicGroupState.COMPLETING or self.generation != generation:
            return
        if error:
            # members come back at once: without a pause they would go round generations as long as Pulsar is away
            self._retry_at = now + min(self._config.retry * 2**self._unstored, self._config.longest_retry)
            self._unstored += 1
            self._give_up_assignment(error, now)
            self._settle(f"the assignment could not be stored: {error.name}", now)
            return
        self._unstored = 0
        self._move(ClassicGroupState.STABLE)
        for member in self.members:
            self.members.assign(member, assignments[member.id])
            if self._answer_sync(member, self._assignment_of(member)):
                self._heard_of(member, now)

    def _give_up_assignment(self, error: ErrorCode, now: float) -> None:
        for member in self.members:
            self.members.assign(member, b"")
            if self._answer_sync(member, Synced(error)):
                self._heard_of(member, now)

    def _remove(self, member: Member) -> None:
        self._answer_join(member, Joined(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        self._answer_sync(member, Synced(ErrorCode.UNKNOWN_MEMBER_ID))
        self.members.remove(member.id)
        self._unsynced.discard(member.id)

    # ---- what comes out ----------------------------------------------------------------------------------------------

    def _refuse_join(self, ticket: Ticket, error: ErrorCode, member_id: str) -> None:
        self._effects.append(Answer(ticket, Joined(error, member_id)))

    def _answer_join(self, member: Member, answer: Joined) -> None:
        if member.joining is not None:
            self._effects.append(Answer(member.joining, answer))
            self.members.hold_join(member, None)

    def _answer_sync(self, member: Member, answer: Synced) -> bool:
        if member.syncing is None:
            return False
        self._effects.append(Answer(member.syncing, answer))
        member.syncing = None
        return True

    def _generation_of(self, member: Member) -> Joined:
        leads = member.id == self.members.leader
        return Joined(
            error=ErrorCode.NONE,
            member_id=member.id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.members.leader or "",
            members=tuple((one.id, one.instance_id, one.metadata(self.protocol_name)) for one in self.members)
            if leads
            else (),
        )

    def _assignment_of(self, member: Member) -> Synced:
        return Synced(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    def _save(self, then: Callable[[ErrorCode, float], None], assignments: Mapping[str, bytes]) -> None:
        self._save_number += 1
        self._saves[self._save_number] = then
        members = tuple(
            MemberRecord(
                id=one.id,
                instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                session_timeout_ms=one.session_timeout_ms,
                rebalance_timeout_ms=one.rebalance_timeout_ms,
                subscription=one.metadata(self.protocol_name),
                assignment=assignments[one.id],
            )
            for one in self.members
        )
        leader = self.members.leader
        record = GroupRecord(self.generation, self.protocol_type, self.protocol_name, leader, members=members)
        self._effects.append(Save(self._save_number, record))
