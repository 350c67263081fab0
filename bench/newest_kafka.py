"""A bridge on a Pulsar of its own, and the newest Kafka: for measurements of what only new clients have."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bridge.apis import create_topics
from bridge.node.orphans import Guard
from bridge.standalone.jars import ensure_pulsar_jars
from bridge.standalone.ports import any_free
from bridge.standalone.process import PulsarPlan, PulsarProcess
from bridge.standalone.tools import find_java
from tests.apis.wire import Connection
from tests.support.bridges import BridgeChild, Overrides, settings_for
from tests.support.java import KAFKA_NEWEST
from tests.support.kafka_broker import KafkaBroker
from tests.support.pulsar import PrivatePulsar

SYSTEMS = ("bridge", "kafka")


def create_topic(connection: Connection, partitions: int) -> str:
    """A topic with a name of its own."""
    name = f"t-{secrets.token_hex(4)}"
    wanted = create_topics.RequestTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    connection.ask(create_topics.API, create_topics.Request(topics=[wanted]))
    return name


@dataclass(frozen=True, slots=True)
class Serving:
    """Where clients reach one of them, and its processes."""

    address: str
    pids: dict[str, int]


@contextmanager
def serving(
    system: str, guard: Guard, work: Path, bridge: Overrides | None = None, kafka: Mapping[str, str] | None = None
) -> Iterator[Serving]:
    """Start one of them, with these settings."""
    if system == "kafka":
        broker = KafkaBroker(work, guard, jars=KAFKA_NEWEST, options=(), settings=kafka)
        broker.start()
        try:
            yield Serving(broker.kafka, {"kafka": broker.pid})
        finally:
            broker.stop()
        return
    port = any_free()
    plan = PulsarPlan(work / "pulsar", port, any_free({port}))
    pulsar = PrivatePulsar(PulsarProcess(plan, find_java(), ensure_pulsar_jars(print), guard))
    pulsar.start()
    try:
        with BridgeChild(settings_for(pulsar, pulsar.create_namespace(), bridge), work / "bridge", guard) as child:
            yield Serving(child.kafka, {"bridge": child.pid, "pulsar": pulsar.pid})
    finally:
        pulsar.kill()
