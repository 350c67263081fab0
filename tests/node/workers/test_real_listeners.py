"""Two workers with two listeners before a real Pulsar: addresses, log-in, TLS, metrics and quotas of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, ThrottleEvent
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import alter_client_quotas, describe_client_quotas
from bridge.cli.users import add
from bridge.config import Settings
from bridge.node.workers.http_get import get
from bridge.node.workers.supervisor import Supervisor
from bridge.standalone.ports import HOST
from tests.apis.wire import ask_at
from tests.node.workers.members import until_members
from tests.support.bridges import settings_for
from tests.support.certificates import Authority
from tests.support.pulsar import PulsarAddress

SECONDS = 60.0
_PASSWORD = "right"  # noqa: S105
PARTITIONS = 8
INSIDE, OUTSIDE = "INSIDE", "SASL_SSL"


class Site:
    """What clients of each listener are told, and the supervisor behind."""

    def __init__(self, supervisor: Supervisor, authority: str) -> None:
        self.supervisor = supervisor
        self._authority = authority

    def config(self, listener: str, password: str = _PASSWORD) -> dict[str, Any]:
        """As librdkafka is told."""
        # by name: the certificate is checked with it
        at = {"bootstrap.servers": f"localhost:{self.supervisor.ports[listener]}", "broker.address.family": "v4"}
        login = {
            "security.protocol": "SASL_SSL", "ssl.ca.location": self._authority, "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice", "sasl.password": password,
        }  # fmt: skip
        return at | login if listener == OUTSIDE else at

    def own_ports(self, listener: str) -> list[int]:
        return [worker.ready.ports[listener] for worker in self.supervisor.workers if worker.ready is not None]

    async def admin(self, topic: str) -> AdminClient:
        """One by which this topic was created."""
        admin = AdminClient(self.config(INSIDE))
        await asyncio.to_thread(admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result, SECONDS)
        return admin


@pytest.fixture
async def site(pulsar: PulsarAddress, tmp_path: Path) -> AsyncIterator[Site]:
    authority = Authority(tmp_path)
    files = authority.sign("server")
    namespace = await asyncio.to_thread(pulsar.create_namespace)
    base = settings_for(pulsar, namespace, {"kafka": {"listen": Settings().kafka.listen}})
    settings = base.with_values(
        kafka={
            "workers": 2, "worker_port": 0, "listeners": f"{INSIDE}://{HOST}:0,{OUTSIDE}://{HOST}:0",
            "advertised_listeners": f"{OUTSIDE}://localhost:0",
            "listener_security_protocol_map": f"{INSIDE}:PLAINTEXT",
        },
        listener={OUTSIDE: {"ssl_certificate_file": files.certificate, "ssl_key_file": files.key}},
    )  # fmt: skip
    await add(settings, "alice", _PASSWORD, ("SCRAM-SHA-256",), 4096)
    supervisor = Supervisor(settings)
    try:
        await supervisor.start()
        await until_members(supervisor, 2)
        yield Site(supervisor, authority.file)
    finally:
        await supervisor.stop()


async def test_clients_of_each_listener_are_told_its_ports_and_reach_all_partitions(site: Site) -> None:
    await site.admin("numbers")
    for listener, host in ((INSIDE, HOST), (OUTSIDE, "localhost")):
        found = await asyncio.to_thread(AdminClient(site.config(listener)).list_topics, timeout=SECONDS)
        assert [broker.host for broker in found.brokers.values()] == [host] * 2
        assert {broker.port for broker in found.brokers.values()} == set(site.own_ports(listener))
        assert {one.leader for one in found.topics["numbers"].partitions.values()} == set(found.brokers)
        await asyncio.to_thread(send, site.config(listener), listener)
    for listener in (INSIDE, OUTSIDE):
        assert await asyncio.to_thread(read, site.config(listener)) == {
            f"{sender} {partition}" for sender in (INSIDE, OUTSIDE) for partition in range(PARTITIONS)
        }
    text = (await get(site.supervisor.http_port, "/metrics", SECONDS)).body.decode()
    for worker in range(2):
        assert f'bridge_tls_certificate_expires_seconds{{worker="{worker}",listener="{OUTSIDE}"}}' in text
    logins = [line for line in text.splitlines() if line.startswith("bridge_logins_total{") and "succeeded" in line]
    assert len(logins) == 2  # both workers had clients that log in


def send(config: dict[str, Any], name: str) -> None:
    """A record to each partition."""
    told: list[KafkaError | None] = []
    producer = Producer(config)
    for partition in range(PARTITIONS):
        value = f"{name} {partition}".encode()
        producer.produce("numbers", value, partition=partition, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(SECONDS) == 0
    assert told == [None] * PARTITIONS


def read(config: dict[str, Any]) -> set[str]:
    """All that was sent by both listeners."""
    group = {"group.id": f"of {config['bootstrap.servers']}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, **group})
    consumer.subscribe(["numbers"])
    found: set[str] = set()
    while len(found) < 2 * PARTITIONS:
        (message,) = consumer.consume(1, SECONDS)
        value = message.value()
        assert message.error() is None and value is not None
        found.add(bytes(value).decode())
    consumer.close()
    return found


async def test_who_does_not_log_in_gets_nothing_of_any_worker(site: Site) -> None:
    """By the port of all, and by each worker's own."""
    right = site.config(OUTSIDE)
    for port in (site.supervisor.ports[OUTSIDE], *site.own_ports(OUTSIDE)):
        at = {"bootstrap.servers": f"localhost:{port}"}
        assert await asyncio.to_thread(reason, site.config(OUTSIDE, "wrong") | at) == KafkaError._AUTHENTICATION
        found = await asyncio.to_thread(AdminClient(right | at).list_topics, timeout=SECONDS)
        assert len(found.brokers) == 2


def reason(config: dict[str, Any]) -> int:
    """The first error of a client."""
    told: list[KafkaError] = []
    producer = Producer({**config, "error_cb": told.append})
    while not told:
        producer.poll(1)
    code: int = told[0].code()
    return code


async def test_a_quota_counts_at_each_worker_for_itself(site: Site) -> None:
    """Each is a broker, and Kafka's quotas are of each broker (docs/security.md)."""
    admin = await site.admin("limited")
    found = await asyncio.to_thread(admin.list_topics, "limited", timeout=SECONDS)
    led = {one.leader: number for number, one in found.topics["limited"].partitions.items()}
    (first, partition), (second, other) = led.items()
    for one in (partition, other):  # an error of a new topic would be tried again only after the wait
        assert await asyncio.to_thread(throttled, site.config(INSIDE), one, 1) == set()
    alter, entity = alter_client_quotas, describe_client_quotas.Entity(entity_type="client-id", entity_name="app")
    limit = alter.Operation(key="producer_byte_rate", value=1000.0, remove=False)
    wanted = alter.Request(entries=[alter.RequestEntry(entity=[entity], ops=[limit])], validate_only=False)
    # each worker answers when it has read it back
    for port in site.own_ports(INSIDE):
        answer = await asyncio.to_thread(ask_at, f"{HOST}:{port}", alter.API, wanted)
        assert [one.error_code for one in answer.entries] == [0]
    # 500 kB take 500 seconds, and a small request is less than the second that is saved up
    assert await asyncio.to_thread(throttled, site.config(INSIDE), partition, 500_000) == {first}
    assert await asyncio.to_thread(throttled, site.config(INSIDE), other, 1) == set()
    assert await asyncio.to_thread(throttled, site.config(INSIDE), partition, 1) == {first}
    assert await asyncio.to_thread(throttled, site.config(INSIDE), other, 500_000) == {second}


def throttled(config: dict[str, Any], partition: int, size: int) -> set[int]:
    """The brokers that told a new client to wait, which sends so much."""
    told: set[int] = set()

    def wait(event: ThrottleEvent) -> None:
        if event.throttle_time > 0:
            told.add(event.broker_id)

    producer = Producer({**config, "client.id": "app", "throttle_cb": wait})
    producer.produce("limited", bytes(size), partition=partition)
    assert producer.flush(SECONDS) == 0
    return told
