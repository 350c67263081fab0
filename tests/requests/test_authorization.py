"""What is asked of who decides, and what is told of denials."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Broker
from bridge.requests.authorization import Checks, Denials, checks_of
from bridge.requests.session import Session
from bridge.security.acls import CLUSTER, Operation, Resource, ResourceType
from bridge.security.principal import user
from bridge.telemetry.metrics import SecurityMetrics

TOPIC = ResourceType.TOPIC


class Allowing:
    """Allows some names, whatever the operation."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.metrics = SecurityMetrics()
        self.note_denial = Denials(self.metrics).note

    def of(self, namespace: str) -> Allowing:
        return self

    async def allowed(
        self, session: Session, operation: Operation, kind: ResourceType, names: Collection[str]
    ) -> Collection[str]:
        """Those of the names."""
        return self.names & set(names)

    def allows_at_once(self, session: Session, operation: Operation, resource: Resource) -> bool | None:
        """One of the names; it has to be asked for "asked"."""
        return None if resource.name == "asked" else resource.name in self.names

    async def allowed_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        """Whether there are any."""
        return bool(self.names)

    def viewer(self, session: Session) -> str:
        """By its principal."""
        return str(session.principal)

    async def operations(self, session: Session, resource: Resource) -> int:
        """One bit."""
        return 1 if resource.name in self.names else 0


def session() -> Session:
    return Session(id=1, peer="10.0.0.1:4711", listener="CLIENT", principal=user("alice"))


def checks(who: Allowing) -> Checks:
    return Checks(who, cast(Broker, SimpleNamespace()), session())


async def test_without_an_authorizer_nothing_is_asked() -> None:
    broker = cast(Broker, SimpleNamespace(authorization=None))
    assert checks_of(broker, session()) is None


async def test_what_is_not_allowed_is_denied() -> None:
    assert set(await checks(Allowing("a")).denied(Operation.READ, TOPIC, ["a", "b", "b"])) == {"b"}


async def test_a_required_right_fails_with_the_code_of_the_resource() -> None:
    with pytest.raises(KafkaError) as failed:
        await checks(Allowing("a")).require(Operation.READ, Resource(ResourceType.GROUP, "b"))
    assert failed.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_a_denial_is_counted_each_time_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    who = Allowing()
    with caplog.at_level(logging.WARNING, "bridge.audit"):
        for _ in range(3):
            await checks(who).denied(Operation.WRITE, TOPIC, ["secret"])
    assert who.metrics.denials["WRITE", "TOPIC"].value == 3
    record: Any
    [record] = caplog.records
    fields = record.fields
    assert (record.message, str(fields["principal"]), fields["operation"]) == ("! denied", "User:alice", "WRITE")
    assert (fields["resource"], fields["name"], fields["peer"]) == ("TOPIC", "secret", "10.0.0.1:4711")


async def test_what_is_left_out_of_a_list_is_no_denial(caplog: pytest.LogCaptureFixture) -> None:
    who = Allowing()
    await checks(who).denied(Operation.DESCRIBE, TOPIC, ["secret"], lists=True)
    assert not who.metrics.denials
    assert not caplog.records


def test_the_audit_log_is_bounded_for_one_and_for_all(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    metrics = SecurityMetrics()
    denials = Denials(metrics, lambda: now)

    def refuse(name: str, topic: str) -> None:
        denials.note(replace(session(), principal=user(name)), Operation.READ, Resource(TOPIC, topic))

    def told() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name == "bridge.audit"]

    with caplog.at_level(logging.WARNING, "bridge.audit"):
        for number in range(2000):
            refuse("alice", f"t{number}")
        assert len(told()) == 100
        for number in range(2000):
            refuse(f"user-{number}", "t")
        assert len(told()) == 1000
        now = 60.0
        refuse("alice", "x" * 1000)
    assert metrics.denials["READ", "TOPIC"].value == 4001
    more, last = (cast(Any, record) for record in told()[1000:])
    assert (more.message, more.fields) == ("! more was denied", {"count": 3000})
    assert last.fields["name"] == "x" * 256


async def test_operations_of_the_cluster_are_told_to_who_may_describe_it() -> None:
    assert await checks(Allowing(CLUSTER.name)).cluster_operations() == 1
    assert await checks(Allowing()).cluster_operations() == 0
