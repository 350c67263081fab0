"""Several bridges that are one Kafka cluster: child processes with names and ports of their own, and their faults."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bridge.config import Address, Settings
from bridge.node.orphans import Guard
from bridge.standalone import probe
from bridge.standalone.bridge_process import BridgeProcess
from bridge.standalone.ports import HOST, any_free
from tests.support.bridges import Overrides, settings_for
from tests.support.freezing import frozen
from tests.support.pulsar import PulsarAddress
from tests.support.relay import Relay


def stable_ports(count: int) -> list[int]:
    """Free ports that the kernel gives to no connection: a node that is down finds its own free when it comes back."""
    return [any_free() for _ in range(count)]


def listener(number: int) -> str:
    """The name under which the broker tells a node of its relay."""
    return f"node{number}"


def listeners(pulsar_port: int, relay_ports: Sequence[int]) -> dict[str, str]:
    """A broker's settings with which it names to each node the relay that stands before it (`advertisedListeners`)."""
    named = {"internal": pulsar_port} | {listener(number): port for number, port in enumerate(relay_ports)}
    told = ",".join(f"{name}:pulsar://{HOST}:{port}" for name, port in named.items())
    return {"advertisedListeners": told, "internalListenerName": "internal"}


class Node:
    """One bridge of the cluster."""

    def __init__(self, name: str, settings: Settings, directory: Path, guard: Guard, clients: Relay | None) -> None:
        self.name = name
        self.settings = settings
        self.kafka = settings.kafka.advertised or settings.kafka.listen
        self.http = settings.http.listen
        self.process = BridgeProcess(settings, directory, guard)
        self.clients = clients
        """The relay before it, if there is one."""
        self.pulsar: Relay | None = None
        """The relay between it and Pulsar, if there is one."""

    def relay(self, side: str) -> Relay:
        """The one between it and its "clients", or between it and "pulsar"."""
        found = {"clients": self.clients, "pulsar": self.pulsar}[side]
        assert found is not None, "this cluster has no relays"
        return found

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self.process.child.running

    def start(self) -> None:
        """Start it (again) and wait until it is ready."""
        self.process.start()

    def stop(self) -> None:
        """SIGTERM, and wait; AssertionError when it had to be killed."""
        assert self.process.stop(), f"{self.name} did not drain:\n{self.process.last_lines(40)}"

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()

    def frozen(self) -> AbstractContextManager[None]:
        """SIGSTOP, and SIGCONT at the end."""
        return frozen(self.process.pid)

    @contextmanager
    def without_pulsar(self, *, half_open: bool = True) -> Iterator[None]:
        """Cut off from Pulsar: silence, or every connection reset."""
        with _cut(self.relay("pulsar"), half_open):
            yield

    @contextmanager
    def without_clients(self, *, half_open: bool = True) -> Iterator[None]:
        """Cut off from clients: silence, or every connection reset."""
        with _cut(self.relay("clients"), half_open):
            yield

    def logged(self, event: str) -> list[str]:
        """The lines of its log with an event, of its present life and the one before."""
        found: list[str] = []
        output = self.process.child.output
        for path in (output.with_name(output.name + ".1"), output):
            if path.exists():
                found += [line for line in path.read_text(errors="replace").splitlines() if event in line]
        return found


@contextmanager
def _cut(relay: Relay, half_open: bool) -> Iterator[None]:
    if half_open:
        relay.hold()
    else:
        relay.cut()
    try:
        yield
    finally:
        relay.heal()


def wait_for_view(nodes: Sequence[Node], holds: Callable[[list[tuple[int, int]]], bool], seconds: float = 30.0) -> None:
    """Wait until all of them go by one view, in which they are members and this is true.

    `holds`: of how many slots of partitions and of groups each member has.
    """
    deadline = time.monotonic() + seconds
    while not ((held := _held(nodes)) and holds(held)):
        assert time.monotonic() < deadline, f"the nodes go by no such view: {held}"
        time.sleep(0.1)


def _held(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """What each member has; nothing while a node does not know the view of the others."""
    answers = [probe.get(Address.parse(node.http).port, "/cluster") for node in nodes]
    if any(status != 200 for status, _ in answers):
        return []
    views = [json.loads(body) for _, body in answers]
    held = [(member["slots_led"], member["group_slots_held"]) for member in views[0]["members"]]
    return held if len(held) == len(nodes) and len({view["version"] for view in views}) == 1 else []


def is_shared(counts: Iterable[int]) -> bool:
    """Whether each has its share."""
    found = list(counts)
    return max(found) - min(found) <= 1


class Nodes:
    """A Kafka cluster of bridges on one namespace of one Pulsar."""

    def __init__(
        self,
        pulsar: PulsarAddress,
        namespace: str,
        guard: Guard,
        directory: Path,
        count: int = 3,
        *,
        relays: Sequence[int] = (),
        overrides: Overrides | None = None,
        racks: Sequence[str] = (),
        linked: bool = True,
        seed: int = 0,
    ) -> None:
        """`relays`: the ports of relays to Pulsar that the broker names to its listeners; each node then has two.

        `racks`: each node's; `linked`: whether the nodes can ask each other, for transactions of protocol 2.
        """
        self.random = random.Random(seed)
        self.namespace = namespace
        self.pulsar = pulsar
        self._relays: list[Relay] = []
        ports = stable_ports(2 * count)
        self.all: list[Node] = []
        for number in range(count):
            settings = settings_for(pulsar, namespace, overrides).with_values(
                kafka={"listen": f"{HOST}:{ports[2 * number]}", "rack": racks[number] if racks else ""},
                http={"listen": f"{HOST}:{ports[2 * number + 1]}"},
                cluster={"name": f"node-{number}", "internal_listen": f"{HOST}:0" if linked else ""},
            )
            self.all.append(self._node(number, settings, directory, guard, relays))

    def _node(self, number: int, settings: Settings, directory: Path, guard: Guard, relays: Sequence[int]) -> Node:
        name, work = settings.cluster.name, directory / settings.cluster.name
        if not relays:
            return Node(name, settings, work, guard, None)
        clients = Relay(int(settings.kafka.listen.rpartition(":")[2]))
        to_pulsar = Relay(urlsplit(self.pulsar.service_url).port or 0, relays[number])
        self._relays += [clients, to_pulsar]
        settings = settings.with_values(
            kafka={"advertised": f"{HOST}:{clients.port}"},
            pulsar={"service_url": f"pulsar://{HOST}:{to_pulsar.port}", "listener_name": listener(number)},
        )
        node = Node(name, settings, work, guard, clients)
        node.pulsar = to_pulsar
        return node

    def start(self) -> None:
        """Start all at once, and wait until each is ready."""
        with ThreadPoolExecutor(len(self.all)) as pool:
            list(pool.map(Node.start, self.all))

    def wait_until_settled(self, seconds: float = 30.0) -> None:
        """Wait until each of them leads its share of the partitions: nothing moves for those that have joined."""
        wait_for_view(self.all, lambda held: is_shared(led for led, _ in held), seconds)

    def close(self) -> None:
        """Kill all."""
        for node in self.all:
            node.kill()
        for relay in self._relays:
            relay.close()

    def bootstrap(self, *, dead: int = 0) -> str:
        """All addresses in random order, behind so many of which no server listens."""
        live = [node.kafka for node in self.all]
        self.random.shuffle(live)
        return ",".join([f"{HOST}:{port}" for port in stable_ports(dead)] + live)

    def any(self) -> Node:
        """A random node."""
        return self.random.choice(self.all)

    def named(self, name: str) -> Node:
        """The node of a name."""
        return next(node for node in self.all if node.name == name)

    def at(self, address: str) -> Node:
        """The node that clients know by an address."""
        return next(node for node in self.all if node.kafka == address)

    def others(self, *nodes: Node) -> list[Node]:
        """All but these."""
        return [node for node in self.all if node not in nodes]
