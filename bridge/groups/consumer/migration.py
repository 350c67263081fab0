"""Groups that change their protocol with members in them, both ways (KIP-848, `group.consumer.migration.policy`).

A member of the new protocol that joins a classic group makes it a consumer group, in which classic members go on:
their JoinGroup is a heartbeat that joins, and their assignment is the coordinator's. When the last member of the new
protocol goes, what is left is a classic group again. Nobody loses a partition that it keeps.

Here is what one kind of group is as the other: no state, no store.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from bridge.errors import KafkaError
from bridge.groups.classic.events import Join
from bridge.groups.classic.members import Member, MemberRegistry
from bridge.groups.classic.records import GroupRecord, MemberRecord
from bridge.groups.classic.state import ClassicGroup
from bridge.groups.consumer.model import (
    Assignment,
    ClassicTerms,
    ConsumerMember,
    GroupSnapshot,
    View,
    assignment,
    combined,
)
from bridge.groups.epochs.group import MemberHeartbeat
from bridge.kafka import consumer_protocol
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import DecodeError

UPGRADES: Final = frozenset(("upgrade", "bidirectional"))
DOWNGRADES: Final = frozenset(("downgrade", "bidirectional"))
"""The policies by which a group with members becomes a consumer group, and a classic one."""


def heartbeat_of(request: Join, view: View) -> MemberHeartbeat:
    """A JoinGroup as what it is to a consumer group; INCONSISTENT_GROUP_PROTOCOL. `view`: the topics that are known.

    All its protocols have the same subscription (Kafka's `deserializeSubscription`): the first one's is read.
    """
    try:
        subscription = consumer_protocol.read_subscription(request.protocols[0][1])
    except (DecodeError, IndexError):
        text = f"Member {request.member_id} does not say what it subscribes to."
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text) from None
    return MemberHeartbeat(
        member_id=request.member_id or request.new_id,
        epoch=0,
        instance_id=request.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        owned=_by_id(consumer_protocol.flat(subscription.owned_partitions), view),
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicTerms(request.session_timeout_ms, request.protocols),
        names_itself=bool(request.member_id),
    )


def assignment_of(member: ConsumerMember, view: View, *, revoking: bool = False) -> bytes:
    """What a classic member is told that it has; `revoking`: with what it has yet to give back."""
    terms = member.classic
    version = consumer_protocol.version_of(terms.protocols[0][1]) if terms is not None else consumer_protocol.NEWEST
    has = combined(member.assigned, member.revoking) if revoking else member.assigned
    return consumer_protocol.write_assignment(_by_name(has, view), version)


def topics_of(group: ClassicGroup) -> frozenset[str]:
    """All that must be known of topics to make a consumer group of it; GROUP_ID_NOT_FOUND where it cannot be one."""
    names = set[str]()
    try:
        for one in group.members:
            subscription, given = _subscription(group, one), consumer_protocol.read_assignment(one.assignment)
            if given.user_data:  # Kafka Streams, for one: its members could not do without
                raise _refused(group, "an unsupported custom assignor is in use")
            names.update(subscription.topics)
            names.update(part.topic for part in (*given.assigned_partitions, *subscription.owned_partitions))
    except DecodeError:
        raise _refused(group, "the embedded consumer protocol is malformed") from None
    return frozenset(names)


def consumer_group(group: ClassicGroup, view: View) -> GroupSnapshot:
    """A classic group as a consumer group, with `topics_of` it in view; GROUP_ID_NOT_FOUND where it cannot be one.

    A member that has not been told its id yet is left out: it joins again without one.
    """
    epoch = max(group.generation, 1)
    assigned = _assigned(group, view)
    members = {}
    for one in group.members:
        if one.new:
            continue
        subscription = _subscription(group, one)
        members[one.id] = ConsumerMember(
            id=one.id,
            instance_id=one.instance_id,
            rack_id=subscription.rack_id,
            client_id=one.client_id,
            client_host=one.client_host,
            rebalance_timeout_ms=one.rebalance_timeout_ms,
            topics=frozenset(subscription.topics),
            epoch=epoch,
            previous_epoch=epoch,
            assigned=assigned[one.id],
            classic=ClassicTerms(one.session_timeout_ms, one.protocols),
        )
    targets = {one.id: one.assigned for one in members.values()}
    wanted = frozenset[str]().union(*(one.topics for one in members.values()))
    topics = {name: facts for name, facts in view.topics.items() if name in wanted}
    return GroupSnapshot(epoch + 1, epoch, members, View(topics), targets)  # there is no target yet for all of it


def _assigned(group: ClassicGroup, view: View) -> dict[str, Assignment]:
    """What each member has: by its assignment, or, where that was given up, by what it says that it has kept."""
    found: dict[str, Assignment] = {}
    taken = set[tuple[str, int]]()
    for one in group.members:
        places = consumer_protocol.flat(consumer_protocol.read_assignment(one.assignment).assigned_partitions)
        if not taken.isdisjoint(places):
            raise _refused(group, "members share partitions")
        taken.update(places)
        found[one.id] = _by_id(places, view)
    for one in group.members:
        if not one.assignment:
            kept = consumer_protocol.flat(_subscription(group, one).owned_partitions)
            places = [place for place in kept if place not in taken]
            taken.update(places)
            found[one.id] = _by_id(places, view)
    return found


def classic_group(group: GroupSnapshot) -> GroupRecord:
    """A consumer group of classic members as the record of a classic group, which is to rebalance.

    Its generation is one that no member has: who finds this record knows that the rebalance has not ended.
    """
    registry = MemberRegistry()
    for one in group.members.values():
        registry.add(_classic_member(one))
    protocol = registry.choose_protocol()
    members = tuple(
        MemberRecord.of(one, protocol, assignment_of(group.members[one.id], group.view, revoking=True))
        for one in registry
    )
    generation = group.assignment_epoch + 1
    return GroupRecord(generation, consumer_protocol.TYPE, protocol, registry.leader, members=members)


def _classic_member(member: ConsumerMember) -> Member:
    assert member.classic is not None  # noqa: S101 - all of the group's are
    return Member(
        id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=member.classic.protocols,
    )


def _subscription(group: ClassicGroup, member: Member) -> consumer_protocol.Subscription:
    """By the group's protocol; a group that has had no generation has none yet."""
    return consumer_protocol.read_subscription(member.metadata(group.protocol_name) or member.protocols[0][1])


def _refused(group: ClassicGroup, why: str) -> KafkaError:
    text = f"Cannot upgrade classic group {group.id} to consumer group because {why}."
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _by_id(partitions: list[tuple[str, int]], view: View) -> Assignment:
    """Those of topics that there are."""
    return assignment((view.topics[name].id, number) for name, number in partitions if name in view.topics)


def _by_name(assigned: Assignment, view: View) -> Mapping[str, frozenset[int]]:
    names: dict[UUID, str] = {topic.id: name for name, topic in view.topics.items()}
    return {names[topic]: numbers for topic, numbers in assigned.items() if topic in names}
