"""Brings one member of a consumer group nearer to its target assignment (Kafka's CurrentAssignmentBuilder).

| state      | leaves it                                                     | for                                     |
|------------|---------------------------------------------------------------|-----------------------------------------|
| STABLE     | there is a newer target                                       | the next step                           |
| UNREVOKED  | the member no longer names the partitions it has to give back | the next step, its epoch one higher     |
| UNRELEASED | at each heartbeat                                             | the next step                           |

The next step: what is not in the target must be given back first (UNREVOKED, the epoch stays). Then the member gets
what no other member has any more, and the target's epoch: UNRELEASED while others have yet to give back the rest, else
STABLE.
"""

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from bridge.groups.consumer.model import NOTHING, Assignment, ConsumerMember, MemberState, combined, overlap


def reconcile(
    member: ConsumerMember,
    target: Assignment,
    target_epoch: int,
    others: Iterable[ConsumerMember],
    owned: Assignment | None,
) -> ConsumerMember:
    """The member's next state; the same object if it stays where it is. `owned`: what it says it has, None: unsaid."""
    if member.reconciled(target_epoch):
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED:
        if _holds(owned, member.revoking):
            return member
        epoch += 1
    following = _step(member, epoch, target, target_epoch, others, owned)
    # the previous epoch moves along at each step, which is no news by itself
    same = replace(following, previous_epoch=member.previous_epoch) == member
    return member if same else following


def _step(
    member: ConsumerMember,
    epoch: int,
    target: Assignment,
    target_epoch: int,
    others: Iterable[ConsumerMember],
    owned: Assignment | None,
) -> ConsumerMember:
    kept = _both(member.assigned, target)
    revoking = _without(member.assigned, kept)
    if revoking and _holds(owned, revoking):
        state, assigned = MemberState.UNREVOKED, kept
    else:
        missing, epoch, revoking = _without(target, kept), target_epoch, NOTHING
        taken = _taken(missing, others)
        free = _without(missing, taken)
        state = MemberState.UNRELEASED if taken else MemberState.STABLE
        assigned = combined(kept, free)
    return replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, revoking=revoking)


def _holds(owned: Assignment | None, revoking: Assignment) -> bool:
    """Whether the member still has any of these; it must say what it has to be believed that it has not."""
    return owned is None or overlap(revoking, owned)


def _taken(wanted: Assignment, others: Iterable[ConsumerMember]) -> Assignment:
    """What others still have of these partitions: a partition is never given to two."""
    if not wanted:
        return NOTHING
    taken: dict[UUID, frozenset[int]] = {}
    for other in others:
        for held in (other.assigned, other.revoking):
            for topic in wanted.keys() & held.keys():
                both = wanted[topic] & held[topic]
                if both:
                    taken[topic] = taken.get(topic, frozenset()) | both
    return taken


def _both(one: Assignment, other: Assignment) -> Assignment:
    shared = {topic: partitions & other.get(topic, frozenset()) for topic, partitions in one.items()}
    return {topic: partitions for topic, partitions in shared.items() if partitions}


def _without(one: Assignment, other: Assignment) -> Assignment:
    left = {topic: partitions - other.get(topic, frozenset()) for topic, partitions in one.items()}
    return {topic: partitions for topic, partitions in left.items() if partitions}
