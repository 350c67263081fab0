"""Bridges for the tests: one in a thread of this process, or a real child process."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from bridge.config import Settings
from bridge.node.orphans import Guard
from bridge.standalone.bridge_process import BridgeProcess
from bridge.standalone.ports import HOST, any_free
from tests.support.pulsar import PulsarAddress

if TYPE_CHECKING:
    from bridge.node.server import Server

Result = TypeVar("Result")
Overrides = Mapping[str, Mapping[str, Any]]
_DRAIN_SECONDS = 5.0
_CALL_SECONDS = 60.0


def settings_for(pulsar: PulsarAddress, namespace: str, overrides: Overrides | None = None, port: int = 0) -> Settings:
    """The defaults, on this Pulsar and namespace, with free ports; then what the test wants."""
    tenant, _, name = namespace.partition("/")
    base = Settings().with_values(
        kafka={"listen": f"{HOST}:{port}"},
        http={"listen": f"{HOST}:0"},
        pulsar={
            "service_url": pulsar.service_url, "admin_url": pulsar.admin_url, "tenant": tenant, "namespace": name,
            "trust_state_namespace": True,  # tests alone reach it
        },
    )  # fmt: skip
    return base.with_values(**(overrides or {}))


_CLOCK = time.monotonic
"""The real one, also while a test in this process goes by a clock of its own (tests/schedules)."""


class BridgeThread:
    """A `Server` on an event loop in a thread of its own, so that blocking clients can be used beside it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.namespace = settings.pulsar.full_namespace
        self.pulsar = settings.pulsar.service_url
        self.admin = settings.pulsar.admin_url
        self._loop = asyncio.new_event_loop()
        self._loop.time = _CLOCK  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._loop.run_forever, name="bridge", daemon=True)
        self.server: Server

    @property
    def node_id(self) -> int:
        """Its broker id."""
        assert self.server.cluster is not None
        return self.server.cluster.node_id

    @property
    def kafka(self) -> str:
        """The bootstrap address."""
        return f"{HOST}:{self.server.kafka_port}"

    @property
    def http(self) -> str:
        """The metrics server's base URL."""
        return f"http://{HOST}:{self.server.http_port}"

    def start(self) -> None:
        """Start the server; what it raises is raised here."""
        from bridge.node.server import Server

        self._thread.start()
        try:
            self.server = Server(self.settings)
            self.call(self.server.start())
        except BaseException:
            self._end_loop()
            raise

    def stop(self) -> None:
        """Drain and stop; nothing where it has stopped."""
        if self._loop.is_closed():
            return
        try:
            self.call(self.server.stop(_DRAIN_SECONDS))
        finally:
            self._end_loop()

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run something on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_SECONDS)

    def _end_loop(self) -> None:
        self.call(_turns())  # what was closed last is closed in the next ones
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_SECONDS)
        with contextlib.suppress(RuntimeError):  # still running: the failure that led here says more
            self._loop.close()


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class BridgeChild:
    """A `bridge run` of its own, with a pid to kill."""

    def __init__(self, settings: Settings, directory: Path, guard: Guard) -> None:
        port = any_free()
        settings = settings.with_values(
            kafka={"listen": f"{HOST}:{port}"}, http={"listen": f"{HOST}:{any_free({port})}"}
        )
        self.settings = settings
        self.namespace = settings.pulsar.full_namespace
        self.pulsar = settings.pulsar.service_url
        self.admin = settings.pulsar.admin_url
        self.kafka = settings.kafka.listen
        self.http = f"http://{settings.http.listen}"
        self.process = BridgeProcess(settings, directory, guard)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def __enter__(self) -> Self:
        """Start it; it stops at the end, and is killed where something failed."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.stop()
        finally:
            self.kill()

    def start(self) -> None:
        """Start it (again) and wait until it is ready."""
        self.process.start()

    def stop(self) -> None:
        """SIGTERM, and wait; AssertionError when it had to be killed."""
        assert self.process.stop(), f"the bridge did not drain:\n{self.process.last_lines(40)}"

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()


@contextlib.contextmanager
def started_nodes(settings: Settings, count: int = 2) -> Iterator[list[BridgeThread]]:
    """So many nodes of one cluster in this process, stopped at the end."""
    with contextlib.ExitStack() as stack:
        nodes = []
        for _ in range(count):
            nodes.append(node := BridgeThread(settings))
            stack.callback(node.stop)
            node.start()
        yield nodes


def started_children(
    pulsar: PulsarAddress, namespace: str, guard: Guard, directory: Path
) -> Iterator[Callable[..., BridgeChild]]:
    """What a fixture gives to start any number of bridges on one namespace; they are killed after the test."""
    children: list[BridgeChild] = []

    def start(**overrides: Overrides) -> BridgeChild:
        child = BridgeChild(settings_for(pulsar, namespace, overrides), directory / f"bridge-{len(children)}", guard)
        children.append(child)
        child.start()
        return child

    yield start
    for child in children:
        child.kill()
