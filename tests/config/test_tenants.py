"""The settings of tenants: what a rule may say, and which rules do not go together."""

from pathlib import Path

import pytest

from bridge.config import Settings, load, load_text
from bridge.config.sections import TransactionSettings
from bridge.config.tenants import RuleKind, TenantRule, TenantSettings, is_namespace, parse_allowed, parse_rules
from bridge.errors import SettingsError
from bridge.tenants.services import settings_of

RULES = """
# one a line
principal  User:acme-*   -> acme/orders
principal User:*/* -> $1/x-$2
listener   PARTNERS -> partners/kafka
client_id lab-* -> lab/kafka
principal User:CN=a -> b, O=c -> d/e
"""


def test_rules_are_read_in_their_order() -> None:
    assert [(rule.kind, rule.pattern, rule.namespace) for rule in parse_rules(RULES)] == [
        (RuleKind.PRINCIPAL, "User:acme-*", "acme/orders"),
        (RuleKind.PRINCIPAL, "User:*/*", "$1/x-$2"),
        (RuleKind.LISTENER, "PARTNERS", "partners/kafka"),
        (RuleKind.CLIENT_ID, "lab-*", "lab/kafka"),
        (RuleKind.PRINCIPAL, "User:CN=a -> b, O=c", "d/e"),
    ]
    assert parse_rules("\n # nothing \n") == ()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("principal User:a", "is not `principal|listener|user_name|client_id PATTERN -> tenant/namespace`"),
        ("user User:a -> a/b", "is not `principal"),
        ("principal a -> a/b", "a principal is written type:name"),
        ("principal * -> a/b", "a principal is written type:name"),
        ("principal User:*-* -> a/b", "two asterisks without a slash between"),
        ("principal User:* -> a", "no tenant/namespace"),
        ("principal User:* -> ../b", "no tenant/namespace"),
        ("principal User:* -> a/b/c", "no tenant/namespace"),
        ("principal User:* -> a/.", "no tenant/namespace"),
        ("principal User:* -> a/%2e%2e", "no tenant/namespace"),
        ("principal User:* -> pulsar/system", "no tenant/namespace"),
        ("principal User:* -> a/$2", "the pattern has no asterisk number 2"),
        ("principal User:* -> a/$0", "no tenant/namespace"),
        ("listener L* -> a/$1", "only the name of who has logged in"),
        ("client_id c-* -> a/$1", "only the name of who has logged in"),
    ],
)
def test_a_rule_that_is_none_is_refused_with_the_reason(rule: str, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        TenantSettings(rules=rule, namespaces="*/*")
    assert "tenants.rules: " in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("rules", "namespaces", "said"),
    [
        ("principal User:* -> $1/k", "", "say by tenants.namespaces which there are"),
        ("", "a", "tenants.namespaces: 'a' is not tenant/namespace"),
        ("", "a/b/c", "is not tenant/namespace"),
        ("", "a/[a-z]", "is not tenant/namespace"),
        ("principal User:a -> a/k\nclient_id x -> a/k", "", "any client can send the client id x"),
        ("client_id x -> a/k\nlistener L -> a/k", "", "any client can send the client id x"),
        ("client_id x -> a/k\nprincipal User:* -> $1/k", "a/*", "any client can send the client id x"),
        ("client_id x -> a/k\nprincipal User:*/* -> $1/$2", "*/*", "any client can send the client id x"),
    ],
)
def test_rules_that_do_not_keep_clients_apart_are_refused(rules: str, namespaces: str, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        TenantSettings(rules=rules, namespaces=namespaces)
    assert said in str(raised.value)


def test_rules_go_with_the_listeners() -> None:
    rules = TenantSettings(rules="listener PART* -> p/k")
    rules.check_listeners({"PARTNERS": False}, "public/default")
    with pytest.raises(SettingsError, match="is for no listener: there are CLIENT"):
        rules.check_listeners({"CLIENT": False}, "public/default")
    by_id = TenantSettings(rules="client_id x -> lab/k")
    by_id.check_listeners({"CLIENT": True}, "public/default")
    with pytest.raises(SettingsError, match="every listener has log-in"):
        by_id.check_listeners({"CLIENT": False}, "public/default")
    with pytest.raises(SettingsError, match="every client into the bridge's own namespace"):
        by_id.check_listeners({"CLIENT": True}, "lab/k")


def test_names_that_clients_choose_need_pulsar_s_permissions() -> None:
    rules = "user_name *-kop/* -> $1/$2"
    assert TenantSettings(rules=rules, namespaces="a/*").has_user_names
    tenants = {"rules": rules, "namespaces": "a/*"}
    Settings().with_values(tenants=tenants, kafka={"authorizer": "pulsar"})
    for authorizer in ("none", "kafka"):
        with pytest.raises(SettingsError, match=r'only with kafka\.authorizer = "pulsar"'):
            Settings().with_values(tenants=tenants, kafka={"authorizer": authorizer})


def test_an_asterisk_stands_for_something_without_a_slash() -> None:
    rule = TenantRule(RuleKind.PRINCIPAL, "User:*/k-*", "$1/$2")
    match = rule.fit("User:acme/k-x")
    assert match is not None
    assert rule.made_of(match) == "acme/x"
    assert all(rule.fit(text) is None for text in ("User:/k-x", "User:a/k-", "User:a/b/k-x", "User:a/k-x/y", "a/k-x"))
    assert TenantRule(RuleKind.PRINCIPAL, "User:a.b", "a/b").fit("User:axb") is None


def test_what_rules_may_lead_to() -> None:
    (allowed,) = parse_allowed("acme/*")
    assert allowed.fullmatch("acme/a.b")
    assert not any(allowed.fullmatch(text) for text in ("acme/", "acme/a/b", "xacme/a"))
    by_name = TenantRule(RuleKind.PRINCIPAL, "User:*/*", "a.b/$1-$2")
    assert by_name.may_lead_to("a.b/x-y", parse_allowed("a.b/*"))
    assert not by_name.may_lead_to("a.b/x-y", parse_allowed("b/*"))
    assert not by_name.may_lead_to("axb/x-y", parse_allowed("*/*"))
    assert TenantRule(RuleKind.LISTENER, "L", "a/b").may_lead_to("a/b", ())
    assert [is_namespace(text) for text in ("a/b", "public/default", "a-b/c.d:e=f")] == [True] * 3
    assert not any(map(is_namespace, ("a", "a/b/c", "../b", "a/..", ".a/b", "a/", "/b", "pulsar/x", "a/" + "b" * 200)))


def test_a_namespace_has_the_limits_of_the_first_line_that_fits() -> None:
    limits = """
    # few for all of one tenant but one
    acme/big  transactions.max_ids=5000
    acme/*    transactions.max_ids=10  transactions.max_open=2
    """
    settings = Settings().with_values(tenants={"limits": limits})
    assert [settings.tenants.limits_of(one) for one in ("acme/big", "acme/x", "acme/x/y", "beta/x")] == [
        {"max_ids": 5000},
        {"max_ids": 10, "max_open": 2},
        {},
        {},
    ]
    assert load_text(settings.to_toml()) == settings
    few, usual = (settings_of(one, settings).transactions for one in ("acme/x", "beta/x"))
    assert (few.max_ids, few.max_open) == (10, 2)
    assert usual == TransactionSettings()


@pytest.mark.parametrize(
    "line",
    [
        "acme/*",
        "acme transactions.max_ids=1",
        "acme/* max_ids=1",
        "acme/* transactions.slots=1",
        "acme/* transactions.max_ids=0",
        "acme/* transactions.max_ids=-1",
        "acme/* transactions.max_ids=2147483648",
        "acme/* transactions.max_ids = 1",
        "acme/* transactions.max_open=\u0661",
    ],
)
def test_limits_that_say_nothing_are_refused(line: str) -> None:
    with pytest.raises(SettingsError, match=r"^tenants\.limits: "):
        TenantSettings(limits=line)


def test_workers_are_told_the_same_rules() -> None:
    rules = RULES.replace("client_id", "#").replace("PARTNERS", "PLAINTEXT")
    settings = Settings().with_values(tenants={"rules": rules, "namespaces": "a/*"})
    assert load_text(settings.to_toml()) == settings


def test_settings_are_refused_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "bridge.toml"
    path.write_text('[tenants]\nrules = "listener X -> a/b"\n')
    with pytest.raises(SettingsError, match="is for no listener: there are PLAINTEXT"):
        load(path, {})
    single = {"addressing": "single", "internal_listen": "10.0.0.1:9095"}
    with pytest.raises(SettingsError, match=r"set cluster\.internal_secret_file"):
        Settings().with_values(
            kafka={"advertised": "k:1"}, cluster=single, tenants={"rules": "listener PLAINTEXT -> a/b"}
        )
