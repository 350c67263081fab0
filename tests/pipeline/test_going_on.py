"""A copy goes on where both logs were last the same: after kills, home again, and beside one in the other direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.pipeline.endpoint import Committed, KafkaEndpoint
from bridge.pipeline.errors import DataLoss
from bridge.pipeline.frames import kafka_frame
from bridge.pipeline.jars import connector_jars
from bridge.pipeline.moves.appending import Appender, Source
from bridge.pipeline.moves.checkpoints import checkpoint_of, group_of
from bridge.pipeline.options import Appending, EndpointOptions
from bridge.pipeline.ranges import Partition, TopicRange
from tests.pipeline.contents import by_partition, contents
from tests.pipeline.copying import commit, next_values, words
from tests.pipeline.running import JobProcess, run_job, until_written
from tests.pipeline.samples import Sample, filled, new_topic, varied, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = range(3)


def batch(first: int, count: int = 300) -> list[Sample]:
    return varied(count, first=first)


def cluster_id(endpoint: EndpointOptions) -> str | None:
    with KafkaEndpoint(endpoint) as asked:
        return asked.cluster_id()


def forget(endpoint: EndpointOptions, group: str, topic: str) -> None:
    """As when a group's offsets have expired: what is committed is nobody's checkpoint."""
    with KafkaEndpoint(endpoint) as asked:
        asked.commit(group, {Partition(topic, number): Committed(0, "") for number in PARTITIONS})


def both_hold(spark: SparkSession, sides: Sequence[EndpointOptions], topic: str, samples: Sequence[Sample]) -> None:
    for side in sides:
        assert contents(spark, side, topic) == by_partition(list(samples))


def test_home_and_there_again_with_writers_at_both_in_turn(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions
) -> None:
    topic, sides = filled(at_kafka.bootstrap, batch(0)), (at_kafka, at_bridge)
    there, home = words(at_kafka, at_bridge, topic), words(at_bridge, at_kafka, topic)
    assert run_job(spark, *there).report["written"] == 300
    for turn, (where, job) in enumerate([(at_bridge, home), (at_bridge, home), (at_kafka, there), (at_bridge, home)]):
        write(where.bootstrap, topic, batch(300 * (turn + 1)))
        ended = run_job(spark, *job)
        assert (ended.code, ended.report["written"]) == (0, 300)
        assert run_job(spark, *job).report["written"] == 0
        both_hold(spark, sides, topic, batch(0, 300 * (turn + 2)))


def test_a_way_home_without_any_checkpoint_compares_both_logs(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions
) -> None:
    topic = filled(at_kafka.bootstrap, batch(0))
    assert run_job(spark, *words(at_kafka, at_bridge, topic)).code == 0
    forget(at_bridge, group_of(cluster_id(at_kafka)), topic)
    write(at_bridge.bootstrap, topic, batch(300))
    ended = run_job(spark, *words(at_bridge, at_kafka, topic))
    assert (ended.code, ended.report["written"]) == (0, 300)
    both_hold(spark, (at_kafka, at_bridge), topic, batch(0, 600))


def test_a_way_home_is_refused_while_something_is_not_copied_there(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions
) -> None:
    topic = filled(at_kafka.bootstrap, batch(0))
    assert run_job(spark, *words(at_kafka, at_bridge, topic)).code == 0
    write(at_kafka.bootstrap, topic, batch(300, 30))
    write(at_bridge.bootstrap, topic, batch(600, 30))
    for job in (words(at_bridge, at_kafka, topic), words(at_kafka, at_bridge, topic)):
        ended = run_job(spark, *job)
        assert (ended.code, "another writer has written behind" in ended.error) == (3, True), ended.error
    assert contents(spark, at_kafka, topic) == by_partition(batch(0, 330))


def test_a_way_home_that_is_killed_brings_each_record_once(
    spark: SparkSession,
    at_kafka: EndpointOptions,
    at_bridge: EndpointOptions,
    start_job: Callable[..., JobProcess],
) -> None:
    topic = filled(at_kafka.bootstrap, batch(0))
    assert run_job(spark, *words(at_kafka, at_bridge, topic)).code == 0
    write(at_bridge.bootstrap, topic, batch(300, 12_000))
    home = words(at_bridge, at_kafka, topic, "--chunk", "5000")
    for until, kill in ((400, JobProcess.kill), (6000, JobProcess.kill_all)):
        process = start_job(*home)
        until_written(at_kafka, topic, until, process)
        kill(process)
    assert run_job(spark, *home).code == 0
    both_hold(spark, (at_kafka, at_bridge), topic, batch(0, 12_300))
    assert run_job(spark, *home).report["written"] == 0


def test_a_chunk_that_was_written_and_not_noted_is_not_written_again(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions
) -> None:
    """The schedule of a kill: what the chunk had sent is there in part, and its checkpoint is that of its beginning."""
    topic, target = filled(at_kafka.bootstrap, batch(0)), new_topic(at_bridge.bootstrap)
    job = words(at_kafka, at_bridge, topic, "--map", f"{topic}={target}")
    assert run_job(spark, *job, "--to", json_offsets(topic, 10)).code == 0
    group = group_of(cluster_id(at_kafka))
    with KafkaEndpoint(at_bridge) as asked:
        begun = {
            Partition(target, number): Committed(10, f'{{"topic": "{topic}", "offset": 10, "until": 60}}')
            for number in PARTITIONS
        }
        asked.commit(group, begun)
    arrived = [sample for sample in batch(0) if sample.partition < 2][20:70]
    write(at_bridge.bootstrap, target, arrived)
    ended = run_job(spark, *job)
    assert (ended.code, ended.report["written"]) == (0, 300 - 30 - 50)
    assert contents(spark, at_bridge, target) == by_partition(batch(0))


def test_two_that_copy_there_and_back_at_once_are_refused(
    spark: SparkSession,
    at_kafka: EndpointOptions,
    at_bridge: EndpointOptions,
    start_job: Callable[..., JobProcess],
) -> None:
    topic = filled(at_kafka.bootstrap, batch(0))
    following = start_job(*words(at_kafka, at_bridge, topic, "--follow", "0.2"))
    until_written(at_bridge, topic, 300, following)
    ended = run_job(spark, *words(at_bridge, at_kafka, topic))
    assert (ended.code, f"copies between {topic} and {topic}" in ended.error) == (2, True), ended.error
    following.interrupt()
    assert following.finish() == 0


def test_there_is_no_loop_where_no_lock_prevents_it(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions
) -> None:
    """On two machines: while one copies home, another one copies there what was written at the Kafka meanwhile."""
    topic = filled(at_kafka.bootstrap, batch(0))
    there, home = words(at_kafka, at_bridge, topic), words(at_bridge, at_kafka, topic)
    assert run_job(spark, *there).code == 0
    source = Source(cluster_id(at_bridge), partial(kafka_frame, spark, at_bridge))
    running = Appender(spark, source, at_kafka, {topic: topic}, Appending())
    with KafkaEndpoint(at_bridge) as asked, KafkaEndpoint(at_kafka) as other:
        back = {
            key: found
            for key, each in asked.committed(group_of(other.cluster_id())).items()
            if key.topic == topic and (found := checkpoint_of(key, each)) is not None
        }
        resumed = running.resume([], asked.bounds([topic]), back)
    assert resumed == {Partition(topic, number): 100 for number in PARTITIONS}
    write(at_kafka.bootstrap, topic, batch(300))
    assert run_job(spark, *there).report["written"] == 300
    with pytest.raises(DataLoss, match="ends at 200 instead of 100: another writer writes to it"):
        running.append([TopicRange(topic, 0, 100, 200)])
    for job in (home, there):
        ended = run_job(spark, *job)
        assert (ended.code, ended.report["written"]) == (0, 0)
    both_hold(spark, (at_kafka, at_bridge), topic, batch(0, 600))


def test_groups_go_home_to_their_place_wherever_they_are(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions, tmp_path: Path
) -> None:
    """The Kafka's log has gaps: markers of transactions."""
    topic, group = new_topic(at_kafka.bootstrap), "g-" + tmp_path.name
    producer = Producer({"bootstrap.servers": at_kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for first in range(0, 300, 30):
        producer.begin_transaction()
        for each in batch(first, 30):
            headers = list(each.headers)
            producer.produce(topic, each.value, each.key, each.partition, timestamp=each.timestamp, headers=headers)
        producer.commit_transaction(30)
    assert run_job(spark, *words(at_kafka, at_bridge, topic)).code == 0
    write(at_bridge.bootstrap, topic, batch(300))
    commit(at_bridge, group, topic, {0: 35, 1: 150, 2: 200})
    kept = str(tmp_path / "map")
    ended = run_job(spark, *words(at_bridge, at_kafka, topic, "--groups", group, "--offset-map", kept))
    assert ended.code == 0
    # ten transactions of ten records a partition, and ten markers
    assert ended.report["groups"][group] == {f"{topic}/0": [35, 38], f"{topic}/1": [150, 160], f"{topic}/2": [200, 210]}
    both_hold(spark, (at_kafka, at_bridge), topic, batch(0, 600))
    assert next_values(at_kafka, group, topic, (0, 1)) == next_values(at_bridge, group, topic, (0, 1))


def test_a_signal_ends_it_behind_a_chunk_and_its_progress_is_noted(
    spark: SparkSession,
    at_kafka: EndpointOptions,
    at_bridge: EndpointOptions,
    start_job: Callable[..., JobProcess],
) -> None:
    topic = filled(at_kafka.bootstrap, batch(0, 9000))
    job = words(at_kafka, at_bridge, topic, "--jars", str(connector_jars()[0].parent))
    process = start_job(*job, "--chunk", "150")  # so many of them that it is not through when it is told to end
    process.wait_for(lambda event: event["event"] == "progress")
    process.interrupt()
    assert process.finish() == 130
    group = group_of(cluster_id(at_kafka))
    with KafkaEndpoint(at_bridge) as asked:
        ends = asked.ends([Partition(topic, number) for number in PARTITIONS])
        noted = {key: each.offset for key, each in asked.committed(group).items() if key.topic == topic}
    assert noted == ends
    assert all(end % 50 == 0 for end in ends.values())
    assert run_job(spark, *job).report["written"] == 9000 - sum(ends.values())
    both_hold(spark, (at_kafka, at_bridge), topic, batch(0, 9000))


def test_what_an_older_release_has_begun_is_gone_on_with(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions
) -> None:
    """It wrote headers and no checkpoints."""
    topic = filled(at_kafka.bootstrap, batch(0))
    job = words(at_kafka, at_bridge, topic)
    assert run_job(spark, *job, "--to", json_offsets(topic, 40), "--headers", "--timestamps", "now").code == 0
    forget(at_bridge, group_of(cluster_id(at_kafka)), topic)
    ended = run_job(spark, *job)
    assert (ended.code, ended.report["written"]) == (0, 300 - 3 * 40)
    compared = run_job(spark, "reconcile", "--a", at_kafka.bootstrap, "--b", at_bridge.bootstrap, "--topics", topic)
    assert (compared.code, compared.report["verdict"]) == (0, "identical")


def test_large_records_leave_gaps_at_the_bridge_and_nothing_is_taken_for_anothers(
    spark: SparkSession, at_kafka: EndpointOptions, at_bridge: EndpointOptions, tmp_path: Path
) -> None:
    """Above Pulsar's maxMessageSize they are stored in chunks."""
    topic = f"large-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": at_kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "8000000"})])[topic].result(30)
    large = b"x" * 6_000_000
    values = [b"first", large, b"between", large, b"last"]
    producer = Producer({"bootstrap.servers": at_kafka.bootstrap, "message.max.bytes": 8_000_000})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    group = "g-" + tmp_path.name
    commit(at_kafka, group, topic, {0: 4})
    job = words(at_kafka, at_bridge, topic, "--groups", group)
    assert run_job(spark, *job).report["written"] == 5
    assert [each.value for each in contents(spark, at_bridge, topic)] == values
    assert next_values(at_bridge, group, topic, (0,)) == {0: b"last"}
    assert run_job(spark, *job).report["written"] == 0


def json_offsets(topic: str, until: int) -> str:
    inner = ", ".join(f'"{number}": {until}' for number in PARTITIONS)
    return f'{{"{topic}": {{{inner}}}}}'
