"""What a connection in memory is made of: two directions, and the side that is not the bridge's."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.schedules.network import Network
    from tests.schedules.transport import MemoryTransport

END: Final = b""
"""What arrives when nothing more comes."""


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
        self._send(END)

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
        self.process = ""
        """Whose connection it is, where a scenario has several processes."""
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
        elif data == END:
            self.ended()
        elif not self.closed:
            assert self.transport is not None
            self.transport.pipe.free(len(data))
            self.received(data)
        elif self.process and not self.is_reset:
            self.reset()  # a broker has closed it, not one direction as a client may: TCP answers what still comes
