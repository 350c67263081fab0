"""Everything the benchmark runs against: a Pulsar, the bridge before it, a Kafka, and the two warm Java clients."""

import secrets
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.loads import Payloads
from bench.measure import Cpu
from bridge.config import Settings
from bridge.errors import StartupError
from bridge.node.orphans import Guard
from bridge.standalone.bridge_process import BridgeProcess
from bridge.standalone.jars import ensure_pulsar_jars
from bridge.standalone.ports import HOST, any_free
from bridge.standalone.process import PulsarPlan, PulsarProcess
from bridge.standalone.tools import find_java
from tests.support.driver import Driver
from tests.support.java import KAFKA, Jars, jars_directory
from tests.support.kafka_broker import KafkaBroker
from tests.support.programs import require

SYSTEMS = ("bridge", "pulsar", "kafka")
_SOURCES = Path(__file__).parent / "java"
_SERVER_HEAP = "768m"  # as the Pulsar's
_CLIENT_HEAP = "512m"


@dataclass
class Stack:
    """What is running, and how to reach and measure it."""

    directory: Path
    pulsar: PulsarProcess
    bridge: BridgeProcess
    kafka: KafkaBroker
    kafka_client: Driver
    """Kafka's tools in one JVM, for the bridge and Kafka alike."""
    pulsar_client: Driver
    payloads: Payloads
    _topics: int = 0

    def bootstrap(self, system: str) -> str:
        """Where Kafka clients reach the bridge or Kafka."""
        return self.bridge.bootstrap if system == "bridge" else self.kafka.kafka

    def topic(self, system: str, partitions: int) -> str:
        """A new topic, by its name at that system: both clients of Pulsar find what the other has made."""
        self._topics += 1
        name = f"bench-{self._topics}-{system}"
        bootstrap = self.bootstrap("kafka" if system == "kafka" else "bridge")
        self.kafka_client.call("create", bootstrap=bootstrap, topic=name, partitions=partitions)
        return name

    def new_topic(self, bootstrap: str, partitions: int, prefix: str) -> str:
        """A new topic of bridges or a Kafka that are not the stack's own, by its name."""
        name = f"{prefix}{secrets.token_hex(4)}"
        self.kafka_client.call("create", bootstrap=bootstrap, topic=name, partitions=partitions)
        return name

    def native(self, topic: str) -> str:
        """Its name for Pulsar's client."""
        return f"persistent://{self.bridge.settings.pulsar.full_namespace}/{topic}"

    def cpu(self, system: str) -> Cpu:
        """Start to count the processor time of what takes part in a load on that system."""
        if system == "kafka":
            return Cpu({"client": self.kafka_client.pid, "kafka": self.kafka.pid})
        if system == "pulsar":
            return Cpu({"client": self.pulsar_client.pid, "pulsar": self.pulsar.pid})
        return Cpu({"client": self.kafka_client.pid, "bridge": self.bridge.pid, "pulsar": self.pulsar.pid})


@contextmanager
def running(directory: Path) -> Iterator[Stack]:
    """Start everything on free ports; whatever happens, nothing is left running."""
    java = find_java()
    jars = ensure_pulsar_jars(print)
    taken: set[int] = set()
    for _ in range(4):
        taken.add(any_free(taken))
    pulsar_port, admin_port, kafka_port, http_port = taken
    with ExitStack() as stack:
        guard = stack.enter_context(Guard())
        plan = PulsarPlan(directory / "pulsar", pulsar_port, admin_port)
        pulsar = PulsarProcess(plan, java, jars, guard)
        stack.callback(pulsar.kill)  # its data goes with it
        pulsar.start()
        bridge = BridgeProcess(_settings(plan, kafka_port, http_port), directory / "bridge", guard)
        stack.callback(bridge.stop)
        bridge.start()
        kafka_directory = directory / "kafka"
        kafka_directory.mkdir()
        kafka = KafkaBroker(kafka_directory, guard, heap=_SERVER_HEAP, options=())
        kafka.start()
        stack.callback(kafka.stop)
        kafka_client = java_client("kafka", class_path(KAFKA), "KafkaLoad", [], directory)
        stack.callback(kafka_client.close)
        pulsar_client = java_client("pulsar", jars, "PulsarLoad", [plan.service_url], directory)
        stack.callback(pulsar_client.close)
        yield Stack(directory, pulsar, bridge, kafka, kafka_client, pulsar_client, Payloads(directory))


def _settings(plan: PulsarPlan, kafka_port: int, http_port: int) -> Settings:
    return Settings().with_values(
        kafka={"listen": f"{HOST}:{kafka_port}"},
        http={"listen": f"{HOST}:{http_port}"},
        pulsar={"service_url": plan.service_url, "admin_url": plan.admin_url},
    )


def class_path(jars: Jars) -> list[Path]:
    """Its files."""
    return sorted(jars_directory(jars).glob("*.jar"))


def java_client(name: str, jars: Sequence[Path], main: str, arguments: Sequence[str], directory: Path) -> Driver:
    """Compile the sources of that name with what all share, and start them in a JVM of their own."""
    classes = directory / f"{name}-classes"
    found = ":".join(map(str, [*jars, classes]))
    files = [str(file) for part in ("common", name) for file in sorted((_SOURCES / part).glob("*.java"))]
    javac = require("javac")
    done = subprocess.run(  # noqa: S603 - our own sources
        [javac, "-nowarn", "-d", str(classes), "-cp", found, *files], capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        raise StartupError(f"{main} does not compile:\n{done.stderr}")
    java = [str(find_java()), f"-Xmx{_CLIENT_HEAP}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    opens = ["--add-opens", "java.base/java.nio=ALL-UNNAMED", "-Dio.netty.tryReflectionSetAccessible=true"]
    return Driver([*java, *opens, "-cp", found, main, *arguments], directory / f"{name}-client.log")
