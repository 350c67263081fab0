"""A bridge that serves topics, and `bridge import kop` run on it."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.cli.kop.moving import move
from bridge.cli.parser import make_parser
from bridge.config import Settings
from bridge.pulsar import Admin, PulsarClient
from bridge.telemetry.metrics import Metrics
from tests.cli.kop.kop_log import Sent, create, java_partition, write
from tests.support.bridges import BridgeThread, settings_for
from tests.support.pulsar import PulsarAddress

PARTITIONS, RECORDS = 4, 20


@asynccontextmanager
async def opened(pulsar: PulsarAddress) -> AsyncIterator[tuple[PulsarClient, Admin]]:
    """Pulsar's two sides."""
    settings = settings_for(pulsar, "public/default").pulsar
    client, admin = PulsarClient(settings, Metrics().pulsar), Admin(settings)
    await admin.start()
    await client.start()
    try:
        yield client, admin
    finally:
        await client.close()
        await admin.close()


async def leave(pulsar: PulsarAddress, namespace: str, logs: dict[int, list[Sent]], batched: int = 1) -> None:
    """`__consumer_offsets` with these messages in its partitions."""
    async with opened(pulsar) as (client, admin):
        topic = await create(admin, namespace)
        for partition, sent in logs.items():
            await write(client, topic, partition, sent, batched)


def by_partition(*sent: tuple[str, Sent]) -> dict[int, list[Sent]]:
    """Messages of groups, each in the partition of its group."""
    logs: dict[int, list[Sent]] = {}
    for group, one in sent:
        logs.setdefault(java_partition(group), []).append(one)
    return logs


def left_by(pulsar: PulsarAddress, *sent: tuple[str, Sent]) -> str:
    """A metadata namespace of a KoP that wrote these messages of groups."""
    namespace = pulsar.create_namespace()
    asyncio.run(leave(pulsar, namespace, by_partition(*sent)))
    return namespace


def make_topic(bridge: BridgeThread, name: str, **login: str) -> None:
    """A topic with records in all its partitions."""
    settings = {"bootstrap.servers": bridge.kafka, **login}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    producer = confluent_kafka.Producer(settings)
    for number in range(RECORDS):
        for partition in range(PARTITIONS):
            producer.produce(name, b"%d" % number, partition=partition)
    assert producer.flush(60) == 0


def run(bridge: BridgeThread, left: str, *options: str, exit_code: int = 0, settings: Settings | None = None) -> str:
    """What the command prints."""
    out = io.StringIO()
    line = ["import", "kop", "--bootstrap", bridge.kafka, "--metadata-namespace", left, *options]
    assert move(settings or bridge.settings, make_parser().parse_args(line), out) == exit_code
    return out.getvalue()
