"""FindCoordinator: which node coordinates a group or a transactional id, by the view of the cluster.

v1 adds transactions' coordinators (key type 1); v3 is flexible; v4 takes and answers several keys (KIP-699); v5 may
answer TRANSACTION_ABORTABLE (KIP-890); v6 adds the state of share groups (key type 2, KIP-932).
librdkafka takes a server without this API for one without lz4, and silently stops compressing.
"""

import asyncio
from dataclasses import field
from typing import Annotated, Any

from bridge.cluster import ClusterSnapshot
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message, since, until
from bridge.requests.api import Api, Broker, Rest, Right, Rights
from bridge.requests.authorization import ERRORS, Checks
from bridge.requests.rights import joined, refused
from bridge.requests.session import Session
from bridge.security.acls import Operation, Resource, ResourceType
from bridge.telemetry import log

_log = log.get(__name__)

GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Types of keys."""
_NO_SLOT = 1 << 31
"""No node has it."""
_CREATION_SECONDS = 5.0
"""For what transactions are kept in, when the first client looks for a coordinator."""


@message
class Request:
    """Groups or transactional ids: `coordinator_keys` from v4 on, `key` before."""

    key: Annotated[str, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = GROUP
    coordinator_keys: Annotated[list[str], since(4)] = field(default_factory=list)


@message
class Coordinator:
    """One key's coordinator, or why there is none."""

    key: str
    node_id: Int32 = -1
    host: str = ""
    port: Int32 = -1
    error_code: Int16
    error_message: str | None = None


@message
class Response:
    """The coordinators: `coordinators` from v4 on, the single fields before."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[str | None, since(1), until(3)] = None
    node_id: Annotated[Int32, until(3)] = -1
    host: Annotated[str, until(3)] = ""
    port: Annotated[Int32, until(3)] = -1
    coordinators: Annotated[list[Coordinator], since(4)] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Name the node that has each key's slot."""
    keys = request.coordinator_keys or [request.key]
    slots = await _slots(keys, request.key_type, broker)
    cluster = broker.cluster.snapshot  # the whole answer is of one view
    found = [_find(key, slots.get(key, _NO_SLOT), request.key_type, cluster, session.listener) for key in keys]
    if request.coordinator_keys:
        return Response(coordinators=found)
    one = found[0]
    return Response(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


async def _slots(keys: list[str], key_type: int, broker: Broker) -> dict[str, int]:
    """The group slot that each key goes with, where it has one."""
    if key_type == GROUP:
        return {key: broker.groups.slot_of(key) for key in keys}
    if key_type != TRANSACTION:
        return {}
    if not broker.cluster.snapshot.has_transactions:
        return dict.fromkeys(keys, _NO_SLOT)
    try:
        async with asyncio.timeout(_CREATION_SECONDS):
            return {key: await broker.transactions.group_slot_of(key) for key in keys}
    except (KafkaError, TimeoutError) as error:
        _log.warning("! no coordinator of transactions", extra={"error": str(error) or "Pulsar does not answer"})
        return dict.fromkeys(keys, _NO_SLOT)


def _find(key: str, slot: int, key_type: int, cluster: ClusterSnapshot, listener: str) -> Coordinator:
    if key_type not in (GROUP, TRANSACTION):
        # nodes find the states of share partitions by themselves: the answer is that of a Kafka without share groups
        error = ErrorCode.INVALID_REQUEST
        text = None if key_type == SHARE else error.text
        return Coordinator(key=key, error_code=error, error_message=text)
    node = cluster.coordinator(slot)
    node = None if node is None else cluster.node_at(node.id, listener)
    if node is None:  # or it lacks the listener that the client came in by, as in Kafka
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key=key, error_code=error, error_message=error.text)
    return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_code=ErrorCode.NONE)


_RESOURCES = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    kind = _RESOURCES.get(request.key_type)
    if kind is None:  # the handler refuses it
        return await rest(request)
    if not request.coordinator_keys:
        if not await checks.allows(Operation.DESCRIBE, Resource(kind, request.key)):
            raise KafkaError(ERRORS[kind], ERRORS[kind].text)
        return await rest(request)
    refusals = await refused(request, checks, Operation.DESCRIBE, kind, "coordinator_keys", "")
    return joined(await rest(request) if request.coordinator_keys else Response(), refusals)


API = Api(
    key=10,
    name="FindCoordinator",
    min_version=0,
    max_version=6,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        tuple(Right(Operation.DESCRIBE, kind) for kind in _RESOURCES.values()),
        _check_rights,
    ),
    read_only=True,
)
