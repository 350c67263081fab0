"""How long the tasks of a member that is killed stay without one: a streams group of 100 tasks and 10 members.

    .venv/bin/python -m bench.streams_rebalance [--rounds 3]

The members speak the protocol as Kafka Streams does: a heartbeat as often as they are told, and one more at once when
their tasks have changed. Session time-out and heartbeat interval are the defaults of both unless others are said.
"""

import argparse
import secrets
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from bench.newest_kafka import SYSTEMS, create_topic, serving
from bridge.apis import find_coordinator, streams_group_heartbeat
from bridge.apis.streams_group_heartbeat import Request, Subtopology, Topology, task_ids
from bridge.groups.streams.model import Task
from bridge.kafka.error_codes import ErrorCode
from bridge.node.orphans import Guard
from tests.apis.wire import Connection, ask_at
from tests.support.kafka_broker import streams_group_times

TASKS, MEMBERS = 100, 10
_MOST_SECONDS = 180.0


class _Member(threading.Thread):
    """One of the application."""

    def __init__(self, address: str, group: str, topic: str, number: int) -> None:
        super().__init__(daemon=True)
        self.tasks: frozenset[Task] = frozenset()
        self.dies = threading.Event()
        self._address, self._group, self._topic, self._name = address, group, topic, f"m{number}"

    def run(self) -> None:
        epoch, interval = 0, 0.0
        with Connection(self._address, seconds=_MOST_SECONDS) as connection:
            while not self.dies.wait(interval):
                answer = connection.ask(streams_group_heartbeat.API, self._request(epoch))
                if answer.error_code:
                    if not ErrorCode(answer.error_code).retriable:
                        raise AssertionError(answer)
                    interval = 0.5
                    continue
                epoch, interval, before = answer.member_epoch, answer.heartbeat_interval_ms / 1000, self.tasks
                if answer.active_tasks is not None:
                    self.tasks = frozenset(
                        Task(one.subtopology_id, number) for one in answer.active_tasks for number in one.partitions
                    )
                if self.tasks != before:
                    interval = 0.0

    def _request(self, epoch: int) -> Request:
        request = Request(
            group_id=self._group, member_id=self._name, member_epoch=epoch, endpoint_information_epoch=-1,
            active_tasks=task_ids(self.tasks), standby_tasks=[], warmup_tasks=[],
        )  # fmt: skip
        if not epoch:
            part = Subtopology(
                subtopology_id="0", source_topics=[self._topic], source_topic_regex=[], state_changelog_topics=[],
                repartition_sink_topics=[], repartition_source_topics=[], copartition_groups=[],
            )  # fmt: skip
            request.topology, request.process_id = Topology(epoch=0, subtopologies=[part]), self._name
            request.rebalance_timeout_ms, request.active_tasks = 300_000, []
        return request


def _until_all(members: list[_Member]) -> float:
    """Seconds until each task has one member."""
    began = time.monotonic()
    while sorted(task for one in members for task in one.tasks) != [Task("0", number) for number in range(TASKS)]:
        time.sleep(0.01)
        if time.monotonic() - began > _MOST_SECONDS:
            raise AssertionError({one.name: len(one.tasks) for one in members})
    return time.monotonic() - began


def _round(address: str, heartbeat_seconds: float) -> tuple[float, float]:
    """Seconds until all tasks are given out at first, and after a member has died."""
    group = f"g-{secrets.token_hex(4)}"
    with Connection(address, seconds=_MOST_SECONDS) as admin:
        topic = create_topic(admin, TASKS)
    while ask_at(
        address, find_coordinator.API, find_coordinator.Request(coordinator_keys=[group])
    ).coordinators[0].error_code:  # fmt: skip
        time.sleep(0.1)
    members = [_Member(address, group, topic, number) for number in range(MEMBERS)]
    for one in members:
        one.start()
    first = _until_all(members)
    time.sleep(heartbeat_seconds)
    victim = members.pop()
    victim.dies.set()
    victim.join()
    after = _until_all(members)
    for one in members:
        one.dies.set()
    return first, after


def main() -> None:
    """Both stand there, and take turns."""
    parser = argparse.ArgumentParser(prog="python -m bench.streams_rebalance", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--session-ms", type=int, default=45_000)
    parser.add_argument("--heartbeat-ms", type=int, default=5000)
    options = parser.parse_args()
    bridge = {
        "groups": {
            "consumer_session_timeout_ms": options.session_ms, "consumer_heartbeat_interval_ms": options.heartbeat_ms,
        }
    }  # fmt: skip
    kafka = streams_group_times(options.session_ms, options.heartbeat_ms)
    with ExitStack() as stack:
        guard = stack.enter_context(Guard())
        addresses: dict[str, str] = {}
        for name in SYSTEMS:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            addresses[name] = stack.enter_context(serving(name, guard, work, bridge, kafka)).address
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in SYSTEMS}
        for _ in range(options.rounds):
            for name, address in addresses.items():
                found[name].append(_round(address, options.heartbeat_ms / 1000))
    for name, rounds in found.items():
        first, after = (statistics.median(ones) for ones in zip(*rounds, strict=True))
        every = ", ".join(f"{seconds:.1f}" for _, seconds in rounds)
        print(f"{name}: all tasks at first {first:.1f} s, after a kill {after:.1f} s ({every})", flush=True)


if __name__ == "__main__":
    main()
