"""A copy's command line, and groups of ordinary clients on both sides of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridge.pipeline.options import EndpointOptions

_STARTING = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


def words(source: EndpointOptions, target: EndpointOptions, topic: str, *more: str) -> list[str]:
    return ["copy", "--source", source.bootstrap, "--target", target.bootstrap, "--topics", topic, *more]


def commit(endpoint: EndpointOptions, group: str, topic: str, offsets: dict[int, int]) -> None:
    with closing(Consumer({"bootstrap.servers": endpoint.bootstrap, "group.id": group})) as consumer:
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        for _ in range(100):  # a Kafka that has just started says at once that it has no coordinator yet
            try:
                consumer.commit(offsets=places, asynchronous=False)
                return
            except KafkaException as error:
                assert error.args[0].code() in _STARTING, error
    raise AssertionError("no coordinator was found")


def next_values(
    endpoint: EndpointOptions, group: str, topic: str, partitions: Iterable[int]
) -> dict[int, bytes | None]:
    """What a member of the group reads next in each partition."""
    settings = {"bootstrap.servers": endpoint.bootstrap, "group.id": group, "auto.offset.reset": "error"}
    found: dict[int, bytes | None] = {}
    with closing(Consumer(settings)) as consumer:
        for partition in partitions:
            consumer.assign([TopicPartition(topic, partition)])  # from where the group has committed
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None, message.error()
            found[partition] = message.value()
    return found
