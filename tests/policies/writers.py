"""The idempotent producers of three clients, by default settings: where records went, or the error they ended with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import confluent_kafka
import kafka
from kafka.errors import KafkaError

from tests.clients.endpoint import Clients
from tests.clients.model import Draft, Refused

Outcome = list[int] | int
"""The offsets, or Kafka's error code."""
Writer = Callable[[Clients, str, Sequence[bytes]], Outcome]


def librdkafka(clients: Clients, topic: str, values: Sequence[bytes]) -> Outcome:
    """confluent-kafka; it takes records together for 50 ms, so they are one batch."""
    told: list[tuple[confluent_kafka.KafkaError | None, int]] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": clients.endpoint.kafka, "enable.idempotence": True, "linger.ms": 50}
    )
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, done: told.append((error, done.offset())))
    assert producer.flush(60) == 0
    errors = [error.code() for error, _ in told if error is not None]
    return errors[0] if errors else [offset for _, offset in told]


def kafka_python(clients: Clients, topic: str, values: Sequence[bytes]) -> Outcome:
    """kafka-python; likewise."""
    producer = kafka.KafkaProducer(bootstrap_servers=clients.endpoint.kafka, linger_ms=50, enable_idempotence=True)
    try:
        sent = [producer.send(topic, value, partition=0) for value in values]
        return [one.get(60).offset for one in sent]
    except KafkaError as error:
        return int(error.errno)
    finally:
        producer.close()


def java(clients: Clients, topic: str, values: Sequence[bytes]) -> Outcome:
    """kafka-clients."""
    drafts = [Draft(str(number), value) for number, value in enumerate(values)]
    try:
        return [one.offset for one in clients["java"].write(topic, drafts)]
    except Refused as refused:
        return refused.code


WRITERS: dict[str, Writer] = {"java": java, "librdkafka": librdkafka, "kafka-python": kafka_python}
