"""Connections in memory: what the loop's `create_connection` gives, with delays, cuts, resets and silence by seed.

A connection has the bridge on one side, as an asyncio transport with its protocol, and an `Endpoint` on the other: the
model broker, or a model Kafka client. Bytes come in order, cut anywhere, each piece after a delay of its own. What has
been written and not been taken is limited, as by the sockets' buffers: behind that the transport tells its protocol to
pause. All of it happens as in asyncio's own `_SelectorSocketTransport`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tests.schedules.chance import Chance
from tests.schedules.loop import PROCESS, ScheduleLoop
from tests.schedules.pipe import END, Endpoint
from tests.schedules.trace import Trace
from tests.schedules.transport import MemoryTransport

_ROOM: Final = (512, 16 * 1024, 256 * 1024, 256 * 1024)
_CUTS: Final = (0.0, 0.0, 0.05, 0.5)


def _connected(connected: "asyncio.Future[None]") -> None:
    if not connected.done():
        connected.set_result(None)


class Network:
    """All connections of a run, and who listens where."""

    def __init__(self, loop: ScheduleLoop, chance: Chance, trace: Trace) -> None:
        self.loop = loop
        self.chance = chance
        self.trace = trace
        self.room = chance.choice(_ROOM)
        self.cuts = chance.choice(_CUTS)
        self.open: dict[int, Endpoint] = {}
        self.cut_off: dict[str, list[asyncio.Future[None]]] = {}
        """The processes whose network is gone, and who waits there for a connection."""
        self._held: dict[str, list[Endpoint]] = {}
        """What such a process had open: also what it closes meanwhile, which arrives when the network is back."""
        self._lives: dict[str, asyncio.Future[None]] = {}
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
        process = PROCESS.get("")
        await self._joined(process)
        reached: asyncio.Future[Endpoint] = self.loop.create_future()
        self.loop.after(self.chance.delay("connect"), self._reach, (host, port), reached)
        try:
            endpoint = await reached
        except asyncio.CancelledError:
            if reached.done() and not reached.cancelled() and reached.exception() is None:
                self._hang_up(reached.result())
            raise
        endpoint.process = process
        connected: asyncio.Future[None] = self.loop.create_future()
        protocol = factory()
        transport = MemoryTransport(self, protocol, endpoint)
        transport.start(partial(_connected, connected))
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

    def of(self, process: str) -> list[Endpoint]:
        """The connections of a process."""
        return [endpoint for endpoint in self.open.values() if endpoint.process == process]

    def stop(self, process: str) -> None:
        """SIGSTOP: it takes nothing in; what it has sent still arrives."""
        self.loop.stop_process(process)
        for endpoint in self.of(process):
            endpoint.out.hold()

    def go_on(self, process: str) -> None:
        """SIGCONT."""
        self.loop.continue_process(process)
        for endpoint in self.of(process):
            endpoint.out.release()

    def cut(self, process: str) -> None:
        """Its network is gone: nothing arrives, either way, and connections take forever to be made."""
        self.cut_off.setdefault(process, [])
        self._held.setdefault(process, []).extend(self.of(process))
        for endpoint in self.of(process):
            assert endpoint.transport is not None
            endpoint.out.hold()
            endpoint.transport.pipe.hold()

    def join(self, process: str) -> None:
        """It is back; what was sent arrives."""
        for waiting in self.cut_off.pop(process, []):
            _connected(waiting)
        for endpoint in self._held.pop(process, ()):
            if endpoint.transport is not None:
                endpoint.transport.pipe.release()
            endpoint.out.release()

    async def reaches(self, process: str, seconds: float) -> bool:
        """Whether what it asks arrives: at once, or when it has a network again, if that and its life last so long."""
        if process not in self.cut_off:
            return True
        life = self._lives.setdefault(process, self.loop.create_future())
        joined: asyncio.Future[None] = self.loop.create_future()
        self.cut_off[process].append(joined)
        await asyncio.wait((life, joined), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return joined.done() and not life.done()

    def bury(self, process: str) -> None:
        """It was killed: it waits for nothing any more, and another one may have its name."""
        self.cut_off.pop(process, None)
        life = self._lives.pop(process, None)
        if life is not None:
            life.set_result(None)

    async def _joined(self, process: str) -> None:
        """Wait until this process has a network."""
        if process in self.cut_off:
            waiting: asyncio.Future[None] = self.loop.create_future()
            self.cut_off[process].append(waiting)
            await waiting

    def forget(self, endpoint: Endpoint) -> None:
        """The bridge has no part in this one any more."""
        self.open.pop(endpoint.number, None)

    def _hang_up(self, endpoint: Endpoint) -> None:
        """The connection that was just made is no longer wanted."""
        self.forget(endpoint)
        self.loop.after(self.chance.delay("to broker"), endpoint.arrived, END)

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
