"""Rights of other roles, asked of a real Pulsar; what was asked about is not there afterwards."""

from collections.abc import AsyncIterator, Callable

import jwt
import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import Access, Admin
from bridge.pulsar.auth import Destination, RoleAccess
from bridge.pulsar.auth.credentials import StaticToken
from bridge.pulsar.auth.host_check import HostCheck
from bridge.pulsar.role_name import RightUnknown, role_name
from bridge.pulsar.role_probe import Right, RoleProbe
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar_secured.conftest import ROLE
from tests.support.secured_pulsar import ADMIN, PROXY, SecuredPulsar

Make = Callable[..., RoleProbe]
EXISTING = "existing"


@pytest.fixture
def settings(secured: SecuredPulsar, tenant_namespace: str) -> PulsarSettings:
    tenant, _, namespace = tenant_namespace.partition("/")
    return PulsarSettings(
        service_url=secured.service_url, admin_url=secured.admin_url, tenant=tenant, namespace=namespace,
        token=secured.token(ROLE),
    )  # fmt: skip


@pytest.fixture
async def topics(settings: PulsarSettings) -> AsyncIterator[list[str]]:
    """A topic with partitions, one without, and one that does not exist; the topic that always exists is there."""
    admin = Admin(settings)
    await admin.start()
    full = f"persistent://{settings.full_namespace}"
    await admin.create_partitioned(f"{full}/{EXISTING}", 1)
    await admin.create_partitioned(f"{full}/parts", 2)
    await admin.create_non_partitioned(f"{full}/whole")
    yield [f"{full}/{name}" for name in ("parts", "whole", "none")]
    await admin.close()


@pytest.fixture
async def probe(secured: SecuredPulsar, settings: PulsarSettings) -> AsyncIterator[Make]:
    made: list[RoleProbe] = []
    destination = destination_of(settings)

    def make(role: str, seconds: float | None = None, *, by_proxy: bool = False) -> RoleProbe:
        token = StaticToken(secured.token(PROXY if by_proxy else role, seconds))
        made.append(RoleProbe(RoleAccess(destination, token, role if by_proxy else None)))
        return made[-1]

    yield make
    for one in made:
        await one.close()


def destination_of(settings: PulsarSettings) -> Destination:
    return Destination(settings, HostCheck(settings, PulsarMetrics()))


async def rights(probe: RoleProbe, topic: str) -> str:
    """Those that the role has, by their first letters."""
    asked = (Right.LIST, Right.LOOK_UP, Right.CONSUME, Right.PRODUCE, Right.CREATE, Right.DELETE)
    names = ("list", "look", "consume", "produce", "create", "delete")
    return " ".join([name for name, right in zip(names, asked, strict=True) if await probe.may(right, topic)])


CASES = [
    (("produce",), "list look produce"),
    (("consume",), "list look consume"),
    (("produce", "consume"), "list look consume produce"),
    ((), ""),
]


@pytest.mark.parametrize("by_proxy", [False, True])
@pytest.mark.parametrize(("actions", "expected"), CASES)
async def test_rights_to_the_namespace(
    secured: SecuredPulsar, settings: PulsarSettings, topics: list[str], probe: Make, actions: tuple[str, ...],
    expected: str, by_proxy: bool,
) -> None:  # fmt: skip
    if actions:
        secured.grant(settings.full_namespace, "alice", actions)
    if by_proxy:
        secured.grant(settings.full_namespace, PROXY, ("produce", "consume"))
    before = secured.topics(settings.full_namespace)
    alice = probe("alice", by_proxy=by_proxy)
    for topic in topics[:2]:
        assert await rights(alice, topic) == expected
    # that is true of nothing, and no answer for when it is there
    assert await alice.may(Right.PRODUCE, topics[2]) is (None if actions else False)
    assert await alice.may(Right.CONSUME, topics[2]) is ("consume" in actions)
    assert secured.topics(settings.full_namespace) == before
    for topic in topics[:2]:
        what = "stats" if topic.endswith("whole") else "partitioned-stats"
        stats = secured.admin("GET", f"{topic.replace('://', '/')}/{what}")
        assert isinstance(stats, dict)
        assert (stats["subscriptions"], stats["publishers"]) == ({}, [])


async def test_rights_to_one_topic(
    secured: SecuredPulsar, settings: PulsarSettings, topics: list[str], probe: Make
) -> None:
    for topic, actions in zip(topics[:2], (["produce"], ["consume"]), strict=True):
        secured.grant(topic.removeprefix("persistent://"), "alice", actions)
    alice = probe("alice")
    assert await rights(alice, topics[0]) == "look produce"
    assert await rights(alice, topics[1]) == "look consume"
    assert await rights(alice, topics[2]) == ""


async def test_an_administrator_may_do_everything(topics: list[str], probe: Make) -> None:
    for topic in topics[:2]:
        assert await rights(probe(ROLE), topic) == "list look consume produce create delete"


async def test_a_right_that_is_revoked_is_gone_on_the_same_connection(
    secured: SecuredPulsar, settings: PulsarSettings, topics: list[str], probe: Make
) -> None:
    secured.grant(settings.full_namespace, "alice", ["produce"])
    alice = probe("alice")
    assert await alice.may(Right.PRODUCE, topics[0])
    secured.revoke(settings.full_namespace, "alice")
    assert not await alice.may(Right.PRODUCE, topics[0])


async def test_a_subscription_may_be_granted_to_others(
    secured: SecuredPulsar, settings: PulsarSettings, topics: list[str], probe: Make
) -> None:
    for role in ("alice", "bob"):
        secured.grant(settings.full_namespace, role, ["consume"])
    secured.admin("POST", f"namespaces/{settings.full_namespace}/permissions/subscription/hers", ["alice"])
    assert await probe("alice").may(Right.CONSUME, topics[0], "hers")
    assert not await probe("bob").may(Right.CONSUME, topics[0], "hers")
    assert await probe("bob").may(Right.CONSUME, topics[0], "his")


async def test_a_token_that_has_ended_or_is_no_token_is_not_taken(
    settings: PulsarSettings, topics: list[str], probe: Make
) -> None:
    assert await probe("alice").log_in()
    ended = probe("alice", -60)
    assert not await ended.log_in()
    assert await rights(ended, topics[0]) == ""
    wrong = RoleProbe(RoleAccess(destination_of(settings), StaticToken("no.to.ken")))
    assert not await wrong.log_in()
    await wrong.close()


async def test_without_a_proxy_role_no_one_speaks_for_others(
    secured: SecuredPulsar, settings: PulsarSettings, topics: list[str]
) -> None:
    access = RoleAccess(destination_of(settings), StaticToken(secured.token("mallory")), "alice")
    secured.grant(settings.full_namespace, "alice", ["produce"])
    mallory = RoleProbe(access)
    try:
        with pytest.raises(RightUnknown, match="Invalid roles"):
            await mallory.may(Right.PRODUCE, topics[0])
    finally:
        await mallory.close()


@pytest.mark.parametrize("role", ["alice", ROLE, ADMIN, PROXY, "a] about operation [GET] on tenant [b", "ü ö"])
async def test_pulsar_says_who_asks_however_much_it_may_do(
    secured: SecuredPulsar, settings: PulsarSettings, role: str
) -> None:
    access = RoleAccess(destination_of(settings), StaticToken(secured.token(role)))
    assert (await role_name(settings, access)).name == role


async def test_pulsar_does_not_say_who_has_no_token_of_its_keys(settings: PulsarSettings) -> None:
    forged = jwt.encode({"sub": ADMIN}, "k" * 32, "HS256"), jwt.encode({"sub": ADMIN}, "", "none")
    for token in forged:
        assert (await role_name(settings, RoleAccess(destination_of(settings), StaticToken(token)))).name is None
    assert (await role_name(settings, Access.by(settings.without_identity(), PulsarMetrics()))).name is None
