"""ListPartitionReassignments: nothing is ever being moved."""

from bridge.apis import (
    list_partition_reassignments,
)
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread


def test_nothing_moves(bridge: BridgeThread) -> None:
    moving = ask(bridge, list_partition_reassignments.API, list_partition_reassignments.Request())
    assert (moving.error_code, moving.topics) == (ErrorCode.NONE, [])
