"""The internal topics that are being created for streams groups, and what failed recently.

A topic is created once at a time, whoever asks. What has failed is told to its group for a while, then tried again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeAlias

from bridge.errors import BridgeError
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
        self._failed: dict[tuple[str, str], tuple[str, float]] = {}
        """Why, and until when that is told, by group and topic: another group's members may have other rights."""
        self._tasks: set[asyncio.Task[list[None]]] = set()

    def create(self, group_id: str, wanted: Collection[TopicInfo], create: Create, keep_seconds: float) -> str:
        """Begin to create those that are not under way, and have not failed recently; what has failed, "" if nothing.

        `keep_seconds`: for how long a failure is told.
        """
        now = self._now()
        self._failed = {place: failure for place, failure in self._failed.items() if failure[1] > now}
        known = {name: reason for (group, name), (reason, _) in self._failed.items() if group == group_id}
        new = [one for one in wanted if one.name not in known and one.name not in self._under_way]
        if new:
            self._under_way |= {one.name for one in new}
            creating = gathered(self._create_one(group_id, one, create, keep_seconds) for one in new)
            task = asyncio.get_running_loop().create_task(creating)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        failed = [f"{one.name} ({known[one.name]})" for one in wanted if one.name in known]
        more = f", and {len(failed) - _MOST_TOLD} more" if len(failed) > _MOST_TOLD else ""
        return ", ".join(failed[:_MOST_TOLD]) + more

    def close(self) -> None:
        """The process stops: the next coordinator creates what is missing."""
        for task in self._tasks:
            task.cancel()

    async def _create_one(self, group_id: str, topic: TopicInfo, create: Create, keep_seconds: float) -> None:
        try:
            await create(topic)
            _log.info("= internal topic of a streams group created", extra={"group": group_id, "topic": topic.name})
        except Exception as error:  # noqa: BLE001 - the others must be created all the same
            expected = isinstance(error, BridgeError)
            reason = str(error) if expected else "an error of the bridge"
            self._failed[group_id, topic.name] = reason, self._now() + keep_seconds
            _log.warning(
                "! internal topic of a streams group not created",
                extra={"group": group_id, "topic": topic.name, "reason": reason},
                exc_info=None if expected else error,
            )
        finally:
            self._under_way.discard(topic.name)
