"""The defaults of topic configs, from the broker's configuration and the namespace's policies."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from bridge.config import Settings
from bridge.pulsar.admin import Admin, AdminError, Forbidden, Retention
from bridge.runtime.futures import Cached
from bridge.storage.topics.configs import TopicDefaults

_BROKER_SECONDS: Final = 60.0  # a broker's configuration seldom changes
_NAMESPACE_SECONDS: Final = 5.0


class NamespaceDefaults:
    """The defaults of one namespace, cached for some seconds."""

    def __init__(self, admin: Admin, settings: Settings) -> None:
        self._admin = admin
        self._settings = settings
        self._namespace = settings.pulsar.full_namespace
        self._broker = Cached(self._ask_broker, _BROKER_SECONDS)
        self._retention = Cached(self._ask_retention, _NAMESPACE_SECONDS)
        self._quorum = Cached(self._ask_quorum, _NAMESPACE_SECONDS)

    async def get(self) -> TopicDefaults:
        """The defaults for a new topic; raises AdminError."""
        broker, retention, quorum = await asyncio.gather(self._broker.get(), self._retention.get(), self._quorum.get())
        megabytes = broker.get("managedLedgerMaxSizePerLedgerMbytes")
        minutes = broker.get("managedLedgerMaxLedgerRolloverTimeMinutes")
        return TopicDefaults(
            retention=retention or _default_retention(broker),
            max_message_bytes=self._settings.kafka.largest_message,
            ack_quorum=max(int(quorum or broker.get("managedLedgerDefaultAckQuorum") or 1), 1),
            ledger_bytes=None if megabytes is None else int(megabytes) << 20,
            ledger_ms=None if minutes is None else int(minutes) * 60_000,
            entry_format=self._settings.storage.entry_format,
        )

    async def _ask_broker(self) -> Mapping[str, Any]:
        """The broker's configuration; empty if the login may not read it."""
        try:
            return await self._admin.runtime_config()
        except Forbidden:
            return {}

    async def _ask_retention(self) -> Retention | None:
        """The namespace's retention; if the login may not ask, what the operator has set in `retention`."""
        try:
            return await self._admin.namespace_retention(self._namespace)
        except Forbidden:
            return Retention(self._settings.retention.minutes, self._settings.retention.megabytes)

    async def _ask_quorum(self) -> int | None:
        """How many bookies acknowledge an entry; None if the namespace does not say."""
        try:
            return await self._admin.namespace_ack_quorum(self._namespace)
        except AdminError as error:
            if error.retriable:
                raise
            return None


def _default_retention(broker: Mapping[str, Any]) -> Retention:
    return Retention(
        int(broker.get("defaultRetentionTimeInMinutes", 0)), int(broker.get("defaultRetentionSizeInMB", 0))
    )
