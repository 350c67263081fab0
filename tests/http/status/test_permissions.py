"""ACLs, users and quotas on the page: what administrators have set by Kafka's tools, and nothing secret."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, KafkaAdminClient, ResourcePattern, ResourceType

from bridge.config import Settings
from bridge.security.quotas.entities import checked_entity, checked_key
from bridge.security.records import quota_record, user_record
from bridge.security.sasl.credentials import ScramCredential
from bridge.standalone.ports import HOST
from tests.support.bridges import BridgeThread, settings_for
from tests.support.foreign import until
from tests.support.pulsar import PulsarAddress


@pytest.fixture(scope="module")
def bridge(pulsar: PulsarAddress) -> Iterator[BridgeThread]:
    listeners = f"PLAINTEXT://{HOST}:0,SASL_PLAINTEXT://{HOST}:0"
    kafka = {
        "listen": Settings().kafka.listen, "listeners": listeners, "authorizer": "kafka",
        "super_users": "User:ANONYMOUS",
    }  # fmt: skip
    running = BridgeThread(settings_for(pulsar, pulsar.create_namespace(), {"kafka": kafka}))
    running.start()
    yield running
    running.stop()


def text_of(bridge: BridgeThread, view: str) -> str:
    with urllib.request.urlopen(f"{bridge.http}/api/state?view={view}", timeout=30) as response:  # noqa: S310 - ours
        found: Any = json.load(response)
    return json.dumps(found["answer"]["table"]["rows"])


def test_acls_are_shown_in_kafkas_words(bridge: BridgeThread) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bridge.kafka)
    pattern = ResourcePattern(ResourceType.TOPIC, "orders")
    admin.create_acls([ACL("User:alice", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)])
    admin.close()
    assert until(lambda: "User:alice" in text_of(bridge, "acls"), 60)
    for word in ("ALLOW", "READ", "TOPIC", "orders", "LITERAL"):
        assert f'"{word}"' in text_of(bridge, "acls")


def test_quotas_are_shown_with_their_entities(bridge: BridgeThread) -> None:
    entity = checked_entity([("user", "alice"), ("client-id", None)])
    record = quota_record(entity, checked_key(entity, "producer_byte_rate", 1000.0), 1000.0)
    bridge.call(bridge.server.security.change([record]))
    assert until(lambda: "user alice" in text_of(bridge, "quotas"), 60)
    assert "client-id (default)" in text_of(bridge, "quotas")
    assert "producer_byte_rate" in text_of(bridge, "quotas")


def test_users_are_shown_without_what_their_passwords_are_checked_by(bridge: BridgeThread) -> None:
    assert text_of(bridge, "users") == "[]"
    credential = ScramCredential("SCRAM-SHA-256", b"salt-of-a-user", b"s" * 32, b"k" * 32, 4096)
    bridge.call(bridge.server.security.change([user_record("alice", credential)]))
    assert until(lambda: text_of(bridge, "users") != "[]", 60)
    assert json.loads(text_of(bridge, "users")) == [{"name": "alice", "mechanisms": "SCRAM-SHA-256 (4096)"}]
