"""The bridge's own log-in to a Pulsar that asks for tokens: by file and by OAuth2, also when tokens end under load."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.errors import BridgeError, StartupError
from bridge.kafka.error_codes import ErrorCode
from tests.pulsar_secured.conftest import ROLE, Start
from tests.support.bridges import BridgeThread
from tests.support.oauth2_issuer import issuer
from tests.support.secured_pulsar import SecuredPulsar

LIFE_SECONDS = 4.0
CHALLENGES = 3
"""So often brokers ask each connection for new credentials before a test is content."""


def test_a_role_that_administers_its_tenant_is_enough(secured: SecuredPulsar, start_bridge: Start) -> None:
    bridge = start_bridge(pulsar={"token": secured.token(ROLE)})
    producer = confluent_kafka.Producer({"bootstrap.servers": bridge.kafka, "acks": "all"})
    errors: list[object] = []
    for number in range(100):
        producer.produce("t", b"%d" % number, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None] * 100
    assert [int(value) for value in consumed(bridge, "t", 100)] == list(range(100))


@pytest.mark.parametrize("role", [None, "stranger"])
def test_a_bridge_without_rights_does_not_start(secured: SecuredPulsar, start_bridge: Start, role: str | None) -> None:
    with pytest.raises(BridgeError, match=r"Auth\w+Error|HTTP 40[13]"):
        start_bridge(pulsar={"token": secured.token(role)} if role else {})


def test_an_ended_token_does_not_start(secured: SecuredPulsar, start_bridge: Start) -> None:
    with pytest.raises(StartupError, match="AuthenticationError"):
        start_bridge(pulsar={"token": secured.token(ROLE, -60)})


def test_tokens_of_a_file_end_under_load(secured: SecuredPulsar, start_bridge: Start, tmp_path: Path) -> None:
    file = tmp_path / "token"
    ended = threading.Event()

    def renew() -> None:
        while not ended.is_set():
            (tmp_path / "next").write_text(secured.token(ROLE, LIFE_SECONDS))
            (tmp_path / "next").rename(file)
            ended.wait(LIFE_SECONDS / 4)

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        while not file.exists():
            ended.wait(0.01)
        under_load(start_bridge(pulsar={"token_file": str(file)}))
    finally:
        ended.set()
        renewing.join()


def test_tokens_of_an_oauth2_issuer_end_under_load(secured: SecuredPulsar, start_bridge: Start, tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "client_credentials", "client_id": "id", "client_secret": "words"}))
    with issuer(lambda: secured.token(ROLE, LIFE_SECONDS), LIFE_SECONDS) as url:
        bridge = start_bridge(pulsar={"oauth2_key_file": str(key), "oauth2_issuer_url": url})
        under_load(bridge)
        assert bridge.server.metrics.pulsar.token_fetches.value > 2


def under_load(bridge: BridgeThread) -> None:
    """Write and read until brokers have asked each connection for new credentials often enough: no request may fail."""
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    admin.create_topics([NewTopic("load", 4, 1)])["load"].result(30)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bridge.kafka, "acks": "all", "retries": 0, "linger.ms": 5}
    )
    metrics, errors, sent = bridge.server.metrics.pulsar, [], 0
    deadline = time.monotonic() + 60
    while metrics.auth_challenges.value < CHALLENGES * metrics.connections.value and time.monotonic() < deadline:
        for _ in range(20):
            producer.produce("load", b"%d" % sent, on_delivery=lambda error, _: errors.append(error))
            sent += 1
        # what asks the admin interface, too
        assert "load" in admin.list_topics(timeout=30).topics
        producer.flush(30)
    assert metrics.auth_challenges.value >= CHALLENGES
    assert errors == [None] * sent
    assert sorted(map(int, consumed(bridge, "load", sent))) == list(range(sent))
    assert metrics.connections_lost.value == 0
    codes = {code for api in bridge.server.metrics.all_apis() for code in api.errors}
    # where there is no such topic yet, and where a member joins without an id
    assert codes <= {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.MEMBER_ID_REQUIRED}, codes


def consumed(bridge: BridgeThread, topic: str, count: int) -> Iterator[bytes]:
    settings = {"bootstrap.servers": bridge.kafka, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    deadline = time.monotonic() + 60
    try:
        while count and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                count -= 1
                yield message.value()
    finally:
        consumer.close()
