"""Turns on Pulsar's deduplication for topics that idempotent producers write to, or anyone large records.

Nothing of them is stored before it is in force. Pulsar would not know such a batch again: when its client repeats it,
after this process has died or through another node, it would be stored twice.
"""

import asyncio
from functools import partial
from typing import Final

from bridge.pulsar.admin import NO_RESPONSE, Admin, AdminError
from bridge.pulsar.connection.lookup import whole_topic
from bridge.runtime.futures import Cached, loop_time
from bridge.telemetry import log

_log = log.get(__name__)

_IN_FORCE: Final = "Enabled"
_IN_FORCE_WITHIN_SECONDS: Final = 5.0
"""Some milliseconds are usual. Afterwards the log says so, and producers have to try again."""
_LOOK_AGAIN_SECONDS: Final = 0.01
ASK_AGAIN_SECONDS: Final = 60.0
"""The next producer that begins after so long has it asked again: others turn it off."""
_TIMEOUT_SECONDS: Final = 1.0
"""How long such a question may take where the namespace or the broker had it on."""


class Deduplication:
    """Whether deduplication is on in the namespace and its topics: asked once a minute for each, and turned on if need
    be.
    """

    def __init__(self, admin: Admin, namespace: str) -> None:
        self._admin = admin
        self._namespace = namespace
        self._everywhere = Cached(self._is_everywhere, ASK_AGAIN_SECONDS)
        self._was_everywhere = False
        """By the last answer."""
        self._settings: dict[str, Cached[bool]] = {}
        self._topics: dict[str, Cached[None]] = {}

    async def ensure(self, topic: str) -> None:
        """Turn it on for a topic, unless its namespace or the broker has it, and wait until it is in force.

        Where Pulsar refuses it, records are taken without it, and the log says so. Where Pulsar does not answer, that
        is an AdminError: the producer tries again.
        """
        if topic not in self._topics:
            self._topics[topic] = Cached(partial(self._bring_into_force, topic), ASK_AGAIN_SECONDS)
        await self._topics[topic].get()

    def forget(self, topic: str) -> None:
        """The next topic of this name may be another one: its settings went with the old one."""
        self._topics.pop(topic, None)
        self._settings.pop(whole_topic(topic), None)

    async def _bring_into_force(self, topic: str) -> None:
        whole = whole_topic(topic)
        if whole not in self._settings:
            self._settings[whole] = Cached(partial(self._turn_on, whole), ASK_AGAIN_SECONDS)
        try:
            if await self._settings[whole].get():
                await self._wait_until_in_force(topic)
        except AdminError as error:
            if error.retriable:
                raise
            # this process recognises duplicates nevertheless; the next one does not
            _log.warning("! deduplication is off", extra={"topic": topic, "reason": str(error)})

    async def _turn_on(self, topic: str) -> bool:
        """Whether it is by the topic's own setting, which goes before that of the namespace and the broker."""
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS if self._was_everywhere else None):
                everywhere, own = await asyncio.gather(self._everywhere.get(), self._own(topic))
        except (AdminError, TimeoutError):
            if self._was_everywhere:  # brokers may store although their admin API does not answer
                return False
            raise
        if everywhere and (own is None or isinstance(own, AdminError)):
            return False
        if isinstance(own, AdminError):
            raise own
        if not own:
            await self._admin.set_topic_deduplication(topic, True)
            _log.info("= deduplication turned on", extra={"topic": topic})
        return True

    async def _own(self, topic: str) -> bool | AdminError | None:
        """Why there is no telling, where topics have no settings of their own, or this login may not ask."""
        try:
            return await self._admin.topic_deduplication(topic)
        except AdminError as error:
            if error.retriable:
                raise
            return error

    async def _wait_until_in_force(self, topic: str) -> None:
        """The broker answers a change before it goes by it. What it stores in between it does not recognise again."""
        began = loop_time()
        while (status := await self._admin.deduplication_status(topic)) != _IN_FORCE:
            if loop_time() > began + _IN_FORCE_WITHIN_SECONDS:
                reason = f"its status is {status}"
                _log.warning("! deduplication is not in force", extra={"topic": topic, "reason": reason})
                raise AdminError(NO_RESPONSE, f"deduplication is not in force: {reason}")
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def _is_everywhere(self) -> bool:
        try:
            is_on = await self._admin.namespace_deduplication(self._namespace)
            if is_on is None:
                runtime = await self._admin.runtime_config()
                is_on = str(runtime.get("brokerDeduplicationEnabled", "")).lower() == "true"
        except AdminError as error:
            if error.retriable:
                raise
            is_on = False
        self._was_everywhere = is_on
        return is_on
