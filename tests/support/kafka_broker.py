"""A real Apache Kafka of one node: the control of every client scenario, and what the benchmark compares with."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bridge.node.orphans import Guard
from bridge.standalone import probe
from bridge.standalone.child import Child
from bridge.standalone.ports import HOST, any_free
from tests.support.java import KAFKA, Jars, java_command, run_tool

START_TIMEOUT = 60.0
STOP_TIMEOUT = 30.0


def streams_group_times(session_ms: int, heartbeat_ms: int) -> dict[str, str]:
    """Settings of a broker whose streams groups have this session time-out and heartbeat interval."""
    times = {"session.timeout.ms": session_ms, "heartbeat.interval.ms": heartbeat_ms}
    return {f"group.streams.{least}{name}": str(ms) for name, ms in times.items() for least in ("", "min.")}


class KafkaBroker:
    """One Kafka process (KRaft, broker and controller in one) with its data in a directory of the caller."""

    def __init__(
        self,
        directory: Path,
        guard: Guard,
        *,
        advertised: str = "",
        heap: str = "768m",
        options: Sequence[str] = ("-XX:+UseSerialGC", "-Xshare:auto"),
        protocol: str = "PLAINTEXT",
        settings: Mapping[str, str] | None = None,
        jars: Jars = KAFKA,
    ) -> None:
        """`protocol` is of the clients' listener; what else it needs is in `settings`."""
        self._directory = directory
        self._advertised = advertised
        self._heap = heap
        self._options = options  # not those of a quick start: C2 pays off in a server that a million records go through
        self._protocol = protocol
        self._settings = dict(settings or {})
        self._jars = jars
        self._config = directory / "server.properties"
        self.child = Child("Kafka", guard, directory / "kafka.out")
        self.kafka = ""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.child.pid

    def start(self) -> None:
        """Format the storage, start the broker and return when it says that it serves."""
        self.format()
        self.start_again()

    def format(self) -> None:
        """Choose ports, and make the storage."""
        port = any_free()
        controller = any_free({port})
        self.kafka = f"{HOST}:{port}"
        self._config.write_text(self._properties(controller), encoding="utf-8")
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # with =, for one id in 64 begins with a dash; share and streams groups are not on by themselves in Kafka 4.1
        features = ["--feature=share.version=1", "--feature=streams.version=1"]
        wanted = [f"--cluster-id={cluster_id}", *features, "-c", str(self._config)]
        run_tool("kafka.tools.StorageTool", "format", *wanted, jars=self._jars)

    def start_again(self) -> None:
        """Start the broker on the storage that there is, and return when it says that it serves."""
        self.launch()
        try:
            probe.wait_until_ready(self.child, self._problem, START_TIMEOUT)
        except BaseException:
            self.child.kill()
            raise

    def launch(self) -> None:
        """Start the broker and wait for nothing."""
        command = ["kafka.Kafka", str(self._config)]
        self.child.start(
            java_command(*command, heap=self._heap, options=self._options, log_level="info", jars=self._jars)
        )

    def stop(self) -> None:
        """Stop the process that was started here."""
        self.child.stop(STOP_TIMEOUT)

    def _problem(self) -> str | None:
        written = self.child.last_lines(40)
        return None if "Kafka Server started" in written else f"its last words:\n{written}"

    def _properties(self, controller: int) -> str:
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"{self._protocol}://{self.kafka},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"{self._protocol}://{self._advertised or self.kafka}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{self._protocol}:{self._protocol}",
            "inter.broker.listener.name": self._protocol,
            "log.dirs": str(self._directory / "data"),
            "auto.create.topics.enable": "true",
            "num.partitions": "1",
            # records of the tests carry times long past, which Kafka would delete after half a minute
            "log.retention.ms": "-1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            # as long as the bridge's own default
            "group.initial.rebalance.delay.ms": "100",
            # short, as the tests' bridge: it is what tells members of a rebalance
            "group.consumer.min.heartbeat.interval.ms": "200",
            "group.consumer.heartbeat.interval.ms": "200",
            "unstable.feature.versions.enable": "true",
            "share.coordinator.state.topic.replication.factor": "1",
            **self._settings,
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())


NewKafka = Callable[..., KafkaBroker]
