"""The supervisor's process: takes the shared port, keeps the workers running, shows them on one HTTP port, drains them.

The shared port is one listening socket that all workers accept on, not one a worker (SO_REUSEPORT): the kernel shares
out connections among the sockets of the latter when they arrive, so what a hung worker got would wait for it, and what
a worker had not accepted when it closed would be reset. Here the worker that accepts next takes it, and while none
does, clients wait. SO_REUSEPORT's even shares are not needed: clients only learn the workers' own ports there.
"""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain

from bridge.config import Address, Settings
from bridge.errors import StartupError
from bridge.http.server import HttpServer
from bridge.http.status import pages
from bridge.net.listening import Sockets, open_listeners
from bridge.node.orphans import Guard
from bridge.node.starting import Starting
from bridge.node.workers.overview import Overview
from bridge.node.workers.plan import worker_settings
from bridge.node.workers.worker_process import COMMAND, WorkerProcess, start_all
from bridge.runtime.loop import process_count, run_async
from bridge.runtime.service_manager import READY, STOPPING, notify
from bridge.telemetry import log
from bridge.telemetry.metrics import Metrics

NODE_DRAIN_SECONDS = 10.0
"""How long a node's connections may take, after it has left its cluster (cluster.drain_seconds)."""
_SPARE_SECONDS = 2.0
_log = log.get(__name__)


def supervise(settings: Settings) -> int:
    """Run the workers that the settings ask for until SIGTERM or SIGINT."""
    run_async(run(settings))
    return 0


async def run(settings: Settings, command: Sequence[str] = COMMAND) -> None:
    """Start, serve, drain; StartupError if a worker cannot start at first. `command`: a worker's."""
    stop = asyncio.Event()
    supervisor = Supervisor(settings, command)

    def stop_requested() -> None:
        if stop.is_set():  # asked twice: at once
            supervisor.kill()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_requested)
    starting = asyncio.ensure_future(supervisor.start())
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            notify(READY)
            await stopping
            notify(STOPPING)
    finally:
        stopping.cancel()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await supervisor.stop()


class Supervisor:
    """The process that starts, watches and restarts all workers of one machine."""

    def __init__(self, settings: Settings, command: Sequence[str] = COMMAND) -> None:
        self.settings = settings
        self.workers: list[WorkerProcess] = []
        self._command = command
        self._sockets: Sockets = {}
        self._guard: Guard | None = None
        self._http: HttpServer | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def kafka_port(self) -> int:
        """The shared port of the first listener, once started."""
        return next(iter(self.ports.values()))

    @property
    def ports(self) -> dict[str, int]:
        """The shared ports by listener, once started."""
        return {name: int(sockets[0].getsockname()[1]) for name, sockets in self._sockets.items()}

    @property
    def http_port(self) -> int:
        """The port of metrics and health, once started."""
        return 0 if self._http is None else self._http.port

    @property
    def _drain_seconds(self) -> float:
        return self.settings.cluster.drain_seconds + NODE_DRAIN_SECONDS + _SPARE_SECONDS

    async def start(self) -> None:
        """Listen, start all workers, and wait until all serve; StartupError says what to fix."""
        count = process_count(self.settings.kafka.workers)
        self._sockets = open_listeners(self.settings)
        ports = self.ports
        shared = {one.name: Address(one.listen.host, ports[one.name]) for one in self.settings.listeners}
        plans = worker_settings(self.settings, count, shared)
        guard = self._guard = Guard(int(self._drain_seconds))
        self.workers = [
            WorkerProcess(index, plan, guard, self._sockets, self._command) for index, plan in enumerate(plans)
        ]
        metrics = Metrics()
        overview = Overview(self.workers, metrics)
        documents, status = {"/cluster": overview.cluster}, pages(overview.status)
        starting = Starting()
        self._http = HttpServer(
            self.settings.http,
            metrics,
            overview.checks(),
            documents,
            overview.metrics,
            status,
            start_problem=starting.problem,
        )
        await self._http.start()
        budget = plans[0].kafka.memory_budget_bytes
        where = ",".join(map(str, shared.values()))
        _log.info("= workers start", extra={"workers": count, "kafka": where, "request_bytes_each": budget})
        with starting.waiting_for(
            lambda: f"{sum(one.ready is None for one in self.workers)} of {count} workers to serve"
        ):
            await start_all(self.workers, self._tasks.append)
        starting.done()
        own = ",".join(str(port) for one in self.workers if one.ready is not None for port in one.ready.ports.values())
        _log.info("= all workers serve", extra={"kafka": where, "ports": own})

    async def stop(self) -> None:
        """Drain all workers side by side; those that take longer than a node may are killed."""
        if self._http is not None:
            self._http.draining = True
        for one in chain(*self._sockets.values()):  # the workers close theirs as they drain
            one.close()
        for worker in self.workers:
            worker.stop()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._drain_seconds)
            if late:
                _log.error("! workers drained by force", extra={"workers": len(late)})
                self.kill()
                await asyncio.wait(late)
            for task in self._tasks:
                with suppress(StartupError):
                    task.result()
        if self._http is not None:
            await self._http.stop()
        if self._guard is not None:
            await asyncio.to_thread(self._guard.close)
        _log.info("= supervisor stopped")

    def kill(self) -> None:
        """End all workers now."""
        for worker in self.workers:
            worker.kill()
