"""What the server asks of a Pulsar: fit or not at start-up, and still fit for readiness."""

from bridge.check.facts import (
    INDEX_SETTINGS,
    deletes_inactive,
    effective_retention,
    knows_nobody,
    missing_index_settings,
    retains_data,
    runtime_config,
)
from bridge.check.remedies import (
    ADMIN_LOGIN_REMEDY,
    admin_failed,
    create_namespace_command,
    index_remedy,
    keep_topics_command,
    retention_command,
)
from bridge.check.rights import probe_with_rights
from bridge.config import Settings
from bridge.config.urls import url_without_secrets
from bridge.errors import StartupError
from bridge.pulsar import Admin, AdminError, PulsarClient
from bridge.pulsar.admin import Forbidden, NotFound, Retention
from bridge.runtime.futures import Together
from bridge.telemetry import log

_LOG = log.get(__name__)


async def ensure_fit(admin: Admin, client: PulsarClient, settings: Settings) -> None:
    """Make the namespace keep its data where that is allowed; StartupError says what else to set or run."""
    await _namespace_exists(admin, settings)
    # side by side: each is a way to the broker and back or two, and clients wait for the start
    async with Together() as tasks:
        index = tasks.create_task(index_problem(admin, client, settings))
        tasks.create_task(keep_data(admin, settings))
    if (problem := index.result()) is not None:
        raise StartupError(problem)


async def keep_data(admin: Admin, settings: Settings) -> None:
    """Make the namespace keep its records and its topics; StartupError where it keeps no records."""
    async with Together() as tasks:
        retention = tasks.create_task(retention_problem(admin, settings))
        deletes = tasks.create_task(deletes_inactive(admin, settings.pulsar.full_namespace))
    if (lacking := retention.result()) is not None:
        await _set_retention(admin, settings, lacking)
    if deletes.result() is not False:
        await _keep_topics(admin, settings)


async def _namespace_exists(admin: Admin, settings: Settings) -> None:
    namespace = settings.pulsar.full_namespace
    try:
        await admin.namespace_policies(namespace)
    except NotFound:
        remedy = create_namespace_command(namespace)
        raise StartupError(f"pulsar.namespace: {namespace} does not exist; run: {remedy}") from None
    except Forbidden as error:
        if await knows_nobody(admin, error):
            where = url_without_secrets(settings.pulsar.admin_url)
            raise StartupError(
                f"pulsar.admin_url {where} does not know the bridge ({error}): {ADMIN_LOGIN_REMEDY}"
            ) from None
    except AdminError as error:
        raise admin_failed(settings, error) from None


async def index_problem(admin: Admin, client: PulsarClient, settings: Settings) -> str | None:
    """None when entries come with their index, else which broker settings make them.

    The broker's own configuration answers where this login may read it; where it may not, an entry is written and read.
    """
    missing = missing_index_settings(await runtime_config(admin))
    if missing is None:
        missing = [] if await probe_with_rights(admin, client, settings) is not None else list(INDEX_SETTINGS)
    return index_remedy(missing) if missing else None


async def retention_problem(admin: Admin, settings: Settings) -> str | None:
    """None when the namespace keeps data that no subscription holds, else the command that makes it.

    Where this login cannot see it, `retention.ensure = false` is the operator's word that it is so.
    """
    namespace = settings.pulsar.full_namespace
    try:
        kept = await effective_retention(admin, namespace)
    except Forbidden:
        kept = None
    except AdminError as error:
        return f"the retention of {namespace} cannot be read: {error}"
    if (kept is None and not settings.retention.ensure) or (kept is not None and retains_data(kept)):
        return None
    has = "has" if kept is not None else "may have"
    return (
        f"{namespace} {has} no retention, so Pulsar deletes records that no subscription holds; "
        f"run: {retention_command(namespace, settings.retention)}"
    )


async def _set_retention(admin: Admin, settings: Settings, problem: str) -> None:
    namespace, wanted = settings.pulsar.full_namespace, settings.retention
    if not wanted.ensure:
        raise StartupError(f"{problem} (or set retention.ensure = true)")
    try:
        await admin.set_namespace_retention(namespace, Retention(wanted.minutes, wanted.megabytes))
    except AdminError as error:
        raise StartupError(
            f"{problem}\nThis login may not set it ({error}). Where it may not read it either, run that as an "
            "administrator and then set retention.ensure = false"
        ) from None
    _LOG.info(
        "= retention set",
        extra={"namespace": namespace, "minutes": wanted.minutes, "megabytes": wanted.megabytes},
    )


async def _keep_topics(admin: Admin, settings: Settings) -> None:
    """Kafka topics stay until deleted; where that cannot be had a warning is enough, for retention holds their data."""
    namespace = settings.pulsar.full_namespace
    if settings.retention.ensure:
        try:
            await admin.keep_inactive_topics(namespace)
        except AdminError as error:
            reason = str(error)
        else:
            _LOG.info("= inactive topics are kept", extra={"namespace": namespace})
            return
    else:
        reason = "retention.ensure is false"
    _LOG.warning(
        "! inactive topics may be deleted",
        extra={"namespace": namespace, "reason": reason, "run": keep_topics_command(namespace)},
    )
