"""What a group says of itself: to members that join or sync, and to the store."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from bridge.groups.classic.events import Joined, Synced
from bridge.groups.classic.facts import GroupFacts
from bridge.groups.classic.members import Member, Ticket
from bridge.groups.classic.records import GroupRecord, MemberRecord
from bridge.kafka.error_codes import ErrorCode


def current_generation(group: GroupFacts, member: Member) -> Joined:
    """The answer to a JoinGroup; the leader gets all members."""
    members, protocol, leads = group.members, group.protocol_name, member.id == group.members.leader
    return Joined(
        error=ErrorCode.NONE,
        member_id=member.id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=protocol,
        leader=members.leader or "",
        members=tuple((one.id, one.instance_id, one.metadata(protocol)) for one in members) if leads else (),
    )


def current_assignment(group: GroupFacts, member: Member) -> Synced:
    """The answer to a SyncGroup."""
    return Synced(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment)


def record_of(group: GroupFacts, assignments: Mapping[str, bytes]) -> GroupRecord:
    """What is stored of the group, with these assignments."""
    protocol = group.protocol_name
    members = tuple(
        MemberRecord(
            id=one.id,
            instance_id=one.instance_id,
            client_id=one.client_id,
            client_host=one.client_host,
            session_timeout_ms=one.session_timeout_ms,
            rebalance_timeout_ms=one.rebalance_timeout_ms,
            subscription=one.metadata(protocol),
            assignment=assignments[one.id],
        )
        for one in group.members
    )
    return GroupRecord(group.generation, group.protocol_type, protocol, group.members.leader, members=members)


class Replacement(NamedTuple):
    """The restart of a static member, until it is stored (KIP-345, KIP-814)."""

    member: Member
    before: Member
    """As it was."""
    ticket: Ticket
    """The JoinGroup of its new process."""
    leader: str | None
    """Who led before."""
    may_skip: bool

    def answer(self, group: GroupFacts) -> Joined:
        """The answer to its JoinGroup, without a rebalance."""
        answer = current_generation(group, self.member)
        if self.may_skip:
            return replace(answer, skip_assignment=self.member.id == group.members.leader)
        # it must take itself for a follower, or it would assign again
        return replace(answer, leader=self.leader or "", members=())
