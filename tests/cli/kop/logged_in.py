"""Bridges where clients log in, and how they do."""

from __future__ import annotations

from pathlib import Path

from bridge.access.password_file import line_of
from bridge.config import Settings
from tests.security.users import credential
from tests.support.bridges import settings_for
from tests.support.pulsar import PulsarAddress

WORDS = "words"


def login(name: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": name,
        "sasl.password": WORDS,
    }  # fmt: skip


def conf(directory: Path, name: str) -> str:
    """How to log in, as Kafka's tools take it."""
    path = directory / "client.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} username="{name}" password="{WORDS}";\n'
    )
    return str(path)


def secured(pulsar: PulsarAddress, directory: Path, *users: str) -> Settings:
    file = directory / "users"
    file.write_text("".join(line_of(name, credential("SCRAM-SHA-256", WORDS)) + "\n" for name in users))
    settings = settings_for(pulsar, pulsar.create_namespace())
    return settings.with_values(
        kafka={
            "listen": "127.0.0.1:9092", "listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl_enabled_mechanisms": "PLAIN",
        },
        security={"password_file": str(file)},
    )  # fmt: skip
