"""Permissions in Pulsar as clients' sessions meet them, at a scripted broker; `pulsar_secured/` has a real one."""

from collections.abc import AsyncIterator, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import jwt
import pytest

from bridge.apis import (
    add_partitions_to_txn,
    consumer_group_heartbeat,
    fetch,
    offset_commit,
    offset_fetch,
    produce,
    txn_offset_commit,
)
from bridge.config import Settings
from bridge.errors import KafkaError, SettingsError, Unanswered
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar import Access, Admin
from bridge.pulsar.admin import Conflict
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.requests.api import Api, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.pulsar_authorization import PulsarAuthorization
from bridge.requests.session import Session
from bridge.security.acls import CLUSTER_NAME, Operation, Resource, ResourceType
from bridge.security.principal import ANONYMOUS, Principal, user
from bridge.security.sasl.credentials import CredentialsUnavailable
from bridge.telemetry.metrics import Metrics
from tests.pulsar.fake_broker import FakeBroker, Peer, Type

Make = Callable[..., PulsarAuthorization]


class Topics(Admin):
    """The topic that a namespace is asked about by is there; nothing else is asked."""

    async def create_partitioned(
        self, topic: str, partitions: int, properties: Mapping[str, str] | None = None
    ) -> None:
        raise Conflict(409, topic)


UNSIGNED = jwt.encode({"sub": "admin"}, "", "none")
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


class NoPasswords:
    """For passwords that are no tokens."""

    async def check(self, name: str, password: str, now: float) -> None:
        raise AssertionError


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as broker:
        yield broker


@pytest.fixture
async def make(broker: FakeBroker) -> AsyncIterator[Make]:
    made: list[PulsarAuthorization] = []

    def make(metrics: Metrics) -> PulsarAuthorization:
        values = {"service_url": broker.url, "admin_url": "http://127.0.0.1:1"}  # nothing listens there
        kafka = {"authorizer": "pulsar", "super_users": "User:root"}
        settings = Settings().with_values(kafka=kafka, pulsar=values)
        access = Access.by(settings.pulsar, metrics.pulsar)
        made.append(PulsarAuthorization(settings, access, Topics(settings.pulsar, access), metrics))
        return made[-1]

    yield make
    for one in made:
        await one.close()


def session(principal: Principal, token: str | None = "a token") -> Session:  # noqa: S107
    login = cast(Any, SimpleNamespace(token=token))
    return Session(id=1, peer="127.0.0.1:1", listener="L", principal=principal, login=login)


def refuse(broker: FakeBroker, code: int, text: str) -> None:
    """Answer so to every question."""

    def error(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        fields: dict[int, str] = {Type.PARTITIONED_METADATA: "partition_metadata", Type.LOOKUP: "lookup_topic"}
        field = fields.get(command.type, "get_topics_of_namespace")
        peer.error(getattr(command, field).request_id, code, text)

    for kind in (Type.PARTITIONED_METADATA, Type.LOOKUP, Type.GET_TOPICS_OF_NAMESPACE):
        broker.on(kind, error)


async def test_a_super_user_is_not_asked_about(broker: FakeBroker, make: Make) -> None:
    authorization = make(Metrics())
    root = session(user("root"))
    assert set(await authorization.allowed(root, Operation.ALTER, CLUSTER, [CLUSTER_NAME])) == {CLUSTER_NAME}
    assert set(await authorization.allowed(root, Operation.READ, TOPIC, ["a", "b"])) == {"a", "b"}
    assert await authorization.operations(root, Resource(TOPIC, "a")) > 0
    assert not broker.peers


@pytest.mark.parametrize("principal", [ANONYMOUS, user("alice"), Principal("Group", "root")])
async def test_of_whom_pulsar_cannot_be_asked_nothing_is_allowed(
    broker: FakeBroker, make: Make, principal: Principal
) -> None:
    authorization = make(Metrics())
    assert not await authorization.allowed(session(principal, None), Operation.READ, TOPIC, ["a"])
    assert not broker.peers


async def test_a_refusal_is_a_denial(broker: FakeBroker, make: Make) -> None:
    refuse(broker, pb.AuthorizationError, "Client is not authorized to Produce")
    metrics = Metrics()
    authorization = make(metrics)
    for operation in (Operation.READ, Operation.WRITE, Operation.DESCRIBE):
        assert not await authorization.allowed(session(user("alice")), operation, TOPIC, ["a"])
    assert metrics.permissions.questions["unknown"].value == 0
    assert {command.connect.auth_data for command in broker.all(Type.CONNECT)} == {b"a token"}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (pb.ServiceNotReady, "not now"), (pb.TooManyRequests, "too many"), (pb.MetadataError, "no metadata"),
        (pb.AuthorizationError, "the metadata store does not answer"),
    ],
)  # fmt: skip
async def test_while_pulsar_does_not_say_clients_try_again(
    broker: FakeBroker, make: Make, code: int, text: str
) -> None:
    refuse(broker, code, text)
    authorization, alice = make(Metrics()), session(user("alice"))
    with pytest.raises(KafkaError) as topic:
        await authorization.allowed(alice, Operation.WRITE, TOPIC, ["a"])
    assert topic.value.code == ErrorCode.LEADER_NOT_AVAILABLE
    with pytest.raises(KafkaError) as group:
        await authorization.allowed(alice, Operation.READ, GROUP, ["g"])
    assert group.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(KafkaError) as cluster:
        await authorization.allowed(alice, Operation.CREATE, CLUSTER, [CLUSTER_NAME])
    assert cluster.value.code == ErrorCode.REQUEST_TIMED_OUT


async def not_handled(request: Any) -> Any:
    raise AssertionError


@pytest.mark.parametrize(
    "api",
    [
        fetch.API, produce.API, offset_commit.API, offset_fetch.API, consumer_group_heartbeat.API,
        add_partitions_to_txn.API, txn_offset_commit.API,
    ],
    ids=lambda api: api.name,
)  # fmt: skip
async def test_coordinators_tell_only_errors_that_their_clients_ask_again_after(
    broker: FakeBroker, make: Make, api: Api
) -> None:
    refuse(broker, pb.ServiceNotReady, "not now")
    checks = Checks(make(Metrics()), cast(Any, SimpleNamespace()), session(user("alice")), api)
    with pytest.raises(KafkaError) as caught:
        await checks.denied(Operation.READ, TOPIC, ["a"])
    leader = api.served_by is ServedBy.LEADER
    assert caught.value.code == (ErrorCode.LEADER_NOT_AVAILABLE if leader else ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def test_who_asks_for_its_offsets_once_is_not_answered_while_pulsar_does_not_say(
    broker: FakeBroker, make: Make
) -> None:
    refuse(broker, pb.ServiceNotReady, "not now")
    api, authorization = offset_fetch.API, make(Metrics())
    for software in (("librdkafka", "2.16.0"), ("apache-kafka-java", "4.1.0")):
        alice = session(user("alice"))
        alice.told_software(*software)
        checks = Checks(authorization, cast(Any, SimpleNamespace()), alice, api)
        group = offset_fetch.RequestGroup(group_id="g", topics=[])
        assert api.rights.check is not None
        with pytest.raises(KafkaError) as caught:
            await api.rights.check(offset_fetch.Request(groups=[group]), checks, not_handled)
        assert isinstance(caught.value, Unanswered) is alice.is_librdkafka
        answer = api.failure(offset_fetch.Request(groups=[group]), caught.value.code, "", 9)
        assert answer is not None
        assert [one.error_code for one in answer.groups] == [ErrorCode.NOT_COORDINATOR]


async def test_a_broker_that_takes_no_more_connections_says_nothing_of_rights(broker: FakeBroker, make: Make) -> None:
    def full(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        peer.error(2**64 - 1, pb.NotAllowedError, "Reached the maximum number of connections on address")

    broker.on(Type.CONNECT, full)
    authorization, alice = make(Metrics()), session(user("alice"))
    for operation in (Operation.READ, Operation.WRITE, Operation.DESCRIBE):
        with pytest.raises(KafkaError) as caught:
            await authorization.allowed(alice, operation, TOPIC, ["a"])
        assert caught.value.code == ErrorCode.LEADER_NOT_AVAILABLE
    with pytest.raises(CredentialsUnavailable):
        await authorization.passwords(NoPasswords()).check("admin", f"token:{UNSIGNED}", 0.0)


async def test_that_a_missing_topic_may_be_looked_up_is_no_right_to_produce_once_it_is_there(
    broker: FakeBroker, make: Make
) -> None:
    refuse(broker, pb.TopicNotFound, "no such topic")
    authorization, alice = make(Metrics()), session(user("alice"))
    assert await authorization.allowed(alice, Operation.WRITE, TOPIC, ["a"])
    refuse(broker, pb.AuthorizationError, "Client is not authorized to Lookup")  # made meanwhile
    assert not await authorization.allowed(alice, Operation.WRITE, TOPIC, ["a"])


async def test_another_namespace_has_rights_of_its_own(broker: FakeBroker, make: Make) -> None:
    refuse(broker, pb.AuthorizationError, "Client is not authorized to Lookup")
    authorization, alice = make(Metrics()), session(user("alice"))
    await authorization.allowed(alice, Operation.WRITE, TOPIC, ["a"])
    await authorization.of("acme/orders").allowed(alice, Operation.WRITE, TOPIC, ["a"])
    asked = [command.partition_metadata.topic for command in broker.all(Type.PARTITIONED_METADATA)]
    assert asked == ["persistent://public/default/a", "persistent://acme/orders/a"]


def test_behind_one_address_tokens_do_not_reach_other_nodes() -> None:
    cluster = {"addressing": "single", "internal_listen": "127.0.0.1:9094"}
    kafka = {"authorizer": "pulsar", "advertised": "kafka.example:9092"}
    with pytest.raises(SettingsError, match=r"pulsar\.proxy_token_file"):
        Settings().with_values(kafka=kafka, cluster=cluster)
    Settings().with_values(kafka=kafka, cluster=cluster, pulsar={"proxy_token_file": __file__})
