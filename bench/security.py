"""What security costs: TLS and log-in beside Kafka's own, and asking about permissions beside not asking."""

import secrets
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench import apart, secured
from bench.loads import Load
from bench.measure import Cpu, paired_ratio
from bench.results import Cell, Part, Table
from bench.secured import CIPHER, ENTRIES, ITERATIONS, PROTOCOLS, SCRAM, Secured
from bench.small_requests import CONNECTIONS, RECORD_BYTES
from bench.stack import Stack
from bench.tools import consumed, produced_seconds
from tests.support.certificates import Authority

METHOD = (
    f"Kafka's own tools, 1 KB records, 4 partitions, 128 KB batches, acks=all, idempotent; TLS 1.3, {CIPHER}, a "
    "certificate with a P-256 key, on both sides. The bridge has OpenSSL, Kafka 4.1 and both clients the JVM's TLS. "
    f"SASL_SSL is with {SCRAM}. Processor time is the server's; Pulsar's is left out, for TLS does not change it. "
    "New connections: eight threads of one Python process, which takes a core itself, each a full handshake and an "
    f"answer, or a log-in until the server lets it in; {SCRAM} with {ITERATIONS} iterations, PLAIN of a user that "
    "the server knows already. Beside them one client without TLS sends one record after another. Permissions: "
    f"{CONNECTIONS} connections each send one request of a record of {RECORD_BYTES} B after another, to a bridge with "
    f'`kafka.authorizer = "kafka"` and {ENTRIES} entries, and to one without, in turns. Ratios are the medians of '
    "those of the rounds. A Fetch of everything lasts a tenth of a second to a fifth, a round of permissions two: "
    "their ratios are uncertain by a fifth. Servers and clients share two cores."
)
_FETCH_BYTES = 1024 * 1024
_TOPIC = "secured"
_LOGINS = (("TLS", "SSL", "none"), (f"TLS, {SCRAM}", "SASL_SSL", SCRAM), ("TLS, PLAIN", "SASL_SSL", "PLAIN"))


@dataclass(frozen=True, slots=True)
class Found:
    """One load on one server in one round."""

    rate: float
    cost: float
    """Processor seconds of the server for what is counted."""


class _Bench:
    def __init__(self, stack: Stack, directory: Path, servers: Sequence[Secured], load: Load) -> None:
        self._stack, self._directory, self._load = stack, directory, load
        self.servers = servers
        for one in servers:
            create(one.addresses["PLAINTEXT"], _TOPIC, load.partitions)

    def produce(self, server: Secured, protocol: str) -> Found:
        load, cpu = self._load, Cpu({"server": server.pid})
        settings = load.producer_settings(server.addresses[protocol])
        arguments = ["--topic", _TOPIC, "--num-records", str(load.records), "--throughput", "-1"]
        arguments += ["--payload-file", str(self._stack.payloads.of(load.size))]
        arguments += ["--producer.config", str(server.java(protocol, self._directory)), "--producer-props"]
        arguments += [f"{name}={value}" for name, value in settings.items()]
        printed = self._stack.kafka_client.call("produce", arguments=arguments)
        return self._found(produced_seconds(printed, load.records), cpu)

    def fetch(self, server: Secured, protocol: str) -> Found:
        load, cpu = self._load, Cpu({"server": server.pid})
        arguments = ["--bootstrap-server", server.addresses[protocol], "--topic", _TOPIC]
        arguments += ["--group", f"bench-{secrets.token_hex(4)}", "--messages", str(load.records)]
        arguments += ["--consumer.config", str(server.java(protocol, self._directory))]
        arguments += ["--fetch-size", str(_FETCH_BYTES), "--hide-header", "--timeout", "20000"]
        printed = self._stack.kafka_client.call("consume", arguments=arguments)
        return self._found(consumed(printed, load.records).seconds, cpu)

    def _found(self, seconds: float, cpu: Cpu) -> Found:
        megabytes = self._load.bytes / 1e6
        return Found(megabytes / seconds, cpu.used()["server"] / megabytes * 100)

    def throughput(self, title: str, once: Callable[[Secured, str], Found], rounds: int) -> Table:
        """A line for each security protocol."""
        places = [(server, protocol) for protocol in PROTOCOLS for server in self.servers]
        found: dict[tuple[str, str], list[Found]] = {(server.name, protocol): [] for server, protocol in places}
        for number in range(rounds + 1):
            for server, protocol in places if number % 2 else reversed(places):
                one = once(server, protocol)
                if number:
                    found[server.name, protocol].append(one)
        return Table(title, _COLUMNS, [_row(protocol, found) for protocol in PROTOCOLS])

    def connections(self, rounds: int, seconds: float) -> Table:
        """A line for each way to log in."""
        rows: list[list[Cell]] = []
        quiet = {one.name: [self._healthy(one, seconds) for _ in range(rounds)] for one in self.servers}
        rows.append(["none", *self._cells([], {}, quiet)])
        for name, protocol, mechanism in _LOGINS:
            runs: dict[str, list[Found]] = {one.name: [] for one in self.servers}
            waits: dict[str, list[float]] = {one.name: [] for one in self.servers}
            for number in range(rounds + 1):
                for server in self.servers if number % 2 else reversed(self.servers):
                    alone = self._connect(server, protocol, mechanism, seconds)
                    with apart.started(
                        "handshakes", address=server.addresses[protocol], authority=server.authority,
                        mechanism=mechanism, seconds=seconds + 1,
                    ) as process:  # fmt: skip
                        waited = self._healthy(server, seconds)
                        process.result()
                    if number:
                        runs[server.name].append(alone)
                        waits[server.name].append(waited)
            rows.append([name, *self._cells([one.name for one in self.servers], runs, waits)])
        columns = ["", "bridge a second", "Kafka a second", "bridge / Kafka", "bridge CPU ms each", "Kafka CPU ms each"]
        columns += ["p99 ms of a client of the bridge", "of Kafka"]
        return Table("New connections, and one client beside them", columns, rows)

    def _connect(self, server: Secured, protocol: str, mechanism: str, seconds: float) -> Found:
        cpu = Cpu({"server": server.pid})
        with apart.started(
            "handshakes", address=server.addresses[protocol], authority=server.authority, mechanism=mechanism,
            seconds=seconds,
        ) as process:  # fmt: skip
            told = process.result()
        return Found(told["connections"] / told["seconds"], cpu.used()["server"] / told["connections"] * 1000)

    def _healthy(self, server: Secured, seconds: float) -> float:
        with apart.started(
            "crowd", bootstrap=server.addresses["PLAINTEXT"], topic=_TOPIC, connections=1, partitions=1, size=1024,
            seconds=seconds,
        ) as process:  # fmt: skip
            return float(process.result()["p99"])

    def _cells(self, names: list[str], runs: dict[str, list[Found]], waits: dict[str, list[float]]) -> list[Cell]:
        cells: list[Cell] = [None] * 5
        if names:
            rates = [[one.rate for one in runs[name]] for name in names]
            cells = [round(statistics.median(each)) for each in rates]
            cells.append(round(paired_ratio(*rates), 2))
            cells += [round(statistics.median(one.cost for one in runs[name]), 2) for name in names]
        return [*cells, *(round(statistics.median(waits[one.name]), 2) for one in self.servers)]


_COLUMNS = [
    "load", "bridge MB/s", "Kafka MB/s", "bridge / Kafka", "bridge × of PLAINTEXT", "Kafka × of PLAINTEXT",
    "bridge CPU s per 100 MB", "Kafka CPU s per 100 MB",
]  # fmt: skip


def _row(protocol: str, found: dict[tuple[str, str], list[Found]]) -> list[Cell]:
    rates = {place: [one.rate for one in runs] for place, runs in found.items()}
    systems = ("bridge", "Kafka")
    name = f"{protocol}, {SCRAM}" if protocol == "SASL_SSL" else protocol
    cells: list[Cell] = [name, *(round(statistics.median(rates[system, protocol]), 1) for system in systems)]
    cells.append(round(paired_ratio(rates["bridge", protocol], rates["Kafka", protocol]), 2))
    cells += [round(paired_ratio(rates[system, protocol], rates[system, "PLAINTEXT"]), 2) for system in systems]
    cells += [round(statistics.median(one.cost for one in found[system, protocol]), 2) for system in systems]
    return cells


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """A topic, where clients need no log-in."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def permissions(stack: Stack, directory: Path, rounds: int, seconds: float) -> Table:
    """With an authorizer and without."""
    topic = stack.topic("bridge", 1)
    rows: list[list[Cell]] = []
    with secured.authorized(stack.bridge.settings, directory, topic) as (process, bootstrap):
        places = {"without": (stack.bridge.pid, stack.bootstrap("bridge")), "with": (process.pid, bootstrap)}
        for api in ("Produce", "Fetch"):
            found: dict[str, list[Found]] = {name: [] for name in places}
            for number in range(2 * rounds + 1):
                for name, (pid, address) in places.items() if number % 2 else reversed(places.items()):
                    cpu = Cpu({"bridge": pid})
                    with apart.started(
                        "small_requests", bootstrap=address, topic=topic, api=api, seconds=seconds
                    ) as client:
                        told = client.result()
                    if number:
                        cost = cpu.used()["bridge"] / told["requests"] * 1e6
                        found[name].append(Found(told["requests"] / told["seconds"], cost))
            rates = {name: [one.rate for one in runs] for name, runs in found.items()}
            costs = {name: [one.cost for one in runs] for name, runs in found.items()}
            row: list[Cell] = [api, *(round(statistics.median(each)) for each in rates.values())]
            row.append(round(paired_ratio(rates["with"], rates["without"]), 3))
            row += [round(statistics.median(each)) for each in costs.values()]
            rows.append([*row, round(paired_ratio(costs["with"], costs["without"]), 3)])
    columns = ["", "requests/s without", "with", "with / without", "CPU µs each without", "with", "with / without"]
    return Table("Permissions of small requests", columns, rows)


def part(stack: Stack, megabytes: int, rounds: int, seconds: float) -> Part:
    """Everything."""
    with tempfile.TemporaryDirectory(dir=stack.directory) as work, ExitStack() as started:
        directory = Path(work)
        authority = Authority(directory)
        signed = authority.sign("server")
        servers = [
            started.enter_context(secured.bridge(stack.bridge.settings, directory, authority, signed)),
            started.enter_context(secured.kafka(directory, authority, signed)),
        ]
        bench = _Bench(stack, directory, servers, Load(1024, 4, 128 * 1024, megabytes))
        tables = [bench.throughput("Produce", bench.produce, rounds)]
        tables.append(bench.throughput("Fetch", bench.fetch, rounds))
        tables.append(bench.connections(min(rounds, 2), seconds / 2))
        tables.append(permissions(stack, directory, min(rounds, 2), seconds / 2))
    return Part("security", "What security costs", METHOD, tables)
