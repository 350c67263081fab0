"""A bridge and a real Kafka with SASL_SSL, SCRAM and an authorizer, and what their clients are told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.cli.users import add
from bridge.node.orphans import Guard
from bridge.standalone.ports import HOST, any_free
from tests.authorization.steps import ADMIN, MECHANISM, PASSWORD, Step, run
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import Authority
from tests.support.java import run_tool
from tests.support.kafka_broker import KafkaBroker
from tests.support.pulsar import PulsarAddress

PROTOCOL = "SASL_SSL"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class Secured:
    """A server that asks for a log-in over TLS."""

    address: str
    authority: str
    directory: Path
    is_bridge: bool

    def run(self, step: Step) -> list[str]:
        """What a tool says."""
        return run(step, self.address, self.login(step.user))

    def login(self, user: str) -> Path:
        """A file with a user's log-in, as Java reads it."""
        words = {
            "security.protocol": PROTOCOL,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{_SCRAM} required username="{user}" password="{PASSWORD}";',
        }
        path = self.directory / f"{user}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in words.items()))
        return path


@contextmanager
def bridge(pulsar: PulsarAddress, directory: Path) -> Iterator[Secured]:
    """Start one, with an administrator that `bridge user add` has added."""
    authority = Authority(directory)
    signed = authority.sign("server")
    base = settings_for(pulsar, pulsar.create_namespace(), {"kafka": {"listen": "127.0.0.1:9092"}})
    settings = base.with_values(
        kafka={
            "listeners": f"{PROTOCOL}://{HOST}:0",
            "sasl_enabled_mechanisms": MECHANISM,
            "authorizer": "kafka",
            "super_users": f"User:{ADMIN}",
        },
        listener={PROTOCOL: {"ssl_certificate_file": signed.certificate, "ssl_key_file": signed.key}},
    )
    asyncio.run(add(settings, ADMIN, PASSWORD, (MECHANISM,), 4096))
    running = BridgeThread(settings)
    running.start()
    try:
        yield Secured(running.kafka, authority.file, directory, is_bridge=True)
    finally:
        running.stop()


class _Kafka(KafkaBroker):
    """It comes to itself by a listener without a log-in, and has an administrator from the beginning."""

    def _properties(self, controller: int) -> str:
        own = any_free({controller})
        here = f"{PROTOCOL}://{self.kafka},OWN://{HOST}:{own}"
        return super()._properties(controller) + (
            f"listeners={here},CONTROLLER://127.0.0.1:{controller}\nadvertised.listeners={here}\n"
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,OWN:PLAINTEXT,{PROTOCOL}:{PROTOCOL}\n"
            "inter.broker.listener.name=OWN\n"
        )

    def add_administrator(self) -> None:
        """By the listener that asks for no log-in."""
        own = next(line for line in self._config.read_text().splitlines()[::-1] if line.startswith("advertised."))
        address = own.rpartition("OWN://")[2]
        run_tool(
            "kafka.admin.ConfigCommand", "--bootstrap-server", address, "--entity-type", "users", "--entity-name",
            ADMIN, "--alter", "--add-config", f"{MECHANISM}=[password={PASSWORD}]",
        )  # fmt: skip


@contextmanager
def real_kafka(directory: Path, guard: Guard) -> Iterator[Secured]:
    """Start it."""
    authority = Authority(directory)
    signed = authority.sign("server")
    keystore = directory / "keystore.pem"
    keystore.write_text(Path(signed.key).read_text() + Path(signed.certificate).read_text())
    settings: dict[str, Any] = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
        "sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": f"{_SCRAM} required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
    }
    broker = _Kafka(directory, guard, protocol=PROTOCOL, settings=settings)
    broker.start()
    try:
        broker.add_administrator()
        yield Secured(broker.kafka, authority.file, directory, is_bridge=False)
    finally:
        broker.stop()
