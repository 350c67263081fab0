"""Reads a request out of its frame: which API and version it is of, and its message."""

from logging import DEBUG
from typing import Any

from bridge import log
from bridge.api import Broker, Session
from bridge.apis import api_versions
from bridge.connection.answers import Started
from bridge.connection.parts import Refused
from bridge.kafka import frames
from bridge.kafka.primitives import DecodeError

_log = log.get("bridge.connection.client")


def read_request(frame: memoryview, started: Started, broker: Broker, session: Session) -> Any:
    """The request; `started` learns what it is. Refused where it breaks the protocol."""
    key, version, started.correlation_id = frames.parse_start(frame)
    fields = {"api": key, "version": version, "correlation_id": started.correlation_id}
    api = broker.apis.get(key)
    if api is None:
        raise Refused("unknown_api", **fields)
    if not api.serves(version):
        if key != api_versions.KEY:
            raise Refused("unsupported_version", **fields)
        api, version = api_versions.REFUSAL, 0
    started.api, started.version = api, version
    if len(frame) > api.max_request_bytes:
        raise Refused("too_large", size=len(frame), **fields)
    metrics = broker.metrics.api(key)
    metrics.requests.inc()
    metrics.bytes_in.inc(len(frame) + 4)
    if _log.isEnabledFor(DEBUG):
        _log.debug("< request", extra={**fields, "conn": session.id, "size": len(frame)})
    reason = "bad_header"
    try:
        header = frames.parse_header(frame, api.is_flexible(version))
        session.client_id = header.client_id
        session.api_version = version
        session.received_at = started.received
        reason = "bad_body"
        return api.decode(frame[header.body_offset :], version)
    except DecodeError as error:
        raise Refused(reason, error=error, **fields) from None
