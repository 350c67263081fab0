"""The bridge's side of a connection in memory: an asyncio transport that behaves as `_SelectorSocketTransport`."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING

from tests.schedules.pipe import END, Endpoint, Pipe

if TYPE_CHECKING:
    from tests.schedules.network import Network


class MemoryTransport(asyncio.Transport):
    """The bridge's side of a connection."""

    def __init__(self, network: "Network", protocol: asyncio.BufferedProtocol, endpoint: Endpoint) -> None:
        super().__init__({"peername": ("10.0.0.1", 10_000 + endpoint.number), "sockname": ("10.0.0.2", 9092)})
        self.context = copy_context()
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
        self.taken = 0
        """How many bytes the protocol has been given."""
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
        """As asyncio does: the protocol is told first, then reading begins, then the caller that connects."""
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
        """Not supported: no code here changes it."""
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

    def die(self) -> None:
        """Its process is killed: what the kernel has of it still arrives, then the end."""
        self._endpoint.process = ""
        self._force_close(ConnectionResetError(104, "Connection reset by peer"))

    def _reset_seen(self) -> None:
        self._loop.arrive(self._fail, ConnectionResetError(104, "Connection reset by peer"))

    def _arrived(self, data: bytes) -> None:
        if data == END:
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
            space = memoryview(self._protocol.get_buffer(-1))
            count = min(len(space), len(self._inbox))
            space[:count] = self._inbox[:count]
            del self._inbox[:count]
            self.taken += count
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
