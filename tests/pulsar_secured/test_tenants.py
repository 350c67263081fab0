"""Tokens and the user names of Kafka-on-Pulsar: the name says which namespace, the token what may be done there."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import offset_commit, offset_fetch
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import with_defaults
from tests.apis.wire import Connection
from tests.pulsar_secured.conftest import ROLE, Start
from tests.support.bridges import BridgeThread
from tests.support.secured_pulsar import SecuredPulsar
from tests.tenants.world import logged_in

TOPIC, GROUP = "orders", "readers"


class Scene:
    """Two tenants, each with a role that may do everything in its namespace and nothing in the other."""

    def __init__(self, secured: SecuredPulsar, start_bridge: Start) -> None:
        self.secured = secured
        self.acme, self.beta = secured.create_tenant(ROLE), secured.create_tenant(ROLE)
        allowed = ",".join((self.acme, self.beta))
        self.bridge: BridgeThread = start_bridge(
            kafka={
                "listen": "127.0.0.1:9092", "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                "sasl_enabled_mechanisms": "PLAIN", "authorizer": "pulsar",
            },
            pulsar={"token": secured.token(ROLE)},
            tenants={"rules": "user_name */* -> $1/$2", "namespaces": allowed},
            groups={"slots": 1, "initial_rebalance_delay_ms": 0},
        )  # fmt: skip
        for role, namespace in (("acme", self.acme), ("beta", self.beta)):
            secured.grant(namespace, role, ["produce", "consume"])

    def words(self, role: str, namespace: str) -> dict[str, Any]:
        """The role's token, with this user name."""
        return {
            "bootstrap.servers": self.bridge.kafka, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.username": namespace, "sasl.password": f"token:{self.secured.token(role)}", "log_level": 0,
        }  # fmt: skip

    def produce(self, role: str, namespace: str) -> int:
        """The error of one record; 0: it is stored."""
        producer = Producer(self.words(role, namespace))
        outcome: list[int] = []
        producer.produce(
            TOPIC, role, partition=0, on_delivery=lambda error, _: outcome.append(error.code() if error else 0)
        )
        assert producer.flush(30) == 0
        return outcome[0]

    def commit(self, role: str, namespace: str, offset: int) -> int:
        """The error of a commit."""
        consumer = Consumer({**self.words(role, namespace), "group.id": GROUP})
        try:
            (found,) = consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
            return int(found.error.code()) if found.error else 0
        except KafkaException as error:
            return int(error.args[0].code())
        finally:
            consumer.close()

    def connect(self, role: str, namespace: str) -> Connection:
        """A connection that is logged in."""
        return logged_in(self.bridge.kafka, namespace, f"token:{self.secured.token(role)}")

    def committed(self, role: str, namespace: str) -> int:
        """The offset, or the error."""
        consumer = Consumer({**self.words(role, namespace), "group.id": GROUP})
        try:
            (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)
            return int(found.error.code()) if found.error else int(found.offset)
        except KafkaException as error:
            return int(error.args[0].code())
        finally:
            consumer.close()


def test_a_user_name_leads_to_a_namespace_and_gives_no_right_there(secured: SecuredPulsar, start_bridge: Start) -> None:
    scene = Scene(secured, start_bridge)
    for role, namespace, offset in (("acme", scene.acme, 1), ("beta", scene.beta, 2)):
        admin = AdminClient(scene.words(ROLE, namespace))
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        assert scene.produce(role, namespace) == 0
        assert scene.commit(role, namespace, offset) == 0
    assert scene.committed("acme", scene.acme) == 1
    assert scene.committed("beta", scene.beta) == 2

    assert scene.produce("acme", scene.beta) == ClientError.TOPIC_AUTHORIZATION_FAILED
    with scene.connect("acme", scene.beta) as connection:
        partition = offset_commit.RequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
        wanted = with_defaults(offset_commit.RequestTopic, name=TOPIC, partitions=[partition])
        request = with_defaults(
            offset_commit.Request, group_id=GROUP, generation_id_or_member_epoch=-1, topics=[wanted]
        )
        (refused,) = connection.ask(offset_commit.API, request, 8).topics
        assert [one.error_code for one in refused.partitions] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
        asked = with_defaults(offset_fetch.RequestGroup, group_id=GROUP, topics=None)
        (group,) = connection.ask(offset_fetch.API, with_defaults(offset_fetch.Request, groups=[asked]), 9).groups
        assert (group.error_code, group.topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
    stranger = AdminClient(scene.words("acme", scene.beta))
    assert set(stranger.list_topics(timeout=30).topics) == set()
    assert stranger.list_consumer_groups().result(30).valid == []
    with pytest.raises(KafkaException):
        stranger.delete_topics([TOPIC])[TOPIC].result(30)
    assert scene.committed("beta", scene.beta) == 2


def test_a_user_name_that_no_rule_leads_anywhere_is_refused(secured: SecuredPulsar, start_bridge: Start) -> None:
    scene = Scene(secured, start_bridge)
    for name in (scene.bridge.namespace, "acme", f"{scene.acme}/x", "pulsar/system"):
        told: list[ClientError] = []
        producer = Producer({**scene.words("acme", name), "error_cb": told.append})
        while not told:
            producer.poll(1)
        assert told[0].code() == ClientError._AUTHENTICATION, name
