"""The demonstration: a Kafka client writes records, a Kafka client and a Pulsar client read them."""

import logging
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass

from bridge.errors import BridgeError, StartupError

RECORDS = 1000
PARTITIONS = 4
_KEYS = 50
_STEP_SECONDS = 60.0
_EPOCH_MS = 1_700_000_000_000


class DemoFailed(BridgeError):
    """The demonstration has read something else than it wrote; the message says what differs."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record as either client shows it."""

    key: str
    value: bytes
    headers: tuple[tuple[str, str], ...]
    timestamp_ms: int

    @classmethod
    def make(cls, number: int) -> "Record":
        """The record of this number."""
        headers = (("number", str(number)), ("source", "demonstration ✓"))
        return cls(f"key-{number % _KEYS}", f"record {number}".encode(), headers, _EPOCH_MS + number)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; a step that fails raises instead."""

    what: str
    count: int
    order: str
    offsets: str
    seconds: float

    def __str__(self) -> str:
        return _LINE.format(self.what, f"{self.count:,}", self.order, self.offsets, f"{self.count / self.seconds:,.0f}")


_LINE = "{:<24}{:>8}   {:<10}{:<30}{:>10}"
HEADER = _LINE.format("", "records", "order", "offsets", "records/s")
Log = dict[int, list[Record]]
"""What each partition holds, in its order."""


def run(bootstrap: str, service_url: str, namespace: str) -> list[Row]:
    """Send, read, read natively; DemoFailed when anything differs."""
    try:
        import kafka  # noqa: F401 - only whether both are there
        import pulsar  # noqa: F401
    except ImportError as error:
        raise StartupError(
            f"the demonstration needs kafka-python and pulsar-client ({error}): install "
            "pulsar-kafka-bridge[standalone], or pass --no-demo"
        ) from None
    logging.getLogger("kafka").setLevel(logging.ERROR)
    topic = f"demo-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    sent, first = _send(bootstrap, topic)
    return [first, _read_kafka(bootstrap, topic, sent), _read_pulsar(service_url, namespace, topic, sent)]


def _send(bootstrap: str, topic: str) -> tuple[Log, Row]:
    from kafka import KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic
    from kafka.errors import KafkaError

    log: Log = {}
    offsets: dict[int, list[int]] = {}
    try:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)])
        admin.close()
        producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
        start = time.monotonic()
        futures = []
        for record in map(Record.make, range(RECORDS)):
            headers = [(name, value.encode()) for name, value in record.headers]
            future = producer.send(topic, record.value, record.key.encode(), headers, timestamp_ms=record.timestamp_ms)
            futures.append((record, future))
        for record, future in futures:
            answer = future.get(timeout=_STEP_SECONDS)
            log.setdefault(answer.partition, []).append(record)
            offsets.setdefault(answer.partition, []).append(answer.offset)
        seconds = time.monotonic() - start
        producer.close(timeout=_STEP_SECONDS)
    except KafkaError as error:
        raise DemoFailed(f"sending with kafka-python: {error}") from error
    return log, Row("sent by kafka-python", RECORDS, "-", _dense("sent", offsets), seconds)


def _read_kafka(bootstrap: str, topic: str, sent: Log) -> Row:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError

    log: Log = {}
    offsets: dict[int, list[int]] = {}
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest", enable_auto_commit=False
        )
        start = time.monotonic()
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        while _count(log) < RECORDS and time.monotonic() - start < _STEP_SECONDS:
            for assigned, records in consumer.poll(timeout_ms=500).items():
                for got in records:
                    headers = tuple((name, value.decode()) for name, value in got.headers)
                    record = Record(got.key.decode(), got.value, headers, got.timestamp)
                    log.setdefault(assigned.partition, []).append(record)
                    offsets.setdefault(assigned.partition, []).append(got.offset)
        seconds = time.monotonic() - start
        consumer.close()
    except KafkaError as error:
        raise DemoFailed(f"reading with kafka-python: {error}") from error
    _compare("read by kafka-python", sent, log)
    return Row("read by kafka-python", _count(log), "as sent", _dense("read", offsets), seconds)


def _read_pulsar(service_url: str, namespace: str, topic: str, sent: Log) -> Row:
    import pulsar

    log: Log = {}
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        start = time.monotonic()
        for partition, expected in sent.items():
            name = f"persistent://{namespace}/{topic}-partition-{partition}"
            reader = client.create_reader(name, pulsar.MessageId.earliest)
            for _ in expected:
                got = reader.read_next(timeout_millis=int(_STEP_SECONDS * 1000))
                headers = tuple((key, value) for key, value in got.properties().items() if not key.startswith("__"))
                record = Record(got.partition_key(), got.data(), tuple(sorted(headers)), got.event_timestamp())
                log.setdefault(partition, []).append(record)
            if reader.has_message_available():
                raise DemoFailed(f"read by pulsar-client: partition {partition} holds more than was sent")
            reader.close()
        seconds = time.monotonic() - start
    except pulsar.PulsarException as error:
        raise DemoFailed(f"reading with pulsar-client: {error or type(error).__name__}") from error
    finally:
        client.close()
    _compare("read by pulsar-client", sent, log)
    return Row("read by pulsar-client", _count(log), "as sent", "-", seconds)


def _compare(who: str, sent: Log, read: Log) -> None:
    if _count(read) != RECORDS:
        raise DemoFailed(f"{who}: {_count(read)} records instead of {RECORDS}")
    for partition, expected in sent.items():
        for place, (want, got) in enumerate(zip(expected, read.get(partition, []), strict=False)):
            if want != got:
                raise DemoFailed(f"{who}: place {place} of partition {partition} is {got} instead of {want}")
        if len(read.get(partition, [])) != len(expected):
            raise DemoFailed(f"{who}: partition {partition} has {len(read.get(partition, []))}, not {len(expected)}")


def _dense(what: str, offsets: dict[int, list[int]]) -> str:
    for partition, found in offsets.items():
        if found != list(range(len(found))):
            raise DemoFailed(f"{what}: the offsets of partition {partition} are not dense from 0: {found[:10]}…")
    return f"dense from 0, {len(offsets)} partitions"


def _count(log: Log) -> int:
    return sum(map(len, log.values()))


def table(rows: Iterable[Row]) -> str:
    """The rows under their header."""
    return "\n".join([HEADER, *map(str, rows)])
