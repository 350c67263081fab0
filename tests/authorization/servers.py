"""A real Kafka with its StandardAuthorizer, and a bridge with the same principals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bridge.apis import alter_user_scram_credentials
from bridge.cli.users import add
from bridge.node.orphans import Guard
from bridge.security.sasl.credentials import salted_password
from bridge.standalone.ports import HOST
from tests.authorization.login import PASSWORD, LoggedIn
from tests.authorization.rights import SUPER, Right
from tests.support.bridges import BridgeThread, settings_for
from tests.support.kafka_broker import KafkaBroker
from tests.support.pulsar import PulsarAddress

PROTOCOL = "SASL_PLAINTEXT"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LONG_MS = 1_800_000
"""The members that the world has stay for the whole matrix."""
_SHA_256, _ITERATIONS, _SALT = 1, 4096, b"salt-of-all-users"


def kafka_settings(rights: Sequence[Right], *, permissive: bool) -> dict[str, str]:
    """What a real Kafka is told."""
    users = " ".join(f'user_{right.name}="{PASSWORD}"' for right in rights)
    login = f'{_PLAIN} required username="{SUPER}" password="{PASSWORD}" {users};'
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # the broker comes to its controller without a log-in
        "super.users": f"User:{SUPER};User:ANONYMOUS",
        "allow_everyone_if_no_acl_found".replace("_", "."): str(permissive).lower(),
        "sasl.enabled.mechanisms": "PLAIN",
        # OffsetCommit and OffsetFetch v10, which the bridge serves
        "unstable.api.versions.enable": "true",
        # early access in Kafka 4.1
        "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"listener.name.{PROTOCOL.lower()}.plain.sasl.jaas.config": login,
        "group.consumer.max.session.timeout.ms": str(_LONG_MS),
        "group.consumer.session.timeout.ms": str(_LONG_MS),
    }


@contextmanager
def real_kafka(directory: Path, guard: Guard, rights: Sequence[Right], *, permissive: bool = False) -> Iterator[str]:
    """Start it; its address."""
    broker = KafkaBroker(directory, guard, protocol=PROTOCOL, settings=kafka_settings(rights, permissive=permissive))
    broker.start()
    try:
        yield broker.kafka
    finally:
        broker.stop()


@contextmanager
def bridge(pulsar: PulsarAddress, rights: Sequence[Right], *, permissive: bool = False) -> Iterator[str]:
    """Start one, and add its users; its address."""
    base = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"listen": "127.0.0.1:9092"}})
    settings = base.with_values(
        kafka={
            "listeners": f"{PROTOCOL}://{HOST}:0",
            "sasl_enabled_mechanisms": "PLAIN",
            "authorizer": "kafka",
            "super_users": f"User:{SUPER}",
            "allow_everyone_if_no_acl_found": permissive,
        },
        groups={"consumer_session_timeout_ms": _LONG_MS},
    )
    asyncio.run(add(settings, SUPER, PASSWORD, ("SCRAM-SHA-256",), _ITERATIONS))
    running = BridgeThread(settings)
    running.start()
    try:
        _add_users(running.kafka, [right.name for right in rights if right.name != SUPER])
        yield running.kafka
    finally:
        running.stop()


def _add_users(address: str, names: Sequence[str]) -> None:
    """All with the same password and salt, for the test alone."""
    salted = salted_password("SCRAM-SHA-256", PASSWORD.encode(), _SALT, _ITERATIONS)
    wanted = [
        alter_user_scram_credentials.Upsertion(
            name=name, mechanism=_SHA_256, iterations=_ITERATIONS, salt=_SALT, salted_password=salted
        )
        for name in names
    ]
    admin = LoggedIn(address, SUPER)
    request = alter_user_scram_credentials.Request(deletions=[], upsertions=wanted)
    results = admin.ask(alter_user_scram_credentials.API, request).results
    assert not [one for one in results if one.error_code], results
    admin.close()
