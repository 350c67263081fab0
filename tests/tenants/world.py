"""A bridge whose clients work in several namespaces, and clients of each."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridge.access.password_file import line_of
from bridge.apis import sasl_authenticate, sasl_handshake
from bridge.config import Settings
from bridge.standalone.ports import HOST
from tests.apis.wire import Connection
from tests.security.users import credential
from tests.support.bridges import BridgeThread, Overrides, settings_for
from tests.support.pulsar import PulsarAddress

PASSWORD = "wonder land"  # noqa: S105 - the tests' own
LISTENERS = {"LOGIN": "SASL_PLAINTEXT", "GAMMA": "PLAINTEXT", "OPEN": "PLAINTEXT"}


@dataclass
class World:
    """Namespaces of a Pulsar, the settings of nodes, and the nodes."""

    pulsar: PulsarAddress
    directory: Path
    own: str = ""
    acme: str = ""
    beta: str = ""
    gamma: str = ""
    lab: str = ""
    nodes: list[BridgeThread] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("own", "acme", "beta", "gamma", "lab"):
            setattr(self, name, self.pulsar.create_namespace())

    @property
    def users(self) -> list[str]:
        """All who have a password, some of them without a namespace."""
        return ["admin", "acme-1", "acme-2", "beta-1", "stranger", self.beta, "public/t-none", "public/..", self.own]

    @property
    def rules(self) -> str:
        """For each of the namespaces."""
        return f"""
            principal User:admin -> {self.own}
            principal User:acme-* -> {self.acme}
            principal User:beta-* -> {self.beta}
            principal User:*/* -> $1/$2
            listener GAMMA -> {self.gamma}
            client_id lab-* -> {self.lab}
        """

    def settings(self, overrides: Overrides | None = None) -> Settings:
        """Of a node."""
        users = self.directory / "users"
        one = credential("SCRAM-SHA-256", PASSWORD)
        users.write_text("".join(line_of(name, one) + "\n" for name in self.users))
        base = settings_for(self.pulsar, self.own, {"kafka": {"listen": "127.0.0.1:9092"}})
        # the lab's is not among these: any client can get there
        reachable = ",".join(one for one in (self.own, self.acme, self.beta, self.gamma, "public/t-none"))
        return base.with_values(
            kafka={
                "listeners": ",".join(f"{name}://{HOST}:0" for name in LISTENERS),
                "listener_security_protocol_map": ",".join(
                    f"{name}:{protocol}" for name, protocol in LISTENERS.items()
                ),
                "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256",
                "connection_failed_authentication_delay_ms": 0,
            },
            security={"password_file": str(users)},
            groups={"slots": 2, "initial_rebalance_delay_ms": 0},
            tenants={
                "rules": self.rules,
                "namespaces": reachable,
                "limits": f"{self.acme} transactions.max_ids=2 transactions.max_open=1",
            },
        ).with_values(**(overrides or {}))

    def start(self, overrides: Overrides | None = None) -> BridgeThread:
        """Another node."""
        node = BridgeThread(self.settings(overrides))
        self.nodes.append(node)
        node.start()
        return node

    def stop(self) -> None:
        """Stop all nodes."""
        for node in self.nodes:
            node.stop()

    def address(self, listener: str = "LOGIN", node: int = 0) -> str:
        """Where a node's listener is."""
        return f"{HOST}:{self.nodes[node].server.listeners.ports[listener]}"

    def topics(self, namespace: str) -> set[str]:
        """What Pulsar has of a namespace."""
        found: set[str] = set()
        for kind in ("persistent", f"persistent/{namespace}/partitioned"):
            path = f"{kind}/{namespace}" if kind == "persistent" else kind
            listed = self.pulsar.admin("GET", path)
            assert isinstance(listed, list)
            found.update(listed)
        return found

    def python(self, user: str, node: int = 0) -> dict[str, Any]:
        """As kafka-python is told."""
        return {
            "bootstrap_servers": self.address(node=node), "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN", "sasl_plain_username": user, "sasl_plain_password": PASSWORD,
        }  # fmt: skip

    def kafka(self, user: str, node: int = 0, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
        """As librdkafka is told."""
        return {
            "bootstrap.servers": self.address(node=node), "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": PASSWORD,
        }  # fmt: skip

    def java(self, user: str) -> str:
        """A file as Java is told."""
        path = self.directory / f"{secrets.token_hex(4)}.properties"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={module} required username="{user}" password="{PASSWORD}";\n'
        )
        return str(path)

    def connect(self, user: str, node: int = 0) -> Connection:
        """A connection that is logged in."""
        return logged_in(self.address(node=node), user)


def logged_in(address: str, user: str, password: str = PASSWORD) -> Connection:
    """A connection to any server that is logged in by PLAIN."""
    connection = Connection(address)
    connection.ask(sasl_handshake.API, sasl_handshake.Request(mechanism="PLAIN"), 1)
    answer = connection.ask(
        sasl_authenticate.API, sasl_authenticate.Request(auth_bytes=f"\0{user}\0{password}".encode()), 1
    )
    if answer.error_code:
        connection.__exit__()
        raise PermissionError(f"{answer.error_code}: {answer.error_message}")
    return connection


@contextmanager
def world_of(pulsar: PulsarAddress, directory: Path, nodes: Iterable[Overrides] = ({},)) -> Iterator[World]:
    """Some nodes, stopped at the end."""
    made = World(pulsar, directory)
    try:
        for overrides in nodes:
            made.start(overrides)
        yield made
    finally:
        made.stop()
