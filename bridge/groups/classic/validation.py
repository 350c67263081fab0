"""What a classic group refuses: requests that do not fit its state, its members or its generation."""

from typing import Final

from bridge.groups.classic.events import ClassicGroupState, Join, Sync
from bridge.groups.classic.facts import GroupFacts
from bridge.groups.classic.members import Member, Protocols
from bridge.kafka.error_codes import ErrorCode

HEARTBEAT_ERRORS: Final[dict[ClassicGroupState, ErrorCode]] = {
    ClassicGroupState.PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    ClassicGroupState.COMPLETING: ErrorCode.NONE,
    ClassicGroupState.STABLE: ErrorCode.NONE,
}
"""The answer to a known member's heartbeat."""

COMMIT_ERRORS: Final[dict[ClassicGroupState, ErrorCode]] = {
    ClassicGroupState.PREPARING: ErrorCode.NONE,  # what was consumed before the rebalance can still be committed
    ClassicGroupState.COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
    ClassicGroupState.STABLE: ErrorCode.NONE,
}
"""The answer to a known member's commit."""


def check_join(group: GroupFacts, request: Join, max_size: int) -> ErrorCode:
    """Whether the protocols fit, and a new member has room."""
    if group.state is ClassicGroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if group.state is ClassicGroupState.EMPTY:
        fits = bool(request.protocol_type and request.protocols)
    else:
        fits = request.protocol_type == group.protocol_type and group.members.share_a_protocol(request.protocols)
    if not fits:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    is_new = request.member_id not in group.members
    is_new = is_new and group.members.static_id(request.instance_id) is None
    known = len(group.members) + group.sessions.count_given_out(besides=request.member_id)
    return ErrorCode.GROUP_MAX_SIZE_REACHED if is_new and known >= max_size else ErrorCode.NONE


def check_member(group: GroupFacts, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether the member is one of the group, and still the one that its instance is (KIP-345)."""
    if group.state is ClassicGroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if instance_id is not None:
        current = group.members.static_id(instance_id)
        if current is not None and current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def check_generation(group: GroupFacts, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """As `check_member`, and whether the member knows of the current generation."""
    error = check_member(group, member_id, instance_id)
    if not error and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def check_commit(group: GroupFacts, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """Whether the member may commit; an empty group takes commits without a generation."""
    if generation < 0:
        if group.state is ClassicGroupState.EMPTY:
            return ErrorCode.NONE  # a consumer that assigns itself, or an administrator
        if not member_id and instance_id is None and group.state is not ClassicGroupState.DEAD:
            return ErrorCode.UNKNOWN_MEMBER_ID  # the same, in a group that has members
    return check_generation(group, member_id, instance_id, generation)


def check_sync(group: GroupFacts, request: Sync) -> ErrorCode:
    """Whether the member may get an assignment of this generation."""
    error = check_generation(group, request.member_id, request.instance_id, request.generation)
    if error:
        return error
    said = (request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name)
    if any(theirs is not None and ours is not None and theirs != ours for theirs, ours in said):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    is_preparing = group.state is ClassicGroupState.PREPARING
    return ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE


def keeps_generation(group: GroupFacts, member: Member, protocols: Protocols) -> bool:
    """Whether a member that joins again is told the current generation, instead of a rebalance (rule 5)."""
    if group.state is ClassicGroupState.PREPARING or member.protocols != protocols:
        return False
    # Completing: it has not got the answer to its first JoinGroup. Stable: by joining again the leader asks for a
    # rebalance (topics may have changed)
    return group.state is ClassicGroupState.COMPLETING or member.id != group.members.leader
