"""A bridge and a Kafka with a listener for each security protocol, the same certificate and the same users."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from bridge.access.password_file import line_of
from bridge.config import Settings
from bridge.node.orphans import Guard
from bridge.security.sasl.credentials import credential_of, salted_password
from bridge.standalone.bridge_process import BridgeProcess
from bridge.standalone.ports import HOST, any_free
from tests.support.certificates import Authority, CertificateFiles
from tests.support.java import run_tool
from tests.support.kafka_broker import KafkaBroker
from tests.support.pulsar import PulsarAddress

USER, PASSWORD = "alice", "wonderland"
SCRAM, ITERATIONS = "SCRAM-SHA-512", 4096
CIPHER = "TLS_AES_256_GCM_SHA384"
"""In TLS 1.3. Clients offer nothing else."""
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_SSL")
ENTRIES = 100
_SALT = b"the salt of a user"
_JAAS = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Secured:
    """One of the two servers."""

    name: str
    pid: int
    addresses: Mapping[str, str]
    """By security protocol."""
    authority: str

    def java(self, protocol: str, directory: Path) -> Path:
        """A file of settings for Kafka's tools."""
        words = {"bootstrap.servers": self.addresses[protocol], "security.protocol": protocol}
        if protocol != "PLAINTEXT":
            words |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.authority}
            words |= {"ssl.enabled.protocols": "TLSv1.3", "ssl.cipher.suites": CIPHER}
        if protocol == "SASL_SSL":
            login = f'{_JAAS}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
            words |= {"sasl.mechanism": SCRAM, "sasl.jaas.config": login}
        path = directory / f"{self.name}-{protocol}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in words.items()), encoding="utf-8")
        return path


def _ports(count: int) -> list[int]:
    taken: set[int] = set()
    for _ in range(count):
        taken.add(any_free(taken))
    return sorted(taken)


def beside(settings: Settings, listeners: Mapping[str, str], **sections: Mapping[str, object]) -> Settings:
    """For another bridge of the same Pulsar, on a namespace of its own, with these addresses."""
    pulsar = PulsarAddress(settings.pulsar.service_url, settings.pulsar.admin_url)
    where = ",".join(f"{name}://{address}" for name, address in listeners.items())
    return settings.with_values(
        kafka={"listen": Settings().kafka.listen, "listeners": where, **sections.get("kafka", {})},
        http={"listen": f"{HOST}:{any_free()}"},
        pulsar={"namespace": pulsar.create_namespace().rpartition("/")[2]},
        **{name: values for name, values in sections.items() if name != "kafka"},
    )


def _password_file(directory: Path) -> Path:
    made = credential_of(SCRAM, salted_password(SCRAM, PASSWORD.encode(), _SALT, ITERATIONS), _SALT, ITERATIONS)
    path = directory / "users"
    path.write_text(line_of(USER, made) + "\n", encoding="utf-8")
    return path


@contextmanager
def bridge(settings: Settings, directory: Path, authority: Authority, signed: CertificateFiles) -> Iterator[Secured]:
    """`settings` are those of another bridge, which is left alone."""
    addresses = {name: f"{HOST}:{port}" for name, port in zip(PROTOCOLS, _ports(len(PROTOCOLS)), strict=True)}
    tls = {"ssl_certificate_file": signed.certificate, "ssl_key_file": signed.key}
    own = beside(
        settings, addresses,
        kafka={"sasl_enabled_mechanisms": f"PLAIN,{SCRAM}"},
        listener={"SSL": tls, "SASL_SSL": tls},
        security={"password_file": str(_password_file(directory))},
    )  # fmt: skip
    with Guard() as guard:
        process = BridgeProcess(own, directory / "secured", guard)
        process.start()
        try:
            yield Secured("bridge", process.pid, addresses, authority.file)
        finally:
            process.stop()


class _Kafka(KafkaBroker):
    """With the same listeners."""

    addresses: Mapping[str, str]

    def _properties(self, controller: int) -> str:
        listeners = ",".join(f"{name}://{address}" for name, address in self.addresses.items())
        mapped = ",".join(f"{name}:{name}" for name in self.addresses)
        self.kafka = self.addresses["PLAINTEXT"]
        return super()._properties(controller) + (
            f"listeners={listeners},CONTROLLER://127.0.0.1:{controller}\nadvertised.listeners={listeners}\n"
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{mapped}\n"
        )


@contextmanager
def kafka(directory: Path, authority: Authority, signed: CertificateFiles) -> Iterator[Secured]:
    """Kafka 4.1 with the JVM's own TLS, as it is delivered."""
    addresses = {name: f"{HOST}:{port}" for name, port in zip(PROTOCOLS, _ports(len(PROTOCOLS)), strict=True)}
    keystore = directory / "keystore.pem"
    keystore.write_text(Path(signed.key).read_text("utf-8") + Path(signed.certificate).read_text("utf-8"), "utf-8")
    work = directory / "kafka-secured"
    work.mkdir()
    prefix = "listener.name.sasl_ssl"
    settings = {
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        f"{prefix}.plain.sasl.jaas.config": f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        f"{prefix}.{SCRAM.lower()}.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
    }
    with Guard() as guard:
        broker = _Kafka(work, guard, heap="768m", options=(), settings=settings)
        broker.addresses = addresses
        broker.start()
        try:
            run_tool(
                "kafka.admin.ConfigCommand", "--bootstrap-server", broker.kafka, "--alter", "--entity-type", "users",
                "--entity-name", USER, "--add-config", f"{SCRAM}=[iterations={ITERATIONS},password={PASSWORD}]",
            )  # fmt: skip
            yield Secured("Kafka", broker.pid, addresses, authority.file)
        finally:
            broker.stop()


@contextmanager
def authorized(settings: Settings, directory: Path, topic: str) -> Iterator[tuple[BridgeProcess, str]]:
    """A bridge that asks access control entries about clients without log-in, and where those come in.

    They may write to and read one topic of one partition, by the last of the entries.
    """
    addresses = {name: f"{HOST}:{port}" for name, port in zip(("PLAINTEXT", "SASL_PLAINTEXT"), _ports(2), strict=True)}
    own = beside(
        settings, addresses,
        kafka={"sasl_enabled_mechanisms": SCRAM, "authorizer": "kafka", "super_users": f"User:{USER}"},
        security={"password_file": str(_password_file(directory))},
    )  # fmt: skip
    with Guard() as guard:
        process = BridgeProcess(own, directory / "authorized", guard)
        process.start()
        try:
            admin = AdminClient({
                "bootstrap.servers": addresses["SASL_PLAINTEXT"], "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": SCRAM, "sasl.username": USER, "sasl.password": PASSWORD,
            })  # fmt: skip
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
            for future in admin.create_acls(_entries(topic)).values():
                future.result(30)
            yield process, addresses["PLAINTEXT"]
        finally:
            process.stop()


def _entries(topic: str) -> list[AclBinding]:
    names = [f"other-{number}" for number in range(ENTRIES // 2 - 1)] + [topic]
    allow, literal = AclPermissionType.ALLOW, ResourcePatternType.LITERAL
    return [
        AclBinding(ResourceType.TOPIC, name, literal, "User:ANONYMOUS", "*", operation, allow)
        for name in names
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
