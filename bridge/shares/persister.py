"""Where leaders of share partitions keep their states: at the group's coordinator, which may be another node.

`groups.share.states.ShareStates` is one, of the groups of this node; `requests.share_states.NodesShareStates` asks
whichever node it is.
"""

from collections.abc import Mapping
from typing import Final, Protocol
from uuid import UUID

from bridge.errors import KafkaError
from bridge.groups.share.state_records import ShareState, ShareWrite
from bridge.kafka.error_codes import ErrorCode


class Persister(Protocol):
    """Keeps the states of share partitions; raises KafkaError as `ShareStates`."""

    async def read(self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int) -> ShareState:
        """The state, for the leader of this epoch: earlier ones cannot write any more when this returns."""

    async def write(self, group_id: str, topic_id: UUID, partition: int, write: ShareWrite) -> None:
        """Store the state; a write that is repeated changes nothing."""

    async def check(self, group_id: str, topic_id: UUID, partition: int, state_epoch: int, leader_epoch: int) -> None:
        """Raise as `write` where the leader that has read the state of these epochs may not write any more."""


_TOLD: Final[Mapping[int, ErrorCode]] = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What consumers are told (Kafka's `SharePartition.fetchPersisterError`)."""
_ENDS: Final = frozenset(
    (
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)


def told(error: KafkaError) -> KafkaError:
    """What a consumer is told of it."""
    return KafkaError(_TOLD.get(error.code, error.code), str(error))


def ends(error: KafkaError) -> bool:
    """Whether the leader has to read the state again: another one has, or it is another state."""
    return error.code in _ENDS
