"""`bridge import kop` where clients log in: rights that it needs, and namespaces of tenants."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType
from confluent_kafka.admin import ResourceType as Resource

from bridge.errors import StartupError
from tests.cli.kop.kop_log import commit
from tests.cli.kop.logged_in import conf, login, secured
from tests.cli.kop.served import left_by, make_topic, run
from tests.support.bridges import started_nodes
from tests.support.pulsar import PulsarAddress


def committed(bootstrap: str, group: str, name: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **login(name)})
    (found,) = consumer.committed([TopicPartition("orders", 0)], 30)
    consumer.close()
    offset: int = found.offset
    return offset


def test_a_user_who_may_read_groups_and_topics_may_take_them(pulsar: PulsarAddress, tmp_path: Path) -> None:
    kafka = {"authorizer": "kafka", "super_users": "User:admin"}
    settings = secured(pulsar, tmp_path, "admin", "mover").with_values(kafka=kafka)
    with started_nodes(settings, 1) as (bridge,):
        make_topic(bridge, "orders", **login("admin"))
        topic = f"persistent://{bridge.namespace}/orders"
        left = left_by(pulsar, ("mine", commit("mine", topic, {0: 7})))
        with pytest.raises(StartupError, match="Authorization"):
            run(bridge, left, "--kafka-conf", conf(tmp_path, "mover"))
        rights = [
            AclBinding(kind, "*", ResourcePatternType.LITERAL, "User:mover", "*", AclOperation.READ,
                       AclPermissionType.ALLOW)
            for kind in (Resource.TOPIC, Resource.GROUP)
        ]  # fmt: skip
        admin = AdminClient({"bootstrap.servers": bridge.kafka, **login("admin")})
        for one in admin.create_acls(rights).values():
            one.result(30)
        told = run(bridge, left, "--kafka-conf", conf(tmp_path, "mover"))
        assert told.endswith("taken: 1 offsets of 1 groups\n")
        assert committed(bridge.kafka, "mine", "admin") == 7


def test_a_tenant_s_user_takes_those_of_its_namespace(pulsar: PulsarAddress, tmp_path: Path) -> None:
    theirs = pulsar.create_namespace()
    settings = secured(pulsar, tmp_path, theirs).with_values(
        tenants={"rules": "principal User:*/* -> $1/$2", "namespaces": theirs}
    )
    with started_nodes(settings, 1) as (bridge,):
        make_topic(bridge, "orders", **login(theirs))
        left = left_by(pulsar, ("mine", commit("mine", f"persistent://{theirs}/orders", {0: 7})))
        assert "the topic is not in" in run(bridge, left, "--kafka-conf", conf(tmp_path, theirs))
        tenant, _, name = theirs.partition("/")
        of_theirs = settings.with_values(pulsar={"tenant": tenant, "namespace": name})
        run(bridge, left, "--kafka-conf", conf(tmp_path, theirs), settings=of_theirs)
        assert committed(bridge.kafka, "mine", theirs) == 7
