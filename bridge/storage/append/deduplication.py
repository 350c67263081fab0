"""Turns on Pulsar's deduplication for topics that idempotent producers write to."""

from bridge import log
from bridge.pulsar.admin import Admin, AdminError

_log = log.get(__name__)


class Deduplication:
    """What is known of the namespace and its topics; each is asked once, and turned on if need be."""

    def __init__(self, admin: Admin, namespace: str) -> None:
        self._admin = admin
        self._namespace = namespace
        self._everywhere: bool | None = None
        self._seen: set[str] = set()

    async def ensure(self, topic: str) -> None:
        """Turn it on for a topic, unless the topic, its namespace or the broker has it; a refusal is logged."""
        if self._everywhere is None:
            self._everywhere = await self._is_everywhere()
        whole = topic.rpartition("-partition-")[0] or topic
        if self._everywhere or whole in self._seen:
            return
        self._seen.add(whole)
        try:
            if not await self._admin.topic_deduplication(whole):
                await self._admin.set_topic_deduplication(whole, True)
                _log.info("= deduplication turned on", extra={"topic": whole})
        except AdminError as error:
            # this process recognises duplicates nevertheless; the next one does not
            _log.warning("! deduplication is off", extra={"topic": whole, "reason": str(error)})

    async def _is_everywhere(self) -> bool:
        try:
            namespace = await self._admin.namespace_deduplication(self._namespace)
            if namespace is not None:
                return namespace
            runtime = await self._admin.runtime_config()
        except AdminError:
            return False
        return str(runtime.get("brokerDeduplicationEnabled", "")).lower() == "true"
