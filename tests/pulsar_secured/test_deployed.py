"""config/hardened.toml and Helm's chart, as they are, on a Pulsar with TLS, log-in and rights: what the first screen of
docs/security.md grants is enough, and of what is missing `bridge check` names the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from bridge.errors import BridgeError, StartupError
from tests.pulsar_secured.conftest import ROLE
from tests.pulsar_secured.deployed import WAYS, Deployed
from tests.support.bridges import BridgeThread
from tests.support.certificates import Authority
from tests.support.pulsar_admin import pulsar_admin
from tests.support.secured_pulsar import SecuredPulsar

ADMINISTRATOR = "the bridge's role"
NO_ADMINISTRATOR = "or, once it has started"
RECORDS = 20
Deploy = Callable[[str], Deployed]
both = pytest.mark.parametrize("way", WAYS)
either = pytest.mark.parametrize("way", [WAYS[0], pytest.param(WAYS[1], marks=pytest.mark.soak)])
"""What Pulsar lets the bridge's role do is asked of it in the same way, however its settings were written."""


@pytest.fixture
def deploy(secured: SecuredPulsar, authority: Authority, tmp_path: Path) -> Deploy:
    return lambda way: Deployed(way, secured, authority, tmp_path)


class Running:
    """`with Running(deployed) as bridge`."""

    def __init__(self, deployed: Deployed) -> None:
        self._bridge = BridgeThread(deployed.settings())

    def __enter__(self) -> BridgeThread:
        self._bridge.start()
        return self._bridge

    def __exit__(self, *_: object) -> None:
        self._bridge.stop()


def make_topic(deployed: Deployed) -> None:
    """Clients' topic, by the super user."""
    admin = AdminClient(deployed.as_user("admin"))
    admin.create_topics([NewTopic("orders", 2)])["orders"].result(30)


def let(deployed: Deployed, name: str) -> None:
    """Entries for a user that writes and reads `orders`."""
    wanted = [
        (ResourceType.TOPIC, "orders", AclOperation.WRITE), (ResourceType.TOPIC, "orders", AclOperation.READ),
        (ResourceType.GROUP, "g", AclOperation.READ),
    ]  # fmt: skip
    entries = [
        AclBinding(kind, of, ResourcePatternType.LITERAL, f"User:{name}", "*", what, AclPermissionType.ALLOW)
        for kind, of, what in wanted
    ]
    admin = AdminClient(deployed.as_user("admin"))
    for stored in admin.create_acls(entries).values():
        stored.result(30)


def written(deployed: Deployed, name: str) -> list[KafkaError | None]:
    """What became of some records of this user."""
    told: list[KafkaError | None] = []
    producer = confluent_kafka.Producer({**deployed.as_user(name), "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(60) == 0
    return told


def read(deployed: Deployed, name: str) -> list[bytes]:
    """What a group of this user is given, and commits."""
    more = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({**deployed.as_user(name), **more})
    consumer.subscribe(["orders"])
    found = [message.value() or b"" for message in consumer.consume(RECORDS, 60)]
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def mended(deployed: Deployed, name: str) -> str:
    """That this finding alone is in the way, and goes by its command; what that was."""
    fit, findings = deployed.check()
    assert not fit
    assert [one for one, finding in findings.items() if finding["severity"] == "unfit"] == [name], findings
    command = str(findings[name]["remedy"]).partition("   ")[0]
    pulsar_admin(deployed.secured, command)
    assert deployed.check()[0]
    return command


@both
def test_what_the_page_grants_is_enough(deploy: Deploy, way: str) -> None:
    deployed = deploy(way)
    deployed.grant([ADMINISTRATOR])
    for start in (1, 2):
        fit, findings = deployed.check()
        assert fit, findings
        deployed.add_users()
        with Running(deployed):
            if start == 1:
                make_topic(deployed)
                let(deployed, "alice")
            assert written(deployed, "alice") == [None] * RECORDS
            assert len(read(deployed, "alice")) == RECORDS
            refused = {error.code() for error in written(deployed, "mallory") if error is not None}
            assert refused == {KafkaError.TOPIC_AUTHORIZATION_FAILED}


@either
def test_a_bridge_of_another_role_does_not_start(deploy: Deploy, way: str) -> None:
    deployed = deploy(way)
    deployed.grant([ADMINISTRATOR])
    with Running(deployed):
        pass
    deployed.log_in_as("mallory")
    # it lacks all rights, which are looked at side by side: what is told is the first that is found missing
    with pytest.raises(BridgeError, match=r"may not produce and consume|This login may not set it"):
        Running(deployed).__enter__()
    fit, findings = deployed.check()
    assert not fit
    assert "may not create topics" in findings["namespace"]["detail"]


@either
def test_without_its_administrator_it_is_not_fit(deploy: Deploy, way: str) -> None:
    deployed = deploy(way)
    pulsar_admin(deployed.secured, f"bin/pulsar-admin tenants update {deployed.tenant} --admin-roles boss")
    wanted = f"bin/pulsar-admin tenants update {deployed.tenant} --admin-roles '{ROLE}'"
    assert mended(deployed, "namespace") == wanted
    with Running(deployed):
        pass


@either
@pytest.mark.parametrize("row", ["native clients", "all others"])
def test_a_stranger_in_the_state_namespace_is_not_fit(deploy: Deploy, way: str, row: str) -> None:
    """Native clients need the data alone; who has more loses it by the page's own command, and by the check's."""
    deployed = deploy(way)
    deployed.grant([ADMINISTRATOR, "native clients"])
    with Running(deployed):
        pass
    assert deployed.check()[0]
    stranger = {"native clients": "orders", "all others": "ROLE"}[row]
    deployed.secured.grant(deployed.state, stranger, ["produce"])
    with pytest.raises(StartupError, match=f"role {stranger} has permissions on {deployed.state}"):
        Running(deployed).__enter__()
    if row == "all others":
        deployed.grant([row])
    else:
        wanted = f"bin/pulsar-admin namespaces revoke-permission {deployed.state} --role '{stranger}'"
        assert mended(deployed, "state access") == wanted
    with Running(deployed):
        pass


def administers_nothing(deployed: Deployed) -> None:
    """The settings for it."""
    deployed.with_setting("retention", "ensure = false\n")
    deployed.with_setting("pulsar", "trust_state_namespace = true\n")


@either
def test_a_role_that_administers_nothing_any_more(deploy: Deploy, way: str) -> None:
    deployed = deploy(way)
    deployed.grant([ADMINISTRATOR])
    deployed.add_users()
    with Running(deployed):
        make_topic(deployed)
    deployed.grant([NO_ADMINISTRATOR])
    with pytest.raises(StartupError, match=r"retention\.ensure = false"):
        Running(deployed).__enter__()
    administers_nothing(deployed)
    assert deployed.check()[0]
    with Running(deployed):
        let(deployed, "alice")
        assert written(deployed, "alice") == [None] * RECORDS
        assert len(read(deployed, "alice")) == RECORDS


@either
@pytest.mark.parametrize(("missing", "found"), [("data", "namespace"), ("state", "state rights")])
def test_of_its_two_permissions_each_is_asked_for(deploy: Deploy, way: str, missing: str, found: str) -> None:
    deployed = deploy(way)
    deployed.grant([ADMINISTRATOR])
    with Running(deployed):
        pass
    where = {"data": deployed.data, "state": deployed.state}[missing]
    deployed.grant([NO_ADMINISTRATOR], without=f"grant-permission {where} ")
    administers_nothing(deployed)
    wanted = f"bin/pulsar-admin namespaces grant-permission {where} --role '{ROLE}' --actions produce,consume"
    with pytest.raises(StartupError, match=wanted):
        Running(deployed).__enter__()
    assert mended(deployed, found) == wanted
    with Running(deployed):
        pass


@either
def test_a_role_that_never_administered_the_tenant_is_told_to(deploy: Deploy, way: str) -> None:
    deployed = deploy(way)
    pulsar_admin(deployed.secured, f"bin/pulsar-admin namespaces create {deployed.state}")
    deployed.grant([NO_ADMINISTRATOR])
    administers_nothing(deployed)
    wanted = f"bin/pulsar-admin tenants update {deployed.tenant} --admin-roles '{ROLE}'"
    with pytest.raises(StartupError, match=f"may not make its topics in {deployed.state} .*; run: {wanted}"):
        Running(deployed).__enter__()
    _, findings = deployed.check()
    assert findings["state namespace"]["severity"] == "unfit"
    assert findings["state namespace"]["remedy"].startswith(wanted)
    pulsar_admin(deployed.secured, wanted)
    with Running(deployed):
        pass
