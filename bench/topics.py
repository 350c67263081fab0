"""Many topics: how long what touches all of them takes, on the bridge and on a Kafka, with the same client."""

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from bench.results import Cell, Table
from bench.startup import beside
from bridge.node.orphans import Guard
from bridge.standalone.bridge_process import BridgeProcess
from tests.support.kafka_broker import KafkaBroker
from tests.support.servers import KafkaServer

METHOD = (
    "Topics of one partition, librdkafka's client for both, created and deleted 100 a request. First record to each: "
    "one producer, acks=all, linger 0, until all are acknowledged. A group of one member reads all from the "
    "beginning; the first record counts from the subscription. Five new consumers of 40 partitions each read the "
    "record that each partition holds. After SIGKILL: a start, and a new producer's record to each; the time counts "
    "from the start."
)
_A_REQUEST = 100
_CONFIGS = 500
_TIMEOUT_SECONDS = 300.0
_SPREAD, _CONSUMERS = 200, 5


@dataclass(frozen=True, slots=True)
class System:
    """What is measured."""

    server: KafkaServer
    kill: Callable[[], None]

    @property
    def bootstrap(self) -> str:
        """Where clients begin."""
        return self.server.address


class Client:
    """Does each thing once; the seconds by its name."""

    def __init__(self, system: System, count: int) -> None:
        self.seconds: dict[str, float] = {}
        self._system = system
        self._admin = AdminClient({"bootstrap.servers": system.bootstrap})
        self._topics = [f"many-{number}" for number in range(count)]

    def run(self) -> None:
        """Everything, in its order."""
        self._time(f"create {len(self._topics):,} topics", self._create)
        self._time("first record to each", self._produce)
        self._time("a new producer's record to each", self._produce)
        self._read(2 * len(self._topics))
        some = self._topics[:_CONFIGS]
        self._time(f"DescribeConfigs of {len(some)}", lambda: self._describe(some))
        self._time("and again", lambda: self._describe(some))
        self._spread()
        self._time("after SIGKILL: start, and a record to each", self._restart)
        self._time(f"delete {len(self._topics):,} topics", self._delete)

    def _time(self, name: str, work: Callable[[], object]) -> None:
        start = time.monotonic()
        work()
        self.seconds[name] = time.monotonic() - start

    def _create(self) -> None:
        for names in _chunks(self._topics):
            new = [NewTopic(name, 1, 1) for name in names]
            _done(self._admin.create_topics(new, operation_timeout=_TIMEOUT_SECONDS, request_timeout=_TIMEOUT_SECONDS))

    def _delete(self) -> None:
        for names in _chunks(self._topics):
            _done(
                self._admin.delete_topics(names, operation_timeout=_TIMEOUT_SECONDS, request_timeout=_TIMEOUT_SECONDS)
            )

    def _describe(self, topics: Sequence[str]) -> None:
        wanted = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        _done(self._admin.describe_configs(wanted, request_timeout=_TIMEOUT_SECONDS))

    def _produce(self) -> None:
        settings = {"bootstrap.servers": self._system.bootstrap, "acks": "all", "linger.ms": 0}
        producer = Producer(settings | {"message.timeout.ms": int(_TIMEOUT_SECONDS * 1000)})
        failed: list[object] = []
        for topic in self._topics:
            producer.produce(topic, b"x" * 100, on_delivery=lambda error, _: failed.append(error) if error else None)
        left = producer.flush(_TIMEOUT_SECONDS)
        if left or failed:
            raise RuntimeError(f"{left} records without an answer, {len(failed)} refused: {failed[:1]}")

    def _restart(self) -> None:
        self._system.kill()
        self._system.server.start()
        self._produce()

    def _read(self, count: int) -> None:
        group = {"group.id": f"many-{uuid.uuid4().hex[:8]}", "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": self._system.bootstrap, "session.timeout.ms": 120_000} | group)
        start = time.monotonic()
        consumer.subscribe(self._topics)
        reading = _records(consumer, count)
        next(reading)
        self.seconds["a group's first record"] = time.monotonic() - start
        for _ in reading:
            pass
        self.seconds["a group reads all"] = time.monotonic() - start
        consumer.close()

    def _spread(self) -> None:
        topic = "spread"
        _done(self._admin.create_topics([NewTopic(topic, _SPREAD, 1)], operation_timeout=60))
        producer = Producer({"bootstrap.servers": self._system.bootstrap})
        for partition in range(_SPREAD):
            producer.produce(topic, b"x" * 100, partition=partition)
        if producer.flush(_TIMEOUT_SECONDS):
            raise RuntimeError("records without an answer")
        share = _SPREAD // _CONSUMERS
        start = time.monotonic()
        reading = []
        for number in range(_CONSUMERS):
            consumer = Consumer({"bootstrap.servers": self._system.bootstrap, "group.id": "unused"})
            places = range(number * share, (number + 1) * share)
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in places])
            reading.append((consumer, _records(consumer, share)))
        for _, records in reading:  # their clients fetch all the time
            for _ in records:
                pass
        self.seconds[f"{_CONSUMERS} consumers read {_SPREAD} partitions, a record in each"] = time.monotonic() - start
        for consumer, _ in reading:
            consumer.close()


def _records(consumer: Consumer, count: int) -> Iterator[None]:
    """One for each of so many records, as they come."""
    until = time.monotonic() + _TIMEOUT_SECONDS
    while count > 0:
        if time.monotonic() > until:
            raise RuntimeError(f"{count} records have not come")
        for message in consumer.consume(min(count, 500), 0.1):
            error = message.error()
            if error is None:
                count -= 1
                yield
            elif not error.retriable():
                raise KafkaException(error)


def _chunks(topics: Sequence[str]) -> Iterator[list[str]]:
    for at in range(0, len(topics), _A_REQUEST):
        yield list(topics[at : at + _A_REQUEST])


def _done(futures: "dict[object, object]") -> None:
    for future in futures.values():
        future.result()  # type: ignore[attr-defined]


@contextmanager
def _bridge(running: BridgeProcess, directory: Path, guard: Guard) -> Iterator[System]:
    bridge = BridgeProcess(beside(running.settings), directory / "bridge", guard)
    bridge.start()
    try:
        yield System(KafkaServer(bridge.child, bridge.launch, bridge.bootstrap), bridge.child.kill)
    finally:
        bridge.stop()


@contextmanager
def _kafka(directory: Path, guard: Guard) -> Iterator[System]:
    (directory / "kafka").mkdir()
    kafka = KafkaBroker(directory / "kafka", guard)
    kafka.start()
    try:
        yield System(KafkaServer(kafka.child, kafka.launch, kafka.kafka), kafka.child.kill)
    finally:
        kafka.stop()


def table(running: BridgeProcess, directory: Path, count: int) -> Table:
    """Everything once on each; `running` says which Pulsar the bridge is for, and is left alone."""
    found: dict[str, dict[str, float]] = {}
    with Guard() as guard, tempfile.TemporaryDirectory(dir=directory) as work:
        for name, started in (
            ("bridge", _bridge(running, Path(work), guard)),
            ("Kafka", _kafka(Path(work), guard)),
        ):
            with started as system:
                client = Client(system, count)
                client.run()
                found[name] = client.seconds
    rows: list[list[Cell]] = [
        [what, round(seconds, 2), round(found["Kafka"][what], 2), round(seconds / found["Kafka"][what], 2)]
        for what, seconds in found["bridge"].items()
    ]
    return Table(f"{count:,} topics, seconds", ["", "bridge", "Kafka", "bridge / Kafka"], rows)
