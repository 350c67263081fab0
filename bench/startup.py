"""How long a bridge takes from its start to its first answer, beside a Kafka: a gap that clients see."""

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.measure import cpu_seconds
from bench.results import Cell, Table
from bridge.config import Settings
from bridge.node.orphans import Guard
from bridge.standalone.bridge_process import BridgeProcess
from bridge.standalone.ports import HOST, any_free
from tests.support.kafka_broker import KafkaBroker
from tests.support.pulsar import PulsarAddress
from tests.support.servers import KafkaServer

STARTS = 4
"""Of the bridge, for each start of Kafka."""
METHOD = (
    "From the start of the process until its port answers an ApiVersions request, and its processor time up to then. "
    f"`bridge run` has a Pulsar that is running, Kafka a storage that is formatted. Medians; each round is {STARTS} "
    "starts of the bridge and one of Kafka."
)


@dataclass(frozen=True, slots=True)
class Start:
    """What one start took."""

    seconds: float
    cpu: float


def measured(server: KafkaServer) -> Start:
    """Start a server, wait for its first answer, stop it."""
    try:
        seconds = server.start()
        return Start(seconds, cpu_seconds(Path(f"/proc/{server.child.pid}/stat").read_text(encoding="utf-8")))
    finally:
        server.stop()


def table(running: BridgeProcess, directory: Path, rounds: int) -> Table:
    """Start both again and again; `running` says which Pulsar the bridge is for, and is left alone."""
    found: dict[str, list[Start]] = {"bridge": [], "kafka": []}
    with Guard() as guard, tempfile.TemporaryDirectory(dir=directory) as work:
        bridge = BridgeProcess(beside(running.settings), Path(work) / "bridge", guard)
        (Path(work) / "kafka").mkdir()
        kafka = KafkaBroker(Path(work) / "kafka", guard)
        kafka.format()
        for number in range(rounds + 1):
            ours = [measured(KafkaServer(bridge.child, bridge.launch, bridge.bootstrap)) for _ in range(STARTS)]
            theirs = measured(KafkaServer(kafka.child, kafka.launch, kafka.kafka))
            if number:  # the first round warms the page cache up
                found["bridge"] += ours
                found["kafka"].append(theirs)
    return as_table(found["bridge"], found["kafka"])


def beside(settings: Settings) -> Settings:
    """For another bridge of the same Pulsar: other ports, and a namespace of its own, for groups are of one bridge."""
    kafka_port = any_free()
    pulsar = PulsarAddress(settings.pulsar.service_url, settings.pulsar.admin_url)
    return settings.with_values(
        kafka={"listen": f"{HOST}:{kafka_port}"},
        http={"listen": f"{HOST}:{any_free({kafka_port})}"},
        pulsar={"namespace": pulsar.create_namespace().rpartition("/")[2]},
    )


def as_table(ours: list[Start], theirs: list[Start]) -> Table:
    """Medians side by side."""
    rows: list[list[Cell]] = []
    for name, values in (
        ("seconds until it answers", [[one.seconds for one in starts] for starts in (ours, theirs)]),
        ("its processor time, s", [[one.cpu for one in starts] for starts in (ours, theirs)]),
    ):
        bridge, kafka = (statistics.median(each) for each in values)
        rows.append([name, round(bridge, 2), round(kafka, 2), round(bridge / kafka, 2)])
    return Table(f"Start, {len(ours)} times and {len(theirs)}", ["", "bridge", "Kafka", "bridge / Kafka"], rows)
