"""One worker as its supervisor sees it: started, started again when it dies or hangs, stopped."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain

from bridge.config import Address, Settings
from bridge.errors import StartupError
from bridge.net.listening import Sockets
from bridge.node.orphans import Guard
from bridge.node.workers.control import Ready, WorkerOrder, decode_ready, encode
from bridge.node.workers.http_get import get
from bridge.node.workers.restarts import WorkerRestarts
from bridge.telemetry import log

COMMAND = (sys.executable, *(["-P"] if sys.flags.safe_path else []), "-m", "bridge.node.workers.worker")
PROBE_EVERY_SECONDS = 10.0
PROBE_SECONDS = 5.0
MAX_FAILED_PROBES = 3
_END_SECONDS = 5.0
_log = log.get(__name__)


class WorkerProcess:
    """Keeps one worker running until it is stopped."""

    def __init__(
        self,
        index: int,
        settings: Settings,
        guard: Guard,
        shared: Sockets,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.index = index
        self.settings = settings
        self.ready: Ready | None = None
        """Its ports, while it serves."""
        self.restarts = WorkerRestarts()
        self.state = "starts"
        self._command = command
        self._guard = guard
        self._shared = shared
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = asyncio.Event()
        self._first = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int | None:
        """Its process id, while it runs."""
        return None if self._process is None else self._process.pid

    async def first_ready(self) -> None:
        """Wait until it serves for the first time; StartupError if it cannot."""
        await asyncio.shield(self._first)

    async def run(self) -> None:
        """Until `stop`."""
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            how = await self._live()
            if self._stopping.is_set():
                break
            if not self._first.done():  # as one process would: what starts the supervisor decides what to do
                self._first.set_exception(StartupError(f"worker {self.index} {how} while starting; its log says why"))
                return
            pause = self.restarts.died(loop.time())
            self.state = f"{how}; it is started again" + (f" after {pause:.0f} s" if pause else "")
            fields = {"index": self.index, "how": how, "pause": pause, "restarts": self.restarts.count}
            _log.error("! worker died", extra=fields)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
        if not self._first.done():
            self._first.cancel()

    def stop(self) -> None:
        """Let it drain, and start no other."""
        self._stopping.set()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it now."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:  # not reaped yet, so the number is its own
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number) if number == signal.SIGKILL else self._process.send_signal(number)

    async def _live(self) -> str:
        """One process, from its start to its end; how it ended."""
        try:
            ours, self._process = self._start()
        except OSError as error:  # no process, descriptor or memory to be had now
            return f"cannot be started: {error.strerror or error}"
        try:
            probing = asyncio.ensure_future(self._probe())
            try:
                await self._listen(ours)
            finally:
                probing.cancel()
                self.ready = None
            return await self._reap(self._process)
        finally:
            ours.close()
            self._process = None

    def _start(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        """Its control socket's end here, and the process."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        descriptors = [theirs.fileno(), *chain(*self._descriptors().values())]
        command = [*self._command, str(theirs.fileno())]
        try:
            with theirs, open(2, "wb", closefd=False) as log_output:  # ours
                return ours, self._guard.popen(command, output=log_output, keep_open=descriptors)
        except OSError:
            ours.close()
            raise

    def _descriptors(self) -> dict[str, list[int]]:
        """Of the shared sockets, by listener."""
        return {name: [one.fileno() for one in sockets] for name, sockets in self._shared.items()}

    async def _listen(self, control: socket.socket) -> None:
        """Tell it what to do, learn its ports, and wait for its end."""
        loop = asyncio.get_running_loop()
        order = WorkerOrder(self.index, self.settings.to_toml(), self._descriptors())
        received = b""
        with suppress(OSError):  # reset: it ended with something unread
            await loop.sock_sendall(control, encode(order))
            while part := await loop.sock_recv(control, 4096):
                received += part
                if self.ready is None:
                    self._heard(decode_ready(received))

    def _heard(self, ready: Ready | None) -> None:
        if ready is None:
            return
        self.ready = ready
        self.state = "serves"
        # whatever ports it got are its own from now on: clients know them
        own = {}
        for listener in self.settings.listeners:
            port = ready.ports[listener.name]
            own[listener.name] = Address(listener.listen.host, port), Address(listener.told(port).host, port)
        self.settings = self.settings.with_listeners(own)
        ports = ",".join(map(str, ready.ports.values()))
        _log.info("= worker serves", extra={"index": self.index, "pid": self.pid, "kafka": ports})
        if not self._first.done():
            self._first.set_result(None)

    async def _probe(self) -> None:
        """A worker that lives but whose event loop does not turn is killed, as an orchestrator would by /healthz."""
        failed = 0
        while failed < MAX_FAILED_PROBES:
            await asyncio.sleep(PROBE_EVERY_SECONDS)
            if self.ready is None:
                continue
            try:
                healthy = (await get(self.ready.http, "/healthz", PROBE_SECONDS)).status == 200
            except OSError:
                healthy = False
            failed = 0 if healthy else failed + 1
        if not self._stopping.is_set():
            _log.error("! worker hangs, killed", extra={"index": self.index, "pid": self.pid, "probes": failed})
            self.kill()

    async def _reap(self, process: subprocess.Popen[bytes]) -> str:
        """It has closed its socket: it is ending, or is made to."""
        try:
            code = await asyncio.to_thread(process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = await asyncio.to_thread(process.wait)
        self._guard.forget(process.pid)
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"


async def start_all(workers: Sequence[WorkerProcess], done: Callable[[asyncio.Task[None]], None]) -> None:
    """Run them and wait until all serve; StartupError of the first that cannot. `done`: told of each task."""
    for worker in workers:
        done(asyncio.create_task(worker.run(), name=f"worker {worker.index}"))
    await asyncio.gather(*(worker.first_ready() for worker in workers))
