"""Identifies the request in a frame and calls its handler; large requests are decoded in a thread, a few at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from logging import DEBUG
from typing import Any, Final, cast

from bridge.apis import api_versions
from bridge.connection.parts import Refused
from bridge.connection.responses import InFlightRequest
from bridge.errors import KafkaError, Unanswered
from bridge.kafka import frames
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import DecodeError, TooManyElements
from bridge.requests import audit
from bridge.requests.api import MAX_CONTROL_BYTES, Api, Broker
from bridge.requests.rights import are_checked, checked
from bridge.requests.session import Session
from bridge.runtime.fairness import FairSemaphore
from bridge.runtime.futures import Rest, at_once, started
from bridge.telemetry import log

_log = log.get("bridge.connection.client")

NOT_YET: Final = object()
"""There is no result without waiting."""
LARGE_BYTES = 8 * 1024
"""Of names and numbers, not of records: decoding so many takes two milliseconds."""
MAX_CONCURRENT = 2
"""Large requests of one API."""
_PLACE_SECONDS: Final = 1.0
_MAX_SLOW_BYTES: Final = 256 * 1024
"""Of large requests that have no place any more. So many bytes can be as many objects as one request may have."""


class LargeRequestThreads:
    """Limits the large requests of each API that run at a time; connections take turns.

    Elements of two bytes make objects of a hundred, so only a few such requests are in memory. One that takes long goes
    on without its place: two that Pulsar leaves waiting hold up no others. But all that do so have few bytes.
    """

    def __init__(self, place_seconds: float = _PLACE_SECONDS) -> None:
        self._of: dict[int, FairSemaphore] = {}
        self._place_seconds = place_seconds
        self._slow_bytes = 0

    @asynccontextmanager
    async def place(self, api: Api, size: int) -> AsyncIterator[None]:
        """Of one API: slow requests of others do not hold it up."""
        places, loop = self._of.setdefault(api.key, FairSemaphore(MAX_CONCURRENT)), asyncio.get_running_loop()
        await places.acquire()
        is_slow = False
        timer = loop.call_later(self._place_seconds, lambda: leave())

        def leave() -> None:
            nonlocal is_slow, timer
            if self._slow_bytes + size > _MAX_SLOW_BYTES:
                timer = loop.call_later(self._place_seconds, leave)
                return
            is_slow = True
            self._slow_bytes += size
            places.release()

        try:
            yield
        finally:
            timer.cancel()
            if is_slow:
                self._slow_bytes -= size
            else:
                places.release()


def identify(request: InFlightRequest, broker: Broker, session: Session) -> None:
    """Read the header into `request` and the session; Refused if it breaks the protocol."""
    frame = cast(memoryview, request.body)
    if len(frame) < frames.MIN_FRAME:  # a log-in has shorter ones
        raise Refused("bad_header", size=len(frame))
    key, version, request.correlation_id = frames.parse_start(frame)
    login = session.login
    if login is not None and (reason := login.refusal(key, request.received)) is not None:
        raise Refused(reason, **_fields(request, key, version))
    api = broker.apis.get(key)
    if api is None:
        raise Refused("unknown_api", **_fields(request, key, version))
    if not api.serves(version):
        if key != api_versions.KEY:
            raise Refused("unsupported_version", **_fields(request, key, version))
        api, version = api_versions.REFUSAL, 0
    request.api, request.version = api, version
    if len(frame) > api.max_request_bytes:
        raise Refused("too_large", size=len(frame), **_fields(request, key, version))
    metrics = broker.metrics.api(key)
    metrics.requests.inc()
    metrics.bytes_in.inc(len(frame) + 4)
    session.traffic.requests += 1
    session.traffic.bytes_in += len(frame) + 4
    if _log.isEnabledFor(DEBUG):
        fields = _fields(request, key, version)
        _log.debug("< request", extra={**fields, "conn": session.id, "size": len(frame)})
    try:
        header = frames.parse_header(frame, api.is_flexible(version))
    except DecodeError as error:
        raise Refused("bad_header", error=error, **_fields(request, key, version)) from None
    session.client_id = header.client_id
    session.api_version = version
    session.received_at = request.received
    request.body = frame[header.body_offset :]


def _fields(request: InFlightRequest, key: int, version: int) -> dict[str, object]:
    return {"api": key, "version": version, "correlation_id": request.correlation_id}


def start(request: InFlightRequest, broker: Broker, session: Session) -> Any:
    """Begin what `perform` goes on with, where that needs no task: the result if there is nothing to wait for, else
    NOT_YET. Raises what `perform` raises."""
    api = request.api
    is_large = request.size > LARGE_BYTES and api.max_request_bytes <= MAX_CONTROL_BYTES
    if not api.at_once or is_large or are_checked(api, broker):
        return NOT_YET
    work = cast(Coroutine[Any, Any, Any], api.handle(_decode(request), broker, session))
    result = started(work)
    if isinstance(result, Rest):
        request.rest = result
        return NOT_YET
    return result


async def perform(
    request: InFlightRequest,
    broker: Broker,
    session: Session,
    large_requests: LargeRequestThreads,
    release: Callable[[int], None],
) -> Any:
    """The result of the API's handler, or its answer to a KafkaError of the whole request.

    Raises Refused if the body cannot be decoded, the KafkaError if the API has no answer, and what else the handler
    raises.

    `release` returns the bytes of a request that waits for others: other requests need them.
    """
    api = request.api
    if request.rest is not None:
        rest, request.rest = request.rest, None
        if api.waits:
            release_memory(request, release)
        return await rest
    if request.size <= LARGE_BYTES or api.max_request_bytes > MAX_CONTROL_BYTES:
        body = _decode(request)
    else:
        async with large_requests.place(api, request.size):
            if api.pure and not are_checked(api, broker):
                return await broker.cpu_thread.run(_perform, request, broker, session)
            body = await broker.cpu_thread.run(_decode, request)
            if not api.waits:
                return await _handle(api, body, broker, session, is_large=True)
    if api.waits:
        release_memory(request, release)
    return await _handle(api, body, broker, session)


def release_memory(request: InFlightRequest, release: Callable[[int], None]) -> None:
    """Return the bytes of a request that is decoded and waits."""
    size, request.size = request.size, 0
    release(size)


async def _handle(api: Api, body: Any, broker: Broker, session: Session, *, is_large: bool = False) -> Any:
    """By way of what checks its rights, and of the audit log; what is large and pure in a thread."""
    version = session.api_version
    try:
        if are_checked(api, broker):

            async def rest(body: Any) -> Any:
                if is_large and api.pure:
                    return await broker.cpu_thread.run(_run, api, body, broker, session)
                return await api.handle(body, broker, session)

            result = await checked(api, body, broker, session, rest)
        else:
            result = await api.handle(body, broker, session)
    except KafkaError as error:  # nothing was changed, so there is nothing to audit
        if is_large:
            return await broker.cpu_thread.run(_answer_to, error, api, body, version)
        return _answer_to(error, api, body, version)
    if api.audit is not None:
        audit.tell(api.audit(body, result), session)
    return result


def _answer_to(error: KafkaError, api: Api, body: Any, version: int) -> Any:
    """The API's answer to an error of the whole request; raises it where there is none."""
    answer = None if isinstance(error, Unanswered) else api.failure(body, error.code, error.message, version)
    if answer is None:
        raise error
    return answer


def _perform(request: InFlightRequest, broker: Broker, session: Session) -> Any:
    body = _decode(request)
    try:
        return _run(request.api, body, broker, session)
    except KafkaError as error:
        return _answer_to(error, request.api, body, request.version)


def _run(api: Api, body: Any, broker: Broker, session: Session) -> Any:
    result = at_once(cast(Coroutine[Any, Any, Any], api.handle(body, broker, session)))
    if result is None:
        raise RuntimeError(f"{api.name} is not pure: its handler waits")
    return result


def _decode(request: InFlightRequest) -> Any:
    body, request.body = cast(memoryview, request.body), None  # only the decoded request refers to it from now on
    try:
        return request.api.decode(body, request.version)
    except TooManyElements as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
    except DecodeError as error:
        fields = {"api": request.api.key, "version": request.version, "correlation_id": request.correlation_id}
        raise Refused("bad_body", error=error, **fields) from None
