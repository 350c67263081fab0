"""The internal topics that are being created for streams groups, and what failed of late.

A topic is created once at a time, whoever asks. What has failed is told for a while, then tried again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeAlias

from bridge.errors import BridgeError, KafkaError
from bridge.groups.streams.model import TopicInfo
from bridge.runtime.futures import gathered
from bridge.telemetry import log

Create: TypeAlias = Callable[[TopicInfo], Awaitable[None]]
"""Creates a topic on its client's rights and quotas; nothing where it is there. KafkaError."""
_MOST_TOLD: Final = 10
"""Topics of one status."""
_log = log.get(__name__)


class InternalTopicCreations:
    """Those of one namespace at this node."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._under_way: set[str] = set()
        self._failed: dict[str, tuple[str, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def create(self, group_id: str, wanted: Collection[TopicInfo], create: Create, keep_seconds: float) -> str:
        """Begin to create those that are not under way, and have not failed of late; what has failed, "" if nothing.

        `keep_seconds`: for how long a failure is told.
        """
        now = self._now()
        self._failed = {name: failure for name, failure in self._failed.items() if failure[1] > now}
        new = [one for one in wanted if one.name not in self._failed and one.name not in self._under_way]
        if new:
            self._under_way |= {one.name for one in new}
            task = asyncio.get_running_loop().create_task(self._create_all(group_id, new, create, keep_seconds))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        failed = [f"{one.name} ({self._failed[one.name][0]})" for one in wanted if one.name in self._failed]
        more = f", and {len(failed) - _MOST_TOLD} more" if len(failed) > _MOST_TOLD else ""
        return ", ".join(failed[:_MOST_TOLD]) + more

    def close(self) -> None:
        """The process stops: the next coordinator creates what is missing."""
        for task in self._tasks:
            task.cancel()

    async def _create_all(
        self, group_id: str, wanted: Collection[TopicInfo], create: Create, keep_seconds: float
    ) -> None:
        try:
            await gathered(self._create_one(group_id, one, create, keep_seconds) for one in wanted)
        finally:
            self._under_way -= {one.name for one in wanted}

    async def _create_one(self, group_id: str, topic: TopicInfo, create: Create, keep_seconds: float) -> None:
        try:
            await create(topic)
            _log.info("= internal topic of a streams group created", extra={"group": group_id, "topic": topic.name})
        except BridgeError as error:
            reason = (error.message if isinstance(error, KafkaError) else None) or str(error)
            self._failed[topic.name] = reason, self._now() + keep_seconds
            _log.warning(
                "! internal topic of a streams group not created",
                extra={"group": group_id, "topic": topic.name, "reason": reason},
            )
