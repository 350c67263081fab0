"""Start a Pulsar and a Kafka once each, and keep what they load: see class_archives.py."""

from __future__ import annotations

from pathlib import Path

from bridge.node.orphans import Guard
from bridge.standalone.jars import ensure_pulsar_jars
from bridge.standalone.jvm import QUICK_START
from bridge.standalone.ports import any_free
from bridge.standalone.process import PulsarPlan, PulsarProcess
from bridge.standalone.tools import find_java
from tests.support import class_archives
from tests.support.java import KAFKA, jars_directory
from tests.support.kafka_broker import KafkaBroker
from tests.support.programs import require

_WRITTEN_WITHIN_SECONDS = 120.0


def of_pulsar(guard: Guard) -> str:
    """Pulsar's classes; what was done."""
    java, jars = find_java(), ensure_pulsar_jars(print)

    def run(directory: Path, options: tuple[str, ...]) -> None:
        port = any_free()
        kept = (*QUICK_START, *options)
        plan = PulsarPlan(directory / "pulsar", port, any_free({port}), java_options=kept)
        process = PulsarProcess(plan, java, jars, guard)
        process.start()
        process.child.stop(_WRITTEN_WITHIN_SECONDS)  # the JVM writes the archive at its end

    name = class_archives.PULSAR
    return class_archives.make(class_archives.archive_of(java, jars, name), name, run)


def of_kafka(guard: Guard) -> str:
    """What a Kafka loads, which is most of what its clients and tools do; what was done."""
    java, jars = Path(require("java")), sorted(jars_directory(KAFKA).glob("*.jar"))

    def run(directory: Path, options: tuple[str, ...]) -> None:
        broker = KafkaBroker(directory, guard, options=("-XX:+UseSerialGC", *options))
        broker.format()
        broker.start_again()
        broker.child.stop(_WRITTEN_WITHIN_SECONDS)

    name = class_archives.KAFKA
    return class_archives.make(class_archives.archive_of(java, jars, name), name, run)


if __name__ == "__main__":
    with Guard() as guard:
        print(of_pulsar(guard), of_kafka(guard), sep="\n", flush=True)
