"""Asks Pulsar whether the connections of silent nodes are there, one question for each node at a time."""

import asyncio
from collections.abc import Callable

from bridge.cluster.membership.effects import ProbeResult
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.types import PulsarError
from bridge.telemetry import log
from bridge.telemetry.metrics import ClusterMetrics

_log = log.get(__name__)


def producer_name(node: str) -> str:
    """The name of a node's producer on the heartbeat topic: the process that holds it is that node."""
    return f"bridge-node-{node}"


def node_of(producer: str) -> str:
    """The node of a producer on the heartbeat topic."""
    return producer.removeprefix("bridge-node-")


class Probes:
    """Questions under way; `answered` is called with a node's name and what Pulsar says."""

    def __init__(
        self,
        client: PulsarClient,
        topic: str,
        metrics: ClusterMetrics,
        answered: Callable[[str, ProbeResult], None],
    ) -> None:
        self._client = client
        self._topic = topic
        self._metrics = metrics
        self._answered = answered
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str) -> None:
        """Ask for a node's connection, unless that is being asked."""
        if name not in self._tasks:
            task = self._tasks[name] = asyncio.get_running_loop().create_task(self._ask(name), name=f"probe {name}")
            task.add_done_callback(lambda _: self._tasks.pop(name, None))

    def cancel(self) -> "list[asyncio.Task[None]]":
        """Give up what is under way; the tasks that end by it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        return tasks

    async def _ask(self, name: str) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            is_free = await self._client.is_name_free(self._topic, producer_name(name))
        except PulsarError as error:
            _log.info("= probe failed", extra={"node": name, "reason": str(error)})
            return
        result = ProbeResult.FREE if is_free else ProbeResult.BUSY
        self._metrics.probes[result.value].inc()
        seconds = round(clock() - began, 3)
        _log.info("= probe", extra={"node": name, "result": result.value, "seconds": seconds})
        self._answered(name, result)
