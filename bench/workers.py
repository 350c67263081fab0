"""Several workers beside one: small requests, records through Pulsar, what an idle worker costs."""

import asyncio
import secrets
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Self

from bench import apart
from bench.light_client import REQUESTS
from bench.loads import Load
from bench.measure import Cpu, paired_ratio
from bench.results import Cell, Part, Table
from bench.stack import Stack
from bench.throughput import MEGABYTE, Run
from bench.tools import consumed, produced_seconds
from bridge.config import Settings
from bridge.node.workers.supervisor import Supervisor
from bridge.standalone.ports import HOST
from tests.support.pulsar import PulsarAddress

COUNTS = (1, 2, 4)
_BUDGET = COUNTS[-1] * (128 << 20)
_FETCH_BYTES = 1024 * 1024
METHOD = (
    "Each number of workers is a cluster of its own on a namespace of its own, all started before the first round; "
    "those that are not measured have nothing to do. Requests: one light client process, 8 connections to each worker, "
    "8 requests in flight on each. Records: Kafka's own tools, 1 KB, 8 partitions, idempotent. Ratios are the median "
    "of those of the rounds."
)


class Workers:
    """A supervisor in a thread of this process; its workers are processes."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="supervisor", daemon=True)
        self._settings = settings
        self.supervisor: Supervisor

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(120)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.supervisor.stop(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self.supervisor = Supervisor(self._settings)
        try:
            await self.supervisor.start()
        except BaseException:
            await self.supervisor.stop()
            raise

    @property
    def bootstrap(self) -> str:
        """The shared port."""
        return f"{HOST}:{self.supervisor.kafka_port}"

    @property
    def ports(self) -> list[int]:
        """The workers' own."""
        return [worker.ready.kafka for worker in self.supervisor.workers if worker.ready is not None]

    def cpu(self, **others: int) -> Cpu:
        """Start to count the processor time of the workers and of others."""
        pids = {f"worker {one.index}": one.pid for one in self.supervisor.workers if one.pid is not None}
        return Cpu(pids | others)


@contextmanager
def clusters(
    pulsar: PulsarAddress, counts: Sequence[int] = COUNTS, service_url: str = ""
) -> Iterator[dict[int, Workers]]:
    """One for each of the counts; `service_url`: where its nodes reach Pulsar, if not where we do."""
    with ExitStack() as stack:
        started = {}
        for count in counts:
            tenant, _, namespace = pulsar.create_namespace().partition("/")
            settings = Settings().with_values(
                kafka={
                    "listen": f"{HOST}:0", "workers": count, "worker_port": 0, "memory_budget_bytes": _BUDGET,
                },
                http={"listen": f"{HOST}:0"},
                log={"level": "error"},  # what is shown here is tables
                pulsar={
                    "service_url": service_url or pulsar.service_url, "admin_url": pulsar.admin_url, "tenant": tenant,
                    "namespace": namespace,
                },
            )  # fmt: skip
            started[count] = stack.enter_context(Workers(settings))
        yield started


def part(stack: Stack, rounds: int, seconds: float, megabytes: int) -> Part:
    """All tables."""
    plan = stack.pulsar.plan
    with clusters(PulsarAddress(plan.service_url, plan.admin_url)) as started:
        tables = [
            _requests(started, rounds, seconds),
            *(_records(stack, started, rounds, batch, megabytes) for batch in (16 * 1024, 128 * 1024)),
            _idle(started, seconds),
        ]
    return Part("workers", "Workers", METHOD, tables)


def _requests(started: dict[int, Workers], rounds: int, seconds: float) -> Table:
    rows: list[list[Cell]] = []
    for api in REQUESTS:
        rates: dict[int, list[float]] = {1: [], 2: []}
        per_cpu: dict[int, list[float]] = {1: [], 2: []}
        for number in range(rounds + 1):
            for count in (1, 2) if number % 2 else (2, 1):
                rate, efficiency = request_rate(started[count], api, seconds)
                if number:  # the first one warms up
                    rates[count].append(rate)
                    per_cpu[count].append(efficiency)
        row: list[Cell] = [api, *(round(statistics.median(rates[count])) for count in (1, 2))]
        rows.append([*row, *(round(paired_ratio(one[2], one[1]), 2) for one in (rates, per_cpu))])
    columns = ["requests a second", "1 worker", "2 workers", "2 / 1", "2 / 1, a CPU second"]
    return Table("Small requests", columns, rows)


def request_rate(workers: Workers, api: str, seconds: float) -> tuple[float, float]:
    """Requests a second, and a second of the workers' processor time."""
    ports = ",".join(map(str, workers.ports))
    with apart.started("light_client", ports=ports, api=api, seconds=seconds) as client:
        cpu = workers.cpu()
        found = client.result()
        used = sum(cpu.used().values())
    return found["requests"] / found["seconds"], found["requests"] / used


def _records(stack: Stack, started: dict[int, Workers], rounds: int, batch: int, megabytes: int) -> Table:
    load = Load(1024, 8, batch, megabytes)
    sent: dict[int, list[Run]] = {count: [] for count in COUNTS}
    read: dict[int, list[Run]] = {count: [] for count in COUNTS}
    for number in range(rounds + 1):
        for count in (*COUNTS[number % 3 :], *COUNTS[: number % 3]):
            topic = stack.new_topic(started[count].bootstrap, 8, "workers-")
            one = _produce(stack, started[count], load, topic), _fetch(stack, started[count], load, topic)
            if number:
                sent[count].append(one[0])
                read[count].append(one[1])
    columns = ["", *(f"{count}: MB/s" for count in COUNTS), *(f"{count}: CPU s per 100 MB" for count in COUNTS)]
    columns += [f"{count} / 1: {what}" for count in COUNTS[1:] for what in ("MB/s", "CPU")]
    return Table(f"Through Pulsar, {batch // 1024} KB batches", columns, [_row("produce", sent), _row("fetch", read)])


def _row(name: str, runs: dict[int, list[Run]]) -> list[Cell]:
    rates = {count: [run.rate for run in runs[count]] for count in COUNTS}
    costs = {count: [run.cpu["workers"] / run.megabytes * 100 for run in runs[count]] for count in COUNTS}
    row: list[Cell] = [name, *(round(statistics.median(one), 2) for found in (rates, costs) for one in found.values())]
    return [*row, *(round(paired_ratio(found[count], found[1]), 2) for count in COUNTS[1:] for found in (rates, costs))]


def _produce(stack: Stack, workers: Workers, load: Load, topic: str) -> Run:
    settings = load.producer_settings(workers.bootstrap)
    arguments = ["--topic", topic, "--num-records", str(load.records), "--throughput", "-1", "--payload-file"]
    arguments += [str(stack.payloads.of(load.size)), "--producer-props"]
    arguments += [f"{name}={value}" for name, value in settings.items()]
    cpu = workers.cpu()
    seconds = produced_seconds(stack.kafka_client.call("produce", arguments=arguments), load.records)
    return Run(seconds, load.bytes / MEGABYTE, {"workers": sum(cpu.used().values())})


def _fetch(stack: Stack, workers: Workers, load: Load, topic: str) -> Run:
    arguments = ["--bootstrap-server", workers.bootstrap, "--topic", topic, "--group", f"bench-{secrets.token_hex(4)}"]
    arguments += ["--messages", str(load.records), "--fetch-size", str(_FETCH_BYTES), "--hide-header"]
    cpu = workers.cpu()
    printed = stack.kafka_client.call("consume", arguments=[*arguments, "--timeout", "20000"])
    return Run(consumed(printed, load.records).seconds, load.bytes / MEGABYTE, {"workers": sum(cpu.used().values())})


def _idle(started: dict[int, Workers], seconds: float) -> Table:
    counters = {count: workers.cpu() for count, workers in started.items()}
    began = time.perf_counter()
    time.sleep(max(10.0, 3 * seconds))
    taken = time.perf_counter() - began
    rows: list[list[Cell]] = [
        [f"{count} workers", _percent(list(cpu.used().values()), taken)] for count, cpu in counters.items()
    ]
    return Table("Nothing to do: heartbeats, ticks and timers", ["", "% of a core a worker"], rows)


def _percent(used: Sequence[float], seconds: float) -> float:
    return round(statistics.mean(used) / seconds * 100, 2)
