"""In which namespace a client works: no text that a client can be named by leads outside of what the rules allow."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.config.tenants import TenantSettings, is_namespace
from bridge.security.principal import Principal, user
from bridge.security.sasl.mechanism import Challenge, Done, Failed, Step
from bridge.security.tenants import TenantMechanism, Tenants

OWN = "public/default"
SETTINGS = TenantSettings(
    rules="""
        principal User:admin -> public/default
        principal User:acme-* -> acme/orders
        principal User:*/* -> $1/$2
        principal User:team.* -> teams/t-$1
        listener PARTNERS -> partners/kafka
        client_id lab-* -> lab/kafka
    """,
    namespaces="acme/*, teams/*, b*/kafka, public/*",
)
TENANTS = Tenants(SETTINGS, OWN)
ALLOWED = re.compile(r"acme/[^/]+|teams/t-[^/]+|b[^/]+/kafka|public/[^/]+|partners/kafka|lab/kafka")

PIECES = (
    "User:", "acme", "acme-", "/", "..", ".", "%2F", "%2f", "\0", "$1", "$2", "*", "public", "default",
    "public/default", "pulsar/system", "teams", "team.", "b", "kafka", "persistent://", "\n", " ",
    "\\", "admin", "ａ", "İ", "-> x/y", "__",
)  # fmt: skip
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=8).map("".join))


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("admin", OWN),
        ("acme-orders", "acme/orders"),
        ("acme-../../x", None),
        ("acme/billing", "acme/billing"),
        ("team.a", "teams/t-a"),
        ("b1/kafka", "b1/kafka"),
        ("b1/other", None),
        ("public/default", None),
        ("public/other", "public/other"),
        ("pulsar/system", None),
        ("teams/x", "teams/x"),
        ("acme/..", None),
        ("acme/.", None),
        ("../acme", None),
        ("acme/a/b", None),
        ("acme/%2e%2e", None),
        ("acme/a b", None),
        ("acme/__kafka", None),
        ("acme/a\n", None),
        ("acme/" + "a" * 65, None),
        ("Admin", None),
        ("stranger", None),
    ],
)
def test_a_principal_works_where_the_first_rule_that_fits_leads(name: str, namespace: str | None) -> None:
    assert TENANTS.namespace(user(name), "CLIENT", "lab-1") == namespace


def test_a_listener_leads_all_who_come_in_by_it_but_those_of_earlier_rules() -> None:
    assert TENANTS.namespace(None, "PARTNERS", "") == "partners/kafka"
    assert TENANTS.namespace(user("stranger"), "PARTNERS", "") == "partners/kafka"
    assert TENANTS.namespace(user("acme-1"), "PARTNERS", "") == "acme/orders"


def test_a_client_id_counts_only_of_clients_that_have_proven_nothing() -> None:
    assert TENANTS.namespace(None, "CLIENT", "lab-7") == "lab/kafka"
    assert TENANTS.namespace(user("stranger"), "CLIENT", "lab-7") is None
    assert TENANTS.namespace(None, "CLIENT", "User:admin") is None
    assert TENANTS.trusts_client_ids
    assert not Tenants(TenantSettings(rules="listener L -> a/b"), OWN).trusts_client_ids


def test_one_that_has_proven_nothing_fits_no_rule_about_principals() -> None:
    tenants = Tenants(TenantSettings(rules="principal User:* -> $1/k", namespaces="*/k"), OWN)
    assert tenants.namespace(None, "CLIENT", "x") is None
    assert tenants.namespace(user("ANONYMOUS"), "CLIENT", "x") == "ANONYMOUS/k"


def test_whom_no_rule_fits_is_let_into_the_own_namespace_only_where_that_is_wanted() -> None:
    tenants = Tenants(TenantSettings(rules="principal User:a* -> a/$1", namespaces="a/*", required=False), OWN)
    assert tenants.namespace(user("x"), "L", "") == OWN
    assert tenants.namespace(None, "L", "") == OWN
    assert tenants.namespace(user("a.."), "L", "") is None  # a rule fits


def test_only_who_is_led_to_the_own_namespace_administers_the_cluster() -> None:
    assert TENANTS.administers(user("admin"), "L", "")
    assert not TENANTS.administers(user("acme-1"), "L", "")
    assert not TENANTS.administers(user("public/default"), "L", "")
    tenants = Tenants(
        TenantSettings(rules="principal User:a -> a/b\nlistener ADMIN -> public/default", required=False), OWN
    )
    assert tenants.namespace(user("x"), "L", "") == OWN
    assert not tenants.administers(user("x"), "L", "")
    assert not tenants.administers(None, "L", "")
    assert tenants.administers(user("x"), "ADMIN", "")


def test_a_user_name_leads_those_who_have_logged_in_and_makes_no_administrator() -> None:
    rules = "principal User:role-a -> a/fixed\nuser_name */* -> $1/$2\nuser_name admin -> public/default"
    tenants = Tenants(TenantSettings(rules=rules, namespaces="a/*, public/*"), OWN)
    assert tenants.namespace(user("role-b"), "L", "", "a/b") == "a/b"
    assert tenants.namespace(user("role-a"), "L", "", "a/b") == "a/fixed"
    assert tenants.namespace(user("role-b"), "L", "", "public/default") is None
    assert tenants.namespace(user("role-b"), "L", "", "b/b") is None
    assert tenants.namespace(user("role-b"), "L", "a/b", None) is None
    assert tenants.namespace(None, "L", "", "a/b") is None
    assert tenants.namespace(user("role-b"), "L", "", "admin") == OWN
    assert not tenants.administers(user("role-b"), "L", "", "admin")


async def test_a_log_in_is_led_by_the_user_name_that_it_gave() -> None:
    tenants = Tenants(TenantSettings(rules="user_name */* -> $1/$2", namespaces="a/*"), OWN)
    for name, is_let_in in (("a/b", True), ("b/b", False), (None, False)):
        step = await TenantMechanism(Scripted(Done(user("r"), user_name=name)), tenants, "L").begin().step(b"", 0)
        assert isinstance(step, Done) == is_let_in


@given(TEXTS, st.sampled_from(("User", "Group", "")), TEXTS, TEXTS)
def test_no_text_leads_outside(name: str, kind: str, listener: str, client_id: str) -> None:
    for principal in (None, Principal(kind, name)):
        found = TENANTS.namespace(principal, listener, client_id)
        if found is None:
            continue
        assert is_namespace(found)
        assert ALLOWED.fullmatch(found)
        assert TENANTS.is_reachable(found)
        assert found != OWN or principal == user("admin")
        assert not re.search(r"\.\.|[%\\\s\0$*]", found)


@given(TEXTS)
def test_only_what_rules_lead_to_is_taken_from_other_nodes(namespace: str) -> None:
    if TENANTS.is_reachable(namespace):
        assert is_namespace(namespace)
        assert ALLOWED.fullmatch(namespace)


def test_other_nodes_may_name_what_the_rules_lead_to() -> None:
    for namespace in (OWN, "acme/orders", "teams/t-x", "partners/kafka", "lab/kafka", "b2/kafka"):
        assert TENANTS.is_reachable(namespace)
    for namespace in ("x/kafka", "b2/other", "pulsar/system", "", "acme", "acme/orders/x", "lab/other"):
        assert not TENANTS.is_reachable(namespace)


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_names_share_a_namespace_of_captures_only_if_they_are_the_same(one: str, other: str) -> None:
    tenants = Tenants(TenantSettings(rules="principal User:* -> t/$1", namespaces="t/*"), OWN)
    first, second = (tenants.namespace(user(name), "L", "") for name in (one, other))
    assert first is None or (first == second) == (one == other)


class Scripted:
    """A mechanism and an exchange of these steps."""

    name = "PLAIN"

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)

    def begin(self) -> "Scripted":
        return self

    async def step(self, data: bytes, now: float) -> Step:
        return self.steps.pop(0)


async def test_a_log_in_without_a_namespace_fails_as_any_other() -> None:
    steps = (Challenge(b"c"), Done(user("stranger")), Done(user("acme-1")))
    exchange = TenantMechanism(Scripted(*steps), TENANTS, "CLIENT").begin()
    assert await exchange.step(b"", 0) == Challenge(b"c")
    failed = await exchange.step(b"", 0)
    assert isinstance(failed, Failed)
    assert (failed.name, failed.retriable) == ("stranger", False)
    assert isinstance(await exchange.step(b"", 0), Failed)


async def test_a_log_in_with_a_namespace_succeeds() -> None:
    done = Done(user("acme-1"))
    mechanism = TenantMechanism(Scripted(done, done), TENANTS, "CLIENT")
    assert mechanism.name == "PLAIN"
    assert await mechanism.begin().step(b"", 0) is done
    by_listener = TenantMechanism(Scripted(Done(user("stranger"))), TENANTS, "PARTNERS")
    assert isinstance(await by_listener.begin().step(b"", 0), Done)
