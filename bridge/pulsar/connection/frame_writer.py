"""What waits to be written to one transport: coalesced once per loop tick, bounded copies, and withdrawable."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

Buffer = bytes | bytearray | memoryview

# Parts below this are joined before they are written: a system call costs more than copying them.
_JOIN_BELOW_BYTES: Final = 64 * 1024
_MAX_JOINED_BYTES: Final = 256 * 1024
# asyncio copies what the kernel does not take at once (Python 3.11); what is held back here is not copied and can be
# withdrawn, so the transport gets little more than the kernel takes.
_HIGH_WATER_BYTES: Final = 256 * 1024
# About a millisecond. Without it a peer that reads as fast as we write would keep the event loop to itself.
_MAX_BYTES_PER_TICK: Final = 2 * 1024 * 1024


class FrameWriter:
    """Frames in the order of `write`; an owner can take its frames back until the transport has them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames: deque[tuple[object, object, Sequence[Buffer]]] = deque()  # owner, what it is to them, parts
        self._scheduled = False
        self._paused = False

    def attach(self, transport: asyncio.Transport) -> None:
        """Write to this transport from now on."""
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._transport = transport

    def write(self, frame: Sequence[Buffer], owner: object = None, item: object = None) -> None:
        """Have a frame, given in parts, written with whatever else this loop tick brings; `item` is its owner's."""
        self._frames.append((owner, item, frame))
        if not self._scheduled and not self._paused:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def withdraw(self, owner: object, only: object = None) -> list[object]:
        """Take back the owner's frames that are not on their way yet, or the one of this item; their items."""
        kept: deque[tuple[object, object, Sequence[Buffer]]] = deque()
        withdrawn: list[object] = []
        for frame in self._frames:
            if frame[0] is owner and only in (None, frame[1]):
                withdrawn.append(frame[1])
            else:
                kept.append(frame)
        self._frames = kept
        return withdrawn

    def clear(self) -> None:
        """Take back everything."""
        self._frames.clear()

    def pause(self) -> None:
        """The transport has enough."""
        self._paused = True

    def resume(self) -> None:
        """The transport has room again."""
        self._paused = False
        self.flush()

    def flush(self) -> None:
        """Write until the transport says stop, or others should have their turn."""
        self._scheduled = False
        transport = self._transport
        if transport is None:
            return
        small: list[Buffer] = []
        size = written = 0
        # Frames go to the transport whole: one cut in two could not be withdrawn.
        while self._frames and not self._paused and not transport.is_closing():
            if written >= _MAX_BYTES_PER_TICK:
                self._scheduled = True
                self._loop.call_soon(self.flush)
                break
            for part in self._frames.popleft()[2]:
                written += len(part)
                if len(part) >= _JOIN_BELOW_BYTES:
                    small, size = _write(transport, small)
                    transport.write(part)
                else:
                    small.append(part)
                    size += len(part)
            if size >= _MAX_JOINED_BYTES:
                small, size = _write(transport, small)
        _write(transport, small)


def _write(transport: asyncio.Transport, parts: list[Buffer]) -> tuple[list[Buffer], int]:
    if parts:
        transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
    return [], 0
