"""Responses on their way out: a request and its response, how it is encoded, and what waits for the socket."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from bridge.api import Api, error_codes
from bridge.apis import api_versions
from bridge.connection.budget import Gauge
from bridge.connection.draining import THROTTLE_MS
from bridge.kafka import frames, message
from bridge.kafka.primitives import Buffer

HIGH_WATER = 1024 * 1024
"""Bytes the transport may hold before the client counts as not reading."""
SLICE = 256 * 1024
"""What is handed to the transport at once: it copies what the socket does not take."""
AT_ONCE = 2 * 1024 * 1024
"""What is handed over before others have their turn, though the client keeps up: a millisecond."""
JOINED = 64 * 1024
"""Smaller buffers are joined up to this size: a copy costs less than a system call."""
LONG = 1000
"""Elements of an answer from which on a thread writes it: two milliseconds."""


class EncodedResponse(NamedTuple):
    """An answer as it goes out."""

    buffers: Sequence[Buffer]
    codes: Sequence[int]
    """The errors that it tells."""


class InFlightRequest:
    """A request that is under way or answered, in its place in the order of answers."""

    __slots__ = ("api", "body", "correlation_id", "future", "make", "received", "response", "size", "version")

    def __init__(self, frame: memoryview, received: float) -> None:
        self.api: Api = api_versions.REFUSAL  # until its header is read
        self.version = 0
        self.correlation_id = 0
        self.body: memoryview | None = frame  # from the header on, and then without it, until it is not needed
        self.size = len(frame)  # what counts of it
        self.received = received
        self.response: Sequence[Buffer] | None = None  # once it is answered; empty: it gets no response
        self.future: asyncio.Future[Any] | None = None
        self.make: Callable[[Any], Any] | None = None  # of its result, the answer


def encode(request: InFlightRequest, response: Any, *, pausing: bool) -> EncodedResponse:
    """Write an answer, which asks for a pause where its connection is to end; EncodeError."""
    if pausing and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = THROTTLE_MS
    api, version = request.api, request.version
    body = api.encode(response, version)
    answer = frames.response(api.key, request.correlation_id, api.is_flexible(version), body)
    return EncodedResponse(answer, list(error_codes(response)))


def is_long(response: Any) -> bool:
    """Whether writing the answer would keep the event loop for long."""
    return _left(response, LONG) < 0


def _left(value: Any, left: int) -> int:
    """What is left of so many elements; counts no further than below zero."""
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
    """Counts the bytes of all answers that are read from Pulsar, or that clients have not taken yet.

    No request waits for them, or slow consumers would stop producers: what is read for a fetch gets smaller.
    """

    __slots__ = ("_gauge", "_held", "_limit")

    def __init__(self, limit: int, gauge: Gauge) -> None:
        self._limit = limit
        self._gauge = gauge
        self._held = 0

    def remaining(self) -> int:
        """Bytes that an answer may have now, if it can have fewer."""
        return max(self._limit - self._held, 0)

    def add(self, count: int) -> None:
        """So many more wait, or fewer."""
        self._held += count
        self._gauge.set(self._held)


class ResponseWriter:
    """Hands buffers to the transport only as fast as the client reads; the rest stays where it is, not copied."""

    __slots__ = (
        "_buffers",
        "_closed",
        "_going_on",
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
        """`written` is called when all has been handed over after a turn of others."""
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._transport = transport
        self._waiting = waiting
        self._written = written
        self._going_on = False  # in the event loop's next turn
        self._buffers: deque[Buffer] = deque()
        self._size = 0  # what is counted as waiting: of the buffers, and of the transport's own when it is full
        self._closed = False
        self.writable = True
        self.written_at = 0.0
        """When something was last handed over, or the client read on."""

    def __bool__(self) -> bool:
        return bool(self._buffers)

    def put(self, buffers: Sequence[Buffer]) -> None:
        """Queue an answer."""
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
        """Hand over as much as the transport takes; it calls `pause` in the midst of it."""
        buffers = self._buffers
        left = 0 if self._going_on else AT_ONCE
        while buffers and self.writable:
            if left <= 0:
                self._go_on_later()
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

    def _go_on_later(self) -> None:
        if not self._going_on:
            self._going_on = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._going_on = False
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
