"""Whatever members, timers and the store do, in any order: the promises that every group keeps."""

from collections import defaultdict
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, precondition, rule

from bridge.groups.classic.events import ClassicGroupState, GroupConfig, Leave
from bridge.groups.classic.records import decode, encode
from bridge.groups.classic.state import ClassicGroup
from bridge.kafka.error_codes import ErrorCode
from tests.groups.classic.machine import DELAY, NONE, Machine, Ticket
from tests.support.effort import examples

TIMEOUTS = st.sampled_from([6_000, 10_000, 30_000])
LISTS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",), ("other",), ()])
INSTANCES = st.sampled_from([None, None, None, "a", "b"])
OLD_ENOUGH = 2 * 300.0 + 100


class GroupMachine(RuleBasedStateMachine):
    """Members that do what members do, and some that do what they should not."""

    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.machine.store_at_once = False
        self.generation = 0
        self.told: dict[int, set[str]] = defaultdict(set)  # generation: who was told to be in it
        self.leaders: dict[int, set[str]] = defaultdict(set)
        self.checked = 0

    @rule(target=ids, instance=INSTANCES, names=LISTS, session=TIMEOUTS, rebalance=TIMEOUTS, first=st.booleans())
    def join_first_time(
        self, instance: str | None, names: tuple[str, ...], session: int, rebalance: int, first: bool
    ) -> Any:
        ticket = self._join("", instance, names, session, rebalance, first)
        known = None if ticket.held else ticket.joined.member_id
        members = [member for member in (*self.machine.members, known) if member]
        return multiple(*members)

    @rule(member=ids, instance=INSTANCES, names=LISTS, session=TIMEOUTS, rebalance=TIMEOUTS)
    def join_again(
        self, member: str, instance: str | None, names: tuple[str, ...], session: int, rebalance: int
    ) -> None:
        self._join(member, instance, names, session, rebalance, True)

    def _join(
        self, member: str, instance: str | None, names: tuple[str, ...], session: int, rebalance: int, first: bool
    ) -> Ticket:
        return self.machine.join(
            member,
            instance_id=instance,
            protocols=tuple((name, name.encode()) for name in names),
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance,
            id_required=first,
            may_skip=first,
        )

    @rule()
    def all_members_join(self) -> None:
        """What makes a group come to rest; at random alone it seldom would."""
        for member in list(self.machine.group.members):
            if member.id in self.machine.group.members:
                self.machine.join(member.id, instance_id=member.instance_id, protocols=member.protocols)

    @rule()
    def all_members_sync(self) -> None:
        for member in list(self.machine.group.members):
            generation = self.machine.group.generation
            own = {one: f"{generation}/{one}".encode() for one in self.machine.members}
            self.machine.sync(member.id, own, instance_id=member.instance_id)

    @rule(member=ids, late=st.integers(0, 1))
    def sync(self, member: str, late: int) -> None:
        generation = self.machine.group.generation - late
        own = {one: f"{generation}/{one}".encode() for one in self.machine.members}
        self.machine.sync(member, own, generation=generation)

    @rule(member=ids, late=st.integers(0, 1), instance=INSTANCES)
    def heartbeat(self, member: str, late: int, instance: str | None) -> None:
        group = self.machine.group
        error = self.machine.heartbeat(member, group.generation - late, instance)
        assert error in (
            NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        )  # fmt: skip
        assert (error is NONE) <= (member in group.members and not late)

    @rule(member=ids, late=st.integers(0, 1))
    def commit(self, member: str, late: int) -> None:
        group = self.machine.group
        generation = group.generation - late
        error = self.machine.commit(member, generation)
        stand_alone = generation < 0 and group.state is ClassicGroupState.EMPTY
        assert (error is NONE) <= (stand_alone or (member in group.members and not late))

    @rule(member=ids, instance=INSTANCES)
    def leave(self, member: str, instance: str | None) -> None:
        self.machine.leave(Leave(member, instance))
        assert instance is not None or member not in self.machine.members

    @rule(instance=st.sampled_from(["a", "b"]))
    def expel(self, instance: str) -> None:
        self.machine.leave(Leave("", instance))

    @rule(seconds=st.sampled_from([0.05, DELAY, 5.9, 31.0]))
    def pass_time(self, seconds: float) -> None:
        self.machine.pass_time(seconds)

    @precondition(lambda self: self.machine.saves)
    @rule(error=st.sampled_from([NONE, NONE, NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def store(self, error: ErrorCode) -> None:
        record = self.machine.saves[0].record
        assert decode(encode(record)) == record
        self.machine.stored(error)

    @precondition(lambda self: self.machine.state is ClassicGroupState.STABLE and not self.machine.saves)
    @rule()
    def restart(self) -> None:
        """The bridge goes, and another takes over from what is stored."""
        group = self.machine.group
        assignments = {one.id: one.assignment for one in group.members}
        group._save(lambda error, now: None, assignments)
        (save,) = group.take_effects()
        record = decode(encode(save.record))  # type: ignore[union-attr]
        group.kill(ErrorCode.NOT_COORDINATOR)
        self.machine.settle()
        self.machine.group = ClassicGroup.restore("g", GroupConfig(initial_delay=DELAY), record, self.machine.now)
        assert {one.id: one.assignment for one in self.machine.group.members} == assignments

    # ---- promises ----------------------------------------------------------------------------------------------------

    @invariant()
    def generations_only_grow(self) -> None:
        assert self.machine.group.generation >= self.generation
        self.generation = self.machine.group.generation

    @invariant()
    def the_leader_is_a_member(self) -> None:
        members = self.machine.group.members
        assert (members.leader in members) if members else (members.leader is None)

    @invariant()
    def a_group_has_members_exactly_when_its_state_says_so(self) -> None:
        group = self.machine.group
        if group.state is ClassicGroupState.EMPTY:
            assert not group.members
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING):
            assert group.members
            assert group.protocol_name
            assert all(group.protocol_name in dict(member.protocols) for member in group.members)

    @invariant()
    def what_is_counted_is_true(self) -> None:
        group = self.machine.group
        assert group.members.all_joining() == all(member.joining is not None for member in group.members)
        assert group.members.size == sum(member.size for member in group.members)
        assert all(group.deadline() <= member.deadline for member in group.members)

    @invariant()
    def an_instance_is_one_member(self) -> None:
        members = self.machine.group.members
        instances = [member.instance_id for member in members if member.instance_id is not None]
        assert len(instances) == len(set(instances))
        assert all(members[members.static_id(one) or ""].instance_id == one for one in instances)

    @invariant()
    def who_waits_is_waited_for(self) -> None:
        """A held request belongs to a member of now, or was answered; and something will happen."""
        group = self.machine.group
        held = {id(ticket) for ticket in self.machine.tickets if ticket.held}
        owned = {id(one) for member in group.members for one in (member.joining, member.syncing) if one is not None}
        assert held == owned
        if held:
            assert group.deadline() < float("inf") or self.machine.saves

    @invariant()
    def every_member_has_a_deadline(self) -> None:
        now = self.machine.now
        assert all(now < member.deadline <= now + 300 for member in self.machine.group.members)

    @invariant()
    def syncs_are_held_only_while_the_assignment_is_awaited(self) -> None:
        if self.machine.state is not ClassicGroupState.COMPLETING:
            assert all(member.syncing is None for member in self.machine.group.members)

    @invariant()
    def answers_are_true(self) -> None:
        for ticket in self.machine.tickets:
            if ticket.held or ticket.error is not NONE:
                continue
            if ticket.name.startswith("join"):
                joined = ticket.joined
                self.told[joined.generation].add(joined.member_id)
                if joined.members:
                    self.leaders[joined.generation].add(joined.member_id)
                    assert joined.leader == joined.member_id
                    assert joined.member_id in [member for member, _, _ in joined.members]
            elif ticket.synced.assignment:
                self._check_assignment(ticket)
        self.machine.tickets = [ticket for ticket in self.machine.tickets if ticket.held]

    def _check_assignment(self, ticket: Ticket) -> None:
        """An assignment is given to a member of its generation only (a restarted static one has its predecessor's)."""
        generation, _, owner = ticket.synced.assignment.decode().partition("/")
        asks = ticket.name.removeprefix("sync ")
        assert int(generation) == self.machine.group.generation
        members = self.machine.group.members
        assert owner == asks or (asks in members and members[asks].instance_id is not None)

    def teardown(self) -> None:
        """No client waits forever: when all are silent, all is over."""
        machine = self.machine
        machine.store_at_once = True
        machine.settle()
        machine.pass_time(OLD_ENOUGH)
        assert not [ticket for ticket in machine.tickets if ticket.held]
        assert machine.state is ClassicGroupState.EMPTY
        assert machine.group.deadline() == float("inf")


GroupMachine.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestGroupMachine = GroupMachine.TestCase
