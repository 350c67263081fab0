"""Fetch: read record batches of partitions from given offsets on, waiting for new ones.

v4 brings record batches of magic 2, the isolation level and aborted transactions; v5 log start offsets; v7 fetch
sessions (KIP-227; session id 0 in the answer declines them); v9 leader epochs; v10 allows zstd (KIP-110); v11 racks
(KIP-392); v12 is flexible. v13 would name topics by their ids.
"""

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka import fetch_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_wire import Request, Response


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse, for now."""
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # the lead fills this in


API = Api(
    key=1,
    name="Fetch",
    min_version=4,
    max_version=12,
    flexible=12,
    handle=handle,
    request=Request,
    response=Response,
    read=fetch_wire.read,
    write=fetch_wire.write,
    abandon=True,
)
