"""Fitness: judged on a real Pulsar that is fit and on one that is not."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridge.check import PROBE_TOPIC, ensure_fit, index_problem, retention_problem
from bridge.check.findings import Finding, Severity
from bridge.check.hosts import examine_hosts
from bridge.check.nodes import examine_features, examine_liveness
from bridge.check.policies import examine_policies
from bridge.check.state_namespace import make_namespace
from bridge.check.table import examine, report
from bridge.cluster.topics import ClusterTopics
from bridge.config import Settings
from bridge.errors import StartupError
from bridge.pulsar import Access, Admin, PulsarClient
from bridge.pulsar.admin import Retention
from bridge.pulsar.pb.PulsarApi_pb2 import FeatureFlags
from bridge.telemetry.metrics import PulsarMetrics
from tests.support.bridges import settings_for
from tests.support.pulsar import PrivatePulsar, PulsarAddress


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Admin, PulsarClient]]:
    admin, client = Admin(settings.pulsar), PulsarClient(settings.pulsar, PulsarMetrics())
    await admin.start()
    await client.start()
    try:
        yield admin, client
    finally:
        await client.close()
        await admin.close()


def bare(pulsar: PulsarAddress, **overrides: Any) -> Settings:
    """Settings for a fresh namespace without retention."""
    return settings_for(pulsar, pulsar.create_namespace(retention=False), overrides)


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    assert len({finding.name for finding in findings}) == len(findings)
    return {finding.name: finding for finding in findings}


@pytest.fixture(scope="module")
def unfit(private_pulsar: Callable[..., PrivatePulsar]) -> PrivatePulsar:
    """A Pulsar with its own defaults instead of what the bridge needs."""
    return private_pulsar(
        {
            "exposingBrokerEntryMetadataToClientEnabled": "false",
            "brokerEntryMetadataInterceptors": "",
            "brokerDeduplicationEnabled": "false",
            "brokerDeleteInactiveTopicsEnabled": "true",
            "systemTopicEnabled": "false",
            "topicLevelPoliciesEnabled": "false",
        }
    )


async def test_a_fit_pulsar_is_told_so(pulsar: PulsarAddress, namespace: str) -> None:
    settings = settings_for(pulsar, namespace)
    findings = by_name(await examine(settings))
    expected = (
        "reachable", "logged in", "index exposed", "admin reachable", "namespace", "retention", "inactive topics",
        "topic policies", "deduplication", "auto creation", "policies", "state namespace", "state access",
        "frozen nodes", "cluster topics", "cluster retention", "version",
    )  # fmt: skip
    assert tuple(findings) == expected
    assert {name for name, finding in findings.items() if finding.severity is not Severity.FIT} == {
        "auto creation", "state access",
    }  # fmt: skip
    assert "this Pulsar has no authorization" in findings["state access"].detail
    assert f"an entry written to {PROBE_TOPIC} came back with index" in findings["index exposed"].detail
    out = io.StringIO()
    assert await report(settings, out) == 0
    assert out.getvalue().endswith("fit for the bridge\n")


async def test_an_unfit_pulsar_is_told_with_every_remedy(unfit: PrivatePulsar) -> None:
    settings = bare(unfit)
    namespace = settings.pulsar.full_namespace
    findings = by_name(await examine(settings))
    remedies = {name: found.remedy for name, found in findings.items() if found.severity is Severity.UNFIT}
    conf = "set in every broker's broker.conf and restart it: "
    policies = f"pulsar-admin namespaces set-inactive-topic-policies {namespace} --disable-delete-while-inactive"
    assert remedies == {
        "index exposed": (
            f"{conf}brokerEntryMetadataInterceptors="
            "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor   "
            "exposingBrokerEntryMetadataToClientEnabled=true"
        ),
        "retention": f"pulsar-admin namespaces set-retention {namespace} --time 10080m --size -1",
        "inactive topics": f"{policies} --max-inactive-duration 1h --delete-mode delete_when_no_subscriptions",
        "topic policies": f"{conf}systemTopicEnabled=true   topicLevelPoliciesEnabled=true",
        "deduplication": f"pulsar-admin namespaces set-deduplication {namespace} --enable",
    }
    out = io.StringIO()
    assert await report(settings, out) == 1
    assert "index exposed      NOT FIT  entries come without their index\n" in out.getvalue()


async def test_policies_that_hurt_are_told_each_with_its_remedy(pulsar: PulsarAddress) -> None:
    namespace = pulsar.create_namespace()
    limits = {"maxProducersPerTopic": 5, "maxConsumersPerTopic": 5, "maxSubscriptionsPerTopic": 5}
    quota = {"limitSize": 1000, "limitTime": -1, "policy": "producer_exception"}
    policies: dict[str, object] = {
        **limits, "maxTopicsPerNamespace": 99, "encryptionRequired": True, "schemaValidationEnforced": True,
        "subscriptionTypesEnabled": ["Shared"], "backlogQuota?backlogQuotaType=destination_storage": quota,
        "publishRate": {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": -1},
        "dispatchRate": {"dispatchThrottlingRateInMsg": -1, "dispatchThrottlingRateInByte": 10},
        "autoTopicCreation": {"allowAutoTopicCreation": False}, "resourcegroup/checked": None,
    }  # fmt: skip
    pulsar.admin("PUT", "resourcegroups/checked", {"publishRateInMsgs": 10})
    for name, value in policies.items():
        pulsar.admin("POST", f"namespaces/{namespace}/{name}", value)
    findings = by_name(await examine(settings_for(pulsar, namespace)))
    told = {name: found for name, found in findings.items() if "namespaces remove-" in found.remedy}
    assert set(told) == {
        "max producers", "max consumers", "max subscriptions", "max topics", "subscription types", "backlog quota",
        "rates", "resource group",
    }  # fmt: skip
    assert told["max producers"].remedy == f"pulsar-admin namespaces remove-max-producers-per-topic {namespace}"
    assert told["rates"].detail.startswith("publish and dispatch: ")
    assert findings["encryption"].remedy == f"pulsar-admin namespaces set-encryption-required {namespace} --disable"
    assert findings["schema"].severity is Severity.RISK
    unfit = {name for name, found in findings.items() if found.severity is Severity.UNFIT}
    assert {"encryption", "subscription types"} <= unfit
    assert findings["auto creation"].severity is Severity.FIT, "the namespace's own goes before the broker's"
    assert "policies" not in findings


async def test_a_namespace_of_other_clusters_is_told() -> None:
    class Elsewhere(Admin):
        """A namespace for which a test would need two clusters."""

        async def namespace_policies(self, namespace: str) -> dict[str, Any]:
            return {"replication_clusters": ["b"], "entryFilters": {"entryFilterNames": "hides"}}

    admin = Elsewhere(Settings().pulsar)
    clusters, filters = sorted(
        await examine_policies(admin, "public/default", {"clusterName": "a"}), key=lambda found: found.name
    )
    assert (clusters.severity, clusters.remedy) == (
        Severity.UNFIT, "pulsar-admin namespaces set-clusters public/default --clusters a,b",
    )  # fmt: skip
    assert "hides" in filters.detail
    unknown = (await examine_policies(admin, "public/default", None))[-1]
    assert (unknown.name, unknown.severity) == ("policies", Severity.UNKNOWN)


async def test_what_many_nodes_need_is_told_before_the_first_start_and_after(
    pulsar: PulsarAddress, unfit: PrivatePulsar
) -> None:
    settings = bare(pulsar)
    before = by_name(await examine(settings))
    assert "connectionLivenessCheckTimeoutMillis=2000" in before["frozen nodes"].remedy
    assert before["cluster topics"].remedy.count("pulsar-admin topics create persistent://") == 2
    assert before["cluster retention"].detail == "an hour, set at the first start"
    async with opened(settings) as (admin, client):
        await make_namespace(admin, settings)
        topics = ClusterTopics(admin, settings.pulsar)
        await topics.create(client)
        created = by_name(await examine(settings))
        assert created["cluster topics"].detail.endswith("-bridge/__bridge_heartbeats are there")
        assert created["cluster retention"].severity is Severity.RISK
        await topics.limit_retention()
    async with asyncio.timeout(20):  # brokers read changes of topics' policies from a topic, a little later
        while by_name(await examine(settings))["cluster retention"].severity is not Severity.FIT:
            pass
    without_policies = by_name(await examine(bare(unfit)))["cluster retention"]
    assert without_policies.severity is Severity.RISK
    assert "22 MB a day" in without_policies.detail


@pytest.mark.parametrize(
    ("runtime", "version", "severity", "told"),
    [
        ({"connectionLivenessCheckTimeoutMillis": "2000"}, "", Severity.FIT, "free after 2 s"),
        ({"connectionLivenessCheckTimeoutMillis": "5000"}, "", Severity.FIT, "free after 5 s"),
        ({"connectionLivenessCheckTimeoutMillis": "30000"}, "", Severity.RISK, "free after 30 s"),
        ({"connectionLivenessCheckTimeoutMillis": "0"}, "", Severity.RISK, "is off"),
        ({}, "Pulsar Server4.0.7", Severity.RISK, "keepAliveIntervalSeconds"),
        (None, "Pulsar Server4.0.7", Severity.UNKNOWN, "may not read"),
        (None, "Pulsar Server3.0.2", Severity.UNKNOWN, "may not read"),
        (None, "Pulsar Server3.0.1", Severity.RISK, "keepAliveIntervalSeconds"),
        (None, "Pulsar Server2.11.2", Severity.RISK, "keepAliveIntervalSeconds"),
        (None, "Pulsar Server2.10.6", Severity.UNKNOWN, "may not read"),
        (None, "Pulsar Server2.9.5", Severity.RISK, "keepAliveIntervalSeconds"),
        (None, "a server that does not tell", Severity.UNKNOWN, "may not read"),
    ],
)
def test_how_long_a_frozen_node_keeps_its_names_is_told(
    runtime: dict[str, str] | None, version: str, severity: Severity, told: str
) -> None:
    finding = examine_liveness(runtime, version)
    assert finding.severity is severity
    assert told in finding.detail


def test_what_an_older_broker_cannot_do_is_told() -> None:
    old = examine_features("Pulsar Server3.0.0", FeatureFlags(supports_topic_watchers=True))
    assert old.severity is Severity.RISK
    assert old.detail.startswith("3.0.0: asking for a topic may create it (PIP-344)")
    assert examine_features("a proxy", FeatureFlags()).detail.startswith("a proxy: topics that come and go")


async def test_a_start_without_the_index_says_which_settings_are_missing(unfit: PrivatePulsar) -> None:
    async with opened(settings := bare(unfit)) as (admin, client):
        with pytest.raises(StartupError, match=r"brokerEntryMetadataInterceptors=.*exposingBrokerEntryMetadata"):
            await ensure_fit(admin, client, settings)


async def test_the_index_is_judged_by_an_entry_where_the_configuration_is_not_readable(
    pulsar: PulsarAddress, unfit: PrivatePulsar, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_readable(admin: Admin) -> None:
        return None

    # the two places that ask; what is read back comes from the real brokers
    monkeypatch.setattr("bridge.check.fit.runtime_config", not_readable)
    async with opened(settings := settings_for(pulsar, namespace)) as (admin, client):
        assert await index_problem(admin, client, settings) is None
    async with opened(settings := bare(unfit)) as (admin, client):
        assert "exposingBrokerEntryMetadataToClientEnabled=true" in (await index_problem(admin, client, settings) or "")


async def test_zero_retention_is_set_at_the_start(pulsar: PulsarAddress) -> None:
    async with opened(settings := bare(pulsar, retention={"minutes": 60, "megabytes": 100})) as (admin, client):
        namespace = settings.pulsar.full_namespace
        assert "has no retention" in (await retention_problem(admin, settings) or "")
        await ensure_fit(admin, client, settings)
        assert await admin.namespace_retention(namespace) == Retention(60, 100)
        assert await retention_problem(admin, settings) is None


async def test_retention_that_is_there_is_left_as_it_is(pulsar: PulsarAddress) -> None:
    async with opened(settings := bare(pulsar)) as (admin, client):
        await admin.set_namespace_retention(settings.pulsar.full_namespace, Retention(5, 5))
        await ensure_fit(admin, client, settings)
        assert await admin.namespace_retention(settings.pulsar.full_namespace) == Retention(5, 5)


async def test_zero_retention_that_may_not_be_set_refuses_the_start(pulsar: PulsarAddress) -> None:
    async with opened(settings := bare(pulsar, retention={"ensure": False})) as (admin, client):
        said = (
            f"run: pulsar-admin namespaces set-retention {settings.pulsar.full_namespace} --time 10080m --size -1 "
            r"\(or set retention.ensure = true\)"
        )
        with pytest.raises(StartupError, match=said):
            await ensure_fit(admin, client, settings)


async def test_topics_are_kept_where_the_broker_deletes_unused_ones(
    unfit: PrivatePulsar, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_problem(*_: object) -> None:
        return None

    monkeypatch.setattr("bridge.check.fit.index_problem", no_problem)  # this Pulsar has more than one fault
    async with opened(settings := bare(unfit)) as (admin, client):
        await ensure_fit(admin, client, settings)
        policies = await admin.namespace_policies(settings.pulsar.full_namespace)
        assert policies["inactive_topic_policies"]["deleteWhileInactive"] is False


async def test_a_missing_namespace_is_told(pulsar: PulsarAddress) -> None:
    settings = settings_for(pulsar, "public/t-missing")
    async with opened(settings) as (admin, client):
        with pytest.raises(StartupError, match="run: pulsar-admin namespaces create public/t-missing"):
            await ensure_fit(admin, client, settings)
    findings = by_name(await examine(settings))
    assert findings["namespace"].remedy == "pulsar-admin namespaces create public/t-missing"


async def test_a_pulsar_that_is_not_there_is_told() -> None:
    settings = settings_for(PulsarAddress("pulsar://127.0.0.1:1", "http://127.0.0.1:1"), "public/default")
    findings = await examine(settings)
    assert [(finding.name, finding.severity) for finding in findings] == [
        ("reachable", Severity.UNFIT),
        ("admin reachable", Severity.UNFIT),
    ]


@pytest.mark.parametrize(
    ("allowed", "severity", "said"),
    [
        ("*.pulsar.example", Severity.UNFIT, "brokers that the bridge will not connect to: 127.0.0.2"),
        ("*.pulsar.example, 127.0.0.0/8", Severity.FIT, "all 2 brokers that Pulsar lists are allowed"),
    ],
)
async def test_brokers_that_are_not_allowed_are_told(
    allowed: str, severity: Severity, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings().with_values(
        pulsar={"service_url": "pulsar://198.51.100.1:6650", "admin_url": "http://198.51.100.1:80",
                "allowed_hosts": allowed},
    )  # fmt: skip
    finding = await hosts_of(settings, ["198.51.100.1", "127.0.0.2"], monkeypatch)
    assert (finding.severity, finding.detail) == (severity, said)


async def test_where_brokers_are_not_listed_whether_they_are_allowed_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finding = await hosts_of(Settings().with_values(pulsar={"allowed_hosts": "x.example"}), None, monkeypatch)
    assert finding.severity is Severity.UNKNOWN


async def hosts_of(settings: Settings, listed: list[str] | None, monkeypatch: pytest.MonkeyPatch) -> Finding:
    async def brokers(_: Admin) -> list[str] | None:
        return listed

    monkeypatch.setattr(Admin, "broker_hosts", brokers)
    access = Access.by(settings.pulsar, PulsarMetrics())
    return await examine_hosts(Admin(settings.pulsar, access), access)


async def test_namespaces_of_tenants_are_looked_at(pulsar: PulsarAddress, namespace: str) -> None:
    there, own = pulsar.create_namespace(), pulsar.create_namespace()
    rules = f"principal User:admin -> {own}\nprincipal User:a -> {there}\nprincipal User:b -> {namespace}-gone"
    settings = settings_for(pulsar, own, {
        "pulsar": {"allowed_hosts": "127.0.0.1"},
        "tenants": {"rules": rules + "\nprincipal User:*/* -> $1/$2", "namespaces": "acme/*"},
    })  # fmt: skip
    findings = by_name(await examine(settings))
    assert findings["allowed hosts"].severity is Severity.FIT
    assert findings[f"tenant {there}"].severity is Severity.FIT
    gone = findings[f"tenant {namespace}-gone"]
    assert (gone.severity, gone.remedy) == (
        Severity.UNFIT, f"pulsar-admin namespaces create {namespace}-gone",
    )  # fmt: skip
    assert findings["tenants"].severity is Severity.UNKNOWN
    assert f"tenant {own}" not in findings
