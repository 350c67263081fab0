"""A copy holds what its source holds, under live writes and kills, and consumers go on exactly where they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from bridge.pipeline.endpoint import KafkaEndpoint
from bridge.pipeline.options import EndpointOptions
from tests.pipeline.contents import by_partition, contents
from tests.pipeline.copying import commit, next_values, words
from tests.pipeline.running import JobProcess, run_job, until_written
from tests.pipeline.samples import filled, new_topic, varied, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = varied(600)


@pytest.mark.parametrize(("source", "target"), [("at_kafka", "at_bridge"), ("at_bridge", "at_kafka")])
def test_copies_either_way_and_translates_groups(
    spark: SparkSession, request: pytest.FixtureRequest, source: str, target: str, tmp_path: Path
) -> None:
    here: EndpointOptions = request.getfixturevalue(source)
    there: EndpointOptions = request.getfixturevalue(target)
    topic, group = filled(here.bootstrap, SAMPLES), f"g-{uuid4().hex[:8]}"
    commit(here, group, topic, {0: 17, 1: 200, 2: 0})
    job = words(here, there, topic, "--offset-map", str(tmp_path / "map"), "--groups", group, "--chunk", "400")
    copied = run_job(spark, *job)
    assert (copied.code, copied.report["written"]) == (0, 600)
    assert contents(spark, there, topic) == by_partition(SAMPLES)
    assert copied.report["groups"] == {group: {f"{topic}/0": [17, 17], f"{topic}/1": [200, 200], f"{topic}/2": [0, 0]}}
    expected = next_values(here, group, topic, (0, 2))
    assert next_values(there, group, topic, (0, 2)) == expected
    again = run_job(spark, *job)
    assert (again.code, again.report["written"]) == (0, 0)
    rows = spark.read.parquet(f"{tmp_path}/map/offsets").orderBy("source_partition").collect()
    assert [tuple(row) for row in rows] == [(topic, p, 0, 200, topic, p, 0) for p in range(3)]


def test_what_was_aborted_is_not_copied_and_every_offset_is_translated(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions, tmp_path: Path
) -> None:
    topic, group = new_topic(at_kafka.bootstrap, 1), f"g-{uuid4().hex[:8]}"
    settings = {"bootstrap.servers": at_kafka.bootstrap, "transactional.id": topic}
    producer = Producer(settings)
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for record in range(5):
            producer.produce(topic, f"{number}.{record}".encode(), partition=0)
        if number % 3 == 1:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    with KafkaEndpoint(at_kafka) as asked:
        (end,) = [held.latest for held in asked.bounds([topic]).values()]
    assert end == 6 * 6  # each transaction ends with a marker
    commit(at_kafka, group, topic, {0: end})
    copied = run_job(
        spark, *words(at_kafka, at_bridge, topic, "--offset-map", str(tmp_path / "map"), "--groups", group)
    )
    assert (copied.code, copied.report["written"]) == (0, 20)
    assert copied.report["groups"][group] == {f"{topic}/0": [36, 20]}

    values = [sample.value for sample in contents(spark, at_bridge, topic)]
    assert values == [f"{n}.{r}".encode() for n in (0, 2, 3, 5) for r in range(5)]
    rows = spark.read.parquet(f"{tmp_path}/map/offsets").orderBy("source_start").collect()
    assert [(row.source_start, row.source_until, row.target_start) for row in rows] == [
        (0, 5, 0), (12, 17, 5), (18, 23, 10), (30, 35, 15),
    ]  # fmt: skip


def test_a_copy_under_live_writes_and_a_kill_is_whole_at_the_cut_over(
    spark: SparkSession,
    at_kafka: EndpointOptions,
    at_bridge: EndpointOptions,
    start_job: Callable[..., JobProcess],
) -> None:
    batches = [varied(3000, first=first) for first in range(0, 12_000, 3000)]
    topic, group = filled(at_kafka.bootstrap, batches[0]), f"g-{uuid4().hex[:8]}"
    job = words(at_kafka, at_bridge, topic, "--chunk", "2000")
    following = start_job(*job, "--follow", "0.2")
    until_written(at_bridge, topic, 1, following)
    write(at_kafka.bootstrap, topic, batches[1])
    until_written(at_bridge, topic, 3001, following)
    following.kill()
    write(at_kafka.bootstrap, topic, batches[2])
    following = start_job(*job, "--follow", "0.2")
    until_written(at_bridge, topic, 6001, following)
    write(at_kafka.bootstrap, topic, batches[3])
    until_written(at_bridge, topic, 12_000, following)
    following.interrupt()
    assert following.finish() == 0
    commit(at_kafka, group, topic, {0: 3999, 1: 1234, 2: 4000})
    last = run_job(spark, *job, "--groups", group)
    assert (last.code, last.report["written"]) == (0, 0)
    assert contents(spark, at_bridge, topic) == by_partition([sample for batch in batches for sample in batch])
    assert next_values(at_bridge, group, topic, (0, 1)) == next_values(at_kafka, group, topic, (0, 1))


def test_what_does_not_fit_is_refused(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions, tmp_path: Path
) -> None:
    topic = filled(at_kafka.bootstrap, SAMPLES[:30])
    onto_itself = run_job(None, *words(at_kafka, at_kafka, topic))
    assert (onto_itself.code, "same cluster" in onto_itself.error) == (2, True)
    small = new_topic(at_bridge.bootstrap, 2)
    assert "has 2 partitions" in run_job(None, *words(at_kafka, at_bridge, topic, "--map", f"{topic}={small}")).error
    assert run_job(None, *words(at_kafka, at_bridge, topic, "--map", "other=x")).code == 2
    (tmp_path / "theirs.txt").write_text("theirs")
    foreign = run_job(spark, *words(at_kafka, at_bridge, topic, "--offset-map", str(tmp_path)))
    assert (foreign.code, "no offset map" in foreign.error) == (2, True)
    with KafkaEndpoint(at_bridge) as asked:
        assert topic not in asked.topics()


def test_a_group_ahead_of_the_copy_is_not_translated(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions
) -> None:
    topic, group = filled(at_kafka.bootstrap, SAMPLES[:30]), f"g-{uuid4().hex[:8]}"
    commit(at_kafka, group, topic, {0: 9})
    until = f'{{"{topic}": {{"0": 5, "1": 5, "2": 5}}}}'
    ahead = run_job(spark, *words(at_kafka, at_bridge, topic, "--to", until, "--groups", group))
    assert (ahead.code, "only 5 is copied" in ahead.error) == (2, True)
    with KafkaEndpoint(at_bridge) as asked:
        assert asked.committed(group) == {}
