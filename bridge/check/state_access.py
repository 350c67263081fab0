"""Who may produce or consume where the bridge keeps what it believes: the state namespace.

Who may write there can make itself an administrator, and send clients wherever it likes. Who may read there has the
salted passwords. So it is for the bridge's role alone, and for those whom no permission keeps out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.check.facts import is_true, runtime_config
from bridge.check.findings import Finding, Severity
from bridge.check.remedies import administrator_command
from bridge.config import PulsarSettings, Settings
from bridge.pulsar import Access, Admin, AdminError
from bridge.pulsar.admin import NotFound
from bridge.pulsar.auth.credentials import claim_of
from bridge.pulsar.auth.tls import own_certificate
from bridge.pulsar.role_name import RightUnknown, role_name
from bridge.runtime.futures import Together
from bridge.telemetry.metrics import PulsarMetrics

Values = Mapping[str, Any]

_NAME: Final = "state access"
_TRUST: Final = "or set pulsar.trust_state_namespace = true, if no stranger reaches this Pulsar"


@dataclass(frozen=True, slots=True)
class _Roles:
    """The roles that are told apart; a list is None where this login may not see it."""

    own: str | None
    method: str
    """By which the bridge logs in."""
    administrators: list[str] | None
    super_users: list[str] | None
    proxies: list[str]
    accepted: list[str]
    """By pulsar.state_roles."""
    anonymous: str
    """Of clients that do not log in to Pulsar; empty: there are none."""
    is_anonymous_administrator: bool

    def described(self, role: str) -> str:
        """The role, and who has it where that is everybody."""
        return f"role {role}" + (" (anonymousUserRole: all who do not log in)" if role == self.anonymous else "")


async def examine_state_access(admin: Admin, access: Access, settings: Settings) -> list[Finding]:
    """What is wrong, then who may besides, whom no permission keeps out. UNFIT: a bridge whose clients log in must not
    start so."""
    namespace = settings.pulsar.full_state_namespace
    async with Together() as tasks:
        asked = tasks.create_task(_policies(admin, namespace))
        administrators = tasks.create_task(_administrators(admin, namespace.partition("/")[0]))
        config = tasks.create_task(runtime_config(admin))
        stranger = tasks.create_task(_without_login(settings.pulsar))
    runtime, policies = config.result(), asked.result()
    anonymous, is_administrator = stranger.result()
    who = _Roles(
        own=await own_role(settings.pulsar, access, runtime),
        method=access.credentials.method,
        administrators=administrators.result(),
        super_users=None if runtime is None else _listed(runtime, "superUserRoles"),
        proxies=[*_listed(runtime, "proxyRoles"), *_own_proxy(settings.pulsar)],
        accepted=_split(settings.pulsar.state_roles),
        anonymous=str((runtime or {}).get("anonymousUserRole") or anonymous),
        is_anonymous_administrator=is_administrator,
    )
    severity = Severity.UNFIT if settings.has_rights and not settings.pulsar.trust_state_namespace else Severity.RISK
    wrong = [Finding(_NAME, severity, *one) for one in _wrong(namespace, who, policies, runtime)]
    return wrong or [Finding(_NAME, Severity.FIT, f"{namespace}: the bridge's role alone{_who_can_always(who)}")]


async def own_role(pulsar: PulsarSettings, access: Access, runtime: Values | None) -> str | None:
    """The bridge's role, as its own token or certificate says it; None where it has none."""
    token = await access.credentials.data()
    if token:
        return claim_of(token, str((runtime or {}).get("tokenAuthClaim") or pulsar.token_auth_claim))
    return _common_name(own_certificate(pulsar).pem()) if pulsar.has_certificate else None


async def _policies(admin: Admin, namespace: str) -> Values | AdminError:
    try:
        return await admin.namespace_policies(namespace)
    except NotFound:
        return {}  # the first start makes it, with permissions for none
    except AdminError as error:
        return error


async def _administrators(admin: Admin, tenant: str) -> list[str] | None:
    try:
        return await admin.tenant_admins(tenant)
    except AdminError:
        return None


async def _without_login(pulsar: PulsarSettings) -> tuple[str, bool]:
    """The role of who does not log in to Pulsar, and whether it may see who may work in the state namespace.

    Asked without a log-in: the brokers' settings are for super-users to see. Administrators of the tenant and
    super-users alone see permissions (`PulsarAuthorizationProvider.allowNamespacePolicyOperationAsync`).
    """
    place = pulsar.without_identity()
    access = Access.by(place, PulsarMetrics())
    stranger = Admin(place, access)
    try:
        role = (await role_name(place, access)).name
        if role is None:
            return "", False
        await stranger.start()
        return role, not isinstance(await _policies(stranger, pulsar.full_state_namespace), AdminError)
    except RightUnknown:  # who does not log in gets no answer
        return "", False
    finally:
        await stranger.close()
        await access.close()


def _wrong(
    namespace: str, who: _Roles, policies: Values | AdminError, runtime: Values | None
) -> Iterator[tuple[str, str]]:
    """What, and the command against it."""
    if is_true(runtime, "authorizationEnabled") is False:
        yield (
            f"this Pulsar has no authorization: who reaches it may write to {namespace}, and so make itself an "
            "administrator of the bridge",
            f"set authenticationEnabled=true and authorizationEnabled=true in every broker's broker.conf, {_TRUST}",
        )
    elif who.own is None:
        yield (
            f"the bridge has no role of its own in Pulsar: who else may write to {namespace} cannot be told",
            f"give the bridge a token or a certificate (pulsar.token_file, pulsar.tls_cert_file), {_TRUST}",
        )
    elif who.is_anonymous_administrator or who.anonymous in (who.own, *(who.super_users or ())):
        yield (
            f"anonymousUserRole={who.anonymous}: who does not log in to Pulsar may write to {namespace}",
            "take anonymousUserRole out of every broker's broker.conf, or that role out of superUserRoles and of the "
            f"tenant's administrators: {_without(who.anonymous, who.administrators, namespace.partition('/')[0])}",
        )
    elif isinstance(policies, AdminError):
        yield (
            f"this login may not see who may write to {namespace} ({policies})",
            f"bin/pulsar-admin namespaces policies {namespace}   must have permissions of {who.own} alone: then set "
            f"pulsar.trust_state_namespace = true. Or let the bridge see for itself: "
            + administrator_command(namespace.partition("/")[0], who.own, who.method),
        )
    else:
        yield from _grants(namespace, policies, who)


def _without(role: str, administrators: list[str] | None, tenant: str) -> str:
    """The command that leaves the other administrators, where they are known."""
    if administrators is None:
        return f"bin/pulsar-admin tenants get {tenant} names them"
    others = ",".join(one for one in administrators if one != role)
    return f"bin/pulsar-admin tenants update {tenant} --admin-roles '{others}'"


def _grants(namespace: str, policies: Values, who: _Roles) -> Iterator[tuple[str, str]]:
    """Permissions of others. Proxies are known: they act in the name of who comes through them, who needs a permission
    as well, and do nothing by themselves (`AuthorizationService`). Nobody can vouch for those who do not log in."""
    known = {who.own, *who.proxies, *who.accepted} - {who.anonymous}
    auth = policies.get("auth_policies") or {}
    for role in sorted((auth.get("namespace_auth") or {}).keys() - known):
        yield (
            f"{who.described(role)} has permissions on {namespace}",
            f"bin/pulsar-admin namespaces revoke-permission {namespace} --role '{role}'",
        )
    for topic, roles in sorted((auth.get("destination_auth") or {}).items()):
        for role in sorted(roles.keys() - known):
            yield (
                f"{who.described(role)} has permissions on {topic}",
                f"bin/pulsar-admin topics revoke-permission {topic} --role '{role}'",
            )
    for subscription, holders in sorted((auth.get("subscription_auth_roles") or {}).items()):
        for role in sorted(set(holders) - known):
            yield (
                f"{who.described(role)} may use the subscription {subscription} of {namespace}",
                f"bin/pulsar-admin namespaces revoke-subscription-permission {namespace} --subscription "
                f"'{subscription}' --role '{role}'",
            )


def _who_can_always(who: _Roles) -> str:
    """Those whom no permission keeps out, in words."""
    named = {"tenant administrators": who.administrators, "super-users": who.super_users}
    known = [
        f"{what} {', '.join(others)}"
        for what, roles in named.items()
        if (others := sorted({*(roles or ())} - {who.own}))
    ]
    if who.proxies:
        known.append(f"proxies ({', '.join(sorted(set(who.proxies)))}), in the name of those who may")
    unseen = [what for what, roles in named.items() if roles is None]
    text = f"; always can: {'; '.join(known)}" if known else ""
    return text + (f"; this login may not see: {', '.join(unseen)}" if unseen else "")


def _own_proxy(pulsar: PulsarSettings) -> list[str]:
    """The role that the bridge itself speaks for others with."""
    if not pulsar.proxy_token_file:
        return []
    role = claim_of(Path(pulsar.proxy_token_file).read_bytes().strip(), "sub")
    return [] if role is None else [role]


def _listed(runtime: Values | None, name: str) -> list[str]:
    """A set as Pulsar writes it into its configuration: `[a, b]`."""
    return _split(str((runtime or {}).get(name) or "").strip("[]"))


def _split(text: str) -> list[str]:
    """What stands between commas."""
    return [one.strip() for one in text.split(",") if one.strip()]


def _common_name(pem: bytes) -> str | None:
    """What Pulsar takes for the role of a certificate (`AuthenticationProviderTls`)."""
    from cryptography import x509  # it takes a tenth of a second to import

    found = x509.load_pem_x509_certificate(pem).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(found[0].value) if found else None
