"""What clients of a namespace may ask: not what belongs to the whole cluster, as users, permissions and quotas do.

That is administered from the bridge's own namespace: one that could set the password of another tenant's user would be
that user. What needs only rights to the cluster is such, unless its API says otherwise (`Rights.of_a_namespace`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api, Broker
from bridge.requests.session import Session

TEXT: Final = "This belongs to the whole cluster: clients of a tenant can neither see nor change it."


def for_tenants(apis: Mapping[int, Api]) -> dict[int, Api]:
    """The APIs as clients of a namespace that is not the bridge's own are served them."""
    return {key: replace(api, handle=_refuse) if api.rights.of_the_cluster else api for key, api in apis.items()}


async def _refuse(request: Any, broker: Broker, session: Session) -> Any:
    raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, TEXT)
