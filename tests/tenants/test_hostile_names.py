"""Every API with every name of another tenant's, as it is and disguised: nothing of it is reached, shown or changed.

Pulsar's tenants, and the topics of all other namespaces, are the same afterwards.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bridge import apis
from bridge.apis import (
    alter_client_quotas,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_topic_partitions,
    describe_user_scram_credentials,
    fetch,
    metadata,
)
from bridge.kafka import message
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import EncodeError
from bridge.kafka.schema import Type
from bridge.requests.api import Api
from tests.apis.wire import Connection, frame
from tests.support.pulsar import PulsarAddress
from tests.tenants.world import World, world_of

TOKEN = secrets.token_hex(8)
TOPIC, GROUP, VALUE = f"topic-{TOKEN}", f"group-{TOKEN}", f"value-{TOKEN}"
SKIPPED = {"SaslHandshake", "SaslAuthenticate"}
"""They end the session."""


@pytest.fixture(scope="module")
def world(pulsar: PulsarAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(pulsar, tmp_path_factory.mktemp("tenants")) as made:
        beta = made.kafka("beta-1")
        producer = Producer(beta)
        producer.produce(TOPIC, VALUE, key=VALUE, partition=0)
        assert producer.flush(30) == 0
        consumer = Consumer({**beta, "group.id": GROUP})
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1, VALUE)], asynchronous=False)
        consumer.close()
        with made.connect("acme-1") as connection:  # its namespace is open
            connection.ask(metadata.API, metadata.Request(topics=[]))
        yield made


def hostile(world: World) -> list[str]:
    tenant, _, namespace = world.beta.partition("/")
    return [
        TOPIC, GROUP, f"{TOPIC}-partition-0", world.beta, f"{world.beta}/{TOPIC}", f"persistent://{world.beta}/{TOPIC}",
        f"persistent://{world.beta}/{TOPIC}-partition-0", f"non-persistent://{world.beta}/{TOPIC}",
        f"../{namespace}/{TOPIC}", f"../../{world.beta}/{TOPIC}", f"..%2F{namespace}%2F{TOPIC}",
        f"%2e%2e/{namespace}/{TOPIC}", f"{tenant}%2F{namespace}%2F{TOPIC}", f"{world.beta}\0{GROUP}",
        f"\0{world.beta}\0{TOPIC}", f"g/{GROUP}", f"o/{TOPIC}/0/{GROUP}", "..", "*", ".*", "__bridge_groups",
        "__bridge_security", "__change_events", "User:beta-1", "beta-1",
    ]  # fmt: skip


def filled(cls: type, version: int, text: str) -> Any:
    """A message whose every string is this one, with one element in every array, and all else at its default."""
    values = {one.name: _value(one.type, version, text) for one in message.fields_of(cls) if one.exists(version)}
    return message.with_defaults(cls, **{name: value for name, value in values.items() if value is not None})


def _value(kind: Type, version: int, text: str) -> Any:
    """None: its default."""
    if kind.name == "array":
        assert kind.element is not None
        element = _value(kind.element, version, text)
        return [0 if element is None else element]
    if kind.message is not None:
        return filled(kind.message, version, text)
    return {"string": text, "bytes": text.encode()}.get(kind.name)


class Client:
    """Sends frames and returns answers as bytes; connects again where it was refused."""

    def __init__(self, world: World, user: str) -> None:
        self._world, self._user = world, user
        self._connection: Connection | None = None

    def ask(self, api: Api, request: Any, version: int) -> bytes:
        connection = self._connection = self._connection or self._world.connect(self._user)
        connection._socket.sendall(frame(api, request, version))
        head = connection._answers.read(4)
        if len(head) < 4:
            self.close()
            return b""
        return connection._answers.read(int(struct.unpack(">i", head)[0]))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.__exit__()
            self._connection = None


def everything(world: World) -> dict[str, object]:
    """All that Pulsar has, but what acme may change and what other tests have."""
    mine = [world.own, world.beta, world.gamma, world.lab]
    found: dict[str, object] = {namespace: world.topics(namespace) for namespace in mine}
    found["tenants"] = world.pulsar.admin("GET", "tenants")
    return found


def of_beta(world: World) -> tuple[object, ...]:
    """What beta has, as its own clients see it."""
    words = world.kafka("beta-1")
    consumer = Consumer({**words, "group.id": GROUP})
    (committed,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)
    bounds = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)
    consumer.close()
    admin = AdminClient(words)
    listed = admin.list_topics(timeout=30).topics
    groups = {one.group_id for one in admin.list_consumer_groups().result(30).valid}
    with world.connect("beta-1") as connection:
        told = connection.ask(metadata.API, metadata.Request(topics=None))
    ids = {topic.name: topic.topic_id for topic in told.topics}
    return committed.offset, committed.metadata, bounds, set(listed), groups, ids


def test_what_lists_everything_lists_the_own_alone(world: World) -> None:
    client = Client(world, "acme-1")
    listed = 0
    for api in apis.load().values():
        for version in range(api.min_version, api.max_version + 1):
            fields = [one for one in message.fields_of(api.request) if one.exists(version)]
            nullable = {one.name: None for one in fields if one.nullable(version)}
            empty: dict[str, Any] = {one.name: [] for one in fields if one.type.name == "array"}
            for values in (nullable, empty):
                if api.name in SKIPPED or api.name == "Produce":
                    continue
                try:
                    request = message.with_defaults(api.request, **values)
                    told = client.ask(api, request, version)
                except EncodeError:  # no such array in this version
                    continue
                listed += 1
                assert TOKEN.encode() not in told, (api.name, version)
    client.close()
    assert listed > 200


def test_no_request_reaches_another_tenant(world: World) -> None:
    before, theirs = everything(world), of_beta(world)
    client = Client(world, "acme-1")
    answered = set()
    for text in sorted(hostile(world), key=lambda text: TOKEN in text):  # then acme itself has such names
        for api in apis.load().values():
            for version in {api.min_version, api.max_version} if api.name not in SKIPPED else ():
                told = client.ask(api, filled(api.request, version, text), version)
                if told:
                    answered.add(api.name)
                assert VALUE.encode() not in told, (api.name, version, text)
                assert TOKEN in text or TOKEN.encode() not in told, (api.name, version, text)
    client.close()
    assert len(answered) > 45
    assert of_beta(world) == theirs
    assert everything(world) == before


def test_ids_of_another_tenant_s_topics_name_nothing(world: World) -> None:
    with world.connect("beta-1") as connection:
        told = connection.ask(metadata.API, metadata.Request(topics=None))
        (theirs,) = {topic.topic_id for topic in told.topics if topic.name == TOPIC}
    with world.connect("acme-1") as connection:
        wanted = [metadata.RequestTopic(topic_id=theirs, name=None)]
        found = connection.ask(metadata.API, metadata.Request(topics=wanted, allow_auto_topic_creation=False))
        assert [topic.error_code for topic in found.topics] == [ErrorCode.UNKNOWN_TOPIC_ID]
        named = delete_topics.RequestTopic(name=None, topic_id=theirs)
        deleted = connection.ask(
            delete_topics.API, message.with_defaults(delete_topics.Request, topics=[named], timeout_ms=5000), 6
        )
        assert [one.error_code for one in deleted.responses] == [ErrorCode.UNKNOWN_TOPIC_ID]
        asked = filled(fetch.API.request, 13, "")
        asked.topics[0].topic_id = theirs
        asked.forgotten_topics_data = []
        (topic,) = connection.ask(fetch.API, asked, 13).responses
        assert [one.error_code for one in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]
        described = connection.ask(
            describe_topic_partitions.API, filled(describe_topic_partitions.API.request, 0, TOPIC), 0
        )
        assert [one.topic_id for one in described.topics if one.name == TOPIC] != [theirs]


def test_users_permissions_and_quotas_of_the_cluster_are_out_of_reach(world: World) -> None:
    """Who could set a user's password would be that user, and so in that user's namespace."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with world.connect("acme-1") as connection:
        for api in (describe_acls.API, describe_client_quotas.API, describe_user_scram_credentials.API):
            assert connection.ask(api, filled(api.request, api.max_version, "beta-1")).error_code == code
        for api, answers in (
            (create_acls.API, "results"),
            (delete_acls.API, "filter_results"),
            (alter_client_quotas.API, "entries"),
            (alter_user_scram_credentials.API, "results"),
        ):
            told = connection.ask(api, filled(api.request, api.max_version, "beta-1"))
            assert [one.error_code for one in getattr(told, answers)] == [code]
        versions = connection.ask(api_versions.API, filled(api_versions.API.request, 3, "x"), 3)
        assert len(versions.api_keys) == len(apis.load())
