"""Whether the namespaces that `tenants.rules` lead to are there, and may be written and read."""

from typing import Final

from bridge.check.findings import Finding, Severity
from bridge.check.remedies import create_namespace_command
from bridge.check.rights import examine_rights
from bridge.config import Settings
from bridge.config.tenants import parse_rules
from bridge.pulsar import Admin, AdminError, PulsarClient
from bridge.pulsar.admin import Forbidden, NotFound

_MOST: Final = 50


async def examine_tenants(admin: Admin, client: PulsarClient, settings: Settings) -> list[Finding]:
    """One finding for each namespace that a rule names; an entry is written to a hidden topic of each."""
    rules = parse_rules(settings.tenants.rules)
    named = dict.fromkeys(rule.namespace for rule in rules if not rule.captures)
    others = [one for one in named if one != settings.pulsar.full_namespace]
    findings = [await _examine(admin, client, settings, one) for one in others[:_MOST]]
    left_out = len(others) - len(findings)
    if left_out:
        findings.append(Finding("tenants", Severity.UNKNOWN, f"{left_out} more namespaces are not looked at"))
    elif any(rule.captures for rule in rules):
        detail = "which namespaces clients' names lead to is not known before they come"
        findings.append(Finding("tenants", Severity.UNKNOWN, detail))
    return findings


async def _examine(admin: Admin, client: PulsarClient, settings: Settings, namespace: str) -> Finding:
    name = f"tenant {namespace}"
    try:
        await admin.namespace_policies(namespace)
    except NotFound as error:
        return Finding(name, Severity.UNFIT, str(error), create_namespace_command(namespace))
    except Forbidden:
        pass  # that it may be written and read is enough
    except AdminError as error:
        return Finding(name, Severity.UNKNOWN, str(error))
    tenant, _, short = namespace.partition("/")
    there = settings.with_values(pulsar={"tenant": tenant, "namespace": short}, tenants={"rules": ""})
    return await examine_rights(name, admin, client, there)
