"""Connections in memory: what the loop's `create_connection` gives, with delays, cuts, resets and silence by seed.

A connection has the bridge on one side, as an asyncio transport with its protocol, and an `Endpoint` on the other: the
model broker, or a model Kafka client. Bytes come in order, cut anywhere, each piece after a delay of its own. What has
been written and not been taken is limited, as by the sockets' buffers: behind that the transport tells its protocol to
pause. All of it happens as in asyncio's own `_SelectorSocketTransport`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tests.schedules.chance import Chance
from tests.schedules.loop import ScheduleLoop
from tests.schedules.trace import Trace

_ROOM: Final = (512, 16 * 1024, 256 * 1024, 256 * 1024)
_CUTS: Final = (0.0, 0.0, 0.05, 0.5)
_END: Final = b""


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: "Network", kind: str, arrived: Callable[[bytes], None]) -> None:
        self._network = network
        self._chance = network.chance
        self._kind = kind
        self._arrived = arrived
        self._room = network.room
        self._cuts = network.cuts
        self._last_at = 0.0
        self._way: deque[bytes] = deque()
        self._held_from: float | None = None
        self.cut_off = False
        self.taken: Callable[[], None] = lambda: None
        """Called when there is room again."""

    @property
    def room(self) -> int:
        """How many bytes it takes now."""
        return self._room

    def push(self, data: bytes) -> None:
        """Send these bytes, which there must be room for."""
        self._room -= len(data)
        while len(data) > 1 and self._chance.often(self._cuts):
            at = self._chance.randint(1, min(len(data) - 1, 200))
            self._send(data[:at])
            data = data[at:]
        self._send(data)

    def end(self) -> None:
        """Nothing comes any more, once all is there."""
        self._send(_END)

    def free(self, count: int) -> None:
        """The receiver has taken so many bytes."""
        self._room += count
        self.taken()

    def hold(self) -> None:
        """From now on nothing arrives, until `release`."""
        if self._held_from is None:
            self._held_from = self._network.loop.now

    def release(self) -> None:
        """What was sent meanwhile arrives now."""
        if self._held_from is not None:
            self._held_from = None
            way, self._way = self._way, deque()
            for piece in way:
                self._arrive(piece)

    def drop(self) -> None:
        """Nothing of what is on its way arrives, nor anything that is sent from now on."""
        self.cut_off = True

    def _send(self, piece: bytes) -> None:
        now = self._network.loop.now
        self._last_at = max(self._last_at, now + self._chance.delay(self._kind))
        # a little apart: the order of what happens at the same moment is drawn
        self._last_at += 1e-9
        self._network.loop.after(self._last_at - now, self._arrive, piece)

    def _arrive(self, piece: bytes) -> None:
        if self.cut_off:
            return
        if self._held_from is not None:
            self._way.append(piece)
        else:
            self._arrived(piece)


class Endpoint:
    """The side that is not the bridge's. Nothing here runs in the bridge's event loop."""

    def __init__(self, network: "Network", number: int) -> None:
        self.number = number
        self.closed = False
        self.is_reset = False
        self.received: Callable[[bytes], None] = lambda data: None
        self.ended: Callable[[], None] = lambda: None
        """The bridge has closed its side, or the connection is gone."""
        self.transport: MemoryTransport | None = None
        self.out: Pipe
        self._network = network
        self._waiting: deque[bytes] = deque()
        self._ended = False
        self._frozen = False
        self._inbox: deque[bytes] = deque()

    def write(self, data: bytes) -> None:
        """Send; what the pipe has no room for waits here."""
        if self.closed:
            return
        self._waiting.append(data)
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        while self.transport is not None and self._waiting and self.out.room > 0:
            data = self._waiting.popleft()
            room = self.out.room
            self.out.push(data[:room])
            if len(data) > room:
                self._waiting.appendleft(data[room:])
        if self.closed and self.transport is not None and not self._waiting and not self._ended:
            self._ended = True
            self.out.end()

    def close(self) -> None:
        """Close in order: what was sent arrives, then the end."""
        self.closed = True
        self.flush()

    def reset(self) -> None:
        """Cut the connection: both sides lose what is on its way."""
        self.closed = self._ended = True
        self._waiting.clear()
        self.is_reset = True
        if self.transport is not None:
            self.transport.reset_by_peer()

    def freeze(self) -> None:
        """Take nothing in, as a stopped process; the sockets' buffers fill."""
        self._frozen = True

    def thaw(self) -> None:
        """Go on with what has come meanwhile."""
        self._frozen = False
        inbox, self._inbox = self._inbox, deque()
        for data in inbox:
            self.arrived(data)

    def arrived(self, data: bytes) -> None:
        """Bytes of the bridge have come, or their end."""
        if self._frozen:
            self._inbox.append(data)
        elif data == _END:
            self.ended()
        elif not self.closed:
            assert self.transport is not None
            self.transport.pipe.free(len(data))
            self.received(data)


class MemoryTransport(asyncio.Transport):
    """The bridge's side of a connection."""

    def __init__(self, network: "Network", protocol: asyncio.BufferedProtocol, endpoint: Endpoint) -> None:
        super().__init__({"peername": ("10.0.0.1", 10_000 + endpoint.number), "sockname": ("10.0.0.2", 9092)})
        self._network = network
        self._loop = network.loop
        self._protocol = protocol
        self._endpoint = endpoint
        self.pipe = Pipe(network, "to broker", endpoint.arrived)
        self.pipe.taken = self._has_room
        endpoint.out = Pipe(network, "to bridge", self._arrived)
        endpoint.out.taken = endpoint.flush
        self._buffer = bytearray()
        self._high, self._low = 64 * 1024, 16 * 1024
        self._protocol_paused = False
        self._inbox = bytearray()
        self._end_of_stream = False
        self._reading = False
        self._paused = False
        self._read_scheduled = False
        self._write_scheduled = False
        self._eof = False
        self._closing = False
        self._lost = False  # nothing is written any more
        self._told = False
        endpoint.transport = self
        endpoint.flush()
        if endpoint.is_reset:
            self.reset_by_peer()

    def start(self, connected: Callable[[], None]) -> None:
        """As asyncio does: the protocol is told first, then reading begins, then whoever connects."""
        self._loop.call_soon(self._protocol.connection_made, self)
        self._loop.call_soon(self._start_reading)
        self._loop.call_soon(connected)

    # --- for the protocol -------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send at once what there is room for; the rest waits."""
        if self._eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data or self._lost:
            return
        if not self._buffer and self.pipe.room > 0:
            room = self.pipe.room
            self.pipe.push(bytes(data[:room]))
            data = data[room:]
        self._buffer += data
        self._pause_or_resume()

    def write_eof(self) -> None:
        """Send nothing more, but go on reading."""
        if not (self._closing or self._eof):
            self._eof = True
            if not self._buffer:
                self.pipe.end()

    def can_write_eof(self) -> bool:
        """As sockets can."""
        return True

    def close(self) -> None:
        """Close when all is written."""
        if not self._closing:
            self._closing = True
            if not self._buffer:
                self._lost = True
                self._loop.call_soon(self._tell_lost, None)

    def abort(self) -> None:
        """Close at once."""
        self._force_close(None)

    def is_closing(self) -> bool:
        """Whether it is closed or about to be."""
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When the protocol is told to pause, and to go on."""
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low
        self._pause_or_resume()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait."""
        return len(self._buffer)

    def pause_reading(self) -> None:
        """Leave what comes where it is."""
        self._paused = True

    def resume_reading(self) -> None:
        """Take it again."""
        self._paused = False
        self._schedule_read()

    def is_reading(self) -> bool:
        """Whether what comes is handed over."""
        return not self._paused and not self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Not offered: nobody here changes it."""
        raise NotImplementedError

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol."""
        return self._protocol

    # --- the other side's doing -------------------------------------------------------------------------------------

    def reset_by_peer(self) -> None:
        """The connection is cut: what is on its way is lost, the next read fails."""
        self.pipe.drop()
        self._endpoint.out.drop()
        self._loop.after(self._network.chance.delay("to bridge"), self._reset_seen)

    def _reset_seen(self) -> None:
        self._loop.arrive(self._fail, ConnectionResetError(104, "Connection reset by peer"))

    def _arrived(self, data: bytes) -> None:
        if data == _END:
            self._end_of_stream = True
        else:
            self._inbox += data
        if self._reading and not self._paused and not self._read_scheduled and not self._closing:
            self._read_scheduled = True
            self._loop.arrive(self._read)

    def _has_room(self) -> None:
        if self._buffer and not self._write_scheduled:
            self._write_scheduled = True
            self._loop.arrive(self._write_more)

    # --- in the loop ------------------------------------------------------------------------------------------------

    def _start_reading(self) -> None:
        self._reading = True
        self._schedule_read()

    def _schedule_read(self) -> None:
        """There is something to read: the loop finds it when it asks next."""
        waiting = self._inbox or self._end_of_stream
        if waiting and self._reading and not self._paused and not self._read_scheduled and not self._closing:
            self._read_scheduled = True
            self._loop.after(0.0, self._loop.arrive, self._read)

    def _read(self) -> None:
        self._read_scheduled = False
        if self._closing or self._paused or self._lost:
            return
        if self._inbox:
            space = self._protocol.get_buffer(-1)
            count = min(len(space), len(self._inbox))
            memoryview(space)[:count] = self._inbox[:count]
            del self._inbox[:count]
            self._endpoint.out.free(count)
            self._protocol.buffer_updated(count)
            self._schedule_read()
        elif self._end_of_stream:
            self._end_of_stream = False
            if not self._protocol.eof_received():
                self.close()

    def _write_more(self) -> None:
        self._write_scheduled = False
        if self._lost:
            return
        count = min(self.pipe.room, len(self._buffer))
        if count > 0:
            self.pipe.push(bytes(self._buffer[:count]))
            del self._buffer[:count]
        self._pause_or_resume()
        if not self._buffer:
            if self._closing:
                self._lost = True
                self._tell_lost(None)
            elif self._eof:
                self.pipe.end()

    def _pause_or_resume(self) -> None:
        size = len(self._buffer)
        if size > self._high and not self._protocol_paused:
            self._protocol_paused = True
            self._protocol.pause_writing()
        elif size <= self._low and self._protocol_paused:
            self._protocol_paused = False
            self._protocol.resume_writing()

    def _fail(self, error: Exception) -> None:
        """A read fails, once what came before is read."""
        if self._inbox and self.is_reading():
            self._loop.after(0.0, self._loop.arrive, self._fail, error)
        else:
            self._force_close(error)

    def _force_close(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._buffer.clear()
        self._closing = self._lost = True
        self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: Exception | None) -> None:
        """The protocol is told, and the other side finds out later: what was sent before arrives first."""
        if not self._told:
            self._told = True
            self._network.forget(self._endpoint)
            self.pipe.end()
            self._endpoint.out.drop()
            self._protocol.connection_lost(error)


class Network:
    """All connections of a run, and who listens where."""

    def __init__(self, loop: ScheduleLoop, chance: Chance, trace: Trace) -> None:
        self.loop = loop
        self.chance = chance
        self.trace = trace
        self.room = chance.choice(_ROOM)
        self.cuts = chance.choice(_CUTS)
        self.open: dict[int, Endpoint] = {}
        self._numbers = 0
        self._listeners: dict[tuple[str, int], Callable[[Endpoint], None] | None] = {}
        loop.create_connection = self.connect  # type: ignore[method-assign, assignment]

    def listen(self, host: str, port: int, accept: Callable[[Endpoint], None] | None) -> None:
        """Take connections there from now on; None: refuse them."""
        self._listeners[host, port] = accept

    async def connect(
        self, factory: Callable[[], asyncio.BufferedProtocol], host: str, port: int, **_: Any
    ) -> tuple[MemoryTransport, asyncio.BufferedProtocol]:
        """What `loop.create_connection` does."""
        reached: asyncio.Future[Endpoint] = self.loop.create_future()
        self.loop.after(self.chance.delay("connect"), self._reach, (host, port), reached)
        try:
            endpoint = await reached
        except asyncio.CancelledError:
            if reached.done() and not reached.cancelled() and reached.exception() is None:
                self._hang_up(reached.result())
            raise
        connected: asyncio.Future[None] = self.loop.create_future()
        protocol = factory()
        transport = MemoryTransport(self, protocol, endpoint)
        transport.start(lambda: connected.done() or connected.set_result(None))
        try:
            await connected
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    def admit(self, factory: Callable[[], asyncio.BufferedProtocol]) -> Endpoint:
        """Connect to a server of the bridge, from outside."""
        endpoint = self._endpoint()

        def accepted() -> None:
            MemoryTransport(self, factory(), endpoint).start(lambda: None)

        self.loop.arrive(accepted)
        return endpoint

    def silence(self, endpoint: Endpoint, seconds: float) -> None:
        """Nothing arrives on this connection, either way, for so many seconds."""
        transport = endpoint.transport
        if transport is not None:
            for pipe in (transport.pipe, endpoint.out):
                pipe.hold()
                self.loop.after(seconds, pipe.release)

    def forget(self, endpoint: Endpoint) -> None:
        """The bridge has no part in this one any more."""
        self.open.pop(endpoint.number, None)

    def _hang_up(self, endpoint: Endpoint) -> None:
        """Nobody wants the connection any more that has just come about."""
        self.forget(endpoint)
        self.loop.after(self.chance.delay("to broker"), endpoint.arrived, _END)

    def _endpoint(self) -> Endpoint:
        self._numbers += 1
        endpoint = self.open[self._numbers] = Endpoint(self, self._numbers)
        return endpoint

    def _reach(self, address: tuple[str, int], reached: asyncio.Future[Endpoint]) -> None:
        accept = self._listeners.get(address)
        self.loop.arrive(self._reached, accept, reached)

    def _reached(self, accept: Callable[[Endpoint], None] | None, reached: asyncio.Future[Endpoint]) -> None:
        if reached.done():
            return
        if accept is None:
            reached.set_exception(ConnectionRefusedError(111, "Connection refused"))
            return
        endpoint = self._endpoint()
        accept(endpoint)
        reached.set_result(endpoint)
