"""Fetch: read record batches of partitions from given offsets on, waiting for new ones.

v1 adds throttle_time_ms; v2 brings messages of magic 1 instead of 0; v3 a limit for the whole answer (KIP-74); v4
record batches of magic 2, the isolation level and aborted transactions; v5 log start offsets; v7 fetch sessions
(KIP-227; session id 0 in the answer declines them); v9 leader epochs; v10 allows zstd (KIP-110); v11 racks (KIP-392);
v12 is flexible, and names leaders to clients that ask the wrong node (KIP-951); v13 names topics by their ids
(KIP-516); v14 brings an error of tiered storage; v15 and v17 are about followers; v16 adds the leaders' addresses.
"""

from typing import TypeAlias

from bridge.fetch import preferred_replicas
from bridge.fetch.partitions import opened_partitions
from bridge.fetch.pending_fetch import PendingFetch
from bridge.fetch.waiting import answered, answered_in_turns
from bridge.kafka import fetch_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_wire import Request, Response
from bridge.requests.api import MAX_WAITING_PARTITIONS, Api, Broker, RequestLimit, Right, Rights, ServedBy
from bridge.requests.encoded import EncodedBody
from bridge.requests.responses import LongPoll
from bridge.requests.rights import CLUSTER, TOPIC
from bridge.requests.session import Session
from bridge.runtime.futures import loop_time, own_task
from bridge.security.acls import Operation

NO_SESSION_EPOCHS = (0, -1)  # a full fetch: it asks for a new session, or ends one (KIP-227)

_Answer: TypeAlias = Response | EncodedBody | LongPoll[Response | EncodedBody]


async def handle(request: Request, broker: Broker, session: Session) -> _Answer:
    """Answer when there are `min_bytes`, an error, or `max_wait_ms` are over."""
    if request.session_epoch not in NO_SESSION_EPOCHS:  # no session was ever created
        return Response(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    view = broker.cluster.snapshot
    parts = await opened_partitions(request, session.api_version, broker, session)
    if request.rack_id and view.has_racks:
        await own_task()
        await preferred_replicas.prefer(request.rack_id, parts, broker)
    reads, now = session.pending_reads, loop_time()
    if reads:
        reads.keep_only({part.position for part in parts})
    fetch = PendingFetch(request, broker, session, parts, now + max(request.max_wait_ms, 0) / 1000, view)
    if fetch.is_short:
        return answered(fetch, broker, session, now)
    await own_task()
    return await answered_in_turns(fetch, broker, session)


API = Api(
    key=1,
    name="Fetch",
    min_version=0,
    max_version=17,
    flexible=12,
    handle=handle,
    at_once=True,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.READ, TOPIC), Right(Operation.CLUSTER_ACTION, CLUSTER, "instead, of a follower"))),
    served_by=ServedBy.LEADER,
    read=fetch_wire.read,
    write=fetch_wire.write,
    read_only=True,
    long_poll=True,
    waits=True,
    limits=(
        RequestLimit("bytes of an answer", "kafka.max_fetch_bytes", "fewer records"),
        RequestLimit("partitions that all clients wait for", MAX_WAITING_PARTITIONS, "answered at once, throttled"),
    ),
)
