"""Produce: append record batches to partitions.

v1 adds throttle_time_ms; v2 the log append time; v3 the transactional id and record batches of magic 2; v5 the log
start offset; v7 allows zstd (KIP-110); v8 adds error texts (KIP-467); v9 is flexible. v0 to v2 carry message sets of
magic 0 and 1; they are advertised because librdkafka stops compressing without them (KAFKA-18659).
"""

from bridge.api import Api, Broker, Later, Session
from bridge.errors import KafkaError
from bridge.kafka import produce_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.produce_wire import Request, Response

MAX_REQUEST_BYTES = 2**31 - 1
"""Records are not decoded here, so only `kafka.max_request_bytes` limits a request."""


async def handle(request: Request, broker: Broker, session: Session) -> Response | Later[Response | None] | None:
    """Refuse, for now."""
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # the lead fills this in


API = Api(
    key=0,
    name="Produce",
    min_version=0,
    max_version=9,
    flexible=9,
    handle=handle,
    request=Request,
    response=Response,
    read=produce_wire.read,
    write=produce_wire.write,
    max_request_bytes=MAX_REQUEST_BYTES,
)
