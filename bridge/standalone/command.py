"""`bridge standalone`: a Pulsar and the bridge on this machine, the demonstration, then both until told to stop.

The bridge is a child (`bridge run`), as it is anywhere else: its pid can be measured and killed apart from this
process, which only watches. Whatever happens here, even SIGKILL, the guard leaves no child behind.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from bridge import config
from bridge.errors import StartupError
from bridge.node.orphans import Guard
from bridge.standalone import demo
from bridge.standalone.bridge_process import BridgeProcess
from bridge.standalone.cluster.cluster import PulsarCluster, pids
from bridge.standalone.cluster.plan import BrokerPorts, ClusterPlan
from bridge.standalone.datadir import DataDir, default_data_dir
from bridge.standalone.jars import PULSAR_VERSION, ensure_pulsar_jars
from bridge.standalone.jvm import QUICK_START, Java, JvmProcess
from bridge.standalone.ports import HOST, PortOption, choose
from bridge.standalone.process import PulsarPlan, PulsarProcess
from bridge.standalone.restarts import PulsarHealth, RestartBackoff, full_disk
from bridge.standalone.tools import find_java
from bridge.standalone.waiting import Waiting

_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """The command line; a port of None is the default, if free."""

    kafka_port: int | None = None
    http_port: int | None = None
    pulsar_port: int | None = None
    data_dir: Path | None = None
    ephemeral: bool = False
    brokers: int | None = None
    """A cluster of so many, with its bookies and metadata store; None: all of Pulsar in one process."""
    demo: bool = True
    ready_file: Path | None = None
    verify_jars: bool = False


class _StopRequested(BaseException):
    """SIGINT or SIGTERM came; not an Exception, so that nothing on the way takes it for an error."""


def run(options: Options) -> int:
    """Run until SIGINT, SIGTERM or SIGHUP: 0 when everything had been ready, 130 before."""
    standalone = Standalone(options)
    with _handling(standalone.on_signal):
        try:
            standalone.start()
            standalone.watch()
        except _StopRequested:
            say("stopping")
        finally:
            standalone.stop()
    return 0 if standalone.is_ready else 130


def say(line: str) -> None:
    """Tell the user; at once, also when the output is a file."""
    print(line, flush=True)


class Standalone:
    """One run of `bridge standalone`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stack = ExitStack()
        self._pulsar: PulsarProcess | PulsarCluster | None = None
        self._bridge: BridgeProcess | None = None
        self._stopping = False
        self.is_ready = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """The first one ends the command in order; one more, while it ends, ends the children at once."""
        if not self._stopping:
            self._stopping = True
            raise _StopRequested
        pulsar = [] if self._pulsar is None else self._pulsar.members
        for process in (self._bridge, *pulsar):
            if process is not None:
                process.child.kill_nowait()

    def start(self) -> None:
        """Everything up to the ready line."""
        if self._options.ready_file is not None:
            _unlink(self._options.ready_file)  # one of an earlier run would be believed
        ports = self._choose_ports()
        java = find_java()
        jars = ensure_pulsar_jars(say, verify=self._options.verify_jars)
        data = self._stack.enter_context(DataDir(self._data_dir(), say))
        guard = self._stack.enter_context(Guard())
        self._pulsar = self._make_pulsar(data, ports, Java(java, jars, guard, keep_open=[data.lock]))
        plan = self._pulsar.plan
        kept = "goes when this ends" if data.ephemeral else f"is kept in {data.path}"
        of = f" of {self._options.brokers} brokers" if self._options.brokers else ""
        say(f"starting Pulsar {PULSAR_VERSION}{of}; its data {kept}")
        say(f"Pulsar is healthy after {self._started(self._pulsar):.1f} s")
        self._bridge = BridgeProcess(_settings(plan, ports), data.path, guard)
        say(f"the bridge is ready after {self._bridge.start():.1f} s; its log is {self._bridge.child.output}")
        if self._options.demo:
            self._demonstrate(self._bridge, plan)
        self._write_ready_file()
        self.is_ready = True
        say(f"Pulsar {plan.service_url}, admin {plan.admin_url}; Ctrl-C stops everything")
        say(f"Kafka bootstrap {self._bridge.bootstrap}")
        say(f"metrics {self._bridge.settings.http.url}/metrics, status page {self._bridge.settings.http.url}/")

    def watch(self) -> None:
        """Until a signal comes; StartupError when the bridge is gone. Pulsar is started again as often as it takes."""
        members = [] if self._pulsar is None else [_Watched(one) for one in self._pulsar.members]
        while self._bridge is not None:
            if not self._bridge.child.running:
                how = self._bridge.child.exit_description()
                raise StartupError(f"the bridge {how}; its last words:\n{self._bridge.last_lines()}")
            for one in members:
                trouble = one.restart_reason()
                if trouble is not None:
                    self._restart(one, trouble)
            time.sleep(_LOOK_SECONDS)

    def stop(self) -> None:
        """The bridge first, so that it can answer what is under way; then Pulsar."""
        self._stopping = True
        if self._options.ready_file is not None and self.is_ready:
            _unlink(self._options.ready_file)
        if self._bridge is not None and not self._bridge.stop():
            say("the bridge did not drain in time and was killed")
        if self._pulsar is not None:
            self._pulsar.stop()
        self._stack.close()
        if self.is_ready:
            say("everything is stopped")

    def _choose_ports(self) -> "_Ports":
        taken: set[int] = set()
        chosen: list[int] = []
        for option in (
            PortOption("--kafka-port", 9092, self._options.kafka_port),
            PortOption("--http-port", 7092, self._options.http_port),
            PortOption("--pulsar-port", 6650, self._options.pulsar_port),
            # two that are started at once, each on any free ports, must not both find this one free
            PortOption("--pulsar-http-port", 8080, 0 if self._options.pulsar_port == 0 else None),
        ):
            port, note = choose(option, taken)
            chosen.append(port)
            if note is not None:
                say(note)
        return _Ports(*chosen)

    def _data_dir(self) -> Path | None:
        kind = "cluster" if self._options.brokers else "standalone"
        return None if self._options.ephemeral else self._options.data_dir or default_data_dir(kind)

    def _make_pulsar(self, data: DataDir, ports: "_Ports", java: Java) -> PulsarProcess | PulsarCluster:
        if self._options.brokers is None:
            data.must_not_hold("zookeeper", "the data of a cluster (--brokers)")
            plan = PulsarPlan(data.path, ports.pulsar, ports.pulsar_http)
            return PulsarProcess(plan, java.executable, java.jars, java.guard, java.keep_open)
        data.must_not_hold("metadata", "the data of a standalone (without --brokers)")
        first = BrokerPorts(ports.pulsar, ports.pulsar_http)
        chosen = ClusterPlan.on_free_ports(data.path, self._options.brokers, taken=ports.all, first=first)
        return PulsarCluster(chosen, replace(java, options=QUICK_START))

    def _started(self, pulsar: PulsarProcess | PulsarCluster) -> float:
        kind = f"cluster-{self._options.brokers}" if self._options.brokers else "standalone"
        with Waiting("Pulsar", kind) as waiting:
            return pulsar.start(waiting.tell)

    def _demonstrate(self, bridge: BridgeProcess, plan: PulsarPlan | ClusterPlan) -> None:
        say(f"sending {demo.RECORDS:,} records through the bridge and reading them back")
        rows = demo.run(bridge.bootstrap, plan.service_url, bridge.settings.pulsar.full_namespace)
        say(f"\n{demo.table(rows)}\n")

    def _restart(self, one: "_Watched", trouble: str) -> None:
        pause = one.backoff.next(time.monotonic())
        say(f"{trouble}: starting it again" + (f" in {pause:.0f} s" if pause else ""))
        time.sleep(pause)
        full = full_disk(one.process.program.directory)
        try:
            if full is not None:
                raise StartupError(f"not started: {full}")
            with Waiting(one.process.name) as waiting:
                took = one.process.restart(waiting.tell)
            say(f"{one.process.name} is healthy again after {took:.1f} s")
        except StartupError as error:
            say(str(error))  # the next look finds that it is not running, or as sick as before
        else:
            self._write_ready_file()  # its process id is another
        one.health = PulsarHealth(time.monotonic())

    def _write_ready_file(self) -> None:
        path = self._options.ready_file
        if path is None or self._pulsar is None or self._bridge is None:
            return
        answer: dict[str, object] = {
            "kafka": self._bridge.bootstrap,
            "http": self._bridge.settings.http.url,
            "pulsar": self._pulsar.plan.service_url,
            "pulsar_http": self._pulsar.plan.admin_url,
            "pid": self._bridge.pid,
        }
        if isinstance(self._pulsar, PulsarCluster):
            answer["pulsar_pids"] = pids(self._pulsar.members)
        else:
            answer["pulsar_pid"] = self._pulsar.pid
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
            os.replace(temporary, path)
        except OSError as error:
            raise StartupError(f"cannot write the ready file {path}: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class _Ports:
    kafka: int
    http: int
    pulsar: int
    pulsar_http: int

    @property
    def all(self) -> set[int]:
        return {self.kafka, self.http, self.pulsar, self.pulsar_http}


class _Watched:
    """A process of Pulsar's, and when it was last looked at."""

    def __init__(self, process: JvmProcess) -> None:
        self.process = process
        self.health = PulsarHealth(time.monotonic())
        self.backoff = RestartBackoff()

    def restart_reason(self) -> str | None:
        """Why it must be started again: it is gone, or its bookie is, which takes no part of it along."""
        if not self.process.child.running:
            return f"{self.process.name} {self.process.child.exit_description()}"
        if not self.health.due(time.monotonic()):
            return None
        problem = self.process.problem()
        unhealthy = self.health.record(time.monotonic(), problem)
        return f"{self.process.name} is unhealthy: {problem}" if unhealthy else None


def _settings(plan: PulsarPlan | ClusterPlan, ports: _Ports) -> config.Settings:
    """The user's environment, with what this run decides over it."""
    settings = config.load()
    # one that others can ask: the status page of a second node, which a newcomer tries, shows the whole cluster then
    internal = settings.cluster.internal_listen or (f"{HOST}:0" if settings.kafka.workers == 1 else "")
    return settings.with_values(
        cluster={"internal_listen": internal},
        # clients are told the ports of workers (kafka.workers), whatever they are
        kafka={"listen": f"{HOST}:{ports.kafka}", "advertised": "", "worker_port": 0},
        http={"listen": f"{HOST}:{ports.http}"},
        # a Pulsar without authorization, which this machine alone reaches
        pulsar={"service_url": plan.service_url, "admin_url": plan.admin_url, "trust_state_namespace": True},
    )


@contextlib.contextmanager
def _handling(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in signals}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
