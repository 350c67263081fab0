"""The stand-in takes records and stores none, and all else is Pulsar's."""

from __future__ import annotations

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench import apart
from bench.stub_rounds import PARTITIONS, PREFIX, stub
from bench.workers import Workers
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress

SECONDS = 30.0


def test_workers_append_there_with_true_offsets_and_pulsar_sees_no_entry(pulsar: PulsarAddress) -> None:
    namespace = pulsar.create_namespace()
    topic = f"{PREFIX}t"
    with stub(pulsar.service_url) as (url, _):
        behind = PulsarAddress(url, pulsar.admin_url)
        with Workers(settings_for(behind, namespace, {"kafka": {"workers": 2, "worker_port": 0}})) as workers:
            admin = AdminClient({"bootstrap.servers": workers.bootstrap})
            admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(SECONDS)
            assert offsets(workers.bootstrap, topic) == list(range(100))
            options = {"bootstrap": workers.bootstrap, "topic": topic, "size": 16 * 1024, "seconds": 0.3}
            with apart.started("light_producer", **options) as client:
                assert client.result()["megabytes"] > 0
            stats = pulsar.admin("GET", f"persistent/{namespace}/{topic}-partition-0/internalStats")
            assert isinstance(stats, dict) and stats["entriesAddedCounter"] == 0


def offsets(bootstrap: str, topic: str) -> list[int | None]:
    """Of a hundred records in one partition, as they were acknowledged."""
    found: list[int | None] = []

    def told(error: object, message: Message) -> None:
        assert error is None
        found.append(message.offset())

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    for number in range(100):
        producer.produce(topic, f"{number}".encode(), partition=0, on_delivery=told)
        producer.poll(0.001)
    assert producer.flush(SECONDS) == 0
    return found
