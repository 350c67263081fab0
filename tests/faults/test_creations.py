"""Topics are created and written while other clients list all there are, again and again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.support.bridges import BridgeChild

LISTING = 4
TOPICS = 40
TIMEOUT_SECONDS = 30


@contextmanager
def listing(bootstrap: str) -> Iterator[list[int]]:
    """Clients that list and describe in tight loops; how many times each has."""
    over, counts = threading.Event(), [0] * LISTING
    failed: list[Exception] = []

    def keep_listing(number: int) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        try:
            while not over.is_set():
                topics = list(admin.list_topics(timeout=TIMEOUT_SECONDS).topics)[:20]
                wanted = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
                for found in admin.describe_configs(wanted, request_timeout=TIMEOUT_SECONDS).values() if wanted else ():
                    found.exception(TIMEOUT_SECONDS)  # it may be gone since
                counts[number] += 1
        except Exception as error:  # noqa: BLE001 — told below
            failed.append(error)

    threads = [threading.Thread(target=keep_listing, args=(number,)) for number in range(LISTING)]
    for thread in threads:
        thread.start()
    try:
        yield counts
    finally:
        over.set()
        for thread in threads:
            thread.join(TIMEOUT_SECONDS)
    assert not failed, failed


def write(bootstrap: str, topics: list[str]) -> dict[str, str]:
    """A record to each; the topics that refused theirs, and why."""
    refused: dict[str, str] = {}
    left = set(topics)

    def done(error: KafkaError | None, message: Message) -> None:
        topic = message.topic()
        assert topic is not None
        left.discard(topic)
        if error is not None:
            refused[topic] = str(error)

    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": TIMEOUT_SECONDS * 1000, "log_level": 0})
    for topic in topics:
        producer.produce(topic, b"value", on_delivery=done)
    producer.flush(2 * TIMEOUT_SECONDS)
    return refused | dict.fromkeys(left, "no outcome")


def test_every_topic_that_is_created_can_be_written_while_others_list(bridge_child: BridgeChild) -> None:
    admin = AdminClient({"bootstrap.servers": bridge_child.kafka})
    kept: list[str] = []
    with listing(bridge_child.kafka) as counts:
        for number in range(TOPICS):
            topic = f"made-{number}"
            admin.create_topics([NewTopic(topic, 1 + number % 3, 1)])[topic].result(TIMEOUT_SECONDS)
            assert not write(bridge_child.kafka, [topic])
            if number % 4 == 3:  # and some go again
                admin.delete_topics([topic])[topic].result(TIMEOUT_SECONDS)
            else:
                kept.append(topic)
        before = list(counts)
    assert min(before) > 0, "the other clients have listed nothing"
    assert not write(bridge_child.kafka, kept)
