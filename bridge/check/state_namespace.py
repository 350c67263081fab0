"""The namespace where the bridge keeps what it believes: made at the first start, and looked at at each."""

from typing import Final

from bridge.access.security_store.security_log import TOPIC as SECURITY
from bridge.check.findings import Finding, Severity
from bridge.check.fit import keep_data
from bridge.check.remedies import THE_BRIDGES, admin_failed, administrator_command, retention_command
from bridge.check.rights import creation_refused, examine_rights
from bridge.check.state_access import examine_state_access, own_role
from bridge.cluster.topics import HEARTBEATS, VIEW_LOG
from bridge.config import PulsarSettings, RetentionSettings, Settings
from bridge.errors import StartupError
from bridge.groups.store.store import TOPIC as GROUPS
from bridge.pulsar import Access, Admin, AdminError, PulsarClient, PulsarError
from bridge.pulsar.admin import Conflict, Forbidden, NotFound
from bridge.runtime.futures import Together
from bridge.telemetry import log

MOVE_COMMAND: Final = "bridge move-state"
UNLIMITED: Final = RetentionSettings(minutes=-1, megabytes=-1)
_POLICIES: Final = {
    "retention_policies": {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1},
    "message_ttl_in_seconds": 0,
    "inactive_topic_policies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 3600,
        "deleteWhileInactive": False,
    },
}
"""Nothing goes by itself: what a compaction has dropped may go, and heartbeats have a retention of their own."""

_LOG = log.get(__name__)


async def ensure_state(admin: Admin, client: PulsarClient, access: Access, settings: Settings) -> None:
    """Make the namespace where it is missing, and see that no other role may write there, and that the state is there;
    StartupError says what to do."""
    if await _is_missing(admin, settings):
        await _refuse_old_state(client, settings.pulsar)
        await _create(admin, settings.pulsar)
    async with Together() as tasks:
        access_found = tasks.create_task(examine_state_access(admin, access, settings))
        tasks.create_task(refuse_unmoved(client, settings.pulsar))
        tasks.create_task(keep_data(admin, of_state(settings)))
        rights = tasks.create_task(examine_rights("state rights", admin, client, of_state(settings)))
    if rights.result().severity is Severity.UNFIT:
        raise StartupError(f"{rights.result().detail}; run: {rights.result().remedy}")
    if (missing := await nothing_can_be_made(admin, client, settings.pulsar)) is not None:
        raise StartupError("{}; run: {}".format(*missing))
    _judge(access_found.result(), settings)


async def nothing_can_be_made(admin: Admin, client: PulsarClient, pulsar: PulsarSettings) -> tuple[str, str] | None:
    """Where there is no state yet and this login may not make its topics: what that is, and the command against it."""
    namespace = pulsar.full_state_namespace
    if await topic_exists(client, pulsar.state_topic(GROUPS)):
        return None
    if (refused := await creation_refused(admin, namespace)) is None:
        return None
    what = (
        f"the bridge has not started yet, and may not make its topics in {namespace} ({refused}): its role must "
        "administer the tenant for the first start"
    )
    role = await own_role(pulsar, admin.access, None)
    return what, administrator_command(namespace.partition("/")[0], role, admin.access.credentials.method)


async def make_namespace(admin: Admin, settings: Settings) -> None:
    """Make it where it is missing; StartupError."""
    if await _is_missing(admin, settings):
        await _create(admin, settings.pulsar)


def of_state(settings: Settings) -> Settings:
    """The settings for a look at the state namespace as at one with data."""
    tenant, _, name = settings.pulsar.full_state_namespace.partition("/")
    keep = {"minutes": -1, "megabytes": -1}
    pulsar = {"tenant": tenant, "namespace": name, "state_namespace": ""}
    return settings.with_values(pulsar=pulsar, retention=keep, tenants={"rules": ""})


def grant_command(namespace: str, role: str | None) -> str:
    """For a namespace that an administrator makes."""
    return (
        f"bin/pulsar-admin namespaces create {namespace}   bin/{retention_command(namespace, UNLIMITED)}   "
        f"bin/pulsar-admin namespaces grant-permission {namespace} --role '{role or THE_BRIDGES}' "
        "--actions produce,consume"
    )


async def _is_missing(admin: Admin, settings: Settings) -> bool:
    try:
        await admin.namespace_policies(settings.pulsar.full_state_namespace)
    except NotFound:
        return True
    except Forbidden:
        return False  # where it is missing, its topics cannot be made either
    except AdminError as error:
        raise admin_failed(settings, error) from None
    return False


async def _create(admin: Admin, pulsar: PulsarSettings) -> None:
    namespace = pulsar.full_state_namespace
    try:
        await admin.create_namespace(namespace, _POLICIES)
    except Conflict:
        return  # another node was first
    except AdminError as error:
        role = await own_role(pulsar, admin.access, None)
        raise StartupError(
            f"pulsar.state_namespace: {namespace}, where the bridge keeps users, permissions, groups and its nodes, "
            f"cannot be made: {error}; run: {grant_command(namespace, role)}"
        ) from None
    _LOG.info("= state namespace made", extra={"namespace": namespace})


async def refuse_unmoved(client: PulsarClient, pulsar: PulsarSettings) -> None:
    """Where nothing is there yet, there must be nothing to be moved."""
    if not await topic_exists(client, pulsar.state_topic(GROUPS)):
        await _refuse_old_state(client, pulsar)


async def _refuse_old_state(client: PulsarClient, pulsar: PulsarSettings) -> None:
    """StartupError where the namespace of the data has the state of an older bridge."""
    topics = [pulsar.old_state_topic(name) for name in (HEARTBEATS, VIEW_LOG, SECURITY, GROUPS)]
    # one after the other: of several at once a Pulsar proxy may ask about others (`Lookup.partitions`)
    old = [topic for topic in topics if await topic_exists(client, topic)]
    if old:
        raise StartupError(
            f"users, permissions, groups and committed offsets are still in {pulsar.full_namespace}, where they were "
            f"before they had a namespace of their own: {', '.join(old)}. Stop all nodes and run: {MOVE_COMMAND}"
        )


async def topic_exists(client: PulsarClient, topic: str) -> bool:
    """Whether Pulsar says that it is there."""
    try:
        await client.partitions(topic)
    except PulsarError:
        return False
    return True


def _judge(findings: list[Finding], settings: Settings) -> None:
    """Refuse where some clients may do more than others: who writes there may do everything."""
    unfit = [f"{one.detail}; run: {one.remedy}" for one in findings if one.severity is Severity.UNFIT]
    if unfit:
        raise StartupError("\n".join(unfit))
    for one in findings:
        if one.severity is Severity.RISK:
            say = _LOG.info if settings.pulsar.trust_state_namespace else _LOG.warning
            say("! others may change what the bridge believes", extra={"reason": one.detail, "run": one.remedy})
        else:
            _LOG.info("= state namespace", extra={"access": one.detail})
