"""Coordinates share groups (KIP-932): members as in consumer groups, and the states of their partitions."""

from typing import Final

from bridge.groups.configs import SHARE_SESSION
from bridge.groups.consumer.model import GroupSnapshot
from bridge.groups.epochs.coordinator import EpochGroups
from bridge.groups.epochs.group import EpochGroupConfig
from bridge.groups.epochs.records import SHARE
from bridge.groups.share.state import ShareGroup

MOST_SHARE_MEMBERS: Final = 200
"""Kafka's group.share.max.size."""


class ShareGroups(EpochGroups[ShareGroup]):
    """The share groups of this node."""

    format = SHARE
    session_config = SHARE_SESSION

    def _machine(self, group_id: str, limits: EpochGroupConfig, now: float, snapshot: GroupSnapshot) -> ShareGroup:
        return ShareGroup(group_id, limits, now, snapshot)
