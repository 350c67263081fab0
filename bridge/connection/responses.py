"""Responses on their way out: a request and its response, how it is encoded, and what waits for the socket."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, cast

from bridge.apis import api_versions
from bridge.connection.draining import THROTTLE_MS
from bridge.kafka import frames, message
from bridge.kafka.primitives import Buffer
from bridge.requests.api import Api
from bridge.requests.responses import Brief, error_codes
from bridge.runtime.futures import Rest
from bridge.telemetry.instruments import Gauge

HIGH_WATER = 1024 * 1024
"""Bytes the transport may hold before the client counts as not reading."""
SLICE = 256 * 1024
"""Bytes handed to the transport at a time: it copies what the socket does not take."""
MAX_WRITE_BYTES = 2 * 1024 * 1024
"""Handed over before the event loop runs others, though the client keeps up: a millisecond."""
JOINED = 64 * 1024
"""Smaller buffers are joined up to this size: a copy costs less than a system call."""
LONG = 1000
"""Elements of a response above which a thread encodes it: two milliseconds."""


class EncodedResponse(NamedTuple):
    """A response as it is written."""

    buffers: Sequence[Buffer]
    codes: Sequence[int]
    """The error codes in it."""


class InFlightRequest:
    """A request that runs or is answered, in its place in the order of responses."""

    __slots__ = (
        "api", "begun", "body", "correlation_id", "cut_short", "future", "make", "received", "response", "rest",
        "size", "version",
    )  # fmt: skip

    def __init__(self, frame: memoryview, received: float) -> None:
        self.api: Api = api_versions.REFUSAL  # until its header is read
        self.version = 0
        self.correlation_id = 0
        self.begun = False  # its header is read, and its quotas are counted
        self.cut_short = False  # a long poll that is to be answered now
        self.body: memoryview | None = frame  # with the header, then without it, None once it is decoded
        self.rest: Rest[Any] | None = None  # of its handler, which has begun at once and waits
        self.size = len(frame)  # what the budget counts for it
        self.received = received
        self.response: Sequence[Buffer] | None = None  # once it is answered; empty: it gets no response
        self.future: asyncio.Future[Any] | None = None
        self.make: Callable[[Any], Any] | None = None  # makes the response of the result of `future`

    def cancel(self) -> None:
        """What is waited for is not wanted any more."""
        if self.future is not None:
            self.future.cancel()


class Answered(Protocol):
    """A request, as far as its answer depends on it."""

    @property
    def api(self) -> Api:
        """Its API."""

    @property
    def version(self) -> int:
        """Of the API."""

    @property
    def correlation_id(self) -> int:
        """Of the request."""


def encode(request: Answered, response: Any, *, pausing: bool) -> EncodedResponse:
    """Encode a response, which asks for a pause if its connection is draining; EncodeError."""
    if pausing and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = THROTTLE_MS
    api, version = request.api, request.version
    body = api.encode(response, version)
    answer = frames.response(api.key, request.correlation_id, api.is_flexible(version), body)
    return EncodedResponse(answer, () if isinstance(response, Brief) else list(error_codes(response)))


def is_long(response: Any) -> bool:
    """Whether encoding the response would hold the event loop for long."""
    return not isinstance(response, Brief) and _left(response, LONG) < 0


def _left(value: Any, left: int) -> int:
    """`left` less the elements of the value; stops counting below zero."""
    for name, nested in message.arrays_of(cast(type, type(value))):
        elements = getattr(value, name) or ()
        left -= len(elements)
        if nested:
            for element in elements:
                if left < 0:
                    break
                left = _left(element, left)
    return left


class PendingResponseBytes:
    """Counts the bytes of all responses that are read from Pulsar, or that clients have not read yet.

    No request waits for them, or slow consumers would stop producers. Instead a fetch reads less.
    """

    __slots__ = ("_gauge", "_held", "_limit")

    def __init__(self, limit: int, gauge: Gauge) -> None:
        self._limit = limit
        self._gauge = gauge
        self._held = 0

    def remaining(self) -> int:
        """Bytes that a response may have now, if it can have fewer."""
        return max(self._limit - self._held, 0)

    def add(self, count: int) -> None:
        """Count so many more; negative, fewer."""
        self._held += count
        self._gauge.value = self._held


class ResponseWriter:
    """Hands buffers to the transport only as fast as the client reads; the rest stays where it is, not copied."""

    __slots__ = (
        "_buffers",
        "_closed",
        "_scheduled",
        "_size",
        "_transport",
        "_waiting",
        "_written",
        "writable",
        "written_at",
    )

    def __init__(
        self, transport: asyncio.Transport, waiting: PendingResponseBytes, written: Callable[[], None]
    ) -> None:
        """`written` is called when all is handed over in a later iteration of the event loop."""
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._transport = transport
        self._waiting = waiting
        self._written = written
        self._scheduled = False  # in the event loop's next iteration
        self._buffers: deque[Buffer] = deque()
        self._size = 0  # bytes counted as pending: of the buffers, and of the transport when it is full
        self._closed = False
        self.writable = True
        self.written_at = 0.0
        """When something was last handed over, or the client read on."""

    def __bool__(self) -> bool:
        return bool(self._buffers)

    def put(self, buffers: Sequence[Buffer]) -> None:
        """Queue a response."""
        if not self._closed:
            self._buffers.extend(buffers)

    def pause(self) -> None:
        """The transport holds enough."""
        self.writable = False
        self._count()

    def resume(self, now: float) -> None:
        """The transport takes more."""
        self.written_at = now
        self.writable = True
        self.write()

    def close(self) -> None:
        """Write no more: the socket is closing or gone."""
        self._closed = True
        self._buffers.clear()
        self._count()

    def write(self) -> None:
        """Hand over as much as the transport takes; it may call `pause` meanwhile."""
        buffers = self._buffers
        if len(buffers) == 1 and len(buffers[0]) <= SLICE and self.writable and not (self._scheduled or self._size):
            self._transport.write(buffers.popleft())  # as below, for nearly all
            return
        left = 0 if self._scheduled else MAX_WRITE_BYTES
        while buffers and self.writable:
            if left <= 0:
                self._schedule()
                break
            buffer = buffers.popleft()
            if len(buffer) > SLICE:
                view = memoryview(buffer)
                buffers.appendleft(view[SLICE:])
                buffer = view[:SLICE]
            elif buffers and len(buffer) + len(buffers[0]) <= JOINED:
                buffer = bytearray(buffer)
                while buffers and len(buffer) + len(buffers[0]) <= JOINED:
                    buffer += buffers.popleft()
            left -= len(buffer)
            self._transport.write(buffer)
        if buffers or self._size:
            self._count()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._continue)

    def _continue(self) -> None:
        self._scheduled = False
        self.write()
        if not self._buffers:
            self._written()

    def _count(self) -> None:
        size = sum(map(len, self._buffers))
        if not self.writable and not self._closed:
            size += HIGH_WATER
        if size != self._size:
            self._waiting.add(size - self._size)
            self._size = size
