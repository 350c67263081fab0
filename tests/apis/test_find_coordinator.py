"""FindCoordinator: every key has this node for its coordinator."""

import pytest

from bridge.apis import (
    find_coordinator,
)
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_a_transactional_id_has_a_coordinator(bridge: BridgeThread, version: int) -> None:
    # without one clients ask again and again, or say that there is no group coordinator
    request = find_coordinator.Request(key="t", key_type=find_coordinator.TRANSACTION, coordinator_keys=["t"])
    if version < 4:
        request.coordinator_keys = []
    answer = ask(bridge, find_coordinator.API, request, version)
    one = answer if version < 4 else answer.coordinators[0]
    assert (one.error_code, one.node_id) == (ErrorCode.NONE, bridge.node_id)
    assert f"{one.host}:{one.port}" == bridge.kafka
