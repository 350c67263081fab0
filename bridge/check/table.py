"""What `bridge check` tells: one finding a line, and what fixes it."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

from bridge.check.facts import (
    INDEX_SETTINGS,
    PROBE_TOPIC,
    deletes_inactive,
    effective_retention,
    is_true,
    knows_nobody,
    missing_index_settings,
    probe_index,
    retains_data,
    runtime_config,
)
from bridge.check.files import examine_files
from bridge.check.findings import Finding, Severity
from bridge.check.hosts import examine_hosts
from bridge.check.kop import examine_kop
from bridge.check.nodes import examine_cluster_topics, examine_features, examine_liveness
from bridge.check.policies import examine_policies
from bridge.check.remedies import (
    ADMIN_LOGIN_REMEDY,
    ADMIN_URL_REMEDY,
    administrator_command,
    broker_conf,
    create_namespace_command,
    keep_topics_command,
    refuses_login,
    retention_command,
    service_remedy,
)
from bridge.check.rights import creation_refused, examine_rights
from bridge.check.state_access import examine_state_access, own_role
from bridge.check.state_namespace import grant_command, nothing_can_be_made, of_state
from bridge.check.tenants import examine_tenants
from bridge.config import Settings
from bridge.config.urls import url_without_secrets, without_secrets
from bridge.errors import BridgeError
from bridge.pulsar import Access, Admin, AdminError, PulsarClient
from bridge.pulsar.admin import Forbidden, NotFound
from bridge.telemetry.metrics import PulsarMetrics


async def report(settings: Settings, out: TextIO, file: Path | None = None, *, as_json: bool = False) -> int:
    """Print the table, or one object of JSON; 0 when the Pulsar is fit, 1 when not. `file`: that of the settings."""
    return tell(settings, [*await examine(settings), *examine_files(settings, file)], out, as_json=as_json)


def tell(
    settings: Settings, found: Sequence[Finding], out: TextIO, *, as_json: bool, fit: str = "fit for the bridge"
) -> int:
    """Print findings, and `fit` if all are; 0 when nothing is unfit, else 1."""
    findings = [replace(one, detail=without_secrets(one.detail)) for one in found]
    unfit = sum(finding.severity is Severity.UNFIT for finding in findings)
    if as_json:
        rows = [{**asdict(finding), "severity": finding.severity.name.lower()} for finding in findings]
        where = {
            "service_url": url_without_secrets(settings.pulsar.service_url),
            "namespace": settings.pulsar.full_namespace,
        }
        print(json.dumps({**where, "fit": not unfit, "findings": rows}, indent=1), file=out)
        return 1 if unfit else 0
    width = max(len(finding.name) for finding in findings)
    print(f"{url_without_secrets(settings.pulsar.service_url)}, namespace {settings.pulsar.full_namespace}", file=out)
    for finding in findings:
        print(f"  {finding.name:<{width}}  {finding.severity:<8} {finding.detail}", file=out)
        if finding.remedy:
            print(f"  {'':<{width}}  {'':<8} → {finding.remedy}", file=out)
    print("not fit: fix what is marked NOT FIT" if unfit else fit, file=out)
    return 1 if unfit else 0


async def examine(settings: Settings) -> list[Finding]:
    """Every finding; nothing is changed, except that a probe entry is written to a hidden topic."""
    metrics = PulsarMetrics()
    access = Access.by(settings.pulsar, metrics)
    admin, client = Admin(settings.pulsar, access), PulsarClient(settings.pulsar, metrics, access)
    await admin.start()
    try:
        findings = await _examine_login(client, access, settings)
        connected = all(finding.severity is Severity.FIT for finding in findings)
        findings += await _examine_admin(admin, client if connected else None, settings)
        if findings[-1].severity is not Severity.UNFIT:
            findings += await _examine_policies(admin, settings)
            findings += await _examine_state(admin, client if connected else None, access, settings)
            findings += await _examine_many_nodes(admin, client, settings)
            findings += await examine_kop(admin, settings.pulsar)
            if settings.pulsar.allowed_hosts:
                findings.append(await examine_hosts(admin, access))
        if connected:
            findings.append(examine_features(client.server_version, client.features))
            if settings.kafka.authorizer == "pulsar":
                findings.append(await _examine_roles(settings, access))
            findings.insert(2, await _examine_index(admin, client, settings))
            findings += await examine_tenants(admin, client, settings)
        return findings
    finally:
        await client.close()
        await admin.close()
        await access.close()


async def _examine_login(client: PulsarClient, access: Access, settings: Settings) -> list[Finding]:
    url = settings.pulsar.service_url
    try:
        await client.start()
    except (BridgeError, OSError) as error:
        remedy = service_remedy(error)
        if isinstance(error, BridgeError) and refuses_login(error):
            return [
                Finding("reachable", Severity.FIT, url),
                Finding("logged in", Severity.UNFIT, str(error), remedy),
            ]
        return [Finding("reachable", Severity.UNFIT, str(error), remedy)]
    login = {"none": "without authentication", "tls": "with a certificate"}.get(
        access.credentials.method, "with a token"
    )
    return [Finding("reachable", Severity.FIT, url), Finding("logged in", Severity.FIT, login)]


async def _examine_roles(settings: Settings, access: Access) -> Finding:
    from bridge.access.pulsar_permissions import fitness  # what it imports takes time

    found = await fitness.problem(settings, access)
    if found is None:
        return Finding("roles", Severity.FIT, "Pulsar says who clients are, and what they may")
    return Finding("roles", Severity.UNFIT, found.what, found.remedy)


async def _examine_index(admin: Admin, client: PulsarClient, settings: Settings) -> Finding:
    name = "index exposed"
    try:
        index = await probe_index(admin, client, settings)
    except BridgeError as error:
        return Finding(name, Severity.UNKNOWN, f"the probe entry failed: {error}")
    if index is not None:
        return Finding(name, Severity.FIT, f"an entry written to {PROBE_TOPIC} came back with index {index}")
    missing = missing_index_settings(await runtime_config(admin)) or list(INDEX_SETTINGS)
    return Finding(name, Severity.UNFIT, "entries come without their index", broker_conf(missing))


async def _examine_admin(admin: Admin, client: PulsarClient | None, settings: Settings) -> list[Finding]:
    url, namespace = settings.pulsar.admin_url, settings.pulsar.full_namespace
    try:
        await admin.namespace_policies(namespace)
    except Forbidden as error:
        if await knows_nobody(admin, error):
            detail = f"{url_without_secrets(url)} does not know the bridge ({error})"
            return [Finding("admin reachable", Severity.UNFIT, detail, ADMIN_LOGIN_REMEDY)]
        namespace_finding = await _examine_rights(admin, client, settings, str(error))
        return [Finding("admin reachable", Severity.FIT, url), namespace_finding]
    except NotFound as error:
        return [
            Finding("admin reachable", Severity.FIT, url),
            Finding("namespace", Severity.UNFIT, str(error), create_namespace_command(namespace)),
        ]
    except AdminError as error:
        return [Finding("admin reachable", Severity.UNFIT, str(error), ADMIN_URL_REMEDY)]
    return [Finding("admin reachable", Severity.FIT, url), Finding("namespace", Severity.FIT, f"{namespace} exists")]


async def _examine_rights(admin: Admin, client: PulsarClient | None, settings: Settings, why: str) -> Finding:
    """Of a login that may not look at the namespace: it must be able to make topics all the same, unless the settings
    say that administrators have prepared what it cannot."""
    pulsar, name = settings.pulsar, "namespace"
    refused = await creation_refused(admin, pulsar.full_namespace)
    if refused is None:
        return Finding(name, Severity.UNKNOWN, f"this login may not look at it ({why})")
    detail = f"this login may not create topics in it ({refused})"
    if client is None or settings.retention.ensure or not pulsar.trust_state_namespace:
        role = await own_role(pulsar, admin.access, None)
        remedy = administrator_command(pulsar.tenant, role, admin.access.credentials.method)
        return Finding(name, Severity.UNFIT, detail, remedy)
    may = await examine_rights(name, admin, client, settings)
    return replace(may, severity=Severity.RISK, detail=detail) if may.severity is Severity.FIT else may


async def _examine_policies(admin: Admin, settings: Settings) -> list[Finding]:
    namespace = settings.pulsar.full_namespace
    runtime = await runtime_config(admin)
    return [
        await _examine_retention(admin, settings),
        await _guarded("inactive topics", _examine_inactive, admin, namespace),
        _examine_topic_policies(runtime),
        await _guarded("deduplication", _examine_deduplication, admin, namespace),
        await _examine_auto_creation(admin, namespace, runtime),
        *await examine_policies(admin, namespace, runtime),
    ]


async def _examine_state(
    admin: Admin, client: PulsarClient | None, access: Access, settings: Settings
) -> list[Finding]:
    """Whether what the bridge believes is where no other role may write, and is kept."""
    namespace, name = settings.pulsar.full_state_namespace, "state namespace"
    try:
        await admin.namespace_policies(namespace)
    except NotFound:
        detail = f"the first start makes {namespace}; where this login may not, run once:"
        command = grant_command(namespace, await own_role(settings.pulsar, access, None))
        there = Finding(name, Severity.FIT, detail, command)
        return [there, *await examine_state_access(admin, access, settings)]
    except AdminError as error:
        there = Finding(name, Severity.UNKNOWN, f"this login may not look at {namespace} ({error})")
    else:
        there = Finding(name, Severity.FIT, f"{namespace} exists")
    rights = [] if client is None else [await examine_rights("state rights", admin, client, of_state(settings))]
    if client is not None and rights[0].severity is Severity.FIT:
        missing = await nothing_can_be_made(admin, client, settings.pulsar)
        there = there if missing is None else Finding(name, Severity.UNFIT, *missing)
    kept = await _examine_retention(admin, of_state(settings))
    hurting = await examine_policies(admin, namespace, await runtime_config(admin))
    return [
        there,
        *rights,
        *await examine_state_access(admin, access, settings),
        *([] if kept.severity is Severity.FIT else [replace(kept, name="state retention")]),
        *(replace(one, name=f"state {one.name}") for one in hurting if one.severity in (Severity.RISK, Severity.UNFIT)),
    ]


async def _examine_many_nodes(admin: Admin, client: PulsarClient, settings: Settings) -> list[Finding]:
    runtime = await runtime_config(admin)
    topics = await examine_cluster_topics(admin, settings.pulsar, runtime)
    return [examine_liveness(runtime, client.server_version), *topics]


async def _guarded(
    name: str, look: Callable[[Admin, str], Awaitable[Finding]], admin: Admin, namespace: str
) -> Finding:
    try:
        return await look(admin, namespace)
    except AdminError as error:
        return Finding(name, Severity.UNKNOWN, str(error))


async def _examine_retention(admin: Admin, settings: Settings) -> Finding:
    namespace = settings.pulsar.full_namespace
    command = retention_command(namespace, settings.retention)
    try:
        kept = await effective_retention(admin, namespace)
    except AdminError as error:
        return Finding("retention", Severity.UNKNOWN, f"cannot be read ({error})", command)
    if kept is None:
        return Finding(
            "retention", Severity.UNKNOWN, "the namespace has none, the broker's default is not readable", command
        )
    if not retains_data(kept):
        return Finding("retention", Severity.UNFIT, "none: records that no subscription holds are deleted", command)
    return Finding("retention", Severity.FIT, f"{_limit(kept.minutes, 'minutes')}, {_limit(kept.megabytes, 'MB')}")


async def _examine_inactive(admin: Admin, namespace: str) -> Finding:
    deletes = await deletes_inactive(admin, namespace)
    command = keep_topics_command(namespace)
    if deletes is None:
        return Finding("inactive topics", Severity.UNKNOWN, "the broker's default is not readable", command)
    if deletes:
        return Finding("inactive topics", Severity.UNFIT, "unused topics are deleted", command)
    return Finding("inactive topics", Severity.FIT, "are kept")


async def _examine_deduplication(admin: Admin, namespace: str) -> Finding:
    enabled = await admin.namespace_deduplication(namespace)
    if enabled is None:
        enabled = is_true(await runtime_config(admin), "brokerDeduplicationEnabled")
    command = f"pulsar-admin namespaces set-deduplication {namespace} --enable"
    if enabled is None:
        return Finding("deduplication", Severity.UNKNOWN, "the broker's default is not readable", command)
    if not enabled:
        return Finding(
            "deduplication", Severity.UNFIT, "off: a retry of an idempotent producer is stored twice", command
        )
    return Finding("deduplication", Severity.FIT, "on")


def _examine_topic_policies(runtime: Mapping[str, Any] | None) -> Finding:
    names = ("systemTopicEnabled", "topicLevelPoliciesEnabled")
    if runtime is None:
        return Finding("topic policies", Severity.UNKNOWN, "this login may not read the broker's configuration")
    off = [f"{name}=true" for name in names if is_true(runtime, name) is False]
    if off:
        return Finding("topic policies", Severity.UNFIT, "a topic cannot have settings of its own", broker_conf(off))
    return Finding("topic policies", Severity.FIT, "on")


async def _examine_auto_creation(admin: Admin, namespace: str, runtime: Mapping[str, Any] | None) -> Finding:
    try:
        own = (await admin.namespace_policies(namespace)).get("autoTopicCreationOverride")
    except AdminError:
        own = None
    allowed = is_true(own if isinstance(own, dict) else runtime, "allowAutoTopicCreation")
    if allowed is None:
        return Finding("auto creation", Severity.UNKNOWN, "this login may not read the broker's configuration")
    if allowed:
        return Finding("auto creation", Severity.RISK, "a native client that names a deleted topic creates it again")
    return Finding("auto creation", Severity.FIT, "off")


def _limit(value: int, unit: str) -> str:
    return f"any number of {unit}" if value < 0 else f"{value:,} {unit}"
