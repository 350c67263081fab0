"""Three nodes and many partitions: what Metadata of all costs, what a node holds, how long the view takes to change."""

import asyncio
import http.client
import json
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.measure import Cpu, resident_megabytes
from bench.results import Cell, Part, Table
from bench.stack import Stack
from bridge.config import Address
from bridge.node.orphans import Guard
from bridge.standalone.bridge_process import BridgeProcess
from bridge.standalone.ports import HOST, any_free
from tests.cluster.nodes import members
from tests.support.pulsar import PulsarAddress

NODES, PARTITIONS = 3, 4
_A_REQUEST = 50
_TIMEOUT_SECONDS = 300.0
METHOD = (
    f"{NODES} nodes on a namespace of their own, topics of {PARTITIONS} partitions created through one of them, a "
    "record sent to each partition. Metadata of all topics by librdkafka, median of five; memory is the resident set. "
    "A node that stops, dies or comes: from the signal or the start until every node has the same view of the right "
    "members and each leads its share. Idle: what a node uses when no client does anything; membership: three members "
    "in one process that does nothing else, what each costs."
)


class Nodes:
    """The nodes, and what is asked of them."""

    def __init__(self, stack: Stack, directory: Path, guard: Guard) -> None:
        settings = stack.bridge.settings
        pulsar = PulsarAddress(settings.pulsar.service_url, settings.pulsar.admin_url)
        tenant, _, namespace = pulsar.create_namespace().partition("/")
        self.all: list[BridgeProcess] = []
        taken: set[int] = set()
        for number in range(NODES + 1):
            ports = []
            for _ in range(2):
                ports.append(any_free(taken))
                taken.add(ports[-1])
            own = settings.with_values(
                kafka={"listen": f"{HOST}:{ports[0]}"},
                cluster={"name": f"node-{number}", "internal_listen": f"{HOST}:0"},
                http={"listen": f"{HOST}:{ports[1]}"},
                pulsar={"tenant": tenant, "namespace": namespace},
                log={"level": "warning"},
            )
            self.all.append(BridgeProcess(own, directory / f"node-{number}", guard))

    def view(self, node: BridgeProcess) -> dict[str, object]:
        """The view as a node knows it."""
        connection = http.client.HTTPConnection(HOST, Address.parse(node.settings.http.listen).port, timeout=10)
        try:
            connection.request("GET", "/cluster")
            found: dict[str, object] = json.load(connection.getresponse())
            return found
        finally:
            connection.close()

    def agreed(self, nodes: Sequence[BridgeProcess]) -> bool:
        """Whether all have one view with these members alone, and each leads its share."""
        names = {node.settings.cluster.name for node in nodes}
        views = [self.view(node) for node in nodes]
        if len({view["version"] for view in views}) != 1:
            return False
        members: list[dict[str, object]] = views[0]["members"]  # type: ignore[assignment]
        led = [int(str(member["slots_led"])) for member in members]
        return {member["name"] for member in members} == names and max(led) - min(led) <= 1

    def seconds_until_agreed(self, nodes: Sequence[BridgeProcess], start: float) -> float:
        """How long it takes."""
        while time.monotonic() - start < _TIMEOUT_SECONDS:
            if self.agreed(nodes):
                return time.monotonic() - start
        raise RuntimeError("the nodes do not agree")


def part(stack: Stack, topics: int, idle_seconds: float) -> Part:
    """All of it."""
    with ExitStack() as running:
        guard = running.enter_context(Guard())
        directory = Path(running.enter_context(tempfile.TemporaryDirectory(dir=stack.directory)))
        nodes = Nodes(stack, directory, guard)
        three = nodes.all[:NODES]
        for node in three:
            running.callback(node.stop)
            node.start()
        nodes.seconds_until_agreed(three, time.monotonic())
        tables = [
            _idle(three, idle_seconds),
            _partitions(three, topics),
            _changes(nodes, running.callback),
        ]
    return Part("nodes", "Many nodes", METHOD, tables)


def _idle(nodes: Sequence[BridgeProcess], seconds: float) -> Table:
    cpu = Cpu({node.settings.cluster.name: node.pid for node in nodes})
    time.sleep(seconds)
    used = cpu.used()
    rows: list[list[Cell]] = [[name, round(100 * spent / seconds, 2)] for name, spent in used.items()]
    rows.append(["of that, membership", round(asyncio.run(_membership(nodes[0], seconds)), 2)])
    return Table(f"Idle for {seconds:g} s: percent of a core", ["node", "%"], rows)


async def _membership(node: BridgeProcess, seconds: float) -> float:
    """What one of several members costs without a bridge around it: percent of a core."""
    pulsar = node.settings.pulsar
    async with members(PulsarAddress(pulsar.service_url, pulsar.admin_url)) as found:
        found.settings = replace(found.settings, keepalive_seconds=2.0)  # as the server's
        alone = [await found.start(f"member-{number}") for number in range(NODES)]
        await found.agree(*alone)
        start = time.thread_time()
        await asyncio.sleep(seconds)
        return 100 * (time.thread_time() - start) / seconds / NODES


def _partitions(nodes: Sequence[BridgeProcess], topics: int) -> Table:
    before = [_memory(node) for node in nodes]
    names = [f"t-{secrets.token_hex(3)}-{number}" for number in range(topics)]
    admin = AdminClient({"bootstrap.servers": nodes[0].bootstrap})
    start = time.monotonic()
    for at in range(0, topics, _A_REQUEST):
        new = [NewTopic(name, PARTITIONS, 1) for name in names[at : at + _A_REQUEST]]
        for future in admin.create_topics(new, operation_timeout=_TIMEOUT_SECONDS, request_timeout=120).values():
            future.result()
    created = time.monotonic() - start
    start = time.monotonic()
    _produce(nodes[0].bootstrap, names)
    produced = time.monotonic() - start
    rows: list[list[Cell]] = [
        [f"create {topics:,} topics, s", round(created, 1)],
        [f"first record to each of {topics * PARTITIONS:,} partitions, s", round(produced, 1)],
    ]
    for node, empty in zip(nodes, before, strict=True):
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.list_topics(timeout=_TIMEOUT_SECONDS)
        times = [_seconds(lambda admin=admin: admin.list_topics(timeout=_TIMEOUT_SECONDS)) for _ in range(5)]  # type: ignore[misc]
        name = node.settings.cluster.name
        rows.append([f"Metadata of all, {name}, ms", round(1000 * statistics.median(times), 1)])
        rows.append([f"memory of {name}, MB (empty {empty:.0f})", round(_memory(node), 0)])
    return Table(f"{topics:,} topics of {PARTITIONS} partitions", ["", ""], rows)


def _changes(nodes: Nodes, at_end: Callable[[Callable[[], object]], object]) -> Table:
    *three, fourth = nodes.all
    rows: list[list[Cell]] = []

    def note(what: str, members: Sequence[BridgeProcess], change: Callable[[], object]) -> None:
        start = time.monotonic()
        change()
        rows.append([what, round(nodes.seconds_until_agreed(members, start), 2)])

    at_end(fourth.stop)
    note("a fourth node starts, with its start", [*three, fourth], fourth.start)
    note("it stops in order", three, fourth.stop)
    note("a node is killed (SIGKILL)", three[:2], three[2].kill)
    note("it starts again", three, three[2].start)
    note("the controller is killed", three[1:], three[0].kill)
    note("it starts again", three, three[0].start)
    return Table("A change of the members, seconds until all have their share", ["", "s"], rows)


def _produce(bootstrap: str, names: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": int(_TIMEOUT_SECONDS * 1000)})
    failed: list[object] = []
    for name in names:
        for partition in range(PARTITIONS):
            note = lambda error, _: failed.append(error) if error else None  # noqa: E731
            producer.produce(name, b"x" * 100, partition=partition, on_delivery=note)
    left = producer.flush(_TIMEOUT_SECONDS)
    if left or failed:
        raise RuntimeError(f"{left} records without an answer, {len(failed)} refused: {failed[:1]}")


def _memory(node: BridgeProcess) -> float:
    return resident_megabytes(Path(f"/proc/{node.pid}/status").read_text(encoding="utf-8"))


def _seconds(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start
