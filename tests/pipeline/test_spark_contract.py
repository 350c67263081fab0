"""What Spark's own connector makes of an endpoint, with nothing of ours between; a real Kafka must pass the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bridge.node.orphans import Guard
from bridge.pipeline.options import EndpointOptions
from tests.clients.transactions.confluent import ConfluentProducer
from tests.pipeline.samples import Sample, filled, new_topic, write
from tests.support.bridges import BridgeChild, settings_for
from tests.support.pulsar import PulsarAddress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = 3000
UNLOADS = 4
MANY = 20_000


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A real Kafka is the control of `make test-clients`."""
    if "endpoint" in metafunc.fixturenames:
        control = ["at_kafka"] if metafunc.config.getoption("--control", default=False) else []
        metafunc.parametrize("endpoint", ["at_bridge", *control], indirect=True, scope="module")


@pytest.fixture(scope="module")
def endpoint(request: pytest.FixtureRequest) -> EndpointOptions:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def topic(endpoint: EndpointOptions) -> str:
    return filled(endpoint.bootstrap, samples(0, RECORDS), 1)


def samples(start: int, until: int) -> list[Sample]:
    return [Sample(0, None, b"%d" % number, 1_700_000_000_000 + number) for number in range(start, until)]


def options(bootstrap: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafkaConsumer.pollTimeoutMs": "30000",
    }


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in frame.select("offset").collect())


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_partition_is_cut_into_even_parts(
    spark: SparkSession, endpoint: EndpointOptions, topic: str, isolation: str
) -> None:
    given = {**options(endpoint.bootstrap, topic), "minPartitions": "8", "kafka.isolation.level": isolation}
    frame = spark.read.format("kafka").options(**given).load()
    assert frame.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect() == [RECORDS // 8] * 8
    assert offsets(frame) == list(range(RECORDS))


def test_committed_records_are_read_up_to_an_aborted_end(
    spark: SparkSession, endpoint: EndpointOptions, tmp_path: Path
) -> None:
    topic = new_topic(endpoint.bootstrap, 1)
    producer = ConfluentProducer(endpoint.bootstrap, f"{topic}-writer")
    committed: list[str] = []

    def write_some() -> None:
        for end, commits in (("committed", True), ("aborted", False)):
            values = [f"{end} {number}" for number in range(100)]
            producer.begin()
            producer.send(topic, values)
            if commits:
                producer.commit()
                committed.extend(values)
            else:
                producer.abort()

    given = {**options(endpoint.bootstrap, topic), "kafka.isolation.level": "read_committed"}
    streamed: list[str] = []

    def take(frame: DataFrame, _: int) -> None:
        streamed.extend(values(frame))

    for _ in range(2):
        write_some()
        assert values(spark.read.format("kafka").options(**given).load()) == committed
        stream = (
            spark.readStream.format("kafka").options(**given, maxOffsetsPerTrigger="70")
            .load().writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        assert stream.awaitTermination(120)
        assert streamed == committed
    producer.close()


def values(frame: DataFrame) -> list[str]:
    return [bytes(row["value"]).decode() for row in frame.orderBy("offset").select("value").collect()]


def test_a_range_of_times(spark: SparkSession, endpoint: EndpointOptions, topic: str) -> None:
    times = {
        "startingTimestamp": str(1_700_000_000_000 + 700),
        "endingTimestamp": str(1_700_000_000_000 + 1900),
    }
    frame = spark.read.format("kafka").options(**options(endpoint.bootstrap, topic), **times).load()
    assert offsets(frame) == list(range(700, 1900))


def test_a_stream_takes_what_it_is_allowed_and_goes_on_where_it_stopped(
    spark: SparkSession, endpoint: EndpointOptions, tmp_path: Path
) -> None:
    topic = filled(endpoint.bootstrap, samples(0, RECORDS), 1)
    seen: list[tuple[int, list[int]]] = []

    def take(frame: DataFrame, batch: int) -> None:
        seen.append((batch, offsets(frame)))

    def run() -> None:
        stream = (
            spark.readStream.format("kafka").options(**options(endpoint.bootstrap, topic), maxOffsetsPerTrigger="1000")
            .load().writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        assert stream.awaitTermination(120)

    run()
    assert seen == [(batch, list(range(1000 * batch, 1000 * (batch + 1)))) for batch in range(3)]
    write(endpoint.bootstrap, topic, samples(RECORDS, RECORDS + 10))
    run()
    assert seen[3:] == [(3, list(range(RECORDS, RECORDS + 10)))]


def test_what_spark_writes_it_reads(spark: SparkSession, endpoint: EndpointOptions) -> None:
    topic = new_topic(endpoint.bootstrap, 3)
    rows = [
        (number % 3, key, value, headers)
        for number, (key, value, headers) in enumerate(
            (key, value, headers)
            for key in (None, b"", b"\xff")
            for value in (None, b"", b"\xfe")
            for headers in (None, [("a", None), ("a", b""), ("b", b"\x00")])
        )
    ]
    schema = "partition int, key binary, value binary, headers array<struct<key: string, value: binary>>"
    given = {"kafka.bootstrap.servers": endpoint.bootstrap, "topic": topic}
    spark.createDataFrame(rows, schema).coalesce(1).write.format("kafka").options(**given).save()
    frame = spark.read.format("kafka").options(**options(endpoint.bootstrap, topic), includeHeaders="true").load()
    found = [plain(row) for row in frame.orderBy("partition", "offset").collect()]
    assert found == sorted(rows, key=lambda row: row[0])


def plain(row: Any) -> tuple[Any, ...]:
    headers = row.headers and [(each.key, None if each.value is None else bytes(each.value)) for each in row.headers]
    key, value = (None if field is None else bytes(field) for field in (row.key, row.value))
    return row.partition, key, value, headers


def test_a_topic_that_is_not_there_is_an_error(spark: SparkSession, endpoint: EndpointOptions) -> None:
    given = {"kafka.bootstrap.servers": endpoint.bootstrap, "assign": json.dumps({"no-such-topic": [0]})}
    with pytest.raises(Exception, match=r"(?i)unknown.*topic"):
        spark.read.format("kafka").options(**given).load().count()


def test_topics_that_are_unloaded_while_they_are_written_get_each_record_once_and_in_order(
    spark: SparkSession, bridge_child: BridgeChild, pulsar: PulsarAddress
) -> None:
    topic = new_topic(bridge_child.kafka, 2)
    path = f"persistent/{bridge_child.namespace}/{topic}-partition"
    address = PulsarAddress(pulsar.service_url, pulsar.admin_url)  # without the process, which stays here

    def records(partition: int, rows: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        for number in range(MANY):
            if number % (MANY // UNLOADS) == MANY // UNLOADS // 2:
                address.admin("PUT", f"{path}-{partition}/unload")
            yield partition, b"%06d " % number + b"x" * 200

    made = spark.sparkContext.parallelize([0, 1], 2).mapPartitionsWithIndex(records)
    frame = spark.createDataFrame(made, "partition int, value binary", verifySchema=False)
    frame.write.format("kafka").options(**{"kafka.bootstrap.servers": bridge_child.kafka, "topic": topic}).save()
    assert numbers(spark, bridge_child.kafka, topic) == {0: list(range(MANY)), 1: list(range(MANY))}


def test_topics_that_are_unloaded_while_they_are_read_give_each_record_once_and_in_order(
    spark: SparkSession, bridge_child: BridgeChild, pulsar: PulsarAddress, guard: Guard, tmp_path: Path
) -> None:
    rows = [Sample(at % 2, None, b"%06d " % (at // 2) + b"x" * 200, 1_700_000_000_000 + at) for at in range(2 * MANY)]
    topic = filled(bridge_child.kafka, rows, 2)
    path = f"persistent/{bridge_child.namespace}/{topic}-partition"
    address = PulsarAddress(pulsar.service_url, pulsar.admin_url)  # without the process, which stays here
    # a bridge that has none of it in memory
    cold = BridgeChild(settings_for(pulsar, bridge_child.namespace), tmp_path, guard)
    cold.start()

    def unloading(rows: Iterable[Any]) -> Iterator[tuple[int, int]]:
        for row in rows:
            if row.offset % (MANY // UNLOADS) == MANY // UNLOADS // 2:
                address.admin("PUT", f"{path}-{row.partition}/unload")
            yield row.partition, int(bytes(row.value).split()[0])

    try:
        small = {"kafka.max.poll.records": "100", "kafka.max.partition.fetch.bytes": "65536"}
        frame = spark.read.format("kafka").options(**options(cold.kafka, topic), **small).load()
        found: dict[int, list[int]] = {0: [], 1: []}
        for partition, number in frame.rdd.mapPartitions(unloading).collect():
            found[partition].append(number)
        assert found == {0: list(range(MANY)), 1: list(range(MANY))}
    finally:
        cold.kill()


def numbers(spark: SparkSession, bootstrap: str, topic: str) -> dict[int, list[int]]:
    frame = spark.read.format("kafka").options(**options(bootstrap, topic)).load()
    found: dict[int, list[int]] = {0: [], 1: []}
    for row in frame.selectExpr("partition", "offset", "value").orderBy("partition", "offset").collect():
        assert row.offset == len(found[row.partition])
        found[row.partition].append(int(bytes(row.value).split()[0]))
    return found
