"""DescribeAcls: there is no authorizer, as in a Kafka without one."""

from bridge.apis import (
    describe_acls,
)
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread


def test_nothing_is_forbidden(bridge: BridgeThread) -> None:
    acls = describe_acls.Request(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert ask(bridge, describe_acls.API, acls).error_code == ErrorCode.SECURITY_DISABLED
