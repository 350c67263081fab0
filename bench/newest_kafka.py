"""A bridge on a Pulsar of its own, or the newest Kafka: for measurements of what only new clients have."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge.node.orphans import Guard
from tests.support.bridges import BridgeChild, settings_for
from tests.support.java import KAFKA_NEWEST
from tests.support.kafka_broker import KafkaBroker
from tests.support.pulsar import make_pulsar

SYSTEMS = ("bridge", "kafka")


@contextmanager
def serving(system: str, guard: Guard, work: Path) -> Iterator[str]:
    """Start one of them; its address."""
    if system == "kafka":
        broker = KafkaBroker(work, guard, jars=KAFKA_NEWEST)
        broker.start()
        try:
            yield broker.kafka
        finally:
            broker.stop()
        return
    pulsar = make_pulsar(work / "pulsar", guard)
    pulsar.start()
    try:
        with BridgeChild(settings_for(pulsar, pulsar.create_namespace()), work / "bridge", guard) as child:
            yield child.kafka
    finally:
        pulsar.kill()
