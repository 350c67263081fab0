"""What a Pulsar says of itself, as far as the login may ask."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from bridge.config import Settings
from bridge.errors import StartupError
from bridge.pulsar import Admin, AdminError, PulsarClient
from bridge.pulsar.admin import Conflict, Forbidden, Retention
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.telemetry import log

PROBE_TOPIC: Final = "__bridge_probe"
INDEX_INTERCEPTOR: Final = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"
INDEX_SETTINGS: Final = (
    f"brokerEntryMetadataInterceptors={INDEX_INTERCEPTOR}",
    "exposingBrokerEntryMetadataToClientEnabled=true",
)
_PROBE_SECONDS = 30.0
_UNAUTHORIZED: Final = 401
_LOG = log.get(__name__)


async def runtime_config(admin: Admin) -> Mapping[str, Any] | None:
    """The broker's configuration; None where this login (or a proxy in between) does not let it be read."""
    try:
        return await admin.runtime_config()
    except AdminError:
        return None


def missing_index_settings(runtime: Mapping[str, Any] | None) -> list[str] | None:
    """The lines broker.conf lacks; None when its configuration could not be read."""
    if runtime is None:
        return None
    writes, shows = INDEX_SETTINGS
    missing = [] if INDEX_INTERCEPTOR in str(runtime.get("brokerEntryMetadataInterceptors", "")) else [writes]
    return missing + ([] if is_true(runtime, "exposingBrokerEntryMetadataToClientEnabled") else [shows])


async def knows_nobody(admin: Admin, refusal: Forbidden) -> bool:
    """Whether the admin interface does not know who asks; old versions refuse with 401 also whom they know.

    Whoever it knows may see clusters.
    """
    if refusal.status != _UNAUTHORIZED:
        return False
    try:
        await admin.clusters()
    except AdminError as error:
        return error.status == _UNAUTHORIZED
    return False


async def probe_index(admin: Admin, client: PulsarClient, settings: Settings) -> int | None:
    """Write one entry to the hidden topic and read it back: its index, or None when it has none."""
    topic = f"persistent://{settings.pulsar.full_namespace}/{PROBE_TOPIC}"
    try:
        await admin.create_non_partitioned(topic)
    except Conflict:
        pass
    except AdminError as error:
        # A login without the right relies on the broker to create it; the send below tells.
        _LOG.debug("= probe topic not created", extra={"reason": str(error)})
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            producer = client.producer(topic)
            try:
                receipt = await producer.send(pb.MessageMetadata(), b"probe", 1)
            finally:
                await producer.close(flush=False)
            entry = await client.read_entry(topic, receipt.position)
    except TimeoutError:
        raise StartupError(
            f"an entry written to {topic} could not be read back within {_PROBE_SECONDS:.0f} s"
        ) from None
    return None if entry is None else entry.index


async def effective_retention(admin: Admin, namespace: str) -> Retention | None:
    """What holds for the namespace: its own, else the broker's default; None when that cannot be read."""
    own = await admin.namespace_retention(namespace)
    if own is not None:
        return own
    runtime = await runtime_config(admin)
    if runtime is None:
        return None
    names = ("defaultRetentionTimeInMinutes", "defaultRetentionSizeInMB")
    minutes, megabytes = (int(runtime.get(name) or 0) for name in names)
    return Retention(minutes, megabytes)


async def deletes_inactive(admin: Admin, namespace: str) -> bool | None:
    """Whether unused topics are deleted: by the namespace's policy, else the broker's; None when not readable."""
    try:
        policies = await admin.namespace_policies(namespace)
    except AdminError:
        return None
    own = policies.get("inactive_topic_policies")
    if isinstance(own, dict):
        return bool(own.get("deleteWhileInactive"))
    return is_true(await runtime_config(admin), "brokerDeleteInactiveTopicsEnabled")


def retains_data(retention: Retention) -> bool:
    """Whether data outlives its subscriptions; 0 in either field means that nothing does."""
    return retention.minutes != 0 and retention.megabytes != 0


def is_true(runtime: Mapping[str, Any] | None, name: str) -> bool | None:
    """Pulsar writes every value of its configuration as text."""
    return None if runtime is None or name not in runtime else str(runtime[name]).lower() == "true"
