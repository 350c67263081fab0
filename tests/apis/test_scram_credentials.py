"""DescribeUserScramCredentials, AlterUserScramCredentials: users that are kept in Pulsar, as confluent-kafka asks."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from bridge.apis import alter_user_scram_credentials as alter
from bridge.apis.describe_user_scram_credentials import Credential
from bridge.cli import users
from tests.support.bridges import BridgeThread, settings_for, started_nodes
from tests.support.java import run_tool
from tests.support.pulsar import PulsarAddress

_KAFKA = {
    "listen": "127.0.0.1:9092",
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
}
SALT = b"a salt that is long enough"
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


@pytest.fixture(scope="module")
def nodes(pulsar: PulsarAddress) -> Iterator[list[BridgeThread]]:
    """Two nodes, and the first user `admin`."""
    settings = settings_for(pulsar, pulsar.create_namespace(), {"kafka": _KAFKA})
    asyncio.run(users.add(settings, "admin", "first", (), 4096))
    with started_nodes(settings) as started:
        yield started


def client(node: BridgeThread, name: str = "admin", password: str = "first", mechanism: str = "SCRAM-SHA-512") -> Any:  # noqa: S107
    return AdminClient(
        {
            "bootstrap.servers": node.kafka,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
        }
    )


def put(name: str, password: bytes, mechanism: Any = SHA_256, iterations: int = 4096, salt: bytes = SALT) -> Any:
    return UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, iterations), password, salt)


def errors(admin: Any, *changes: Any) -> dict[str, str]:
    """What became of a change, by user."""
    found = {}
    for name, future in admin.alter_user_scram_credentials(list(changes)).items():
        try:
            future.result(30)
            found[name] = ""
        except KafkaException as error:
            found[name] = error.args[0].name()
    return found


def logs_in(node: BridgeThread, name: str, password: str, mechanism: str) -> bool:
    failed: list[KafkaError] = []
    admin = AdminClient(
        {
            "bootstrap.servers": node.kafka,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
            "error_cb": failed.append,
        }
    )
    answer = admin.describe_cluster()
    while not answer.done() and not failed:
        admin.poll(0.1)
    assert all(error.code() in (KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN) for error in failed)
    return not failed


def described(admin: Any) -> dict[str, list[tuple[str, int]]]:
    found = admin.describe_user_scram_credentials().result(30)
    return {
        name: [(one.mechanism.name, one.iterations) for one in user.scram_credential_infos]
        for name, user in found.items()
    }


def test_a_user_is_added_changes_its_password_and_is_removed(nodes: list[BridgeThread]) -> None:
    one, two = nodes
    admin = client(one)
    assert errors(admin, put("alice", b"wonder"), put("bob", b"builder", SHA_512, 8192)) == {"alice": "", "bob": ""}
    assert described(admin) == {
        "admin": [("SCRAM_SHA_256", 4096), ("SCRAM_SHA_512", 4096)],
        "alice": [("SCRAM_SHA_256", 4096)],
        "bob": [("SCRAM_SHA_512", 8192)],
    }
    assert logs_in(one, "alice", "wonder", "SCRAM-SHA-256")
    assert logs_in(one, "alice", "wonder", "PLAIN")
    assert not logs_in(one, "alice", "wrong", "SCRAM-SHA-256")
    other = client(two)
    assert errors(other, put("alice", b"land"), UserScramCredentialDeletion("bob", SHA_512)) == {"alice": "", "bob": ""}
    assert logs_in(two, "alice", "land", "SCRAM-SHA-256")
    assert not logs_in(two, "alice", "wonder", "PLAIN")
    assert not logs_in(two, "bob", "builder", "SCRAM-SHA-512")
    # the first node judges by what the second has answered
    assert errors(admin, UserScramCredentialDeletion("bob", SHA_512)) == {"bob": "RESOURCE_NOT_FOUND"}
    assert errors(admin, UserScramCredentialDeletion("alice", SHA_256)) == {"alice": ""}
    assert described(admin).keys() == {"admin"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([put("eve", b"x", iterations=4095)], {"eve": "UNACCEPTABLE_CREDENTIAL"}),
        ([put("eve", b"x", iterations=16385)], {"eve": "UNACCEPTABLE_CREDENTIAL"}),
        ([put("eve", b"x", salt=b"short")], {"eve": "UNACCEPTABLE_CREDENTIAL"}),
        ([put("e\u0007ve", b"x")], {"e\u0007ve": "UNACCEPTABLE_CREDENTIAL"}),
        ([put("eve", b"x"), put("eve", b"y")], {"eve": "DUPLICATE_RESOURCE"}),
        ([put("eve", b"x"), put("eve", b"y", SHA_512)], {"eve": "DUPLICATE_RESOURCE"}),
        ([UserScramCredentialDeletion("eve", SHA_256)], {"eve": "RESOURCE_NOT_FOUND"}),
        (
            [put("eve", b"x", iterations=1), UserScramCredentialDeletion("mallory", SHA_256)],
            {"eve": "UNACCEPTABLE_CREDENTIAL", "mallory": "RESOURCE_NOT_FOUND"},
        ),
    ],
)
def test_what_is_wrong_is_told_by_user_and_stores_nothing(
    nodes: list[BridgeThread], changes: list[Any], expected: dict[str, str]
) -> None:
    admin = client(nodes[0])
    assert errors(admin, *changes) == expected
    assert described(admin).keys() == {"admin"}


def test_who_has_changed_whom_is_in_the_audit_log(nodes: list[BridgeThread], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "bridge.audit")
    admin = client(nodes[0])
    assert errors(admin, put("dave", b"hidden words")) == {"dave": ""}
    assert errors(admin, UserScramCredentialDeletion("dave", SHA_256)) == {"dave": ""}
    told = [vars(one)["fields"] for one in caplog.records if one.message == "= user credential changed"]
    assert [(str(one["principal"]), one["user"], one["change"], one["outcome"]) for one in told] == [
        ("User:admin", "dave", "set", "stored"),
        ("User:admin", "dave", "deleted", "stored"),
    ]
    assert "hidden" not in str(told)


def test_what_is_right_is_stored_beside_what_is_wrong(nodes: list[BridgeThread]) -> None:
    admin = client(nodes[1])
    assert errors(admin, put("good", b"x"), put("bad", b"x", iterations=1)) == {
        "good": "",
        "bad": "UNACCEPTABLE_CREDENTIAL",
    }
    assert described(admin).keys() == {"admin", "good"}
    assert errors(admin, UserScramCredentialDeletion("good", SHA_256)) == {"good": ""}


def test_kafkas_own_tool_adds_shows_and_removes_a_user(nodes: list[BridgeThread], tmp_path: Path) -> None:
    config = tmp_path / "admin.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="admin" password="first";\n'
    )

    def tool(*arguments: str) -> str:
        servers = ("--bootstrap-server", nodes[0].kafka, "--command-config", str(config))
        return run_tool("kafka.admin.ConfigCommand", *servers, "--entity-type", "users", *arguments)

    user = ("--entity-name", "carol")
    tool("--alter", *user, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=sing sing]")
    assert logs_in(nodes[0], "carol", "sing sing", "SCRAM-SHA-512")
    shown = tool("--describe", *user)
    assert "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-512=iterations=8192" in shown
    tool("--alter", *user, "--delete-config", "SCRAM-SHA-512")
    assert not logs_in(nodes[0], "carol", "sing sing", "SCRAM-SHA-512")


def test_no_representation_of_a_request_shows_its_secrets() -> None:
    upsertion = alter.Upsertion(name="alice", mechanism=1, iterations=4096, salt=b"salt-1", salted_password=b"secret-1")
    assert "alice" in repr(alter.Request(deletions=[], upsertions=[upsertion]))
    assert "salt-1" not in repr(upsertion) and "secret-1" not in repr(upsertion)
    assert Credential(mechanism=1, iterations=4096)
