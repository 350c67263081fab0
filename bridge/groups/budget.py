"""How much memory members' metadata may take: of one member, and of all groups together."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from bridge.config import GroupSettings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.telemetry.metrics import GroupMetrics

_OBJECT_BYTES, _MEMBER_BYTES = 100, 1000
GROUP_BYTES = 2500
"""Of memory that a group takes without its members, roughly."""
MAX_PROTOCOLS = 100
"""Of one member of a classic group; real ones name one to three."""
PATTERN_BYTES: Final = 64 * 1024 * 1024
"""Of the topics that patterns fit, which are kept for the next look."""


def check_size(members: int, settings: GroupSettings) -> None:
    """Raise INVALID_REQUEST if a request names more members than a group may have."""
    if members > settings.max_size:
        text = f"{members} members are above groups.max_size = {settings.max_size}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)


class MetadataBudget:
    """Counts what the members of this node's groups say about themselves."""

    def __init__(self, settings: GroupSettings, metrics: GroupMetrics) -> None:
        self._of_one = settings.max_member_metadata_bytes
        self._of_all = settings.max_metadata_bytes
        self._gauge = metrics.metadata_bytes
        self._held = 0

    def check(self, *sizes: int) -> None:
        """Raise the KafkaError that members with so many bytes of metadata each get, if they may not have them.

        INVALID_REQUEST above what one may have; COORDINATOR_NOT_AVAILABLE, for which it comes again later, where there
        is no room at present.
        """
        largest = max(sizes, default=0)
        if largest > self._of_one:
            text = f"metadata of {largest} bytes is above groups.max_member_metadata_bytes = {self._of_one}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        if self._held + sum(sizes) > self._of_all:
            text = f"the metadata of all groups' members is at groups.max_metadata_bytes = {self._of_all}"
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)

    def add(self, count: int) -> None:
        """So many bytes more are held, or fewer."""
        self._held += count
        self._gauge.set(self._held)


class GroupMemory(NamedTuple):
    """The memory that a coordinator's groups may take."""

    metadata: MetadataBudget
    pattern_bytes: int = PATTERN_BYTES


class MemberSizes:
    """The memory that a group and each of its members are counted for."""

    def __init__(self, budget: MetadataBudget, sizes: Mapping[str, int]) -> None:
        """`sizes`: what members said of themselves, in bytes, by id."""
        self._budget = budget
        self._sizes: dict[str, int] = {}
        self._of_group = 0
        for member_id, size in sizes.items():
            self.set(member_id, size)

    def set_group(self, size: int) -> None:
        """What the group has beside its members takes so many bytes now."""
        self._budget.add(size - self._of_group)
        self._of_group = size

    def set(self, member_id: str, size: int) -> None:
        """A member's subscription takes so many bytes now; 0: it has sent none, and keeps what it had."""
        if size:
            size += _MEMBER_BYTES
            self._budget.add(size - self._sizes.get(member_id, 0))
            self._sizes[member_id] = size

    def keep_only(self, members: Mapping[str, object]) -> None:
        """All others have gone."""
        if len(self._sizes) > len(members):
            for member_id in self._sizes.keys() - members.keys():
                self._budget.add(-self._sizes.pop(member_id))

    def release(self) -> None:
        """The group is not in memory any more."""
        self.keep_only({})
        self.set_group(0)


def subscription_bytes(topics: frozenset[str] | None, regex: str | None) -> int:
    """What a subscription takes in memory, roughly."""
    return sum(_OBJECT_BYTES + len(topic) for topic in topics or ()) + len(regex or "")
