"""With whose identity things are done, at a Pulsar that takes certificates and tokens and says whose each request is.

The bridge has a certificate, its clients have tokens. The role is not the claim `sub`. With neither it is "anonymous".
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import jwt
import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.check.findings import Severity
from bridge.check.table import examine
from bridge.config import Settings
from bridge.errors import StartupError
from tests.pulsar_secured.conftest import ROLE, Start
from tests.support.bridges import BridgeThread, settings_for
from tests.support.certificates import COMMON_NAME, Authority
from tests.support.pulsar import NewPulsar, PulsarAddress
from tests.support.secured_pulsar import ADMIN, SecuredPulsar
from tests.tenants.world import logged_in

CLAIM = "role"
DENIED = ClientError.TOPIC_AUTHORIZATION_FAILED
KAFKA = {
    "listen": "127.0.0.1:9092", "listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl_enabled_mechanisms": "PLAIN",
    "authorizer": "pulsar", "super_users": f"User:{ADMIN}",
}  # fmt: skip


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(
    new_pulsar: NewPulsar, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredPulsar]:
    settings = {"tokenAuthClaim": CLAIM, "anonymousUserRole": "anonymous"}
    made = SecuredPulsar(new_pulsar, settings, authority)
    made.tell_roles(tmp_path_factory.mktemp("log"))
    with made as started:
        yield started


@pytest.fixture
def by_certificate(secured: SecuredPulsar, authority: Authority) -> dict[str, str]:
    """The settings of a bridge whose role is that of its certificate."""
    own = authority.sign("bridge", {COMMON_NAME: ROLE})
    return {
        "service_url": secured.tls_service_url, "admin_url": secured.tls_admin_url, "tls_ca_file": authority.file,
        "tls_cert_file": own.certificate, "tls_key_file": own.key, "token_auth_claim": CLAIM,
    }  # fmt: skip


def words(bridge: BridgeThread, name: str, token: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bridge.kafka, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": name, "sasl.password": f"token:{token}", "log_level": 0,
    }  # fmt: skip


def outcome(future: Any) -> int:
    """The error of what is to come; 0: none."""
    try:
        future.result(30)
    except confluent_kafka.KafkaException as error:
        return int(error.args[0].code())
    return 0


def test_what_is_done_for_a_client_is_done_as_the_client(
    secured: SecuredPulsar, by_certificate: dict[str, str], tenant_namespace: str, start_bridge: Start
) -> None:
    bridge = start_bridge(kafka=KAFKA, pulsar=by_certificate)
    keeper = AdminClient(words(bridge, ROLE, secured.token(ROLE)))
    assert outcome(keeper.create_topics([NewTopic("orders", 1, 1)])["orders"]) == 0
    secured.grant(tenant_namespace, "reader", ["consume"])
    for role in ("stranger", "reader"):
        client = AdminClient(words(bridge, role, secured.token(role)))
        before = len(secured.told())
        assert outcome(client.create_topics([NewTopic("mine", 1, 1)])["mine"]) == DENIED
        assert outcome(client.delete_topics(["orders"])["orders"]) in (DENIED, ClientError.UNKNOWN_TOPIC_OR_PART)
        said = secured.told()[before:]
        assert f"role={role} using authMethod=token" in said
        assert f"role={ROLE} using" not in said  # the bridge has its connections
    names = {one.rpartition("/")[2] for one in secured.topics(tenant_namespace)}
    assert "orders-partition-0" in names
    assert not {name for name in names if name.startswith("mine")}


def test_a_bridge_logs_in_by_its_certificate(
    secured: SecuredPulsar, by_certificate: dict[str, str], start_bridge: Start
) -> None:
    before = len(secured.told())
    bridge = start_bridge(pulsar=by_certificate)
    producer = confluent_kafka.Producer({"bootstrap.servers": bridge.kafka})
    errors: list[object] = []
    producer.produce("t", b"v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bridge.kafka, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    assert [message.value() for message in consumer.consume(1, 30)] == [b"v"]
    consumer.close()
    assert f"role={ROLE} using authMethod=tls" in secured.told()[before:]


@pytest.mark.parametrize("subject", [ADMIN, "mallory"])
def test_the_principal_is_the_role_and_not_what_else_a_token_says(
    secured: SecuredPulsar, by_certificate: dict[str, str], start_bridge: Start, subject: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.INFO, "bridge.audit")
    bridge = start_bridge(kafka=KAFKA, pulsar=by_certificate)
    token = secured.token("mallory", sub=subject)
    client = AdminClient(words(bridge, "mallory", token))
    assert outcome(client.create_topics([NewTopic("mine", 1, 1)])["mine"]) == DENIED
    logged_in = [one.__dict__["fields"] for one in caplog.records if "logged in" in one.getMessage()]
    assert {str(one["principal"]) for one in logged_in} == {"User:mallory"}


def test_a_claim_that_is_not_the_role_logs_in_as_none(
    secured: SecuredPulsar, by_certificate: dict[str, str], start_bridge: Start
) -> None:
    bridge = start_bridge(kafka=KAFKA, pulsar={**by_certificate, "token_auth_claim": "sub"})
    token = secured.token("mallory", sub=ADMIN)
    forged = jwt.encode({"sub": ADMIN, CLAIM: ADMIN}, "", "none")
    for wrong in (token, forged):
        with pytest.raises(PermissionError):
            logged_in(bridge.kafka, ADMIN, f"token:{wrong}")


async def test_a_bridge_whose_claim_is_not_that_of_the_brokers_does_not_start(
    secured: SecuredPulsar, tenant_namespace: str, start_bridge: Start
) -> None:
    token = secured.token(ROLE, sub="another")
    with pytest.raises(StartupError, match=r"takes this bridge for 'bridge', and the claim sub .* says 'another'"):
        start_bridge(kafka=KAFKA, pulsar={"token": token})
    start_bridge(kafka=KAFKA, pulsar={"token": token, "token_auth_claim": CLAIM})


async def test_a_pulsar_that_does_not_authenticate_does_not_do(pulsar: PulsarAddress, namespace: str) -> None:
    settings = settings_for(pulsar, namespace, {"kafka": KAFKA})
    with pytest.raises(StartupError, match=r"signed by no key.*authenticationEnabled=true"):
        BridgeThread(settings).start()
    found = {finding.name: finding for finding in await examine(settings)}
    assert found["roles"].severity is Severity.UNFIT


def test_a_key_of_the_bridge_proves_whose_a_token_is(
    secured: SecuredPulsar, by_certificate: dict[str, str], start_bridge: Start, tmp_path: Path
) -> None:
    key = secured.public_key(tmp_path / "key")
    bridge = start_bridge(kafka=KAFKA, pulsar={**by_certificate, "token_public_key_file": key})
    assert AdminClient(words(bridge, ROLE, secured.token(ROLE))).list_topics(timeout=30).brokers
    forged = jwt.encode({"sub": ADMIN, CLAIM: ADMIN}, "", "none")
    with pytest.raises(PermissionError):
        logged_in(bridge.kafka, ADMIN, f"token:{forged}")


def test_a_bridge_without_a_key_of_tokens_does_not_start(tmp_path: Path, pulsar: PulsarAddress, namespace: str) -> None:
    (tmp_path / "key").write_text("no key")
    overrides = {"kafka": KAFKA, "pulsar": {"token_public_key_file": str(tmp_path / "key")}}
    settings: Settings = settings_for(pulsar, namespace, overrides)
    with pytest.raises(StartupError, match=r"pulsar\.token_public_key_file"):
        BridgeThread(settings).start()
