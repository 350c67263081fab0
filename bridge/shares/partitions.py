"""The share partitions that this node leads, of one namespace, and the sessions of the members that read them."""

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID

from bridge.errors import KafkaError
from bridge.groups.configs import GroupConfigs
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import loop_time, retrieve_exception, wait_shared
from bridge.shares.partition import LedPartition, Name, RangeBudget, Surroundings
from bridge.shares.persister import Persister
from bridge.shares.sessions import ShareSessions
from bridge.storage.partition import PartitionLog
from bridge.telemetry.metrics import ShareMetrics

_LOST: Final = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another node leads the partition")
_OPENING: Final = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the share partition is being opened")
_OPEN_SECONDS: Final = 2.0
_CHANGED: Final = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the state of the share partition was changed")


class Shares:
    """All share partitions of one namespace that members read here."""

    def __init__(
        self, persister: Persister, configs: GroupConfigs, metrics: ShareMetrics, *, coordinates: bool = False
    ) -> None:
        """`coordinates`: the group's coordinator leads all its partitions, and keeps the states itself: until
        `end_groups`, whoever leads them in the view."""
        self.configs = configs
        self._coordinates = coordinates
        self.sessions = ShareSessions(metrics)
        self._around = Surroundings(persister, configs, metrics, RangeBudget(metrics.ranges))
        self._led: dict[Name, LedPartition] = {}
        self._opening: dict[Name, tuple[LedPartition, asyncio.Task[None], float]] = {}

    async def led(self, name: Name, log: PartitionLog, epoch: int) -> LedPartition:
        """The share partition, whose log this is; KafkaError as consumers are told it.

        COORDINATOR_NOT_AVAILABLE where it is not open yet two seconds after that was begun: others wait with it.
        """
        found = self._led.get(name)
        if found is not None and self._is_older(found, epoch):  # another node has led it since
            found.close(_CHANGED)
            found = None
        if found is None:
            opening = self._opening.get(name)
            if opening is None:
                led = LedPartition(name, log, epoch, self._around, self._closed)
                opened = asyncio.get_running_loop().create_task(self._open(led), name="open share")
                opened.add_done_callback(retrieve_exception)
                opening = self._opening[name] = led, opened, loop_time() + _OPEN_SECONDS
            found, opened, until = opening
            await asyncio.wait((opened,), timeout=max(until - loop_time(), 0))
            if not opened.done():
                raise _OPENING.bare()
            await wait_shared(opened, _CHANGED.bare())
            if self._is_older(found, epoch):
                raise _CHANGED.bare()
        found.log = log
        return found

    def changed(self, group_id: str, topic_id: UUID, partition: int) -> None:
        """A state was changed, and not by the leader (`ShareStates.on_changed`)."""
        name = Name(group_id, topic_id, partition)
        opening = self._opening.pop(name, None)
        if opening is not None:
            opening[1].cancel()
        found = self._led.get(name)
        if found is not None:
            found.close(_CHANGED)

    def doubt(self, group_id: str) -> None:
        """A member begins to read: it is given nothing by a state that was altered before it has joined."""
        for led in (*self._led.values(), *(opening for opening, *_ in self._opening.values())):
            if led.name.group_id == group_id:
                led.doubt()

    def end_groups(self, lost: Callable[[str], bool]) -> None:
        """Another node coordinates these groups: their members open sessions there."""
        for name in [one for one in (*self._led, *self._opening) if lost(one.group_id)]:
            self.changed(*name)
        self.sessions.end_groups(lost)

    def drop_lost(self) -> None:
        """Close what other nodes lead now."""
        for led in [one for one in self._led.values() if not one.log.is_led]:
            led.close(_LOST)

    def acquired(self) -> int:
        """How many records members have."""
        return sum(one.acquired for one in self._led.values())

    def stop(self) -> None:
        """The process stops: who waits is told."""
        for name in (*self._led, *self._opening):
            self.changed(*name)

    def _is_older(self, led: LedPartition, epoch: int) -> bool:
        return led.epoch != epoch and not self._coordinates

    async def _open(self, led: LedPartition) -> None:
        opening = self._opening[led.name]
        try:
            await led.open()
        finally:
            if self._opening.get(led.name) is opening:
                del self._opening[led.name]
        self._led[led.name] = led

    def _closed(self, led: LedPartition) -> None:
        if self._led.get(led.name) is led:
            del self._led[led.name]
